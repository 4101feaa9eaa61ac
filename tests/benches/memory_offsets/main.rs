//! How much of a memory allocators can use, and what they cost when it is full.
//!
//! 512 MiB are managed in units of 16 bytes, with five mixes of sizes. *Payload* keeps the memory full: a request
//! that finds no room makes tenants leave by chance until it does; the figure is the part of the memory that was
//! asked for. *Alloc* and *free* are nanoseconds each, in batches of 64 frees by chance and 64 allocations,
//! while the memory is filled to 90 % of what the *peer* can fill, so both sides do the same work; *churn* is their
//! sum. Those against a limit fill 90 % of the memory. *Free, all mixes* is the mean of the five mixes. *Longest alloc*
//! is the slowest single allocation.
//!
//! Ours keeps freed ranges whole on lists by length ([`QuickFit`]). *Without lists* it joins them at once ([`Memory`]).
//! `offset-allocator` and the buddy allocator keep their records beside the memory, as we do; `rlsf` and `talc` write
//! them into it, which a memory behind a wire cannot serve. The buddy allocator knows only what is free and is told
//! each length again. *By offset* is ours where a range is freed by its offset alone, with records in large pages as on a
//! host.
#![allow(clippy::expect_used, reason = "a bench that cannot be set up ends")]

mod inband;
mod sides;
mod work;

use std::process::ExitCode;

use buddy_system_allocator::FrameAllocator;
use inband::{InTalc, Rlsf};
use offset_allocator::Allocator;
use sides::{Arena, CAPACITY};
use umbra_core::memory::{Block, Memory, Offsets, QuickFit};
use umbra_tests::bench::{Clock, Direction, Report, Row, Samples, cores, pin};
use work::{MIXES, Mix, Tenants};

type Ours = QuickFit<Vec<Block>, Vec<u32>>;
type WithoutLists = Memory<Vec<Block>>;
type ByOffset = Offsets<Vec<Block>, Vec<u32>, Vec<u32>>;
type Buddy = FrameAllocator<33>;

const OFFSET_ALLOCATOR: &str = "offset-allocator 0.2";
const RLSF: &str = "rlsf 0.2, 32 bins";
const TALC: &str = "talc 5.1";
const BUDDY: &str = "buddy_system_allocator 0.13";

/// Forms of ours.
const BY_OFFSET: &str = ", by offset";
const WITHOUT_LISTS: &str = ", without lists";

/// Nanoseconds that a free may take.
const FREE: f64 = 75.0;
/// What a free of `offset-allocator` takes, as a multiple of ours over all mixes.
const FREE_BESIDE: f64 = 1.0 / 0.6;

/// What is timed of both sides.
const WHAT: [&str; 3] = ["free", "alloc", "churn"];

/// Allocations on the full memory.
const PAYLOAD_STEPS: usize = 400_000;
/// Pairs of turns a case, and batches a turn.
const ROUNDS: usize = 21;
const BATCHES: usize = 40;
/// Runs of which the quickest tells what an allocation takes at most.
const RUNS: usize = 5;

struct Bench {
    report: Report,
    clock: Clock,
    /// What each mix came to: the peer, the form of ours, and the frees of both.
    frees: Vec<(&'static str, &'static str, [f64; 2])>,
}

impl Bench {
    /// The payload of a peer, which the case of it reports beside ours.
    fn payload<P: Arena>(&mut self, mix: &Mix, ours: f64, peer: &str) -> f64 {
        let theirs = Tenants::<P>::new(mix).keep_full(PAYLOAD_STEPS);
        let case = format!("payload {}, {peer}", mix.name);
        self.report.row(Row::new(&case, ours, theirs, peer, "%", Direction::HigherIsBetter)).bar(1.0);
        theirs
    }

    /// Whether a row of these names is asked for, or the mean of all mixes.
    fn wants(&self, mix: &Mix, peer: &str, form: &str) -> bool {
        let cases = WHAT.map(|what| format!("{what} {}, {peer}{form}", mix.name));
        cases.iter().chain([&all_mixes(peer, form)]).any(|case| self.report.wants(case))
    }

