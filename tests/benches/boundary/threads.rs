//! Our ranks: threads that exchange over shared memory, and what that needs.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use umbra::boundary::{Boundary, Extent, Fabric, Field, Fields, Mesh, Settings, largest_message};
use umbra::sys::segment::{Mapping, Segment};
use umbra_core::atomic::{AtomicU64, Ordering};
use umbra_core::boundary::Sparse;
use umbra_tests::bench::{Clock, Samples, pin};

use crate::ring::{Ring, Sides};
use crate::strips::{Pair, Strips};

/// How long ranks wait for each other, be it for a message.
const PATIENCE: Duration = Duration::from_secs(60);

/// How much is exchanged, and how often.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    /// Strips that a rank sends.
    pub(crate) channels: u32,
    pub(crate) bytes: u32,
    /// Strips of a field.
    pub(crate) sides: u32,
    /// Two, or more in a ring.
    pub(crate) ranks: u32,
    pub(crate) batches: usize,
    pub(crate) exchanges: u32,
}

/// What one side needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figures {
    /// Microseconds of an exchange.
    pub(crate) time: f64,
    /// Bytes kept to receive into: theirs at most, ours what they announced at the end of half of the batches.
    pub(crate) memory: f64,
    /// The same in whole pages; ours what they held at the end of half of the batches.
    pub(crate) held: f64,
}

impl Figures {
    /// The median of each figure of some runs.
    pub(crate) fn middle(runs: &[Figures]) -> Figures {
        let of = |figure: fn(&Figures) -> f64| {
            Samples::new(runs.iter().map(figure).collect()).map_or(f64::NAN, |runs| runs.median())
        };
        Figures { time: of(|run| run.time), memory: of(|run| run.memory), held: of(|run| run.held) }
    }
}

/// Where ranks wait for each other.
pub(crate) struct Meeting {
    came: AtomicU64,
    ranks: u64,
}

impl Meeting {
    pub(crate) const fn new(ranks: u32) -> Meeting {
        Meeting { came: AtomicU64::new(0), ranks: ranks as u64 }
    }

    /// Waits for all others, who may be slow, but not for ever: one that has failed does not come.
    pub(crate) fn wait(&self, rank: u32, met: &mut u64) {
        *met += 1;
        self.came.fetch_add(1, Ordering::AcqRel);
        let mut begun = None;
        for look in 1u64.. {
            if self.came.load(Ordering::Acquire) >= *met * self.ranks {
                return;
            }
            if self.ranks > 2 {
                thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
            if look.is_multiple_of(1 << 12) {
                let waited = begun.get_or_insert_with(Instant::now).elapsed();
                assert!(
                    waited < PATIENCE,
                    "rank {rank}: after {PATIENCE:?} some rank has not come; what it says is above"
                );
            }
        }
    }
}

/// Strips of a rank that check what comes.
pub(crate) trait Checked: Fields {
    /// New values for the next exchange.
    fn touch(&mut self);
    /// What came is what the others had.
    fn check(&self);
}

impl Checked for Strips {
    fn touch(&mut self) {
        Strips::touch(self);
    }

    fn check(&self) {
        Strips::check(self);
    }
}

/// So many sparse fields.
pub(crate) fn fields(count: u32) -> Vec<Field> {
    vec![Field::sparse(Sparse::new(1e-12, 1e-14, 0.0).unwrap()); count as usize]
}

pub(crate) fn settings() -> Settings {
    Settings { deadline: Some(PATIENCE), ..Settings::default() }
}

/// The memory of a segment as another rank maps it.
pub(crate) fn attach(segment: &Segment) -> Arc<Segment> {
    Arc::new(Segment::attach(segment.share().unwrap(), Mapping::ReadWrite, segment.len()).unwrap())
}

/// Runs each rank in a thread; of two, the first is bound to the last core, and the other to the first. None of them is this
/// thread: what it is bound to the peer is bound to as well.
pub(crate) fn all<T: Send>(ranks: u32, cores: &[usize], run: impl Fn(u32) -> Vec<T> + Sync) -> Vec<T> {
    let (run, bound) = (&run, [cores.last(), cores.first()]);
    thread::scope(|scope| {
        let start = |rank: u32| {
            scope.spawn(move || {
                if let Some(core) = bound.get(rank as usize).copied().flatten().filter(|_| ranks == 2) {
                    let _ = pin(*core);
                }
                run(rank)
            })
        };
        let ranks: Vec<_> = (0..ranks).map(start).collect();
        ranks.into_iter().flat_map(|rank| rank.join().unwrap()).collect()
    })
}

/// What ours needs: two ranks with a block each, or a ring.
pub(crate) fn ours(case: Case, cores: &[usize]) -> Figures {
    if case.ranks == 2 {
        let strips = |rank| Strips::new(rank, case.channels, case.bytes, case.sides);
        measure(case, cores, &Pair::new(case.bytes, case.sides), case.channels / case.sides, strips)
    } else {
        let strips = |rank| Sides::new(rank, case.ranks, case.channels, case.bytes);
        measure(case, cores, &Ring::new(case.ranks, case.bytes), case.channels / 2, strips)
    }
}

fn measure<S: Checked>(
    case: Case,
    cores: &[usize],
    mesh: &(impl Mesh + Sync),
    count: u32,
    strips: impl Fn(u32) -> S + Sync,
) -> Figures {
    let fields = fields(count);
    let extent = Extent { ranks: case.ranks, slots: 2, message: largest_message(mesh, &fields, case.ranks) };
    let segment = Fabric::segment(extent).unwrap();
    let meeting = Meeting::new(case.ranks);
    let figures = all(case.ranks, cores, |rank| {
        let fabric = Fabric::attach(attach(&segment), extent, rank).unwrap();
        let boundary = Boundary::build(mesh, &fields, fabric, settings()).unwrap();
        batches(case, boundary, strips(rank), rank, &meeting)
    });
    let percentile = |of: fn(&Figures) -> f64, percent| {
        Samples::new(figures.iter().map(of).collect()).map_or(f64::NAN, |samples| samples.percentile(percent))
    };
    Figures {
        time: percentile(|of| of.time, 10.0),
        memory: percentile(|of| of.memory, 50.0),
        held: percentile(|of| of.held, 50.0),
    }
}

/// Runs one rank; what each batch needed.
fn batches(
    case: Case,
    mut boundary: Boundary<Fabric>,
    mut strips: impl Checked,
    rank: u32,
    meeting: &Meeting,
) -> Vec<Figures> {
    let (clock, mut figures, mut met) = (Clock::new(), Vec::new(), 0);
    // The first batch warms up.
    for batch in 0..=case.batches {
        meeting.wait(rank, &mut met);
        let begun = clock.now();
        for _ in 0..case.exchanges {
            strips.touch();
            boundary.exchange(&mut strips).unwrap_or_else(|error| panic!("rank {rank}: {error}"));
            strips.check();
        }
        meeting.wait(rank, &mut met);
        if batch > 0 {
            let time = clock.nanoseconds(begun, clock.now()) as f64 / 1e3 / f64::from(case.exchanges);
            let held = boundary.held().map_or(f64::NAN, |held| held.receive as f64);
            figures.push(Figures { time, memory: boundary.receive_bytes().0 as f64, held });
        }
    }
    figures
}
