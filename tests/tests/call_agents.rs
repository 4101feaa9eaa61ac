//! Chained calls over members that live at an agent (scenario 64).
//!
//! And how `umbra call` shows them.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use umbra::admin::{self, Body as _, ops};
use umbra::ask::{Asker, Target};
use umbra::call::{JoinError, Member, Number, Operator, Station, WaitError, built_in, probe, reduction};
use umbra::link::{Address, socket_path};
use umbra::secret::Secret;
use umbra::session::{Calls, SessionError};
use umbra_core::chain::{Call, Code, Node};
use umbra_core::peer::Sp;
use umbra_core::time::Lapse;
use umbra_tests::agents::Agents;
use umbra_tests::rig::{self, Guarded, Scratch};

const LONG: Duration = Duration::from_secs(30);

/// An agent with its socket, which ends with the test.
struct Agent {
    scratch: Scratch,
    child: Guarded,
}

impl Agent {
    /// Starts one where so many members live.
    fn start(name: &str, residents: u32) -> Agent {
        let scratch = Scratch::new(name);
        let file = |name: &str| scratch.path().join(name);
        Secret::random().unwrap().create(&file("secret")).unwrap();
        let (ip, ports) = rig::address(2);
        let job = format!("# Format version: 1\nnode1,bf1:{ip}:{}:{}\n", ports[0], ports[1]);
        fs::write(file("job.cfg"), job).unwrap();
        let child = rig::bound(&rig::programs().1)
            .args(["--service-process", "0", "--members", &residents.to_string()])
            .args(["--config".as_ref(), file("job.cfg").as_os_str(), "--secret-file".as_ref()])
            .args([file("secret").as_os_str(), "--sockets".as_ref(), scratch.path().as_os_str()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut child = Guarded::from(child);
        let line = BufReader::new(child.stdout.take().unwrap()).lines().next().unwrap().unwrap();
        assert!(line.contains("ready"), "{line}");
        Agent { scratch, child }
    }

    /// Its meeting place, and how many members live there.
    fn meet(&self) -> (Station, u32) {
        let secret = Secret::read(&self.scratch.path().join("secret")).unwrap();
        let address = Address::Unix(socket_path(self.scratch.path(), Sp(0)));
        let patience = Lapse::from_secs(30);
        let mut asker = Asker::connect(secret, vec![Target { sp: Sp(0), address }], patience).unwrap();
        let (body, descriptor) = asker.call_for(0, ops::CALLS, &[], patience).unwrap();
        let calls = admin::Calls::from_body(&body).unwrap();
        let station = Station::attach(descriptor).unwrap();
        assert_eq!(calls.seats, u32::from(station.shape().members));
        (station, calls.residents)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&rig::programs().0);
        command.args(["--color", "never", "call", "--timeout", "30s", "--job"]).arg(self.scratch.path());
        command
    }

    fn umbra_call(&self, arguments: &[&str]) -> (Output, String) {
        let output = self
            .command()
            .args(if arguments.contains(&"--deadline") { &[][..] } else { &["--deadline", "20s"] })
            .args(arguments)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        (output, text)
    }
}

/// One who only makes calls.
fn maker(station: &Station, seat: u32) -> Member {
    let mut maker = Member::join(station, Node(seat)).unwrap();
    maker.serve_built_ins(0).unwrap();
    maker
}

fn reply(maker: &mut Member, call: &Call<'_>) -> Vec<u8> {
    let call = Call { at_root: false, budget: Lapse::from_secs(20), ..*call };
    let handle = maker.start(&call).unwrap();
    maker.wait(handle, LONG).unwrap().data
}

#[test]
fn values_are_set_gathered_and_combined_at_the_agent() {
    let agent = Agent::start("call-values", 8);
    let (station, _) = agent.meet();
    let mut maker = maker(&station, 8);
    let members: Vec<Node> = (0..8).map(Node).collect();
    for &node in &members[..6] {
        let value = [u64::from(node.0), 100 - u64::from(node.0)].map(u64::to_le_bytes).concat();
        reply(&mut maker, &built_in::broadcast(&[node], &value));
    }
    let header = reduction(Operator::Sum, Number::U64);
    // Two have no value, and leave it to the others.
    let sum = reply(&mut maker, &built_in::reduce(&members, &header, 64));
    assert_eq!(sum, [15_u64, 585].map(u64::to_le_bytes).concat());
    let header = reduction(Operator::Max, Number::U64);
    let most = reply(&mut maker, &built_in::reduce(&members, &header, 64));
    assert_eq!(most, [5_u64, 100].map(u64::to_le_bytes).concat());
    let gathered = reply(&mut maker, &built_in::gather(&members, 128));
    let lens: Vec<(Node, usize)> = built_in::entries(&gathered).map(|(node, value)| (node, value.len())).collect();
    assert_eq!(lens.len(), 8);
    assert!(lens.iter().all(|&(node, len)| len == if node.0 < 6 { 16 } else { 0 }), "{lens:?}");
    // All that the members keep is longer than a message.
    for &node in &members {
        reply(&mut maker, &built_in::broadcast(&[node], &[node.0 as u8; 1024]));
    }
    for bytes in [8 << 10, 1 << 20] {
        let all = reply(&mut maker, &built_in::gather(&members, bytes));
        assert_eq!(all.len(), 8 * (8 + 1024));
        let mut values: Vec<(Node, Vec<u8>)> =
            built_in::entries(&all).map(|(node, value)| (node, value.to_vec())).collect();
        values.sort();
        assert!(values.into_iter().eq(members.iter().map(|&node| (node, vec![node.0 as u8; 1024]))));
    }
    // What cannot be done fails by name, and the next call goes well.
    let long = vec![0; 2000];
    let call = Call { at_root: false, ..built_in::broadcast(&members[3..4], &long) };
    let handle = maker.start(&call).unwrap();
    let Err(WaitError::Failed(failure)) = maker.wait(handle, LONG) else { panic!("a value that is too long") };
    assert_eq!((failure.records[0].origin, failure.records[0].code), (Node(3), Code::Fault));
    assert_eq!(failure.records[0].aux, built_in::Why::TooLong as u32);
    assert_eq!(reply(&mut maker, &built_in::gather(&members, 8 << 10)).len(), 8 * (8 + 1024));
}

#[test]
fn s64_members_of_a_killed_agent_are_dead_to_whoever_calls_them() {
    let mut agent = Agent::start("call-killed", 8);
    let (station, _) = agent.meet();
    let mut maker = maker(&station, 8);
    let members: Vec<Node> = (0..8).map(Node).collect();
    reply(&mut maker, &built_in::barrier(&members));
    agent.child.kill().unwrap();
    agent.child.wait().unwrap();
    let call = Call { at_root: false, budget: Lapse::from_secs(20), ..built_in::barrier(&members) };
    // Either it is known already, or the call finds it out, long before its deadline.
    if let Ok(handle) = maker.start(&call) {
        let Err(WaitError::Failed(failure)) = maker.wait(handle, LONG) else { panic!("nobody was there") };
        assert_eq!(failure.records[0].code, Code::PeerDead, "{failure}");
    }
}

/// Whether there is a time in the columns down, func and up, by member as they stand there.
fn columns(text: &str) -> Vec<[bool; 3]> {
    let is_time = |words: &[&str]| words[0].parse::<f64>().is_ok() && ["ns", "µs", "ms", "s"].contains(&words[1]);
    let of_line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().skip_while(|word| word.parse::<u32>().is_err()).collect();
        let (mut rest, mut columns) = (&words[1..], [false; 3]);
        for column in &mut columns {
            *column = rest[0] != "·";
            assert!(!*column || is_time(rest), "{line}");
            rest = &rest[1 + usize::from(*column)..];
        }
        assert!(rest.is_empty(), "{line}");
        columns
    };
    let lines = text.lines().skip_while(|line| !line.contains("down      func        up")).skip(1);
    lines.take_while(|line| !line.is_empty()).map(of_line).collect()
}

