//! Ranks below an agent: how often a call wakes them (scenarios 61, 62).
//!
//! The tests also show what the agent does while they compute.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use umbra::call::probe::{self, Run};
use umbra::call::{Member, Shape, Station, built_in};
use umbra_core::chain::{Call, Handle, Node, Plan};
use umbra_core::time::Lapse;
use umbra_core::tree::explicit::ROOT;
use umbra_tests::hosts::Hosts;
use umbra_tests::rig::Scratch;

/// Far beyond anything that a loaded machine needs.
const LONG: Duration = Duration::from_secs(40);
const BUDGET: Lapse = Lapse::from_secs(30);
/// Every rank is to be woken by so many calls.
const WAKES: u64 = 5;
/// In which whoever has answered has gone to sleep again, if it finds a processor.
const PAUSE: Duration = Duration::from_millis(10);
/// The longest pause, for whoever finds none.
const MOST: Duration = Duration::from_millis(500);

/// Ranks as processes; the member that leads them lives at the agent.
struct Job {
    maker: Member,
    /// The leader, and behind it the ranks.
    members: Vec<Node>,
    ranks: Vec<Child>,
}

impl Drop for Job {
    fn drop(&mut self) {
        for rank in &mut self.ranks {
            let _ = rank.kill();
            let _ = rank.wait();
        }
    }
}

/// What a rank has told.
#[derive(Clone, Copy)]
struct Counts {
    /// Times that a message has ended its sleep.
    woken: u64,
    slept: u64,
    /// Calls whose request has come while it slept.
    asleep: u64,
    /// Times that it has slept, as the kernel counts it.
    switches: u64,
}

impl Counts {
    fn since(self, before: Counts) -> Counts {
        Counts {
            woken: self.woken - before.woken,
            slept: self.slept - before.slept,
            asleep: self.asleep - before.asleep,
            switches: self.switches - before.switches,
        }
    }

    /// That the kernel has counted no more sleeps than the member itself.
    fn is_what_the_kernel_says(self, node: Node) {
        let Counts { slept, switches, .. } = self;
        // Counted by two who do not look at the same moment; a fault of a page may be a switch, too.
        assert!(switches <= slept + 10 + slept / 10, "member {node} slept {slept} times, the kernel says {switches}");
    }
}

impl Job {
    /// Ranks that compute until there is such a file, if they are to.
    fn start(station: &Station, residents: u32, ranks: u32, until: &Path) -> Job {
        let leader = Node(station.shape().first);
        let nodes: Vec<Node> = (residents..residents + ranks).map(|at| Node(leader.0 + at)).collect();
        let rank = |node: &Node| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_call-member"));
            let station = Stdio::from(station.share().unwrap());
            command.arg(node.0.to_string()).arg("count").arg(until).stdin(station).spawn().unwrap()
        };
        let ranks = nodes.iter().map(rank).collect();
        let mut maker = Member::join(station, Node(leader.0 + 2 * residents)).unwrap();
        maker.serve_built_ins(0).unwrap();
        maker.serve_probe().unwrap();
        let members = [&[leader][..], &nodes].concat();
        let all_are_there = maker.serve_until(LONG, |maker| maker.sees(&members).is_none());
        assert!(all_are_there, "{:?} is not there", maker.sees(&members));
        Job { maker, members, ranks }
    }

    /// Begins to gather the counts of all ranks; one of them computes meanwhile.
    fn start_call(&mut self, computes: Option<Node>) -> Handle {
        let parents: Vec<u32> = [ROOT, 0].into_iter().chain(self.members[1..].iter().map(|_| 1)).collect();
        let header = computes.map_or([0; 4], |node| node.0.to_le_bytes());
        let gather = built_in::gather(&self.members, 32 * self.members.len() as u32);
        let call = Call { plan: Plan::Parents(&parents), at_root: false, header: &header, budget: BUDGET, ..gather };
        self.maker.start(&call).unwrap()
    }

    fn end(&mut self, handle: Handle) -> BTreeMap<Node, Counts> {
        let reply = self.maker.wait(handle, LONG).unwrap();
        let entries = built_in::entries(&reply.data).filter(|(node, _)| self.members[1..].contains(node));
        let counts = entries.map(|(node, value)| {
            let word = |at: usize| u64::from_le_bytes(value[8 * at..8 * at + 8].try_into().unwrap());
            (node, Counts { woken: word(0), slept: word(1), asleep: word(2), switches: word(3) })
        });
        let counts: BTreeMap<Node, Counts> = counts.collect();
        assert_eq!(counts.len(), self.members.len() - 1, "every rank has told once");
        counts
    }

    /// Makes a call of members that live at the agent.
    fn at_agent(&mut self, call: &Call<'_>) -> Vec<u8> {
        let handle = self.maker.start(&Call { at_root: false, budget: BUDGET, ..*call }).unwrap();
        self.maker.wait(handle, LONG).unwrap().data
    }
}

