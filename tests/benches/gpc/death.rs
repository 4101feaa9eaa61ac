//! How soon a caller knows that a member in the middle of the tree was killed.
//!
//! Those below the member are at work when it dies.

use std::time::{Duration, Instant};

use umbra::call::WaitError;
use umbra_core::chain::{Call, Code, Node, Verdict};
use umbra_tests::bench::{Report, Row};

use crate::procs::{Members, PATIENCE};
use crate::{LOWER, call, median};

/// Milliseconds that the gate allows: members look for the dead every ten, and two more.
const GATE: f64 = 12.0;
const ROUNDS: usize = 5;
/// The member that dies: it has half of the others below it.
const DEAD: Node = Node(1);
/// The header by which leaves have not done their work before the end.
pub(crate) const ENDLESS: &[u8] = b"endless";

/// What a member does whose work has no end.
pub(crate) fn never(node: Node) -> Option<Verdict> {
    (node.0 >= 32).then_some(Verdict::Pending)
}

/// Milliseconds from the death of a member to the answer at the caller.
fn measure(members: u16) -> f64 {
    let mut members = Members::start(members);
    let all = members.all.clone();
    let handle = members.first.start(&Call { header: ENDLESS, ..call(&all) }).expect("room for one call");
    // The request goes to all, and all wait.
    let since = Instant::now();
    while since.elapsed() < Duration::from_millis(200) {
        assert!(!members.first.test(handle).expect("a call of ours"), "leaves do not end");
        std::thread::sleep(Duration::from_micros(200));
    }
    let start = Instant::now();
    members.kill(DEAD);
    let failure = members.first.wait(handle, PATIENCE);
    let took = start.elapsed();
    let Err(WaitError::Failed(failure)) = failure else { unreachable!("{failure:?}") };
    let named = failure.records.first().map(|record| (record.origin, record.code));
    assert_eq!(named, Some((DEAD, Code::PeerDead)), "{failure}");
    took.as_secs_f64() * 1000.0
}

pub(crate) fn rows(report: &mut Report) {
    let case = "death 64 ids";
    if report.wants(case) {
        let ours = median((0..ROUNDS).map(|_| measure(64)).collect());
        report.row(Row::new(case, ours, GATE, "gate G11: looked for every 10 ms, and 2 ms", "ms", LOWER)).bar(1.0);
    }
}
