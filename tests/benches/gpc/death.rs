//! How soon a caller knows that a member was killed for which others wait.
//!
//! In the middle of the tree: those below it are at work when it dies. Behind an agent: it is a rank's process, and the
//! agent, which lives on, hears from it; on this host or on another one, and whether the agent takes part in the call
//! or only carries it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use umbra::call::{Member, Station, WaitError, below, built_in};
use umbra_core::chain::{Call, Code, Handle, Node, Plan, Verdict};
use umbra_core::time::Lapse;
use umbra_core::tree::Shape;
use umbra_tests::bench::{Report, Row};
use umbra_tests::hosts::Hosts;
use umbra_tests::rig::Guarded;

use crate::procs::{Members, PATIENCE, process};
use crate::program::of_agents;
use crate::{LOWER, call, median};

/// Milliseconds that the gate allows: members look for the dead every ten, and two more.
const GATE: f64 = 12.0;
/// Milliseconds that it allows where an agent lives on, which looks every five.
const BEHIND: f64 = 10.0;
const ROUNDS: usize = 5;
/// Turns of what has no 64 processes to start.
const MANY: usize = 25;
/// The member that dies: it has half of the others below it.
const DEAD: Node = Node(1);
/// The header by which leaves have not done their work before the end.
pub(crate) const ENDLESS: &[u8] = b"endless";
/// Members from this one on are such leaves.
const LEAVES: u32 = 32;
/// In which a request goes to all.
const ALL_WAIT: Duration = Duration::from_millis(200);
/// The time of a call, which nothing here is to take.
const BUDGET: Lapse = Lapse::from_secs(30);
/// Ranks on the host of the one that dies.
const RANKS: u32 = 8;

/// What a member does whose work has no end.
pub(crate) fn never(node: Node) -> Option<Verdict> {
    (node.0 >= LEAVES).then_some(Verdict::Pending)
}

/// Milliseconds from the death of a member, which `kill` brings about, to the answer at the maker.
fn until_told(maker: &mut Member, handle: Handle, dead: Node, kill: impl FnOnce()) -> f64 {
    let since = Instant::now();
    while since.elapsed() < ALL_WAIT {
        assert!(!maker.test(handle).expect("a call of ours"), "leaves do not end");
        std::thread::sleep(Duration::from_micros(200));
    }
    let start = Instant::now();
    kill();
    let failure = maker.wait(handle, PATIENCE);
    let took = start.elapsed();
    let Err(WaitError::Failed(failure)) = failure else { unreachable!("{failure:?}") };
    let named = failure.records.first().map(|record| (record.origin, record.code));
    assert_eq!(named, Some((dead, Code::PeerDead)), "{failure}");
    took.as_secs_f64() * 1000.0
}

/// The same of one of so many processes over this tree.
fn among(members: u16, plan: Plan<'_>, dead: Node) -> f64 {
    let Members { mut first, all, mut children, short: _short, .. } = Members::start(members);
    let handle = first.start(&Call { header: ENDLESS, plan, ..call(&all) }).expect("room for one call");
    until_told(&mut first, handle, dead, || children.kill(dead))
}

/// Two hosts with their agents. One who makes calls is a guest of the first, and ranks of the second are processes.
struct TwoHosts {
    /// Ends before the agents do.
    maker: Member,
    there: Station,
    ranks: Vec<(Node, Guarded)>,
    agent: Node,
    _hosts: Hosts,
}

impl TwoHosts {
    fn start(program: PathBuf) -> TwoHosts {
        let hosts = Hosts::of(program, "bench-death", 2, LEAVES);
        let [here, there] = [0, 1].map(|host| hosts.meet(host));
        let first = there.shape().first;
        // Behind the seats of residents there are as many for ranks, and then those of guests.
        let mut maker = Member::join(&here, Node(here.shape().first + 2 * LEAVES)).expect("a free seat");
        maker.serve_built_ins(0).expect("the first functions");
        let ranks = (first + LEAVES..).take(RANKS as usize).map(Node);
        let ranks = ranks.map(|node| (node, process(&there, node))).collect();
        TwoHosts { maker, there, ranks, agent: Node(first), _hosts: hosts }
    }

    /// Milliseconds until the maker is told that the last rank died, which the agent leads, or only carries its messages.
    fn measure(&mut self, led: bool) -> f64 {
        let leader = led.then_some(self.agent);
        let members: Vec<Node> = leader.into_iter().chain(self.ranks.iter().map(|(node, _)| *node)).collect();
        let here = self.maker.serve_until(PATIENCE, |maker| maker.sees(&members).is_none());
        assert!(here, "ranks come, and their agents say so");
        let parents = match led {
            true => below(&self.maker.station().parents(&members, Shape::FLAT).expect("members that there are")),
            false => below(&vec![u32::MAX; members.len()]),
        };
        let plan = Plan::Parents(&parents);
        // Agents have no other functions; that of ranks does not end.
        let wanted = Call { plan, at_root: false, budget: BUDGET, ..built_in::barrier(&members) };
        let handle = self.maker.start(&wanted).expect("room for one call");
        let (dead, child) = self.ranks.last_mut().expect("there are some");
        let took = until_told(&mut self.maker, handle, *dead, || child.kill().expect("a child of ours"));
        *child = process(&self.there, *dead);
        took
    }
}

/// The rows of deaths behind an agent: half of them are told by then, and all of them.
fn behind(report: &mut Report, case: &str, all: Vec<f64>) {
    let gate = "gate G11: a dead process behind an agent";
    let latest = all.iter().copied().fold(0.0, f64::max);
    report.row(Row::new(case, median(all), BEHIND, gate, "ms", LOWER)).bar(1.0);
    report.row(Row::new(&format!("{case}, the latest"), latest, BEHIND, gate, "ms", LOWER)).bar(1.0);
}

pub(crate) fn rows(report: &mut Report) {
    let case = "death 64 ids";
    if report.wants(case) {
        let ours = median((0..ROUNDS).map(|_| among(64, Plan::Shape(Shape::BINARY), DEAD)).collect());
        report.row(Row::new(case, ours, GATE, "gate G11: looked for every 10 ms, and 2 ms", "ms", LOWER)).bar(1.0);
    }
    let case = "death behind an agent, 64 ids";
    if report.wants(case) {
        // Whoever makes the call reaches the first member alone, and that all others.
        behind(report, case, (0..ROUNDS).map(|_| among(64, Plan::Led(Shape::FLAT), Node(63))).collect());
    }
    let cases = [("led", true), ("carried", false)]
        .map(|(how, led)| (format!("death on another host, {how} by its agent"), led));
    let wanted: Vec<_> = cases.into_iter().filter(|(case, _)| report.wants(case)).collect();
    if wanted.is_empty() {
        return;
    }
    let Some(program) = of_agents(report, "a death on another host") else { return };
    let mut hosts = TwoHosts::start(program.into());
    for (case, led) in wanted {
        behind(report, &case, (0..MANY).map(|_| hosts.measure(led)).collect());
    }
}
