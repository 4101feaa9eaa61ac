//! A memory that keeps freed ranges whole for requests of the same length.
//!
//! Programs ask for the same lengths again and again. [`QuickFit`] puts a range that is freed on the list of its
//! length, where the next request of that length finds it: nothing is joined and nothing cut, and neither a bin nor a
//! neighbour is touched. When the memory beneath has no room, everything that is kept is joined with what is free
//! around it, and the request is tried once more; so a request is refused only if nothing that is free is long enough.
//!
//! ```
//! use umbra_core::memory::{AllocError, Block, Granule, Memory, QuickFit};
//! let memory = Memory::with_granule([Block::default(); 16], 1 << 10, Granule::new(16).unwrap());
//! // Lists for lengths up to 8 granules, and at most 4 ranges on them.
//! let mut memory = QuickFit::new(memory, [QuickFit::NO_RANGE; 8], 4);
//! let header = memory.alloc(40)?;
//! assert!(memory.free(header).is_ok());
//! assert!(memory.free(header).is_err(), "the second free is refused");
//! assert_eq!((memory.kept(), memory.alloc(48)?.offset), (1, header.offset));
//! # Ok::<(), AllocError>(())
//! ```
//!
//! Invariants: a kept range is one in use to the memory beneath, but for its state, and under a generation that nobody was
//! given; it is on the list of exactly its length.
//!
//! *Cost*: `alloc` and `free` of a length that has a list touch the list and one record; otherwise they are those of
//! [`Memory`]. An `alloc` that finds no room frees all that is kept, and looks at each list: one such call may take as long
//! as so many frees, and the bound on the number of kept ranges bounds that. Spread over the frees that kept the ranges it is
//! O(1) for each, and a look at each list for those who find no room. Who needs a bound on single calls lends fewer lists
//! and keeps fewer ranges, or takes [`Memory`]. Four bytes a list.
//!
//! Source: Weinstock and Wulf, "Quick Fit: an efficient algorithm for heap storage allocation", SIGPLAN Notices 23(10),
//! 1988.

use super::bins::NIL;
use super::block::State;
use super::{AllocError, Block, Extent, Figures, Memory};
use crate::error::Stale;
use crate::id::Id;

/// The part of the memory that is kept at most: one in so many granules.
const KEPT_PART: u32 = 16;

/// The allocator; `S` lends the records, `L` a word for each length, in granules from 1 on.
#[derive(Clone, Debug)]
pub struct QuickFit<S, L> {
    pub(super) memory: Memory<S>,
    lists: L,
    kept: u32,
    kept_granules: u32,
    most: u32,
    most_granules: u32,
}

impl QuickFit<(), ()> {
    /// A list without a range: what the lent words hold at first.
    pub const NO_RANGE: u32 = NIL;
}

impl<S: AsRef<[Block]> + AsMut<[Block]>, L: AsRef<[u32]> + AsMut<[u32]>> QuickFit<S, L> {
    /// Keeps at most so many ranges of this memory, and at most a sixteenth of its bytes, on the lent lists, whatever
    /// these held before.
    #[must_use]
    pub fn new(memory: Memory<S>, mut lists: L, most: u32) -> Self {
        lists.as_mut().fill(NIL);
        let most_granules = memory.capacity / KEPT_PART;
        QuickFit { memory, lists, kept: 0, kept_granules: 0, most, most_granules }
    }

    /// The memory beneath. What is kept is in use there.
    #[must_use]
    pub fn memory(&self) -> &Memory<S> {
        &self.memory
    }

    /// Ranges that were freed and are kept whole.
    #[must_use]
    pub fn kept(&self) -> u32 {
        self.kept
    }

