//! Whole jobs over RDMA whose link goes down, or whose machine lacks something.
//!
//! The link comes back or stays down. These tests change the machine's network and run only where `UMBRA_TEST_LINK`
//! names an interface that is theirs, with a soft-RoCE device on it: one that `cargo xtask rdma` has made.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{CapabilitySet, remove_capability_from_bounding_set};
use umbra::job::{DataPath, Event, Options, Outcome, Phase, run};
use umbra_tests::machine::{child, is_child, link, passed, system, until, up};
use umbra_tests::rig;

/// Reads of a rank that take longer than it takes to hear that they have begun and to take a link down.
const READS: u32 = 4000;

fn over(data_path: DataPath) -> Options {
    Options { data_path, deadline: Duration::from_secs(10), ..rig::options(2, 1, 1) }
}

/// Runs a job whose link is taken down in mid read, and comes up after a while; after the job, if no time is given.
fn job_with_a_cut(link: &str, options: &Options, pause: Option<Duration>) -> Outcome {
    let (mut phase, mut cut) = (Phase::Agents, false);
    let outcome = thread::scope(|scope| {
        run(options, &mut |event| match event {
            Event::Phase { phase: entered, .. } => phase = entered,
            Event::Progress { .. } if phase == Phase::Random && !cut => {
                cut = true;
                system(&format!("ip link set {link} down"));
                if let Some(pause) = pause {
                    scope.spawn(move || {
                        thread::sleep(pause);
                        up(link);
                    });
                }
            }
            _ => {}
        })
    });
    assert!(cut, "the job came to its end before: {outcome:?}");
    up(link);
    outcome.unwrap()
}

fn held() -> String {
    system("rdma resource show")
}

#[test]
fn a_job_whose_link_goes_down_in_mid_read_goes_on_when_it_is_back() {
    let Some(link) = link() else { return };
    let before = held();
    for data_path in [DataPath::Verbs, DataPath::VerbsAsked] {
        let options = Options { reads: READS, ..over(data_path) };
        let outcome = job_with_a_cut(&link, &options, Some(Duration::from_secs(1)));
        assert!(outcome.is_good(), "{:?}, {outcome:?}", outcome.mismatches);
        assert_eq!(outcome.bytes, 2 * (outcome.input_bytes + 2 * u64::from(READS) * options.size));
        until("everything is given back", || held() == before);
    }
}

#[test]
fn reads_over_a_link_that_stays_down_fail_by_their_deadline_and_the_next_job_is_well() {
    let Some(link) = link() else { return };
    let before = held();
    let options = Options { reads: READS, deadline: Duration::from_secs(15), ..over(DataPath::Verbs) };
    let outcome = job_with_a_cut(&link, &options, None);
    // One deadline for each rank, one after the other.
    assert!(outcome.elapsed < rig::PATIENCE, "{:?}", outcome.elapsed);
    assert!(outcome.failed_reads > 0 && outcome.leftovers.is_empty(), "{outcome:?}");
    let why = ["queue to the peer broke", "memory cannot be reached", "deadline passed"];
    let failed = |what: &str| what.contains("reads failed") || what.contains("1 read failed");
    let told = |what: &str| failed(what) && why.iter().any(|why| what.contains(why));
    assert!(outcome.mismatches.iter().all(|mismatch| told(&mismatch.what)), "{:?}", outcome.mismatches);
    until("everything is given back", || held() == before);
    let next = run(&over(DataPath::Verbs), &mut |_| {}).unwrap();
    assert!(next.is_good(), "{next:?}");
}

/// Runs a job as a user does, and gives what it said.
fn command(input: &Path, options: &[&str]) -> (Output, String) {
    let (umbra, agent) = rig::programs();
    let mut command = Command::new(umbra);
    command.args(["run", "--quiet", "--data-path", "verbs", "--hosts", "2", "--ranks", "1", "-s", "1"]);
    command.args(["--timeout", "20s", "--size", "4K", "--reads", "10", "--input"]).arg(input).arg("--agent").arg(agent);
    let output = command.args(options).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, said)
}

fn refused(input: &Path, part: &str) {
    let (output, said) = command(input, &[]);
    assert!(!output.status.success() && said.contains(part), "{part} is not in {said}");
}

fn file(scratch: &rig::Scratch, len: usize) -> PathBuf {
    let path = scratch.path().join(len.to_string());
    std::fs::write(&path, vec![7; len]).unwrap();
    path
}

#[test]
fn what_a_machine_lacks_is_named_with_its_remedy() {
    let Some(link) = link() else { return };
    let scratch = rig::Scratch::new("lacks");
    let input = file(&scratch, 100_000);
    system(&format!("ip link set {link} down"));
    refused(&input, "bring its link up");
    up(&link);
    system("rdma link delete rxe0");
    refused(&input, "rdma link add");
    system(&format!("rdma link add rxe0 type rxe netdev {link}"));
    up(&link);
    // Smaller packets than the device began with.
    system(&format!("ip link set {link} mtu 700"));
    let (output, said) = command(&input, &[]);
    system(&format!("ip link set {link} mtu 1500"));
    assert!(output.status.success(), "{said}");
}

#[test]
fn a_job_that_may_lock_too_little_memory_says_how_much_and_what_to_do() {
    if is_child() {
        remove_capability_from_bounding_set(CapabilitySet::IPC_LOCK).unwrap();
        let limit = 64 * 1024;
        setrlimit(Resource::Memlock, Rlimit { current: Some(limit), maximum: Some(limit) }).unwrap();
        let scratch = rig::Scratch::new("locked");
        // More than a rank may lock, and more than an agent may.
        refused(&file(&scratch, 1_000_000), "ulimit -l");
        refused(&file(&scratch, 8_000), "ulimit -l");
        return;
    }
    if link().is_none() {
        return;
    }
    passed(&child("a_job_that_may_lock_too_little_memory_says_how_much_and_what_to_do", |_| ()));
}
