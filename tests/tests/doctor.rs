//! `umbra doctor`, `umbra top`, `umbra call stats` and real agents (s38, s40).
//!
//! One agent was never started, hangs or is dead. What the three tell is gathered by one chained call; whoever it does not
//! reach is asked alone by the first two, and named by the third.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop at the first surprise")]

use std::cell::Cell;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use umbra::config::Platform;
use umbra::driver::{Driver, Event, Limits, now};
use umbra::link::{Identity, Listener, Party, socket_path};
use umbra::secret::Secret;
use umbra_core::error::Status;
use umbra_core::peer::{Incarnation, Sp};
use umbra_core::time::Lapse;
use umbra_core::wire::Frame;
use umbra_tests::rig::{self, ByHand};

/// Exit code and words of the doctor.
fn doctor(job: &ByHand) -> (Option<i32>, String) {
    let output = Command::new(&rig::programs().0)
        .args(["doctor", "--timeout", "5s", "--config"])
        .arg(job.config())
        .arg("--secret")
        .arg(job.secret())
        .output()
        .unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn whoever_leaves_agents_no_time_is_refused_and_blames_none() {
    for command in ["doctor", "top", "lookup"] {
        for time in ["0", "0ms"] {
            let rest = if command == "lookup" { &["0"][..] } else { &[] };
            let output =
                Command::new(&rig::programs().0).args([command, "--timeout", time]).args(rest).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(
                output.status.code() == Some(2) && said.contains("must be longer than nothing"),
                "{command}: {said}"
            );
        }
    }
}

/// The agents are played: they have nothing to say.
#[test]
fn the_doctor_reaches_more_agents_than_it_may_have_files_open_at_first() {
    const AGENTS: u32 = 40;
    let job = ByHand::new("doctor-many", AGENTS);
    let platform = Platform::read(job.config()).unwrap();
    let known = platform.job(&platform.dpu_names()).unwrap();
    let over = AtomicBool::new(false);
    let play = |sp| {
        let secret = Secret::read(&job.secret()).unwrap();
        let me = Identity { party: Party::Peer(rig::service(sp)), incarnation: Incarnation(1) };
        let mut agent = Driver::new(me, secret, Limits::default());
        let listener = TcpListener::bind(SocketAddr::V4(known.address(Sp(sp)).unwrap().services)).unwrap();
        agent.listen(Listener::Tcp(listener)).unwrap();
        let mut bytes = Vec::new();
        while !over.load(Ordering::Relaxed) {
            agent.wait(now() + Lapse::from_millis(20)).unwrap();
            while let Some(event) = agent.next(&mut bytes) {
                let Event::Frame { link, .. } = event else { continue };
                let Ok(Frame::Call { op, token, .. }) = Frame::parse(&bytes) else { panic!("{bytes:02x?}") };
                let done = Frame::Done { op, token, status: Status::Ok, body: &[] };
                agent.send(link, &done, Vec::new()).unwrap();
            }
            agent.flush();
        }
    };
    let output = thread::scope(|scope| {
        for sp in 0..AGENTS {
            let play = &play;
            scope.spawn(move || play(sp));
        }
        let doctor = r#"ulimit -S -n 24 && exec "$0" doctor --timeout 20s --json --config "$1" --secret "$2""#;
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(doctor).arg(&rig::programs().0).arg(job.config()).arg(job.secret());
        let output = shell.output();
        over.store(true, Ordering::Relaxed);
        output.unwrap()
    });
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(said["ok"], true, "{said:#}");
    assert_eq!(said["agents"].as_array().unwrap().len(), AGENTS as usize);
}

#[test]
fn s40_the_doctor_names_a_service_process_that_was_not_started_and_who_misses_it() {
    let mut job = ByHand::new("doctor", 2);
    job.start(0, &[]);
    let (code, said) = doctor(&job);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains(&format!("service process 1 at {}:", job.ip())), "the one that is missing is named:\n{said}");
    assert!(said.contains("service process 0: no link to service process 1"), "and so is who misses it:\n{said}");

    job.start(1, &[]);
    // The two find each other when the first one dials again.
    let mut answers = (0..600).map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        doctor(&job)
    });
    let found = answers.find(|(_, said)| !said.contains("no link to"));
    let (code, said) = found.expect("the agents never found each other");
    assert_eq!(code, Some(1), "no rank has come:\n{said}");
    assert_eq!(said.matches("no rank has come yet").count(), 2, "{said}");
}

