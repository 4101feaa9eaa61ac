//! Unpacking a message: the strips to be set, found a word of channels at a time.
//!
//! Which fields are present changes from channel to channel without a rule, so to branch on it costs more than to ask: all 64
//! channels of a word are asked about first, and the bits that this leaves are walked.

use super::pack::{Place, Spread};
use super::plan::Entry;

/// A bit for each of at most 64 channels that never are null, or of which `is` says so.
#[inline]
pub(super) fn wanted(entries: &[Entry], mut is: impl FnMut(&Entry) -> bool) -> u64 {
    let bits = entries.iter().enumerate();
    bits.fold(0, |bits, (nth, entry)| bits | u64::from(entry.always || is(entry)) << nth)
}

/// The channels of a message that is all there; see [`Exchange::unpack`](super::Exchange::unpack).
#[derive(Debug)]
pub struct Unpack<'a> {
    entries: &'a [Entry],
    live: &'a [u64],
    spread: Spread,
    /// Words that were asked about, and the channels of the last one that are still to be handed out.
    words: usize,
    rest: u64,
}

impl<'a> Unpack<'a> {
    pub(super) const fn new(entries: &'a [Entry], live: &'a [u64], spread: Spread) -> Unpack<'a> {
        Unpack { entries, live, spread, words: 0, rest: 0 }
    }

    /// The next channel, in plan order, that has a payload, which lies there, or is `present`, or is of a dense field. It is
    /// asked about up to 64 channels ahead, once about each, and not about those of dense fields.
    ///
    /// *Cost*: O(channels passed).
    #[inline]
    pub fn next(&mut self, mut present: impl FnMut(&Entry) -> bool) -> Option<(&'a Entry, Option<Place>)> {
        while self.rest == 0 {
            let (&live, entries) = (self.live.get(self.words)?, self.entries.get(self.words * 64..)?);
            self.rest = live | wanted(&entries[..entries.len().min(64)], &mut present);
            self.words += 1;
        }
        let (word, bit) = (self.words - 1, self.rest.trailing_zeros() as usize);
        self.rest &= self.rest - 1;
        let entry = self.entries.get(word * 64 + bit)?;
        let is_live = self.live[word] >> bit & 1 == 1;
        Some((entry, is_live.then(|| self.spread.place(entry))))
    }
}
