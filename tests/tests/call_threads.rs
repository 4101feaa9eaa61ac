//! Chained calls between threads of one process.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use umbra::call::built_in::{COUNT, GATHER, REDUCE, Why};
use umbra::call::{JoinError, Member, Number, Operator, Shape, Station, WaitError, reduction};
use umbra_core::chain::{Call, Caps, Code, Mode, Node, Phase, Plan, Stage, StartError, Tag, Verdict, Work};
use umbra_core::tree;
use umbra_tests::call::{Act, Together, call, header, member};

/// Far beyond anything that a loaded machine needs.
const LONG: Duration = Duration::from_secs(30);

fn nodes(count: u32) -> Vec<Node> {
    (0..count).map(Node).collect()
}

/// Runs `test` as member 0 while the other members serve in threads.
fn with_members(count: u16, test: impl FnOnce(&mut Member, &Station)) {
    let station = Station::create("call threads", Shape::new(count)).unwrap();
    let (over, ready) = (AtomicBool::new(false), Barrier::new(usize::from(count)));
    std::thread::scope(|scope| {
        for node in (1..u32::from(count)).map(Node) {
            let (station, over, ready) = (&station, &over, &ready);
            scope.spawn(move || {
                let mut member = member(station, node, 16);
                ready.wait();
                member.serve_until(LONG * 2, |_| over.load(Ordering::Acquire));
            });
        }
        let mut first = member(&station, Node(0), 16);
        ready.wait();
        // The others end whether the test succeeds or not.
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| test(&mut first, &station)));
        over.store(true, Ordering::Release);
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

fn sum(member: &mut Member, members: &[Node]) -> u64 {
    let handle = member.start(&call(members, &[])).unwrap();
    let reply = member.wait(handle, LONG).unwrap();
    assert_eq!(reply.members as usize, members.len());
    u64::from_le_bytes(reply.data.try_into().unwrap())
}

#[test]
fn s5_sums_go_up_every_tree() {
    with_members(8, |member, _| {
        let members = nodes(8);
        for shape in [tree::Shape::BINARY, tree::Shape::BINOMIAL, tree::Shape::FLAT, tree::Shape::CHAIN] {
            let handle =
                member.start(&umbra_core::chain::Call { plan: Plan::Shape(shape), ..call(&members, &[]) }).unwrap();
            assert_eq!(member.wait(handle, LONG).unwrap().data, 28_u64.to_le_bytes());
            assert_eq!(member.wait(handle, LONG), Err(WaitError::Stale), "the answer was taken");
        }
        assert_eq!(member.figures().stale, 0);
    });
}

#[test]
fn s25_a_panic_is_reported_and_the_thread_lives_on() {
    with_members(4, |member, _| {
        let members = nodes(4);
        for (act, code) in [(Act::Panic, Code::Panic), (Act::Fault, Code::Fault)] {
            let handle = member.start(&call(&members, &header(Node(3), act))).unwrap();
            let Err(WaitError::Failed(failure)) = member.wait(handle, LONG) else { panic!("a call that should fail") };
            assert_eq!((failure.records[0].origin, failure.records[0].code), (Node(3), code));
            assert_eq!(sum(member, &members), 6);
        }
    });
}

#[test]
fn s12_a_pending_function_lets_other_calls_go_on() {
    with_members(4, |member, _| {
        let members = nodes(4);
        let slow = member.start(&call(&members, &header(Node(2), Act::Wait))).unwrap();
        assert!(!member.test(slow).unwrap());
        assert_eq!(sum(member, &members), 6);
        assert_eq!(member.wait(slow, LONG).unwrap().data, 6_u64.to_le_bytes());
    });
}

#[test]
fn s39_a_call_that_was_given_up_has_an_answer_at_once() {
    with_members(3, |member, _| {
        let members = nodes(3);
        let handle = member.start(&call(&members, &header(Node(2), Act::Wait))).unwrap();
        assert_eq!(member.wait(handle, Duration::ZERO), Err(WaitError::NotYet));
        member.cancel(handle).unwrap();
        let Err(WaitError::Failed(failure)) = member.wait(handle, Duration::ZERO) else {
            panic!("a call that was given up")
        };
        assert_eq!(failure.records[0].code, Code::Cancelled);
        assert_eq!(sum(member, &members), 3);
    });
}

#[test]
fn s47_calls_of_all_members_cross_and_end() {
    const MEMBERS: u16 = 6;
    let station = Station::create("crossing calls", Shape::new(MEMBERS)).unwrap();
    let (done, ready) = (AtomicU32::new(0), Barrier::new(usize::from(MEMBERS)));
    std::thread::scope(|scope| {
        for node in (0..u32::from(MEMBERS)).map(Node) {
            let (station, done, ready) = (&station, &done, &ready);
            scope.spawn(move || {
                let mut member = member(station, node, 16);
                ready.wait();
                for _ in 0..100 {
                    assert_eq!(sum(&mut member, &nodes(6)), 15);
                }
                done.fetch_add(1, Ordering::AcqRel);
                let all = member.serve_until(LONG, |_| done.load(Ordering::Acquire) == u32::from(MEMBERS));
                assert!(all, "{} members have made their calls", done.load(Ordering::Acquire));
            });
        }
    });
}

#[test]
fn s35_a_member_that_leaves_is_missed_by_name() {
    with_members(3, |first, station| {
        let spare = Station::create("another place", Shape::new(2)).unwrap();
        assert!(matches!(Member::join(station, Node(1)), Err(JoinError::Taken { node: Node(1), .. })));
        let other = member(&spare, Node(1), 2);
        let mut own = member(&spare, Node(0), 2);
        own.turn();
        drop(other);
        std::thread::sleep(Duration::from_millis(30));
        own.turn();
        assert_eq!(own.start(&call(&nodes(2), &[])).unwrap_err(), StartError::DeadId(Node(1)));
        // Somebody takes the seat, in another life.
        let mut other = member(&spare, Node(1), 2);
        let handle = own.start(&call(&nodes(2), &[])).unwrap();
        while !own.test(handle).unwrap() {
            other.turn();
        }
        assert_eq!(own.wait(handle, LONG).unwrap().data, 1_u64.to_le_bytes());
        assert_eq!(sum(first, &nodes(3)), 3);
    });
}

#[test]
fn s35_an_answer_counts_though_its_sender_has_left_since() {
    let station = Station::create("late answer", Shape::new(3)).unwrap();
    let mut first = member(&station, Node(0), 2);
    let mut second = member(&station, Node(1), 2);
    let handle = first.start(&call(&nodes(2), &[])).unwrap();
    second.turn();
    drop(second);
    // The death is seen while the answer lies in the inbox.
    assert_eq!(first.start(&call(&nodes(2), &[])).unwrap_err(), StartError::DeadId(Node(1)));
    assert_eq!(first.wait(handle, LONG).unwrap().data, 1_u64.to_le_bytes());
    // So it is with one who came, answered and left before anybody looked.
    let handle = first.start(&call(&[Node(2)], &[])).unwrap();
    let mut third = member(&station, Node(2), 2);
    third.turn();
    drop(third);
    assert_eq!(first.start(&call(&[Node(2)], &[])).unwrap_err(), StartError::DeadId(Node(2)));
    assert_eq!(first.wait(handle, LONG).unwrap().data, 2_u64.to_le_bytes());
}

#[test]
fn a_request_that_came_before_its_seat_was_taken_by_a_household_is_not_lost() {
    let station = Station::create("late household", Shape::new(3)).unwrap();
    let mut first = member(&station, Node(0), 2);
    // The first does not know yet who will sit at 2, and sends to the inbox there.
    let handle = first.start(&call(&nodes(3), &[])).unwrap();
    let mut second = member(&station, Node(1), 2);
    second.house(Node(2)).unwrap();
    let start = std::time::Instant::now();
    while !first.test(handle).unwrap() {
        second.turn();
        assert!(start.elapsed() < Duration::from_secs(9), "it takes until the deadline");
    }
    assert_eq!(first.wait(handle, LONG).unwrap().data, 3_u64.to_le_bytes());
}

#[test]
fn s31_all_failures_are_collected() {
    with_members(7, |member, _| {
        let members = nodes(7);
        let header = header(Node(5), Act::Fault);
        let collecting = umbra_core::chain::Call { mode: Mode::COLLECT, ..call(&members, &header) };
        let handle = member.start(&collecting).unwrap();
        let Err(WaitError::Failed(failure)) = member.wait(handle, LONG) else { panic!("a call that should fail") };
        assert_eq!((failure.tallies.ok, failure.tallies.failed), (6, 1));
        assert_eq!(
            failure.to_string(),
            "member 5, func: the function failed with 42; 6 ok, 1 failed, 0 not reached, 0 unknown"
        );
        let header = self::header(Node(1), Act::Fault);
        let handle = member.start(&Call { header: &header, ..collecting }).unwrap();
        let Err(WaitError::Failed(failure)) = member.wait(handle, LONG) else { panic!("a call that should fail") };
        assert_eq!(failure.unreached, [3, 4].map(Node), "{failure}");
        assert!(
            failure.to_string().ends_with("4 ok, 1 failed, 2 not reached, 0 unknown; not reached: 3, 4"),
            "{failure}"
        );
    });
}

#[test]
fn built_in_functions_combine_what_others_answer() {
    let station = Station::create("call combiners", Shape::new(5)).unwrap();
    let join = |node: Node| {
        let mut member = Member::join(&station, node).unwrap();
        member.serve_built_ins(0).unwrap();
        let numbers = move |work: &mut Work<'_>| {
            assert!(!matches!(work.phase, Phase::Wait(_)), "it is no callback");
            let numbers = [node.0 + 1, 10 - node.0].map(u32::to_le_bytes);
            if work.reply.set_data(numbers.as_flattened()).is_ok() { Verdict::Done } else { Verdict::Fault(1) }
        };
        member.register("numbers", numbers).unwrap();
        let half = |work: &mut Work<'_>| {
            if work.reply.set_data(&[1; 4]).is_ok() { Verdict::Done } else { Verdict::Fault(1) }
        };
        member.register("half", half).unwrap();
        member
    };
    let members = nodes(5);
    let mut all = Together(members.iter().copied().map(join).collect());
    let caps = Caps { header: 0, data: 40 };
    let numbers = Call { caps, ..Call::new(Tag::of("numbers"), &members) };
    let words = |numbers: &[u32]| numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>();
    for (operator, expected) in [
        (Operator::Sum, [15, 40]),
        (Operator::Min, [1, 6]),
        (Operator::Max, [5, 10]),
        (Operator::And, [0, 0]),
        (Operator::Or, [7, 15]),
    ] {
        // The function has the rest of the header.
        let named = reduction(operator, Number::U32);
        for header in [&named[..], &[&named[..], b"more"].concat()] {
            let reply = all.run(&Call { callback: Tag::of(REDUCE), header, ..numbers }).unwrap();
            assert_eq!(reply.data, words(&expected), "{operator:?}");
        }
    }
    // Half a number of eight bytes each.
    let halves = Call { callback: Tag::of(REDUCE), caps, ..Call::new(Tag::of("half"), &members) };
    let failure = all.run(&Call { header: &reduction(Operator::Sum, Number::U64), ..halves }).unwrap_err();
    assert_eq!((failure.records[0].stage, failure.records[0].code), (Stage::Callback, Code::Fault), "{failure}");
    let sums = all.run(&Call { callback: Tag::of(COUNT), ..numbers }).unwrap();
    assert_eq!(sums.data, words(&[15, 40]), "without a carry into the second one");
    let both = all.run(&Call { callback: Tag::of(GATHER), mode: Mode::ORDERED, ..numbers }).unwrap();
    // The maker, then 1 with 3 and 4 below it, then 2.
    assert_eq!(both.data, words(&[1, 10, 2, 9, 4, 7, 5, 6, 3, 8]));
    for header in [&[][..], &[1], &[9, 1, 0]] {
        let failure = all.run(&Call { callback: Tag::of(REDUCE), header, ..numbers }).unwrap_err();
        let record = failure.records[0];
        assert_eq!((record.stage, record.code), (Stage::Callback, Code::Fault), "{failure}");
    }
    // The built-in function itself has nothing else to find in its header.
    let own = Call { func: Tag::of(REDUCE), callback: Tag::of(REDUCE), header: &[1, 1, 0], ..numbers };
    let record = all.run(&own).unwrap_err().records[0];
    assert_eq!((record.stage, record.aux), (Stage::Func, Why::NoOperation as u32));
}

