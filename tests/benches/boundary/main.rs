//! Exchanges of mostly empty strips beside the same over MPI.
//!
//! Two ranks exchange many strips each way, of which nine in ten hold nothing; which ones changes with each exchange. Each
//! strip is of a field of its own, as in the peer each has arrays of its own: one that holds nothing is not looked through,
//! and set to the default only where the receiver has the field because it sends in it, which the peer need not do. In the
//! rows *two of a field*, without a bar, a field has a strip on both sides of its block, so that beside one that holds
//! something the other is looked through and set to the default; the peer knows beforehand and leaves it out.
//!
//! Our ranks are two threads that attach the shared memory each for itself, so they map it at different addresses; those of
//! MPI are two processes that `mpirun` starts in the same session, before and after ours, so that drift hits both. Both sides
//! check in every exchange, inside the measured time, that the right strips came with the right values. Figures are tenth
//! percentiles of batches of exchanges.
//!
//! The peer is `over_mpi.c`, built by `mpicc`; without that its rows are left out.

#![forbid(unsafe_code)]
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a bench that cannot be set up ends")]

mod over_mpi;
mod strips;

use std::fmt::Display;
use std::sync::Arc;

use umbra::boundary::{Boundary, Extent, Fabric, Field, Settings, largest_message};
use umbra::sys::segment::{Mapping, Segment};
use umbra_core::atomic::{AtomicU64, Ordering};
use umbra_core::boundary::Sparse;
use umbra_tests::bench::{Clock, Direction, Report, Row, Samples, cores, pin};

use over_mpi::Peer;
use strips::{Pair, Strips};

const LOWER: Direction = Direction::LowerIsBetter;

/// How much is exchanged, and how often.
#[derive(Clone, Copy, Debug)]
struct Case {
    channels: u32,
    bytes: u32,
    /// Of a field.
    sides: u32,
    batches: usize,
    exchanges: u32,
}

/// What one side needs.
#[derive(Clone, Copy, Debug)]
struct Figures {
    /// Microseconds of an exchange.
    time: f64,
    /// Bytes kept to receive into: theirs at most, ours as it was at the end of half of the batches.
    memory: f64,
}

/// Both ranks wait here for each other.
fn meet(count: &AtomicU64, meetings: &mut u64) {
    *meetings += 1;
    count.fetch_add(1, Ordering::AcqRel);
    while count.load(Ordering::Acquire) < *meetings * 2 {
        std::hint::spin_loop();
    }
}

/// Runs one rank; microseconds of each batch, and the memory that its peer could fill at its end.
fn rank(case: Case, mut boundary: Boundary<Fabric>, rank: u32, meeting: &AtomicU64) -> (Vec<f64>, Vec<f64>) {
    let mut strips = Strips::new(rank, case.channels, case.bytes, case.sides);
    let (clock, mut times, mut memory, mut meetings) = (Clock::new(), Vec::new(), Vec::new(), 0);
    // The first batch warms up.
    for batch in 0..=case.batches {
        meet(meeting, &mut meetings);
        let begun = clock.now();
        for _ in 0..case.exchanges {
            strips.touch();
            boundary.exchange(&mut strips).unwrap_or_else(|error| panic!("rank {rank}: {error}"));
            strips.check();
        }
        meet(meeting, &mut meetings);
        if batch > 0 {
            memory.push(boundary.receive_bytes().0 as f64);
            times.push(clock.nanoseconds(begun, clock.now()) as f64 / 1e3 / f64::from(case.exchanges));
        }
    }
    (times, memory)
}

