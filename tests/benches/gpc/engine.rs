//! The machine alone: one thread, and nothing to wait for.

use std::hint::black_box;

use umbra::call::{Capacities, Heap};
use umbra_core::chain::{Action, Config, Life, Machine, Node, Tag};
use umbra_core::time::Time;
use umbra_tests::bench::{Plan, Report, Row, repeat};

use crate::{LOWER, SUM, call, sum, take_sum};

/// Nanoseconds a member that the gate allows.
const GATE: f64 = 40.0;
/// Nanoseconds a member of the least engine that was measured: no deadlines, credits or tallies.
pub(crate) const BOUND: f64 = 20.0;
/// How far from a bound gate G3 lets one thread be.
pub(crate) const OF_BOUND: f64 = 1.0 / 2.5;

/// Machines, and which of them is whose.
pub(crate) struct Engine {
    machines: Vec<Machine<Heap>>,
    homes: Vec<u16>,
    members: Vec<Node>,
    /// Machines that have something to do.
    queue: Vec<u16>,
    buffer: Vec<u8>,
    now: Time,
}

impl Engine {
    pub(crate) fn new(members: u16, apart: bool) -> Engine {
        // A list of a thousand members, and room for replies: 8 KiB a call.
        let capacities = Capacities { call_bytes: 8 << 10, ..Capacities::new(u32::from(members)) };
        let machine = |node| {
            let mut machine = capacities.machine(Config::new(node, Life(1))).expect("there is memory");
            machine.register(Tag::of(SUM)).expect("the first function");
            machine
        };
        let all: Vec<Node> = (0..u32::from(members)).map(Node).collect();
        let machines = if apart {
            all.iter().copied().map(machine).collect()
        } else {
            let mut one = machine(Node(0));
            all.iter().skip(1).for_each(|&node| one.house(node).expect("a known member"));
            vec![one]
        };
        Engine {
            machines,
            homes: (0..members).map(|node| if apart { node } else { 0 }).collect(),
            members: all,
            queue: Vec::with_capacity(4 * usize::from(members)),
            buffer: vec![0; 64 << 10],
            now: Time(1),
        }
    }

    /// One call from its start to the release of its answer; the answer.
    pub(crate) fn call(&mut self) -> u64 {
        let Engine { machines, homes, members, queue, buffer, now } = self;
        *now = Time(now.0 + 1000);
        machines[0].start(&call(members), *now).expect("room for one call");
        queue.push(0);
        let mut total = 0;
        while let Some(at) = queue.pop() {
            let at = usize::from(at);
            while let Some(action) = machines[at].poll(*now, buffer) {
                match action {
                    Action::Send { from, to, len_bytes } => {
                        let home = homes[to.index()];
                        let taken = machines[usize::from(home)].on_message(from, to, &buffer[..len_bytes], *now);
                        taken.expect("room for its answers");
                        queue.push(home);
                    }
                    Action::Run { handle, .. } => {
                        machines[at].run_on(handle, |_, work| sum(work)).expect("it was to be run");
                    }
                    Action::Ended { handle } => total = take_sum(&mut machines[at], handle),
                }
            }
        }
        total
    }

    /// Nanoseconds a member, over the rounds.
    fn measure(&mut self, plan: &Plan) -> f64 {
        let count = self.members.len() as u64;
        assert_eq!(self.call(), count * (count - 1) / 2, "the sum of all members");
        let samples = repeat(plan, |n| (0..n).for_each(|_| _ = black_box(self.call())));
        samples.median() / count as f64
    }
}

pub(crate) fn rows(report: &mut Report) {
    let plan = Plan::standard();
    for members in [8, 16, 32, 64, 128, 256, 512, 1024] {
        let case = format!("engine {members} ids 8 B binary");
        if report.wants(&case) {
            let ours = Engine::new(members, false).measure(&plan);
            report.row(Row::new(&case, ours, GATE, "gate G1", "ns/id", LOWER)).bar(1.0);
            let case = format!("{case} bound");
            report.row(Row::new(&case, ours, BOUND, "gate G3: the least engine", "ns/id", LOWER)).bar(OF_BOUND);
        }
    }
    for members in [8, 64, 1024] {
        let case = format!("apart {members} ids 8 B binary");
        if report.wants(&case) {
            let ours = Engine::new(members, true).measure(&plan);
            report.row(Row::new(&case, ours, GATE, "gate G1, which is met at one machine, not here", "ns/id", LOWER));
        }
    }
}
