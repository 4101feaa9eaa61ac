//! What is known of an input, and how inputs are named.

use super::error::{SubmitError, UsageError};
use crate::cache::slot::NIL;
use crate::cache::{Index, Line, Sparse};

/// The record of one input: how often it will be used, and where it is. 16 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Input {
    pub(super) slot: u32,
    /// The last of the references that wait for their turn; they form a circle.
    pub(super) queue: u32,
    /// Uses that no group has claimed yet.
    pub(super) unclaimed: u32,
    /// References that clients got one by one and give back one by one; the highest bit is a mark.
    pub(super) handed_over: u32,
}

/// Used any number of times.
pub(super) const UNBOUNDED: u32 = u32::MAX;
/// Not in the usage map.
const ABSENT: u32 = u32::MAX - 1;
/// The most uses that can be counted.
const MOST: u32 = u32::MAX - 2;
/// Marks a record while the members of a group are gone through, beside its references that are handed over.
pub(super) const MARK: u32 = 1 << 31;

impl Input {
    /// An input that no group may name.
    pub const NOT_USED: Self = Self::with(ABSENT);
    /// An input without a known number of uses: it stays until its slot is needed.
    pub const UNBOUNDED: Self = Self::with(UNBOUNDED);

    const fn with(unclaimed: u32) -> Self {
        Input { slot: NIL, queue: NIL, unclaimed, handed_over: 0 }
    }

    /// An input that is used this often.
    ///
    /// # Errors
    /// [`UsageError::TooMany`] beyond 2^32 - 3 uses.
    pub const fn used(times: u32) -> Result<Self, UsageError> {
        if times > MOST { Err(UsageError::TooMany) } else { Ok(Self::with(times)) }
    }

    /// Adds uses to what is known.
    pub(super) fn add(&mut self, times: u32) -> Result<(), UsageError> {
        match self.unclaimed {
            UNBOUNDED => {}
            ABSENT if times <= MOST => self.unclaimed = times,
            known => match known.checked_add(times) {
                Some(sum @ ..=MOST) if known != ABSENT => self.unclaimed = sum,
                _ => return Err(UsageError::TooMany),
            },
        }
        Ok(())
    }

    /// Claims one of the uses; whether it was the last one.
    #[inline]
    pub(super) fn claim(&mut self, data: u64) -> Result<bool, SubmitError> {
        match self.unclaimed {
            left @ 2..=MOST => self.unclaimed = left - 1,
            UNBOUNDED => {}
            1 => {
                self.unclaimed = 0;
                return Ok(true);
            }
            0 => return Err(SubmitError::UsageExhausted { data }),
            _ => return Err(SubmitError::UnknownData { data }),
        }
        Ok(false)
    }

    /// Claims one of the uses, unless it is the last one or there is none; whether it did.
    #[inline]
    pub(super) fn claim_one_of_many(&mut self) -> bool {
        // One comparison: more than can be counted with 31 bits is left to those who look closer.
        if self.unclaimed.cast_signed() > 1 {
            self.unclaimed -= 1;
            return true;
        }
        self.unclaimed == UNBOUNDED
    }

    /// Takes back the claim of a group that does not use the input.
    #[inline]
    pub(super) fn unclaim(&mut self) {
        // Beyond what can be counted it is forgotten: uses may have been added since.
        if self.unclaimed < MOST {
            self.unclaimed += 1;
        }
    }

    /// Whether so many more references can be handed over.
    pub(super) fn can_hand_over(&self, more: usize) -> bool {
        more < (MARK - self.handed_over) as usize
    }

    /// Uses in the map that no group has claimed.
    pub(super) fn left(&self) -> u32 {
        if self.unclaimed > MOST { 0 } else { self.unclaimed }
    }

    /// What a cache does to the record before it works with it.
    pub(super) fn clear(&mut self) {
        *self = Self::with(self.unclaimed);
    }
}

impl Default for Input {
    fn default() -> Self {
        Self::NOT_USED
    }
}

/// Counts the uses of one group into the records of numbered inputs; a pass over all groups makes the usage map.
///
/// # Errors
/// [`UsageError`]; members in front of the one that is refused are counted.
pub fn count(inputs: &mut [Input], group: &[u64]) -> Result<(), UsageError> {
    let have = inputs.len();
    for &data in group {
        let input = usize::try_from(data).ok().and_then(|at| inputs.get_mut(at));
        input.ok_or(UsageError::NoRecord { data, have })?.add(1)?;
    }
    Ok(())
}

/// From the id of an input to the number of its record, and back: no two ids have one number.
pub trait Names {
    /// The number, if the id has one.
    #[must_use]
    fn number(&self, data: u64) -> Option<u32>;

    /// The id with this number.
    #[must_use]
    fn data(&self, number: u32) -> Option<u64>;
}

/// Ids are numbers: input `n` has record `n`.
#[derive(Clone, Copy, Debug, Default)]
pub struct ByNumber;

impl Names for ByNumber {
    #[inline]
    fn number(&self, data: u64) -> Option<u32> {
        u32::try_from(data).ok()
    }

    #[inline]
    fn data(&self, number: u32) -> Option<u64> {
        Some(u64::from(number))
    }
}

/// Any ids, numbered in the order in which they were added.
#[derive(Clone, Debug)]
pub struct ById<W, K> {
    index: Sparse<W, K>,
    len: u32,
}

impl<W: AsRef<[Line]> + AsMut<[Line]>, K: AsRef<[u64]> + AsMut<[u64]>> ById<W, K> {
    /// No ids yet, room for as many as the index has room for.
    #[must_use]
    pub fn new(index: Sparse<W, K>) -> Self {
        ById { index, len: 0 }
    }

    /// The number of the id, a new one if it was not known.
    ///
    /// # Errors
    /// [`UsageError::NoRecord`] if there is no room for another id.
    pub fn add(&mut self, data: u64) -> Result<u32, UsageError> {
        if let Some(number) = self.number(data) {
            return Ok(number);
        }
        let have = self.index.room().min(self.index.numbers());
        let number = self.len;
        if number as usize >= have || number == NIL {
            return Err(UsageError::NoRecord { data, have });
        }
        self.index.enter(data, number);
        self.len += 1;
        Ok(number)
    }
}

impl<W: AsRef<[Line]> + AsMut<[Line]>, K: AsRef<[u64]> + AsMut<[u64]>> Names for ById<W, K> {
    #[inline]
    fn number(&self, data: u64) -> Option<u32> {
        self.index.find(data)
    }

    #[inline]
    fn data(&self, number: u32) -> Option<u64> {
        self.index.id(number).filter(|_| number < self.len)
    }
}
