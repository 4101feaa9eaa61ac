//! Thousands of members at simulated agents, beside the least time possible.
//!
//! The machines are real. A message takes [`WIRE`] and [`PER_KIB`] for each KiB of it, its sender may send the next one [`GAP`]
//! later or when all of it is out, its receiver takes as long as that to read it, and a member's part keeps its agent for
//! [`MEMBER`]: the LogGP model with the figures of an InfiniBand network and of the least engine that was measured. What is done
//! with the list is not in the time, and a note says how long it took here: the maker checks it and lays it out before it sends,
//! then writes a piece of it into each request, and an agent reads its piece.
//!
//! The least time counts messages and functions alone. That requests name their members is our way to do it and no part of the
//! bound.
//!
//! The machines are given more than the product has, where all places together have at most 16,384 members and a message between
//! agents has at most 8 KiB.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use umbra::call::{Capacities, Heap};
use umbra_core::chain::{Action, Call, Config, Life, Machine, Node, Phase, Plan, Tag};
use umbra_core::time::Time;
use umbra_core::tree::Shape;
use umbra_core::tree::domains::{self, Place};
use umbra_tests::bench::{Report, Row};

use crate::engine::OF_BOUND;
use crate::{LOWER, SUM, call, sum, take_sum};

/// Nanoseconds until a message is there, between the beginnings of two messages of one agent, and of a member's part.
const WIRE: u64 = 850;
const GAP: u64 = 100;
const MEMBER: u64 = 20;
/// Nanoseconds for each KiB of a message, at 100 gigabits a second.
const PER_KIB: u64 = 82;
/// Calls of which what the list took is the least.
const CALLS: usize = 7;
/// Members at each agent.
const HOUSED: u32 = 256;
/// The tree over the agents: three levels of seven.
const OVER: Option<Shape> = Shape::knomial(8);

/// A message on its way: when it is there, its number, the agent, and from whom to whom.
type Arrival = Reverse<(u64, u64, usize, Node, Node, Vec<u8>)>;

/// Nanoseconds until so many bytes are sent, or read.
const fn length(bytes: u64) -> u64 {
    bytes * PER_KIB / 1024
}

struct Agents {
    machines: Vec<Machine<Heap>>,
    /// Until when each of them is at work.
    busy: Vec<u64>,
    on_way: BinaryHeap<Arrival>,
    sent: u64,
    buffer: Vec<u8>,
    /// What this machine needed to write all requests of the maker, and to read the longest one.
    writing: Duration,
    reading: Duration,
}

impl Agents {
    fn new(agents: u32) -> Agents {
        let members = agents * HOUSED;
        // Two words a member in a request, and 48 bytes for each that lives at a leader.
        let call_bytes = 8 * members as usize + (64 << 10);
        let machine = |agent: u32| {
            // The first agent has all members below it, any other one an eighth at most.
            let call_bytes = if agent == 0 { call_bytes } else { (call_bytes / 4).max(64 << 10) };
            let capacities = Capacities { calls: 8, call_bytes, remembered: 8, ..Capacities::new(members) };
            let mut config = Config::new(Node(agent * HOUSED), Life(1));
            config.message_max = 1 << 20;
            let mut machine = capacities.machine(config).expect("there is memory");
            machine.register(Tag::of(SUM)).expect("the first function");
            (1..HOUSED).for_each(|nth| machine.house(Node(agent * HOUSED + nth)).expect("a known member"));
            machine
        };
        Agents {
            machines: (0..agents).map(machine).collect(),
            busy: vec![0; agents as usize],
            on_way: BinaryHeap::new(),
            sent: 0,
            buffer: vec![0; 1 << 20],
            writing: Duration::ZERO,
            reading: Duration::ZERO,
        }
    }

