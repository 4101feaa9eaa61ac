//! Loads of bricks from a file, beside the same reads by `io_uring`.
//!
//! Ours is what a run does whose inputs lie in a file: each of its threads loads a brick into its slot with one `pread`
//! for each piece of the brick. The peer is one thread that has as many bricks under way, and asks for all pieces of several bricks
//! in one call of the system.
//!
//! *In memory*: the system has the whole file in its page cache. *From the disk*: it was told to forget the file before each
//! round, whether or not what is below this machine did.

mod uring;

use std::fs::File;
use std::hint::black_box;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::Advice;
use umbra::stencil::field::{Brick, BrickFile, Bricks, Element, Field};
use umbra::stencil::{Source as _, Stop};
use umbra_tests::bench::{Direction, Report, Samples, Turns};

use uring::{Piece, Ring};

/// Numbers of 8 bytes: 256 MiB, more than any processor's cache.
const EXTENTS: [u32; 3] = [64, 512, 1024];
/// Slots that are filled at the same time.
const SLOTS: usize = 16;
/// Rounds of both sides.
const ROUNDS: usize = 9;
/// What one round loads.
const ROUND: u64 = 32 << 20;
const PEER: &str = "io-uring 0.7";

/// How a brick lies in the file, and its edges.
const KINDS: [(&str, [u32; 3]); 5] = [
    ("4 KiB", [1, 1, 512]),
    ("64 KiB", [1, 8, 1024]),
    ("1 MiB", [1, 128, 1024]),
    ("32 KiB in 256 pieces", [16, 16, 16]),
    ("512 KiB in 256 pieces", [16, 16, 256]),
];

fn main() -> ExitCode {
    let mut report = Report::from_args();
    match Files::new() {
        Ok(files) => KINDS.iter().for_each(|&(name, edges)| files.rows(&mut report, name, edges)),
        Err(reason) => eprintln!("note: no rows: {reason}"),
    }
    report.finish()
}

/// A field in a file, and the file once more.
struct Files {
    field: Field,
    file: File,
    /// Where its numbers begin.
    start: u64,
}

impl Files {
    fn new() -> Result<Files, Box<dyn std::error::Error>> {
        let field = Field::create(None, &EXTENTS.map(u64::from), Element::F64)?;
        field.fill(1, &Stop::default())?;
        let file = File::open(field.open_path())?;
        file.sync_all()?;
        let start = file.metadata()?.len() - field.bytes();
        Ok(Files { field, file, start })
    }

    fn rows(&self, report: &mut Report, name: &str, edges: [u32; 3]) {
        let Some(bricks) = Bricks::new(EXTENTS, edges) else { return };
        let source = BrickFile { field: &self.field, bricks };
        for (place, threads) in [("in memory, one thread", 1), ("in memory", SLOTS), ("from the disk", SLOTS)] {
            let case = format!("{name}, {place}");
            let from_disk = place == "from the disk";
            if !report.wants(&case) {
                continue;
            }
            if from_disk && self.field.in_memory() {
                eprintln!("note: no row {case}: files lie in memory here");
                continue;
            }
            match self.turns(source, threads, from_disk) {
                Ok(turns) => drop(report.row(turns.row(&case, PEER, "us/brick", Direction::LowerIsBetter))),
                Err(reason) => eprintln!("note: no row {case}: {reason}"),
            }
        }
    }

    /// Both sides in turns, each with the same bricks in the same order.
    fn turns(
        &self,
        source: BrickFile<'_>,
        threads: usize,
        from_disk: bool,
    ) -> Result<Turns, Box<dyn std::error::Error>> {
        let bytes = source.bricks.points_of_one() as usize * size_of::<f64>();
        let mut ring = Ring::new(self.file.try_clone()?, SLOTS, bytes)?;
        let count = (ROUND / bytes as u64).min(source.bricks.count());
        let (mut ours, mut peer, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        // The first round brings everything into memory, or warms what else there is.
        for round in 0..=ROUNDS {
            let asked: Vec<u64> = some_of(source.bricks.count(), count, round as u64).collect();
            let mut took = [Duration::ZERO; 2];
            for side in [round % 2, 1 - round % 2] {
                if from_disk {
                    rustix::fs::fadvise(&self.file, 0, None, Advice::DontNeed)?;
                }
                let begun = Instant::now();
                if side == 0 {
                    load_all(source, &asked, threads, bytes)?;
                } else {
                    ring.load(
                        asked.iter().filter_map(|&data| source.bricks.brick(data)).map(|brick| self.pieces(brick)),
                    )?;
                }
                took[side] = begun.elapsed();
            }
            if round > 0 {
                let [our_time, peer_time] = took.map(|took| took.as_secs_f64() * 1e6 / count as f64);
                ours.push(our_time);
                peer.push(peer_time);
                ratios.push(peer_time / our_time);
            }
        }
        let samples = |readings| Samples::new(readings).ok_or("no round");
        Ok(Turns { ours: samples(ours)?, peer: samples(peer)?, ratios: samples(ratios)? })
    }

    /// Where a brick lies in the file: as few pieces as possible.
    fn pieces(&self, brick: Brick) -> impl Iterator<Item = Piece> {
        let [x, y, z] = brick.corner.map(u64::from);
        let [planes, lines, points] = brick.lengths.map(u64::from);
        let [_, width, depth] = EXTENTS.map(u64::from);
        // Whole lines follow each other.
        let (pieces, length) = if points == depth { (1, lines * points) } else { (lines, points) };
        let bytes = size_of::<f64>() as u64;
        (x..x + planes)
            .flat_map(move |x| (y..y + pieces).map(move |y| (x * width + y) * depth + z))
            .map(move |point| Piece { offset: self.start + point * bytes, bytes: (length * bytes) as u32 })
    }
}

/// Loads these bricks, each by one of so many threads into its own slot.
fn load_all(
    source: BrickFile<'_>,
    asked: &[u64],
    threads: usize,
    bytes: usize,
) -> Result<(), Box<dyn std::error::Error>> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut slot = vec![0; bytes];
        while let Some(&data) = asked.get(next.fetch_add(1, Ordering::Relaxed)) {
            source.load(data, &mut slot, Instant::now())?;
            black_box(&slot);
        }
        Ok(())
    };
    if threads == 1 {
        return work();
    }
    thread::scope(|scope| {
        let loaders: Vec<_> = (0..threads)
            .map(|_| scope.spawn(|| work().map_err(|error: Box<dyn std::error::Error>| error.to_string())))
            .collect();
        for loader in loaders {
            loader.join().map_err(|_| "a thread panicked")??;
        }
        Ok(())
    })
}

/// So many different ones of all, scattered; others with each seed.
fn some_of(all: u64, count: u64, seed: u64) -> impl Iterator<Item = u64> {
    // All counts are powers of two, and an odd step goes through all numbers below one.
    let step = (all / 2 + all / 8) | 1;
    (0..count).map(move |nth| (seed * 977 + nth.wrapping_mul(step)) % all)
}
