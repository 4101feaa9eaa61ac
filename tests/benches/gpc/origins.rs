//! G8: failures that are told as they happened, in simulated worlds.
//!
//! Random schedules, as many as the gate wants, judged by what was done to them; and small calls with one failure in
//! every order of what can happen. Functions run at most once in all of them, tallies add up, and no place stays taken.

use std::thread;

use umbra_tests::bench::{Direction, Report, Row};
use umbra_tests::chain::schedule::{self, Trouble};
use umbra_tests::chain::single;

/// Schedules in which something fails, a third of each kind.
const SCHEDULES: u64 = 1_000_000;
const KINDS: [Trouble; 3] = [Trouble::Faults, Trouble::Steps, Trouble::Deaths];
const HIGHER: Direction = Direction::HigherIsBetter;

/// Schedules that are told right, of all of them; what is wrong with the first other one is noted.
fn schedules(report: &Report) -> (u64, u64) {
    let each = SCHEDULES.div_ceil(KINDS.len() as u64);
    let threads = thread::available_parallelism().map_or(1, |count| count.get() as u64);
    // What threads have judged, and what they found wrong first.
    let judge = |first: u64, trouble: Trouble| {
        let (mut right, mut wrong) = (0, None);
        for seed in (first..each).step_by(threads as usize) {
            match schedule::run(seed, trouble) {
                Ok(_) => right += 1,
                Err(why) => wrong = wrong.or(Some(why)),
            }
        }
        (right, wrong)
    };
    let mut right = 0;
    for trouble in KINDS {
        thread::scope(|scope| {
            let all: Vec<_> = (0..threads).map(|first| scope.spawn(move || judge(first, trouble))).collect();
            for ended in all {
                let (good, wrong) = ended.join().expect("a schedule says what is wrong with it");
                right += good;
                wrong.iter().for_each(|why| report.note(why));
            }
        });
    }
    (right, each * KINDS.len() as u64)
}

/// Small calls whose failure is named in every order, of all of them.
fn orders(report: &Report) -> (u64, u64) {
    let all = [single::functions(), single::callbacks(), single::unknown(), single::unreachable()].concat();
    let (mut right, mut orders) = (0, 0);
    for single in &all {
        match single.every_order() {
            Ok(count) => (right, orders) = (right + 1, orders + count),
            Err(why) => report.note(why),
        }
    }
    report.note(format_args!("{right} calls of four members in {orders} orders"));
    (right, all.len() as u64)
}

/// A row of how many are right, of all of them.
fn row(report: &mut Report, case: &str, count: fn(&Report) -> (u64, u64)) {
    if report.wants(case) {
        let (right, all) = count(report);
        report.row(Row::new(case, right as f64, all as f64, "gate G8: all", "calls", HIGHER)).bar(1.0);
    }
}

pub(crate) fn rows(report: &mut Report) {
    row(report, "failures told as they happened, random schedules", schedules);
    row(report, "failures named in every order, 4 ids", orders);
}
