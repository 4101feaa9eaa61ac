//! Time, death and cancellation, over threads and over processes.
//!
//! A thread that dies leaves its seat between two turns. Numbers are as in the list of scenarios; `chain_time` has them
//! in the simulator, `call_processes` kills processes inside user code.
//!
//! `UMBRA_CHAIN_BELOW` is how many are stopped by a failure beside them (default 40; the full form takes 200, alone on
//! the machine).
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::time::{Duration, Instant};

use rustix::process::Signal;
use umbra::call::{Failure, Shape as Place};
use umbra::sim::Random;
use umbra_core::chain::{Call, Code, Mode, Plan, Stage};
use umbra_core::time::Lapse;
use umbra_core::tree::explicit::ROOT;
use umbra_tests::chain::check::{origins, tallies};
use umbra_tests::crowd::{Act, Crowd, Driver, Making, Room, Script, What, sum_over};

umbra_tests::on_every_driver!(
    s33_every_leaf_that_hangs_is_named_and_not_its_parents,
    s34_slow_is_not_dead,
    s34_slow_is_not_dead_where_members_ask,
    s36_a_dead_interior_member_leaves_no_place_taken,
    s36_a_member_that_came_again_is_not_taken_for_dead,
    s37_a_dead_maker_frees_all_places,
    s38_another_life_of_the_maker_is_not_its_earlier_one,
    s39_a_call_can_be_given_up_at_any_moment,
    s40_a_failure_stops_those_who_have_not_begun,
);

static NONE: Script = Script(Vec::new());

/// A machine that stands still for longer than a level keeps for reports has somebody else named: a scenario that lives from
/// that time may be tried again.
fn within_three(mut attempt: impl FnMut() -> Result<(), Failure>) {
    let wrong: Vec<_> = (0..3).map_while(|_| attempt().err()).collect();
    assert!(wrong.len() < 3, "{wrong:?}");
}

fn s33_every_leaf_that_hangs_is_named_and_not_its_parents(driver: Driver) {
    let mut crowd = Crowd::new(driver, 31);
    let (all, budget) = (crowd.all(), Lapse::from_secs(5));
    within_three(|| {
        // All at once: a leaf hangs in its own call only.
        let begun = Instant::now();
        let hanging = (15..31).map(|leaf| {
            let script = Script::new().func(leaf, Act::Hang);
            (leaf, crowd.first.member.start(&Call { budget, ..sum_over(&all, &script) }).unwrap())
        });
        let mut wrong = Ok(());
        for (leaf, handle) in hanging.collect::<Vec<_>>() {
            let failure = crowd.end(handle, &all).unwrap_err();
            let [record] = failure.records[..] else { panic!("{failure}") };
            assert_eq!(record.code, Code::Timeout, "{failure}");
            if record.origin.0 != leaf || !matches!(record.stage, Stage::Func | Stage::Child) {
                wrong = Err(failure);
            }
        }
        let took = begun.elapsed();
        assert!((Duration::from_secs(4)..Duration::from_secs(25)).contains(&took), "{took:?}");
        wrong
    });
    crowd.settle();
    assert_eq!(crowd.sum(&all), 465);
}

fn s34_slow_is_not_dead(driver: Driver) {
    let mut crowd = Crowd::new(driver, 7);
    let all = crowd.all();
    // Nine tenths of the time.
    let slow = Script::new().func(5, Act::Slow(4500));
    within_three(|| {
        crowd.settle();
        let reply = crowd.run(&Call { budget: Lapse::from_secs(5), ..sum_over(&all, &slow) })?;
        assert_eq!(reply.data, 21_u64.to_le_bytes());
        let traces = crowd.settle();
        assert_eq!((traces.began().len(), traces.count(What::Combined)), (7, 6));
        Ok(())
    });
}

/// Seven members that ask for a sign of life all the time, and miss one after two seconds.
fn asking(driver: Driver) -> Crowd {
    let place = Place { message_bytes: 16 << 10, messages: 64, ..Place::new(7) };
    Crowd::with(driver, place, |_| Room { silence: 2000, ..Room::USUAL })
}

