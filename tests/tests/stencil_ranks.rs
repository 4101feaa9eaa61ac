//! Stencils whose bricks lie in the memory of ranks.
//!
//! Loads are reads through agents, and a dead rank is named.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::fs;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use umbra::job::{DataPath, FieldJob, JobError, Options};
use umbra::session::SessionError;
use umbra::stencil::field::{BrickFile, Bricks, Element, Field, Spread};
use umbra::stencil::{LoadError, Source as _, Stop};
use umbra_core::error::Status;
use umbra_tests::answer::figure;
use umbra_tests::rig::{self, Guarded, Scratch};

fn umbra() -> Command {
    let mut command = rig::interruptible();
    command.args(["stencil", "--source", "ranks", "--quiet"]).arg("--agent").arg(&rig::programs().1);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn kill(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal).unwrap();
}

/// Process ids of the children of a process whose command lines have this word.
fn children(pid: u32, word: &str) -> Vec<u32> {
    let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let pids = list.split_whitespace().map(|pid| pid.parse().unwrap());
    pids.filter(|pid| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|&byte| byte == 0).any(|given| given == word.as_bytes())
    })
    .collect()
}

#[test]
fn bricks_in_the_memory_of_ranks_give_the_same_field_bit_for_bit() {
    let plane = ["--extents", "150,170", "--brick", "16", "--slots", "24", "--active", "4", "--threads", "3"];
    let space = ["--extents", "20,21,22", "--brick", "5,6,7", "--type", "i32", "--radius", "2", "--shape", "star"];
    for given in [
        &[&plane[..], &["--ranks", "1", "--data-path", "shared"]].concat(),
        &[&plane[..], &["--ranks", "5", "--policy", "lru", "--order", "tiles", "--data-path", "cma"]].concat(),
        &[&space[..], &["--data-path", "asked", "--loads-in-flight", "16"]].concat(),
        // More ranks than bricks: some of them hold nothing.
        &[&["--extents", "9,9", "--brick", "9", "--ranks", "3"][..]].concat(),
    ] {
        let output = umbra().args(given).args(["--json", "--verify"]).output().unwrap();
        let text = String::from_utf8(output.stdout.clone()).unwrap();
        assert!(output.status.success(), "{given:?}: {} {text}", said(&output));
        assert!(text.contains("\"source\":\"ranks\"") && text.contains("\"differing_points\":0"), "{given:?}: {text}");
    }
}

#[test]
fn what_a_stencil_loads_again_comes_from_the_agent_s_copies() {
    // Three rows of bricks do not fit into the slots, so most bricks are loaded more than once.
    let lru = ["--slots", "20", "--policy", "lru", "--prefetch", "0"];
    let given = [&["--extents", "256,256", "--brick", "16", "--json", "--verify"][..], &lru].concat();
    for (stage, kept) in [("64M", true), ("0", false)] {
        let output = umbra().args(&given).args(["--stage", stage]).output().unwrap();
        let text = String::from_utf8(output.stdout.clone()).unwrap();
        assert!(output.status.success(), "{} {text}", said(&output));
        let [loads, compulsory, reads, hits] =
            ["loads", "compulsory", "agent_reads", "agent_hits"].map(|name| figure(&text, name));
        assert!(loads > compulsory && reads == loads, "{text}");
        // The owner's agent is asked for each brick once.
        assert_eq!(hits, if kept { loads - compulsory } else { 0.0 }, "{text}");
    }
}

#[test]
fn what_a_stencil_will_load_is_read_ahead_by_the_agent() {
    let given = ["--extents", "512,512", "--brick", "16", "--slots", "80", "--prefetch", "24", "--json", "--verify"];
    // With a stage of four pieces there is room for one that is not used yet, and what is waited for pushes it out.
    for (more, most_ahead) in [(&[][..], 1024.0), (&["--order", "tiles"], 1024.0), (&["--stage", "128K"], 1.0)] {
        let output = umbra().args(given).args(more).output().unwrap();
        let text = String::from_utf8(output.stdout.clone()).unwrap();
        assert!(output.status.success() && text.contains("\"differing_points\":0"), "{} {text}", said(&output));
        let [loads, reads] = ["loads", "agent_reads"].map(|name| figure(&text, name));
        let [prefetched, used, wasted] =
            ["", "_used", "_wasted"].map(|which| figure(&text, &format!("agent_prefetched{which}")));
        assert_eq!(reads, loads, "{text}");
        assert!(prefetched > 0.0 && used + wasted <= prefetched && prefetched <= used + wasted + most_ahead, "{text}");
        if more.is_empty() {
            // A brick is a piece: nearly all of them are told before they are loaded, however busy the machine is.
            assert!(prefetched > loads / 2.0 && wasted == 0.0, "{text}");
        }
    }
    let output = umbra().args(given).args(["--stage", "0"]).output().unwrap();
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(output.status.success() && figure(&text, "agent_prefetched") == 0.0, "{} {text}", said(&output));
}

