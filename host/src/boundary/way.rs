//! Which way messages to one rank go: through the caches, or past them.
//!
//! A long message goes past them: to take so many lines back from the receiver's cache takes longer. With a short one that
//! depends on whether the two processors share a cache. Nobody can ask for that, as a guest's processors move, so it is
//! measured. Of every 8192 messages the first 128 are a trial, in runs of 32 that go one way and the other in turn. Both sides
//! count messages, so the reader of one knows which way it came. The middle half of a run is timed: the caches have come to
//! rest by then, and counts that differ by a few do no harm. Each rank times what it writes to the other one and what it reads from there, and not how long it waits. The least
//! time a byte says which way is the faster: what is slower was disturbed.
//!
//! *Cost*: outside of trials a count a message.

use std::cell::Cell;

use umbra_core::time::Lapse;

use crate::sys::segment::Segment;

/// Bytes of payload from which on the next message goes past the caches.
pub(super) const LONG: u32 = 16 << 10;
/// A shorter one goes through the caches: it is a few lines.
const SHORT: u32 = 1 << 10;
/// Messages from one trial to the next.
const PERIOD: u32 = 8192;
/// Messages that go the same way in a trial.
const RUN: u32 = 32;
/// Runs of a trial; as many each way.
const RUNS: u32 = 4;
/// Messages at the beginning of a run, and as many at its end, that are not timed.
const REST: u32 = RUN / 4;

/// How the message of a number goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Turn {
    /// As it was found to be the fastest.
    Usual,
    /// To try this way: whether past the caches, and whether it is timed.
    Trial { past: bool, timed: bool },
    /// As before; with it all of a trial has been timed.
    Last,
}

const fn turn(nth: u32) -> Turn {
    let at = nth % PERIOD;
    match at / RUN {
        run @ 0..RUNS => Turn::Trial { past: run % 2 == 1, timed: at % RUN >= REST && at % RUN < RUN - REST },
        // The last message of a trial may be read after the next one was written.
        RUNS if at % RUN == 1 => Turn::Last,
        _ => Turn::Usual,
    }
}

/// The least that a kibibyte took through the caches and past them, in nanoseconds.
#[derive(Debug)]
struct Least([u64; 2]);

impl Least {
    const NONE: Least = Least([u64::MAX; 2]);

    fn note(&mut self, past: bool, bytes: u32, took: Lapse) {
        let least = &mut self.0[usize::from(past)];
        *least = (took.0 * 1024 / u64::from(bytes.max(1))).min(*least);
    }

    /// One way and the other; zero if one was not tried.
    fn both(&self) -> [u64; 2] {
        if self.0.contains(&u64::MAX) { [0; 2] } else { self.0 }
    }
}

/// The way to one rank, and from there.
#[derive(Debug)]
pub(super) struct Way {
    /// Messages to it, and from it.
    sent: u32,
    came: u32,
    /// Bytes of payload of the last one to it.
    wrote: u32,
    /// How short messages go.
    prefers_past: bool,
    /// How the next one goes, and whether it is timed.
    is_past: bool,
    is_timed: bool,
    writing: Lapse,
    reading: Cell<Lapse>,
    writes: Least,
    reads: Least,
}

impl Way {
    pub(super) const fn new() -> Way {
        Way {
            sent: 0,
            came: 0,
            wrote: 0,
            prefers_past: false,
            is_past: false,
            is_timed: false,
            writing: Lapse(0),
            reading: Cell::new(Lapse(0)),
            writes: Least::NONE,
            reads: Least::NONE,
        }
    }

    /// Whether the message that is being written goes past the caches.
    #[inline]
    pub(super) const fn is_past(&self) -> bool {
        self.is_past
    }

    /// Whether it is to be [timed](Self::wrote_in).
    #[inline]
    pub(super) const fn is_write_timed(&self) -> bool {
        self.is_timed
    }

    /// A part of it was written in this time.
    pub(super) const fn wrote_in(&mut self, took: Lapse) {
        self.writing.0 += took.0;
    }

    /// Bytes of payload of the last message, which the next one probably has as well.
    pub(super) const fn last(&self) -> u32 {
        self.wrote
    }

