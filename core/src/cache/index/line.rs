//! One line of a [`Sparse`](super::Sparse) index: twelve words, a byte of each id.
//!
//! Which place an id may have comes out without a branch: it can't be guessed, and a wrong guess would cost all that the
//! processor has begun behind it. So the bytes are [compared all at once](super::tags).

use super::tags::{BYTES, equal};

/// Places of a line.
pub(super) const PLACES: usize = 12;
/// Ids that are few: their lines lie in the second cache of a processor.
const FEW: usize = 4096;
/// What a place is numbered by: its line, and so many for each line.
pub(super) const STRIDE: usize = 16;
/// Not a tag, but the byte of a free place.
const FREE: u8 = 0;
/// The bits of all places.
const ALL: u32 = (1 << PLACES) - 1;

/// Places for twelve ids of a [`Sparse`](super::Sparse) index, which is lent an array of them. 64 bytes, one line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Line {
    /// The tags of the places, and then how many ids have gone on to later lines.
    head: [u8; BYTES],
    pub(super) words: [u32; PLACES],
}

impl Line {
    /// A line without ids.
    pub const EMPTY: Self = Line { head: [FREE; BYTES], words: [0; PLACES] };

    /// As many as make an index of so many ids fast: two thirds of the places are taken then, and half of them if the ids are
    /// few, because their lines lie near however many they are. There would be [room](super::Index::room) for all of them in
    /// a twelfth of their number.
    #[must_use]
    pub const fn for_ids(ids: usize) -> usize {
        ids.div_ceil(if ids <= FEW { 6 } else { 8 })
    }

    /// The first place whose id has this tag; [`PLACES`] if none has.
    #[inline]
    pub(super) fn first_tagged(&self, tag: Tag) -> usize {
        (equal(&self.head, tag.0) | (ALL + 1)).trailing_zeros() as usize
    }

    /// The places whose ids have this tag, as bits.
    #[inline]
    pub(super) fn tagged(&self, tag: Tag) -> u32 {
        equal(&self.head, tag.0) & ALL
    }

    /// The places that are taken.
    pub(super) fn taken(&self) -> impl Iterator<Item = (usize, u32)> {
        (0..).zip(self.words).filter(|&(place, _)| self.head[place] != FREE)
    }

    /// The word at a place, if it is taken.
    #[inline]
    pub(super) fn word_mut(&mut self, place: usize) -> Option<&mut u32> {
        let is_taken = place < PLACES && self.head[place] != FREE;
        self.words.get_mut(place).filter(|_| is_taken)
    }

    /// How many ids passed.
    #[inline]
    pub(super) fn passed(&self) -> u32 {
        let [.., a, b, c, d] = self.head;
        u32::from_ne_bytes([a, b, c, d])
    }

    #[inline]
    fn set_passed(&mut self, passed: u32) {
        [self.head[PLACES], self.head[PLACES + 1], self.head[PLACES + 2], self.head[PLACES + 3]] = passed.to_ne_bytes();
    }

    /// One of those who passed did not.
    #[inline]
    pub(super) fn discount(&mut self) {
        self.set_passed(self.passed().saturating_sub(1));
    }

    /// Gives the id a free place, and tells which; if there is none it is counted as passing.
    #[inline]
    pub(super) fn take(&mut self, tag: Tag, word: u32) -> Option<usize> {
        let place = self.first_tagged(Tag(FREE));
        if place >= PLACES {
            self.set_passed(self.passed().saturating_add(1));
            return None;
        }
        (self.head[place], self.words[place]) = (tag.0, word);
        Some(place)
    }

    /// Makes a place free.
    #[inline]
    pub(super) fn free(&mut self, place: usize) {
        if place < PLACES {
            self.head[place] = FREE;
        }
    }
}

impl Default for Line {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// What tells most ids of a line apart; not 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Tag(u8);

impl Tag {
    /// From bits of a hash.
    #[inline]
    pub(super) fn new(bits: u8) -> Tag {
        Tag(bits + u8::from(bits == FREE))
    }

    /// Those of which it can be made again.
    #[inline]
    pub(super) fn bits(self) -> u8 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_taken_once_and_found_by_their_tags_and_the_rest_is_counted_as_passing() {
        let mut line = Line::EMPTY;
        let tag = |place: usize| Tag::new([0, 1, 7, 255][place % 4]);
        for place in 0..PLACES {
            assert_eq!(line.word_mut(place), None);
            assert_eq!(line.take(tag(place), place as u32 * 10), Some(place));
        }
        assert_eq!(line.passed(), 0);
        assert_eq!(line.take(Tag::new(9), 9), None);
        assert_eq!((line.passed(), line.tagged(Tag::new(9))), (1, 0));
        // Of the hash 0 there is no tag of its own.
        assert_eq!(line.tagged(Tag::new(1)), 0b0011_0011_0011);
        assert_eq!(line.tagged(Tag::new(255)), 0b1000_1000_1000);
        assert!(line.taken().eq((0..PLACES).map(|place| (place, place as u32 * 10))));
        line.free(5);
        assert_eq!(line.tagged(Tag::new(1)), 0b0011_0001_0011);
        assert!([5, PLACES, usize::MAX].into_iter().all(|place| line.word_mut(place).is_none()));
        assert_eq!(line.take(Tag::new(200), 77), Some(5));
        line.discount();
        line.discount();
        assert_eq!((line.passed(), line.word_mut(5)), (0, Some(&mut 77)));
    }
}
