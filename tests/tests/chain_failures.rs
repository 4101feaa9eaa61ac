//! One failure at every stage: the exact origin, and an account that adds up.
//!
//! Numbers are as in the list of scenarios.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use umbra::call::Capacities;
use umbra_core::chain::{Action, Call, Caps, Code, Config, Life, Mode, Node, Outcome, Plan, RESPONSE, Stage, Verdict};
use umbra_core::time::{Lapse, Time};
use umbra_core::tree::Shape;
use umbra_tests::chain::check::{failed, fifteen, origins, tallies};
use umbra_tests::chain::{Act, Planned, SUM, World, sum_over};

#[test]
fn s20_an_unknown_function() {
    for collect in [false, true] {
        let mut world = World::new(15, 1);
        world.at(Node(4)).unregister(SUM);
        let end = world.call(&fifteen(collect));
        let (account, records) = failed(&end);
        assert_eq!(origins(records), [(4, Stage::Setup, Code::UnknownFunc)]);
        assert_eq!(records[0].aux, SUM.0);
        assert!(account.unreached >= 2);
        assert_eq!(end.unreached(), [9, 10]);
        assert!(!world.began.keys().any(|key| [4, 9, 10].contains(&key.1.0)));
        if collect {
            assert_eq!(account, tallies(12, 1, 2, 0));
        }
    }
}

#[test]
fn s21_a_member_with_less_room() {
    let mut world = World::new(15, 1);
    let small = Capacities { call_bytes: 96, ..Capacities::new(15) };
    world.replace(Node(4), small);
    let end = world.call(&fifteen(true));
    let (account, records) = failed(&end);
    assert_eq!(origins(records), [(4, Stage::Setup, Code::TooLarge)]);
    assert_eq!((account, records[0].aux > 96), (tallies(12, 1, 2, 0), true));
}

#[test]
fn s23_a_function_that_fails() {
    for (mode, unreached) in [(Mode::empty(), 2), (Mode::CUT_THROUGH, 0)] {
        let mut world = World::new(15, 1);
        world.script.functions.insert(Node(5), Act::Fault(42));
        let mut planned = sum_over(0..15);
        planned.call.mode = mode;
        let end = world.call(&planned);
        let (account, records) = failed(&end);
        assert_eq!((origins(records), records[0].aux), (vec![(5, Stage::Func, Code::Fault)], 42));
        let below = |key: &(_, Node)| [11, 12].contains(&key.1.0);
        assert_eq!(world.began.keys().filter(|key| below(key)).count() as u32, 2 - unreached);
        assert!(account.unreached >= unreached && account.failed == 1);
        let named: &[u32] = if unreached > 0 { &[11, 12] } else { &[] };
        assert_eq!(end.unreached(), named);
        assert!(world.figures().stale >= 2, "the answers of the others come too late");
    }
}

#[test]
fn s24_the_maker_s_own_function_fails() {
    let mut world = World::new(15, 1);
    world.script.functions.insert(Node(0), Act::Fault(7));
    let end = world.call(&fifteen(false));
    let (account, records) = failed(&end);
    assert_eq!((origins(records), account), (vec![(0, Stage::Func, Code::Fault)], tallies(0, 1, 14, 0)));
    assert_eq!((end.unreached(), world.messages), ((1..15).collect(), 0));
}

#[test]
fn s25_a_panic() {
    let mut world = World::new(15, 1);
    world.script.functions.insert(Node(6), Act::Panic);
    assert_eq!(origins(failed(&world.call(&fifteen(false))).1), [(6, Stage::Func, Code::Panic)]);
    world.script.functions.clear();
    assert_eq!(world.call(&fifteen(false)).sum(), Some(105));
}

#[test]
fn s26_a_member_that_cannot_be_reached() {
    let mut world = World::new(15, 1);
    // Only 2 knows that 6 is gone.
    let now = world.now();
    world.at(Node(2)).on_gone(Node(6), now);
    let end = world.call(&fifteen(true));
    let (account, records) = failed(&end);
    assert_eq!(origins(records), [(6, Stage::Forward, Code::PeerDead)]);
    assert_eq!((account, records[0].depth), (tallies(12, 1, 2, 0), 1));
    assert_eq!(end.unreached(), [13, 14]);
}