#[test]
fn umbra_call_shows_the_tree_as_it_ran() {
    let agent = Agent::start("call-command", 8);
    let (output, text) = agent.umbra_call(&["barrier", "--tree", "auto"]);
    assert!(output.status.success() && text.contains("automatic binary tree: done"), "they live together: {text}");
    let (output, text) = agent.umbra_call(&["barrier", "--tree", "binomial"]);
    assert!(output.status.success() && text.contains("barrier over 8 members"), "{text}");
    assert!(text.contains("done in") && text.contains("├─ ") && !text.contains("did not run"), "{text}");
    // Nothing is answered to a barrier, and whoever makes the call is not watched.
    let of_root = [false, true, false];
    assert_eq!(columns(&text), [&[of_root][..], &[[true, true, false]; 7]].concat(), "{text}");
    let (_, text) = agent.umbra_call(&["count", "--add", "-2", "--members", "1-3"]);
    assert!(text.contains("sum of all counters -6"), "{text}");
    assert_eq!(columns(&text), [of_root, [true; 3], [true; 3]], "{text}");
    let (_, text) = agent.umbra_call(&["broadcast", "--data", "hello", "--members", "2"]);
    assert!(text.contains("done in"), "{text}");
    let [plot, kept] = ["gather.svg", "kept.svg"].map(|name| agent.scratch.path().join(name));
    fs::write(&plot, "old").unwrap();
    fs::hard_link(&plot, &kept).unwrap();
    let (_, text) = agent.umbra_call(&["gather", "--plot", plot.to_str().unwrap()]);
    assert!(text.contains("2  hello"), "{text}");
    assert_eq!(fs::read_to_string(kept).unwrap(), "old", "what bore the name is replaced, not written over");
    let svg = fs::read_to_string(plot).unwrap();
    // A function each, and a callback for each edge but the one to whoever made the call.
    assert_eq!(svg.matches(" func, ").count(), 8, "{svg}");
    assert_eq!(svg.matches(" callback, ").count(), 7, "{svg}");
}

