//! One failure at every stage, over threads and over processes.
//!
//! The exact origin is told, the account adds up, and no place stays taken. Numbers are as in the list of scenarios;
//! `chain_failures` has them in the simulator.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::time::Instant;

use umbra::call::{Failure, Shape as Place, WaitError};
use umbra::pool::{Attributes, Pool};
use umbra_core::chain::{Call, Code, Data, Mode, Node, Stage, Tallies};
use umbra_tests::chain::check::{origins, tallies};
use umbra_tests::crowd::{Act, Crowd, Driver, LONG, RARE, Room, Script, What, sum_over};

umbra_tests::on_every_driver!(
    s20_an_unknown_function,
    s21_a_member_with_less_room,
    s21_a_member_that_takes_headers_half_as_long,
    s23_a_function_that_fails,
    s24_the_maker_s_own_function_fails,
    s25_a_panic_is_reported_and_its_member_lives_on,
    s26_a_member_that_cannot_be_reached,
    s26_a_member_whose_inbox_takes_nothing,
    s27_a_callback_that_fails,
    s28_a_reply_that_is_too_large,
    s29_a_reply_whose_memory_is_freed_before_the_end_is_written_nowhere,
    s30_of_two_failures_one_is_reported,
    s31_all_failures_are_collected,
    s32_answers_of_a_failed_call_never_count_for_the_next,
);

static NONE: Script = Script(Vec::new());
/// The sum of 15 members.
const SUM: [u8; 8] = 105_u64.to_le_bytes();

fn collecting<'a>(members: &'a [Node], script: &'a Script) -> Call<'a> {
    Call { mode: Mode::COLLECT, ..sum_over(members, script) }
}

fn only(failure: &Failure) -> (u32, Stage, Code, u32) {
    let [record] = failure.records[..] else { panic!("{failure}") };
    (record.origin.0, record.stage, record.code, record.aux)
}

/// A call over everybody ends well, and nothing is left.
fn goes_on(crowd: &mut Crowd) {
    let all = crowd.all();
    assert_eq!(crowd.sum(&all), 105);
    crowd.settle();
}

fn s20_an_unknown_function(driver: Driver) {
    let place = Place { message_bytes: 16 << 10, ..Place::new(15) };
    let mut crowd = Crowd::with(driver, place, |node| Room { lacks: node == 4, ..Room::USUAL });
    let all = crowd.all();
    for mode in [Mode::empty(), Mode::COLLECT] {
        let failure = crowd.run(&Call { func: RARE, mode, ..sum_over(&all, &NONE) }).unwrap_err();
        assert_eq!(only(&failure), (4, Stage::Setup, Code::UnknownFunc, RARE.0));
        assert!(failure.tallies.unreached >= 2, "{failure}");
        assert_eq!(failure.unreached, [9, 10].map(Node), "{failure}");
        let began = crowd.settle().began();
        assert!(![4, 9, 10].iter().any(|node| began.contains(node)), "{began:?}");
        if mode == Mode::COLLECT {
            assert_eq!((failure.tallies, began.len()), (tallies(12, 1, 2, 0), 12));
        }
    }
    goes_on(&mut crowd);
}

fn s21_a_member_with_less_room(driver: Driver) {
    let place = Place { message_bytes: 32 << 10, ..Place::new(15) };
    let call_bytes = |node| if node == 4 { 12 << 10 } else { 24 << 10 };
    let mut crowd = Crowd::with(driver, place, |node| Room { call_bytes: call_bytes(node), ..Room::USUAL });
    let (all, data) = (crowd.all(), vec![1; 16 << 10]);
    let failure = crowd.run(&Call { data: Data::Bytes(&data), ..collecting(&all, &NONE) }).unwrap_err();
    let (origin, stage, code, needed) = only(&failure);
    assert_eq!((origin, stage, code, failure.tallies), (4, Stage::Setup, Code::TooLarge, tallies(12, 1, 2, 0)));
    assert!(needed > 16 << 10, "as many bytes as it would take: {needed}");
    assert!(!crowd.settle().began().contains(&4));
    goes_on(&mut crowd);
}