/// A tool that asks a job whose agents have sockets, and may wait so many seconds.
fn tool(job: &ByHand, arguments: &[&str], timeout: u64) -> Command {
    let mut tool = Command::new(&rig::programs().0);
    tool.args(arguments).args(["--timeout", &format!("{timeout}s"), "--config"]).arg(job.config());
    tool.arg("--secret").arg(job.secret()).arg("--sockets").arg(job.directory());
    tool
}

/// What a tool says in JSON.
fn told(job: &ByHand, arguments: &[&str]) -> Value {
    let output = tool(job, arguments, 4).arg("--json").output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {words}"))
}

/// Two agents with sockets, started with these options beside.
fn with_sockets(name: &str, options: [&[&str]; 2]) -> ByHand {
    let mut job = ByHand::new(name, 2);
    let sockets = job.directory().to_str().unwrap().to_owned();
    for (sp, options) in (0..).zip(options) {
        job.start(sp, &[&["--sockets", &sockets, "--deadline-ms", "60000"], options].concat());
    }
    job
}

/// Asks again until it holds; a busy machine takes its time.
fn until(what: &str, ask: impl Fn() -> Value, holds: impl Fn(&Value) -> bool) -> Value {
    let mut last = Value::Null;
    for _ in 0..60 {
        last = ask();
        if holds(&last) {
            return last;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("{what}: {last:#}")
}

/// What is said of one service process.
fn of<'v>(said: &'v Value, list: &str, sp: u64) -> &'v Value {
    said[list].as_array().unwrap().iter().find(|one| one["service_process"] == sp).unwrap()
}

#[test]
fn the_doctor_asks_by_one_call_and_alone_whom_that_does_not_reach() {
    let mut job = with_sockets("doctor-call", [&[], &[]]);
    let ask = |job: &ByHand| told(job, &["doctor"]);
    let by_call = |said: &Value, sp| of(said, "agents", sp)["asked"] == "call";
    let missing = |said: &Value, sp, what: &str| {
        of(said, "agents", sp)["missing"].as_array().unwrap().iter().any(|line| line.as_str().unwrap().contains(what))
    };
    let said = until("both by one call", || ask(&job), |said| by_call(said, 0) && by_call(said, 1));
    for sp in 0..2 {
        assert!(missing(&said, sp, "no rank has come yet"), "{said:#}");
        assert!(of(&said, "agents", sp)["passed_by"].is_null(), "{said:#}");
    }

    let second = Pid::from_child(job.agent(1));
    kill_process(second, Signal::STOP).unwrap();
    let said = until("the first by a call that leaves the hanging one out", || ask(&job), |said| by_call(said, 0));
    let hangs = of(&said, "agents", 1);
    assert_eq!((&hangs["answers"], &hangs["asked"]), (&Value::Bool(false), &Value::from("link")), "{said:#}");
    assert!(hangs["error"].as_str().unwrap().contains("service process 1"), "{said:#}");
    let why = hangs["passed_by"].as_str().unwrap();
    assert!(why.contains("1 failed") && why.contains("the deadline passed"), "the call has found it, too:\n{said:#}");
    kill_process(second, Signal::CONT).unwrap();
    until("both by one call again", || ask(&job), |said| by_call(said, 0) && by_call(said, 1));

    job.agent(1).kill().unwrap();
    job.agent(1).wait().unwrap();
    let said = until(
        "who misses the dead one",
        || ask(&job),
        |said| by_call(said, 0) && missing(said, 0, "no link to service process 1"),
    );
    let dead = of(&said, "agents", 1);
    assert!(dead["error"].as_str().unwrap().contains("service process 1 at"), "{said:#}");
    assert_eq!(said["ok"], false);
}