/// The lines of the tree that the command has printed, without times.
fn drawn(text: &str) -> Vec<String> {
    let lines = text.lines().skip_while(|line| !line.contains("down      func        up")).skip(1);
    let name = |line: &str| line.chars().skip(2).take(12).collect::<String>().trim_end().to_owned();
    lines.take_while(|line| !line.is_empty()).map(name).collect()
}

#[test]
fn umbra_call_takes_trees_of_any_width() {
    let agent = Agent::start("call-wide", 8);
    for (tree, lines) in [
        ("kary:3", ["0", "├─ 1", "│  ├─ 2", "│  ├─ 3", "│  └─ 4", "├─ 5", "│  └─ 6", "└─ 7"]),
        ("knomial:4", ["0", "├─ 1", "├─ 2", "├─ 3", "└─ 4", "   ├─ 5", "   ├─ 6", "   └─ 7"]),
    ] {
        let (output, text) = agent.umbra_call(&["count", "--add", "1", "--tree", tree]);
        assert!(output.status.success() && text.contains(&format!("{tree} tree: done in")), "{text}");
        assert_eq!(drawn(&text), lines, "{text}");
    }
}

#[test]
fn umbra_call_reduces_values_as_it_is_told() {
    let agent = Agent::start("call-reduce", 4);
    for (member, value) in [("0", "aaaa"), ("1", "bbbb")] {
        let (output, text) = agent.umbra_call(&["broadcast", "--data", value, "--members", member]);
        assert!(output.status.success(), "{text}");
    }
    // Two have no value, and leave it to the others.
    for (with, number) in [
        ("sum:u32", 0xc3c3_c3c3_u32),
        ("min:i32", 0x6161_6161),
        ("max:u32", 0x6262_6262),
        ("and:u32", 0x6060_6060),
        ("or:u32", 0x6363_6363),
    ] {
        let (output, text) = agent.umbra_call(&["reduce", "--with", with]);
        assert!(output.status.success() && text.contains(&format!("\n  {number}\n")), "{with}: {text}");
    }
    let (output, text) = agent.umbra_call(&["reduce", "--members", "2,3"]);
    assert!(output.status.success() && text.contains("\n  nobody has a value\n"), "{text}");
    // Numbers of eight bytes, and bits of no whole numbers.
    for with in ["sum:u64", "and:f32"] {
        let (output, text) = agent.umbra_call(&["reduce", "--with", with]);
        assert_eq!(output.status.code(), Some(1), "{with}: {text}");
        assert!(text.contains(", func: the function failed"), "{with}: {text}");
    }
    let (output, text) = agent.umbra_call(&["reduce", "--with", "sum:u16"]);
    assert!(output.status.code() == Some(2) && text.contains("none of u64"), "{text}");
}

