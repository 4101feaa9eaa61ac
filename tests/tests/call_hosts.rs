//! Chained calls over members on several hosts (scenarios 33, 63 to 65).
//!
//! Agents are processes that speak TCP to each other.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use umbra::call::probe::{self, Fault};
use umbra::call::{Failure, Member, Number, Operator, Reply, Station, WaitError, below, built_in, reduction};
use umbra_core::chain::{Call, Code, Node, Plan, StartError};
use umbra_core::time::Lapse;
use umbra_core::tree::Shape;
use umbra_tests::call::{Act, call, header, member};
use umbra_tests::hosts::Hosts;

const LONG: Duration = Duration::from_secs(30);
/// The time of calls whose failure must be known long before.
const BUDGET: Lapse = Lapse::from_secs(20);
/// The time of calls that end at their deadline. Each of their four levels keeps a 64th of it for the report of the next one, which
/// comes through five threads and a link: on a machine with much else to do they are late by more than a short call keeps, and
/// then the one above is the deepest who is heard of.
const DEADLINE: Lapse = Lapse::from_secs(12);

/// Somebody on a host who makes calls over all others.
struct Maker {
    member: Member,
    everywhere: Vec<Node>,
}

impl Maker {
    /// Takes the first seat for guests of that host, and waits until all members are there.
    fn on(hosts: &Hosts, host: u32) -> Maker {
        let station = hosts.meet(host);
        let shape = station.shape();
        let seat = Node(shape.first + 2 * hosts.residents);
        let mut member = Member::join(&station, seat).unwrap();
        member.serve_built_ins(0).unwrap();
        member.serve_probe().unwrap();
        let mut maker = Maker { member, everywhere: shape.residents(hosts.residents) };
        assert!(maker.reply(&built_in::barrier(&maker.everywhere.clone())).is_empty());
        maker
    }

    /// Makes a call in which somebody may not be there yet.
    fn try_make(&mut self, call: &Call<'_>) -> Option<Reply> {
        let handle = self.member.start(&Call { at_root: false, ..*call }).ok()?;
        self.member.wait(handle, LONG).ok()
    }

    fn make(&mut self, call: &Call<'_>) -> Result<Reply, Failure> {
        let parents = below(&self.member.station().parents(call.members, Shape::BINARY).unwrap());
        let handle = self.member.start(&Call { plan: Plan::Parents(&parents), at_root: false, ..*call }).unwrap();
        match self.member.wait(handle, LONG) {
            Ok(reply) => Ok(reply),
            Err(WaitError::Failed(failure)) => Err(failure),
            Err(other) => panic!("{other}"),
        }
    }

    fn reply(&mut self, call: &Call<'_>) -> Vec<u8> {
        self.make(&Call { budget: BUDGET, ..*call }).unwrap_or_else(|failure| panic!("{failure}")).data
    }
}

#[test]
fn s65_a_call_crosses_once_down_and_once_up_for_each_other_host() {
    let hosts = Hosts::start("hosts-count", 4, 16);
    let mut maker = Maker::on(&hosts, 0);
    let members = maker.everywhere.clone();
    assert_eq!(members.len(), 64);
    let sent = || -> Vec<u64> { (0..4).map(|host| hosts.figure(host, "call_messages_sent")).collect() };
    let before = sent();
    for round in 1..=10_i64 {
        let sum = maker.reply(&built_in::count(&members, &1_i64.to_le_bytes()));
        assert_eq!(sum, (64 * round).to_le_bytes());
    }
    let crossed: Vec<u64> = sent().iter().zip(before).map(|(after, before)| after - before).collect();
    // In a binary tree of four leaders the first sends to two and the second to one; each answers once.
    assert_eq!(crossed, [20, 20, 10, 10], "messages of ten calls, by host");
    let before = sent();
    for _ in 0..10 {
        let barrier = Call { plan: Plan::Auto, at_root: false, budget: BUDGET, ..built_in::barrier(&members) };
        let handle = maker.member.start(&barrier).unwrap();
        maker.member.wait(handle, LONG).unwrap();
    }
    let crossed: Vec<u64> = sent().iter().zip(before).map(|(after, before)| after - before).collect();
    assert_eq!(crossed, [30, 10, 10, 10], "a tree that nobody stated: the first agent sends to all others");
}

