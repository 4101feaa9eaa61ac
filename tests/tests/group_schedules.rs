//! Very many random schedules, all safe and live (spec 2.7, S1 to S5, L1 to L3).
//!
//! `UMBRA_SCHEDULES` sets how many run in all, `UMBRA_SEED` runs a single one of each kind.
#![allow(clippy::unwrap_used, reason = "helpers of tests may fail like tests")]

use std::sync::atomic::{AtomicU64, Ordering};

use umbra_tests::schedule::{Tally, Trouble, run};

/// Explores as many schedules of a kind as `share` percent of all.
fn explore(trouble: Trouble, share: u64) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    if let Some(seed) = number("UMBRA_SEED") {
        let tally = run(seed, trouble);
        assert!(tally.is_ok(), "{}", tally.unwrap_err());
        return;
    }
    let count = number("UMBRA_SCHEDULES").unwrap_or(600) * share / 100;
    let next = AtomicU64::new(0);
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let results: Vec<_> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    let mut tally = Tally::default();
                    loop {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if seed >= count {
                            return Ok(tally);
                        }
                        match run(seed, trouble) {
                            Ok(more) => tally += more,
                            Err(wrong) => {
                                next.store(count, Ordering::Relaxed);
                                return Err(wrong);
                            }
                        }
                    }
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join()).collect()
    });
    let mut tally = Tally::default();
    for result in results {
        match result {
            Ok(Ok(more)) => tally += more,
            Ok(Err(wrong)) => panic!("{wrong}"),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
    println!("{trouble:?}: {tally}");
    assert_eq!(tally.schedules, count);
    assert!(tally.ready > count, "schedules that exercise nothing prove nothing");
}

#[test]
fn calm_schedules_end_full() {
    explore(Trouble::Calm, 10);
}

#[test]
fn schedules_with_a_bad_network_end_full() {
    explore(Trouble::Network, 60);
}

#[test]
fn schedules_with_deaths_leave_nobody_waiting() {
    explore(Trouble::Deaths, 30);
}