#[test]
fn umbra_call_shows_where_a_call_failed() {
    let agent = Agent::start("call-fail", 8);
    let (output, text) = agent.umbra_call(&["barrier", "--fail", "5@func", "--collect"]);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("failed here") && text.contains("member 5"), "{text}");
    let (output, text) = agent.umbra_call(&["count", "--fail", "2@callback", "--tree", "chain"]);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("✘ member 2, callback: the function failed (from member 3)"), "{text}");
    assert_eq!(text.lines().filter(|line| line.contains("failed here")).count(), 1, "{text}");
    // It fails once.
    let (output, text) = agent.umbra_call(&["barrier"]);
    assert!(output.status.success(), "{text}");
    let (output, text) = agent.umbra_call(&["barrier", "--fail", "3@hang", "--deadline", "4s"]);
    assert!(!output.status.success() && text.contains("deadline"), "{text}");
    // However often it was asked whether it has ended, that is one run.
    assert!(text.matches("did not run").count() <= 2 && text.contains("failed here"), "{text}");
    let (output, text) = agent.umbra_call(&["dance"]);
    let expected = "no function \"dance\" is registered there; built in are barrier, broadcast, gather, reduce, count";
    assert!(!output.status.success() && text.contains(expected), "{text}");
    let (output, text) = agent.umbra_call(&["barrier", "--members", "9", "--deadline", "300ms"]);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("over 1 member at") && text.contains("✘ nobody holds seat 9:"), "{text}");
    let (output, text) = agent.umbra_call(&["barrier", "--fail", "99@func"]);
    assert_eq!(output.status.code(), Some(2), "{text}");
    let (output, text) = agent.umbra_call(&["barrier", "--agent", "7"]);
    assert!(!output.status.success() && text.contains("no service process 7"), "{text}");
}

#[test]
fn umbra_call_tells_the_counters_of_an_agent_once_however_many_members_it_has() {
    let agent = Agent::start("call-stats", 70);
    let (output, text) = agent.umbra_call(&["stats"]);
    assert!(output.status.success() && text.contains("stats over 1 member at service process 0"), "{text}");
    let (output, text) = agent.umbra_call(&["stats", "--members", "0-7", "--tree", "binomial"]);
    assert!(output.status.success() && text.contains("stats over 8 members"), "{text}");
    assert!(text.contains("├─ 1") && text.contains("call messages") && !text.contains("together"), "{text}");
    let rows: Vec<&str> = text.lines().skip_while(|line| !line.contains("call messages")).skip(1).collect();
    assert!(rows.len() == 1 && rows[0].trim_start().starts_with("0 "), "one row for the one agent: {text}");
    let (output, text) = agent.umbra_call(&["stats", "--members", "0-7", "--fail", "3@func"]);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("✘ member 3") && !text.contains("call messages"), "{text}");
    let (output, text) = agent.umbra_call(&["stats", "--members", "0-69"]);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("70 members do not fit into one answer, at most 63 do"), "{text}");
    let (output, text) = agent.umbra_call(&["stats", "--members", "79", "--deadline", "300ms"]);
    assert!(output.status.code() == Some(1) && text.contains("✘ nobody holds seat 79:"), "{text}");
}

