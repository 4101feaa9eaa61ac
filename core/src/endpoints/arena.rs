//! The memory of all groups: a directory of slots, an index by key, and tables.
//!
//! One writer maintains it; readers may be in other processes and may have it mapped read-only, for they never write.
//! It holds no pointer, so it means the same wherever it is mapped. All numbers are 64-bit words, little-endian:
//!
//! ```text
//! header      8 words: magic "UMBE" u32 and version u32; words in all; slots u32 and index cells u32; version of the
//!             index (odd while it changes); 4 x 0
//! no group    8 words: a slot that never holds a group, which stands for all those beyond the last
//! directory   8 words, one cache line, a slot: { slot u32, generation u32 } { last rank, form, generation } { place }
//!             { private to the writer }, and four numbers; what look-ups make of them, see `lanes`
//! index       1 word a cell: { slot + 1 u32, tag u32 }, 0 where empty; a power of two of them
//! tables      from the next multiple of 8 words on
//! ```
//!
//! The first word of a slot is the handle of the group that it holds, or differs from every handle by [`FREE`]. The
//! writer changes it before it touches anything that the handle led to, and readers look at it after they have read;
//! the second word, its generation included, the writer changes when everything else is there, and readers look at it
//! first. So a reader gets data of exactly one generation or learns that its handle is stale.

use core::fmt;

use super::lanes::LANE_WORDS;
use super::layout::halves;
use super::lookup::LookupError;
use crate::atomic::{AtomicU64, Ordering};

pub(super) const MAGIC: u32 = u32::from_le_bytes(*b"UMBE");
pub(super) const VERSION: u32 = 4;
/// Words of the header and of the slot without a group.
pub(super) const HEADER_WORDS: usize = 16;
pub(super) const SLOT_WORDS: usize = 8;
/// Tables begin at lines of eight words.
pub(super) const LINE_WORDS: usize = 8;
/// The bit of a slot's first word that says that it holds no group; no slot has so high a number.
pub(super) const FREE: u64 = 1 << 31;
const INDEX_VERSION: usize = 3;

/// Why words are not an arena.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum ArenaError {
    /// The words do not start like an arena, or its writer has not finished making it.
    NotAnArena,
    /// Another version of the format.
    UnknownVersion(u32),
    /// There are fewer words than the header or the number of slots asks for.
    TooSmall {
        /// Words that are needed.
        needed: usize,
    },
    /// The header contradicts itself.
    Malformed,
}

impl fmt::Display for ArenaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ArenaError::NotAnArena => f.write_str("memory holds no endpoint arena: wait until its writer made it"),
            ArenaError::UnknownVersion(v) => write!(f, "endpoint arena has version {v}: this is version {VERSION}"),
            ArenaError::TooSmall { needed } => write!(f, "endpoint arena is too small: map {needed} words"),
            ArenaError::Malformed => f.write_str("header of the endpoint arena contradicts itself"),
        }
    }
}
impl core::error::Error for ArenaError {}

/// Positions of the arena's parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Plan {
    pub(super) slots: u32,
    pub(super) cells: u32,
    pub(super) index: usize,
    pub(super) tables: usize,
}

impl Plan {
    /// The parts of an arena with this many slots; `None` if it does not fit the address space.
    pub(super) fn new(slots: u32) -> Option<Plan> {
        let cells = slots.checked_mul(2)?.checked_next_power_of_two()?.max(2);
        let index = HEADER_WORDS.checked_add((slots as usize).checked_mul(SLOT_WORDS)?)?;
        let tables = index.checked_add(cells as usize)?.checked_next_multiple_of(LINE_WORDS)?;
        Some(Plan { slots, cells, index, tables })
    }
}

/// A slot, and its words by name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot<'a>(&'a [AtomicU64; SLOT_WORDS]);