fn s21_a_member_that_takes_headers_half_as_long(driver: Driver) {
    let place = Place { message_bytes: 16 << 10, ..Place::new(15) };
    let header_max = |node| if node == 4 { 512 } else { 1024 };
    let mut crowd = Crowd::with(driver, place, |node| Room { header_max: header_max(node), ..Room::USUAL });
    // What the script does not know it leaves alone.
    let (all, long) = (crowd.all(), [0; 1024]);
    let failure = crowd.run(&Call { header: &long, ..collecting(&all, &NONE) }).unwrap_err();
    assert_eq!((only(&failure), failure.tallies), ((4, Stage::Setup, Code::TooLarge, 1024), tallies(12, 1, 2, 0)));
    let began = crowd.settle().began();
    assert!(![4, 9, 10].iter().any(|node| began.contains(node)), "{began:?}");
    assert_eq!(crowd.run(&Call { header: &long[..512], ..sum_over(&all, &NONE) }).unwrap().data, SUM);
    goes_on(&mut crowd);
}

fn s23_a_function_that_fails(driver: Driver) {
    let mut crowd = Crowd::new(driver, 15);
    let all = crowd.all();
    // The other half is late, so nobody waits for it any more when it answers.
    let script = Script::new().func(5, Act::Fault(42)).func(1, Act::Slow(400));
    for (mode, below) in [(Mode::empty(), 0), (Mode::CUT_THROUGH, 2)] {
        let late = crowd.settle().figure(2);
        let failure = crowd.run(&Call { mode, ..sum_over(&all, &script) }).unwrap_err();
        assert_eq!(only(&failure), (5, Stage::Func, Code::Fault, 42));
        assert!(failure.tallies.failed == 1 && failure.tallies.unreached >= 2 - below, "{failure}");
        assert_eq!(failure.unreached, if below == 0 { vec![Node(11), Node(12)] } else { Vec::new() }, "{failure}");
        let traces = crowd.settle();
        let began = traces.began();
        assert_eq!(began.iter().filter(|&&node| [11, 12].contains(&node)).count() as u32, below);
        assert!([1, 3, 4, 7, 8, 9, 10].iter().all(|node| began.contains(node)), "others end as usual: {began:?}");
        assert_eq!((traces.combined(1), traces.combined(0).contains(&1)), (vec![3, 4], false));
        assert!(traces.figure(2) > late, "the answer that came too late is dropped and counted");
    }
    goes_on(&mut crowd);
}

fn s24_the_maker_s_own_function_fails(driver: Driver) {
    let mut crowd = Crowd::new(driver, 15);
    let (all, script) = (crowd.all(), Script::new().func(0, Act::Fault(7)));
    let before = crowd.first.member.figures().requests;
    let failure = crowd.run(&sum_over(&all, &script)).unwrap_err();
    assert_eq!((only(&failure), failure.tallies), ((0, Stage::Func, Code::Fault, 7), tallies(0, 1, 14, 0)));
    assert_eq!(crowd.first.member.figures().requests, before, "no message was sent");
    assert_eq!(crowd.settle().began(), [0]);
    goes_on(&mut crowd);
}

fn s25_a_panic_is_reported_and_its_member_lives_on(driver: Driver) {
    let mut crowd = Crowd::new(driver, 15);
    let all = crowd.all();
    for script in [Script::new().func(6, Act::Panic), Script::new().callback(6, 13, Act::Panic)] {
        let in_func = script == Script::new().func(6, Act::Panic);
        let (stage, aux) = if in_func { (Stage::Func, 0) } else { (Stage::Callback, 13) };
        let failure = crowd.run(&collecting(&all, &script)).unwrap_err();
        assert_eq!(only(&failure), (6, stage, Code::Panic, aux));
        goes_on(&mut crowd);
    }
}