#[test]
fn the_doctor_passes_a_socket_by_that_a_dead_agent_left_and_says_so() {
    let mut job = with_sockets("doctor-stale", [&[], &[]]);
    job.agent(1).kill().unwrap();
    job.agent(1).wait().unwrap();
    // The next one has its socket elsewhere.
    job.start(1, &["--deadline-ms", "60000"]);
    let said = told(&job, &["doctor"]);
    let socket = socket_path(job.directory(), Sp(1)).to_str().unwrap().to_owned();
    let [first, second] = [0, 1].map(|sp| of(&said, "agents", sp));
    assert_eq!((&second["answers"], &second["stale_socket"]), (&Value::Bool(true), &Value::from(&*socket)), "{said:#}");
    assert_eq!((&first["answers"], &first["stale_socket"]), (&Value::Bool(true), &Value::Null), "{said:#}");
    let output = tool(&job, &["doctor"], 4).output().unwrap();
    let words = String::from_utf8_lossy(&output.stdout);
    assert!(words.contains(&format!("service process 1: {socket} is stale")), "{words}");
}

#[test]
fn whoever_asks_one_agent_knocks_at_the_door_of_no_other() {
    let mut job = with_sockets("doctor-one", [&[], &[]]);
    // Agents dial only those that come behind them.
    job.agent(0).kill().unwrap();
    job.agent(0).wait().unwrap();
    let door = socket_path(job.directory(), Sp(0));
    std::fs::remove_file(&door).unwrap();
    let door = UnixListener::bind(door).unwrap();
    door.set_nonblocking(true).unwrap();
    let output = tool(&job, &["call", "barrier", "--agent=1"], 20).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(door.accept().err().map(|error| error.kind()), Some(ErrorKind::WouldBlock));
}

#[test]
fn a_call_at_an_agent_that_is_dead_names_the_socket_that_it_left() {
    let mut job = with_sockets("doctor-left", [&[], &[]]);
    job.agent(0).kill().unwrap();
    job.agent(0).wait().unwrap();
    let socket = socket_path(job.directory(), Sp(0)).to_str().unwrap().to_owned();
    // Whether the next one is there, or has its socket elsewhere.
    for again in [false, true] {
        if again {
            job.start(0, &[]);
        }
        let output = tool(&job, &["call", "barrier"], 1).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        let words = [&*socket, "service process 0", "nobody listens", "--sockets"];
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
    }
}

/// How long a tool takes that may wait so many seconds; the shortest of three runs, for the machine may be busy.
fn takes(job: &ByHand, arguments: &[&str], timeout: u64) -> Duration {
    let run = |_| {
        let begun = Instant::now();
        let output = tool(job, arguments, timeout).output().unwrap();
        assert!(!output.stdout.is_empty() || !output.stderr.is_empty());
        begun.elapsed()
    };
    (0..3).map(run).min().unwrap()
}

#[test]
fn an_agent_that_hangs_costs_a_question_no_more_than_the_timeout_and_those_who_do_not_need_it_nothing() {
    let mut job = with_sockets("doctor-hangs", [&[], &[]]);
    let by_call = |said: &Value| (0..2).all(|sp| of(said, "agents", sp)["asked"] == "call");
    until("both by one call", || told(&job, &["doctor"]), by_call);
    // At its door the seat is looked for first.
    let first = Pid::from_child(job.agent(0));
    kill_process(first, Signal::STOP).unwrap();
    let said = told(&job, &["doctor"]);
    assert_eq!(of(&said, "agents", 0)["answers"], false, "{said:#}");
    assert_eq!(of(&said, "agents", 1)["answers"], true, "{said:#}");
    let why = of(&said, "agents", 0)["error"].as_str().unwrap().to_owned();
    assert!(why.contains("see that it runs"), "{why}");
    let doctor = takes(&job, &["doctor"], 2);
    assert!(doctor < Duration::from_millis(3200), "{doctor:?}");
    // It asks twice.
    let top = takes(&job, &["top", "--once", "--interval", "100ms"], 2);
    assert!(top < Duration::from_millis(5200), "{top:?}");
    for other in [["lookup", "sp:1/world", "0"], ["call", "barrier", "--agent=1"]] {
        let other = takes(&job, &other, 30);
        assert!(other < Duration::from_secs(15), "{other:?}");
    }
    kill_process(first, Signal::CONT).unwrap();
}

