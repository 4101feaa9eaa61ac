//! How long to wait, how, and looking after the dead meanwhile.

use std::time::Duration;

use umbra_core::atomic::{AtomicU64, Ordering};
use umbra_core::channel::Patience;
use umbra_core::event::{SPIN, Wait};
use umbra_core::time::{Lapse, Time};

use super::error::Error;
use super::layout::{Pocket, View};
use crate::sys::clock;
use crate::sys::futex::Futex;

/// How long an operation may wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Timeout {
    /// One try; its failure says in which state the channel is.
    Now,
    /// So long in all; then the failure is [`Error::Timeout`].
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
/// How often one of those who wait, or try again and again, asks whether all members live.
const PATROL: Lapse = Lapse::from_millis(200);

/// Waits by futex, and buries the dead now and then: something may not happen because somebody died.
#[derive(Debug)]
pub(crate) struct Patrol<V>(V);

/// What can be looked at by several processes, of which some may die.
pub(crate) trait Shared {
    /// When one of them looked after the dead last, on its [clock](clock::now).
    fn patrolled(&self) -> &AtomicU64;
    /// When this one did.
    fn looked(&self) -> Option<&AtomicU64>;
    /// Takes back what the dead held; how many they were.
    fn bury_dead(&self) -> usize;
}

pub(super) type Watch<'a> = Patrol<View<'a>>;

impl<'a> Watch<'a> {
    /// Waiting in this mode, which is idle for those who would be one spinner too many; `counted` ends with it.
    pub(super) fn patience(&self, mode: WaitMode, deadline: Time) -> (Patience, Option<Spinning<'a>>) {
        patience(mode, deadline, || self.spinner())
    }

    /// Where this process counts its waits that spin, if they are not as many as there may be.
    pub(super) fn spinner(&self) -> Option<&'a AtomicU64> {
        let view = &self.0;
        view.frame.spinner(view.me, Pocket::Spinners as usize, view.max_spinners())
    }

    /// The error of one who gives up: the state that he found at his one try, or that his time is over. He looks after the dead
    /// before he goes, for he may come again and again, and never stay long enough to do it.
    #[cold]
    pub(super) fn late(&self, error: Error, timeout: Timeout) -> Error {
        if matches!(error, Error::Full | Error::Empty | Error::Timeout | Error::NotReceived | Error::BarrierTryAgain) {
            self.patrol();
        }
        if matches!(error, Error::Full | Error::Empty) && timeout != Timeout::Now { Error::Timeout } else { error }
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
        Patrol(view)
    }

    /// What it looks after.
    pub(crate) const fn view(&self) -> &V {
        &self.0
    }

    /// Buries the dead, if it is time again and nobody else did.
    pub(crate) fn patrol(&self) {
        self.patrol_at(clock::now());
    }

    pub(crate) fn patrol_at(&self, now: Time) {
        if self.is_turn(now) {
            self.0.bury_dead();
        }
    }

    /// Whether it is this one who looks now, of all who wait. Who is stopped or killed over it is in nobody's way: the next
    /// turn is another's.
    fn is_turn(&self, now: Time) -> bool {
        let (patrolled, looked) = (self.0.patrolled(), self.0.looked());
        let last = patrolled.load(Ordering::Relaxed);
        // A time far ahead was written on another clock, or by nobody who looked. Where there are several clocks, as in
        // containers with their own, each of them finds those of the others: then its own last time holds a process back.
        let is_long_ago = |time: u64| now.0.abs_diff(time) >= PATROL.0;
        let is_turn = is_long_ago(last)
            && looked.is_none_or(|looked| is_long_ago(looked.load(Ordering::Relaxed)))
            && patrolled.compare_exchange(last, now.0, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if is_turn && let Some(looked) = looked {
            looked.store(now.0, Ordering::Relaxed);
        }
        is_turn
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

#[cfg(test)]
mod tests {
    use super::*;

    /// How many looked, and when the last one did.
    #[derive(Default)]
    struct Place {
        patrolled: AtomicU64,
        looks: AtomicU64,
    }

    impl Shared for &Place {
        fn patrolled(&self) -> &AtomicU64 {
            &self.patrolled
        }
        fn looked(&self) -> Option<&AtomicU64> {
            None
        }
        fn bury_dead(&self) -> usize {
            self.looks.fetch_add(1, Ordering::Relaxed);
            0
        }
    }

    /// One of those who use it.
    struct Process<'p>(&'p Place, AtomicU64);

    impl Shared for Process<'_> {
        fn patrolled(&self) -> &AtomicU64 {
            &self.0.patrolled
        }
        fn looked(&self) -> Option<&AtomicU64> {
            Some(&self.1)
        }
        fn bury_dead(&self) -> usize {
            self.0.bury_dead()
        }
    }

    const SLICE: Lapse = umbra_core::event::SLICE;
    const BOUND: Lapse = Lapse(PATROL.0 + SLICE.0);
    const HOUR: Time = Time(Lapse::from_secs(3600).0);

    /// Lets so many wait for ten seconds, of which those stop who looked so often; the longest time without a look.
    fn wait(place: &Place, waiters: u64, stops_after: u64) -> Lapse {
        let mut waiting: Vec<_> = (0..waiters).map(|_| (Patrol::new(place), 0)).collect();
        let (mut last, mut longest) = (HOUR, Lapse(0));
        for step in 0..200 * waiters {
            // They sleep for a slice each, and wake one after the other.
            let now = HOUR + Lapse(step * SLICE.0 / waiters);
            let before = place.looks.load(Ordering::Relaxed);
            let (patrol, looked) = &mut waiting[(step % waiters) as usize];
            if *looked < stops_after {
                patrol.patrol_at(now);
            }
            if place.looks.load(Ordering::Relaxed) > before {
                *looked += 1;
                (longest, last) = (longest.max(now.since(last)), now);
            }
        }
        longest.max((HOUR + Lapse::from_secs(10)).since(last))
    }

    #[test]
    fn however_many_wait_one_looks_after_the_dead_each_time() {
        for waiters in [1, 2, 7, 100, 1000] {
            let place = Place::default();
            assert!(wait(&place, waiters, u64::MAX) <= BOUND, "{waiters}");
            assert!((39..=50).contains(&place.looks.into_inner()), "{waiters}");
        }
    }

    #[test]
    fn who_is_stopped_while_he_looks_costs_one_turn() {
        assert!(wait(&Place::default(), 100, 1) <= BOUND);
    }

    #[test]
    fn a_time_of_another_clock_holds_nobody_up() {
        for strange in [0, 1, HOUR.0 + 2 * PATROL.0, u64::MAX] {
            let place = Place { patrolled: AtomicU64::new(strange), ..Place::default() };
            assert!(wait(&place, 3, u64::MAX) <= BOUND, "{strange}");
        }
    }

    #[test]
    fn of_processes_on_different_clocks_each_looks_after_the_dead_in_its_own_time() {
        let place = Place::default();
        let clocks = [1, 2, 3].map(|clock| (HOUR.0 * clock, Patrol::new(Process(&place, AtomicU64::new(0)))));
        for slice in 0..200 {
            clocks.iter().for_each(|(ahead, patrol)| patrol.patrol_at(Time(ahead + slice * SLICE.0)));
        }
        assert_eq!(place.looks.into_inner(), 3 * 50);
    }

    #[test]
    fn however_short_the_waits_one_looks_after_the_dead_each_time() {
        let place = Place::default();
        (0..200).for_each(|slice| Patrol::new(&place).patrol_at(HOUR + Lapse(slice * SLICE.0)));
        assert_eq!(place.looks.into_inner(), 50);
    }
}
