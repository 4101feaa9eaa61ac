//! From the id of data to a number: its slot, or its record.
//!
//! Two forms. [`Dense`] is an array: ids are coordinates, below its length. [`Sparse`] takes any id. Both hold a *word* for
//! each id: the number, and below it room for what changes with each hit, so that a hit need not touch the record.
//!
//! *Cost*: `Dense` reads one word, and takes 4 bytes an id. `Sparse` reads one line, seldom two, and an id, and takes 16 bytes
//! a number, or 19 if there are few.

use core::fmt;

use super::slot::NIL;
use crate::fetch::fetch_to_read;

mod line;
mod sparse;
mod tags;

pub use line::Line;
pub use sparse::Sparse;

/// Bytes that lie in the near caches of a processor: a quarter of a small second one.
const NEAR: usize = 64 << 10;

/// What a short search finds.
#[derive(Debug)]
pub enum Glance<'a> {
    /// Where the word stands, and the word.
    Here(usize, &'a mut u32),
    /// There is none.
    Absent,
    /// One has to look further.
    Further,
}

/// Where a word is found by the id of data.
///
/// The highest bits of a word are its number, the rest is the owner's.
pub trait Index: Sealed {
    /// From now on the number is what is left of a word without so many of its lowest bits; before this is said it is all of
    /// it. Said while nothing is entered.
    fn numbers_from(&mut self, shift: u32);

    /// The bits of a word below its number.
    #[must_use]
    fn shift(&self) -> u32;

    /// The number in a word.
    #[inline]
    #[must_use]
    fn number(&self, word: u32) -> u32 {
        word.wrapping_shr(self.shift())
    }

    /// The word with this number and nothing else.
    #[inline]
    #[must_use]
    fn word(&self, number: u32) -> u32 {
        number.wrapping_shl(self.shift())
    }

    /// Where the word of `data` stands, until it is taken out or another one is, and the word.
    #[must_use]
    fn look(&self, data: u64) -> Option<(usize, u32)>;

    /// The word of `data`.
    #[inline]
    #[must_use]
    fn find(&self, data: u64) -> Option<u32> {
        self.look(data).map(|(_, word)| word)
    }

    /// [`Index::look`] by one who will look for the same data again.
    #[inline]
    fn seek(&mut self, data: u64) -> Option<(usize, u32)> {
        self.look(data)
    }

    /// What [`Index::look`] finds where it begins: the shortest search, for what is done all the time.
    #[must_use]
    fn glance(&mut self, data: u64) -> Glance<'_>;

    /// [`Index::glance`] by one who will look for the same data again.
    #[must_use]
    #[inline]
    fn glance_first(&mut self, data: u64) -> Glance<'_> {
        self.glance(data)
    }

    /// [`Index::glance`] by one who probably looked for the same data [before](Index::glance_first).
    #[must_use]
    #[inline]
    fn glance_again(&mut self, data: u64) -> Glance<'_> {
        self.glance(data)
    }

    /// Whether all of it lies in the near caches of a processor, once it is used: nothing has to be fetched ahead.
    #[must_use]
    fn is_near(&self) -> bool;

    /// Has the processor fetch what [`Index::look`] reads first, and does not wait for it. Tells where that is, for
    /// [`Index::spot`].
    fn fetch(&self, data: u64) -> usize;

    /// Where the word may stand of data whose search [begins](Index::fetch) there, for [`Index::glance_at`]. Has fetched what
    /// that reads besides.
    #[must_use]
    fn spot(&self, begin: usize) -> usize;

    /// What there is of `data` at a place where it may be; one has to look further if it is not.
    #[must_use]
    fn glance_at(&mut self, place: usize, data: u64) -> Glance<'_>;

    /// Puts another word where [`Index::look`] found one, with the same number.
    fn put(&mut self, place: usize, word: u32);

    /// Whether `data` can be entered at all.
    ///
    /// # Errors
    /// [`OutOfRange`] if its id is too large for this index.
    fn admits(&self, data: u64) -> Result<(), OutOfRange>;

    /// How many words there is room for, whatever their ids are.
    #[must_use]
    fn room(&self) -> usize;

    /// Numbers are below this.
    #[must_use]
    fn numbers(&self) -> usize;

    /// Enters the word of `data`, which is not in yet, and tells where it stands.
    ///
    /// The caller has asked [`Index::admits`], and enters no more than [`Index::room`]. The number is below [`Index::numbers`], and
    /// no other data has it.
    fn enter(&mut self, data: u64, word: u32) -> usize;

    /// Takes out `data`, which stands at this place.
    fn remove_at(&mut self, place: usize, data: u64);

    /// Takes out `data`, and gives its word, if a glance finds it, `goes` says so of the word, and nothing else has to be done
    /// in the index. `None` tells nothing.
    #[inline]
    fn pick(&mut self, data: u64, goes: impl FnOnce(u32) -> bool) -> Option<u32> {
        let Glance::Here(place, &mut word) = self.glance(data) else { return None };
        goes(word).then(|| {
            self.remove_at(place, data);
            word
        })
    }

    /// Takes out `data`.
    #[inline]
    fn remove(&mut self, data: u64) {
        if let Some((place, _)) = self.look(data) {
            self.remove_at(place, data);
        }
    }

    /// Takes out everything.
    fn clear(&mut self);
}

