//! How much of a memory allocators can use, and what they cost when it is full.
//!
//! 512 MiB are managed in units of 16 bytes, with five mixes of sizes. *Payload* keeps the memory full: a request
//! that finds no room makes tenants leave by chance until it does; the figure is the part of the memory that was
//! asked for. *Alloc* and *free* are nanoseconds each, in batches of 64 frees by chance and 64 allocations,
//! while the memory is filled to 90 % of what the *peer* can fill, so both sides do the same work. Those against
//! a limit fill 90 % of the memory. *Longest alloc* is the slowest single allocation.
//!
//! Ours keeps freed ranges whole on lists by length ([`QuickFit`]). *Without lists* it joins them at once ([`Memory`]).
//! `offset-allocator` and the buddy allocator keep their records beside the memory, as we do; `rlsf` and `talc` write
//! them into it, which a memory behind a wire cannot serve. The buddy allocator knows only what is free and is told
//! each length again. *By offset* is ours where a range is freed by its offset alone, with a word for each unit.
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

const OFFSET_ALLOCATOR: &str = "offset-allocator 0.2";
const RLSF: &str = "rlsf 0.2, 32 bins";
const TALC: &str = "talc 5.1";
const BUDDY: &str = "buddy_system_allocator 0.13";

/// Forms of ours.
const BY_OFFSET: &str = ", by offset";
const WITHOUT_LISTS: &str = ", without lists";

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
}

impl Bench {
    /// The payload of a peer, which the case of it reports beside ours.
    fn payload<P: Arena>(&mut self, mix: &Mix, ours: f64, peer: &str) -> f64 {
        let theirs = Tenants::<P>::new(mix).keep_full(PAYLOAD_STEPS);
        let case = format!("payload {}, {peer}", mix.name);
        self.report.row(Row::new(&case, ours, theirs, peer, "%", Direction::HigherIsBetter)).bar(1.0);
        theirs
    }

    /// Times both sides in turns at the fill that the peer can hold.
    fn churn<O: Arena, P: Arena>(&mut self, mix: &Mix, payload: f64, peer: &str, form: &str) {
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
        for (what, ours, theirs) in
            [("free", &ours[0], &theirs[0]), ("alloc", &ours[1], &theirs[1]), ("churn", &whole[0], &whole[1])]
        {
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
        self.report.row(Row::new(&case, free, 75.0, "limit", "ns", Direction::LowerIsBetter)).bar(1.0);
    }

    fn mix(&mut self, mix: &Mix) {
        let ours = Tenants::<Ours>::new(mix).keep_full(PAYLOAD_STEPS);
        let case = format!("payload {}", mix.name);
        self.report.row(Row::new(&case, ours, mix.target, "target", "%", Direction::HigherIsBetter)).bar(1.0);
        let payload = self.payload::<Allocator>(mix, ours, OFFSET_ALLOCATOR);
        self.churn::<Ours, Allocator>(mix, payload, OFFSET_ALLOCATOR, "");
        self.longest::<Allocator>(mix, payload, OFFSET_ALLOCATOR);
        let payload = self.payload::<Rlsf>(mix, ours, RLSF);
        self.churn::<Ours, Rlsf>(mix, payload, RLSF, "");
        let payload = self.payload::<InTalc>(mix, ours, TALC);
        self.churn::<Ours, InTalc>(mix, payload, TALC, "");
        self.churn::<ByOffset, InTalc>(mix, payload, TALC, BY_OFFSET);
        self.churn::<WithoutLists, InTalc>(mix, payload, TALC, WITHOUT_LISTS);
        let payload = self.payload::<FrameAllocator<33>>(mix, ours, BUDDY);
        self.churn::<Ours, FrameAllocator<33>>(mix, payload, BUDDY, "");
        self.limit::<Ours>(mix, "");
        self.limit::<ByOffset>(mix, BY_OFFSET);
    }
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
    let mut bench = Bench { report, clock: Clock::new() };
    for mix in &MIXES {
        if bench.report.wants(mix.name) {
            bench.mix(mix);
        }
    }
    bench.report.finish()
}