    /// Times both sides in turns at the fill that the peer can hold.
    fn churn<O: Arena, P: Arena>(&mut self, mix: &Mix, payload: f64, peer: &'static str, form: &'static str) {
        if !self.wants(mix, peer, form) {
            return;
        }
        let case = |what: &str| format!("{what} {}, {peer}{form}", mix.name);
        let fill = (CAPACITY as f64 * payload / 100.0 * 0.9) as u64;
        let (mut ours, mut theirs) = (Tenants::<O>::new(mix), Tenants::<P>::new(mix));
        ours.settle(fill);
        theirs.settle(fill);
        let mut readings: [[Vec<f64>; 2]; 2] = Default::default();
        for round in 0..ROUNDS {
            for side in [round % 2, (round + 1) % 2] {
                let (mut free, mut alloc) = (0.0, 0.0);
                for _ in 0..BATCHES {
                    let (f, a) =
                        if side == 0 { ours.batch(fill, &self.clock) } else { theirs.batch(fill, &self.clock) };
                    free += f;
                    alloc += a;
                }
                readings[side][0].push(free / BATCHES as f64);
                readings[side][1].push(alloc / BATCHES as f64);
            }
        }
        let [ours, theirs] = &readings;
        let both = |side: &[Vec<f64>; 2]| side[0].iter().zip(&side[1]).map(|(free, alloc)| free + alloc).collect();
        let whole: [Vec<f64>; 2] = [both(ours), both(theirs)];
        self.frees.push((peer, form, [settled(ours[0].clone()), settled(theirs[0].clone())]));
        let sides = [(&ours[0], &theirs[0]), (&ours[1], &theirs[1]), (&whole[0], &whole[1])];
        for (what, (ours, theirs)) in WHAT.into_iter().zip(sides) {
            let ratio = settled(ours.iter().zip(theirs).map(|(ours, theirs)| theirs / ours).collect());
            let row = Row {
                ratio,
                ..Row::new(
                    &case(what),
                    settled(ours.clone()),
                    settled(theirs.clone()),
                    peer,
                    "ns",
                    Direction::LowerIsBetter,
                )
            };
            let entry = self.report.row(row);
            if what == "churn" && form != WITHOUT_LISTS {
                entry.bar(1.0);
            }
        }
    }

    /// The slowest allocation of all batches: of the quickest of a few runs, because a machine that does something else as well
    /// delays some.
    fn longest<P: Arena>(&mut self, mix: &Mix, payload: f64, peer: &str) {
        let case = format!("longest alloc {}, {peer}", mix.name);
        if !self.report.wants(&case) {
            return;
        }
        let fill = (CAPACITY as f64 * payload / 100.0 * 0.9) as u64;
        let ours = slowest(&mut Tenants::<Ours>::new(mix), fill, &self.clock);
        let theirs = slowest(&mut Tenants::<P>::new(mix), fill, &self.clock);
        self.report.row(Row::new(&case, ours, theirs, peer, "ns", Direction::LowerIsBetter));
    }

    /// The time of a free where 90 % of the memory are in use, against what it may take.
    fn limit<O: Arena>(&mut self, mix: &Mix, form: &str) {
        let case = format!("free {}, 90 % in use{form}", mix.name);
        if !self.report.wants(&case) {
            return;
        }
        let fill = CAPACITY / 10 * 9;
        let mut ours = Tenants::<O>::new(mix);
        ours.settle(fill);
        let turn = |_| (0..BATCHES).map(|_| ours.batch(fill, &self.clock).0).sum::<f64>() / BATCHES as f64;
        let free = settled((0..ROUNDS).map(turn).collect());
        self.report.row(Row::new(&case, free, FREE, "limit", "ns", Direction::LowerIsBetter)).bar(1.0);
    }

