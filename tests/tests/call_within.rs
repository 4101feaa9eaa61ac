//! Calls that functions make, which are part of other calls themselves.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use umbra::call::{BeginError, InnerError, Shape, Station};
use umbra_core::chain::{Call, Code, Config, Node, Phase, Plan, StartError, Tag, Verdict};
use umbra_core::time::Lapse;
use umbra_core::tree::Shape as Tree;
use umbra_tests::call::{Act, INNER, RELAY, Together, call, header, member_with, relayed};

/// Far beyond anything that a loaded machine needs.
const LONG: Duration = Duration::from_secs(30);

fn nodes(count: u32) -> Vec<Node> {
    (0..count).map(Node).collect()
}

fn together(count: u16, calls: u16, settings: impl Fn(Config) -> Config) -> Together {
    let station = Station::create("calls within calls", Shape::new(count)).unwrap();
    Together(nodes(u32::from(count)).into_iter().map(|node| member_with(&station, node, calls, &settings)).collect())
}

#[test]
fn s13_every_member_calls_every_member_with_one_place_for_each_depth() {
    let one_each = |config| Config { classes: 8, ..config };
    let mut crowd = together(7, 8, one_each);
    for _ in 0..20 {
        // Seven sums of 21.
        assert_eq!(crowd.run(&relayed(&nodes(7), &[])).unwrap().data, 147_u64.to_le_bytes());
    }
}

#[test]
fn s13_without_classes_the_same_calls_wait_in_a_circle() {
    let mut crowd = together(7, 2, |config| Config { classes: 0, ..config });
    let failure = crowd.run(&Call { budget: Lapse::from_millis(300), ..relayed(&nodes(7), &[]) }).unwrap_err();
    assert!(failure.records[0].code != Code::UnknownFunc && failure.tallies.ok < 7, "{failure}");
    // Their time is over, and what they held is free again.
    while crowd.0.iter().any(|member| member.calls() > 0) {
        crowd.turn();
    }
    // A place may be kept for whoever waited for it, but not for long.
    let all = nodes(7);
    let handle = loop {
        match crowd.0[0].start(&call(&all, &[])) {
            Err(StartError::WouldBlock) => crowd.turn(),
            other => break other.unwrap(),
        }
    };
    assert_eq!(crowd.end(0, handle).unwrap().data, 21_u64.to_le_bytes());
}

#[test]
fn s13_calls_within_calls_cross_between_threads() {
    const MEMBERS: u16 = 5;
    let station = Station::create("calls within crossing calls", Shape::new(MEMBERS)).unwrap();
    let (done, ready) = (AtomicU32::new(0), Barrier::new(usize::from(MEMBERS)));
    std::thread::scope(|scope| {
        for node in nodes(u32::from(MEMBERS)) {
            let (station, done, ready) = (&station, &done, &ready);
            scope.spawn(move || {
                let mut member = member_with(station, node, 8, |config| Config { classes: 8, ..config });
                ready.wait();
                for _ in 0..20 {
                    // Who waits in a circle waits until the time is over, however long that is.
                    let budget = Lapse::from_secs(LONG.as_secs());
                    let handle = member.start(&Call { budget, ..relayed(&nodes(5), &[]) }).unwrap();
                    assert_eq!(member.wait(handle, LONG * 2).unwrap().data, 50_u64.to_le_bytes());
                }
                done.fetch_add(1, Ordering::AcqRel);
                let all = member.serve_until(LONG * 2, |_| done.load(Ordering::Acquire) == u32::from(MEMBERS));
                assert!(all, "{} members have made their calls", done.load(Ordering::Acquire));
                assert_eq!(member.calls(), 0);
            });
        }
    });
}

#[test]
fn s13_calls_within_calls_do_not_count_among_those_that_a_member_may_have_open() {
    let mut crowd = together(3, 16, |config| Config { open_max: 1, ..config });
    let handle = crowd.0[0].start(&relayed(&nodes(3), &[])).unwrap();
    assert_eq!(crowd.0[0].start(&call(&nodes(3), &[])).unwrap_err(), StartError::WouldBlock);
    assert_eq!(crowd.end(0, handle).unwrap().data, 9_u64.to_le_bytes());
    assert_eq!(crowd.run(&call(&nodes(3), &[])).unwrap().data, 3_u64.to_le_bytes());
}

#[test]
fn s18_a_call_within_another_one_has_the_levels_that_are_left_and_no_more() {
    // The maker, whoever it asks, and those whom that one asks.
    let mut crowd = together(3, 16, |config| Config { classes: 4, ..config });
    let told = Arc::new(AtomicU32::new(0));
    let telling = Arc::clone(&told);
    crowd.0[1]
        .register_local("deeper", move |work, local| {
            let members = nodes(3);
            if work.phase == Phase::Init {
                // Flat, and then a chain of one level more.
                let chain = Call { plan: Plan::Shape(Tree::CHAIN), ..call(&members, &[]) };
                let flat = Call { plan: Plan::Shape(Tree::FLAT), ..chain };
                assert_eq!((local.begin(&chain), local.begin(&flat)), (Ok(0), Ok(1)));
                return Verdict::Pending;
            }
            let (Some(refused), Some(taken)) = (local.answer(0), local.answer(1)) else { return Verdict::Pending };
            let Err(InnerError::NotBegun(error)) = refused else { panic!("{refused:?}") };
            assert_eq!(*error, StartError::TooDeep { height: 4, max: 3 });
            // The tree itself has two levels.
            assert!(
                error.to_string().contains("ends 4 levels below the maker of the outermost call, at most 3"),
                "{error}"
            );
            telling.store(taken.as_ref().unwrap().members, Ordering::Release);
            Verdict::Done
        })
        .unwrap();
    crowd.0[0].register("deeper", |_| Verdict::Done).unwrap();
    let sent = |crowd: &Together| crowd.0.iter().map(|member| member.figures().requests).sum::<u64>();
    let before = sent(&crowd);
    assert_eq!(crowd.run(&Call::new(Tag::of("deeper"), &[Node(1)])).unwrap().members, 2);
    assert_eq!(
        (told.load(Ordering::Acquire), sent(&crowd) - before),
        (3, 3),
        "nothing is sent for the one that is refused"
    );
    assert_eq!(crowd.run(&call(&nodes(3), &[])).unwrap().data, 3_u64.to_le_bytes());
}

