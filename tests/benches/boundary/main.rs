//! Exchanges of mostly empty strips beside the same over MPI.
//!
//! Two ranks exchange many strips each way, of which nine in ten hold nothing; which ones changes with each exchange. Each
//! strip is of a field of its own, as in the peer each has arrays of its own: one that holds nothing is not looked through,
//! and set to the default only where the receiver has the field because it sends in it, which the peer need not do. In the
//! rows *two of a field* a field has a strip on both sides of its block, so that beside one that holds something the other is
//! looked through and set to the default; the peer knows beforehand and leaves it out, so these rows have no bar of time.
//!
//! Our ranks are two threads that attach the shared memory each for itself, so they map it at different addresses; those of
//! MPI are two processes that `mpirun` starts in the same session. They run in turn, so that drift hits both, and a figure is the
//! median of these runs. Both sides check in every exchange, inside the measured time, that the right strips came with the right
//! values. The figures of a run are tenth percentiles of batches of exchanges. Memory is what a rank has announced to take, and
//! what its end of the shared memory held, in whole pages, which is looked at between batches.
//!
//! In one row there are four ranks on each core, in a ring: each sends half of its strips to each of two neighbours, and whoever
//! waits has to let others run. The peer is the fastest of those that have a message for each strip.
//!
//! In the rows *MpiSlot* and *MpiNodes* ours are two processes that `mpirun` starts, too, and exchange the same over what has that
//! name in `umbra_mpi`. The rows *overlap* are about a rank that computes between sending and receiving, with an agent and without, and the last ones are
//! those of the reference case of the demonstrator, sparse beside dense.
//!
//! Each bar is a gate: the bench fails where one is not reached.
//!
//! The peer is `over_mpi.c`, built by `mpicc`. Where that is missing, or a build of the example `mostly_empty` of `host/mpi`,
//! rows say that it was not run: they have `null` for a figure, and no bar.

#![forbid(unsafe_code)]
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a bench that cannot be set up ends")]

mod over_mpi;
mod overlap;
mod reference;
mod ring;
mod strips;
mod threads;

use std::process::ExitCode;

use umbra_tests::bench::{Direction, Report, Row, cores};

use over_mpi::{ALL, COALESCED, EARLY, Mode, OVER_NODES, OVER_SLOT, Over, Peer, SLOT, SOME};
use threads::{Case, Figures, ours};

/// What ours needs at most to receive into, of what early receives need.
const MEMORY: f64 = 0.3;
/// Slots of a rank of two, and bytes of the pages that they take.
const SLOTS: f64 = 2.0;
const PAGE: f64 = 4096.0;
/// How often ours runs, with memory of its own each time, between runs of the peer: which pages it gets decides how they share the
/// sets of a cache, by up to a quarter of the time.
const ROUNDS: usize = 3;
const LOWER: Direction = Direction::LowerIsBetter;

struct Bench {
    report: Report,
    cores: Vec<usize>,
    peer: Result<Peer, String>,
}

impl Bench {
    /// Ours and modes of the peer, in turn: the medians of their rounds. What could not be run has a row that says so.
    fn beside(
        &mut self,
        name: &str,
        case: Case,
        modes: &[Mode],
        ours: impl Fn(&Bench) -> Result<Figures, String>,
    ) -> Option<(Figures, Vec<Figures>)> {
        if !self.report.wants(name) {
            return None;
        }
        let run = |bench: &Bench| bench.peer.as_ref().map_err(Clone::clone)?.run(case, modes);
        let (mut of_ours, mut of_peers) = (Vec::new(), vec![run(self)]);
        for _ in 0..ROUNDS {
            match ours(self) {
                Ok(ours) => of_ours.push(ours),
                Err(reason) => {
                    let case = format!("ours not run: {reason}");
                    self.report.row(Row::new(name, f64::NAN, f64::NAN, &case, "us", LOWER));
                    return None;
                }
            }
            of_peers.push(run(self));
        }
        let ours = Figures::middle(&of_ours);
        match of_peers.into_iter().collect::<Result<Vec<_>, _>>() {
            Ok(rounds) => {
                let of_mode = |mode| rounds.iter().map(|modes| modes[mode]).collect::<Vec<_>>();
                Some((ours, (0..modes.len()).map(|mode| Figures::middle(&of_mode(mode))).collect()))
            }
            Err(reason) => {
                self.report.row(Row::new(name, ours.time, f64::NAN, &format!("MPI not run: {reason}"), "us", LOWER));
                None
            }
        }
    }

    /// Rows of one amount, each beside a mode with its bar, if it has one; the first of the modes are early receives.
    fn rows(&mut self, name: &str, modes: &[(Mode, Option<f64>)], (ours, peers): &(Figures, Vec<Figures>)) {
        for ((mode, bar), peer) in modes.iter().zip(peers) {
            let added = self.report.row(Row::new(name, ours.time, peer.time, mode.1, "us", LOWER));
            if let Some(bar) = *bar {
                added.bar(bar);
            }
        }
    }

