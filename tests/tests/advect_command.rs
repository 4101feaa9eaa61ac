//! `umbra advect` as a command, with ranks as processes.
//!
//! The bits are the same on every number of ranks, and no process is left behind.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use umbra_tests::answer::{self, figure, value};
use umbra_tests::machine::until;
use umbra_tests::rig::{self, Guarded, Scratch};

fn umbra() -> Command {
    let mut command = Command::new(&rig::programs().0);
    command.arg("advect").stdin(Stdio::null());
    command
}

/// What a run says, which ends by itself in time.
fn run(arguments: &[&str]) -> Output {
    let job = umbra().args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // It may have much to compute.
    Guarded::from(job).finish(Instant::now() + 5 * rig::PATIENCE)
}

/// The object that a good run prints.
fn good(arguments: &[&str]) -> String {
    answer::good(&run(&[&["--json", "--quiet"], arguments].concat()))
}

/// An agent that looks out for what comes; named, so that nothing is built when it is looked for.
fn attended() -> [&'static str; 4] {
    ["--transport", "agent", "--agent", rig::programs().1.to_str().unwrap()]
}

const SMALL: [&str; 10] = ["--blocks", "4", "--cells", "8", "--fields", "2", "--radius", "2", "--cycles", "24"];

#[test]
fn s34_and_s35_processes_give_the_same_bits_on_every_number_of_ranks() {
    let refined = ["--problem", "smooth", "--refine", "1..3"];
    for problem in [&["--problem", "shift"][..], &["--problem", "smooth", "-d", "3"], &refined] {
        let mut hashes = Vec::new();
        let attended = attended();
        for way in [
            &["-n", "1", "--dense"][..],
            &["-n", "2"],
            &["-n", "3", "--split"],
            &["-n", "4", "--threads"],
            &attended,
            &["-n", "8", "--reversed", "--delay", "200us"],
        ] {
            let object = good(&[&SMALL[..], problem, way].concat());
            hashes.push(value(&object, "hash").to_owned());
            let (ranks, messages) = (figure(&object, "ranks"), figure(&object, "wire_msgs"));
            let found = if way == attended { messages } else { 0.0 };
            assert_eq!(figure(&object, "attended_msgs"), found, "{object}");
            // Two exchanges a step, and no pair of ranks has more than one message in each direction.
            assert!(messages <= ranks * (ranks - 1.0) * 24.0 * 2.0, "{object}");
        }
        assert!(hashes.iter().all(|hash| *hash == hashes[0]), "{problem:?}: {hashes:?}");
    }
}

#[test]
fn the_reference_case_needs_a_fraction_of_what_a_dense_run_needs() {
    let object = good(&["--cycles", "40"]);
    assert!(figure(&object, "live_fraction") < 0.05, "{object}");
    let part = |object: &str, what: &str| {
        let (_, rest) = object.split_once(&format!("\"{what}\":{{")).unwrap();
        let rest = rest.to_owned();
        move |name: &str| figure(&rest, name)
    };
    let fields = part(&object, "field_bytes");
    assert!(fields("peak") <= 0.0625 * fields("dense"), "{object}");
    let slots = part(&object, "recv");
    for what in ["peak", "held"] {
        assert!(slots(what) > 0.0 && slots(what) <= 0.3 * figure(&object, "dense_comm_bytes"), "{what}: {object}");
    }
}

