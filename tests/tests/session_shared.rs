//! A session that is given to many threads and taken back is as it was.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::fs;
use std::time::{Duration, Instant};

use umbra::driver::now;
use umbra::session::SharedSession;
use umbra_core::time::Lapse;
use umbra_tests::agents::Agents;

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn a_session_that_was_shared_holds_no_more_descriptors_and_sleeps() {
    let agents = Agents::start(1, 1, 1);
    let mut session = agents.world().pop().unwrap();
    let before = descriptors();
    for _ in 0..100 {
        session = SharedSession::new(session).unwrap().into_session().unwrap();
    }
    let after = descriptors();
    assert!(after <= before + 10, "{before} descriptors, and {after} afterwards");
    let (begun, mut turns) = (Instant::now(), 0);
    while begun.elapsed() < Duration::from_millis(200) {
        session.progress(now() + Lapse::from_millis(200)).unwrap();
        turns += 1;
    }
    assert!(turns < 50, "woken {turns} times");
}
