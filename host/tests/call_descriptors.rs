//! Members of calls that cannot look at others, because no descriptor is left.
//!
//! The limit is that of the whole process, so this test is alone in its program.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop at the first surprise")]

use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use umbra::call::{JoinError, Member, Shape, Station};
use umbra_core::chain::{Call, Node, Verdict};
use umbra_core::time::Lapse;

#[test]
fn whoever_cannot_be_looked_at_is_not_taken_for_dead() {
    let station = Station::create("descriptors", Shape::new(3)).unwrap();
    let mut first = Member::join(&station, Node(0)).unwrap();
    let usual = getrlimit(Resource::Nofile);
    // Those that are open stay so.
    setrlimit(Resource::Nofile, Rlimit { current: Some(3), ..usual }).unwrap();
    let mut second = Member::join(&station, Node(1)).unwrap();
    let seen = first.sees(&[Node(1)]);
    let taken = Member::join(&station, Node(0)).map(drop);
    setrlimit(Resource::Nofile, usual).unwrap();
    assert_eq!(seen, Some(Node(1)), "there was a descriptor to look with");
    assert!(matches!(taken, Err(JoinError::Taken { node: Node(0), .. })), "{taken:?}");

    assert_eq!(first.sees(&[Node(1)]), None, "the next look finds who could not be looked at");
    let work = |_: &mut umbra_core::chain::Work<'_>| Verdict::Done;
    let function = first.register("work", work).unwrap();
    second.register("work", work).unwrap();
    let call = Call { budget: Lapse::from_secs(30), ..Call::new(function, &[Node(1)]) };
    let handle = first.start(&call).unwrap();
    while !first.test(handle).unwrap() {
        second.turn();
    }
    assert_eq!(first.wait(handle, Duration::ZERO).map(|reply| reply.members), Ok(2));
}
