//! Where everything lies in the lent words, and the checks of whoever attaches.
//!
//! In words: header (magic; contract, owners and bits of a count; slots; seed; interrupted), the hand of the eviction
//! at 16, filled up to 32; 16 words an owner; one word a bucket of the index; two words a slot (word and data);
//! one word a slot (the next one in its bucket); hints where slots are free.

use crate::atomic::{AtomicU64, Ordering};
use crate::cache::{Forgetting, Plain, Remembering};
use crate::crew::Crew;
use crate::shared_slots::Owner;

use super::error::AttachError;
use super::vacancy::{self, Vacancy};
use super::word::{COUNT_BITS, EMPTY};

const MAGIC: u64 = u64::from_le_bytes(*b"umbrshc3");
const CONTRACT: usize = 1;
const SLOTS: usize = 2;
const SEED: usize = 3;
const INTERRUPTED: usize = 4;
const HAND: usize = 16;
const HEADER: usize = 32;
/// Buckets of a line of the index.
pub(super) const LINE: usize = 8;
/// No slot.
pub(super) const NIL: u32 = u32::MAX;

/// How many processes share a cache, and how many references of each to one slot are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Sharing {
    owners: u8,
    bits: u8,
}

impl Sharing {
    /// For so many processes with so many references each (rounded up to all ones in binary); `None` if the counts
    /// of all of them need more than 40 bits, or if either is 0. 8 processes can have 31, 4 can have 1023.
    #[must_use]
    pub const fn new(owners: u8, references: u32) -> Option<Sharing> {
        let bits = (u32::BITS - references.leading_zeros()) as u8;
        if owners == 0 || owners > Owner::COUNT || bits == 0 || owners as u32 * bits as u32 > COUNT_BITS {
            return None;
        }
        Some(Sharing { owners, bits })
    }

    /// Processes that can use the cache at the same time.
    #[must_use]
    pub const fn owners(self) -> u8 {
        self.owners
    }

    /// References that a process can have to one slot.
    #[must_use]
    pub const fn references(self) -> u32 {
        ((1_u64 << self.bits) - 1) as u32
    }

    pub(super) const fn bits(self) -> u32 {
        self.bits as u32
    }
}

/// Contracts, with the number that the header names them by.
pub trait Contract: sealed::Numbered {}
impl Contract for Plain {}
impl Contract for Remembering {}
impl Contract for Forgetting {}
mod sealed {
    pub trait Numbered {
        const NUMBER: u8;
    }
    impl Numbered for super::Plain {
        const NUMBER: u8 = 1;
    }
    impl Numbered for super::Remembering {
        const NUMBER: u8 = 2;
    }
    impl Numbered for super::Forgetting {
        const NUMBER: u8 = 3;
    }
}

/// Words of memory that a cache of `slots` slots needs; `None` if that is too many (2^31).
#[must_use]
pub fn words_for(slots: usize, sharing: Sharing) -> Option<usize> {
    if slots >= 1 << 31 {
        return None;
    }
    let fixed = HEADER + Crew::words_for(sharing.owners as u16);
    Some(fixed + buckets(slots) + 2 * even(slots) + even(slots) + vacancy::words_for(slots))
}

/// Half of the buckets are empty when all slots are assigned: a search then looks at a slot and a quarter.
const fn buckets(slots: usize) -> usize {
    (2 * slots).next_multiple_of(LINE)
}

/// Filled up so that the next part begins at a line.
const fn even(slots: usize) -> usize {
    slots.next_multiple_of(LINE)
}

/// The parts, as one process looks at them; where they lie was checked and is not read again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts<'a> {
    header: &'a [AtomicU64; HEADER],
    pub(super) crew: Crew<'a>,
    pub(super) heads: &'a [AtomicU64],
    lines: usize,
    /// Word and data.
    pub(super) slots: &'a [[AtomicU64; 2]],
    pub(super) links: &'a [AtomicU64],
    pub(super) vacancy: Vacancy<'a>,
    pub(super) sharing: Sharing,
    seed: u64,
}

