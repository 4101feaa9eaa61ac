//! Hands out ranges of an address space it never touches.
//!
//! A two-level segregated-fit allocator over offsets `0..capacity`: the bytes may be anywhere (a mapped
//! segment, a region of another process, the memory of a device, nothing at all), because all bookkeeping lies in
//! lent [`Block`] records beside them, which hold indices and no pointers. One owner. The number of records bounds
//! the number of ranges, not their size: `n` ranges in use need at most `2n + 1` records, since two free ranges never
//! touch.
//!
//! ```
//! use umbra_core::memory::{AllocError, Block, Granule, Memory};
//! let mut memory = Memory::with_granule([Block::default(); 16], 1 << 20, Granule::new(16).unwrap());
//! let table = memory.alloc(1000)?;
//! let page = memory.alloc_aligned(4096, 4096)?;
//! assert_eq!((table.offset, table.len), (0, 1008));
//! assert_eq!((page.offset, page.len), (4096, 4096));
//! assert!(memory.free(table).is_ok());
//! assert!(memory.free(table).is_err(), "the second free is refused");
//! assert_eq!(memory.free_bytes(), (1 << 20) - 4096);
//! # Ok::<(), AllocError>(())
//! ```
//!
//! A range is freed by the [`Extent`] that came with it; [`Offsets`] frees by the offset alone. [`QuickFit`] keeps freed
//! ranges whole for requests of the same length, which takes half the time.
//!
//! Invariants: the records of state free or used tile `0..capacity` in order of `before`/`after`; two free
//! neighbours never touch; a free record is in the bin of exactly its length.
//!
//! *Cost*: `alloc` and `free` are O(1): two bit scans, at most two splits or two merges. [`PEEK`] free ranges of
//! the request's own bin are looked at before a longer one is cut, so what was freed is found again for the same
//! length; when no longer one is left, at most [`WALK`]. Waste: under one granule a range.
//!
//! Source: Masmano et al., "TLSF: a new dynamic memory allocator for real-time systems", ECRTS 2004; the look into
//! the own bin is ours.

pub(crate) mod bins;
mod block;
mod error;
mod figures;
mod fold;
mod offsets;
mod quick_fit;
mod spare;
mod starts;
mod tiles;
mod tiling;

pub use block::{Block, Extent, Granule};
pub use error::{AllocError, NotAllocated};
pub use figures::Figures;
pub use offsets::Offsets;
pub use quick_fit::QuickFit;
pub(crate) use tiling::{Tile, Tiling};

use crate::error::Stale;
use crate::id::Id;
use bins::{Bin, Bins, Links, NIL};
use block::State;
use fold::Fold;

/// Free ranges of the request's own bin that are looked at before a longer range is cut.
pub const PEEK: usize = 2;
/// Free ranges that are looked at before a request is refused.
pub const WALK: usize = 32;

/// The allocator.
#[derive(Clone, Debug)]
pub struct Memory<S> {
    blocks: S,
    bins: Bins,
    spare: u32,
    granule: Granule,
    capacity: u32,
    free: u32,
    used_ranges: u32,
    free_ranges: u32,
    /// The record of the range at offset 0.
    first: u32,
    /// Where records of ranges in use are put by their offset, if so.
    homes: Option<Fold>,
}

impl<S: AsRef<[Block]> + AsMut<[Block]>> Memory<S> {
    /// Manages `0..capacity` bytes in cache lines with the lent records, whatever these held before.
    ///
    /// As [`with_granule`](Self::with_granule) with [`Granule::LINE`].
    #[must_use]
    pub fn new(blocks: S, capacity: u64) -> Self {
        Memory::with_granule(blocks, capacity, Granule::LINE)
    }

    /// Manages `0..capacity` bytes with the lent records, whatever these held before.
    ///
    /// The capacity is rounded down to a multiple of the granule and cut at 2^32 - 2 granules. Without a record, or
    /// with less than one granule, every request is refused.
    #[must_use]
    pub fn with_granule(mut blocks: S, capacity: u64, granule: Granule) -> Self {
        let granules = u32::try_from(capacity >> granule.shift).unwrap_or(NIL - 1).min(NIL - 1);
        let records = blocks.as_mut();
        // NIL is no index, so at most NIL records are of use.
        let count = u32::try_from(records.len()).unwrap_or(NIL);
        for (index, block) in (0..count).zip(records.iter_mut()) {
            let next = if index + 1 < count { index + 1 } else { NIL };
            let generation = block.generation.next();
            // In front of the first is NIL, too.
            *block = Block { generation, links: Links { prev: index.wrapping_sub(1), next }, ..Block::default() };
        }
        let spare = if count == 0 { NIL } else { 0 };
        let (free, used_ranges, free_ranges) = (0, 0, 0);
        let (bins, capacity, first) = (Bins::EMPTY, granules, spare);
        let mut memory =
            Memory { blocks, bins, spare, granule, capacity, free, used_ranges, free_ranges, first, homes: None };
        if granules > 0
            && let Some(all) = memory.take_record()
        {
            memory.at(all).len = granules;
            memory.at(all).state = State::Free;
            memory.free = granules;
            memory.link(all);
        }
        memory
    }

    /// Bytes managed.
    #[must_use]
    pub fn capacity_bytes(&self) -> u64 {
        self.granule.of(self.capacity)
    }