fn s34_slow_is_not_dead_where_members_ask(driver: Driver) {
    let mut crowd = asking(driver);
    let all = crowd.all();
    // Far longer than the silence of one that is dead.
    let slow = Script::new().func(5, Act::Slow(4500));
    within_three(|| {
        crowd.settle();
        let reply = crowd.run(&Call { budget: Lapse::from_secs(30), ..sum_over(&all, &slow) })?;
        assert_eq!(reply.data, 21_u64.to_le_bytes());
        let traces = crowd.settle();
        assert_eq!((traces.began().len(), traces.count(What::Combined)), (7, 6));
        assert!(traces.figure(4) > 50, "the leaf says that it lives");
        Ok(())
    });
}

#[test]
fn s35_a_process_that_is_stopped_is_found_by_its_silence_long_before_the_deadline() {
    let mut crowd = asking(Driver::Processes(env!("CARGO_BIN_EXE_call-member")));
    let all = crowd.all();
    within_three(|| {
        crowd.signal(5, Signal::STOP);
        let begun = Instant::now();
        let ended = crowd.run(&Call { budget: Lapse::from_secs(60), ..sum_over(&all, &NONE) });
        crowd.signal(5, Signal::CONT);
        let (failure, took) = (ended.unwrap_err(), begun.elapsed());
        crowd.settle();
        if origins(&failure.records) != [(5, Stage::Child, Code::Timeout)] {
            return Err(failure);
        }
        assert!((Duration::from_secs(2)..Duration::from_secs(15)).contains(&took), "{took:?}");
        Ok(())
    });
    assert_eq!(crowd.sum(&all), 21, "it goes on");
}

fn s36_a_dead_interior_member_leaves_no_place_taken(driver: Driver) {
    let mut crowd = Crowd::new(driver, 15);
    let (all, slow) = (crowd.all(), Script::new().func(13, Act::Slow(2000)));
    let begun = Instant::now();
    let handle = crowd.first.member.start(&Call { mode: Mode::COLLECT, ..sum_over(&all, &slow) }).unwrap();
    crowd.until(13, What::Began);
    crowd.kill(2);
    let failure = crowd.end(handle, &all).unwrap_err();
    assert_eq!(origins(&failure.records), [(2, Stage::Child, Code::PeerDead)]);
    assert_eq!(failure.tallies, tallies(8, 1, 0, 6));
    assert!(begun.elapsed() < Duration::from_secs(20), "nobody waits for the deadline");
    // Neither the children of the dead nor anybody else holds a place.
    crowd.settle();
    crowd.again(2);
    assert_eq!(crowd.sum(&all), 105);
    crowd.settle();
}

fn s36_a_member_that_came_again_is_not_taken_for_dead(driver: Driver) {
    let mut crowd = Crowd::new(driver, 7);
    let all = crowd.all();
    for _ in 0..5 {
        crowd.kill(5);
        // Until everybody has looked; then nobody looks for a while, for no call is under way.
        crowd.first.serve(Duration::from_millis(250), || false);
        crowd.again(5);
        assert_eq!(crowd.sum(&all), 21, "2 sends to 5 at once");
    }
    crowd.settle();
}

/// Has 1 make a call over everybody in which 6 hangs, and die in the middle of it; within two seconds the call is over.
fn die_as_maker(crowd: &mut Crowd) {
    let script = Script::new().func(6, Act::Hang);
    crowd.make(1, &Making { millis: 2000, script, ..Making::new(1, 0..7) });
    crowd.until(6, What::Began);
    crowd.kill(1);
}

fn s37_a_dead_maker_frees_all_places(driver: Driver) {
    let mut crowd = Crowd::new(driver, 7);
    die_as_maker(&mut crowd);
    let begun = Instant::now();
    // Whoever is below somebody who lives is told nothing, and waits until its time is over.
    crowd.settle();
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    let living: Vec<_> = crowd.all().into_iter().filter(|node| node.0 != 1).collect();
    assert_eq!(crowd.sum(&living), 20);
    crowd.settle();
}