#[test]
fn umbra_call_is_one_object_for_programs() {
    let agent = Agent::start("call-json", 8);
    let said = |arguments: &[&str]| -> (bool, Value) {
        let (output, text) = agent.umbra_call(&[arguments, &["--json"]].concat());
        (output.status.success(), serde_json::from_slice(&output.stdout).unwrap_or_else(|why| panic!("{why}: {text}")))
    };
    let (is_well, barrier) = said(&["barrier"]);
    assert!(is_well && barrier["done"] == true && barrier["answer"].is_null(), "{barrier:#}");
    assert_eq!(barrier["members"], serde_json::json!([0, 1, 2, 3, 4, 5, 6, 7]));
    assert_eq!(barrier["runs"].as_array().unwrap().len(), 8, "{barrier:#}");
    assert_eq!(said(&["count", "--add", "3"]).1["answer"], 24);
    said(&["broadcast", "--data", "hello", "--members", "2"]);
    assert_eq!(said(&["gather"]).1["answer"][2], serde_json::json!({ "member": 2, "value": "hello" }));
    let (is_well, failed) = said(&["barrier", "--fail", "5@func", "--collect"]);
    assert!(!is_well && failed["done"] == false && failed["failed"] == 1, "{failed:#}");
    assert_eq!((&failed["failures"][0]["member"], &failed["failures"][0]["stage"]), (&5.into(), &"func".into()));
    assert_eq!(
        (&failed["unreached"], &failed["unreached_members"]),
        (&2.into(), &serde_json::json!([6, 7])),
        "{failed:#}"
    );
}

/// Whether the members at the agent remember what they run.
fn is_watched(maker: &mut Member, members: &[Node]) -> bool {
    let handle = maker.start(&Call { at_root: false, ..built_in::barrier(members) }).unwrap();
    let named = probe::named(maker.call_id(handle).unwrap());
    maker.wait(handle, LONG).unwrap();
    !reply(maker, &probe::trace(members, &named, 4096)).is_empty()
}