#[test]
fn a_member_that_takes_nothing_out_of_its_inbox_keeps_nobody_from_serving_others() {
    let station = Station::create("a full inbox", Shape { messages: 4, ..Shape::new(3) }).unwrap();
    let mut first = member(&station, Node(0), 64);
    let mut second = member(&station, Node(1), 64);
    let mut stopped = member(&station, Node(2), 64);
    let short = umbra_core::time::Lapse::from_millis(300);
    let lost: Vec<_> = (0..30)
        .map(|_| first.start(&umbra_core::chain::Call { budget: short, ..call(&[Node(2)], &[]) }).unwrap())
        .collect();
    // Calls between the others go on meanwhile.
    let handle = second.start(&call(&nodes(2), &[])).unwrap();
    while !second.test(handle).unwrap() {
        first.turn();
    }
    assert_eq!(second.wait(handle, LONG).unwrap().data, 1_u64.to_le_bytes());
    for handle in lost {
        let Err(WaitError::Failed(failure)) = first.wait(handle, LONG) else { panic!("2 has taken nothing") };
        assert_eq!(failure.records[0].origin, Node(2));
        assert!(matches!(failure.records[0].code, Code::Timeout | Code::NoResource), "{failure}");
    }
    // It goes on, and what it was sent in vain does not disturb it.
    let handle = first.start(&call(&[Node(2)], &[])).unwrap();
    while !first.test(handle).unwrap() {
        stopped.turn();
    }
    assert_eq!(first.wait(handle, LONG).unwrap().data, 2_u64.to_le_bytes());
}