    /// One amount over shared memory. With a bar against early receives, it also has those against one message into a slot and
    /// against two that gather strips.
    fn case(&mut self, case: Case, early: Option<f64>) {
        let two = if case.sides == 2 { ", two of a field" } else { "" };
        let name = format!("{} strips of {} B{two}", case.channels, case.bytes);
        let modes = if early.is_some() { &ALL[..] } else { &ALL[..2] };
        let Some(figures) = self.beside(&name, case, modes, |bench| Ok(ours(case, &bench.cores))) else { return };
        let bar = |mode| match (mode, early) {
            (EARLY, bar) => bar,
            (SLOT, Some(_)) => Some(1.0),
            (COALESCED, Some(_)) => Some(1.6),
            _ => None,
        };
        let modes: Vec<_> = modes.iter().map(|&mode| (mode, bar(mode))).collect();
        self.rows(&name, &modes, &figures);
        self.memory(&name, &figures.0, &figures.1[0], true);
    }

    /// One amount under `mpirun` on both sides, with the bar of its time against early receives.
    fn mpi(&mut self, case: Case, over: Over, bar: f64) {
        let name = format!("{} strips of {} B, {}", case.channels, case.bytes, over.name);
        let ours = |_: &Bench| over_mpi::ours(case, over);
        let Some(figures) = self.beside(&name, case, &[EARLY, SLOT, COALESCED], ours) else { return };
        self.rows(&name, &[(EARLY, Some(bar)), (SLOT, None), (COALESCED, Some(over.gathered))], &figures);
        self.memory(&name, &figures.0, &figures.1[0], over.in_pages);
    }

    /// What was announced and what was held. Where two slots are less than the peer may have, but their whole pages are not, the
    /// bar is that no more than these are held.
    fn memory(&mut self, name: &str, ours: &Figures, early: &Figures, in_pages: bool) {
        let (announced, held) = (format!("{name}, memory announced"), format!("{name}, memory held"));
        let row = |name: &str, ours, peer, whose| Row::new(name, ours, peer, whose, "B", LOWER);
        self.report.row(row(&announced, ours.memory, early.memory, EARLY.1)).bar(1.0 / MEMORY);
        let pages = SLOTS * (ours.memory / SLOTS / PAGE).ceil() * PAGE;
        if in_pages && pages > early.held * MEMORY {
            self.report.row(row(&held, ours.held, early.held, EARLY.1));
            self.report.row(row(&held, ours.held, pages, "slots as announced, in whole pages")).bar(1.0);
        } else {
            self.report.row(row(&held, ours.held, early.held, EARLY.1)).bar(1.0 / MEMORY);
        }
    }

    /// Four ranks on a core.
    fn crowd(&mut self, case: Case) {
        let Case { channels, bytes, ranks, .. } = case;
        let name = format!("{ranks} ranks on {} cores, {channels} strips of {bytes} B", self.cores.len());
        let Some(figures) = self.beside(&name, case, &[SOME], |bench| Ok(ours(case, &bench.cores))) else { return };
        self.rows(&name, &[(SOME, Some(1.0))], &figures);
    }
}

fn main() -> ExitCode {
    let report = Report::from_args();
    let cores = cores().unwrap_or_default();
    if cores.len() < 2 {
        report.note("skipped: two ranks need two cores");
        return ExitCode::SUCCESS;
    }
    let mut bench = Bench { report, cores, peer: Peer::build() };
    let case = |channels, bytes, batches, exchanges| Case { channels, bytes, sides: 1, ranks: 2, batches, exchanges };
    let cases = [case(64, 512, 201, 20), case(64, 8192, 201, 20), case(64, 131_072, 101, 4), case(1024, 512, 61, 10)];
    // The large strips are copied twice at the speed of memory, whatever else is saved.
    for (case, bar) in cases.into_iter().zip([6.0, 2.5, 1.5, 20.0]) {
        bench.case(case, Some(bar));
    }
    for case in cases {
        bench.case(Case { sides: 2, ..case }, None);
    }
    for (case, bar) in cases.into_iter().zip([2.0, 2.3, 1.0, 20.0]) {
        bench.mpi(case, OVER_SLOT, bar);
    }
    for (case, bar) in cases.into_iter().zip([6.0, 2.5, 1.5, 20.0]) {
        bench.mpi(case, OVER_NODES, bar);
    }
    let ranks = 4 * bench.cores.len() as u32;
    bench.crowd(Case { ranks, ..case(64, 512, 31, 6) });
    overlap::rows(&mut bench);
    reference::rows(&mut bench);
    bench.report.finish()
}
