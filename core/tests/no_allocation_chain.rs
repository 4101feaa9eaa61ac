//! Chained calls allocate nothing once their machines are there.
#![allow(clippy::unwrap_used, missing_docs)]

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use umbra_core::chain::{
    Action, Call, Caps, Config, Context, Function, Lent, Life, Machine, Mode, Node, Note, Outcome, PeerEntry, Phase,
    Storage, Tag, Tomb, Verdict, Waiter,
};
use umbra_core::map::Entry;
use umbra_core::pending::Request;
use umbra_core::time::Time;

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
    let mut machine = Machine::new(Config::new(Node(node), Life(1)), lent);
    machine.register(SUM).unwrap();
    machine
}

/// One call over all members; member `bad` fails.
fn call(machines: &mut [Machine<Vectors>], members: &[Node], mode: Mode, bad: u32, buffer: &mut [u8]) -> bool {
    let call = Call { callback: SUM, caps: Caps { header: 0, data: 8 }, mode, ..Call::new(SUM, members) };
    let handle = machines[0].start(&call, Time(1)).unwrap();
    let mut well = None;
    loop {
        let mut worked = false;
        for at in 0..machines.len() {
            while let Some(action) = machines[at].poll(Time(1), buffer) {
                worked = true;
                match action {
                    Action::Send { to, len_bytes, .. } => {
                        machines[to.index()].on_message(Node(at as u32), to, &buffer[..len_bytes], Time(1)).unwrap();
                    }
                    Action::Run { handle, .. } => {
                        let mut work = machines[at].work(handle).unwrap();
                        let number = match work.phase {
                            Phase::Wait(answer) => answer.data[0] + work.reply.data()[0],
                            _ => 1,
                        };
                        work.reply.set_data(&[number; 8]).unwrap();
                        let verdict = if at as u32 == bad { Verdict::Fault(1) } else { Verdict::Done };
                        machines[at].finish(handle, verdict).unwrap();
                    }
                    Action::Ended { .. } => {
                        let outcome = machines[0].outcome(handle).unwrap().unwrap();
                        well = Some(matches!(outcome, Outcome::Done { data: [15, ..], .. }));
                        machines[0].release(handle).unwrap();
                    }
                }
            }
        }
        if !worked {
            return well.unwrap();
        }
    }
}

#[test]
fn s55_calls_that_end_well_or_badly_make_no_allocation() {
    let mut machines: Vec<_> = (0..MEMBERS as u32).map(machine).collect();
    let members: Vec<Node> = (0..MEMBERS as u32).map(Node).collect();
    let mut buffer = vec![0; 64 << 10];
    // The test harness has a thread of its own, which may allocate at any time; the least of several attempts is ours.
    let attempt = |_| {
        let region = Region::new(COUNTED);
        for mode in [Mode::empty(), Mode::COLLECT, Mode::CUT_THROUGH | Mode::ORDERED] {
            assert!(call(&mut machines, &members, mode, u32::MAX, &mut buffer));
            assert!(!call(&mut machines, &members, mode, 4, &mut buffer));
        }
        let change = region.change();
        change.allocations + change.reallocations
    };
    assert_eq!((0..5).map(attempt).min(), Some(0));
    assert!(machines.iter().all(Machine::is_empty));
}
