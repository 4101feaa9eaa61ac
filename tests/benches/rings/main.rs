//! Nanoseconds an item of our queues and published ones, in turns in one run.
//!
//! Queues hold 1024 items; every item carries a number that the receiver checks. `pair` and `burst` run on
//! one thread (1 or 512 items in, as many out), `stream` and `1p1c` from one core to another, `round trip` to
//! and fro over two queues.
//!
//! `wait n` is the number of pause hints after an attempt that found the queue full or empty, the same for
//! both sides: it decides how often the two cores tear at one line, and matters as much as the queue. With
//! `wait n`, `2p2c` is two threads that both send and receive, and that meet every 128 items, so that neither
//! works alone for long. Without it, `2p1c`, `1p2c` and `2p2c` are as many threads of their own, more than there
//! are cores; they wait with growing pauses and then yield.

#![forbid(unsafe_code)]
#![allow(clippy::expect_used, reason = "a bench that cannot be set up ends")]

mod ends;
mod shapes;

use std::process::ExitCode;
use std::time::Duration;

use ends::{
    Item, crossbeam_one, heapless_one, line_all, mailbox_one, mpmc_all, mpmc_one, rtrb_all, rtrb_one, spsc_all,
    spsc_one,
};
use shapes::{Partner, Side, alone, crowd, exchange, round_trip, stream};
use umbra_core::ring::line::Line;
use umbra_tests::bench::{Direction, Plan, Report, Turns, alternate, cores, pin};

const RTRB: &str = "rtrb 0.4";
const HEAPLESS: &str = "heapless 0.9 spsc";
const CROSSBEAM: &str = "crossbeam ArrayQueue 0.3";
/// Starts of a case with a partner.
const STARTS: usize = 7;

struct Bench {
    report: Report,
    plan: Plan,
    /// The last one is ours; partners begin with the first.
    cores: Vec<usize>,
}

impl Bench {
    /// A case on one thread.
    fn alone(&mut self, case: &str, peer: &str, bar: Option<f64>, sides: impl FnOnce() -> [Side; 2]) {
        if self.report.wants(case) {
            let [ours, theirs] = sides();
            self.measure(case, peer, "ns/item", bar, ours, theirs);
        }
    }

    /// A case with a partner on another core, from several starts: two threads settle in a mode for as long as they live.
    fn together(
        &mut self,
        case: &str,
        peer: &str,
        unit: &str,
        bar: Option<f64>,
        mut sides: impl FnMut(&mut Partner) -> [Side; 2],
    ) {
        if let [core, _, ..] = *self.cores
            && self.report.wants(case)
        {
            let plan = Plan { rounds: self.plan.rounds.div_ceil(STARTS), ..self.plan.clone() };
            let start = |_| {
                let mut partner = Partner::new();
                let [ours, theirs] = sides(&mut partner);
                let _guard = partner.start(core);
                alternate(&plan, ours, theirs)
            };
            if let Some(turns) = Turns::joined((0..STARTS).map(start).collect()) {
                self.row(&turns, case, peer, unit, bar);
            }
        }
    }

    /// A case with more threads than cores; they take the cores in turn, and this thread is one of them.
    fn crowded(
        &mut self,
        case: &str,
        senders: usize,
        receivers: usize,
        sides: impl FnOnce(&mut [Partner]) -> [Side; 2],
    ) {
        if self.cores.len() > 1 && self.report.wants(case) {
            let mut partners: Vec<Partner> = (1..senders + receivers).map(|_| Partner::new()).collect();
            let [ours, theirs] = sides(&mut partners);
            let _guards: Vec<_> =
                partners.into_iter().zip(self.cores.iter().cycle()).map(|(p, &c)| p.start(c)).collect();
            // Long beside the turns that the system gives its threads.
            let plan = Plan { rounds: 21, batch: Duration::from_millis(10), ..Plan::standard() };
            let turns = alternate(&plan, ours, theirs);
            self.report.row(turns.row(case, CROSSBEAM, "ns/item", Direction::LowerIsBetter)).bar(1.0);
        }
    }

    fn measure(&mut self, case: &str, peer: &str, unit: &str, bar: Option<f64>, ours: Side, theirs: Side) {
        let turns = alternate(&self.plan, ours, theirs);
        self.row(&turns, case, peer, unit, bar);
    }