/// Both ranks, on the first and the last core.
fn ours(case: Case, cores: &[usize]) -> Figures {
    let fields = vec![Field::sparse(Sparse::new(1e-12, 1e-14, 0.0).unwrap()); (case.channels / case.sides) as usize];
    let pair = Pair::new(case.bytes, case.sides);
    let extent = Extent { ranks: 2, slots: 2, message: largest_message(&pair, &fields, 2) };
    let segment = Fabric::segment(extent).unwrap();
    let meeting = AtomicU64::new(0);
    let run = |number: u32, core: Option<&usize>| {
        if let Some(core) = core {
            let _ = pin(*core);
        }
        let mapped = Segment::attach(segment.share().unwrap(), Mapping::ReadWrite, extent.bytes()).unwrap();
        let fabric = Fabric::attach(Arc::new(mapped), extent, number).unwrap();
        let boundary = Boundary::build(&pair, &fields, fabric, Settings::default()).unwrap();
        rank(case, boundary, number, &meeting)
    };
    let (times, memory) = std::thread::scope(|scope| {
        let other = scope.spawn(|| run(1, cores.first()));
        let (times, memory) = run(0, cores.last());
        let theirs = other.join().unwrap().1;
        (times, memory.into_iter().chain(theirs).collect())
    });
    let percentile = |of, percent| Samples::new(of).map_or(f64::NAN, |samples| samples.percentile(percent));
    Figures { time: percentile(times, 10.0), memory: percentile(memory, 50.0) }
}

struct Bench {
    report: Report,
    cores: Vec<usize>,
    peer: Result<Peer, String>,
}

impl Bench {
    /// One amount, with the bars of its time: against early receives, and against one message.
    fn case(&mut self, case: Case, bars: Option<[f64; 2]>) {
        let two = if case.sides == 2 { ", two of a field" } else { "" };
        let name = format!("{} strips of {} B{two}", case.channels, case.bytes);
        if !self.report.wants(&name) {
            return;
        }
        let before = self.peer.as_ref().map(|peer| peer.run(case));
        let ours = ours(case, &self.cores);
        let after = self.peer.as_ref().map(|peer| peer.run(case));
        let (before, after) = match (before, after) {
            (Ok(Ok(before)), Ok(Ok(after))) => (before, after),
            (Err(reason), _) => return self.skip(&name, &ours, reason.clone()),
            (Ok(Err(reason)), _) | (_, Ok(Err(reason))) => return self.skip(&name, &ours, reason),
            (_, Err(reason)) => return self.skip(&name, &ours, reason.clone()),
        };
        for (nth, mode) in [over_mpi::EARLY, over_mpi::SLOT].into_iter().enumerate() {
            let time = (before[nth].time + after[nth].time) / 2.0;
            let entry = self.report.row(Row::new(&name, ours.time, time, mode, "us", LOWER));
            if let Some(bars) = bars {
                entry.bar(bars[nth]);
            }
        }
        let case = format!("{name}, memory to receive");
        let row = Row::new(&case, ours.memory, before[0].memory, over_mpi::EARLY, "B", LOWER);
        self.report.row(row).bar(1.0 / 0.3);
    }

    fn skip(&self, name: &str, ours: &Figures, reason: impl Display) {
        let Figures { time, memory } = ours;
        self.report.note(format_args!("{name}: ours {time:.2} us, {memory} B; beside MPI skipped: {reason}"));
    }
}

fn main() {
    let report = Report::from_args();
    let cores = cores().unwrap_or_default();
    if cores.len() < 2 {
        report.note("skipped: two ranks need two cores");
        return;
    }
    let mut bench = Bench { report, cores, peer: Peer::build() };
    let case = |channels, bytes, batches, exchanges| Case { channels, bytes, sides: 1, batches, exchanges };
    let cases = [case(64, 512, 201, 20), case(64, 8192, 201, 20), case(64, 131_072, 101, 4), case(1024, 512, 61, 10)];
    for (case, bar) in cases.into_iter().zip([6.0, 2.3, 1.5, 20.0]) {
        bench.case(case, Some([bar, 1.0]));
    }
    for case in cases {
        bench.case(Case { sides: 2, ..case }, None);
    }
    bench.report.finish();
}