impl<'a> Slot<'a> {
    pub(super) const fn state(self) -> &'a AtomicU64 {
        let [state, ..] = self.0;
        state
    }

    pub(super) const fn shape(self) -> &'a AtomicU64 {
        let [_, shape, ..] = self.0;
        shape
    }

    pub(super) const fn place(self) -> &'a AtomicU64 {
        let [_, _, place, ..] = self.0;
        place
    }

    pub(super) const fn private(self) -> &'a AtomicU64 {
        let [_, _, _, private, ..] = self.0;
        private
    }

    pub(super) const fn lanes(self) -> &'a [AtomicU64; LANE_WORDS] {
        let [_, _, _, _, lanes @ ..] = self.0;
        lanes
    }
}

/// The words of an arena, cut up; a view that both ends use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arena<'a> {
    pub(super) words: &'a [AtomicU64],
    pub(super) nobody: Slot<'a>,
    pub(super) slots: &'a [[AtomicU64; SLOT_WORDS]],
    pub(super) cells: &'a [AtomicU64],
}

impl<'a> Arena<'a> {
    /// Cuts up words that the writer laid out by `plan`.
    pub(super) fn cut(words: &'a [AtomicU64], plan: &Plan) -> Result<Arena<'a>, ArenaError> {
        let too_small = ArenaError::TooSmall { needed: plan.tables };
        let slots = words.get(HEADER_WORDS..plan.index).ok_or(too_small)?;
        let cells = words.get(plan.index..plan.index + plan.cells as usize).ok_or(too_small)?;
        let (header, _) = words.as_chunks();
        let [_, nobody, ..] = header else { return Err(too_small) };
        Ok(Arena { words, nobody: Slot(nobody), slots: slots.as_chunks().0, cells })
    }

    /// Checks the header of memory that another process may have written.
    pub(super) fn attach(words: &'a [AtomicU64]) -> Result<(Arena<'a>, Plan), ArenaError> {
        let word = |at: usize| words.get(at).map(load).ok_or(ArenaError::TooSmall { needed: HEADER_WORDS });
        let (magic, version) = halves(word(0)?);
        // ORDERING: pairs with the release fence before the magic in `Endpoints::create`.
        crate::atomic::fence(Ordering::Acquire);
        if magic != MAGIC {
            return Err(ArenaError::NotAnArena);
        }
        if version != VERSION {
            return Err(ArenaError::UnknownVersion(version));
        }
        let (slots, cells) = halves(word(2)?);
        let plan = Plan::new(slots).filter(|plan| plan.cells == cells).ok_or(ArenaError::Malformed)?;
        let total = usize::try_from(word(1)?).map_err(|_| ArenaError::Malformed)?;
        if total < plan.tables {
            return Err(ArenaError::Malformed);
        }
        let words = words.get(..total).ok_or(ArenaError::TooSmall { needed: total })?;
        Ok((Arena::cut(words, &plan)?, plan))
    }

    /// A slot of the directory.
    #[inline]
    pub(super) fn slot(&self, slot: u32) -> Option<Slot<'a>> {
        self.slots.get(slot as usize).map(Slot)
    }

    /// A slot of the directory, or the one without a group: for look-ups, which ask it for its group in any case.
    #[inline]
    pub(super) fn slot_or_nobody(&self, slot: u32) -> Slot<'a> {
        self.slot(slot).unwrap_or(self.nobody)
    }

    pub(super) fn index_version(&self) -> Result<&'a AtomicU64, LookupError> {
        self.words.get(INDEX_VERSION).ok_or(LookupError::Damaged)
    }
}

/// Reads a word. Never stronger than relaxed: only such loads may be made from memory that is mapped read-only.
#[inline]
pub(super) fn load(word: &AtomicU64) -> u64 {
    u64::from_le(word.load(Ordering::Relaxed))
}

/// Writes a word of whose order fences take care.
pub(super) fn store(word: &AtomicU64, value: u64) {
    word.store(value.to_le(), Ordering::Relaxed);
}