#[test]
fn members_on_other_hosts_forget_what_they_ran_when_whoever_watched_them_is_gone() {
    let hosts = Hosts::start("hosts-watched", 2, 4);
    let mut maker = Maker::on(&hosts, 0);
    let (members, station) = (maker.everywhere.clone(), hosts.meet(0));
    let seat = Node(station.shape().first + 2 * hosts.residents + 1);
    let mut watcher = Member::join(&station, seat).unwrap();
    watcher.serve_probe().unwrap();
    let orders = probe::orders(true, None);
    let watch = Call { at_root: false, budget: BUDGET, ..probe::watch(&members, &orders) };
    let handle = watcher.start(&watch).unwrap();
    watcher.wait(handle, LONG).unwrap();
    let mut seen = || {
        let barrier = Call { at_root: false, budget: BUDGET, ..built_in::barrier(&members) };
        let handle = maker.member.start(&barrier).unwrap();
        let named = probe::named(maker.member.call_id(handle).unwrap());
        maker.member.wait(handle, LONG).unwrap();
        let mut nodes: Vec<Node> =
            probe::runs(&maker.reply(&probe::trace(&members, &named, 4096))).map(|run| run.node).collect();
        nodes.sort();
        nodes.dedup();
        nodes
    };
    assert_eq!(seen(), members);
    drop(watcher);
    let begun = Instant::now();
    while !seen().is_empty() {
        assert!(begun.elapsed() < LONG, "they are watched by nobody");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The list of such a call is longer than a message between agents, if every member is named.
#[test]
fn a_call_reaches_more_members_than_a_message_has_names() {
    let hosts = Hosts::start("hosts-many", 3, 400);
    let mut maker = Maker::on(&hosts, 0);
    let members = maker.everywhere.clone();
    assert_eq!(members.len(), 1200);
    assert!(8 * members.len() > maker.member.message_bytes() as usize, "a name and a size for each");
    let sum = maker.reply(&built_in::count(&members, &1_i64.to_le_bytes()));
    assert_eq!(sum, 1200_i64.to_le_bytes());
}

#[test]
fn values_of_all_hosts_are_gathered_and_combined() {
    let hosts = Hosts::start("hosts-values", 3, 4);
    let mut maker = Maker::on(&hosts, 1);
    let members = maker.everywhere.clone();
    for (at, &node) in members.iter().enumerate() {
        assert!(maker.reply(&built_in::broadcast(&[node], &(at as u64).to_le_bytes())).is_empty());
    }
    let sum = maker.reply(&built_in::reduce(&members, &reduction(Operator::Sum, Number::U64), 8));
    assert_eq!(sum, 66_u64.to_le_bytes());
    let gathered = maker.reply(&built_in::gather(&members, 96));
    let mut found: Vec<(Node, Vec<u8>)> =
        built_in::entries(&gathered).map(|(node, value)| (node, value.to_vec())).collect();
    found.sort();
    let expected = (0_u64..).zip(&members).map(|(at, &node)| (node, at.to_le_bytes().to_vec())).collect::<Vec<_>>();
    assert_eq!(found, expected);
}

#[test]
fn s63_functions_of_ranks_run_on_every_host_and_failures_are_named() {
    let hosts = Hosts::start("hosts-ranks", 3, 2);
    let places: Vec<Station> = (0..3).map(|host| hosts.meet(host)).collect();
    // A rank on each host: two are processes of their own.
    let seats: Vec<Node> = places.iter().map(|station| Node(station.shape().first + 2)).collect();
    let mut ranks: Vec<Child> = (1..3)
        .map(|host| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_call-member"));
            let station = Stdio::from(places[host].share().unwrap());
            command.arg(seats[host].0.to_string()).stdin(station).spawn().unwrap()
        })
        .collect();
    let mut first = member(&places[0], seats[0], 2);
    let mut sum = |header: &[u8]| {
        let handle = first.start(&call(&seats, header)).unwrap();
        match first.wait(handle, LONG) {
            Ok(reply) => Ok(u64::from_le_bytes(reply.data.try_into().unwrap())),
            Err(WaitError::Failed(failure)) => Err(failure),
            Err(other) => panic!("{other}"),
        }
    };
    let total = seats.iter().map(|node| u64::from(node.0)).sum::<u64>();
    for _ in 0..50 {
        assert_eq!(sum(&[]), Ok(total));
    }
    let failure = sum(&header(seats[2], Act::Fault)).unwrap_err();
    assert_eq!((failure.records[0].origin, failure.records[0].code), (seats[2], Code::Fault));
    assert_eq!(failure.records[0].aux, 42);
    // One that dies in its function is named, long before the deadline, although its agent goes on.
    let begun = Instant::now();
    let failure = sum(&header(seats[1], Act::DieInFunc)).unwrap_err();
    assert_eq!((failure.records[0].origin, failure.records[0].code), (seats[1], Code::PeerDead), "{failure}");
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    for rank in &mut ranks {
        let _ = rank.kill();
        rank.wait().unwrap();
    }
}

#[test]
fn s64_a_killed_agent_is_named_in_mid_call_and_the_others_go_on() {
    let mut hosts = Hosts::start("hosts-killed", 3, 8);
    let mut maker = Maker::on(&hosts, 0);
    let members = maker.everywhere.clone();
    // A member on the last host never ends its function.
    let (leader, hangs) = (members[16], members[20]);
    let on = probe::orders(true, Some((hangs, Fault::Hang)));
    maker.reply(&probe::watch(&members, &on));
    let parents = below(&maker.member.station().parents(&members, Shape::FLAT).unwrap());
    let barrier = Call { plan: Plan::Parents(&parents), at_root: false, budget: BUDGET, ..built_in::barrier(&members) };
    let begun = Instant::now();
    let handle = maker.member.start(&barrier).unwrap();
    let ended = maker.member.serve_until(Duration::from_millis(300), |member| member.test(handle).unwrap());
    assert!(!ended, "somebody hangs");
    hosts.kill(2);
    let Err(WaitError::Failed(failure)) = maker.member.wait(handle, LONG) else { panic!("its agent is dead") };
    assert!(begun.elapsed() < Duration::from_secs(8), "long before the deadline: {:?}", begun.elapsed());
    let record = failure.records[0];
    assert_eq!((record.origin, record.code), (leader, Code::PeerDead), "{failure}");
    assert_eq!(failure.tallies.failed, 1, "{failure}");
    // The dead are known, and the others go on.
    assert!(matches!(maker.member.start(&built_in::barrier(&members)), Err(StartError::DeadId(_))));
    let rest = members[..16].to_vec();
    assert!(maker.reply(&built_in::barrier(&rest)).is_empty());
    // Another life of that agent takes part as a new one.
    hosts.restart(2);
    let _ = hosts.meet(2);
    let until = Instant::now() + LONG;
    // The others hear of it one after the other.
    while maker.try_make(&Call { budget: Lapse::from_secs(2), ..built_in::barrier(&members) }).is_none() {
        assert!(Instant::now() < until, "the agent is back");
        maker.member.serve_until(Duration::from_millis(20), |_| false);
    }
    let sum = maker.reply(&built_in::count(&members, &1_i64.to_le_bytes()));
    assert_eq!(sum, 24_i64.to_le_bytes(), "counters of the new life begin anew");
}

#[test]
fn s33_a_member_that_hangs_on_another_host_is_named_at_the_deadline() {
    let hosts = Hosts::start("hosts-hang", 2, 4);
    let mut maker = Maker::on(&hosts, 0);
    let members = maker.everywhere.clone();
    let hangs = members[6];
    maker.reply(&probe::watch(&members, &probe::orders(true, Some((hangs, Fault::Hang)))));
    let begun = Instant::now();
    let failure = maker.make(&Call { budget: DEADLINE, ..built_in::barrier(&members) }).unwrap_err();
    assert!(begun.elapsed() < Duration::from_secs(16), "{:?}", begun.elapsed());
    assert_eq!((failure.records[0].origin, failure.records[0].code), (hangs, Code::Timeout), "{failure}");
    maker.reply(&probe::watch(&members, &probe::orders(false, None)));
    assert!(maker.reply(&built_in::barrier(&members)).is_empty(), "nothing is left of it");
}

#[test]
fn a_stopped_agent_costs_the_deadline_and_nothing_more() {
    let hosts = Hosts::start("hosts-stopped", 3, 2);
    let mut maker = Maker::on(&hosts, 0);
    let members = maker.everywhere.clone();
    let pid = Pid::from_child(&hosts.agents[1]);
    kill_process(pid, Signal::STOP).unwrap();
    let failure = maker.make(&Call { budget: DEADLINE, ..built_in::barrier(&members) });
    let rest = [&members[..2], &members[4..]].concat();
    let others = maker.reply(&built_in::barrier(&rest));
    kill_process(pid, Signal::CONT).unwrap();
    let failure = failure.unwrap_err();
    assert_eq!((failure.records[0].origin, failure.records[0].code), (members[2], Code::Timeout), "{failure}");
    assert!(others.is_empty());
    assert!(maker.reply(&built_in::barrier(&members)).is_empty(), "it goes on where it was stopped");
}

#[test]
fn umbra_call_leaves_out_everybody_on_a_host_that_is_dead() {
    let mut hosts = Hosts::start("hosts-skip", 3, 2);
    drop(Maker::on(&hosts, 1));
    hosts.kill(0);
    let count = ["count", "--add", "1", "--everywhere", "--deadline", "20s", "--timeout", "3s"];
    let (output, text) = hosts.umbra_call(1, &count);
    assert!(!output.status.success() && text.contains("members at service process 0 are not there"), "{text}");
    // The first of the list, whom the leaders of the other hosts hang below, is one of the dead.
    let (output, text) = hosts.umbra_call(1, &[&count[..], &["--skip-dead"]].concat());
    assert!(output.status.success() && text.contains("sum of all counters 4"), "{text}");
    assert!(text.contains("left out, as dead: 0, 1\n") && !text.contains("did not run"), "{text}");
}

#[test]
fn makers_on_all_hosts_cross_and_all_come_through() {
    let hosts = Hosts::start("hosts-cross", 3, 4);
    std::thread::scope(|scope| {
        for host in 0..3 {
            let hosts = &hosts;
            scope.spawn(move || {
                let mut maker = Maker::on(hosts, host);
                let members = maker.everywhere.clone();
                for round in 0..100_u64 {
                    // Longer data than one segment of TCP, to be cut anywhere.
                    let value = (round * 8 + u64::from(host)).to_le_bytes().repeat(100);
                    maker.reply(&built_in::broadcast(&members, &value));
                    let most = maker.reply(&built_in::reduce(&members, &reduction(Operator::Max, Number::U64), 800));
                    assert_eq!(most.len(), 800);
                }
            });
        }
    });
    let refused: u64 = (0..3).map(|host| hosts.figure(host, "call_requests_refused")).sum();
    println!("{refused} requests were refused for lack of room");
}
