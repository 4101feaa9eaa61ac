//! Chained calls allocate nothing once their machines are there (scenario 55).
//!
//! That is so from the first one on, whether they end well, by a failure, at their deadline or by their maker, alone or while
//! others cross them.
#![allow(clippy::unwrap_used, missing_docs)]

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use umbra_core::chain::{
    Action, Call, Caps, Config, Context, Function, Lent, Life, Machine, Mode, Node, Note, Outcome, PeerEntry, Phase,
    Storage, Tag, Tomb, Verdict, Waiter,
};
use umbra_core::map::Entry;
use umbra_core::pending::Request;
use umbra_core::time::{Lapse, Time};

#[global_allocator]
static COUNTED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const MEMBERS: usize = 15;
const SUM: Tag = Tag::of("sum");

enum Vectors {}

impl Storage for Vectors {
    type Contexts = Vec<Request<Context>>;
    type Words = Vec<u64>;
    type Peers = Vec<PeerEntry>;
    type Functions = Vec<Option<Function>>;
    type Tombs = Vec<Tomb>;
    type Answers = Vec<u8>;
    type Index = Vec<Entry<u128, u32>>;
    type Notes = Vec<Note>;
    type Waiters = Vec<Waiter>;
    type Scratch = Vec<u32>;
}

fn machine(node: u32) -> Machine<Vectors> {
    let lent = Lent {
        contexts: vec![Request::EMPTY; 16],
        words: vec![0; 16 * 128],
        peers: vec![PeerEntry::default(); MEMBERS],
        functions: vec![None; 4],
        tombs: vec![Tomb::default(); 32],
        answers: vec![0; 32 * 128],
        index: vec![Entry::EMPTY; 72],
        notes: vec![Note::EMPTY; 16],
        waiters: vec![Waiter::EMPTY; 16],
        scratch: vec![0; 6 * MEMBERS],
    };
    let mut machine = Machine::new(Config { header_max: 64, ..Config::new(Node(node), Life(1)) }, lent);
    machine.register(SUM).unwrap();
    machine
}

/// How a call ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Well,
    /// A function fails.
    Fault,
    /// A function is pending when the time is over.
    Late,
    /// A function is pending when the maker gives up.
    Cancelled,
}

/// The member that has a call end otherwise than well.
const BAD: usize = 4;
const BUDGET: Lapse = Lapse::from_millis(100);
/// How much time passes where nobody has anything to do.
const STEP: u64 = 1_000_000;
const STEPS: u64 = 1_000;

/// One call over all members for each list, made by its first one; whether all ended as they should.
fn calls(machines: &mut [Machine<Vectors>], lists: &[Vec<Node>], mode: Mode, end: End, time: &mut u64) -> bool {
    let mut buffer = [0; 4 << 10];
    let start = |members: &Vec<Node>| {
        let caps = Caps { header: 0, data: 8 };
        let call = Call { callback: SUM, caps, mode, budget: BUDGET, ..Call::new(SUM, members) };
        machines[members[0].index()].start(&call, Time(*time)).unwrap()
    };
    let first = lists.iter().map(start).reduce(|first, _| first).unwrap();
    let (mut ended, mut well, mut pending, until) = (0, 0, None, *time + STEPS * STEP);
    while *time < until {
        let (mut worked, now) = (false, Time(*time));
        for at in 0..machines.len() {
            machines[at].on_time(now);
            while let Some(action) = machines[at].poll(now, &mut buffer) {
                worked = true;
                match action {
                    Action::Send { to, len_bytes, .. } => {
                        machines[to.index()].on_message(Node(at as u32), to, &buffer[..len_bytes], now).unwrap();
                    }
                    Action::Run { handle, .. } if at == BAD && matches!(end, End::Late | End::Cancelled) => {
                        pending = Some(handle);
                    }
                    Action::Run { handle, .. } => {
                        let mut work = machines[at].work(handle).unwrap();
                        let number = match work.phase {
                            Phase::Wait(answer) => answer.data[0] + work.reply.data()[0],
                            _ => 1,
                        };
                        work.reply.set_data(&[number; 8]).unwrap();
                        let rewritten = work.rewrite_header(&[number; 64]).is_ok();
                        assert!(!rewritten || work.full_list().is_some_and(|all| all.len() == MEMBERS));
                        let verdict = if at == BAD && end == End::Fault { Verdict::Fault(1) } else { Verdict::Done };
                        machines[at].finish(handle, verdict).unwrap();
                    }
                    Action::Ended { handle } => {
                        let outcome = machines[at].outcome(handle).unwrap().unwrap();
                        ended += 1;
                        well += usize::from(matches!(outcome, Outcome::Done { data: [15, ..], .. }));
                        if let Outcome::Failed(report) = &outcome {
                            assert!(report.unreached().count() <= report.tallies.unreached as usize);
                        }
                        machines[at].release(handle).unwrap();
                    }
                }
            }
        }
        if !worked && ended == lists.len() {
            if let Some(handle) = pending.take() {
                // It says so too late, and nobody listens any more.
                let _ = machines[BAD].finish(handle, Verdict::Done);
            } else if machines.iter().all(Machine::is_empty) {
                return well == if end == End::Well { ended } else { 0 };
            }
        } else if !worked && end == End::Cancelled {
            machines[0].cancel(first).unwrap();
        }
        *time += if worked { 1 } else { STEP };
    }
    panic!("a call that is to end {end:?} takes places for ever")
}

/// Without a harness, whose threads may allocate at any time.
fn main() {
    let mut machines: Vec<_> = (0..MEMBERS as u32).map(machine).collect();
    // Each begins with whoever makes the call, and the others come in another order.
    let from = |first: u32| (0..MEMBERS as u32).map(|at| Node((first + at) % MEMBERS as u32)).collect();
    let lists: [Vec<Node>; 3] = [0, 5, 10].map(from);
    let mut time = 1;
    let region = Region::new(COUNTED);
    for _ in 0..5 {
        let asked = Mode::FULL_LIST | Mode::REWRITE | Mode::SKIP_DEAD;
        for mode in [Mode::empty(), Mode::COLLECT, Mode::CUT_THROUGH | Mode::ORDERED, asked] {
            for end in [End::Well, End::Fault, End::Late, End::Cancelled] {
                assert!(calls(&mut machines, &lists[..1], mode, end, &mut time), "{mode:?} {end:?}");
            }
            for end in [End::Well, End::Fault] {
                assert!(calls(&mut machines, &lists, mode, end, &mut time), "three that cross, {mode:?} {end:?}");
            }
        }
    }
    let change = region.change();
    assert_eq!(change.allocations + change.reallocations, 0, "s55: calls allocate from the first one on");
}