#[test]
fn s61_calls_over_members_at_an_agent_wake_no_rank() {
    const CALLS: i64 = 200;
    let (hosts, scratch) = (Hosts::start("call-quiet", 1, 8), Scratch::new("call-quiet-files"));
    let mut job = Job::start(&hosts.meet(0), 8, 8, &scratch.path().join("never"));
    let at_agent: Vec<Node> = (0..8).map(|nth| Node(job.members[0].0 + nth)).collect();
    let told = |job: &mut Job| {
        let handle = job.start_call(None);
        job.end(handle)
    };
    let before = told(&mut job);
    std::thread::sleep(PAUSE);
    for call in 1..=CALLS {
        assert!(job.at_agent(&built_in::barrier(&at_agent)).is_empty());
        assert_eq!(job.at_agent(&built_in::count(&at_agent, &1_i64.to_le_bytes())), (8 * call).to_le_bytes());
    }
    for (node, after) in told(&mut job) {
        // By the calls in which they tell, of which the last one is not yet counted.
        let since = after.since(before[&node]);
        let woken = since.woken;
        assert!(woken <= 2, "member {node} was woken {woken} times by {CALLS} calls that it had no part in");
        since.is_what_the_kernel_says(node);
    }
}

#[test]
fn s62_a_call_wakes_each_rank_once_whatever_the_fan_out() {
    for count in [2, 8, 24] {
        let (hosts, scratch) = (Hosts::start("call-wakes", 1, count), Scratch::new("call-wakes-files"));
        let mut job = Job::start(&hosts.meet(0), count, count, &scratch.path().join("never"));
        let handle = job.start_call(None);
        let first = job.end(handle);
        let (mut calls, mut late, mut last, until) = (0, 0, first.clone(), Instant::now() + LONG);
        let mut pause = PAUSE;
        // Who is awake for another reason when its request comes, such as to look who has died, is not woken by that.
        while last.iter().any(|(node, now)| now.woken - first[node].woken < WAKES) {
            std::thread::sleep(pause);
            let handle = job.start_call(None);
            let now = job.end(handle);
            calls += 1;
            if now.iter().any(|(node, now)| now.since(last[node]).woken == 0) {
                // On a busy machine whoever has answered finds no processor for a while, and stays awake.
                pause = (2 * pause).min(MOST);
            }
            for (node, now) in &now {
                let Counts { woken, asleep, .. } = now.since(last[node]);
                assert!(woken <= 1, "member {node} of {count} was woken {woken} times by call {calls}");
                assert!(woken <= asleep, "member {node} of {count} was woken, but not by call {calls}");
                late += asleep - woken;
            }
            last = now;
            assert!(Instant::now() < until, "ranks do not sleep between {calls} calls");
        }
        // Whoever slept was woken by its request, once. One may have looked at the clock a moment before its request came.
        assert!(
            late <= 1,
            "{late} requests to ranks that slept were found later, by whoever looked for something else"
        );
        for (node, now) in &last {
            now.since(first[node]).is_what_the_kernel_says(*node);
        }
    }
}

#[test]
fn a_member_that_nobody_calls_looks_ten_times_a_second_who_has_died() {
    let station = Station::create("idle", Shape::new(2)).unwrap();
    let (mut member, _other) = (Member::join(&station, Node(0)).unwrap(), Member::join(&station, Node(1)).unwrap());
    let first = member.sleeps().all;
    assert!(!member.serve_until(Duration::from_secs(2), |_| false), "nothing ends that");
    let slept = member.sleeps().all - first;
    // A sleep may end a moment too early, and is followed by another one then.
    assert!(slept <= 60, "it slept {slept} times");
}

#[test]
fn s62_the_agent_gathers_the_replies_of_others_while_a_rank_computes() {
    let (hosts, scratch) = (Hosts::start("call-computes", 1, 8), Scratch::new("call-computes-files"));
    let over = scratch.path().join("over");
    let mut job = Job::start(&hosts.meet(0), 8, 8, &over);
    // Replies are gathered in the order of the ranks, so what is missing is the last one.
    let (leader, computes) = (job.members[0], job.members[8]);
    job.at_agent(&probe::watch(&[leader], &probe::orders(true, None)));
    let handle = job.start_call(Some(computes));
    let named = probe::named(job.maker.call_id(handle).unwrap());
    let until = Instant::now() + LONG;
    // The rank is not done before the agent says that it has the replies of all others.
    loop {
        let seen = job.at_agent(&probe::trace(&[leader], &named, 2048));
        let mut gathered: Vec<Node> = probe::runs(&seen).filter_map(|run: Run| run.child).collect();
        gathered.sort();
        if gathered == job.members[1..8] {
            break;
        }
        assert!(Instant::now() < until, "{gathered:?} have been gathered");
    }
    assert!(!job.maker.test(handle).unwrap(), "one computes");
    std::fs::write(over, []).unwrap();
    assert_eq!(job.end(handle).len(), 8);
    job.at_agent(&probe::watch(&[leader], &probe::orders(false, None)));
}
