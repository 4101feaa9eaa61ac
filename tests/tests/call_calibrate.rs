//! The choice of a tree by a short measurement.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use umbra::call::calibrate::TREES;
use umbra::call::{CalibrateError, Member, Progress, Shape, Station, WaitError};
use umbra_core::chain::{Call, Caps, Code, Node, Plan, StartError, Tag, Verdict, Work};
use umbra_core::time::Lapse;
use umbra_core::tree;

const MEMBERS: u16 = 16;
const PAUSE: Duration = Duration::from_millis(5);

/// The first of so many members, and the threads of the others; each has these functions.
fn members(count: u16, functions: impl Fn(&mut Member)) -> (Member, Vec<Progress>) {
    let station = Station::create("calibrate", Shape::new(count)).unwrap();
    let member = |node| {
        let mut member = Member::join(&station, node).unwrap();
        functions(&mut member);
        member
    };
    let others = (1..u32::from(count)).map(Node).map(|node| Progress::start(member(node)).unwrap());
    (member(Node(0)), others.collect())
}

fn list(count: u16) -> Vec<Node> {
    (0..u32::from(count)).map(Node).collect()
}

#[test]
fn each_tree_is_called_as_often_as_it_is_asked_for() {
    let runs = Arc::new(AtomicU32::new(0));
    // Sleeps are no work: what they add up to along a path a call takes at least, on however many processors.
    let (mut first, _others) = members(MEMBERS, |member| {
        let runs = Arc::clone(&runs);
        let pause = move |_: &mut Work<'_>| {
            runs.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(PAUSE);
            Verdict::Done
        };
        member.register("pause", pause).unwrap();
    });
    let all = list(MEMBERS);
    let call = Call { budget: Lapse::from_secs(60), ..Call::new(Tag::of("pause"), &all) };
    let tried = first.calibrate(&call, 3).unwrap();
    // Whoever pauses below somebody who pauses is done after both.
    let least = |tree| if tree == tree::Shape::FLAT { 2 } else { 3 };
    assert!(tried.iter().all(|tried| tried.half >= least(tried.tree) * PAUSE), "{tried:?}");
    assert!(tried.is_sorted_by_key(|tried| tried.half), "{tried:?}");
    assert_eq!(tried.iter().map(|tried| tried.tree).collect::<HashSet<_>>(), HashSet::from(TREES));
    assert_eq!(runs.load(Ordering::Relaxed), u32::from(MEMBERS) * 5 * 2 * 3);

    // Below the first of the list the flat tree has a level more.
    let led = Call { plan: Plan::Led(tree::Shape::BINARY), ..call };
    let tried = first.calibrate(&led, 0).unwrap();
    assert!(tried[0].half >= 3 * PAUSE, "{tried:?}");
    assert_eq!(runs.load(Ordering::Relaxed), u32::from(MEMBERS) * 5 * 2 * (3 + 1));
}

#[test]
fn a_call_that_fails_is_the_last_one() {
    let runs = Arc::new(AtomicU32::new(0));
    let (mut first, _others) = members(4, |member| {
        let (runs, node) = (Arc::clone(&runs), member.node());
        let fail = move |_: &mut Work<'_>| {
            // The first call of all succeeds.
            let run = runs.fetch_add(1, Ordering::Relaxed);
            if node == Node(2) && run >= 4 { Verdict::Fault(7) } else { Verdict::Done }
        };
        member.register("fail", fail).unwrap();
    });
    let all = list(4);
    let Err(CalibrateError::Wait(WaitError::Failed(failure))) = first.calibrate(&Call::new(Tag::of("fail"), &all), 50)
    else {
        panic!("the second call fails")
    };
    assert_eq!((failure.records[0].origin, failure.records[0].code), (Node(2), Code::Fault));
    assert!(runs.load(Ordering::Relaxed) <= 8);
    assert_eq!(first.calls(), 0);

    let unknown = Tag::of("unknown");
    let refused = first.calibrate(&Call::new(unknown, &all), 50);
    assert_eq!(refused, Err(CalibrateError::Start(StartError::UnknownFunc(unknown))));
}

#[test]
fn a_tree_that_a_member_has_no_room_for_is_the_last_one() {
    let (mut first, _others) = members(MEMBERS, |member| {
        let answer = |work: &mut Work<'_>| match work.reply.set_data(&[7]) {
            Ok(()) => Verdict::Done,
            Err(_) => Verdict::Fault(1),
        };
        member.register("answer", answer).unwrap();
    });
    let (all, answer) = (list(MEMBERS), Tag::of("answer"));
    // The maker keeps the answers of its children until it has combined them.
    let call = |bytes| Call { callback: answer, caps: Caps { header: 0, data: bytes }, ..Call::new(answer, &all) };
    let flat = |bytes| Call { plan: Plan::Shape(tree::Shape::FLAT), ..call(bytes) };
    assert!(matches!(first.start(&flat(1024)), Err(StartError::TooLarge { .. })));
    let tried = first.calibrate(&call(1024), 2).unwrap();
    assert_eq!((tried[4].tree, tried[4].half), (tree::Shape::FLAT, Duration::MAX), "{tried:?}");
    assert!(tried[0].half < Duration::MAX, "{tried:?}");
    let refused = first.calibrate(&call(1 << 20), 2);
    assert!(matches!(refused, Err(CalibrateError::Start(StartError::TooLarge { .. }))), "{refused:?}");
    assert_eq!(first.calls(), 0);
}
