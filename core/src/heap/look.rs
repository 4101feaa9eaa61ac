//! Looking at a heap: one block, all of them, and how much is free.

use core::fmt;

use crate::atomic::Ordering;

use super::class::{LARGE, SPAN};
use super::layout::Group;
use super::span;
use super::word::{Entry, FREE, OPEN, USED};
use super::{Block, BlockId, Heap};

/// Why there is no such block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum LookError {
    /// It was freed, or never allocated.
    Stale,
    /// The words say what cannot be: somebody wrote over them.
    Damaged,
}

impl fmt::Display for LookError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LookError::Stale => "no such block: it was freed",
            LookError::Damaged => "the words of the heap are damaged: make a new one",
        })
    }
}
impl core::error::Error for LookError {}

/// How much of a heap is used, as far as that can be told beside those who use it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Figures {
    /// Bytes that it manages.
    pub bytes: u64,
    /// Bytes that are free, for blocks of some size.
    pub free: u64,
    /// Bytes that were asked for by whoever has the blocks in use.
    pub asked: u64,
    /// Blocks in use.
    pub blocks: u64,
    /// Bytes of the longest block that could be allocated.
    pub longest_free: u64,
    /// Groups of blocks in use, each of one size.
    pub groups: u32,
    /// Groups that there are.
    pub most_groups: u32,
}

/// Kind and length of a block.
pub(super) const fn detail(word: u64) -> (u32, u64) {
    ((word >> 40) as u32, word & ((1 << 40) - 1))
}

impl<'a> Heap<'a> {
    /// What an entry's block is; `None` if the words contradict each other.
    ///
    /// Whoever then finds the entry as it was knows that the words were its own: they are stored with release after the entry
    /// was taken.
    #[inline]
    pub(super) fn describe(&self, group: &Group<'a>, slot: u32, entry: Entry) -> Option<Block> {
        let (sizes, bytes) = (self.parts.sizes, self.plan().bytes());
        let class = span::load(group).class();
        // ORDERING: acquire, here and below, so that who looks at the entry again does so afterwards. It pairs with the
        // release of whoever took the entry, or the group, for another block, and with that in `Hand::set_kind`.
        let (kind, len) = detail(group.detail(slot).load(Ordering::Acquire));
        let (offset, size) = if class < sizes.small() {
            let first = group.first().load(Ordering::Acquire);
            let size = sizes.size(class);
            (first.checked_mul(sizes.unit)?.checked_add(u64::from(slot) * size)?, size)
        } else {
            let run = group.run(slot).load(Ordering::Acquire);
            let size = sizes.unit.checked_shl((run >> 32) as u32)?;
            ((run & 0xffff_ffff).checked_mul(sizes.unit)?, size)
        };
        let is_inside = size != 0 && offset <= bytes && size <= bytes - offset && len <= size;
        is_inside.then_some(Block {
            id: BlockId::of(group, slot, entry),
            offset,
            len,
            size,
            kind,
            owner: entry.owner(),
        })
    }

    /// Where a block is, and what for.
    ///
    /// # Errors
    /// [`LookError`].
    #[inline]
    pub fn block(&self, id: BlockId) -> Result<Block, LookError> {
        let (group, slot, entry) = self.entry(id).ok_or(LookError::Stale)?;
        let block = self.describe(&group, slot, entry);
        // Freed meanwhile, its place may be another block's; with this id it is the same one, whoever owns it by now.
        self.entry(id).ok_or(LookError::Stale)?;
        block.ok_or(LookError::Damaged)
    }

    /// All allocated blocks: each was there at some instant during the call of `next` that gives it.
    pub fn blocks(&self) -> impl Iterator<Item = Block> + use<'a> {
        let heap = *self;
        let entries = self.parts.groups().flat_map(|group| (0..SPAN as u32).map(move |slot| (group, slot)));
        entries.filter_map(move |(group, slot)| {
            let entry = Entry(group.entry(slot).load(Ordering::Acquire));
            if entry.state() != USED {
                return None;
            }
            heap.block(BlockId::of(&group, slot, entry)).ok()
        })
    }

    /// How often blocks were taken since the heap was made, or got another id.
    ///
    /// *Cost*: one pass over all entries.
    #[must_use]
    pub fn uses(&self) -> u64 {
        let entries = self.parts.groups().flat_map(|group| (0..SPAN as u32).map(move |slot| group.entry(slot)));
        entries.fold(0, |sum, entry| sum.wrapping_add(Entry(entry.load(Ordering::Relaxed)).generation()))
    }

    /// How much is used; beside others it may mix what was and what is.
    ///
    /// *Cost*: one pass over the tree, and over the entries of the groups in use.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let sizes = self.parts.sizes;
        let (units, longest) = self.parts.runs.tree().free();
        let mut all = Figures { bytes: self.plan().bytes(), free: units * sizes.unit, ..Figures::default() };
        all.longest_free = longest.map_or(0, |order| sizes.unit << order);
        for group in self.parts.groups() {
            all.most_groups += 1;
            let state = span::load(&group);
            if state.state() != OPEN || state.class() > LARGE {
                continue;
            }
            all.groups += 1;
            for slot in span::bits(sizes.slots(state.class())) {
                match Entry(group.entry(slot).load(Ordering::Acquire)).state() {
                    FREE if state.class() < sizes.small() => {
                        let size = sizes.size(state.class());
                        all.free += size;
                        all.longest_free = all.longest_free.max(size);
                    }
                    USED => {
                        all.blocks += 1;
                        all.asked += detail(group.detail(slot).load(Ordering::Relaxed)).1;
                    }
                    _ => {}
                }
            }
        }
        all
    }
}