    /// It was sent, with so many bytes of payload.
    pub(super) fn sent(&mut self, bytes: u32) {
        if self.is_timed && (SHORT..LONG).contains(&bytes) {
            self.writes.note(self.is_past, bytes, self.writing);
        }
        (self.writing, self.wrote, self.sent) = (Lapse(0), bytes, self.sent.wrapping_add(1));
        let turn = if Segment::WRITES_PAST { turn(self.sent) } else { Turn::Usual };
        if turn == Turn::Last {
            self.choose();
        }
        (self.is_past, self.is_timed) = match (bytes, turn) {
            (LONG.., _) => (true, false),
            (..SHORT, _) => (false, false),
            (_, Turn::Trial { past, timed }) => (past, timed),
            (_, Turn::Usual | Turn::Last) => (self.prefers_past, false),
        };
    }

    fn choose(&mut self) {
        let [writes, reads] =
            [&mut self.writes, &mut self.reads].map(|least| std::mem::replace(least, Least::NONE).both());
        let [near, past] = [0, 1].map(|way| writes[way].saturating_add(reads[way]));
        // Neither was timed if no message was short.
        if near > 0 {
            self.prefers_past = past < near;
        }
    }

    /// Whether the message that is being read is to be [timed](Self::read_in).
    #[inline]
    pub(super) const fn is_read_timed(&self) -> bool {
        Segment::WRITES_PAST && matches!(turn(self.came), Turn::Trial { timed: true, .. })
    }

    /// A part of it was read in this time.
    pub(super) fn read_in(&self, took: Lapse) {
        self.reading.set(Lapse(self.reading.get().0 + took.0));
    }

    /// It was read, and had so many bytes of payload.
    pub(super) fn came(&mut self, bytes: u32) {
        let took = self.reading.take();
        if let Turn::Trial { past, timed: true } = turn(self.came)
            && (SHORT..LONG).contains(&bytes)
        {
            self.reads.note(past, bytes, took);
        }
        self.came = self.came.wrapping_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a kibibyte takes to write and to read, through the caches and past them.
    type Pace = [[u64; 2]; 2];
    const SHARED: Pace = [[60, 90], [60, 95]];
    const APART: Pace = [[200, 90], [250, 160]];

    /// So many messages of so many bytes each way, the `nth` of which takes `more` time a kibibyte; the last one's way.
    fn exchange(ways: &mut [Way; 2], messages: u32, bytes: u32, pace: Pace, more: impl Fn(u32) -> u64) -> bool {
        let kibibytes = u64::from(bytes) / 1024;
        let mut last = false;
        for nth in 0..messages {
            last = ways[0].is_past();
            let sent = ways.each_ref().map(Way::is_past);
            for way in &mut *ways {
                if way.is_write_timed() {
                    way.wrote_in(Lapse(kibibytes * (pace[0][usize::from(way.is_past())] + more(nth))));
                }
                way.sent(bytes);
            }
            for (way, past) in ways.iter_mut().zip([sent[1], sent[0]]) {
                if way.is_read_timed() {
                    way.read_in(Lapse(kibibytes * (pace[1][usize::from(past)] + more(nth))));
                }
                way.came(bytes);
            }
        }
        last
    }

    #[test]
    fn short_messages_go_the_way_that_is_the_faster_now() {
        if !Segment::WRITES_PAST {
            return;
        }
        let ways = &mut [Way::new(), Way::new()];
        // Nearly all are disturbed, those past the caches more often.
        let disturbed = |nth: u32| if nth % RUN == 20 { 0 } else { 500 - 10 * u64::from(nth % RUN) };
        for (pace, past) in [(APART, true), (SHARED, false), (APART, true), (APART, true), (SHARED, false)] {
            assert_eq!(exchange(ways, PERIOD, 4096, pace, disturbed), past, "{pace:?}");
        }
    }

    #[test]
    fn both_sides_of_a_trial_go_each_way_as_often() {
        let way = &mut Way::new();
        let trial = RUN * RUNS;
        let mut past = 0;
        for nth in 0..=trial {
            // The first message goes through the caches, as nothing is known of its length.
            past += u32::from(way.is_past());
            assert!(!way.is_write_timed() || nth < trial);
            way.sent(SHORT);
        }
        let half = if Segment::WRITES_PAST { trial / 2 } else { 0 };
        assert_eq!((past, turn(trial), turn(PERIOD)), (half, Turn::Usual, turn(0)));
    }

    #[test]
    fn long_messages_go_past_the_caches_and_those_of_a_few_lines_never() {
        let ways = &mut [Way::new(), Way::new()];
        assert!(exchange(ways, PERIOD, LONG, SHARED, |_| 0));
        assert!(!exchange(ways, PERIOD, SHORT - 1, APART, |_| 0));
        // What was not tried is not believed.
        assert!(!ways[0].prefers_past && ways[0].sent == 2 * PERIOD);
    }
}