#[test]
fn s39_slots_that_cannot_grow_stay_as_they_are_and_all_bits_arrive() {
    let (slots, attended) = (["--largest-slot", "256"], attended());
    for way in [&["-n", "4", "--threads"][..], &["-n", "3"], &attended] {
        let object = good(&[&SMALL[..], &["--dense", "--problem", "smooth"], &slots, way].concat());
        assert_eq!(figure(&object, "overflow_msgs"), figure(&object, "wire_msgs"), "each is larger: {object}");
        let found = if way == attended { figure(&object, "wire_msgs") } else { 0.0 };
        assert_eq!(figure(&object, "attended_msgs"), found, "{object}");
        let (_, rest) = object.split_once("\"recv\":{").unwrap();
        let ranks = figure(&object, "ranks");
        assert!(figure(rest, "peak") <= ranks * (ranks - 1.0) * 2.0 * 256.0, "{object}");
    }
    let output = run(&[&SMALL[..], &["--largest-slot", "63"]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("slots of 63 bytes at most do not hold the head of a message of rank "), "{said}");
}

#[test]
fn the_object_of_a_run_has_all_its_figures_and_they_fit_together() {
    let all = [&SMALL[..], &["-n", "3", "--remesh", "5"]].concat();
    let object: serde_json::Value = serde_json::from_str(&good(&all)).unwrap();
    let number = |path: &str| {
        let found = object.pointer(path).unwrap_or_else(|| panic!("no {path} in {object}"));
        found.as_f64().unwrap_or_else(|| panic!("{path} is no number in {object}"))
    };
    for (name, value) in [
        ("/cycles", 24.0),
        ("/ranks", 3.0),
        ("/blocks", 16.0),
        ("/B", 8.0),
        ("/d", 2.0),
        ("/fields", 2.0),
        ("/remesh", 5.0),
        ("/wrong_cells", 0.0),
        // Of two fields, each a disc of radius 2.
        ("/nonzero", 2.0 * 13.0),
        // The row of 16 goes on by half a part, which is not a whole number of blocks, four times.
        ("/moved_blocks", 30.0),
    ] {
        assert_eq!(number(name), value, "{name} in {object}");
    }
    assert_eq!((&object["ok"], &object["dense"], &object["transport"]), (&true.into(), &false.into(), &"shm".into()));
    assert_eq!(object["hash"].as_str().map(str::len), Some(16));
    for at in ["pack", "send", "wait", "set", "update", "dealloc", "remesh"] {
        let spent = number(&format!("/t_{at}_us"));
        assert!(spent > 0.0 && spent <= number("/elapsed_ms") * 1e3, "{at} in {object}");
    }
    let [p10, p50, p90] = ["p10", "p50", "p90"].map(|at| number(&format!("/t_cycle_us/{at}")));
    assert!(0.0 < p10 && p10 <= p50 && p50 <= p90, "{object}");
    let (live, null) = (number("/live"), number("/null"));
    assert!(live > 0.0 && null > live && (number("/live_fraction") - live / (live + null)).abs() < 1e-9, "{object}");
    // A message has 64 bytes of head at least, and a live strip a value.
    assert!(number("/wire_bytes_header") >= 64.0 * number("/wire_msgs") && number("/wire_msgs") > 0.0, "{object}");
    assert!(number("/wire_bytes_payload") >= 8.0 * live && number("/overflow_msgs") >= 0.0, "{object}");
    for of in ["/field_bytes", "/comm_bytes/send", "/comm_bytes/recv"] {
        let [now, peak] = ["now", "peak"].map(|at| number(&format!("{of}/{at}")));
        assert!(0.0 < now && now <= peak, "{of} in {object}");
    }
    assert!(number("/field_bytes/peak") <= number("/field_bytes/dense"), "{object}");
    assert!(number("/comm_bytes/recv/peak") <= number("/dense_comm_bytes"), "{object}");
    // Two slots hold what was sent in two exchanges, heads and all: no more than all of the run, and a head for each message.
    let sent = number("/wire_bytes_header") + number("/wire_bytes_payload");
    assert!(number("/comm_bytes/send/peak") <= sent && number("/comm_bytes/send/now") >= 2.0 * 3.0 * 64.0, "{object}");
    assert!(number("/allocs") > number("/deallocs") && number("/deallocs") > 0.0, "{object}");
    // What a field that is present takes, in one stage and with its ghosts.
    assert_eq!(number("/field_bytes/now"), (number("/allocs") - number("/deallocs")) * 12.0 * 12.0 * 8.0, "{object}");
    assert!(0.0 < number("/max") && number("/max") <= 1.0, "{object}");
}

#[test]
fn a_run_of_one_rank_sends_nothing_and_takes_no_memory_to_do_so() {
    let object: serde_json::Value = serde_json::from_str(&good(&[&SMALL[..], &["-n", "1"]].concat())).unwrap();
    let nothing = serde_json::json!({ "send": { "now": 0, "peak": 0 }, "recv": { "now": 0, "peak": 0, "held": 0 } });
    assert_eq!((&object["comm_bytes"], &object["remesh"]), (&nothing, &serde_json::Value::Null));
}

#[test]
fn s25_blocks_move_among_processes_and_no_bit_changes() {
    let attended = attended();
    for problem in [&["--problem", "shift"][..], &["--problem", "smooth", "--refine", "1..3"]] {
        let hashes = [&["-n", "1"][..], &["-n", "3", "--remesh", "2"], &[&attended[..], &["--remesh", "7"]].concat()]
            .map(|way| {
                let object = good(&[&SMALL[..], problem, way].concat());
                let found = if way.starts_with(&attended) { figure(&object, "wire_msgs") } else { 0.0 };
                assert_eq!(figure(&object, "attended_msgs"), found, "{object}");
                value(&object, "hash").to_owned()
            });
        assert!(hashes.iter().all(|hash| *hash == hashes[0]), "{problem:?}: {hashes:?}");
    }
    for (every, why) in
        [("0", "invalid value '0'"), ("24", "every 24 cycles of a run of 24"), ("x", "invalid value 'x'")]
    {
        let output = run(&[&SMALL[..], &["--remesh", every]].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(why), "{said}");
    }
}

#[test]
fn a_page_shows_pictures_and_needs_nothing_else() {
    let scratch = Scratch::new("advect");
    let page = scratch.path().join("blobs.html");
    good(&[&SMALL[..], &["--plot", page.to_str().unwrap()]].concat());
    let text = std::fs::read_to_string(&page).unwrap();
    assert!(text.starts_with("<!doctype html>") && text.contains("Motion") && text.contains("step 24, on"));
    assert!(!text.contains("<script") && !text.contains("http://") && !text.contains("https://"));
}

#[test]
fn refined_blocks_are_told_and_drawn_and_boxes_that_are_none_refused() {
    let scratch = Scratch::new("advect-refined");
    let page = scratch.path().join("blobs.html");
    let smooth = ["--problem", "smooth", "--threads", "--refine"];
    let object = good(&[&SMALL[..], &smooth, &["1..3", "--plot", page.to_str().unwrap()]].concat());
    assert_eq!((figure(&object, "blocks"), value(&object, "refine")), (12.0 + 16.0, "\"1..3\""), "{object}");
    let text = std::fs::read_to_string(&page).unwrap();
    assert!(text.contains("4 × 4 blocks of 8 × 8 cells, 1..3 of them refined"));
    assert!(
        text.contains(r#"width="62.5" height="62.5""#) && text.contains(r#"width="31.2" height="31.2""#),
        "two sizes"
    );
    for (range, why) in [("3..1", "is no box of blocks"), ("1..5", "there are no blocks 1..5"), ("1", "is no box")] {
        let output = run(&[&SMALL[..], &smooth, &[range]].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(why), "{said}");
    }
    let output = run(&[&SMALL[..], &["--refine", "1..3"]].concat());
    assert!(String::from_utf8_lossy(&output.stderr).contains("refine blocks of problem smooth"));
}

fn children(of: u32) -> Vec<u32> {
    let list = std::fs::read_to_string(format!("/proc/{of}/task/{of}/children")).unwrap_or_default();
    list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// A long run of some ranks, and their process ids once they are there.
fn long_run(arguments: &[&str], count: usize) -> (Guarded, Vec<u32>) {
    let mut command = umbra();
    let job = command.args(["--cycles", "100000000", "--quiet"]).args(arguments).stdout(Stdio::piped());
    let job = Guarded::from(job.stderr(Stdio::piped()).spawn().unwrap());
    let begun = Instant::now();
    let mut ranks = children(job.id());
    while ranks.len() < count {
        assert!(begun.elapsed() < Duration::from_secs(30), "the ranks did not start");
        std::thread::sleep(Duration::from_millis(10));
        ranks = children(job.id());
    }
    // They have built, and asked the kernel to end with the process that started them, once all compute.
    until("the ranks work", || ranks.iter().all(|&pid| worked(pid) >= 10));
    (job, ranks)
}

fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal).unwrap();
}

#[test]
fn s41_a_killed_rank_ends_the_run_which_tells_what_others_miss_of_it_with_blocks_and_fields() {
    for way in [&[][..], &attended()] {
        let (job, processes) = long_run(&[&["-n", "3"], way].concat(), 3 + way.len() / 4);
        let agent = if way.is_empty() { None } else { Some(agent_of(&processes)) };
        let ranks: Vec<u32> = processes.iter().copied().filter(|&pid| Some(pid) != agent).collect();
        signal(ranks[1], Signal::KILL);
        let output = job.finish(Instant::now() + rig::PATIENCE);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        let (why, missed) = said.split_once("; rank ").unwrap_or_else(|| panic!("{said}"));
        assert!(why.contains("rank 1 ended early: signal: 9"), "{said}");
        let ended = format!("process {} of rank 1 has ended: see why; ", ranks[1]);
        let missing = "channels are missing, the first is rank 1: block ";
        assert!(
            missed.contains(&ended) && missed.contains(missing) && missed.contains(", field 0, element ("),
            "{said}"
        );
        rig::all_gone(&processes);
    }
}

#[test]
fn s41_a_stopped_rank_is_named_with_blocks_and_fields_after_the_deadline() {
    let (job, ranks) = long_run(&["-n", "3", "--timeout", "2s"], 3);
    signal(ranks[1], Signal::STOP);
    let output = job.finish(Instant::now() + rig::PATIENCE);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("not received in time; rank 1: block ") && said.contains(", field 0, element ("), "{said}");
    rig::all_gone(&ranks);
}

