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
//! In one row there are four ranks on each core, in pairs of which each does such exchanges: whoever waits has to let
//! others run. The peer is the fastest of those that have a message for each strip.
//!
//! In the rows *MpiSlot* ours are two processes that `mpirun` starts, too, and exchange the same over `umbra_mpi::MpiSlot`. The
//! last rows are those of the reference case of the demonstrator, sparse beside dense.
//!
//! What the specification of boundary exchange asks for at least (its section 4.4 and scenarios 42 and 46) is a gate: where it
//! is not reached the bench fails. Other bars are higher.
//!
//! The peer is `over_mpi.c`, built by `mpicc`; without that its rows are left out, and without a build of the example
//! `mostly_empty` of `host/mpi` those of MpiSlot.

#![forbid(unsafe_code)]
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a bench that cannot be set up ends")]

mod over_mpi;
mod reference;
mod strips;

use std::fmt::Display;
use std::process::ExitCode;
use std::sync::Arc;

use umbra::boundary::{Boundary, Extent, Fabric, Field, Settings, largest_message};
use umbra::sys::segment::{Mapping, Segment};
use umbra_core::atomic::{AtomicU64, Ordering};
use umbra_core::boundary::Sparse;
use umbra_tests::bench::{Clock, Direction, Report, Row, Samples, cores, pin};

use over_mpi::Peer;
use strips::{Pair, Strips};

/// With so many strips, of any size, this ratio to early receives is the bar of a transport that never calls MPI.
const RING: (u32, f64) = (64, 2.5);
/// What ours needs at most to receive into, of what early receives need.
const MEMORY: f64 = 0.3;
/// Slots of a rank of two, and bytes of the pages that they take.
const SLOTS: f64 = 2.0;
const PAGE: f64 = 4096.0;
const LOWER: Direction = Direction::LowerIsBetter;

/// How much is exchanged, and how often.
#[derive(Clone, Copy, Debug)]
struct Case {
    channels: u32,
    bytes: u32,
    /// Of a field.
    sides: u32,
    /// Pairs of ranks.
    pairs: u32,
    batches: usize,
    exchanges: u32,
}

/// What one side needs.
#[derive(Clone, Copy, Debug)]
struct Figures {
    /// Microseconds of an exchange.
    time: f64,
    /// Bytes kept to receive into: theirs at most, ours what they announced at the end of half of the batches.
    memory: f64,
    /// Bytes that ours held to receive into at the end of half of the batches.
    held: f64,
}

/// All ranks wait here for each other.
fn meet(count: &AtomicU64, meetings: &mut u64, pairs: u32) {
    *meetings += 1;
    count.fetch_add(1, Ordering::AcqRel);
    while count.load(Ordering::Acquire) < *meetings * 2 * u64::from(pairs) {
        if pairs > 1 { std::thread::yield_now() } else { std::hint::spin_loop() }
    }
}

/// Runs one rank; what each batch needed.
fn rank(case: Case, mut boundary: Boundary<Fabric>, rank: u32, meeting: &AtomicU64) -> Vec<Figures> {
    let mut strips = Strips::new(rank, case.channels, case.bytes, case.sides);
    let (clock, mut figures, mut meetings) = (Clock::new(), Vec::new(), 0);
    // The first batch warms up.
    for batch in 0..=case.batches {
        meet(meeting, &mut meetings, case.pairs);
        let begun = clock.now();
        for _ in 0..case.exchanges {
            strips.touch();
            boundary.exchange(&mut strips).unwrap_or_else(|error| panic!("rank {rank}: {error}"));
            strips.check();
        }
        meet(meeting, &mut meetings, case.pairs);
        if batch > 0 {
            let time = clock.nanoseconds(begun, clock.now()) as f64 / 1e3 / f64::from(case.exchanges);
            let held = boundary.held().map_or(f64::NAN, |held| held.receive as f64);
            figures.push(Figures { time, memory: boundary.receive_bytes().0 as f64, held });
        }
    }
    figures
}