    fn row(&mut self, turns: &Turns, case: &str, peer: &str, unit: &str, bar: Option<f64>) {
        let row = self.report.row(turns.row(case, peer, unit, Direction::LowerIsBetter));
        if let Some(bar) = bar {
            row.bar(bar);
        }
    }

    fn spsc<T: Item>(&mut self) {
        let size = format!("{} B", T::BYTES);
        for (shape, burst) in [("pair", 1), ("burst", 512)] {
            self.alone(&format!("spsc {shape} {size}"), RTRB, Some(1.0), || {
                [alone::<T>(spsc_one(), 1, burst), alone::<T>(rtrb_one(), 1, burst)]
            });
            self.alone(&format!("spsc {shape} {size}, heapless"), HEAPLESS, Some(1.0), || {
                [alone::<T>(spsc_one(), 1, burst), alone::<T>(heapless_one(), 1, burst)]
            });
        }
        for batch in [16, 64] {
            self.alone(&format!("spsc pair {size} batch {batch}"), RTRB, Some(1.0), || {
                [alone::<T>(spsc_all(), batch, batch), alone::<T>(rtrb_all(), batch, batch)]
            });
        }
        for pauses in [1, 64] {
            self.together(&format!("spsc stream {size} wait {pauses}"), RTRB, "ns/item", Some(1.0), |p| {
                [stream::<T>(p, spsc_one(), 1, pauses), stream::<T>(p, rtrb_one(), 1, pauses)]
            });
            let case = format!("spsc stream {size} wait {pauses}, heapless");
            self.together(&case, HEAPLESS, "ns/item", Some(1.0), |p| {
                [stream::<T>(p, spsc_one(), 1, pauses), stream::<T>(p, heapless_one(), 1, pauses)]
            });
            for batch in [16, 64] {
                let case = format!("spsc stream {size} batch {batch} wait {pauses}");
                self.together(&case, RTRB, "ns/item", Some(1.0), |p| {
                    [stream::<T>(p, spsc_all(), batch, pauses), stream::<T>(p, rtrb_all(), batch, pauses)]
                });
            }
        }
        self.together(&format!("spsc round trip {size}"), RTRB, "ns", Some(1.0), |p| {
            [round_trip::<T>(p, spsc_one(), spsc_one()), round_trip::<T>(p, rtrb_one(), rtrb_one())]
        });
    }

    fn mpmc<T: Item>(&mut self) {
        let size = format!("{} B", T::BYTES);
        fn ours<T: Item>() -> (impl ends::Push<T>, impl ends::Pop<T>) {
            let queue = mpmc_one::<T>();
            (queue, queue)
        }
        fn theirs<T: Item>() -> (impl ends::Push<T>, impl ends::Pop<T>) {
            let queue = crossbeam_one::<T>();
            (queue, queue)
        }
        fn all<T: Item>() -> (impl ends::Push<T>, impl ends::Pop<T>) {
            let queue = mpmc_all::<T>();
            (queue, queue)
        }
        for (shape, burst) in [("pair", 1), ("burst", 512)] {
            self.alone(&format!("mpmc {shape} {size}"), CROSSBEAM, Some(1.0), || {
                [alone::<T>(ours(), 1, burst), alone::<T>(theirs(), 1, burst)]
            });
        }
        for batch in [16, 64] {
            // The peer has no slices: what a caller with a batch would do there.
            self.alone(&format!("mpmc pair {size} batch {batch}"), CROSSBEAM, Some(1.0), || {
                [alone::<T>(all(), batch, batch), alone::<T>(theirs(), 1, batch)]
            });
        }
        for pauses in [1, 64] {
            self.together(&format!("mpmc 1p1c {size} wait {pauses}"), CROSSBEAM, "ns/item", Some(1.0), |p| {
                [stream::<T>(p, ours(), 1, pauses), stream::<T>(p, theirs(), 1, pauses)]
            });
            self.together(&format!("mpmc 1p1c {size} batch 16 wait {pauses}"), CROSSBEAM, "ns/item", Some(1.0), |p| {
                [stream::<T>(p, all(), 16, pauses), stream::<T>(p, theirs(), 1, pauses)]
            });
            self.together(&format!("mpmc 2p2c {size} wait {pauses}"), CROSSBEAM, "ns/item", Some(1.0), |p| {
                let (a, b) = (mpmc_one::<T>(), crossbeam_one::<T>());
                [exchange::<T>(p, a, a, pauses), exchange::<T>(p, b, b, pauses)]
            });
        }
        for (senders, receivers) in [(2, 1), (1, 2), (2, 2)] {
            let case = format!("mpmc {senders}p{receivers}c {size}");
            self.crowded(&case, senders, receivers, |p| {
                [crowd::<T>(p, mpmc_one(), senders, 1), crowd::<T>(p, crossbeam_one(), senders, 1)]
            });
            self.crowded(&format!("{case} batch 16"), senders, receivers, |p| {
                [crowd::<T>(p, mpmc_all(), senders, 16), crowd::<T>(p, crossbeam_one(), senders, 16)]
            });
        }
        self.together(&format!("mpmc round trip {size}"), CROSSBEAM, "ns", Some(1.0), |p| {
            [round_trip::<T>(p, ours(), ours()), round_trip::<T>(p, theirs(), theirs())]
        });
    }