#[test]
fn members_forget_what_they_ran_when_whoever_watched_them_is_gone() {
    let agent = Agent::start("call-watched", 8);
    let (station, _) = agent.meet();
    let (mut maker, members) = (maker(&station, 8), (0..8).map(Node).collect::<Vec<_>>());
    maker.serve_probe().unwrap();
    let mut until = |wanted: bool| {
        let begun = Instant::now();
        while is_watched(&mut maker, &members) != wanted {
            assert!(begun.elapsed() < LONG, "are they watched? {}", !wanted);
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    let (output, text) = agent.umbra_call(&["barrier", "--header", "x"]);
    assert!(output.status.code() == Some(2) && text.contains("barrier has a header of its own"), "{text}");
    // A call that is refused when they are watched already.
    let (output, text) = agent.umbra_call(&["broadcast", "--data", &"x".repeat(9000)]);
    assert!(output.status.code() == Some(1) && text.contains("the call needs 9"), "{text}");
    until(false);
    // One that hangs, until a signal ends it.
    let mut command = agent.command();
    let hangs = command.args(["count", "--add", "5", "--fail", "3@hang", "--deadline", "10s"]).stdout(Stdio::null());
    let mut hangs = Guarded::from(hangs.stderr(Stdio::null()).spawn().unwrap());
    until(true);
    std::thread::sleep(Duration::from_millis(300));
    until(true);
    kill_process(Pid::from_child(&hangs), Signal::TERM).unwrap();
    assert!(!hangs.wait().unwrap().success());
    until(false);
    // What was to hang is asked again and again, and does not run because nobody watches it any more, or somebody else did.
    let (output, text) = agent.umbra_call(&["barrier"]);
    assert!(output.status.success(), "{text}");
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(reply(&mut maker, &built_in::count(&members[3..4], &[0; 8])), [0; 8]);
}

/// Ranks that are killed and reaped however the test ends.
struct Ranks(Vec<Child>);

impl Ranks {
    /// Takes these seats; those with a word let themselves be watched.
    fn start(station: &Station, seats: impl IntoIterator<Item = (u32, Option<&'static str>)>) -> Ranks {
        let rank = |(seat, word): (u32, Option<&str>)| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_call-member"));
            let station = Stdio::from(station.share().unwrap());
            command.arg(seat.to_string()).args(word).stdin(station).spawn().unwrap()
        };
        Ranks(seats.into_iter().map(rank).collect())
    }
}

impl Drop for Ranks {
    fn drop(&mut self) {
        for rank in &mut self.0 {
            let _ = rank.kill();
            let _ = rank.wait();
        }
    }
}

#[test]
fn umbra_call_runs_functions_of_ranks_and_names_who_is_missing() {
    let agent = Agent::start("call-ranks", 6);
    let (station, _) = agent.meet();
    let seats = [6, 7, 8, 9].map(|seat| (seat, Some("watched"))).into_iter().chain([10, 11].map(|seat| (seat, None)));
    let mut ranks = Ranks::start(&station, seats);
    // A rank that has not come yet takes its request when it does.
    let (output, text) = agent.umbra_call(&["sum", "--members", "6-9", "--reply", "8", "--tree", "binomial"]);
    assert!(output.status.success() && text.contains("sum over 4 members at service process 0"), "{text}");
    assert!(text.contains("\n  1e00000000000000\n"), "6 + 7 + 8 + 9: {text}");
    assert!(!text.contains("did not run") && !text.contains("no times"), "{text}");
    // Its header names a member, and that its function is to fail.
    let (output, text) = agent.umbra_call(&["sum", "--members", "6-9", "--reply", "8", "--header", "\u{7}\u{1}"]);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("✘ member 7, func: the function failed") && text.contains("42"), "{text}");
    // Ranks that do not let themselves be watched are called all the same.
    let (output, text) = agent.umbra_call(&["sum", "--members", "6-11", "--reply", "8"]);
    assert!(output.status.success() && text.contains("\n  3300000000000000\n"), "6 to 11: {text}");
    assert!(text.contains("no times, for not all members could be watched: member 1"), "{text}");
    assert!(!text.contains("did not run"), "{text}");
    let (output, text) = agent.umbra_call(&["sum", "--members", "10,6", "--fail", "6@func"]);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("nobody is made to fail on purpose: member 10, setup"), "{text}");
    // The other way round 6 knows that it is to fail before 10 is asked; no other call than those of this command is meant.
    let (output, text) = agent.umbra_call(&["sum", "--members", "6,10", "--fail", "6@func"]);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("nobody is made to fail on purpose: member 10, setup"), "{text}");
    let (output, text) = agent.umbra_call(&["sum", "--members", "6", "--reply", "8"]);
    assert!(output.status.success(), "{text}");
    // Bytes of a reply that nobody allowed.
    let (output, text) = agent.umbra_call(&["sum", "--members", "6-9"]);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("the reply is larger than the call allows (8 bytes)"), "{text}");
    let (output, text) = agent.umbra_call(&["dance", "--members", "7,6,8"]);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("✘ member 7, setup: no function \"dance\" is registered there"), "{text}");
    assert!(text.contains("1 ok, 1 failed, 2 not reached") && text.contains("failed here"), "{text}");
    assert!(text.contains("\n  not reached: 6, 8\n"), "{text}");
    // One that hangs, one that is stopped, and one that is dead. The first is called by whoever makes the call.
    let hangs = ["sum", "--members", "7,6,8", "--reply", "8", "--fail", "7@hang", "--deadline", "4s"];
    let (output, text) = agent.umbra_call(&hangs);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("✘ member 7, ") && text.contains("the deadline passed"), "{text}");
    let stopped = Pid::from_child(&ranks.0[3]);
    kill_process(stopped, Signal::STOP).unwrap();
    let (output, text) =
        agent.umbra_call(&["sum", "--members", "9,6-8", "--reply", "8", "--deadline", "4s", "--tree", "flat"]);
    kill_process(stopped, Signal::CONT).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("✘ member 9, child: the deadline passed") && text.contains("3 unknown"), "{text}");
    ranks.0[2].kill().unwrap();
    ranks.0[2].wait().unwrap();
    let (output, text) = agent.umbra_call(&["sum", "--members", "6-9", "--reply", "8"]);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("member 8 is dead"), "{text}");
    let (output, text) = agent.umbra_call(&["sum", "--members", "6-9", "--reply", "8", "--skip-dead"]);
    assert!(output.status.success() && text.contains("\n  1600000000000000\n"), "6 + 7 + 9: {text}");
    assert!(text.contains("\n  left out, as dead: 8\n") && text.contains("sum over 4 members"), "{text}");
    let (output, text) = agent.umbra_call(&["sum", "--members", "6-9", "--reply", "8", "--skip-dead", "--json"]);
    let said: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|why| panic!("{why}: {text}"));
    assert!(said["done"] == true && said["unreached"] == 1 && said["unreached_members"][0] == 8, "{said:#}");
    // The first of the list is at the top of the tree, and one is in the middle of it: the times are those of the tree as it ran.
    for (members, tree, lines) in
        [("8,6,7,9", "binary", ["6", "├─ 7", "└─ 9"]), ("6,8,7,9", "chain", ["6", "└─ 7", "   └─ 9"])]
    {
        let call = ["sum", "--members", members, "--tree", tree, "--reply", "8", "--skip-dead"];
        let (output, text) = agent.umbra_call(&call);
        assert!(output.status.success() && text.contains("\n  1600000000000000\n"), "6 + 7 + 9: {text}");
        assert!(text.contains("\n  left out, as dead: 8\n") && !text.contains("did not run"), "{text}");
        assert!(lines.iter().all(|line| text.contains(&format!("\n  {line} "))), "{text}");
        assert_eq!(columns(&text)[1..], [[true; 3]; 2], "{text}");
    }
    let (output, text) = agent.umbra_call(&["sum", "--members", "8", "--tree", "auto", "--reply", "8", "--skip-dead"]);
    assert!(output.status.success() && text.contains("\n  left out, as dead: 8\n"), "nobody is left: {text}");
    // The others go on.
    let (output, text) = agent.umbra_call(&["sum", "--members", "6,7,9", "--reply", "8"]);
    assert!(output.status.success() && text.contains("\n  1600000000000000\n"), "6 + 7 + 9: {text}");
}

