//! Chained calls between processes, some of which are killed.
//!
//! At every stage the dead one is named, long before the deadline, and nothing that it held is missed afterwards.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use umbra::call::{Failure, Member, Reply, Shape, Station, WaitError};
use umbra_core::chain::{Call, Code, Mode, Node, Plan, Stage, StartError};
use umbra_core::tree::{self, explicit::ROOT};
use umbra_tests::call::{Act, INNER, call, cross, header, member, relayed, vectors, vectors_sum, words_of};
use umbra_tests::rig::{Guarded, all_gone};

/// Far beyond anything that a loaded machine needs.
const LONG: Duration = Duration::from_secs(30);
/// How often the dead are looked for while a call is under way.
const LOOK: Duration = Duration::from_millis(10);
const MEMBERS: u16 = 7;

/// Processes that are killed and reaped however the test ends.
struct Job {
    station: Station,
    children: Vec<(Node, Child)>,
    first: Member,
}

impl Job {
    /// Member 0 is this process.
    fn start() -> Job {
        let station = Station::create("call processes", Shape { offer_bytes: 1 << 20, ..Shape::new(MEMBERS) }).unwrap();
        let mut first = member(&station, Node(0), 2);
        let mut job = Vec::new();
        for node in (1..u32::from(MEMBERS)).map(Node) {
            job.push((node, child(&station, node, false)));
        }
        // Requests wait in inboxes until their owners have come.
        let handle = first.start(&call(&all(), &[])).unwrap();
        assert_eq!(first.wait(handle, LONG).unwrap(), good());
        Job { station, children: job, first }
    }

