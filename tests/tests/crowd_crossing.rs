//! Calls that cross, over threads and over processes.
//!
//! Places are bounded, and there is no circle of waits. Numbers are as in the list of scenarios; `chain_crossing` has
//! them in the simulator, and `chain_lanes` bounds how long an answer waits.
//!
//! `UMBRA_CHAIN_ROUNDS` is how often everybody calls everybody (default 150; the full form takes 1000),
//! `UMBRA_CHAIN_SOAK` how many calls are made one after the other (default 6000; the full form takes 1000000).
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use umbra::call::Shape as Place;
use umbra_core::chain::{Call, Code, Data, Stage};
use umbra_core::time::Lapse;
use umbra_tests::crowd::member::spoilt;
use umbra_tests::crowd::{Act, Crowd, Driver, HOLD, LONG, Making, Room, Script, What, sum_over};

umbra_tests::on_every_driver!(
    s47_calls_of_all_members_cross_and_end,
    s48_answers_of_32_calls_of_one_maker_are_not_mixed,
    s49_opposite_lists_end_with_a_place_a_depth,
    s49_the_same_lists_wait_in_a_circle_with_one_place_for_all,
    s50_good_calls_do_not_suffer_from_bad_ones,
    s51_calls_end_while_bulk_goes_to_and_fro,
    s51_an_answer_is_combined_before_the_functions_and_bulk_that_wait,
    s52_user_code_is_never_nested_while_messages_come_in,
    s53_a_full_table_refuses_and_all_calls_end,
    s54_a_place_that_is_held_for_ever_starves_until_the_deadline_and_is_named,
    s56_thousands_of_calls_one_after_the_other_need_no_more_places_than_one,
);

static NONE: Script = Script(Vec::new());

fn number(name: &str, default: u32) -> u32 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

fn place(members: u16) -> Place {
    Place { message_bytes: 16 << 10, messages: 64, ..Place::new(members) }
}

/// Stage and code as members note them.
const fn aux(stage: Stage, code: Code) -> u32 {
    (stage as u32) << 8 | code as u32
}

fn s47_calls_of_all_members_cross_and_end(driver: Driver) {
    const MEMBERS: u32 = 16;
    let rounds = number("UMBRA_CHAIN_ROUNDS", 150);
    // Places for all calls of all members, and one place a depth.
    for (calls, classes) in [(64, 0), (8, 8)] {
        let mut crowd = Crowd::with(driver, place(MEMBERS as u16), |_| Room { calls, classes, ..Room::USUAL });
        let making = Making { open: 2, ..Making::new(rounds, 0..MEMBERS) };
        for node in 1..MEMBERS {
            crowd.make(node, &making);
        }
        crowd.first.make(&making);
        let traces = crowd.settle();
        // That each sum was right is looked at where it was made.
        let done: Vec<_> = (0..MEMBERS).map(|node| (node, MEMBERS, 0, rounds)).collect();
        assert_eq!(traces.all(What::Done).collect::<Vec<_>>(), done);
        assert_eq!(traces.count(What::Began), MEMBERS * MEMBERS * rounds);
        assert_eq!(traces.count(What::Combined), (MEMBERS - 1) * MEMBERS * rounds);
        if classes == 0 {
            assert_eq!(traces.figure(0), 0, "enough places refuse nobody");
        }
    }
    println!("{MEMBERS} members, each with each: {rounds} rounds: all sums are right");
}

fn s48_answers_of_32_calls_of_one_maker_are_not_mixed(driver: Driver) {
    let mut crowd = Crowd::new(driver, 8);
    let all = crowd.all();
    // What began first ends last, at one of them at least.
    let script = |number: u32| Script::new().everybody(Act::Add(number)).func(7, Act::Slow(32 - number));
    let handles: Vec<_> =
        (0..32).map(|number| crowd.first.member.start(&sum_over(&all, &script(number))).unwrap()).collect();
    for (number, handle) in (0..).zip(handles) {
        let expected: u64 = 28 + 8 * number;
        assert_eq!(crowd.end(handle, &all).unwrap().data, expected.to_le_bytes());
    }
    assert_eq!(crowd.settle().began().len(), 32 * 8);
}

/// Three members that call each other crosswise and hold a place at home before they ask for one elsewhere; how those calls ended.
fn opposite(crowd: &mut Crowd, millis: u32) -> Vec<(u32, What, u32)> {
    for (maker, list) in [(1, [2, 3]), (2, [3, 1]), (3, [1, 2])] {
        let script = Script::new().func(maker, Act::Slow(1500));
        crowd.make(maker, &Making { millis, script, ..Making::new(1, list) });
    }
    let traces = crowd.settle();
    let done = traces.all(What::Done).map(|(node, _, aux, _)| (node, What::Done, aux));
    done.chain(traces.all(What::Failed).map(|(node, _, aux, _)| (node, What::Failed, aux))).collect()
}

