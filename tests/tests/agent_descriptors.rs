//! Descriptors of an agent: as many as it may have.
//!
//! The limit is that of the test's own process, so nothing else is tested here.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::fs;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use umbra_tests::rig::{self, ByHand};

#[test]
fn an_agent_takes_as_many_descriptors_as_it_may() {
    // Built before there are few.
    let _ = rig::programs();
    let usual = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(256), ..usual }).unwrap();
    let mut job = ByHand::new("descriptors", 1);
    job.start(0, &[]);
    let limits = fs::read_to_string(format!("/proc/{}/limits", job.agent(0).id())).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let figures: Vec<&str> = line.split_whitespace().skip(3).take(2).collect();
    assert_eq!(figures[0], figures[1], "soft and hard: {line}");
    assert_ne!(figures[0], "256");
    job.end();
}
