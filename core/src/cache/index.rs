//! From the id of data to a number: its slot, or its record.
//!
//! Two forms. [`Dense`] is an array: ids are coordinates, below its length. [`Sparse`] takes any id: an open
//! table of 8-byte places, where eight consecutive ids lie side by side in one line, so that a sweep over
//! neighbouring ids touches a line once. Removal shifts followers back, so the table does not age and is never
//! rebuilt.
//!
//! *Cost*: `Dense` reads one word of 4 bytes. `Sparse` reads one line as a rule, and runs on to the next empty
//! place; at 0.61 filled that is a line and a half. 4 bytes an id, or 8 bytes a place.

use core::fmt;

use super::slot::NIL;

/// Where a number is found by the id of data.
pub trait Index: Sealed {
    /// Whether a number is found without a look at its record: then what a hit changes may be kept beside the number.
    const COUNTS: bool;

    /// Where the number of `data` stands, until another one is taken out, and the number; `is` tells whether a candidate
    /// is really that of `data`.
    #[must_use]
    fn look(&self, data: u64, is: impl Fn(u32) -> bool) -> Option<(usize, u32)>;

    /// The number of `data`.
    #[inline]
    #[must_use]
    fn find(&self, data: u64, is: impl Fn(u32) -> bool) -> Option<u32> {
        self.look(data, is).map(|(_, number)| number)
    }

    /// The number that stands there.
    #[must_use]
    fn at(&self, place: usize) -> Option<u32>;

    /// Puts another number there, or more beside it.
    fn put(&mut self, place: usize, number: u32);

    /// Whether `data` can be entered at all.
    ///
    /// # Errors
    /// [`OutOfRange`] if its id is too large for this index.
    fn admits(&self, data: u64) -> Result<(), OutOfRange>;

    /// How many numbers there is room for, whatever their ids are.
    #[must_use]
    fn room(&self) -> usize;

    /// Enters the number of `data`, which is not in yet.
    ///
    /// The caller has asked [`Index::admits`], and enters no more than [`Index::room`].
    fn enter(&mut self, data: u64, number: u32);

    /// Takes out `data`, which was entered with this number.
    fn remove(&mut self, data: u64, number: u32);

    /// Takes out everything.
    fn clear(&mut self);
}

use sealed::Sealed;
mod sealed {
    pub trait Sealed {}
    impl<S> Sealed for super::Dense<S> {}
    impl<S> Sealed for super::Sparse<S> {}
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

/// An array of numbers by id, over lent words.
#[derive(Clone, Debug)]
pub struct Dense<S> {
    numbers: S,
}

impl<S: AsRef<[u32]> + AsMut<[u32]>> Dense<S> {
    /// An empty index for ids below the number of lent words, whatever these held before.
    #[must_use]
    pub fn new(numbers: S) -> Self {
        let mut index = Dense { numbers };
        index.clear();
        index
    }
}

impl<S: AsRef<[u32]> + AsMut<[u32]>> Index for Dense<S> {
    const COUNTS: bool = true;

    #[inline]
    fn look(&self, data: u64, _: impl Fn(u32) -> bool) -> Option<(usize, u32)> {
        let place = usize::try_from(data).ok()?;
        Some((place, self.at(place)?))
    }

    #[inline]
    fn at(&self, place: usize) -> Option<u32> {
        self.numbers.as_ref().get(place).copied().filter(|&number| number != NIL)
    }

    #[inline]
    fn put(&mut self, place: usize, number: u32) {
        if let Some(here) = self.numbers.as_mut().get_mut(place) {
            *here = number;
        }
    }

    #[inline]
    fn admits(&self, data: u64) -> Result<(), OutOfRange> {
        let ids = self.numbers.as_ref().len() as u64;
        if data < ids { Ok(()) } else { Err(OutOfRange { data, ids }) }
    }

    fn room(&self) -> usize {
        usize::MAX
    }

    #[inline]
    fn enter(&mut self, data: u64, number: u32) {
        self.put(data as usize, number);
    }

    #[inline]
    fn remove(&mut self, data: u64, _: u32) {
        self.enter(data, NIL);
    }