fn s49_opposite_lists_end_with_a_place_a_depth(driver: Driver) {
    let mut crowd = Crowd::with(driver, place(4), |_| Room { calls: 2, classes: 2, ..Room::USUAL });
    for _ in 0..2 {
        assert_eq!(opposite(&mut crowd, 30_000), [1, 2, 3].map(|node| (node, What::Done, 0)));
    }
}

fn s49_the_same_lists_wait_in_a_circle_with_one_place_for_all(driver: Driver) {
    let calls = |node| if node == 0 { 8 } else { 1 };
    let mut crowd = Crowd::with(driver, place(4), |node| Room { calls: calls(node), classes: 0, ..Room::USUAL });
    let ends = opposite(&mut crowd, 6000);
    assert_eq!(ends.len(), 3);
    let starved = |code| aux(Stage::Forward, code);
    // Each waits for somebody who waits for it, until the first of them gives up; who was begun much later has time left then.
    let failed: Vec<_> = ends.into_iter().filter(|&(_, what, _)| what == What::Failed).collect();
    assert!(!failed.is_empty(), "nobody waits in a circle");
    for (node, _, how) in failed {
        assert!([starved(Code::NoResource), starved(Code::Timeout)].contains(&how), "{node}: {how:x}");
    }
    let all = crowd.all();
    assert_eq!(crowd.sum(&all), 6, "its places are free again");
    crowd.settle();
}

fn s50_good_calls_do_not_suffer_from_bad_ones(driver: Driver) {
    const MEMBERS: u32 = 8;
    const ROUNDS: u32 = 60;
    let mut crowd = Crowd::new(driver, MEMBERS as u16);
    // Every third call fails, in the function of somebody or in the callback of its maker.
    let making = Making { spoil: 3, open: 3, ..Making::new(ROUNDS, 0..MEMBERS) };
    for node in 1..MEMBERS {
        crowd.make(node, &making);
    }
    crowd.first.make(&making);
    let traces = crowd.settle();
    let good: Vec<_> = (0..MEMBERS).map(|node| (node, MEMBERS, 0, ROUNDS - ROUNDS / 3)).collect();
    assert_eq!(traces.all(What::Done).collect::<Vec<_>>(), good);
    let mut bad = BTreeMap::new();
    for maker in 0..MEMBERS {
        for round in (2..ROUNDS).step_by(3) {
            let (origin, func) = spoilt(maker, round, MEMBERS);
            let stage = if func { Stage::Func } else { Stage::Callback };
            *bad.entry((maker, origin, aux(stage, Code::Fault))).or_insert(0) += 1;
        }
    }
    let found: BTreeMap<_, _> =
        traces.all(What::Failed).map(|(maker, origin, aux, count)| ((maker, origin, aux), count)).collect();
    assert_eq!(found, bad);
    assert_eq!(traces.count(What::Refused), 0);
}

fn s51_calls_end_while_bulk_goes_to_and_fro(driver: Driver) {
    let mut crowd = Crowd::new(driver, 8);
    let all = crowd.all();
    for node in 1..8 {
        crowd.make(node, &Making { open: 4, ..Making::new(200, 0..8) });
    }
    let bulk = vec![7; 12 << 10];
    let mut longest = Duration::ZERO;
    for _ in 0..50 {
        let call = Call { data: Data::Bytes(&bulk), budget: Lapse::from_secs(30), ..Call::new(HOLD, &all) };
        let handles = [0; 8].map(|_| crowd.first.member.start(&call).unwrap());
        let begun = Instant::now();
        assert_eq!(crowd.sum(&all), 28);
        longest = longest.max(begun.elapsed());
        for handle in handles {
            assert_eq!(crowd.end(handle, &all).unwrap().members, 8);
        }
    }
    assert!(longest < LONG / 3, "{longest:?}");
    let traces = crowd.settle();
    assert_eq!(traces.all(What::Done).map(|(.., count)| count).collect::<Vec<_>>(), [200; 7]);
    let whole = |(_, len, _, count): (u32, u32, u32, u32)| (len, count) == (12 << 10, 400);
    assert!(traces.all(What::Data).all(whole) && traces.all(What::Data).count() == 8);
}

