//! What tests of many threads share.
//!
//! They go on for rounds until all that can happen did, by chance that can be repeated.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::time::Duration;

use umbra_core::atomic::{AtomicU64, Ordering};

/// Rounds in which anything happens that can.
const MOST_ROUNDS: u64 = 200;

/// What threads counted.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) operations: AtomicU64,
    pub(crate) loads: AtomicU64,
    pub(crate) expired: AtomicU64,
    pub(crate) interrupted: AtomicU64,
    pub(crate) deaths: AtomicU64,
}

impl Counts {
    /// Whether all that can happen did.
    pub(crate) fn saw_all(&self) -> bool {
        [&self.loads, &self.expired, &self.interrupted, &self.deaths]
            .iter()
            .all(|count| count.load(Ordering::Relaxed) > 0)
    }

    /// Whether another round is due after so many: the fewest may do all operations before somebody died.
    pub(crate) fn go_on(&self, saw_all: bool, goal: u64, rounds: u64) -> bool {
        self.operations.load(Ordering::Relaxed) < goal || (!saw_all && rounds < MOST_ROUNDS)
    }
}

pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// A small generator of numbers, reproducible by its seed.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn throw(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    /// A wait that is over soon.
    pub(crate) fn brief(&mut self) -> Duration {
        Duration::from_micros(self.throw(40))
    }
}