#[test]
fn agents_with_places_of_different_sizes_are_asked_alone_and_each_says_what_to_do() {
    let mut job = with_sockets("doctor-alone", [&["--members", "4"], &["--members", "5"]]);
    let apart = |said: &Value, sp: u64| {
        let what = format!("no chained calls with service process {}: a place with", 1 - sp);
        of(said, "agents", sp)["missing"]
            .as_array()
            .unwrap()
            .iter()
            .map(|line| line.as_str().unwrap())
            .any(|line| line.starts_with(&what) && line.ends_with("start all agents with the same --members"))
    };
    // The first call has the places made, which greet each other then.
    let holds = |said: &Value| of(said, "agents", 0)["asked"] == "call" && apart(said, 0) && apart(said, 1);
    let said = until("both complain", || told(&job, &["doctor"]), holds);
    let other = of(&said, "agents", 1);
    assert_eq!((&other["answers"], &other["asked"]), (&Value::Bool(true), &Value::from("link")), "{said:#}");
    assert!(other["passed_by"].as_str().unwrap().contains("not among the members"), "{said:#}");

    // Whoever is started again with the right number ends the complaint.
    job.agent(1).kill().unwrap();
    job.agent(1).wait().unwrap();
    let sockets = job.directory().to_str().unwrap().to_owned();
    job.start(1, &["--sockets", &sockets, "--deadline-ms", "60000", "--members", "4"]);
    let joined = |said: &Value| of(said, "agents", 1)["asked"] == "call" && !apart(said, 0) && !apart(said, 1);
    until("both by one call", || told(&job, &["doctor"]), joined);
}

#[test]
fn top_shows_the_figures_of_all_agents_by_one_call() {
    let job = with_sockets("top-call", [&[], &[]]);
    let ask = || told(&job, &["top", "--interval", "100ms"]);
    let said =
        until("both by one call", ask, |said| (0..2).all(|sp| of(said, "service_processes", sp)["asked"] == "call"));
    for sp in 0..2 {
        let one = of(&said, "service_processes", sp);
        assert!(one["uptime_ms"].as_u64().unwrap() > 0 && one["links"].as_u64().unwrap() >= 1, "{said:#}");
        // The second look itself crosses from host to host.
        assert!(one["call_messages_per_second"].as_f64().unwrap() > 0.0, "{said:#}");
    }
}

#[test]
fn top_finds_a_seat_for_its_next_look_where_there_was_none_at_the_first() {
    let mut job = with_sockets("top-seat", [&[], &[]]);
    let both = [0, 1].map(|which| Pid::from_child(job.agent(which)));
    both.iter().for_each(|&agent| kill_process(agent, Signal::STOP).unwrap());
    let tool = tool(&job, &["top", "--json", "--interval", "4s"], 2).stdout(Stdio::piped()).spawn().unwrap();
    // The first look takes two seconds, and the second one begins after four more.
    thread::sleep(Duration::from_secs(4));
    both.iter().for_each(|&agent| kill_process(agent, Signal::CONT).unwrap());
    let output = tool.wait_with_output().unwrap();
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(of(&said, "service_processes", 0)["asked"], "call", "{said:#}");
}