#[test]
fn many_threads_load_bricks_through_one_session_and_a_killed_rank_is_named() {
    let field = Field::create(None, &[300, 200], Element::F64).unwrap();
    field.fill(7, &Stop::default()).unwrap();
    let bricks = Bricks::new(field.extents(), [1, 64, 64]).unwrap();
    let spread = Spread { bricks, element_bytes: 8, holders: 3 };
    let options = Options { input: Some(field.open_path()), data_path: DataPath::Auto, ..rig::options(1, 1, 1) };
    let mut job = FieldJob::start(&options, spread).unwrap();
    let (ranks, file) = (job.source(4), BrickFile { field: &field, bricks });
    let until = Instant::now() + rig::PATIENCE;
    let load = |number: u64| {
        let mut bytes = vec![0; 64 * 64 * 8];
        ranks.load(number, &mut bytes, until).map(|()| bytes)
    };
    let expected = |number: u64| {
        let mut bytes = vec![0; 64 * 64 * 8];
        file.load(number, &mut bytes, until).unwrap();
        bytes
    };
    thread::scope(|scope| {
        for first in 0..6 {
            let (load, expected) = (&load, &expected);
            scope.spawn(move || {
                for number in (first..bricks.count()).chain(0..first) {
                    assert!(load(number).unwrap() == expected(number), "brick {number}");
                }
            });
        }
    });
    assert!(matches!(ranks.load(bricks.count(), &mut [0; 8], until), Err(LoadError::Size { .. })));
    assert!(matches!(ranks.load(0, &mut [0; 8], until), Err(LoadError::Size { have: 8, .. })));

    let pids = job.holders();
    kill(pids[1], Signal::KILL);
    let lost = spread.of(1).start;
    let failure = loop {
        match load(lost) {
            Err(failure) => break failure,
            Ok(bytes) => {
                assert!(bytes == expected(lost) && Instant::now() < until, "the memory of a dead rank is read")
            }
        }
    };
    let LoadError::Other(failure) = failure else { panic!("{failure}") };
    let failure = failure.downcast::<SessionError>().unwrap();
    assert!(matches!(*failure, SessionError::Read { status: Status::OwnerGone, .. }), "{failure}");
    assert!(failure.to_string().contains("rank 2"), "{failure}");
    // What others hold is still there.
    for holder in [0, 2] {
        let number = spread.of(holder).start;
        assert!(load(number).unwrap() == expected(number));
    }
    let death = job.death().unwrap();
    assert!(matches!(death, JobError::Died { peer, .. } if peer == rig::rank(2)), "{death}");
    drop(job);
    rig::all_gone(&pids);
}

#[test]
fn a_rank_that_dies_in_mid_run_ends_the_run_and_is_named() {
    let scratch = Scratch::new("stencil-ranks");
    let output = scratch.path().join("out.npy");
    fs::write(&output, "old").unwrap();
    // Bricks of one point take far longer than this test waits.
    let mut command = umbra();
    command.args(["--extents", "400,300", "--brick", "1", "--radius", "3", "--verify=never", "--timeout", "30s"]);
    let child = Guarded::from(command.arg("--output").arg(&output).spawn().unwrap());
    let end = Instant::now() + rig::PATIENCE;
    let ranks = loop {
        let ranks = children(child.id(), "rank");
        if ranks.len() == 2 {
            break ranks;
        }
        assert!(Instant::now() < end, "the ranks are not started");
        thread::sleep(Duration::from_millis(20));
    };
    // Wherever the run is by then.
    thread::sleep(Duration::from_millis(1500));
    let all = [&ranks[..], &children(child.id(), "--supervised")].concat();
    assert_eq!(all.len(), 4, "two ranks and two agents");
    kill(ranks[0], Signal::KILL);
    let ended = child.finish(end);
    let words = said(&ended);
    assert_eq!(ended.status.code(), Some(1), "{words}");
    assert!(words.contains("rank 1 died") && words.contains("signal: 9"), "{words}");
    rig::all_gone(&all);
    assert_eq!(fs::read(&output).unwrap(), b"old");
    assert_eq!(scratch.left(), [output]);
}

#[test]
fn an_interrupted_run_ends_its_ranks_and_agents() {
    let mut command = umbra();
    command.args(["--extents", "400,300", "--brick", "1", "--radius", "3", "--verify=never"]);
    let child = Guarded::from(command.spawn().unwrap());
    let end = Instant::now() + rig::PATIENCE;
    let started = |pid| [children(pid, "rank"), children(pid, "--supervised")].concat();
    while started(child.id()).len() < 4 {
        assert!(Instant::now() < end, "ranks and agents are not started");
        thread::sleep(Duration::from_millis(20));
    }
    let all = started(child.id());
    let directory = rig::directory_of(all[3]).unwrap();
    kill(child.id(), Signal::INT);
    let ended = child.finish(end);
    assert_eq!(ended.status.code(), Some(130), "{}", said(&ended));
    rig::all_gone(&all);
    assert!(!directory.exists(), "{}", directory.display());
}

#[test]
fn options_that_only_ranks_obey_are_refused_for_a_file() {
    for given in
        [["--ranks", "2"], ["--data-path", "cma"], ["--stage", "0"], ["--prefetch", "1"], ["--agent", "/bin/true"]]
    {
        let mut command = Command::new(&rig::programs().0);
        let output = command.arg("stencil").args(given).output().unwrap();
        assert!(output.status.code() == Some(2) && said(&output).contains("use it with --source ranks"), "{given:?}");
    }
    let missing = ["stencil", "--source", "ranks", "--agent", "/nowhere/umbra-agent"];
    let output = Command::new(&rig::programs().0).args(missing).output().unwrap();
    assert!(output.status.code() == Some(1) && said(&output).contains("/nowhere/umbra-agent"), "{}", said(&output));
}
