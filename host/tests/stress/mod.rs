//! What tests of many threads share.
//!
//! They go on for rounds until all that can happen did, by chance that can be repeated.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::time::Duration;

use umbra_core::atomic::{AtomicU64, Ordering};

/// Rounds in which anything happens that can.
const MOST_ROUNDS: u64 = 200;

/// Asks for so many operations of each test, instead of those that it does usually.
const OPERATIONS: &str = "UMBRA_STRESS_OPERATIONS";

/// How much a test does: so much usually, and less under ThreadSanitizer, which takes its time.
pub(crate) fn operations(usual: u64, sanitized: u64) -> u64 {
    let asked = std::env::var(OPERATIONS).ok().and_then(|count| count.parse().ok());
    asked.unwrap_or(if std::env::var_os("TSAN_OPTIONS").is_some() { sanitized } else { usual })
}

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

    /// Counts what others counted, too.
    pub(crate) fn add(&self, other: &Counts) {
        for (own, theirs) in self.each().into_iter().zip(other.each()) {
            own.fetch_add(theirs.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    fn each(&self) -> [&AtomicU64; 5] {
        [&self.operations, &self.loads, &self.expired, &self.interrupted, &self.deaths]
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
