//! One line of a [`Sparse`](super::Sparse) index: twelve words, a byte of each id.
//!
//! Which place an id may have comes out without a branch: it can't be guessed, and a wrong guess would cost all that the
//! processor has begun behind it. So the bytes are [compared all at once](super::tags).

use core::num::NonZeroU32;

use zerocopy::IntoBytes;

use super::tags::{BYTES, equal};

/// Words of a line. The first counts how many ids have gone on to later lines, the next ones are the tags of the places, a byte
/// each: the number of a place is that of its byte as well as that of its word.
const WORDS: usize = 16;
/// The first place.
const FIRST: usize = BYTES - PLACES;
/// Places of a line.
pub(super) const PLACES: usize = 12;
/// What a place is numbered by: its line, and so many for each line.
pub(super) const STRIDE: usize = WORDS;
/// Ids that are few: their lines lie in the second cache of a processor.
const FEW: usize = 4096;
/// Not a tag, but the byte of a free place.
const FREE: u8 = 0;
/// The bits of all places.
const ALL: u32 = (1 << BYTES) - (1 << FIRST);

/// Places for twelve ids of a [`Sparse`](super::Sparse) index, which is lent an array of them. 64 bytes, one line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Line {
    words: [u32; WORDS],
}

impl Line {
    /// A line without ids.
    pub const EMPTY: Self = Line { words: [0; WORDS] };

    /// As many as make an index of so many ids fast: two thirds of the places are taken then, and half of them if the ids are
    /// few, because their lines lie near however many they are. There would be [room](super::Index::room) for all of them in
    /// a twelfth of their number.
    #[must_use]
    pub const fn for_ids(ids: usize) -> usize {
        ids.div_ceil(if ids <= FEW { 6 } else { 8 })
    }

    #[inline]
    fn equal(&self, byte: u8) -> u32 {
        self.words.as_bytes().first_chunk().map_or(0, |head| equal(head, byte)) & ALL
    }

    /// The first place whose id has this tag.
    #[inline]
    pub(super) fn first_tagged(&self, tag: Tag) -> Option<usize> {
        first(self.tagged(tag))
    }

    /// The places whose ids have this tag.
    #[inline]
    pub(super) fn tagged(&self, tag: Tag) -> u32 {
        self.equal(tag.0)
    }

    /// The word at a place, whoever has it; the place is taken modulo [`STRIDE`].
    #[inline]
    pub(super) fn word(&self, place: usize) -> u32 {
        self.words[place % STRIDE]
    }

    /// [`Line::word`], to be changed.
    #[inline]
    pub(super) fn word_mut(&mut self, place: usize) -> &mut u32 {
        &mut self.words[place % STRIDE]
    }

    /// Whether this is a place, and somebody's; modulo [`STRIDE`].
    #[inline]
    pub(super) fn is_taken(&self, place: usize) -> bool {
        place % STRIDE >= FIRST && self.words.as_bytes()[place % STRIDE] != FREE
    }

    /// The places that are taken, and their words.
    pub(super) fn taken(&self) -> impl Iterator<Item = (usize, u32)> {
        (FIRST..STRIDE).filter(|&place| self.is_taken(place)).map(|place| (place, self.word(place)))
    }

    /// How many ids passed.
    #[inline]
    pub(super) fn passed(&self) -> u32 {
        self.words[0]
    }

    /// One of those who passed did not.
    #[inline]
    pub(super) fn discount(&mut self) {
        self.words[0] = self.words[0].saturating_sub(1);
    }

    /// Gives the id a free place, and tells which; if there is none it is counted as passing.
    #[inline]
    pub(super) fn take(&mut self, tag: Tag, word: u32) -> Option<usize> {
        let Some(place) = first(self.equal(FREE)) else {
            self.words[0] = self.words[0].saturating_add(1);
            return None;
        };
        self.words.as_mut_bytes()[place] = tag.0;
        self.words[place] = word;
        Some(place)
    }

    /// Makes a place free; modulo [`STRIDE`].
    #[inline]
    pub(super) fn free(&mut self, place: usize) {
        self.words.as_mut_bytes()[place % STRIDE] = FREE;
    }
}

/// The first of some places.
#[inline]
fn first(places: u32) -> Option<usize> {
    NonZeroU32::new(places).map(|places| places.trailing_zeros() as usize % STRIDE)
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
        for place in FIRST..STRIDE {
            assert!(!line.is_taken(place));
            assert_eq!(line.take(tag(place), place as u32 * 10), Some(place));
        }
        assert_eq!(line.passed(), 0);
        assert_eq!(line.take(Tag::new(9), 9), None);
        assert_eq!((line.passed(), line.tagged(Tag::new(9))), (1, 0));
        // Of the hash 0 there is no tag of its own.
        assert_eq!(line.tagged(Tag::new(1)), 0b0011_0011_0011_0000);
        assert_eq!(line.tagged(Tag::new(255)), 0b1000_1000_1000_0000);
        assert_eq!((line.first_tagged(Tag::new(255)), line.first_tagged(Tag::new(9))), (Some(FIRST + 3), None));
        assert!(line.taken().eq((FIRST..STRIDE).map(|place| (place, place as u32 * 10))));
        line.free(FIRST + 5);
        assert_eq!(line.tagged(Tag::new(1)), 0b0011_0001_0011_0000);
        // What counts those who passed is no place.
        assert!([0, FIRST - 1, FIRST + 5, STRIDE].into_iter().all(|place| !line.is_taken(place)));
        assert_eq!(line.take(Tag::new(200), 77), Some(FIRST + 5));
        line.discount();
        line.discount();
        assert_eq!((line.passed(), line.word(FIRST + 5), *line.word_mut(FIRST + 5)), (0, 77, 77));
    }
}
