//! Which way messages to one rank go: through the caches, or past them.
//!
//! A long message goes past them: to take so many lines back from the receiver's cache takes longer. With a short one that
//! depends on whether the two processors share a cache. Nobody can ask for that, as a guest's processors move, so it is
//! measured (docs/benchmarks.md). Of every 8192 messages the first 128 are a trial, in runs of 32 that go one way and the other
//! in turn. Both sides count messages, so the reader of one knows which way it came. The middle half of a run is timed: the
//! caches have come to rest by then, and counts that differ by a few do no harm.
//!
//! Each rank times how long it packs a message to the other one and unpacks one from there, and not how long it waits. What
//! the other one takes to unpack is taken to be what it takes here. The least time a byte says which way is the faster: what
//! is slower was disturbed.
//!
//! *Cost*: outside of trials a few instructions a message.

use umbra_core::atomic::{AtomicU64, Ordering};
use umbra_core::time::{Lapse, Time};

use crate::sys::segment::Segment;

/// Bytes of payload from which on the next message goes past the caches.
pub(super) const LONG: u32 = 16 << 10;
/// After a message of less than this, which is a few lines, the next one goes through the caches.
const SHORT: u32 = 1 << 10;
/// Messages from one trial to the next.
const PERIOD: u32 = 8192;
/// Messages that go the same way in a trial.
const RUN: u32 = 32;
/// Runs of a trial; as many each way.
const RUNS: u32 = 4;
/// Messages at the beginning of a run, and as many at its end, that are not timed.
const REST: u32 = RUN / 4;

/// How a message goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Turn {
    /// As it was found to be the fastest.
    Usual,
    /// To try this way: whether past the caches, and whether it is timed.
    Trial { past: bool, timed: bool },
}

/// How the message of this number goes, if those around it are neither long nor of a few lines.
const fn turn(nth: u32) -> Turn {
    let at = nth % PERIOD;
    match at / RUN {
        run @ 0..RUNS if Segment::WRITES_PAST => {
            Turn::Trial { past: run % 2 == 1, timed: at % RUN >= REST && at % RUN < RUN - REST }
        }
        _ => Turn::Usual,
    }
}

fn is_tried(bytes: u32) -> bool {
    (SHORT..LONG).contains(&bytes)
}

/// Messages in one direction.
#[derive(Debug)]
struct Side {
    count: u32,
    /// Bytes of payload of the last one.
    last: u32,
    /// How the next one goes.
    turn: Turn,
    /// When its first values were moved, if it is timed; else 0.
    begun: AtomicU64,
    /// The least that a kibibyte took through the caches and past them, in nanoseconds.
    least: [Option<u64>; 2],
}

impl Side {
    const fn new() -> Side {
        Side { count: 0, last: 0, turn: Turn::Usual, begun: AtomicU64::new(0), least: [None; 2] }
    }

    /// Values are about to be moved.
    #[inline]
    fn begins(&self, now: impl FnOnce() -> Time) {
        if matches!(self.turn, Turn::Trial { timed: true, .. }) {
            self.begins_timed(now);
        }
    }

    #[cold]
    #[inline(never)]
    fn begins_timed(&self, now: impl FnOnce() -> Time) {
        // ORDERING: Relaxed, here and below: only the one that moves values looks at it.
        if self.begun.load(Ordering::Relaxed) == 0 {
            self.begun.store(now().0, Ordering::Relaxed);
        }
    }

    /// All values of a message of so many bytes were moved.
    #[inline]
    fn ends(&mut self, bytes: u32, now: impl FnOnce() -> Time) {
        if let Turn::Trial { past, timed: true } = self.turn {
            self.ends_timed(past, bytes, now);
        }
        (self.count, self.last) = (self.count.wrapping_add(1), bytes);
        self.turn = if is_tried(bytes) { turn(self.count) } else { Turn::Usual };
    }

    #[cold]
    #[inline(never)]
    fn ends_timed(&mut self, past: bool, bytes: u32, now: impl FnOnce() -> Time) {
        let begun = std::mem::take(self.begun.get_mut());
        if begun != 0 && is_tried(bytes) {
            let took: Lapse = now().since(Time(begun));
            let took = took.0.saturating_mul(1024) / u64::from(bytes);
            let least = &mut self.least[usize::from(past)];
            *least = Some(least.map_or(took, |least| least.min(took)));
        }
    }

    /// What a trial has found, one way and the other, if both were tried.
    fn found(&mut self) -> Option<[u64; 2]> {
        let [near, past] = std::mem::take(&mut self.least);
        Some([near?, past?])
    }
}

/// The way to one rank, and from there.
#[derive(Debug)]
pub(super) struct Way {
    to: Side,
    from: Side,
    /// How messages go that are neither long nor of a few lines.
    prefers_past: bool,
    /// How the next one to the rank goes.
    is_past: bool,
}

impl Way {
    pub(super) const fn new() -> Way {
        Way { to: Side::new(), from: Side::new(), prefers_past: false, is_past: false }
    }

    /// Whether the message that is being written goes past the caches.
    #[inline]
    pub(super) const fn is_past(&self) -> bool {
        self.is_past
    }

    /// Bytes of payload of the last message to the rank, which the next one probably has as well.
    pub(super) const fn wrote(&self) -> u32 {
        self.to.last
    }