#[test]
fn s13_how_a_call_within_another_one_fails_is_told_to_the_function_that_made_it() {
    let mut crowd = together(5, 16, |config| config);
    let fault = header(Node(3), Act::Fault);
    let failure = crowd.run(&relayed(&[Node(2)], &fault)).unwrap_err();
    let [record] = failure.records[..] else { panic!("{failure}") };
    // The first of the two functions to see it, which is the maker's.
    assert_eq!((record.origin, record.code, record.aux), (Node(0), Code::Fault, INNER + 3));
    assert_eq!(crowd.run(&relayed(&nodes(5), &[])).unwrap().data, 50_u64.to_le_bytes());
}

#[test]
fn s13_a_call_within_another_one_has_no_more_time_than_that() {
    let mut crowd = together(4, 16, |config| config);
    let told = Arc::new(AtomicBool::new(false));
    let (telling, members) = (Arc::clone(&told), nodes(4));
    crowd.0[1]
        .register_local("patient", move |work, local| match local.answer(0) {
            _ if work.phase == Phase::Init => {
                let slow = header(Node(3), Act::Hang);
                // It asks for ten seconds.
                if local.begin(&call(&members, &slow)).is_ok() { Verdict::Pending } else { Verdict::Fault(1) }
            }
            Some(Err(InnerError::Failed(failure))) => {
                telling.store(failure.records[0].code == Code::Timeout, Ordering::Release);
                Verdict::Fault(failure.records[0].origin.0)
            }
            _ => Verdict::Fault(2),
        })
        .unwrap();
    crowd.0[0].register("patient", |_| Verdict::Done).unwrap();
    // A sixteenth of it is for the function, also on a machine that is busy.
    let short = Call { budget: Lapse::from_millis(1600), ..Call::new(Tag::of("patient"), &[Node(1)]) };
    let failure = crowd.run(&short).unwrap_err();
    let [record] = failure.records[..] else { panic!("{failure}") };
    assert!(record.origin == Node(1) || record.code == Code::Timeout, "{failure}");
    // Whoever was slow is named to the function in time for it to say so, unless the machine stood still.
    if told.load(Ordering::Acquire) {
        assert_eq!((record.code, record.aux), (Code::Fault, 3));
    }
    while crowd.0.iter().any(|member| member.calls() > 0) {
        crowd.turn();
    }
}

#[test]
fn s13_a_call_that_is_given_up_takes_those_within_it_along() {
    let mut crowd = together(4, 16, |config| config);
    let slow = header(Node(3), Act::Hang);
    let handle = crowd.0[0].start(&relayed(&[Node(0)], &slow)).unwrap();
    for _ in 0..10 {
        crowd.turn();
    }
    assert!(crowd.0[3].calls() > 0, "the call within it is under way");
    crowd.0[0].cancel(handle).unwrap();
    assert_eq!(crowd.end(0, handle).unwrap_err().records[0].code, Code::Cancelled);
    while crowd.0.iter().any(|member| member.calls() > 0) {
        crowd.turn();
    }
}

#[test]
fn s13_what_speaks_against_a_call_is_told_to_the_function() {
    let mut crowd = together(3, 16, |config| config);
    let seen = Arc::new(AtomicU32::new(0));
    let seeing = Arc::clone(&seen);
    crowd.0[0]
        .register_local("hasty", move |work, local| {
            if let Phase::Wait(_) = work.phase {
                assert_eq!(local.begin(&call(&[Node(1)], &[])), Err(BeginError::InCallback));
                return Verdict::Done;
            }
            if work.phase == Phase::Init {
                assert_eq!(local.begin(&Call::new(Tag::of("nobody's"), &[Node(1)])), Ok(0));
                assert_eq!(local.begin(&relayed(&[Node(1), Node(1)], &[])), Ok(1));
                assert_eq!(local.begin(&call(&[Node(1)], &[])), Ok(2));
                assert!(local.waits() && local.answer(0).is_none() && local.answer(3).is_none());
                return Verdict::Pending;
            }
            seeing.fetch_add(1, Ordering::Relaxed);
            let refused = |at: usize| match local.answer(at) {
                Some(Err(InnerError::NotBegun(error))) => *error,
                other => panic!("{other:?}"),
            };
            assert_eq!(refused(0), StartError::UnknownFunc(Tag::of("nobody's")));
            assert_eq!(refused(1), StartError::DuplicateId { id: Node(1), first: 1, second: 2 });
            if local.waits() { Verdict::Pending } else { Verdict::Done }
        })
        .unwrap();
    crowd.0[1].register("hasty", |_| Verdict::Done).unwrap();
    let hasty = Tag::of("hasty");
    let reply = crowd.run(&Call { callback: hasty, ..Call::new(hasty, &[Node(1)]) }).unwrap();
    assert_eq!((reply.members, seen.load(Ordering::Relaxed)), (2, 2), "once for the refusals, once for the answer");
    assert_eq!(Tag::of(RELAY), relayed(&[], &[]).func);
}
