//! How long to wait, how, and looking after the dead meanwhile.

use std::time::Duration;

use umbra_core::atomic::{AtomicU64, Ordering};
use umbra_core::channel::Patience;
use umbra_core::event::{SPIN, Wait};
use umbra_core::time::{Lapse, Time};

use super::layout::{Pocket, View};
use crate::sys::clock;
use crate::sys::futex::Futex;

/// How long an operation may wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Timeout {
    /// One try; its failure says in which state the channel is.
    Now,
    /// So long in all; then the failure is [`Error::Timeout`](super::Error::Timeout).
    After(Duration),
    /// Until it happens.
    #[default]
    Never,
}

/// Zero is one try.
impl From<Duration> for Timeout {
    fn from(duration: Duration) -> Self {
        if duration.is_zero() { Timeout::Now } else { Timeout::After(duration) }
    }
}

impl Timeout {
    pub(crate) fn deadline(self) -> Time {
        match self {
            Timeout::Now => Time::ZERO,
            Timeout::After(duration) => clock::now() + Lapse(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)),
            Timeout::Never => Time::NEVER,
        }
    }

    /// What is left of it until the deadline that it began with.
    pub(crate) fn rest(self, deadline: Time) -> Timeout {
        match self {
            Timeout::After(_) => Timeout::After(Duration::from_nanos(deadline.since(clock::now()).0)),
            Timeout::Now | Timeout::Never => self,
        }
    }
}

/// How to wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WaitMode {
    /// Sleep at once: no processor is used.
    Idle,
    /// Never sleep: the shortest delay, and a whole processor.
    Spin,
    /// Look again and again for about two microseconds, then sleep.
    #[default]
    Adaptive,
}

/// Looks of an adaptive wait before it sleeps.
pub(crate) const ADAPTIVE: u32 = 200;
/// How often somebody who waits asks whether the others live.
const PATROL: Lapse = Lapse::from_millis(200);

/// Waits by futex, and buries the dead now and then: something may not happen because somebody died.
#[derive(Debug)]
pub(crate) struct Patrol<V> {
    view: V,
    next: AtomicU64,
}

/// What can be looked at by several processes, of which some may die.
pub(crate) trait Shared {
    /// Takes back what the dead held; how many they were.
    fn bury_dead(&self) -> usize;
}

pub(super) type Watch<'a> = Patrol<View<'a>>;

impl<'a> Watch<'a> {
    /// Waiting in this mode, which is idle for those who would be one spinner too many; `counted` ends with it.
    pub(super) fn patience(&self, mode: WaitMode, deadline: Time) -> (Patience, Option<Spinning<'a>>) {
        let view = &self.view;
        patience(mode, deadline, || view.frame.spinner(view.me, Pocket::Spinners as usize, view.max_spinners()))
    }
}

/// Waiting in a mode, which is idle for those who find no word to count them in as spinners; `counted` ends with it.
pub(crate) fn patience<'a>(
    mode: WaitMode,
    deadline: Time,
    spinner: impl FnOnce() -> Option<&'a AtomicU64>,
) -> (Patience, Option<Spinning<'a>>) {
    let (spins, counted) = match mode {
        WaitMode::Idle => (0, None),
        WaitMode::Adaptive => (ADAPTIVE, None),
        WaitMode::Spin => spinner().map_or((0, None), |word| (SPIN, Some(Spinning::count(word)))),
    };
    (Patience { spins, deadline }, counted)
}

impl<V: Shared> Patrol<V> {
    pub(crate) const fn new(view: V) -> Self {
        Patrol { view, next: AtomicU64::new(0) }
    }

    /// Buries the dead, if it is time again.
    pub(crate) fn patrol(&self) {
        let now = clock::now();
        let next = self.next.load(Ordering::Relaxed);
        if now.0 >= next {
            self.next.store((now + PATROL).0, Ordering::Relaxed);
            // The first look only sets the time: who waits for less need not ask.
            if next != 0 {
                self.view.bury_dead();
            }
        }
    }
}

/// A mark in the pocket of this process, which goes with this.
#[derive(Debug)]
pub(crate) struct Spinning<'a>(&'a AtomicU64);

impl<'a> Spinning<'a> {
    pub(crate) fn count(word: &'a AtomicU64) -> Spinning<'a> {
        word.fetch_add(1, Ordering::Relaxed);
        Spinning(word)
    }
}

impl Drop for Spinning<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<V: Shared> Wait for Patrol<V> {
    #[inline]
    fn now(&self) -> Time {
        clock::now()
    }
    fn sleep(&self, word: &AtomicU64, seen: u32, until: Time) {
        Futex.sleep(word, seen, until);
        self.patrol();
    }
    #[inline]
    fn wake(&self, word: &AtomicU64) {
        Futex.wake(word);
    }
    fn pause(&self) {
        Futex.pause();
        self.patrol();
    }
}