/// Ranks below a leader, one of which is busy until all others have answered.
#[test]
fn ranks_below_a_leader_have_one_turn_a_call_and_others_are_gathered_while_one_computes() {
    const ROUNDS: u32 = 10;
    for ranks in [2, 8, 32] {
        let station = Station::create("ranks below a leader", Shape::new(ranks + 1)).unwrap();
        let (over, ready) = (AtomicBool::new(false), Barrier::new(usize::from(ranks) + 1));
        // Answers that the leader has combined in all calls.
        let gathered = Arc::new(AtomicU32::new(0));
        let join = |node| {
            let mut member = member(&station, node, 4);
            let (gathered, mut round) = (Arc::clone(&gathered), 0);
            let rank = move |work: &mut Work<'_>| match work.phase {
                Phase::Wait(_) => {
                    gathered.fetch_add(1, Ordering::AcqRel);
                    Verdict::Done
                }
                _ if work.node == Node(1) => {
                    let others = round * u32::from(ranks) + u32::from(ranks) - 1;
                    round += 1;
                    let end = Instant::now() + LONG;
                    while gathered.load(Ordering::Acquire) < others && Instant::now() < end {
                        std::thread::yield_now();
                    }
                    Verdict::Done
                }
                _ => Verdict::Done,
            };
            member.register("rank", rank).unwrap();
            member
        };
        std::thread::scope(|scope| {
            for node in (1..=u32::from(ranks)).map(Node) {
                let (join, over, ready) = (&join, &over, &ready);
                scope.spawn(move || {
                    let mut member = join(node);
                    ready.wait();
                    let (mut wakes, mut before) = (0, *member.figures());
                    member.serve_until(LONG * 2, |member| {
                        wakes += u32::from(*member.figures() != before);
                        before = *member.figures();
                        over.load(Ordering::Acquire)
                    });
                    assert_eq!((wakes, before.runs), (ROUNDS, ROUNDS.into()), "turns of {node} with something to do");
                });
            }
            let mut leader = join(Node(0));
            ready.wait();
            let (members, rank) = (nodes(u32::from(ranks) + 1), Tag::of("rank"));
            let call = Call { plan: Plan::Shape(tree::Shape::FLAT), ..call(&members, &[]) };
            let call = Call { func: rank, callback: rank, ..call };
            let done = (0..ROUNDS).map(|_| leader.start(&call).map(|handle| leader.wait(handle, LONG)));
            let done: Vec<_> = done.collect();
            over.store(true, Ordering::Release);
            assert!(done.iter().all(|done| matches!(done, Ok(Ok(_)))), "{done:?}");
        });
        assert_eq!(gathered.load(Ordering::Acquire), ROUNDS * u32::from(ranks));
    }
}