/// The process among these that is the agent.
fn agent_of(processes: &[u32]) -> u32 {
    let is_agent = |pid: &&u32| {
        std::fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.contains("--boundary"))
    };
    // Each is its starter's copy until it runs its own program.
    let mut agent = None;
    until("the agent runs", || {
        agent = processes.iter().find(is_agent).copied();
        agent.is_some()
    });
    agent.unwrap()
}

/// Processor time that a process has used so far, in ticks of 10 ms.
fn worked(pid: u32) -> u64 {
    let line = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // What follows the name: the state, ten numbers, the time in the program, the time in the kernel.
    let (_, rest) = line.rsplit_once(") ").unwrap();
    rest.split(' ').skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum()
}

#[test]
fn s40_a_run_goes_on_without_its_killed_agent() {
    let arguments = ["-n", "3", "--cycles", "6000", "--delay", "500us", "--blocks", "4"];
    let mut command = umbra();
    let job =
        command.args(attended()).args(arguments).args(["--cells", "8", "--radius", "2", "--fields", "2", "--quiet"]);
    let job = Guarded::from(job.stdout(Stdio::piped()).spawn().unwrap());
    let begun = Instant::now();
    let mut processes = Vec::new();
    while processes.len() < 4 {
        assert!(begun.elapsed() < Duration::from_secs(30), "the processes did not start");
        std::thread::sleep(Duration::from_millis(10));
        processes = children(job.id());
    }
    let agent = agent_of(&processes);
    until("the agent works", || worked(agent) > 0);
    signal(agent, Signal::KILL);
    // It has much to compute.
    let output = job.finish(Instant::now() + 5 * rig::PATIENCE);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("every cell has the bits of the closed form"), "{said}");
    rig::all_gone(&processes);
}