    /// How full the memory is, and how scattered, with what is kept counted as free.
    ///
    /// Kept ranges are not joined with what is free around them, so free ranges may touch, and a longer range than
    /// `largest` may be had; after [`settle`](Self::settle) all is as [`Memory::figures`] says. While ranges are kept, each
    /// list may be looked at.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let Figures { capacity, free, largest, used_ranges, free_ranges } = self.memory.figures();
        let granule = self.memory.granule;
        let free = free + granule.of(self.kept_granules);
        let longest = if self.kept > 0 { self.lists.as_ref().iter().rposition(|&list| list != NIL) } else { None };
        let largest = longest.map_or(largest, |at| largest.max(granule.of(at as u32 + 1)));
        let (used_ranges, free_ranges) = (used_ranges - self.kept, free_ranges + self.kept);
        Figures { capacity, free, largest, used_ranges, free_ranges }
    }

    /// Takes a range of at least `len` bytes, aligned to the granule: one that is kept, or else as [`Memory::alloc`].
    ///
    /// # Errors
    /// [`AllocError`]; nothing has changed then but that nothing is kept.
    #[inline]
    pub fn alloc(&mut self, len: u64) -> Result<Extent, AllocError> {
        let granules = self.memory.granules(len)?;
        if let Some(list) = self.lists.as_mut().get_mut(granules as usize - 1)
            && let Some(block) = self.memory.blocks.as_ref().get(*list as usize)
        {
            let kept = core::mem::replace(list, block.links.next);
            self.kept -= 1;
            self.kept_granules -= granules;
            self.memory.at(kept).state = State::Used;
            return Ok(self.memory.extent(kept));
        }
        self.memory.alloc(len).or_else(|error| self.again(error, |memory| memory.alloc(len)))
    }

    /// Takes a range as [`Memory::alloc_aligned`].
    ///
    /// # Errors
    /// [`AllocError`]; nothing has changed then but that nothing is kept.
    pub fn alloc_aligned(&mut self, len: u64, align: u64) -> Result<Extent, AllocError> {
        if align.is_power_of_two() && align <= self.memory.granule.bytes() {
            return self.alloc(len);
        }
        self.memory
            .alloc_aligned(len, align)
            .or_else(|error| self.again(error, |memory| memory.alloc_aligned(len, align)))
    }

    #[cold]
    fn again(
        &mut self,
        error: AllocError,
        alloc: impl FnOnce(&mut Memory<S>) -> Result<Extent, AllocError>,
    ) -> Result<Extent, AllocError> {
        let retry =
            matches!(error, AllocError::OutOfMemory { .. } | AllocError::Fragmented { .. } | AllocError::NoRecord);
        if self.kept == 0 || !retry {
            return Err(error);
        }
        self.settle();
        alloc(&mut self.memory)
    }

    /// Gives a range back, which is kept or joined with what is free around it.
    ///
    /// # Errors
    /// [`Stale`] if the range is not in use (any more); nothing has changed then.
    #[inline]
    pub fn free(&mut self, extent: Extent) -> Result<(), Stale> {
        self.free_block(extent.block)
    }

    /// Gives a range back and joins it with what is free around it at once, for others who wait for longer ones.
    ///
    /// # Errors
    /// [`Stale`] if the range is not in use (any more); nothing has changed then.
    #[inline]
    pub fn free_joined(&mut self, extent: Extent) -> Result<(), Stale> {
        self.memory.free(extent)
    }

    /// Gives the range of this record back, as [`free`](Self::free).
    ///
    /// # Errors
    /// [`Stale`] if it is not in use (any more); nothing has changed then.
    #[inline]
    pub fn free_block(&mut self, block: Id<Block>) -> Result<(), Stale> {
        self.memory.used(block)?;
        self.give_back(block.index());
        Ok(())
    }

    /// Gives the range of a record in use back; tells its length in granules.
    #[inline]
    pub(super) fn give_back(&mut self, index: u32) -> u32 {
        let len = self.memory.get(index).len;
        let room = self.kept < self.most && len <= self.most_granules - self.kept_granules;
        match self.lists.as_mut().get_mut(len as usize - 1).filter(|_| room) {
            Some(list) => {
                let next = core::mem::replace(list, index);
                let record = self.memory.at(index);
                (record.generation, record.state, record.links.next) = (record.generation.next(), State::Kept, next);
                self.kept += 1;
                self.kept_granules += len;
            }
            None => {
                self.memory.release(index);
            }
        }
        len
    }

    /// The range of a record in use.
    ///
    /// # Errors
    /// [`Stale`] if the record's range was given back.
    pub fn look_up(&self, block: Id<Block>) -> Result<Extent, Stale> {
        self.memory.look_up(block)
    }

    /// Joins all that is kept with what is free around it.
    pub fn settle(&mut self) {
        for list in self.lists.as_mut() {
            while let Some(block) = self.memory.blocks.as_ref().get(*list as usize) {
                let kept = core::mem::replace(list, block.links.next);
                self.memory.release(kept);
            }
        }
        (self.kept, self.kept_granules) = (0, 0);
    }
}