    /// Granules managed.
    pub(crate) fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Bytes free, in all ranges together.
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        self.granule.of(self.free)
    }

    /// The unit of all offsets and lengths.
    #[must_use]
    pub fn granule(&self) -> Granule {
        self.granule
    }

    /// Takes a range of at least `len` bytes, aligned to the granule; of a free range its lower end.
    ///
    /// # Errors
    /// [`AllocError`]; nothing has changed then.
    #[inline]
    pub fn alloc(&mut self, len: u64) -> Result<Extent, AllocError> {
        let granules = self.granules(len)?;
        match self.find(granules) {
            Some(found) => self.cut(found, 0, granules).ok_or(AllocError::NoRecord),
            None => Err(self.refusal(len)),
        }
    }

    /// Takes a range of at least `len` bytes whose offset is a multiple of `align`, a power of two.
    ///
    /// What lies in front of the range in the same free range stays free.
    ///
    /// # Errors
    /// [`AllocError`]; nothing has changed then.
    pub fn alloc_aligned(&mut self, len: u64, align: u64) -> Result<Extent, AllocError> {
        if !align.is_power_of_two() {
            return Err(AllocError::BadAlign { align });
        }
        if align <= self.granule.bytes() {
            return self.alloc(len);
        }
        let granules = self.granules(len)?;
        let align = self.granules_of(align);
        let (records, bins) = (self.blocks.as_ref(), &self.bins);
        let fits = |block: &Block| block.fits(granules, align);
        // A range with room for the widest gap fits for sure; failing that, some of all that may.
        let ample = granules.checked_add(align - 1).and_then(|ample| bins.find(records, ample, PEEK));
        let found = ample.filter(|&at| records.get(at as usize).is_some_and(fits)).or_else(|| {
            if align >= self.capacity {
                // Offset 0 alone will do.
                let first = records.get(self.first as usize).filter(|first| first.state == State::Free && fits(first));
                return first.map(|_| self.first);
            }
            self.search(granules, align, WALK)
        });
        self.cut_aligned(found, len, granules, align)
    }

    /// [`alloc_aligned`](Self::alloc_aligned) for who was told there that memory is scattered: looks at all free ranges that may be
    /// long enough, each once.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn alloc_any(&mut self, len: u64, align: u64) -> Result<Extent, AllocError> {
        let (granules, align) = (self.granules(len)?, self.granules_of(align));
        // One more than there are, because the first bin may be empty.
        let found = self.search(granules, align, self.blocks.as_ref().len() + 1);
        self.cut_aligned(found, len, granules, align)
    }

    /// An alignment in granules: what is no number of them is wider than the memory, as this is.
    fn granules_of(&self, align: u64) -> u32 {
        self.granule.holding(align).unwrap_or(NIL)
    }

    /// A free range with room for an aligned one, among at most so many of each bin, and of so many bins.
    fn search(&self, granules: u32, align: u32, most: usize) -> Option<u32> {
        let mut bin = Some(Bin::of(granules));
        for _ in 0..most {
            let found = self.bins.walk(self.blocks.as_ref(), bin?, most, |block| block.fits(granules, align));
            if found.is_some() {
                return found;
            }
            bin = self.bins.above(bin?);
        }
        None
    }

    /// Takes an aligned range out of the free one that was found, which has room for it.
    fn cut_aligned(&mut self, found: Option<u32>, len: u64, granules: u32, align: u32) -> Result<Extent, AllocError> {
        let Some(found) = found else { return Err(self.refusal(len)) };
        let gap = self.get(found).gap(align).unwrap_or(0);
        self.cut(found, gap, granules).ok_or(AllocError::NoRecord)
    }

    /// Gives a range back; it is merged with free neighbours.
    ///
    /// # Errors
    /// [`Stale`] if the range is not in use (any more); nothing has changed then.
    #[inline]
    pub fn free(&mut self, extent: Extent) -> Result<(), Stale> {
        self.free_block(extent.block)
    }

    /// Gives the range of this record back.
    ///
    /// # Errors
    /// [`Stale`] if it is not in use (any more); nothing has changed then.
    #[inline]
    pub fn free_block(&mut self, block: Id<Block>) -> Result<(), Stale> {
        self.used(block)?;
        self.release(block.index());
        Ok(())
    }

    /// The range of a record in use.
    ///
    /// # Errors
    /// [`Stale`] if the record's range was given back.
    pub fn look_up(&self, block: Id<Block>) -> Result<Extent, Stale> {
        self.used(block)?;
        Ok(self.extent(block.index()))
    }

    /// A free range of this length at least, the shortest as a rule.
    #[inline]
    pub(crate) fn find(&self, granules: u32) -> Option<u32> {
        let records = self.blocks.as_ref();
        self.bins.find(records, granules, PEEK).or_else(|| {
            let own = Bin::of(granules);
            self.bins.walk(records, own, WALK, |block| block.len >= granules)
        })
    }

    fn used(&self, id: Id<Block>) -> Result<(), Stale> {
        let block = self.blocks.as_ref().get(id.index() as usize).ok_or(Stale)?;
        if block.state == State::Used && block.generation == id.generation() { Ok(()) } else { Err(Stale) }
    }

    fn extent(&self, index: u32) -> Extent {
        let block = self.get(index);
        let (offset, len) = (self.granule.of(block.start), self.granule.of(block.len));
        Extent { offset, len, block: Id::new(index, block.generation) }
    }

    /// The length of a request in granules, if it can ever be met.
    #[inline]
    pub(crate) fn granules(&self, len: u64) -> Result<u32, AllocError> {
        let too_large = AllocError::TooLarge { len, capacity: self.capacity_bytes() };
        match self.granule.holding(len) {
            Some(0) => Err(AllocError::ZeroSize),
            Some(granules) if granules <= self.capacity => Ok(granules),
            _ => Err(too_large),
        }
    }

    #[cold]
    fn refusal(&self, len: u64) -> AllocError {
        let Figures { free, largest, .. } = self.figures();
        if len > free { AllocError::OutOfMemory { len, free } } else { AllocError::Fragmented { len, free, largest } }
    }
}