#[test]
fn s40_a_stopped_agent_is_named_after_the_deadline_and_nothing_stays_behind() {
    let (job, processes) = long_run(&[&attended()[..], &["-n", "2", "--timeout", "2s"]].concat(), 3);
    let agent = agent_of(&processes);
    // The ranks would go on alone if it had not begun.
    until("the agent works", || worked(agent) >= 10);
    signal(agent, Signal::STOP);
    let output = job.finish(Instant::now() + rig::PATIENCE);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    // Whichever rank is late first says both.
    assert!(said.contains("channels were not received in time; rank "), "{said}");
    assert!(said.contains(&format!(", process {agent}, has not looked for ")), "{said}");
    rig::all_gone(&processes);
}

#[test]
fn an_agent_that_cannot_be_started_is_named() {
    let output = run(&["--transport", "agent", "--agent", "/nowhere/umbra-agent"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("the agent does not start: no executable at /nowhere/umbra-agent: "), "{said}");
    assert_eq!(run(&[&attended()[..], &["--threads"]].concat()).status.code(), Some(2), "threads have no such process");
}

#[test]
fn a_device_that_is_not_there_is_named_by_a_rank() {
    let output = run(&["--transport", "verbs", "--device", "nowhere0"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("rank ") && (said.contains("RDMA device") || said.contains("libibverbs")), "{said}");
    assert_eq!(run(&["--transport", "verbs", "--threads"]).status.code(), Some(2), "ranks over RDMA are processes");
}

#[test]
fn ranks_end_with_the_process_that_started_them() {
    let (mut job, ranks) = long_run(&["-n", "2"], 2);
    job.kill().unwrap();
    job.wait().unwrap();
    rig::all_gone(&ranks);
}

#[test]
fn bad_arguments_are_told_apart_from_runs_that_fail() {
    let output = run(&["--radius", "900"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("radius 900"));
    assert_eq!(run(&["-n", "0"]).status.code(), Some(2));
}
