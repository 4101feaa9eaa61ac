//! Sleeping until something that others change is as one wants it.
//!
//! An [`EventCount`] is one word beside a lock-free structure. Who changes the structure notifies; while nobody
//! sleeps that costs one load. Who finds the structure not as he wants it announces himself, looks once more, and
//! sleeps. One of the two looks comes after the other side's store, so no change is slept through. How to sleep and
//! how to wake is behind [`Wait`]: a futex on a host, an event instruction in firmware.
//!
//! ```
//! use umbra_core::atomic::{AtomicU64, Ordering};
//! use umbra_core::event::{EventCount, SPIN, Wait};
//! use umbra_core::time::Time;
//! /// For one that polls: it never sleeps.
//! struct Polling;
//! impl Wait for Polling {
//!     fn now(&self) -> Time { Time::ZERO }
//!     fn sleep(&self, _: &AtomicU64, _: u32, _: Time) {}
//!     fn wake(&self, _: &AtomicU64) {}
//! }
//! let (word, full) = (AtomicU64::new(0), AtomicU64::new(0));
//! let event = EventCount::new(&word);
//! full.store(7, Ordering::Release);
//! event.notify(&Polling);
//! let look = || Some(full.load(Ordering::Acquire)).filter(|&value| value != 0);
//! assert_eq!(event.wait(&Polling, SPIN, Time::NEVER, look), Some(7));
//! ```
//!
//! Every notification wakes all sleepers, who look again. To wake only one would be wrong between processes: that one
//! may be stopped, or be killed before it acts, and the others would sleep on beside work that is there. Killed
//! sleepers leave nothing behind but an announcement, which costs the next notifier one wake; a notifier takes the
//! announcement back after his wake, so that one who is stopped in between leaves it to the next. If there is no next
//! one, the sleepers find out by themselves: nobody sleeps longer than [`SLICE`] without a look.
//!
//! The word: a sequence that grows with each wake (lower 32 bits, the half that sleepers compare), announcements ever
//! made (31 bits), and whether somebody may sleep (1 bit). Zero is its beginning, and any value is a valid one: damage
//! costs a wake or a slice of sleep, nothing else.
//!
//! *Cost*: [`EventCount::notify`] is a fence and a load while nobody sleeps; with a sleeper, two more atomic operations
//! and the wake.

use core::ops::ControlFlow;

use crate::atomic::{AtomicU64, Ordering, fence, spin_hint};
use crate::time::{Lapse, Time};

/// The longest sleep without a look.
pub const SLICE: Lapse = Lapse::from_millis(50);
/// As the number of looks before a sleep: never sleep.
pub const SPIN: u32 = u32::MAX;

/// Somebody may sleep.
const SLEEPERS: u64 = 1 << 63;
/// One announcement.
const ANNOUNCED: u64 = 1 << 32;
/// Attempts to announce; only damage makes more of them fail.
const ATTEMPTS: u32 = 1 << 16;
/// Looks between two glances at the clock.
const GLANCE: u32 = 64;

/// How to sleep and to wake on this platform.
pub trait Wait {
    /// Now, on the clock of the deadlines.
    fn now(&self) -> Time;

    /// Sleeps while the lower half of `word` is `seen`, until woken and at most until `until`. May return early. The
    /// comparison and the falling asleep are one step with respect to [`wake`](Self::wake).
    fn sleep(&self, word: &AtomicU64, seen: u32, until: Time);

    /// Wakes everybody who sleeps on `word`, in all processes.
    fn wake(&self, word: &AtomicU64);

    /// Lets others run for a moment; called now and then by one who spins.
    fn pause(&self) {
        spin_hint();
    }
}

impl<W: Wait + ?Sized> Wait for &W {
    fn now(&self) -> Time {
        (**self).now()
    }
    fn sleep(&self, word: &AtomicU64, seen: u32, until: Time) {
        (**self).sleep(word, seen, until);
    }
    fn wake(&self, word: &AtomicU64) {
        (**self).wake(word);
    }
    fn pause(&self) {
        (**self).pause();
    }
}

/// The word that sleepers and notifiers share; copies are cheap.
#[derive(Clone, Copy, Debug)]
pub struct EventCount<'a> {
    word: &'a AtomicU64,
}

