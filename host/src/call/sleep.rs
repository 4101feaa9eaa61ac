//! How a member waits while there is nothing to do.
//!
//! It looks, gives way, and then sleeps until a message comes or something is due.

use std::cell::Cell;

use umbra_core::atomic::{AtomicU64, Ordering, spin_hint};
use umbra_core::event::Wait;
use umbra_core::time::Time;

use super::local::Within;
use super::member::{Member, PROBE};
use crate::sys::clock::now;
use crate::sys::futex::Futex;

/// Looks at the inbox before the first sleep, one after the other, and then with others' turns in between.
const SPINS: u32 = 100;
const YIELDS: u32 = 64;

/// How often a member has slept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sleeps {
    /// Sleeps in the kernel, whatever ended them.
    pub all: u64,
    /// Times that a message, or whoever has calls made by [`Progress`](super::Progress), has ended its sleep.
    pub woken: u64,
}

/// Sleeps, and counts how often.
#[derive(Debug, Default)]
struct Counted(Cell<u64>);

impl Wait for Counted {
    fn now(&self) -> Time {
        Futex.now()
    }

    fn sleep(&self, word: &AtomicU64, seen: u32, until: Time) {
        self.0.set(self.0.get() + 1);
        Futex.sleep(word, seen, until);
    }

    fn wake(&self, word: &AtomicU64) {
        Futex.wake(word);
    }
}

impl Member {
    /// How often it has slept so far.
    #[must_use]
    pub const fn sleeps(&self) -> Sleeps {
        self.sleeps
    }

    /// Whether nothing but a message, or the time, can give a member something to do that has just had its turn.
    pub(super) fn only_waits(&self) -> bool {
        self.held.is_none() && self.outbox.is_empty() && self.within.is_empty() && !self.replies.are_waiting()
    }

    /// Waits for a message, until something is due and at most until `end`. It is `at`; the time afterwards.
    pub(super) fn sleep(&mut self, mut at: Time, end: Time) -> Time {
        let Ok(inbox) = self.station.inbox(self.node) else { return at };
        let until = [end, self.look_at, self.probe_at, self.machine.deadline().unwrap_or(Time::NEVER)];
        let mut until = until.into_iter().min().unwrap_or(end);
        if !self.outbox.is_empty()
            || self.held.is_some()
            || self.replies.are_waiting()
            || self.within.iter().any(Within::wishes)
        {
            until = until.min(at + PROBE);
        }
        let rings = || self.bell.as_ref().is_some_and(|bell| bell.load(Ordering::Acquire) != 0);
        let look = || (!inbox.queue().is_empty() || rings() || self.misses_somebody()).then_some(());
        // Whoever sleeps is woken late: first whoever shares this processor has his turn. What came since the last look goes first.
        let spins = self.crowd.spins(SPINS);
        let came = (0..spins.max(1)).any(|_| {
            let came = look().is_some();
            if !came {
                spin_hint();
            }
            came
        });
        if spins > 0 {
            at = now();
        }
        if came {
            return at;
        }
        for _ in 0..YIELDS {
            at = self.crowd.give_way(at);
            if look().is_some() {
                return at;
            }
        }
        let slept = Counted::default();
        let came = inbox.queue().published().wait(&slept, 0, until, look).is_some();
        let slept = slept.0.get();
        self.sleeps.all += slept;
        self.sleeps.woken += u64::from(came && slept > 0);
        now()
    }
}