    /// Values of a message are about to be written.
    #[inline]
    pub(super) fn writes(&self, now: impl FnOnce() -> Time) {
        self.to.begins(now);
    }

    /// A message was written, with so many bytes of payload.
    pub(super) fn has_written(&mut self, bytes: u32, now: impl FnOnce() -> Time) {
        self.to.ends(bytes, now);
        // Not with the last message of a trial: the rank's own last one is read after that.
        if self.to.count % PERIOD == RUN * RUNS + 1 {
            self.choose();
        }
        self.is_past = match (bytes, self.to.turn) {
            (_, Turn::Trial { past, .. }) => past,
            (LONG.., Turn::Usual) => true,
            (..SHORT, Turn::Usual) => false,
            (_, Turn::Usual) => self.prefers_past,
        };
    }

    fn choose(&mut self) {
        let [writes, reads] = [&mut self.to, &mut self.from].map(Side::found);
        if let (Some(writes), Some(reads)) = (writes, reads) {
            self.prefers_past = writes[1].saturating_add(reads[1]) < writes[0].saturating_add(reads[0]);
        }
    }

    /// Values of a message are about to be read.
    #[inline]
    pub(super) fn reads(&self, now: impl FnOnce() -> Time) {
        self.from.begins(now);
    }

    /// A message was read, and had so many bytes of payload.
    pub(super) fn has_read(&mut self, bytes: u32, now: impl FnOnce() -> Time) {
        self.from.ends(bytes, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a kibibyte takes to write and to read, through the caches and past them.
    type Pace = [[u64; 2]; 2];
    const SHARED: Pace = [[60, 90], [60, 95]];
    const APART: Pace = [[200, 90], [250, 160]];

    /// Two ranks that exchange messages.
    struct Pair {
        ways: [Way; 2],
        now: u64,
    }

    impl Pair {
        fn new() -> Pair {
            Pair { ways: [Way::new(), Way::new()], now: 1 }
        }

        /// A message of so many bytes each way, a kibibyte of which takes `more` time than its pace. Which way the first one went.
        fn exchange(&mut self, bytes: u32, pace: Pace, more: u64) -> bool {
            let past = self.ways.each_ref().map(Way::is_past);
            let took = |of: usize, past| u64::from(bytes) * (pace[of][usize::from(past)] + more) / 1024;
            for (way, past) in self.ways.iter_mut().zip(past) {
                // The second part begins later, which does not count.
                way.writes(|| Time(self.now));
                way.writes(|| Time(self.now + 1_000_000));
                self.now += took(0, past);
                way.has_written(bytes, || Time(self.now));
            }
            for (way, past) in self.ways.iter_mut().zip([past[1], past[0]]) {
                way.reads(|| Time(self.now));
                self.now += took(1, past);
                way.has_read(bytes, || Time(self.now));
            }
            past[0]
        }

        /// All messages up to the next trial; how the last of them went.
        fn period(&mut self, pace: Pace, bytes: impl Fn(u32) -> u32) -> bool {
            let mut last = false;
            for nth in 0..PERIOD {
                // Nearly all are disturbed, those past the caches less.
                let more = if nth % RUN == 20 { 0 } else { 500 + if last { 0 } else { 300 } };
                last = self.exchange(bytes(nth), pace, more);
            }
            last
        }
    }

    #[test]
    fn short_messages_go_the_way_that_is_the_faster_now() {
        let mut pair = Pair::new();
        for (pace, past) in [(APART, true), (SHARED, false), (APART, true), (APART, true), (SHARED, false)] {
            assert_eq!(pair.period(pace, |_| 4096), past && Segment::WRITES_PAST, "{pace:?}");
        }
    }

    #[test]
    fn a_trial_goes_each_way_as_often() {
        let mut pair = Pair::new();
        let past = (0..=RUN * RUNS).filter(|_| pair.exchange(SHORT, SHARED, 0)).count() as u32;
        assert_eq!(past, if Segment::WRITES_PAST { RUN * RUNS / 2 } else { 0 });
        assert_eq!((turn(RUN * RUNS), turn(PERIOD)), (Turn::Usual, turn(0)));
    }

    #[test]
    fn long_messages_go_past_the_caches_and_those_of_a_few_lines_never() {
        let mut pair = Pair::new();
        assert!(pair.period(SHARED, |_| LONG));
        assert!(!pair.period(APART, |_| SHORT - 1));
    }

    #[test]
    fn nothing_is_concluded_from_messages_that_did_not_go_as_they_were_to_be_tried() {
        // How each one goes is decided by the one before it, which is too short or too long.
        let mut pair = Pair::new();
        for other in [SHORT - 1, LONG] {
            pair.period(APART, |nth| if nth % 2 == 0 { other } else { 4096 });
            for way in &pair.ways {
                assert_eq!((way.prefers_past, way.to.least, way.from.least), (false, [None; 2], [None; 2]), "{other}");
            }
        }
    }

    #[test]
    fn nothing_is_concluded_from_one_direction() {
        let way = &mut Way::new();
        for nth in 0..u64::from(2 * PERIOD) {
            way.writes(|| Time(1000 * nth + 1));
            let took = if way.is_past() { 1 } else { 900 };
            way.has_written(4096, || Time(1000 * nth + took));
        }
        assert!(!way.is_past() && !way.prefers_past);
    }
}
