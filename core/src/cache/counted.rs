//! References counted in the word of the index, so that a hit touches one line.
//!
//! A slot has a number of so many bits, and a word of the index has 32. In the rest it counts the references to content
//! that is in the policy's order: for such content, taking and giving back a reference changes nothing else there, if
//! the policy [needs no more](Policy::USES). The record has the flag [`ELSEWHERE`] then, and its own count is 0.
//! Whoever needs more than that counts the references in the record again before.
//!
//! In a word, from below: how often the content was used since it is counted here, as far as the policy counts; 0 if
//! references are not counted here, else how many they are and one; the number of the slot.

use core::marker::PhantomData;

use super::contract::SlotCache;
use super::error::{AllocError, FreeError};
use super::grant::{Found, Grant, State};
use super::index::Index;
use super::policy::{Next, Policy, Watch};
use super::slot::{ELSEWHERE, Slot};

/// Bits of a number beside which some references can be counted.
const MOST_BITS: u32 = 28;

/// Whether references can be counted in words under this policy.
pub(super) const fn possible<P: Policy>() -> bool {
    P::USES.is_some()
}

/// One use, in a word.
const USED: u32 = 1;
/// All uses that can be told apart.
const USES: u32 = 3;
/// One reference.
const ONE: u32 = USES + 1;

/// Where the number begins in the words of so many slots.
pub(super) fn shift(slots: u32) -> u32 {
    let bits = u32::BITS - slots.saturating_sub(1).max(1).leading_zeros();
    if bits > MOST_BITS { 0 } else { u32::BITS - bits }
}

/// What is counted in words, below their numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    /// The bits of the references; none if there is no room to count any.
    counts: u32,
    /// The references that are counted at most.
    most: u32,
}

impl Cut {
    /// For words whose number begins [there](shift), and so many references at most.
    pub(super) fn new(shift: u32, most: u32) -> Cut {
        if shift == 0 {
            return Cut { counts: 0, most: 0 };
        }
        let counts = (1 << shift) - ONE;
        // All bits set is no word.
        Cut { counts, most: (counts / ONE - 2).min(most) * ONE }
    }

    /// The references that are counted in the word; `None` if none are.
    #[inline]
    pub(super) fn counted(self, word: u32) -> Option<u32> {
        ((word & self.counts) / ONE).checked_sub(1)
    }

    /// Whether references are counted in the word, and there are none.
    #[inline]
    pub(super) fn is_idle(self, word: u32) -> bool {
        // No word is if there is no room to count any.
        word & self.counts == ONE
    }

    /// The word with one more reference, if there may be one, and how many there are then.
    #[inline]
    pub(super) fn joined<P: Policy>(self, word: u32) -> Option<(u32, u32)> {
        // Far too many if none are counted here.
        let before = (word & self.counts).wrapping_sub(ONE);
        (before < self.most).then(|| (once_more::<P>(word) + ONE, before / ONE + 1))
    }

    /// The word after one more reference that was given back, if there may be one, and whether it was the only one.
    #[inline]
    pub(super) fn used<P: Policy>(self, word: u32) -> Option<(u32, bool)> {
        // As above.
        let before = (word & self.counts).wrapping_sub(ONE);
        (before < self.most).then(|| (once_more::<P>(word), before < ONE))
    }

    /// The word with one reference less, if there is one, and whether that was the last.
    #[inline]
    pub(super) fn released(self, word: u32) -> Option<(u32, bool)> {
        let before = word & self.counts;
        (before > ONE).then(|| (word - ONE, before < 3 * ONE))
    }

    /// The word of idle content, so far without any count, whose references are counted in it from now on; `None` if there is no
    /// room.
    #[inline]
    pub(super) fn begun(self, word: u32) -> Option<u32> {
        (self.counts != 0).then_some(word | ONE)
    }

    /// Counts in the record again, if references were counted in the word.
    #[inline]
    pub(super) fn bring_back<P: Policy, I: Index>(self, index: &mut I, record: &mut Slot) {
        if possible::<P>()
            && record.is(ELSEWHERE)
            && let Some((place, word)) = index.look(record.data)
        {
            self.bring_back_from::<P, I>(index, place, word, record);
        }
    }

    #[inline]
    fn bring_back_from<P: Policy, I: Index>(self, index: &mut I, place: usize, word: u32, record: &mut Slot) {
        record.clear(ELSEWHERE);
        record.count += self.counted(word).unwrap_or(0);
        bring_back_uses::<P>(word, record);
        index.put(place, index.word(index.number(word)));
    }
}

/// The word with one more use, as far as the policy counts.
#[inline]
fn once_more<P: Policy>(word: u32) -> u32 {
    match P::USES {
        Some(1) => word | USED,
        uses => word + u32::from(word & USES < uses.unwrap_or(0)),
    }
}

#[inline]
fn bring_back_uses<P: Policy>(word: u32, record: &mut Slot) {
    for _ in 0..word & USES {
        P::hit(record);
    }
}