fn s51_an_answer_is_combined_before_the_functions_and_bulk_that_wait(driver: Driver) {
    const ROUNDS: usize = 200;
    let mut crowd = Crowd::new(driver, 8);
    for node in 2..8 {
        crowd.make(node, &Making { open: 4, bulk: 8 << 10, ..Making::new(u32::MAX, [0]) });
    }
    let (pair, mut before, mut most) = (crowd.all(), Vec::new(), 0);
    while before.len() < ROUNDS {
        let handle = crowd.first.member.start(&sum_over(&pair[..2], &NONE)).unwrap();
        // Meanwhile everybody else asks for a function here, and the answer comes in among that.
        std::thread::sleep(Duration::from_millis(2));
        loop {
            let (runs, callback) = crowd.first.turn();
            most = most.max(runs);
            if let Some(callback) = callback {
                before.push(callback);
                break;
            }
        }
        assert_eq!(crowd.end(handle, &pair[..2]).unwrap().data, 1_u64.to_le_bytes());
    }
    assert!(most > 10, "much was to be done in a turn: {most}");
    // The scenario wants ten of 99 in a hundred.
    assert!(before.iter().all(|&runs| runs < 10), "{before:?}");
}

fn s52_user_code_is_never_nested_while_messages_come_in(driver: Driver) {
    let mut crowd = Crowd::new(driver, 7);
    let all = crowd.all();
    // Functions that do not give way, so that requests and answers of many calls come while they run.
    let script = Script::new().func(1, Act::Block(5)).func(4, Act::Block(5));
    for node in [2, 5] {
        crowd.make(node, &Making { open: 8, ..Making::new(40, 0..7) });
    }
    let handles = [0; 16].map(|_| crowd.first.member.start(&sum_over(&all, &script)).unwrap());
    for handle in handles {
        assert_eq!(crowd.end(handle, &all).unwrap().data, 21_u64.to_le_bytes());
    }
    // Settling fails if user code ran while other user code of the same member did.
    let traces = crowd.settle();
    assert_eq!(traces.count(What::Began), (16 + 80) * 7);
    assert!(traces.0[&1].peak > 1, "several calls were under way at once");
}

fn s53_a_full_table_refuses_and_all_calls_end(driver: Driver) {
    const MAKERS: u32 = 10;
    // Forty calls at once for four places and one more that is kept for the other depth.
    let last = MAKERS + 1;
    let room = |node| Room { calls: if node == last { 5 } else { 16 }, classes: 2, ..Room::USUAL };
    let mut crowd = Crowd::with(driver, place(last as u16 + 1), room);
    let script = Script::new().func(last, Act::Slow(2));
    for node in 1..=MAKERS {
        crowd.make(node, &Making { open: 4, script: script.clone(), ..Making::new(12, [last]) });
    }
    let traces = crowd.settle();
    let done: Vec<_> = (1..=MAKERS).map(|node| (node, 2, 0, 12)).collect();
    assert_eq!(traces.all(What::Done).collect::<Vec<_>>(), done);
    let full = &traces.0[&last];
    assert!(full.figures[0] > 0 && full.peak <= 5, "{full:?}");
}

fn s54_a_place_that_is_held_for_ever_starves_until_the_deadline_and_is_named(driver: Driver) {
    let mut crowd = Crowd::with(driver, place(3), |node| Room { calls: if node == 2 { 1 } else { 16 }, ..Room::USUAL });
    let (hangs, members) = (Script::new().func(2, Act::Hang), [crowd.all()[2]]);
    let holds = Call { budget: Lapse::from_secs(10), ..sum_over(&members, &hangs) };
    let holds = crowd.first.member.start(&holds).unwrap();
    // Until it has the place.
    crowd.first.serve(Duration::from_millis(1000), || false);
    crowd.make(1, &Making { millis: 3000, ..Making::new(1, [2]) });
    crowd.until(1, What::Failed);
    let failure = crowd.end(holds, &members).unwrap_err();
    assert_eq!((failure.records[0].origin, failure.records[0].code), (members[0], Code::Timeout));
    let starved: Vec<_> = crowd.settle().all(What::Failed).collect();
    // Who is late itself says that instead.
    let how = [Code::NoResource, Code::Timeout].map(|code| [(1, 2, aux(Stage::Forward, code), 1)]);
    assert!(how.iter().any(|how| starved == how), "{starved:x?}");
    assert_eq!(crowd.sum(&members), 2);
}

fn s56_thousands_of_calls_one_after_the_other_need_no_more_places_than_one(driver: Driver) {
    let mut crowd = Crowd::with(driver, place(2), |_| Room { calls: 2, classes: 2, ..Room::USUAL });
    let rounds = number("UMBRA_CHAIN_SOAK", 6000);
    for half in [rounds / 2, rounds - rounds / 2] {
        crowd.first.make(&Making::new(half, 0..2));
        crowd.make(1, &Making::new(half, 0..2));
        let traces = crowd.settle();
        assert_eq!(traces.all(What::Done).collect::<Vec<_>>(), [(0, 2, 0, half), (1, 2, 0, half)]);
        assert!(traces.0.values().all(|trace| trace.peak <= 2 && trace.figures[2] == 0), "{traces:?}");
    }
    println!("{rounds} calls: one after the other, of each of two members");
}