fn s26_a_member_that_cannot_be_reached(driver: Driver) {
    let mut crowd = Crowd::new(driver, 15);
    // While the maker is busy with its own function 6 goes, and 2 sees that before it has to send anything there.
    let (all, script) = (crowd.all(), Script::new().func(0, Act::Slow(1000)));
    let handle = crowd.first.member.start(&collecting(&all, &script)).unwrap();
    crowd.kill(6);
    let failure = crowd.end(handle, &all).unwrap_err();
    assert_eq!((only(&failure), failure.records[0].depth), ((6, Stage::Forward, Code::PeerDead, 0), 1), "as 2 says");
    assert_eq!(failure.tallies, tallies(12, 1, 2, 0));
    let began = crowd.settle().began();
    assert!(!began.contains(&13) && !began.contains(&14), "{began:?}");
    crowd.again(6);
    goes_on(&mut crowd);
}

fn s26_a_member_whose_inbox_takes_nothing(driver: Driver) {
    let mut crowd = Crowd::new(driver, 15);
    let all = crowd.all();
    let damaged = crowd.damage_inbox(6);
    let begun = Instant::now();
    for mode in [Mode::empty(), Mode::COLLECT] {
        let failure = crowd.run(&Call { mode, ..sum_over(&all, &NONE) }).unwrap_err();
        assert_eq!(
            (only(&failure), failure.records[0].depth),
            ((6, Stage::Forward, Code::Transport, 0), 1),
            "as 2 says"
        );
        if mode == Mode::COLLECT {
            assert_eq!(failure.tallies, tallies(12, 1, 2, 0));
        }
    }
    assert!(begun.elapsed() < LONG / 2, "nobody waits for the deadline");
    damaged.repair();
    let began = crowd.settle().began();
    assert!(![6, 13, 14].iter().any(|node| began.contains(node)), "{began:?}");
    goes_on(&mut crowd);
}

fn s27_a_callback_that_fails(driver: Driver) {
    let mut crowd = Crowd::new(driver, 15);
    let all = crowd.all();
    // The answer of 4 comes later.
    let script = Script::new().callback(1, 3, Act::Fault(77)).func(4, Act::Slow(400));
    let failure = crowd.run(&sum_over(&all, &script)).unwrap_err();
    assert_eq!(only(&failure), (1, Stage::Callback, Code::Fault, 3), "the child is named");
    let traces = crowd.settle();
    assert_eq!(traces.combined(1), [3], "the answer of 4 is ignored");
    let usual = (true, vec![9, 10]);
    assert_eq!((traces.began().contains(&4), traces.combined(4)), usual, "4 and those below it: {failure}, {traces:?}");
    goes_on(&mut crowd);
}

fn s28_a_reply_that_is_too_large(driver: Driver) {
    let mut crowd = Crowd::new(driver, 15);
    let all = crowd.all();
    let script = Script::new().func(13, Act::Excess(9000));
    let failure = crowd.run(&collecting(&all, &script)).unwrap_err();
    assert_eq!(only(&failure), (13, Stage::Reply, Code::ReplyTooLarge, 9000));
    assert_eq!(failure.tallies, tallies(14, 1, 0, 0));
    goes_on(&mut crowd);
}

/// The reply of a call is to lie in a pool. Somebody else who has that frees the memory while a member computes, and data of his own
/// lies there at once.
fn s29_a_reply_whose_memory_is_freed_before_the_end_is_written_nowhere(driver: Driver) {
    const ALL: usize = 4096;
    let mut crowd = Crowd::new(driver, 15);
    let (all, slow) = (crowd.all(), Script::new().func(9, Act::Slow(1000)));
    let attributes = Attributes { bytes: ALL as u64, uid: umbra::uid::draw().unwrap(), ..Attributes::default() };
    let ours = Pool::create(None, &attributes).unwrap();
    let theirs = Pool::attach_reference(&ours.reference().unwrap()).unwrap();
    for freed in [true, false, true] {
        let into = ours.alloc(ALL as u64, 0).unwrap();
        into.write(0, &[0xa5; ALL]).unwrap();
        let handle = crowd.first.member.start(&sum_over(&all, &slow)).unwrap();
        crowd.until(9, What::Began);
        assert!(!crowd.first.member.test(handle).unwrap(), "9 computes");
        let next = freed.then(|| {
            theirs.allocation(into.id()).unwrap().free().unwrap();
            let next = theirs.alloc(ALL as u64, 0).unwrap();
            next.write(0, &[0x5a; ALL]).unwrap();
            next
        });
        let delivered = crowd.first.member.deliver(handle, LONG, &into);
        let mut there = vec![0; ALL];
        match next {
            Some(next) => {
                let Err(WaitError::Failed(failure)) = delivered else { panic!("{delivered:?}") };
                assert_eq!(
                    (only(&failure), failure.tallies),
                    ((0, Stage::Deliver, Code::MemoryGone, 0), tallies(14, 1, 0, 0))
                );
                next.read(0, &mut there).unwrap();
                assert_eq!(there, [0x5a; ALL], "no byte was written");
                next.free().unwrap();
            }
            None => {
                assert_eq!(delivered.unwrap().len, 8);
                into.read(0, &mut there).unwrap();
                assert_eq!(there, [SUM.as_slice(), &[0xa5; ALL - 8]].concat());
                into.free().unwrap();
            }
        }
        assert_eq!(crowd.settle().began().len(), 15, "everybody has run it");
    }
    goes_on(&mut crowd);
}