impl<'a> Parts<'a> {
    pub(super) fn create<C: Contract>(
        words: &'a [AtomicU64],
        slots: usize,
        sharing: Sharing,
        seed: u64,
    ) -> Result<Self, AttachError> {
        if slots == 0 {
            return Err(AttachError::NoSlots);
        }
        let parts = Self::cut(words, slots, sharing, seed)?;
        // Nobody attaches meanwhile.
        parts.header[0].store(0, Ordering::Release);
        parts.crew.disband();
        let zeroed = parts.header[1..].iter().chain(parts.slots.as_flattened());
        zeroed.for_each(|word| word.store(EMPTY, Ordering::Relaxed));
        parts.heads.iter().chain(parts.links).for_each(|word| word.store(u64::from(NIL), Ordering::Relaxed));
        parts.vacancy.fill(slots);
        let kind = u64::from(C::NUMBER) | u64::from(sharing.owners) << 8 | u64::from(sharing.bits) << 16;
        parts.header[CONTRACT].store(kind, Ordering::Relaxed);
        parts.header[SLOTS].store(slots as u64, Ordering::Relaxed);
        parts.header[SEED].store(seed, Ordering::Relaxed);
        // ORDERING: pairs with the load in `attach`.
        parts.header[0].store(MAGIC, Ordering::Release);
        Ok(parts)
    }

    pub(super) fn attach<C: Contract>(words: &'a [AtomicU64]) -> Result<Self, AttachError> {
        // ORDERING: pairs with the store in `create`.
        if words.len() < HEADER || words[0].load(Ordering::Acquire) != MAGIC {
            return Err(AttachError::NotACache);
        }
        let [contract, owners, bits, rest @ ..] = words[CONTRACT].load(Ordering::Relaxed).to_le_bytes();
        if contract != C::NUMBER {
            return Err(AttachError::WrongContract);
        }
        let bad = AttachError::BadSize { words: words.len() };
        let most = 1_u64.checked_shl(u32::from(bits)).and_then(|all| u32::try_from(all - 1).ok()).ok_or(bad)?;
        let sharing = Sharing::new(owners, most).filter(|_| rest == [0; 5]).ok_or(bad)?;
        let slots = usize::try_from(words[SLOTS].load(Ordering::Relaxed)).ok().filter(|&slots| slots > 0).ok_or(bad)?;
        Self::cut(words, slots, sharing, words[SEED].load(Ordering::Relaxed))
    }

    fn cut(words: &'a [AtomicU64], slots: usize, sharing: Sharing, seed: u64) -> Result<Self, AttachError> {
        let bad = AttachError::BadSize { words: words.len() };
        let words = words.get(..words_for(slots, sharing).ok_or(bad)?).ok_or(bad)?;
        let (header, words) = words.split_first_chunk().ok_or(bad)?;
        let (crew, words) = words.split_at(Crew::words_for(sharing.owners as u16));
        let (heads, words) = words.split_at(buckets(slots));
        let (pairs, words) = words.split_at(2 * even(slots));
        let (links, words) = words.split_at(even(slots));
        let (pairs, _) = pairs[..2 * slots].as_chunks();
        let vacancy = Vacancy::new(words, slots).ok_or(bad)?;
        let crew = Crew::attach(crew);
        let lines = heads.len() / LINE;
        Ok(Parts { header, crew, heads, lines, slots: pairs, links: &links[..slots], vacancy, sharing, seed })
    }

    #[inline]
    pub(super) fn is_interrupted(&self) -> bool {
        self.header[INTERRUPTED].load(Ordering::Relaxed) != 0
    }

    pub(super) fn interrupt(&self) {
        self.header[INTERRUPTED].store(1, Ordering::Relaxed);
    }

    /// Moves the hand of the eviction, and tells over which slot it was.
    pub(super) fn advance(&self) -> usize {
        (self.header[HAND].fetch_add(1, Ordering::Relaxed) % self.slots.len() as u64) as usize
    }

    /// The bucket of a data id; those of eight consecutive ids lie in one line.
    #[inline]
    pub(super) fn bucket(&self, data: u64) -> usize {
        let wide = u128::from((data / LINE as u64) ^ self.seed) * u128::from(0x9e37_79b9_7f4a_7c15_u64);
        // The upper half alone would be blind to what the ids' lower bits add, and the lower half to the upper bits.
        let mixed = (wide >> 64) as u64 ^ wide as u64;
        let line = (u128::from(mixed) * self.lines as u128) >> 64;
        line as usize * LINE + data as usize % LINE
    }
}
