//! References that are counted in the word of the index, so that a hit touches one line.
//!
//! A slot has a number of so many bits, and a word of the index has 32. In the rest it counts the references to content
//! that is in the policy's order and that somebody used again: for such content, taking and giving back a reference
//! changes nothing else, if the policy [only marks](super::policy::Policy::MARKS) what is used and the index
//! [needs no record](Index::COUNTS). The record has the flag
//! [`ELSEWHERE`] then, and its own count is 0. Whoever needs more than that counts the references in the record again
//! before.
//!
//! In a word, from below: the number of the slot; whether the content was used since it is counted here; 0 if it is not,
//! else the references and one.

use super::contract::SlotCache;
use super::error::{AllocError, FreeError};
use super::grant::{Found, Grant, State};
use super::index::Index;
use super::policy::{Next, Policy};
use super::slot::{ELSEWHERE, Slot};

/// Bits of a number beside which some references can be counted.
const MOST_BITS: u32 = 28;

/// Whether references can be counted in the words of this index under this policy.
pub(super) const fn possible<P: Policy, I: Index>() -> bool {
    P::MARKS && I::COUNTS
}

/// How words are cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    /// Bits of a slot's number.
    bits: u32,
    /// All of them.
    number: u32,
    /// One reference; 0 if there is no room to count any.
    one: u32,
    /// References that are counted at most, and one.
    most: u32,
}

impl Cut {
    /// For so many slots, and so many references at most.
    pub(super) fn new(slots: u32, most: u32) -> Cut {
        let bits = u32::BITS - slots.saturating_sub(1).leading_zeros();
        if bits > MOST_BITS {
            return Cut { bits: 0, number: u32::MAX, one: 0, most: 0 };
        }
        // All bits set is no word.
        let counts = (u32::MAX >> bits >> 1) - 1;
        Cut { bits, number: (1 << bits) - 1, one: 2 << bits, most: counts.min(most.saturating_add(1)) }
    }

    #[inline]
    pub(super) fn slot(self, word: u32) -> u32 {
        word & self.number
    }

    /// The references that are counted in the word; `None` if none are.
    #[inline]
    pub(super) fn counted(self, word: u32) -> Option<u32> {
        self.field(word).checked_sub(1)
    }

    #[inline]
    fn field(self, word: u32) -> u32 {
        (word & !self.number) >> self.bits >> 1
    }

    /// With one more reference, if there may be one.
    #[inline]
    pub(super) fn joined(self, word: u32) -> Option<u32> {
        let field = self.field(word);
        (field != 0 && field < self.most).then(|| (word | self.one >> 1) + self.one)
    }

    /// With one reference less, if there is one.
    #[inline]
    pub(super) fn released(self, word: u32) -> Option<u32> {
        (self.field(word) > 1).then(|| word - self.one)
    }

    /// The word of idle content whose references are counted in it from now on; `None` if there is no room.
    #[inline]
    pub(super) fn begun(self, slot: u32) -> Option<u32> {
        (self.one != 0).then_some(slot | self.one)
    }

    /// Counts in the record again, if references were counted in the word.
    #[inline]
    pub(super) fn bring_back<P: Policy, I: Index>(self, index: &mut I, record: &mut Slot) {
        if possible::<P, I>()
            && record.is(ELSEWHERE)
            && let Some((place, word)) = index.look(record.data, |_| true)
        {
            record.clear(ELSEWHERE);
            record.count += self.counted(word).unwrap_or(0);
            if word & self.one >> 1 != 0 {
                P::hit(record);
            }
            index.put(place, self.slot(word));
        }
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
        let slot = self.cut.slot(word);
        if !possible::<P, I>() {
            return self.join_by_record(slot);
        }
        let Some(word) = self.cut.joined(word) else { return self.join_brought_back(word) };
        self.index.put(place, word);
        let references = self.cut.counted(word).unwrap_or(0);
        self.pool.note_hit(references == 1);
        Ok(Grant { slot: self.pool.outer(slot), found: Found::Remembered, references })
    }

    // Not inlined: so a hit stays short enough for the processor to overlap it with the next one.
    #[inline(never)]
    fn join_brought_back(&mut self, word: u32) -> Result<Grant, AllocError> {
        let slot = self.cut.slot(word);
        if self.cut.counted(word).is_some_and(|references| references >= self.most) {
            return self.too_many(slot);
        }
        self.bring_back(slot);
        self.join_by_record(slot)
    }

    /// Gives a reference back; whether the slot is empty now.
    #[inline]
    pub(super) fn give_back(&mut self, place: usize, word: u32, data: u64, next: Next) -> Result<bool, FreeError> {
        let slot = self.cut.slot(word);
        if !possible::<P, I>() {
            return self.give_back_by_record(slot, data, next);
        }
        let Some(less) = self.cut.released(word) else { return self.give_back_counted(place, word, data, next) };
        self.index.put(place, less);
        self.pool.note_free(self.cut.counted(less) == Some(0));
        Ok(false)
    }

    /// [`SlotCache::give_back`], where no reference is counted in the word; what was used again is counted there from
    /// now on.
    #[inline(never)]
    fn give_back_counted(&mut self, place: usize, word: u32, data: u64, next: Next) -> Result<bool, FreeError> {
        if self.cut.counted(word).is_some() {
            return Err(FreeError::NotInUse { data });
        }
        let slot = self.cut.slot(word);
        let emptied = self.give_back_by_record(slot, data, next)?;
        if !emptied
            && self.pool.at(slot).is_used_again()
            && let Some(word) = self.cut.begun(slot)
        {
            self.pool.at_mut(slot).set(ELSEWHERE);
            self.index.put(place, word);
        }
        Ok(emptied)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::slot::NIL;

    #[test]
    fn a_word_counts_as_many_references_as_it_has_room_for() {
        for (slots, most) in [(1, u32::MAX), (2, 5), (640_000, u32::MAX), (1 << 28, 9), (1 << 29, 9), (u32::MAX, 9)] {
            let cut = Cut::new(slots, most);
            let Some(idle) = cut.begun(slots - 1) else {
                assert!(slots > 1 << MOST_BITS, "{slots}");
                continue;
            };
            let mut word = idle;
            let mut references = 0;
            while references < 10_000
                && let Some(more) = cut.joined(word)
            {
                (word, references) = (more, references + 1);
                assert_eq!((cut.slot(word), cut.counted(word)), (slots - 1, Some(references)));
                assert_ne!(word, NIL);
            }
            assert!(references > 0 && references <= most, "{slots}: {references}");
            while let Some(less) = cut.released(word) {
                (word, references) = (less, references - 1);
            }
            assert_eq!((references, cut.counted(word)), (0, Some(0)));
            assert_eq!((cut.joined(slots - 1), cut.released(slots - 1)), (None, None));
        }
    }
}