fn s30_of_two_failures_one_is_reported(driver: Driver) {
    let mut crowd = Crowd::new(driver, 15);
    let all = crowd.all();
    let script = Script::new().func(5, Act::Fault(5)).func(6, Act::Fault(6));
    for _ in 0..20 {
        let failure = crowd.run(&sum_over(&all, &script)).unwrap_err();
        let (origin, stage, code, aux) = only(&failure);
        assert_eq!((stage, code, aux), (Stage::Func, Code::Fault, origin));
        assert!([5, 6].contains(&origin), "{failure}");
        assert_eq!(failure.tallies.failed, 1, "{failure}");
    }
    assert!(crowd.settle().combined(2).is_empty(), "2 has no good answer to combine");
    goes_on(&mut crowd);
}

fn s31_all_failures_are_collected(driver: Driver) {
    let mut crowd = Crowd::new(driver, 15);
    let all = crowd.all();
    let script = [3, 5, 14].into_iter().fold(Script::new(), |script, node| script.func(node, Act::Fault(node)));
    let failure = crowd.run(&collecting(&all, &script)).unwrap_err();
    let mut from = origins(&failure.records);
    from.sort_unstable_by_key(|record| record.0);
    assert_eq!(from, [3, 5, 14].map(|node| (node, Stage::Func, Code::Fault)));
    assert_eq!(failure.tallies, Tallies { ok: 8, failed: 3, unreached: 4, unknown: 0 });
    assert_eq!(failure.unreached, [7, 8, 11, 12].map(Node));
    assert!(failure.to_string().ends_with("4 not reached, 0 unknown; not reached: 7, 8, 11, 12"), "{failure}");
    let traces = crowd.settle();
    assert_eq!(traces.began(), [0, 1, 2, 3, 4, 5, 6, 9, 10, 13, 14], "not those below 3 and 5");
    // Whoever has only good answers below combines them.
    assert_eq!((traces.combined(4), traces.combined(6)), (vec![9, 10], vec![13]));
    goes_on(&mut crowd);
}

fn s32_answers_of_a_failed_call_never_count_for_the_next(driver: Driver) {
    let mut crowd = Crowd::new(driver, 15);
    let all = crowd.all();
    // The other half answers while the next call is under way, and counts for much more.
    let script = Script::new().func(1, Act::Fault(1)).func(2, Act::Slow(100)).everybody(Act::Add(1000));
    let dropped = crowd.first.member.figures().stale;
    for _ in 0..5 {
        assert_eq!(only(&crowd.run(&sum_over(&all, &script)).unwrap_err()).0, 1);
        let slow = Script::new().func(9, Act::Slow(300));
        assert_eq!(crowd.run(&sum_over(&all, &slow)).unwrap().data, SUM);
    }
    assert!(crowd.first.member.figures().stale > dropped, "old answers came, and were dropped");
    let began = crowd.settle().count(What::Began);
    // All took part in the five good calls, and in the others whoever is not below 1.
    assert_eq!(began, 5 * (15 + 9));
    goes_on(&mut crowd);
}