#[test]
fn s26_a_transport_that_refuses_an_edge() {
    let mut world = World::new(15, 1);
    world.refuses = Some((Node(2), Node(6)));
    for collect in [false, true] {
        let end = world.call(&fifteen(collect));
        let (account, records) = failed(&end);
        assert_eq!(origins(records), [(6, Stage::Forward, Code::Transport)]);
        assert_eq!((records[0].depth, records[0].count), (1, 3), "as 2 says");
        assert!(!world.began.keys().any(|key| [6, 13, 14].contains(&key.1.0)));
        // An earlier request might have found its way.
        assert!(end.unreached().is_empty());
        if collect {
            assert_eq!(account, tallies(12, 1, 2, 0));
        }
    }
    world.refuses = None;
    assert_eq!(world.call(&fifteen(false)).sum(), Some(105));
}

/// Seven members, of whom 1 gets no request that its parent sends: its own one, and those for 3 and 4 below it.
fn without_room(mode: Mode) -> (World, Planned) {
    let mut world = World::new(7, 1);
    world.full = Some((Node(0), Node(1)));
    let mut planned = sum_over(0..7);
    planned.call.mode = mode;
    (world, planned)
}

#[test]
fn whoever_got_no_request_is_not_told_to_stop() {
    // The call is given up, early or after many requests.
    for (mode, after) in [Mode::empty(), Mode::COLLECT].into_iter().flat_map(|mode| [1, 500].map(|ms| (mode, ms))) {
        let (mut world, planned) = without_room(mode);
        let at = world.start(&planned).unwrap();
        world.cancel_after(Lapse::from_millis(after), Node(0), world.made[at].handle);
        world.run(Lapse::from_secs(60));
        world.check().unwrap();
        let (end, _) = world.made[at].end.as_ref().unwrap();
        assert_eq!((failed(end).0, world.figures().cancels), (tallies(4, 0, 3, 0), 0), "{mode:?} after {after} ms");
        assert_eq!(end.unreached(), [1, 3, 4], "the maker knows that it has sent nothing");
    }
    // Another child fails, so nothing more is sent, and nobody is waited for.
    let (mut world, planned) = without_room(Mode::COLLECT | Mode::CANCEL_ON_FAIL);
    world.script.functions.insert(Node(2), Act::Fault(1));
    let end = world.call(&planned);
    assert_eq!((failed(&end).0, world.figures().cancels), (tallies(1, 1, 5, 0), 0));
    assert_eq!(end.unreached(), [1, 3, 4, 5, 6]);
    // The time is over.
    let (mut world, planned) = without_room(Mode::empty());
    let end = world.call(&planned);
    let (account, records) = failed(&end);
    assert_eq!((origins(records), account), (vec![(1, Stage::Forward, Code::NoResource)], tallies(4, 1, 2, 0)));
}

#[test]
fn whoever_was_refused_for_lack_of_room_and_is_told_to_stop_is_not_waited_for() {
    let mut world = World::new(4, 1);
    world.script.functions.extend([(Node(1), Act::Hang), (Node(2), Act::Fault(1))]);
    let long = |members: Vec<u32>, mode| {
        let mut planned = sum_over(members);
        (planned.call.mode, planned.call.budget) = (mode, Lapse::from_secs(60));
        planned
    };
    // Calls of 3 take all places that 1 has.
    world.replace(Node(1), Capacities { calls: 8, call_bytes: 4096, ..Capacities::new(4) });
    for _ in 0..8 {
        world.start(&long(vec![3, 1], Mode::empty())).unwrap();
    }
    world.run(Lapse::from_millis(5));
    let busy = world.figures().busy;
    let start = world.now();
    let at = world.start(&long(vec![0, 1, 2], Mode::COLLECT | Mode::CANCEL_ON_FAIL)).unwrap();
    world.run(Lapse::from_secs(1));
    assert!(world.figures().busy > busy, "1 had no room");
    let (end, when) = world.made[at].end.as_ref().expect("nobody is waited for");
    assert!(when.since(start) < Lapse::from_millis(100));
    let (account, records) = failed(end);
    assert_eq!((origins(records), account), (vec![(2, Stage::Func, Code::Fault)], tallies(1, 1, 1, 0)));
    assert!(!world.began.keys().any(|key| key.0 == world.made[at].id && key.1 == Node(1)));
}