impl<'a> EventCount<'a> {
    /// Uses this word, which begins as zero.
    #[must_use]
    pub const fn new(word: &'a AtomicU64) -> Self {
        EventCount { word }
    }

    /// Tells all waiters that something changed; call it after the change. True if it woke.
    #[inline]
    pub fn notify(&self, wait: &impl Wait) -> bool {
        // ORDERING: a full fence between the change and the load of the word; pairs with that of `announce`.
        fence(Ordering::SeqCst);
        self.notify_if_announced(wait)
    }

    /// As [`notify`](Self::notify), if the change was a read-modify-write of order `SeqCst`: saves the fence.
    #[inline]
    pub fn notify_after_swap(&self, wait: &impl Wait) -> bool {
        // ORDERING: the swap and this load, both sequentially consistent, stand for the fence. Loom does not know such
        // accesses, only fences.
        if cfg!(loom) {
            fence(Ordering::SeqCst);
        }
        self.notify_if_announced(wait)
    }

    #[inline]
    fn notify_if_announced(&self, wait: &impl Wait) -> bool {
        // ORDERING: sequentially consistent for `notify_after_swap`; free of charge where loads are ordered.
        let awaited = self.word.load(Ordering::SeqCst) & SLEEPERS != 0;
        if awaited {
            self.wake(wait);
        }
        awaited
    }

    #[cold]
    fn wake(&self, wait: &impl Wait) {
        // ORDERING: Relaxed, here and below: the change is published by its own store; this word only ends sleeps.
        // A sequence that begins anew adds an announcement that nobody made, which does no harm.
        let word = self.word.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        wait.wake(self.word);
        // Who announced himself before the sequence changed is awake by now; who did so later has changed the word.
        let _ = self.word.compare_exchange(word, word & !SLEEPERS, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// The word that sleepers compare the lower half of.
    #[must_use]
    pub const fn word(&self) -> &'a AtomicU64 {
        self.word
    }

    /// Announces a sleeper: the sequence to sleep on, after one more look. For one who waits for several events;
    /// otherwise [`wait`](Self::wait) does it all.
    #[must_use = "without a sleep the announcement only costs a wake"]
    pub fn announce(&self) -> u32 {
        let mut word = self.word.load(Ordering::Relaxed);
        for _ in 0..ATTEMPTS {
            let announced = word.wrapping_add(ANNOUNCED) | SLEEPERS;
            match self.word.compare_exchange_weak(word, announced, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => word = now,
            }
        }
        // ORDERING: a full fence between the announcement and the last look; pairs with the notifier's. Either our look
        // sees his change, or his load sees the announcement.
        fence(Ordering::SeqCst);
        word as u32
    }

    /// Whether somebody announced a sleep since the last wake.
    #[must_use]
    pub fn is_awaited(&self) -> bool {
        self.word.load(Ordering::Relaxed) & SLEEPERS != 0
    }

    /// Looks until `look` finds something, or until the deadline: then `None`. The first `spins` looks follow each other
    /// at once, the others wait for a notification; with [`SPIN`] all follow at once. There is at least one look, also
    /// if the deadline has passed.
    pub fn wait<T>(
        &self,
        wait: &impl Wait,
        spins: u32,
        deadline: Time,
        mut look: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        if let ControlFlow::Break(end) = spin(wait, spins, deadline, &mut look) {
            return end;
        }
        loop {
            let seen = self.announce();
            if let Some(found) = look() {
                return Some(found);
            }
            let now = wait.now();
            if now >= deadline {
                return None;
            }
            wait.sleep(self.word, seen, deadline.min(now + SLICE));
        }
    }
}

/// Looks without sleeping: how it ended, unless sleeping is next.
fn spin<T>(
    wait: &impl Wait,
    spins: u32,
    deadline: Time,
    look: &mut impl FnMut() -> Option<T>,
) -> ControlFlow<Option<T>> {
    let mut looks = 0_u32;
    while spins == SPIN || looks < spins {
        if let Some(found) = look() {
            return ControlFlow::Break(Some(found));
        }
        looks = looks.wrapping_add(1);
        if looks.is_multiple_of(GLANCE) || cfg!(loom) {
            if wait.now() >= deadline {
                return ControlFlow::Break(None);
            }
            wait.pause();
        } else {
            spin_hint();
        }
    }
    ControlFlow::Continue(())
}