use sealed::Sealed;
mod sealed {
    pub trait Sealed {}
    impl<S> Sealed for super::Dense<S> {}
    impl<S, D> Sealed for super::Sparse<S, D> {}
}

/// The id is not below the length of the index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct OutOfRange {
    /// The id.
    pub data: u64,
    /// Ids are below this.
    pub ids: u64,
}

impl fmt::Display for OutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "data {} is not below {}: lend a longer dense index, or use a sparse one", self.data, self.ids)
    }
}
impl core::error::Error for OutOfRange {}

/// An array of words by id, over lent ones.
#[derive(Clone, Debug)]
pub struct Dense<S> {
    words: S,
    shift: u32,
}

impl<S: AsRef<[u32]> + AsMut<[u32]>> Dense<S> {
    /// An empty index for ids below the number of lent words, whatever these held before.
    #[must_use]
    pub fn new(words: S) -> Self {
        let mut index = Dense { words, shift: 0 };
        index.clear();
        index
    }
}

impl<S: AsRef<[u32]> + AsMut<[u32]>> Index for Dense<S> {
    fn numbers_from(&mut self, shift: u32) {
        self.shift = shift;
    }

    #[inline]
    fn shift(&self) -> u32 {
        self.shift
    }

    #[inline]
    fn look(&self, data: u64) -> Option<(usize, u32)> {
        let place = usize::try_from(data).ok()?;
        let word = self.words.as_ref().get(place).filter(|word| **word != NIL)?;
        Some((place, *word))
    }

    #[inline]
    fn glance(&mut self, data: u64) -> Glance<'_> {
        let place = usize::try_from(data).unwrap_or(usize::MAX);
        match self.words.as_mut().get_mut(place) {
            Some(word) if *word != NIL => Glance::Here(place, word),
            _ => Glance::Absent,
        }
    }

    #[inline]
    fn is_near(&self) -> bool {
        size_of_val(self.words.as_ref()) <= NEAR
    }

    #[inline]
    fn fetch(&self, data: u64) -> usize {
        let place = usize::try_from(data).unwrap_or(usize::MAX);
        if let Some(word) = self.words.as_ref().get(place) {
            fetch_to_read(word);
        }
        place
    }

    #[inline]
    fn spot(&self, begin: usize) -> usize {
        begin
    }

    #[inline]
    fn glance_at(&mut self, _: usize, data: u64) -> Glance<'_> {
        self.glance(data)
    }

    #[inline]
    fn put(&mut self, place: usize, word: u32) {
        if let Some(here) = self.words.as_mut().get_mut(place) {
            *here = word;
        }
    }

    #[inline]
    fn admits(&self, data: u64) -> Result<(), OutOfRange> {
        let ids = self.words.as_ref().len() as u64;
        if data < ids { Ok(()) } else { Err(OutOfRange { data, ids }) }
    }

    fn room(&self) -> usize {
        usize::MAX
    }

    fn numbers(&self) -> usize {
        usize::MAX
    }

    #[inline]
    fn enter(&mut self, data: u64, word: u32) -> usize {
        self.put(data as usize, word);
        data as usize
    }

    #[inline]
    fn remove_at(&mut self, place: usize, _: u64) {
        self.put(place, NIL);
    }

    fn clear(&mut self) {
        self.words.as_mut().fill(NIL);
    }
}