#[test]
fn a_rank_finds_its_member_through_its_session() {
    let agents = Agents::start(1, 1, 2);
    let mut sessions = agents.world();
    let mut seats: Vec<Calls> = sessions.iter_mut().map(|session| session.calls().unwrap()).collect();
    for (local, seat) in (0..).zip(&mut seats) {
        assert_eq!(seat.resident, Node(local));
        seat.member.serve_built_ins(0).unwrap();
    }
    let [first, second] = &mut seats[..] else { panic!("two ranks") };
    reply(&mut first.member, &built_in::broadcast(&[second.resident], b"for rank 1"));
    let gathered = reply(&mut second.member, &built_in::gather(&[second.resident], 64));
    assert_eq!(built_in::entries(&gathered).collect::<Vec<_>>(), [(Node(1), &b"for rank 1"[..])]);
    assert!(matches!(sessions[0].calls(), Err(SessionError::Calls(JoinError::Taken { .. }))));
}

#[test]
fn a_rank_for_which_its_agent_has_no_member_is_told_how_many_there_are() {
    let agents = Agents::start(1, 1, 17);
    let mut sessions = agents.world();
    sessions[15].calls().unwrap();
    let error = sessions[16].calls().unwrap_err();
    assert!(matches!(error, SessionError::NoMember { members: 16, local: 16 }), "{error}");
}