    /// All rows beside a peer; those without lists beside one are enough.
    fn beside<P: Arena>(&mut self, mix: &Mix, ours: f64, peer: &'static str) {
        let payload = self.payload::<P>(mix, ours, peer);
        self.churn::<Ours, P>(mix, payload, peer, "");
        self.churn::<ByOffset, P>(mix, payload, peer, BY_OFFSET);
        if peer == TALC {
            self.churn::<WithoutLists, P>(mix, payload, peer, WITHOUT_LISTS);
        }
        if peer == OFFSET_ALLOCATOR {
            self.longest::<P>(mix, payload, peer);
        }
    }

    fn mix(&mut self, mix: &Mix) {
        let forms = ["", BY_OFFSET, WITHOUT_LISTS];
        let wants = |bench: &Self, peer: &str| {
            let others = ["payload", "longest alloc"].map(|what| format!("{what} {}, {peer}", mix.name));
            let wanted = others.iter().any(|case| bench.report.wants(case));
            wanted || forms.iter().any(|form| bench.wants(mix, peer, form))
        };
        let peers = [OFFSET_ALLOCATOR, RLSF, TALC, BUDDY].map(|peer| wants(self, peer));
        let case = format!("payload {}", mix.name);
        if self.report.wants(&case) || peers.contains(&true) {
            let ours = Tenants::<Ours>::new(mix).keep_full(PAYLOAD_STEPS);
            self.report.row(Row::new(&case, ours, mix.target, "target", "%", Direction::HigherIsBetter)).bar(1.0);
            let sides =
                [Self::beside::<Allocator>, Self::beside::<Rlsf>, Self::beside::<InTalc>, Self::beside::<Buddy>];
            for ((beside, peer), _) in
                sides.into_iter().zip([OFFSET_ALLOCATOR, RLSF, TALC, BUDDY]).zip(peers).filter(|(_, wanted)| *wanted)
            {
                beside(self, mix, ours, peer);
            }
        }
        self.limit::<Ours>(mix, "");
        self.limit::<ByOffset>(mix, BY_OFFSET);
    }

    /// The mean free of all mixes, where all of them have been measured.
    fn mean_free(&mut self) {
        for peer in [OFFSET_ALLOCATOR, RLSF, TALC, BUDDY] {
            for form in ["", BY_OFFSET] {
                let frees: Vec<[f64; 2]> =
                    self.frees.iter().filter(|all| (all.0, all.1) == (peer, form)).map(|all| all.2).collect();
                if frees.len() < MIXES.len() {
                    continue;
                }
                let [ours, theirs] = [0, 1].map(|side| frees.iter().map(|both| both[side]).sum::<f64>());
                let [ours, theirs] = [ours, theirs].map(|sum| sum / MIXES.len() as f64);
                let row = Row::new(&all_mixes(peer, form), ours, theirs, peer, "ns", Direction::LowerIsBetter);
                let entry = self.report.row(row);
                if peer == OFFSET_ALLOCATOR {
                    entry.bar(FREE_BESIDE);
                }
            }
        }
    }
}

fn all_mixes(peer: &str, form: &str) -> String {
    format!("free, all mixes, {peer}{form}")
}

/// The median; batches last at least a nanosecond, so there is one.
fn settled(readings: Vec<f64>) -> f64 {
    Samples::new(readings).expect("there are readings, and they are numbers").median()
}

/// The slowest allocation in each of a few runs of so many batches as a case has; the least of them.
fn slowest<A: Arena>(tenants: &mut Tenants<A>, fill: u64, clock: &Clock) -> f64 {
    tenants.settle(fill);
    let run = |_| (0..ROUNDS * BATCHES).map(|_| tenants.slowest(fill, clock)).max().unwrap_or_default();
    (0..RUNS).map(run).min().unwrap_or_default() as f64
}

fn main() -> ExitCode {
    let report = Report::from_args();
    let mine = cores().ok().and_then(|cores| cores.last().copied());
    if let Some(Err(error)) = mine.map(pin) {
        report.note(format_args!("not pinned: {error}"));
    }
    let mut bench = Bench { report, clock: Clock::new(), frees: Vec::new() };
    MIXES.iter().for_each(|mix| bench.mix(mix));
    bench.mean_free();
    bench.report.finish()
}