/// All ranks: two on the first and the last core, more wherever there is room.
fn ours(case: Case, cores: &[usize]) -> Figures {
    let fields = vec![Field::sparse(Sparse::new(1e-12, 1e-14, 0.0).unwrap()); (case.channels / case.sides) as usize];
    let pair = Pair::new(case.bytes, case.sides);
    let extent = Extent { ranks: 2, slots: 2, message: largest_message(&pair, &fields, 2) };
    let segments: Vec<Segment> = (0..case.pairs).map(|_| Fabric::segment(extent).unwrap()).collect();
    let meeting = AtomicU64::new(0);
    let run = |segment: &Segment, number: u32, core: Option<&usize>| {
        if let Some(core) = core.filter(|_| case.pairs == 1) {
            let _ = pin(*core);
        }
        let mapped = Segment::attach(segment.share().unwrap(), Mapping::ReadWrite, extent.bytes()).unwrap();
        let fabric = Fabric::attach(Arc::new(mapped), extent, number).unwrap();
        let boundary = Boundary::build(&pair, &fields, fabric, Settings::default()).unwrap();
        rank(case, boundary, number, &meeting)
    };
    let figures = std::thread::scope(|scope| {
        let run = &run;
        let pair = |segment| [(0, cores.last()), (1, cores.first())].map(|(number, core)| (segment, number, core));
        // None of them is this thread: what it is bound to the peer is bound to as well.
        let ranks = segments.iter().flat_map(pair);
        let ranks: Vec<_> =
            ranks.map(|(segment, number, core)| scope.spawn(move || run(segment, number, core))).collect();
        ranks.into_iter().flat_map(|rank| rank.join().unwrap()).collect::<Vec<Figures>>()
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

struct Bench {
    report: Report,
    /// Something is worse than the specification allows.
    failed: bool,
    cores: Vec<usize>,
    peer: Result<Peer, String>,
}

impl Bench {
    /// Both sides of a case; `None` if it is not wanted or the peer is missing, which is noted.
    fn figures(&self, name: &str, case: Case) -> Option<(Figures, [Figures; 3])> {
        self.beside(name, case, || Ok(ours(case, &self.cores)))
    }

    /// The same with whatever measures ours.
    fn beside(
        &self,
        name: &str,
        case: Case,
        ours: impl FnOnce() -> Result<Figures, String>,
    ) -> Option<(Figures, [Figures; 3])> {
        if !self.report.wants(name) {
            return None;
        }
        let before = self.peer.as_ref().map(|peer| peer.run(case));
        let ours = match ours() {
            Ok(ours) => ours,
            Err(reason) => {
                self.report.note(format_args!("{name}: skipped: {reason}"));
                return None;
            }
        };
        let after = self.peer.as_ref().map(|peer| peer.run(case));
        match (before, after) {
            (Ok(Ok(before)), Ok(Ok(after))) => {
                let mean = |nth: usize| Figures { time: (before[nth].time + after[nth].time) / 2.0, ..before[nth] };
                return Some((ours, [mean(0), mean(1), mean(2)]));
            }
            (Err(reason), _) | (_, Err(reason)) => self.skip(name, &ours, reason),
            (Ok(Err(reason)), _) | (_, Ok(Err(reason))) => self.skip(name, &ours, reason),
        }
        None
    }

    /// The bench fails below this ratio.
    fn gate(&mut self, name: &str, ratio: f64, least: f64) {
        if !ratio.ge(&least) {
            self.report.note(format_args!("{name}: FAILED, ratio {ratio:.2}, {least:.2} is the least"));
            self.failed = true;
        }
    }

    /// One amount, with the bars of its time: against early receives, and against one message; and what the first must be
    /// at least. What the specification asks of a ring without any call of MPI on its way has a row of its own.
    fn case(&mut self, case: Case, bars: Option<[f64; 2]>, least: Option<f64>) {
        let two = if case.sides == 2 { ", two of a field" } else { "" };
        let name = format!("{} strips of {} B{two}", case.channels, case.bytes);
        let Some((ours, [early, _, slot])) = self.figures(&name, case) else { return };
        for (nth, (peer, mode)) in [(early, over_mpi::EARLY), (slot, over_mpi::SLOT)].into_iter().enumerate() {
            let entry = self.report.row(Row::new(&name, ours.time, peer.time, mode, "us", LOWER));
            if let Some(bars) = bars {
                entry.bar(bars[nth]);
            }
        }
        if bars.is_some() && case.channels == RING.0 {
            let ring = format!("{name}, as a ring");
            self.report.row(Row::new(&ring, ours.time, early.time, over_mpi::EARLY, "us", LOWER)).bar(RING.1);
        }
        self.memory(&name, &ours, &early, true);
        if let Some(least) = least {
            self.gate(&name, early.time / ours.time, least);
        }
    }

    /// One amount over MPI on both sides, with the bar of its time against early receives, which may be the least, too.
    fn slot(&mut self, case: Case, bar: f64, is_least: bool) {
        let name = format!("{} strips of {} B, MpiSlot", case.channels, case.bytes);
        let Some((ours, [early, _, slot])) = self.beside(&name, case, || over_mpi::ours(case)) else { return };
        self.report.row(Row::new(&name, ours.time, early.time, over_mpi::EARLY, "us", LOWER)).bar(bar);
        self.report.row(Row::new(&name, ours.time, slot.time, over_mpi::SLOT, "us", LOWER));
        self.memory(&name, &ours, &early, false);
        if is_least {
            self.gate(&name, early.time / ours.time, bar);
        }
    }

    /// What was announced and what was held, each of which has its gate. Where two slots are less than `MEMORY` but their whole pages
    /// are not, the gate is that no more than these are held.
    fn memory(&mut self, name: &str, ours: &Figures, early: &Figures, in_pages: bool) {
        let (announced, held) = (format!("{name}, memory announced"), format!("{name}, memory held"));
        let row = |name: &str, ours, peer, whose| Row::new(name, ours, peer, whose, "B", LOWER);
        self.report.row(row(&announced, ours.memory, early.memory, over_mpi::EARLY)).bar(1.0 / MEMORY);
        self.gate(&announced, early.memory / ours.memory, 1.0 / MEMORY);
        let pages = SLOTS * (ours.memory / SLOTS / PAGE).ceil() * PAGE;
        let entry = self.report.row(row(&held, ours.held, early.held, over_mpi::EARLY));
        if in_pages && pages > early.held * MEMORY {
            let name = format!("{held}, beside whole pages");
            self.report.row(row(&name, ours.held, pages, "slots as announced, in whole pages")).bar(1.0);
            self.gate(&name, pages / ours.held, 1.0);
        } else {
            entry.bar(1.0 / MEMORY);
            self.gate(&held, early.held / ours.held, 1.0 / MEMORY);
        }
    }

    /// Four ranks on a core.
    fn crowd(&mut self, case: Case) {
        let name = format!(
            "{} ranks on {} cores, {} strips of {} B",
            2 * case.pairs,
            self.cores.len(),
            case.channels,
            case.bytes
        );
        let Some((ours, [_, some, _])) = self.figures(&name, case) else { return };
        self.report.row(Row::new(&name, ours.time, some.time, over_mpi::SOME, "us", LOWER)).bar(1.0);
        self.gate(&name, some.time / ours.time, 1.0);
    }

    fn skip(&self, name: &str, ours: &Figures, reason: impl Display) {
        let Figures { time, memory, held } = ours;
        self.report.note(format_args!(
            "{name}: ours {time:.2} us, {memory} B announced, {held} B held; beside MPI skipped: {reason}"
        ));
    }
}

fn main() -> ExitCode {
    let report = Report::from_args();
    let cores = cores().unwrap_or_default();
    if cores.len() < 2 {
        report.note("skipped: two ranks need two cores");
        return ExitCode::SUCCESS;
    }
    let mut bench = Bench { report, failed: false, cores, peer: Peer::build() };
    let case = |channels, bytes, batches, exchanges| Case { channels, bytes, sides: 1, pairs: 1, batches, exchanges };
    let cases = [case(64, 512, 201, 20), case(64, 8192, 201, 20), case(64, 131_072, 101, 4), case(1024, 512, 61, 10)];
    for (case, (bar, least)) in cases.into_iter().zip([(6.0, Some(2.0)), (2.3, None), (1.5, Some(1.0)), (20.0, None)]) {
        bench.case(case, Some([bar, 1.0]), least);
    }
    for case in cases {
        bench.case(Case { sides: 2, ..case }, None, None);
    }
    for (case, (bar, is_least)) in cases.into_iter().zip([(2.0, true), (2.3, false), (1.0, true)]) {
        bench.slot(case, bar, is_least);
    }
    let pairs = 2 * bench.cores.len() as u32;
    bench.crowd(Case { pairs, ..case(64, 512, 31, 6) });
    reference::rows(&mut bench);
    bench.report.finish();
    if bench.failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
