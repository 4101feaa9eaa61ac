//! Unpacking a message: the strips to be set, found a word of channels at a time.
//!
//! Which fields are present, and which channels have a payload, changes from channel to channel without a rule, so to branch
//! on it costs more than to ask: all 64 channels of a word are asked about first, and the bits that this leaves are walked; and
//! those with a payload are walked before those without.

use super::pack::{Place, Spread};
use super::plan::Entry;

/// A bit for each of at most 64 channels that never are null, or of which `is` says so.
#[inline]
pub(super) fn wanted(entries: &[Entry], mut is: impl FnMut(&Entry) -> bool) -> u64 {
    // From the last to the first no bit is moved by more than one, and eight need one look at whether it was the last.
    let mut add = |bits: u64, entry: &Entry| bits << 1 | u64::from(entry.always || is(entry));
    let (eights, rest) = entries.as_chunks::<8>();
    let bits = rest.iter().rev().fold(0, &mut add);
    eights.iter().rev().fold(bits, |bits, eight| eight.iter().rev().fold(bits, &mut add))
}

/// The channels of a message that is all there; see [`Exchange::unpack`](super::Exchange::unpack).
#[derive(Debug)]
pub struct Unpack<'a> {
    entries: &'a [Entry],
    live: &'a [u64],
    spread: Spread,
    payloads: Bits,
    nulls: Bits,
}

/// Words of channels that were looked at, and what is still to be handed out of the last one.
#[derive(Clone, Copy, Debug, Default)]
struct Bits {
    words: usize,
    rest: u64,
}

impl Bits {
    /// The next channel; `word` gives the bits of a word, `None` after the last one.
    #[inline]
    fn next(&mut self, mut word: impl FnMut(usize) -> Option<u64>) -> Option<usize> {
        while self.rest == 0 {
            self.rest = word(self.words)?;
            self.words += 1;
        }
        let bit = self.rest.trailing_zeros() as usize;
        self.rest &= self.rest - 1;
        Some((self.words - 1) * 64 + bit)
    }
}

impl<'a> Unpack<'a> {
    pub(super) const fn new(entries: &'a [Entry], live: &'a [u64], spread: Spread) -> Unpack<'a> {
        let (payloads, nulls) = (Bits { words: 0, rest: 0 }, Bits { words: 0, rest: 0 });
        Unpack { entries, live, spread, payloads, nulls }
    }

    /// The next channel, in plan order, that came with a payload, and where that lies.
    ///
    /// *Cost*: O(1) for each, and O(channels / 64).
    #[inline]
    pub fn payload(&mut self) -> Option<(&'a Entry, Place)> {
        let live = self.live;
        let entry = self.entries.get(self.payloads.next(|word| live.get(word).copied())?)?;
        Some((entry, self.spread.place(entry)))
    }

    /// The next channel, in plan order, that came without a payload, if it is `present`. That is asked about up to 64 channels
    /// ahead, once about each, also about those with a payload, but not about those of dense fields.
    ///
    /// *Cost*: O(channels passed).
    #[inline]
    pub fn null(&mut self, mut present: impl FnMut(&Entry) -> bool) -> Option<&'a Entry> {
        let (live, entries) = (self.live, self.entries);
        let nth = self.nulls.next(|word| {
            let (live, entries) = (live.get(word)?, entries.get(word * 64..)?);
            Some(wanted(&entries[..entries.len().min(64)], &mut present) & !live)
        })?;
        entries.get(nth)
    }
}