    /// The forms for segments, which survive the death of their users, against peers that do not.
    fn segment(&mut self) {
        fn mail() -> (impl ends::Push<Line>, impl ends::Pop<Line>) {
            mailbox_one().into()
        }
        fn theirs() -> (impl ends::Push<Line>, impl ends::Pop<Line>) {
            let queue = crossbeam_one::<Line>();
            (queue, queue)
        }
        self.alone("line pair 64 B", RTRB, Some(1.0), || {
            [alone::<Line>(line_all(), 1, 1), alone::<Line>(rtrb_one(), 1, 1)]
        });
        self.together("line stream 64 B wait 64", RTRB, "ns/item", Some(1.0), |p| {
            [stream::<Line>(p, line_all(), 1, 64), stream::<Line>(p, rtrb_one(), 1, 64)]
        });
        self.together("line stream 64 B batch 16 wait 64", RTRB, "ns/item", Some(1.0), |p| {
            [stream::<Line>(p, line_all(), 16, 64), stream::<Line>(p, rtrb_all(), 16, 64)]
        });
        self.together("line round trip 64 B", RTRB, "ns", Some(1.0), |p| {
            [round_trip::<Line>(p, line_all(), line_all()), round_trip::<Line>(p, rtrb_one(), rtrb_one())]
        });
        self.alone("mailbox pair 64 B", CROSSBEAM, None, || {
            [alone::<Line>(mail(), 1, 1), alone::<Line>(theirs(), 1, 1)]
        });
        self.together("mailbox 1p1c 64 B wait 64", CROSSBEAM, "ns/item", None, |p| {
            [stream::<Line>(p, mail(), 1, 64), stream::<Line>(p, theirs(), 1, 64)]
        });
        self.together("mailbox 2p2c 64 B wait 64", CROSSBEAM, "ns/item", None, |p| {
            let ([a, b], c) = (mailbox_one(), crossbeam_one::<Line>());
            [exchange::<Line>(p, a, b, 64), exchange::<Line>(p, c, c, 64)]
        });
        self.together("mailbox round trip 64 B", CROSSBEAM, "ns", None, |p| {
            [round_trip::<Line>(p, mail(), mail()), round_trip::<Line>(p, theirs(), theirs())]
        });
    }
}

fn main() -> ExitCode {
    let report = Report::from_args();
    let cores = cores().unwrap_or_default();
    match cores.as_slice() {
        [] => report.note("the cores of this machine are not known; threads are not pinned"),
        [_] => report.note("one core only: cases with two threads are left out"),
        [.., mine] => {
            if let Err(error) = pin(*mine) {
                report.note(format_args!("not pinned: {error}"));
            }
        }
    }
    let mut bench = Bench { report, plan: Plan::standard(), cores };
    bench.spsc::<u64>();
    bench.spsc::<[u64; 8]>();
    bench.mpmc::<u64>();
    bench.mpmc::<[u64; 8]>();
    bench.segment();
    bench.report.finish()
}