#[test]
fn whoever_got_a_request_in_the_end_is_told_to_stop() {
    let (mut world, planned) = without_room(Mode::empty());
    let at = world.start(&planned).unwrap();
    world.run(Lapse::from_millis(20));
    world.full = None;
    world.script.functions.insert(Node(1), Act::Hang);
    world.run(Lapse::from_millis(200));
    assert!(world.began.keys().any(|key| key.1 == Node(1)), "it was asked again");
    world.cancel_after(Lapse::from_millis(1), Node(0), world.made[at].handle);
    world.run(Lapse::from_millis(20));
    world.check().unwrap();
    assert_eq!((failed(&world.made[at].end.as_ref().unwrap().0).0, world.figures().cancels), (tallies(4, 0, 0, 3), 1));
}

#[test]
fn s27_a_callback_that_fails() {
    // Nobody runs a callback again that says it is pending.
    for act in [Act::Fault(77), Act::Hang] {
        let mut world = World::new(15, 1);
        world.script.callbacks.insert((Node(1), Node(3)), act);
        let end = world.call(&fifteen(false));
        let (account, records) = failed(&end);
        assert_eq!(
            (origins(records), records[0].aux),
            (vec![(1, Stage::Callback, Code::Fault)], 3),
            "the child is named"
        );
        assert!(!world.combined.keys().any(|key| (key.1, key.2) == (Node(1), Node(4))));
        assert_eq!(account.failed, 1);
    }
}

#[test]
fn s28_a_reply_that_is_too_large() {
    let mut world = World::new(15, 1);
    world.script.functions.insert(Node(13), Act::Excess);
    let end = world.call(&fifteen(false));
    let records = failed(&end).1;
    assert_eq!((origins(records), records[0].aux), (vec![(13, Stage::Reply, Code::ReplyTooLarge)], 9000));
}

#[test]
fn s30_of_two_failures_the_first_is_reported() {
    let mut world = World::new(15, 1);
    world.script.functions.insert(Node(5), Act::Fault(5));
    world.script.functions.insert(Node(6), Act::Fault(6));
    let end = world.call(&fifteen(false));
    let (account, records) = failed(&end);
    assert_eq!((records.len(), account.failed, account.total()), (1, 1, 15));
    assert!([5, 6].contains(&records[0].origin.0));
    assert_eq!(world.figures().failures, 3, "5, 6 and 2 answer badly, each once");
}

#[test]
fn s31_all_failures_are_collected() {
    let mut world = World::new(15, 1);
    for node in [3, 5, 14] {
        world.script.functions.insert(Node(node), Act::Fault(node));
    }
    let end = world.call(&fifteen(true));
    let (account, records) = failed(&end);
    let mut from: Vec<u32> = records.iter().map(|record| record.origin.0).collect();
    from.sort_unstable();
    assert_eq!((from, account), (vec![3, 5, 14], tallies(8, 3, 4, 0)));
    assert_eq!(end.unreached(), [7, 8, 11, 12]);
    let good = [(0, 1), (0, 2), (1, 4), (2, 6), (4, 9), (4, 10), (6, 13)];
    let combined = |(at, child): (u32, u32)| world.combined.keys().any(|key| (key.1, key.2) == (Node(at), Node(child)));
    // What failed below answers badly, so its parents combine only the others.
    assert!(good.into_iter().skip(2).filter(|&pair| pair != (2, 6)).all(combined));
}

