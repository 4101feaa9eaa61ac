//! Random schedules of chained calls, judged by what was done to them.
//!
//! The number of seeds of each kind is `UMBRA_CHAIN_SCHEDULES` (default 3000; the full form takes 250000), the first is
//! `UMBRA_CHAIN_SEED`: a failure names the seed that repeats it.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use umbra_tests::chain::Fates;
use umbra_tests::chain::schedule::{self, Tally, Trouble};

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// Whether the schedules are so many that all kinds of ends must be among them: one that is repeated has one.
fn are_many(all: &Tally) -> bool {
    all.schedules >= 100
}

fn schedules(trouble: Trouble) -> Tally {
    let (first, count) = (number("UMBRA_CHAIN_SEED", 0), number("UMBRA_CHAIN_SCHEDULES", 3000));
    let mut all = Tally::default();
    for seed in first..first + count {
        all += schedule::run(seed, trouble).unwrap_or_else(|wrong| panic!("{wrong}"));
    }
    println!("{trouble:?}: {all}");
    assert!(all.led > 0 && all.domains > 0 && all.roomy > 0 || !are_many(&all), "trees or places of one kind");
    assert!(all.listed > 0 && all.rewritten > 0 || !are_many(&all), "no call with the whole list or other headers");
    let Fates { read, copied, waited, .. } = all.fates;
    assert!(read > 0 && copied > 0 && waited > 0 || !are_many(&all), "long replies of one kind");
    all
}

#[test]
fn s43_calm_schedules_all_end_well() {
    let all = schedules(Trouble::Calm);
    assert!((all.done > 0 || !are_many(&all)) && all.failed == 0);
}

/// Many wait at one machine for the same place, and those who have stopped waiting took every turn.
#[test]
fn s43_a_place_that_comes_free_goes_to_somebody_who_waits_for_it() {
    let tally = schedule::run(235_795, Trouble::Calm).unwrap_or_else(|wrong| panic!("{wrong}"));
    assert_eq!((tally.done, tally.failed), (4, 0));
}

#[test]
fn s43_lost_repeated_and_reordered_messages_change_no_outcome() {
    let all = schedules(Trouble::Network);
    assert!((all.done > 0 || !are_many(&all)) && all.failed == 0);
}

#[test]
fn s50_failures_of_user_code_are_reported_and_leave_nothing_behind() {
    let all = schedules(Trouble::Faults);
    assert!(all.done > 0 && all.failed > 0 || !are_many(&all));
}

#[test]
fn g8_failures_of_every_step_are_reported_as_they_happened() {
    let all = schedules(Trouble::Steps);
    assert!(all.done > 0 && all.failed > 0 || !are_many(&all));
}

#[test]
fn s39_deaths_restarts_and_cancellations_leave_nothing_behind() {
    let all = schedules(Trouble::Deaths);
    assert!(all.done > 0 && all.failed > 0 && all.skipping > 0 || !are_many(&all));
}

/// A member dies while the request that its parent sends again is on the way, and comes back before that arrives.
#[test]
fn s38_a_request_for_a_life_that_is_over_is_not_run_in_the_next() {
    let tally = schedule::run(42_287, Trouble::Deaths).unwrap_or_else(|wrong| panic!("{wrong}"));
    assert_eq!(tally.failed, 1);
}

/// A report of several deaths is lost, asked for again, and was too long to be kept.
#[test]
fn s39_a_lost_answer_that_is_not_kept_is_named_as_such() {
    let tally = schedule::run(324_270, Trouble::Deaths).unwrap_or_else(|wrong| panic!("{wrong}"));
    assert!(tally.failed > 0);
}

/// A member is known to be dead, and somebody who lives passes on one of its last requests, the first of that life here.
#[test]
fn s38_whoever_is_dead_is_left_out_though_its_requests_are_passed_on() {
    for seed in [9_538, 9_951] {
        schedule::run(seed, Trouble::Deaths).unwrap_or_else(|wrong| panic!("{wrong}"));
    }
}

/// Answers said that their replies are kept for longer than the call may take.
#[test]
fn g8_a_long_reply_is_kept_until_the_time_of_the_call_is_over() {
    for (seed, trouble) in [(1, Trouble::Calm), (3, Trouble::Network), (21, Trouble::Faults), (6, Trouble::Deaths)] {
        schedule::run(seed, trouble).unwrap_or_else(|wrong| panic!("{wrong}"));
    }
}

/// Answers wait for one that does not come before the deadline, at one machine.
#[test]
fn g8_whoever_waits_with_answers_in_order_is_not_blamed() {
    schedule::run(42, Trouble::Faults).unwrap_or_else(|wrong| panic!("{wrong}"));
}

/// A member gets its place when those who hung in it have run out of time, and has none left to ask those below it.
#[test]
fn g8_whoever_has_no_time_left_asks_nobody() {
    for seed in [155_294, 263_145] {
        schedule::run(seed, Trouble::Faults).unwrap_or_else(|wrong| panic!("{wrong}"));
    }
}
