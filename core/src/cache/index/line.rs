//! One line of a [`Sparse`](super::Sparse) index: five ids, their words, and marks.
//!
//! Which place an id has comes out without a branch: it can't be guessed, and a wrong guess would cost all that the
//! processor has begun behind it. So the ids are [compared all at once](super::equal).

use super::Glance;
use super::equal::{FIVE, equal};

/// Places of a line.
pub(super) const PLACES: usize = FIVE;
/// Ids that are few: their lines lie in the second cache of a processor.
const FEW: usize = 4096;
/// What a place is numbered by: its line, and so many for each line.
pub(super) const STRIDE: usize = 8;
/// That the first place is taken, in the marks of a line; the others follow.
const TAKEN: u32 = 1;
/// That the id at the first place has passed its home, in the marks of a line; the others follow.
// Above what a comparison may say of ids that there are not.
const AWAY: u32 = TAKEN << 8;
/// One that passed, in the marks of a line.
const PASSED: u32 = AWAY << PLACES;
/// As many as can be counted; from then on nobody is discounted any more.
const MOST_PASSED: u32 = !(PASSED - 1);

/// Places for five ids of a [`Sparse`](super::Sparse) index, which is lent an array of them. 64 bytes, one line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Line {
    ids: [u64; PLACES],
    pub(super) words: [u32; PLACES],
    /// Which places are taken, above by which ids that are away from home, and above how many have gone on to later lines.
    marks: u32,
}

impl Line {
    /// A line without ids.
    pub const EMPTY: Self = Line { ids: [0; PLACES], words: [0; PLACES], marks: 0 };

    /// As many as make an index of so many ids fast: 61 % of the places are taken then, and of few ids, whose lines lie near
    /// however many they are, 40 %. There would be [room](super::Index::room) for all of them in a fifth of their number.
    #[must_use]
    pub const fn for_ids(ids: usize) -> usize {
        if ids <= FEW { ids.div_ceil(2) } else { ids.saturating_mul(21).div_ceil(64) }
    }

    /// The place of an id, as a bit; 0 if it is not in this line.
    #[inline]
    pub(super) fn here(&self, data: u64) -> u32 {
        equal(&self.ids, data) & self.marks
    }

    /// What a search finds that begins in this line, which has this number.
    #[inline]
    pub(super) fn glance(&mut self, line: usize, data: u64) -> Glance<'_> {
        let (here, was_passed) = (self.here(data), self.was_passed());
        let place = here.trailing_zeros() as usize;
        match self.words.get_mut(place) {
            Some(word) => Glance::Here(line * STRIDE + place, word),
            None if was_passed => Glance::Further,
            None => Glance::Absent,
        }
    }

    /// The id at a place, if it is taken.
    #[inline]
    pub(super) fn id(&self, place: usize) -> Option<u64> {
        self.ids.get(place).copied().filter(|_| self.marks & 1 << place != 0)
    }

    /// The word at a place, if this id has it.
    #[inline]
    pub(super) fn word_at(&mut self, place: usize, data: u64) -> Option<&mut u32> {
        let is_here = self.id(place) == Some(data);
        self.words.get_mut(place).filter(|_| is_here)
    }

    /// Whether an id that is not here may be in a later line.
    #[inline]
    pub(super) fn was_passed(&self) -> bool {
        self.marks >= PASSED
    }

    /// How many passed.
    #[cfg(test)]
    pub(super) fn passed(&self) -> u32 {
        self.marks / PASSED
    }

    /// Whether so many have passed that nobody is discounted any more.
    #[inline]
    pub(super) fn lost_count(&self) -> bool {
        self.marks >= MOST_PASSED
    }

    /// One of those who passed did not.
    #[inline]
    pub(super) fn discount(&mut self) {
        if !self.lost_count() {
            self.marks -= PASSED;
        }
    }

    /// Gives the id a free place, and tells which; if there is none it is counted as passing. `away` if this isn't its home.
    #[inline]
    pub(super) fn take(&mut self, data: u64, word: u32, away: bool) -> Option<usize> {
        let place = (!self.marks).trailing_zeros() as usize;
        if place >= PLACES {
            if !self.lost_count() {
                self.marks += PASSED;
            }
            return None;
        }
        (self.ids[place], self.words[place]) = (data, word);
        self.marks |= (TAKEN + AWAY * u32::from(away)) << place;
        Some(place)
    }

    /// Makes a place free.
    #[inline]
    pub(super) fn free(&mut self, place: usize) {
        self.marks &= !((TAKEN | AWAY) << place);
    }

    /// The word at the place of this bit.
    #[inline]
    pub(super) fn word(&self, place: u32) -> Option<u32> {
        self.words.get(place.trailing_zeros() as usize).copied()
    }

    /// Makes the place of this bit free, unless that concerns other lines: who has it passed them, or somebody who passed this
    /// line may have it then. Whether it did.
    #[inline]
    pub(super) fn free_alone(&mut self, place: u32) -> bool {
        let alone = self.marks & (MOST_PASSED | (place * AWAY)) == 0;
        if alone {
            self.marks &= !place;
        }
        alone
    }

    /// The places whose ids are away from home.
    #[inline]
    pub(super) fn away(&self) -> impl Iterator<Item = (usize, u64)> {
        let away = self.marks / AWAY;
        (0..).zip(self.ids).filter(move |&(place, _)| away & 1 << place != 0)
    }
}

impl Default for Line {
    fn default() -> Self {
        Self::EMPTY
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::index::equal::equal_one_by_one;

    #[test]
    fn an_id_is_found_at_its_place_and_no_other_that_shares_a_half_with_it() {
        let ids = [0, u64::MAX, 1 << 32, 1, 0xffff_ffff];
        let mut line = Line::EMPTY;
        for (place, &data) in ids.iter().enumerate() {
            assert_eq!((line.here(data), line.id(place)), (0, None));
            assert_eq!(line.take(data, place as u32, place % 2 == 1), Some(place));
        }
        assert_eq!((line.take(7, 7, false), line.was_passed()), (None, true));
        for (place, &data) in ids.iter().enumerate() {
            assert_eq!((line.here(data), line.id(place)), (1 << place, Some(data)));
            for bit in 0..64 {
                let other = data ^ 1 << bit;
                let found = ids.iter().position(|&id| id == other).map_or(0, |place| 1 << place);
                assert_eq!(line.here(other), found);
                assert_eq!(equal(&line.ids, other) & 0b11111, equal_one_by_one(&line.ids, other));
            }
        }
        line.discount();
        for place in (0..PLACES).rev() {
            line.free(place);
            assert_eq!((line.here(ids[place]), line.id(place)), (0, None));
        }
        assert!(!line.was_passed());
    }
}