fn s38_another_life_of_the_maker_is_not_its_earlier_one(driver: Driver) {
    let mut crowd = Crowd::new(driver, 7);
    for _ in 0..2 {
        die_as_maker(&mut crowd);
        crowd.again(1);
        // Its calls are numbered from the beginning again, and nobody takes them for those of its earlier life.
        crowd.make(1, &Making::new(5, 0..7));
        let traces = crowd.settle();
        assert_eq!(traces.all(What::Done).collect::<Vec<_>>(), [(1, 7, 0, 5)]);
        assert_eq!(traces.count(What::Failed), 0);
    }
    let all = crowd.all();
    assert_eq!(crowd.sum(&all), 21);
}

fn s39_a_call_can_be_given_up_at_any_moment(driver: Driver) {
    const ROUNDS: u32 = 500;
    let mut crowd = Crowd::new(driver, 7);
    let all = crowd.all();
    let (mut given_up, mut done) = (0, 0);
    let mut random = Random::new(39);
    for round in 0..ROUNDS {
        let mode = if round % 2 == 0 { Mode::COLLECT } else { Mode::CANCEL_ON_FAIL };
        let handle = crowd.first.member.start(&Call { mode, ..sum_over(&all, &NONE) }).unwrap();
        crowd.first.serve(Duration::from_micros(random.below(600 << (round % 6))), || false);
        crowd.first.member.cancel(handle).unwrap();
        match crowd.end(handle, &all) {
            Ok(reply) => {
                assert_eq!(reply.data, 21_u64.to_le_bytes());
                done += 1;
            }
            Err(failure) => {
                assert_eq!(origins(&failure.records), [(0, Stage::Cancelled, Code::Cancelled)]);
                given_up += 1;
            }
        }
    }
    assert!(given_up > 0 && done > 0 && given_up + done == ROUNDS);
    // None ran twice, and nothing is left: settling looks at both.
    let traces = crowd.settle();
    assert!(traces.count(What::Began) <= 7 * ROUNDS);
    assert_eq!(crowd.sum(&all), 21);
}

fn s40_a_failure_stops_those_who_have_not_begun(driver: Driver) {
    let below = std::env::var("UMBRA_CHAIN_BELOW").map_or(40, |text| text.parse().unwrap());
    let members: u32 = 3 + below;
    let place = Place { message_bytes: 8 << 10, messages: 16, ..Place::new(members as u16) };
    let mut crowd = Crowd::with(driver, place, |_| Room { calls: 16, ..Room::USUAL });
    let all = crowd.all();
    // 1 and 2 below the maker, all others below 2, in a tree of their own.
    let above = |at: u32| match at {
        0 => ROOT,
        1 | 2 => 0,
        other => 2 + (other - 3) / 2,
    };
    let parents: Vec<u32> = (0..members).map(above).collect();
    let script = Script::new().func(1, Act::Fault(1)).everybody(Act::Slow(300));
    let mode = Mode::COLLECT | Mode::CANCEL_ON_FAIL;
    let failure = crowd.run(&Call { plan: Plan::Parents(&parents), mode, ..sum_over(&all, &script) }).unwrap_err();
    assert_eq!(origins(&failure.records), [(1, Stage::Func, Code::Fault)]);
    assert_eq!((failure.tallies.failed, failure.tallies.unknown), (1, 0), "{failure}");
    assert!(failure.tallies.unreached > members / 2, "{failure}");
    let traces = crowd.settle();
    assert_eq!(traces.began().len() as u32, failure.tallies.ok + 1, "whoever began is counted: {failure}");
    assert!(traces.figure(1) > 0, "they were told");
    assert_eq!(crowd.sum(&all), u64::from(members * (members - 1) / 2));
    println!(
        "{below} members: {} were not reached by a request, or stopped before they began",
        failure.tallies.unreached
    );
}