/// The words of the index, while the policy searches for a victim.
pub(super) struct Words<'a, I, P> {
    cut: Cut,
    index: &'a mut I,
    /// Where the word stands of the content that the search came by last, if that was looked for.
    pub(super) last: Option<usize>,
    policy: PhantomData<P>,
}

impl<'a, I, P> Words<'a, I, P> {
    pub(super) fn new(cut: Cut, index: &'a mut I) -> Self {
        Words { cut, index, last: None, policy: PhantomData }
    }
}

impl<I: Index, P: Policy> Watch for Words<'_, I, P> {
    #[inline]
    fn comes_by(&mut self, slot: &mut Slot) {
        self.last = None;
        if !possible::<P>() || !slot.is(ELSEWHERE) {
            return;
        }
        let Some((place, word)) = self.index.look(slot.data) else { return };
        self.last = Some(place);
        if self.cut.counted(word) != Some(0) {
            return self.cut.bring_back_from::<P, I>(self.index, place, word, slot);
        }
        // Idle content that stays is counted in the word from now on as before.
        bring_back_uses::<P>(word, slot);
        if word & USES != 0 {
            self.index.put(place, word & !USES);
        }
    }

    #[inline]
    fn will_come_by(&mut self, slot: &Slot) {
        let _ = self.index.fetch(slot.data);
    }
}

impl<S: AsRef<[Slot]> + AsMut<[Slot]>, I: Index, P: Policy, C> SlotCache<S, I, P, C> {
    /// From now on the references to this slot are counted in its record.
    #[inline]
    pub(super) fn bring_back(&mut self, slot: u32) {
        self.cut.bring_back::<P, I>(&mut self.index, self.pool.at_mut(slot));
    }

    /// References to an assigned slot, and what it is doing.
    pub(super) fn seen(&self, slot: u32) -> (u32, State) {
        let record = self.pool.at(slot);
        let word = if record.is(ELSEWHERE) { self.look(record.data) } else { None };
        match word.and_then(|(_, word)| self.cut.counted(word)) {
            None => (record.count, record.state()),
            Some(0) => (0, State::Idle),
            Some(references) => (references, State::InUse),
        }
    }

    /// A further reference to an assigned slot, by its word in the index.
    #[inline]
    pub(super) fn join(&mut self, place: usize, word: u32) -> Result<Grant, AllocError> {
        match self.cut.joined::<P>(word) {
            Some((more, references)) if possible::<P>() => {
                self.index.put(place, more);
                Ok(self.note_join(place, self.index.number(word), references))
            }
            _ => self.join_by_record(place, word),
        }
    }

    /// Notes a further reference that the word counts.
    #[inline]
    pub(super) fn note_join(&mut self, place: usize, slot: u32, references: u32) -> Grant {
        self.pool.note_hit(references < 2);
        Grant::new(self.pool.outer(slot), Found::Remembered, references).at(place)
    }

    /// Gives a reference back.
    #[inline]
    pub(super) fn give_back(&mut self, place: usize, word: u32, data: u64, next: Next) -> Result<(), FreeError> {
        match self.cut.released(word) {
            Some((less, last)) if possible::<P>() => {
                self.index.put(place, less);
                self.pool.note_free(self.index.number(word), last);
                Ok(())
            }
            _ => self.give_back_by_record(place, word, data, next),
        }
    }

    /// From now on the references are counted in the word, if the content is in the order and there is room.
    #[inline]
    pub(super) fn count_in_word(&mut self, place: usize, slot: u32) {
        if possible::<P>()
            && self.pool.at(slot).stays_in_order()
            && let Some(word) = self.cut.begun(self.index.word(slot))
        {
            self.pool.at_mut(slot).set(ELSEWHERE);
            self.index.put(place, word);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::policy::{Clock, S3Fifo};
    use crate::cache::slot::NIL;

    #[test]
    fn a_word_counts_as_many_references_as_it_has_room_for() {
        for (slots, most) in [(1, u32::MAX), (2, 5), (640_000, u32::MAX), (1 << 28, 9), (1 << 29, 9), (u32::MAX, 9)] {
            let shift = shift(slots);
            let cut = Cut::new(shift, most);
            let alone = (slots - 1) << shift;
            let Some(idle) = cut.begun(alone) else {
                assert!(slots > 1 << MOST_BITS, "{slots}");
                continue;
            };
            let mut word = idle;
            let mut references = 0;
            while references < 10_000
                && let Some(more) = cut.joined::<S3Fifo>(word)
            {
                assert_eq!(more.1, references + 1);
                (word, references) = more;
                assert_eq!((word >> shift, cut.counted(word)), (slots - 1, Some(references)));
                assert_eq!(cut.is_idle(word), references == 0);
                assert_eq!(word & USES, references.min(3));
                assert_ne!(word, NIL);
            }
            assert!(references > 0 && references <= most, "{slots}: {references}");
            while let Some((less, last)) = cut.released(word) {
                (word, references) = (less, references - 1);
                assert_eq!(last, references == 0);
            }
            assert_eq!((references, cut.counted(word)), (0, Some(0)));
            assert_eq!((cut.joined::<Clock>(alone), cut.released(alone)), (None, None));
        }
    }
}