#[test]
fn stats_are_the_counters_of_all_agents_and_what_they_make_together() {
    let mut job = with_sockets("call-stats", [&[], &[]]);
    let is_joined = |said: &Value| (0..2).all(|sp| of(said, "agents", sp)["asked"] == "call");
    until("both are joined", || told(&job, &["doctor"]), is_joined);
    // What an agent keeps of the time for its own report is a small part, and longer than any pause of this machine.
    let stats = |job: &ByHand, more: &[&str]| told(job, &[&["call", "stats", "--deadline", "8s"], more].concat());
    let said = until("both tell", || stats(&job, &["--tree", "binomial"]), |said| said["done"] == true);
    assert_eq!((&said["tree"], &said["ok"]), (&Value::from("binomial"), &Value::from(3)), "{said:#}");
    let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{value} in {said:#}"));
    let answer = &said["answer"];
    let agents = [0, 1].map(|sp| of(answer, "service_processes", sp));
    for agent in agents {
        assert!(number(&agent["uptime_ms"]) > 0 && number(&agent["links"]) > 0, "{said:#}");
        assert!(number(&agent["wakeups"]) > 0 && number(&agent["call_messages"]) > 0, "{said:#}");
    }
    let [one, other] = agents.map(|agent| |name: &str| number(&agent[name]));
    for name in ["ranks", "links", "reads", "served_bytes", "call_messages", "wakeups"] {
        assert_eq!(number(&answer["together"][name]), one(name) + other(name), "{name} in {said:#}");
    }
    for name in ["uptime_ms", "groups", "groups_full"] {
        assert_eq!(number(&answer["together"][name]), one(name).max(other(name)), "{name} in {said:#}");
    }
    // The first member at each agent, and nobody else, has run it; the second one below the first.
    let members = said["members"].as_array().unwrap();
    let funcs: Vec<&Value> = said["runs"].as_array().unwrap().iter().filter(|run| run["child"].is_null()).collect();
    assert_eq!(funcs.iter().map(|run| &run["member"]).collect::<Vec<_>>(), members.iter().collect::<Vec<_>>());
    assert_eq!((members.len(), &funcs[1]["parent"]), (2, &members[0]), "{said:#}");

    let second = Pid::from_child(job.agent(1));
    kill_process(second, Signal::STOP).unwrap();
    let hangs = stats(&job, &[]);
    let alone = stats(&job, &["--members", "0"]);
    kill_process(second, Signal::CONT).unwrap();
    assert_eq!((&hangs["done"], &hangs["answer"]), (&Value::Bool(false), &Value::Null), "{hangs:#}");
    assert_eq!(hangs["failures"][0]["member"], members[1], "{hangs:#}");
    assert!(hangs["failures"][0]["why"].as_str().unwrap().contains("the deadline passed"), "{hangs:#}");
    assert_eq!(alone["answer"]["service_processes"].as_array().unwrap().len(), 1, "{alone:#}");
    until("both tell again", || stats(&job, &[]), |said| said["done"] == true);
}

#[test]
fn a_call_everywhere_reaches_the_members_at_all_agents() {
    // Three members at each, and nine seats more than two each: the first one at the second agent is number 15.
    let mut job = with_sockets("call-everywhere", [&["--members", "3"], &["--members", "3"]]);
    let call = |job: &ByHand| told(job, &["call", "count", "--add", "2", "--everywhere", "--deadline", "8s"]);
    let calls = Cell::new(0);
    let said = until(
        "both agents take part",
        || {
            calls.set(calls.get() + 1);
            call(&job)
        },
        |said| said["done"] == true,
    );
    let members = [0, 1, 2, 15, 16, 17].map(Value::from);
    assert_eq!(said["members"].as_array().unwrap()[..], members, "{said:#}");
    let runs = said["runs"].as_array().unwrap();
    let mut ran: Vec<u64> =
        runs.iter().filter(|run| run["child"].is_null()).map(|run| run["member"].as_u64().unwrap()).collect();
    ran.sort_unstable();
    assert_eq!(ran, [0, 1, 2, 15, 16, 17], "{said:#}");
    // Two for each of six, and none elsewhere, a call.
    let before = said["answer"].as_u64().unwrap();
    assert!(before >= 12 && before <= 12 * calls.get(), "{said:#}");
    assert_eq!(call(&job)["answer"], before + 12);
    // What crosses goes to the leader there, and from it to the others.
    let above =
        |node: u64| runs.iter().find(|run| run["member"] == node && run["child"].is_null()).map(|run| &run["parent"]);
    assert_eq!([15, 16, 17].map(above), [0, 15, 15].map(Value::from).each_ref().map(Some), "{said:#}");

    job.agent(1).kill().unwrap();
    job.agent(1).wait().unwrap();
    let left = told(&job, &["call", "count", "--deadline", "8s", "--members", "0-2"]);
    assert_eq!((&left["done"], &left["answer"]), (&Value::Bool(true), &Value::from(before / 2 + 6)), "{left:#}");
}