    fn clear(&mut self) {
        self.numbers.as_mut().fill(NIL);
    }
}

/// Places of a line.
const LINE: u64 = 8;
/// A place without an entry. No number is [`NIL`], so this is none.
const EMPTY: u64 = u64::MAX;
/// Bits of the hash that tell lines apart.
const HASH_BITS: u32 = 29;

/// A table from any id to its number, over lent words.
///
/// A place holds the number and 32 bits of the id's hash; the whole id is with the number.
#[derive(Clone, Debug)]
pub struct Sparse<S> {
    places: S,
    /// An odd number that lines are multiplied with.
    factor: u64,
}

impl<S: AsRef<[u64]> + AsMut<[u64]>> Sparse<S> {
    /// An empty index, whatever the words held before. It has [room](Index::room) for 7/8 of whole lines of eight
    /// words; two thirds make it fast. Without ids that others choose any seed will do.
    #[must_use]
    pub fn new(places: S, seed: u64) -> Self {
        let factor = (seed ^ 0x9e37_79b9_7f4a_7c15) | 1;
        let mut index = Sparse { places, factor };
        index.clear();
        index
    }

    fn len(&self) -> usize {
        self.places.as_ref().len() & !(LINE as usize - 1)
    }

    /// 29 bits of hash for the line, 3 bits of the id for the place in it.
    #[inline]
    fn tag(&self, data: u64) -> u32 {
        let mixed = (data / LINE).wrapping_mul(self.factor);
        // The upper half alone would be blind to what the ids' upper bits add.
        let mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        ((mixed >> (64 - HASH_BITS)) * LINE + data % LINE) as u32
    }

    #[inline]
    fn home(&self, tag: u32) -> usize {
        let lines = (self.len() as u64) / LINE;
        let line = (u64::from(tag) / LINE * lines) >> HASH_BITS;
        (line * LINE + u64::from(tag) % LINE) as usize
    }

    #[inline]
    fn after(&self, at: usize) -> usize {
        if at + 1 == self.len() { 0 } else { at + 1 }
    }

    fn place(&self, tag: u32, number: u32) -> Option<usize> {
        let wanted = u64::from(tag) << 32 | u64::from(number);
        let mut at = self.home(tag);
        for _ in 0..self.len() {
            match *self.places.as_ref().get(at)? {
                EMPTY => return None,
                place if place == wanted => return Some(at),
                _ => at = self.after(at),
            }
        }
        None
    }
}

impl<S: AsRef<[u64]> + AsMut<[u64]>> Index for Sparse<S> {
    const COUNTS: bool = false;

    #[inline]
    fn look(&self, data: u64, is: impl Fn(u32) -> bool) -> Option<(usize, u32)> {
        let tag = self.tag(data);
        let mut at = self.home(tag);
        for _ in 0..self.len() {
            let place = *self.places.as_ref().get(at)?;
            if place == EMPTY {
                return None;
            }
            if (place >> 32) as u32 == tag && is(place as u32) {
                return Some((at, place as u32));
            }
            at = self.after(at);
        }
        None
    }

    #[inline]
    fn at(&self, place: usize) -> Option<u32> {
        self.places.as_ref().get(place).filter(|&&place| place != EMPTY).map(|&place| place as u32)
    }

    fn put(&mut self, place: usize, word: u32) {
        if let Some(here) = self.places.as_mut().get_mut(place) {
            *here = *here >> 32 << 32 | u64::from(word);
        }
    }

    #[inline]
    fn admits(&self, _: u64) -> Result<(), OutOfRange> {
        Ok(())
    }

    fn room(&self) -> usize {
        self.len() - self.len() / LINE as usize
    }

    fn enter(&mut self, data: u64, number: u32) {
        let tag = self.tag(data);
        let mut at = self.home(tag);
        for _ in 0..self.len() {
            let next = self.after(at);
            match self.places.as_mut().get_mut(at) {
                Some(place) if *place == EMPTY => {
                    *place = u64::from(tag) << 32 | u64::from(number);
                    return;
                }
                _ => at = next,
            }
        }
    }

    fn remove(&mut self, data: u64, number: u32) {
        let Some(mut hole) = self.place(self.tag(data), number) else { return };
        let places = self.len();
        let mut at = hole;
        for _ in 0..places {
            at = self.after(at);
            let follower = self.places.as_ref()[at];
            if follower == EMPTY {
                break;
            }
            let home = self.home((follower >> 32) as u32);
            // How far the follower is from home, and from the hole; around the end of the table.
            let distance = |from: usize| if at >= from { at - from } else { at + places - from };
            if distance(home) >= distance(hole) {
                self.places.as_mut()[hole] = follower;
                hole = at;
            }
        }
        self.places.as_mut()[hole] = EMPTY;
    }

    fn clear(&mut self) {
        self.places.as_mut().fill(EMPTY);
    }
}