    fn kill(&mut self, node: Node) {
        let (_, child) = self.children.iter_mut().find(|(at, _)| *at == node).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Starts a dead member again.
    fn again(&mut self, node: Node) {
        let (_, old) = self.children.iter_mut().find(|(at, _)| *at == node).unwrap();
        let _ = old.kill();
        old.wait().unwrap();
        *old = child(&self.station, node, false);
    }

    fn run(&mut self, header: &[u8]) -> Result<Reply, Failure> {
        let all = all();
        let collecting = Call { mode: Mode::COLLECT, ..call(&all, header) };
        let handle = self.first.start(&collecting).unwrap();
        match self.first.wait(handle, LONG) {
            Ok(reply) => Ok(reply),
            Err(WaitError::Failed(failure)) => Err(failure),
            Err(other) => panic!("{other}"),
        }
    }

    /// Calls until all are there again: whoever was started again has to come first.
    fn recovers(&mut self) {
        let start = Instant::now();
        loop {
            self.first.serve_until(Duration::from_millis(20), |_| false);
            let all = all();
            let handle = match self.first.start(&call(&all, &[])) {
                Ok(handle) => handle,
                Err(error) => {
                    assert!(matches!(error, StartError::DeadId(_)), "{error}");
                    assert!(start.elapsed() < LONG, "the member that was started again does not come");
                    continue;
                }
            };
            match self.first.wait(handle, LONG) {
                Ok(reply) => return assert_eq!(reply, good()),
                Err(other) => assert!(start.elapsed() < LONG, "{other}"),
            }
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        for (_, child) in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn all() -> Vec<Node> {
    (0..u32::from(MEMBERS)).map(Node).collect()
}

fn good() -> Reply {
    Reply { members: u32::from(MEMBERS), data: 21_u64.to_le_bytes().to_vec(), ..Reply::default() }
}

fn child(station: &Station, node: Node, calls: bool) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_call-member"));
    command.arg(node.0.to_string()).args(calls.then_some("call"));
    command.stdin(Stdio::from(station.share().unwrap())).spawn().unwrap()
}

#[test]
fn a_member_that_is_stopped_does_not_outlive_whoever_started_it() {
    let start = || {
        let station = Station::create("call processes", Shape::new(2)).unwrap();
        let mut first = member(&station, Node(0), 2);
        let other = Guarded::from(child(&station, Node(1), false));
        let handle = first.start(&call(&[Node(0), Node(1)], &[])).unwrap();
        first.wait(handle, LONG).unwrap();
        kill_process(Pid::from_child(&other), Signal::STOP).unwrap();
        other
    };
    // As if the test were killed: nobody wakes or ends what it had stopped.
    let stopped = std::thread::spawn(start).join().unwrap();
    all_gone(&[stopped.id()]);
}

#[test]
fn s35_s36_a_member_that_is_killed_at_any_stage_is_named() {
    let mut job = Job::start();
    // A leaf and an interior member; in its function, in its callback.
    for (victim, act) in [(6, Act::DieInFunc), (2, Act::DieInFunc), (2, Act::DieInCallback), (1, Act::DieInCallback)] {
        let victim = Node(victim);
        let start = Instant::now();
        let failure = job.run(&header(victim, act)).unwrap_err();
        assert!(start.elapsed() < Duration::from_secs(9), "{act:?} at {victim} took until the deadline: {failure}");
        let [record] = failure.records[..] else { panic!("{failure}") };
        assert_eq!((record.origin, record.stage, record.code), (victim, Stage::Child, Code::PeerDead), "{act:?}");
        let below = if victim == Node(6) { 0 } else { 2 };
        assert_eq!((failure.tallies.ok, failure.tallies.failed, failure.tallies.unknown), (6 - below, 1, below));
        job.again(victim);
        job.recovers();
    }
}

#[test]
fn s35_a_member_that_is_dead_before_its_request_comes_is_named() {
    let mut job = Job::start();
    job.kill(Node(4));
    // Perhaps the maker knows already, perhaps the parent of 4 does, or finds out.
    let all = all();
    match job.first.start(&Call { mode: Mode::COLLECT, ..call(&all, &[]) }) {
        Ok(handle) => {
            let Err(WaitError::Failed(failure)) = job.first.wait(handle, LONG) else { panic!("4 is dead") };
            assert_eq!((failure.records[0].origin, failure.records[0].code), (Node(4), Code::PeerDead));
            assert_eq!((failure.tallies.ok, failure.tallies.failed), (6, 1));
        }
        Err(error) => assert_eq!(error, StartError::DeadId(Node(4))),
    }
    job.again(Node(4));
    job.recovers();
}

#[test]
fn d6_those_below_the_dead_in_a_stated_tree_are_asked_by_whoever_lives_above_them() {
    let mut job = Job::start();
    let all = all();
    for (dead, parents, asked) in [
        // 1 above 3 and 4, and 2 above 6.
        (&[1][..], [ROOT, 0, 0, 1, 1, 4, 2], 3),
        // One below the other.
        (&[1, 2], [ROOT, 0, 1, 2, 3, 4, 5], 1),
    ] {
        let dead: Vec<Node> = dead.iter().copied().map(Node).collect();
        let last = dead[dead.len() - 1];
        job.kill(last);
        assert!(job.first.serve_until(LONG, |first| first.is_dead(last)), "{last} is dead");
        let requests = job.first.figures().requests;
        let plan = Plan::Parents(&parents);
        let handle = job.first.start(&Call { plan, mode: Mode::SKIP_DEAD, ..call(&all, &[]) }).unwrap();
        let reply = job.first.wait(handle, LONG).unwrap();
        let sum: u64 = all.iter().filter(|node| !dead.contains(node)).map(|node| u64::from(node.0)).sum();
        assert_eq!((reply.data, &reply.skipped), (sum.to_le_bytes().to_vec(), &dead));
        assert_eq!(job.first.figures().requests - requests, asked, "over {parents:?}");
    }
}

#[test]
fn s35_a_member_that_is_killed_while_it_waits_for_its_children_is_named() {
    let mut job = Job::start();
    let all = all();
    // 5 answers only when it is told to stop, so 2 has not answered when it dies.
    let header = header(Node(5), Act::Hang);
    let handle = job.first.start(&Call { mode: Mode::COLLECT, ..call(&all, &header) }).unwrap();
    job.first.serve_until(Duration::from_millis(50), |_| false);
    job.kill(Node(2));
    let Err(WaitError::Failed(failure)) = job.first.wait(handle, LONG) else { panic!("2 is dead") };
    assert_eq!((failure.records[0].origin, failure.records[0].code), (Node(2), Code::PeerDead));
    assert_eq!((failure.tallies.failed, failure.tallies.unknown), (1, 2));
    job.again(Node(2));
    job.recovers();
}

#[test]
fn s35_a_member_that_is_killed_after_it_has_answered_is_not_missed() {
    let mut good_rounds = 0;
    for round in 0..50 {
        // 5 takes a fifth of a second in its first call.
        let (mut job, start) = (Job::start(), Instant::now());
        let (all, header, runs) = (all(), header(Node(5), Act::Wait), job.first.figures().runs);
        let handle = job.first.start(&Call { plan: Plan::Shape(tree::Shape::FLAT), ..call(&all, &header) }).unwrap();
        // The maker's function, and its callback for the other five.
        assert!(job.first.serve_until(LONG, |first| first.figures().runs >= runs + 6), "round {round}");
        job.kill(Node(6));
        if start.elapsed() > Duration::from_millis(150) {
            // Perhaps 5 was among them, and not 6.
            continue;
        }
        assert_eq!(job.first.wait(handle, LONG).unwrap().data, good().data, "round {round}");
        job.again(Node(6));
        job.recovers();
        good_rounds += 1;
        if good_rounds == 3 {
            return;
        }
    }
    panic!("the machine is too slow: {good_rounds} rounds in time");
}

#[test]
fn g11_a_child_that_is_killed_is_told_at_the_first_look_of_its_parent() {
    let mut job = Job::start();
    for victim in [Node(1), Node(2)] {
        let handle = job.first.start(&call(&all(), &header(victim, Act::Hang))).unwrap();
        assert!(!job.first.serve_until(Duration::from_millis(20), |first| first.test(handle).unwrap()));
        job.kill(victim);
        // From the last turn to the next look.
        std::thread::sleep(LOOK);
        assert!(job.first.test(handle).unwrap(), "{victim} is dead");
        let Err(WaitError::Failed(failure)) = job.first.wait(handle, Duration::ZERO) else {
            panic!("{victim} is dead")
        };
        assert_eq!((failure.records[0].origin, failure.records[0].code), (victim, Code::PeerDead));
        job.again(victim);
        job.recovers();
    }
}

#[test]
fn g11_a_rank_that_is_killed_behind_an_agent_is_told_at_the_first_look_of_the_agent() {
    let station = Station::create("call processes", Shape::new(3)).unwrap();
    // Both in this thread, so that only what the test has them do tells anything.
    let [mut maker, mut agent] = [0, 1].map(|node| member(&station, Node(node), 2));
    let rank = Node(2);
    let mut process = Guarded::from(child(&station, rank, false));
    let members = [Node(1), rank];
    let led = |header| Call { plan: Plan::Led(tree::Shape::FLAT), ..call(&members, header) };
    let good = maker.start(&led(&[])).unwrap();
    let is_over = |maker: &mut Member, agent: &mut Member| {
        agent.turn();
        maker.test(good).unwrap()
    };
    assert!(maker.serve_until(LONG, |maker| is_over(maker, &mut agent)), "the rank comes");
    assert_eq!(maker.wait(good, Duration::ZERO).unwrap().data, 3_u64.to_le_bytes());
    let hang = header(rank, Act::Hang);
    let handle = maker.start(&led(&hang)).unwrap();
    assert!(!agent.serve_until(Duration::from_millis(20), |_| maker.test(handle).unwrap()), "the rank hangs");
    process.kill().unwrap();
    process.wait().unwrap();
    // From the last turn to the next look.
    std::thread::sleep(LOOK);
    agent.turn();
    assert!(maker.test(handle).unwrap(), "the agent has told of the death");
    let Err(WaitError::Failed(failure)) = maker.wait(handle, Duration::ZERO) else { panic!("the rank is dead") };
    assert_eq!((failure.records[0].origin, failure.records[0].code), (rank, Code::PeerDead));
}

#[test]
fn s37_a_maker_that_is_killed_leaves_no_place_taken() {
    let mut job = Job::start();
    // Every member has two places; each dead maker would keep one.
    for _ in 0..4 {
        job.kill(Node(1));
        let runs = job.first.figures().runs;
        let caller = child(&job.station, Node(1), true);
        job.children[0].1 = caller;
        assert!(job.first.serve_until(LONG, |first| first.figures().runs > runs), "its call has come here");
        job.kill(Node(1));
        job.again(Node(1));
        job.recovers();
    }
}

#[test]
fn s13_a_member_that_is_killed_in_a_call_within_another_one_is_named_to_the_function_that_made_it() {
    let mut job = Job::start();
    // The maker's own function calls everybody, and 6 dies in that call.
    let header = header(Node(6), Act::DieInFunc);
    let start = Instant::now();
    let handle = job.first.start(&relayed(&[Node(0)], &header)).unwrap();
    let Err(WaitError::Failed(failure)) = job.first.wait(handle, LONG) else { panic!("6 is dead") };
    assert!(start.elapsed() < Duration::from_secs(9), "it took until the deadline: {failure}");
    let [record] = failure.records[..] else { panic!("{failure}") };
    assert_eq!((record.origin, record.code, record.aux), (Node(0), Code::Fault, INNER + 6));
    job.again(Node(6));
    job.recovers();
    let handle = job.first.start(&relayed(&[Node(0)], &[])).unwrap();
    assert_eq!(job.first.wait(handle, LONG).unwrap().data, good().data);
}

#[test]
fn s60_a_member_that_is_killed_while_long_replies_are_combined_is_named_and_leaves_no_memory_taken() {
    let mut job = Job::start();
    // There is memory for one such reply in each member.
    let (all, bytes) = (all(), 1 << 20);
    let sum = vectors_sum(&all, bytes);
    for (victim, act) in [(6, Act::DieInFunc), (2, Act::DieInFunc), (2, Act::DieInCallback), (1, Act::DieInCallback)] {
        let victim = Node(victim);
        let head = header(victim, act);
        let handle = job.first.start(&vectors(&all, &head, bytes)).unwrap();
        let Err(WaitError::Failed(failure)) = job.first.wait(handle, LONG) else { panic!("{victim} is dead") };
        assert_eq!((failure.records[0].origin, failure.records[0].code), (victim, Code::PeerDead), "{act:?}");
        job.again(victim);
        job.recovers();
        // Long before the time of the call that failed is over.
        let start = Instant::now();
        let handle = job.first.start(&vectors(&all, &[], bytes)).unwrap();
        let reply = job.first.wait(handle, LONG).unwrap_or_else(|error| panic!("after {act:?} at {victim}: {error}"));
        assert!(reply.data == sum);
        assert!(start.elapsed() < Duration::from_secs(8), "{:?} after {act:?} at {victim}", start.elapsed());
    }
}

#[test]
fn s60_processes_that_offer_all_they_can_to_each_other_have_long_replies_of_each_other() {
    let shape = Shape { offer_bytes: 1 << 20, ..Shape::new(5) };
    let station = Station::create("call processes", shape).unwrap();
    let members: Vec<Node> = shape.here().collect();
    let mut first = member(&station, members[0], 32);
    let others = members[1..].iter().map(|node| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_call-member"));
        command.args([&node.0.to_string(), "cross", "9"]).args(members.iter().map(|node| node.0.to_string()));
        Guarded::from(command.stdin(Stdio::from(station.share().unwrap())).spawn().unwrap())
    });
    let _others: Vec<Guarded> = others.collect();
    assert!(first.serve_until(LONG, |first| first.sees(&members).is_none()), "all have come");
    cross(&mut first, &members, 9);
}

#[test]
fn s57_all_processes_read_large_data_where_its_maker_has_laid_it() {
    let mut job = Job::start();
    let data: Vec<u8> = (0..1_u64 << 17).flat_map(|word| (word * word).to_le_bytes()).collect();
    let sum = (0..1_u64 << 17).fold(0_u64, |sum, word| sum.wrapping_add(word * word));
    let offer = job.first.offer(&data).unwrap();
    for round in 0..3 {
        let handle = job.first.start(&words_of(offer.data(), &all(), &[])).unwrap();
        assert_eq!(job.first.wait(handle, LONG).unwrap().data, sum.wrapping_mul(7).to_le_bytes(), "round {round}");
    }
    assert_eq!(job.first.offered_bytes(), 1 << 20, "one copy, whoever reads it however often");
    // A reader that is killed holds nothing.
    let failing = header(Node(6), Act::Fault);
    let handle = job.first.start(&words_of(offer.data(), &all(), &failing)).unwrap();
    job.kill(Node(5));
    assert!(job.first.wait(handle, LONG).is_err());
    job.first.take_back(offer);
    let offer = job.first.offer(&data).unwrap();
    job.first.take_back(offer);
}