/// The answers of all children wait when the function of their parent fails, which takes no more of the stack for more of them.
#[test]
fn s31_a_function_that_fails_when_thousands_have_answered_waits_for_nobody() {
    const MEMBERS: u32 = 20_000;
    let late = || {
        let capacities = Capacities { calls: 2, call_bytes: 1 << 20, ..Capacities::new(MEMBERS) };
        let config = Config { message_max: 1 << 20, ..Config::new(Node(0), Life(1)) };
        let mut machine = capacities.machine(config).unwrap();
        machine.register(SUM).unwrap();
        let all: Vec<Node> = (0..MEMBERS).map(Node).collect();
        let call = Call {
            callback: SUM,
            caps: Caps { header: 0, data: 8 },
            plan: Plan::Shape(Shape::FLAT),
            mode: Mode::CUT_THROUGH | Mode::COLLECT,
            ..Call::new(SUM, &all)
        };
        let handle = machine.start(&call, Time(1)).unwrap();
        let (mut buffer, mut answers) = (vec![0; 4096], Vec::new());
        loop {
            match machine.poll(Time(1), &mut buffer) {
                Some(Action::Send { to, .. }) => {
                    // The head of the request as a response to it, of eight bytes, and one member.
                    let mut answer = [0; RESPONSE + 8];
                    answer[..24].copy_from_slice(&buffer[..24]);
                    (answer[1], answer[2], answer[16], answer[28], answer[32]) = (2, 0, 0, 8, 1);
                    answers.push((to, answer));
                }
                Some(Action::Run { .. }) => break,
                other => panic!("{other:?} before the function runs"),
            }
        }
        for (from, answer) in &answers {
            machine.on_message(*from, Node(0), answer, Time(1)).unwrap();
        }
        machine.finish(handle, Verdict::Fault(42)).unwrap();
        assert_eq!(machine.poll(Time(1), &mut buffer), Some(Action::Ended { handle }));
        let Some(Outcome::Failed(report)) = machine.outcome(handle).unwrap() else { panic!("it failed") };
        assert_eq!(report.tallies, tallies(MEMBERS - 1, 1, 0, 0));
        assert_eq!(origins(&report.records().collect::<Vec<_>>()), [(0, Stage::Func, Code::Fault)]);
    };
    std::thread::Builder::new().stack_size(256 << 10).spawn(late).unwrap().join().unwrap();
}

#[test]
fn s32_answers_of_a_failed_call_never_count_for_the_next() {
    let mut world = World::new(15, 1);
    world.network.jitter = Lapse::from_micros(900);
    world.script.functions.insert(Node(1), Act::Fault(1));
    world.script.only = Some((Node(0), 1));
    let first = world.start(&fifteen(false)).unwrap();
    while world.made[first].end.is_none() {
        world.run(Lapse::from_micros(20));
    }
    let second = world.start(&fifteen(false)).unwrap();
    let dropped = world.figures().stale;
    while world.made[second].end.is_none() {
        world.run(Lapse::from_micros(20));
    }
    assert!(world.figures().stale > dropped, "old answers came meanwhile, and were dropped");
    world.run(Lapse::from_secs(10));
    world.check().unwrap();
    assert_eq!(world.made[second].end.as_ref().unwrap().0.sum(), Some(105));
}

#[test]
fn s28_no_byte_of_a_reply_is_beyond_what_is_allowed() {
    let mut world = World::new(3, 1);
    let mut planned = sum_over(0..3);
    planned.call.caps = Caps { header: 3, data: 8 };
    // The header of the script has four bytes: it asks first, and leaves it.
    assert_eq!(world.call(&planned).sum(), Some(3));
}

#[test]
fn whoever_is_told_to_stop_is_told_once_however_many_fail() {
    let mut world =
        World::with(1, Capacities { call_bytes: 8192, ..Capacities::new(101) }, Config::new(Node(0), Life(1)));
    world.script.functions.extend((1..101).map(|node| (Node(node), Act::Fault(1))));
    let mut planned = sum_over(0..101);
    planned.call.plan = Plan::Shape(Shape::FLAT);
    planned.call.mode = Mode::COLLECT | Mode::CANCEL_ON_FAIL;
    let end = world.call(&planned);
    // The first failure has all others told.
    assert_eq!((failed(&end).0, world.figures().cancels), (tallies(1, 100, 0, 0), 99));
}
