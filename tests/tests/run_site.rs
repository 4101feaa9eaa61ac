//! `umbra run` with a configuration file.
//!
//! Agents that run already are used and stay; others are started.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::process::{Command, Output};

use umbra::access::exposure::any_port;
use umbra_tests::rig::{ByHand, programs};

/// Host `node0` is here with its DPU, `node1` is not.
const HERE: &[&str] = &["--here", "node0", "--start", "dpu0"];

fn run(job: &ByHand, options: &[&str]) -> Output {
    let mut command = Command::new(&programs().0);
    command.args(["run", "--quiet", "--json", "--size", "4K", "--reads", "40"]);
    if !options.contains(&"--ranks") {
        command.args(["--ranks", "3"]);
    }
    if !options.contains(&"--timeout") {
        command.args(["--timeout", "60s"]);
    }
    command.arg("--config").arg(job.config()).arg("--secret").arg(job.secret()).args(options);
    command.output().unwrap()
}

fn said(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat()
}

#[test]
fn s06_s16_an_agent_that_runs_already_reads_every_rank_and_has_the_same_tables() {
    let mut job = ByHand::new("site", 2);
    job.start(1, &[]);
    let output = run(&job, HERE);
    let text = said(&output);
    assert!(output.status.success(), "{text}");
    for part in [
        r#""ok":true,"hosts":1,"service_processes":2,"agents_elsewhere":1,"ranks":3,"#,
        r#"{"group":"world","digest":""#,
        r#""agents":2}"#,
        r#""mismatches":0,"failed_reads":0,"#,
        r#"{"path":"asked","own_rank":false,"reads":"#,
        r#""rank_wakeups":0,"#,
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    // It outlives its job, serves the next one, of another size, and ends well when it is asked to.
    let again = run(&job, &[HERE, &["--ranks", "2"]].concat());
    let text = said(&again);
    assert!(again.status.success() && text.contains(r#""agents_elsewhere":1,"ranks":2,"#), "{text}");
    job.end();
}

#[test]
fn an_agent_that_does_not_run_is_named() {
    let job = ByHand::new("nobody", 2);
    let output = run(&job, &["--here", "node0", "--start", "dpu0", "--timeout", "5s"]);
    let text = said(&output);
    assert!(!output.status.success() && text.contains("link to service process 1"), "{text}");
}

#[test]
fn a_rank_whose_agent_runs_elsewhere_is_read_over_rdma_or_not_at_all() {
    let mut job = ByHand::new("apart", 2);
    job.start(1, &[]);
    let output = run(&job, &["--start", "dpu0"]);
    let text = said(&output);
    if any_port().is_ok() {
        return assert!(output.status.success() && text.contains(r#"{"path":"verbs","#), "{text}");
    }
    assert!(!output.status.success() && text.contains("no Unix socket to service process 1"), "{text}");
}

#[test]
fn names_that_the_file_does_not_have_are_refused_with_those_that_it_has() {
    let job = ByHand::new("names", 2);
    for (options, part) in [
        (["--here", "node2"], r#"no host of the job is called "node2": it has node0, node1"#),
        (["--start", "bf0"], r#"no DPU of the job is called "bf0": it has dpu0, dpu1"#),
        (["--here", "node0,node0"], r#"host "node0" is named twice"#),
        (["--hosts", "2"], "cannot be used with"),
    ] {
        let output = run(&job, &options);
        assert!(output.status.code() == Some(2) && said(&output).contains(part), "{part} is not in {}", said(&output));
    }
}