    /// Nanoseconds of one call over all members, and how long this machine took to begin it.
    fn call(&mut self) -> (u64, Duration) {
        let agents = self.machines.len() as u32;
        // Leaders first: they send to other hosts before they see to their own.
        let leaders = (0..agents).map(|agent| Node(agent * HOUSED));
        let others = (0..agents * HOUSED).filter(|node| node % HOUSED != 0).map(Node);
        let members: Vec<Node> = leaders.chain(others).collect();
        let place = |at: u32| Place { domain: members[at as usize].0 / HOUSED, leads: at < agents };
        let (mut parents, mut table) = (vec![0; members.len()], vec![0; agents as usize]);
        let over = OVER.expect("eight is no less than two");
        domains::parents(place, over, &mut parents, &mut table).expect("every domain is known");
        let call = Call { plan: Plan::Parents(&parents), ..call(&members) };
        let start = Instant::now();
        self.machines[0].start(&call, Time(1)).expect("room for one call");
        let begun = start.elapsed();
        let mut ended = self.work(0, 0);
        while let Some(Reverse((at, _, agent, from, to, bytes))) = self.on_way.pop() {
            let at = at.max(self.busy[agent]) + length(bytes.len() as u64);
            let start = Instant::now();
            self.machines[agent].on_message(from, to, &bytes, Time(at + 1)).expect("room for its answers");
            self.reading = self.reading.max(start.elapsed());
            ended = self.work(agent, at).or(ended);
        }
        (ended.expect("the call has ended"), begun)
    }

    /// An agent does what there is to do, from this time on; when the call ended, if it did.
    fn work(&mut self, agent: usize, mut at: u64) -> Option<u64> {
        let (machine, all) = (&mut self.machines[agent], self.busy.len() as u64 * u64::from(HOUSED));
        let mut ended = None;
        loop {
            let start = Instant::now();
            let Some(action) = machine.poll(Time(at + 1), &mut self.buffer) else { break };
            match action {
                Action::Send { from, to, len_bytes } => {
                    if agent == 0 {
                        self.writing += start.elapsed();
                    }
                    let (home, bytes) = ((to.0 / HOUSED) as usize, self.buffer[..len_bytes].to_vec());
                    self.sent += 1;
                    let out = length(bytes.len() as u64);
                    self.on_way.push(Reverse((at + out + WIRE, self.sent, home, from, to, bytes)));
                    at += GAP.max(out);
                }
                Action::Run { handle, .. } => {
                    let mut members = 0;
                    let ran = machine.run_on(handle, |_, work| {
                        members += u64::from(matches!(work.phase, Phase::Init));
                        sum(work)
                    });
                    ran.expect("it was to be run");
                    at += members * MEMBER;
                }
                Action::Ended { handle } => {
                    assert_eq!(take_sum(machine, handle), all * (all - 1) / 2, "the sum of all members");
                    ended = Some(at);
                }
            }
        }
        self.busy[agent] = at;
        ended
    }
}

/// The least nanoseconds of such a call: an optimal broadcast over the agents (Karp, Sahay, Santos and Schauser, 1993), there
/// and back, and the parts of the members of whoever is told last.
fn bound(agents: u32) -> u64 {
    let mut next = BinaryHeap::from([Reverse(0)]);
    let mut told = 0;
    for _ in 1..agents {
        let Some(Reverse(at)) = next.pop() else { break };
        told = at + WIRE;
        next.extend([Reverse(at + GAP), Reverse(told)]);
    }
    2 * told + u64::from(HOUSED) * MEMBER
}

pub(crate) fn rows(report: &mut Report) {
    for agents in [4, 16, 64, 256] {
        let case = format!("simulated {} ids at {agents} agents", agents * HOUSED);
        if report.wants(&case) {
            let mut simulated = Agents::new(agents);
            // The first call finds no memory in any cache, nor in pages.
            simulated.call();
            let mut least = [Duration::MAX; 3];
            let mut ours = 0;
            for _ in 0..CALLS {
                (simulated.writing, simulated.reading) = (Duration::ZERO, Duration::ZERO);
                simulated.busy.fill(0);
                let begun;
                (ours, begun) = simulated.call();
                for (least, took) in least.iter_mut().zip([begun, simulated.writing, simulated.reading]) {
                    *least = took.min(*least);
                }
            }
            let [begun, writing, reading] = least;
            let (ours, bound) = (ours as f64 / 1000.0, bound(agents) as f64 / 1000.0);
            report.note(format_args!(
                "{case}: of this machine, the list took {begun:.0?} to be laid out, {writing:.1?} to be sent and {reading:.1?} to be read"
            ));
            report.row(Row::new(&case, ours, bound, "gate G3: LogGP", "us", LOWER)).bar(OF_BOUND);
        }
    }
}
