//! A memory whose ranges are named by their offset alone.
//!
//! `alloc(length) -> offset` and `free(offset)`, for callers that keep no [`Extent`]. The way back
//! from an offset to its record is one lent word a granule, which is believed only if the record says the same: the
//! words need no initial value.
//!
//! ```
//! use umbra_core::memory::{Block, Granule, NotAllocated, Offsets};
//! let mut memory = Offsets::new([Block::default(); 16], [0; 45], 45, Granule::BYTE);
//! let [a, b] = [memory.alloc(40)?, memory.alloc(5)?];
//! assert_eq!((a, b), (0, 40));
//! assert_eq!(memory.free(b), Ok(5));
//! assert_eq!(memory.free(b), Err(NotAllocated { offset: 40 }));
//! # Ok::<(), umbra_core::memory::AllocError>(())
//! ```
//!
//! *Cost*: that of [`Memory`], or with lists that of [`QuickFit`]; and one line of the lent words.

use super::bins::NIL;
use super::block::State;
use super::{AllocError, Block, Extent, Figures, Granule, Memory, NotAllocated, QuickFit};
use crate::error::Stale;

/// A range, free or in use, and the records of its neighbours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tile {
    pub(crate) start: u32,
    pub(crate) len: u32,
    pub(crate) free: bool,
    pub(crate) before: u32,
    pub(crate) after: u32,
}

/// The allocator; `S` lends the records, `T` a word for each granule, and `L` one for each length of which freed ranges
/// are kept, which is none if nothing is said.
#[derive(Clone, Debug)]
pub struct Offsets<S, T, L = [u32; 0]> {
    memory: QuickFit<S, L>,
    starts: T,
}

impl<S: AsRef<[Block]> + AsMut<[Block]>, T: AsRef<[u32]> + AsMut<[u32]>> Offsets<S, T> {
    /// Manages `0..capacity` bytes, but no more than there are words for the granules.
    ///
    /// Otherwise as [`Memory::with_granule`].
    #[must_use]
    pub fn new(blocks: S, starts: T, capacity: u64, granule: Granule) -> Self {
        Offsets::with_lists(blocks, starts, capacity, granule, [], 0)
    }
}

impl<S, T, L> Offsets<S, T, L>
where
    S: AsRef<[Block]> + AsMut<[Block]>,
    T: AsRef<[u32]> + AsMut<[u32]>,
    L: AsRef<[u32]> + AsMut<[u32]>,
{
    /// As [`Offsets::new`], and keeps at most so many freed ranges on the lent lists as [`QuickFit`] does.
    #[must_use]
    pub fn with_lists(blocks: S, starts: T, capacity: u64, granule: Granule, lists: L, most: u32) -> Self {
        let words = (starts.as_ref().len() as u64).saturating_mul(granule.bytes());
        let memory = Memory::with_granule(blocks, capacity.min(words), granule);
        Offsets { memory: QuickFit::new(memory, lists, most), starts }
    }

    /// What is managed: capacity, granule, and figures in which what is kept is in use.
    #[must_use]
    pub fn memory(&self) -> &Memory<S> {
        &self.memory.memory
    }

    /// [`QuickFit::figures`].
    #[must_use]
    pub fn figures(&self) -> Figures {
        self.memory.figures()
    }

    /// Takes a range as [`QuickFit::alloc`], and gives its offset in bytes.
    ///
    /// # Errors
    /// [`AllocError`]; nothing has changed then but that nothing is kept.
    #[inline]
    pub fn alloc(&mut self, len: u64) -> Result<u64, AllocError> {
        let extent = self.memory.alloc(len)?;
        Ok(self.note(extent))
    }

    /// Takes a range as [`QuickFit::alloc_aligned`], and gives its offset in bytes.
    ///
    /// # Errors
    /// [`AllocError`]; nothing has changed then but that nothing is kept.
    pub fn alloc_aligned(&mut self, len: u64, align: u64) -> Result<u64, AllocError> {
        let extent = self.memory.alloc_aligned(len, align)?;
        Ok(self.note(extent))
    }

    /// Gives the range that starts at this offset back, and tells its length in bytes.
    ///
    /// # Errors
    /// [`NotAllocated`] if no range in use starts there; nothing has changed then.
    #[inline]
    pub fn free(&mut self, offset: u64) -> Result<u64, NotAllocated> {
        self.free_by(offset, QuickFit::free)
    }

    /// The same, and joins the range with what is free around it, as [`QuickFit::free_joined`] does.
    ///
    /// # Errors
    /// [`NotAllocated`] if no range in use starts there; nothing has changed then.
    pub fn free_joined(&mut self, offset: u64) -> Result<u64, NotAllocated> {
        self.free_by(offset, QuickFit::free_joined)
    }

    #[inline]
    fn free_by(
        &mut self,
        offset: u64,
        free: impl FnOnce(&mut QuickFit<S, L>, Extent) -> Result<(), Stale>,
    ) -> Result<u64, NotAllocated> {
        let extent = self.look_up(offset)?;
        free(&mut self.memory, extent).map_err(|_| NotAllocated { offset })?;
        // To the records a kept range is still in use, so no word may lead to it.
        self.lead(offset, NIL);
        Ok(extent.len)
    }

    /// The range that starts at this offset.
    ///
    /// # Errors
    /// [`NotAllocated`] if no range in use starts there.
    #[inline]
    pub fn look_up(&self, offset: u64) -> Result<Extent, NotAllocated> {
        let memory = self.memory();
        let start = self.starts.as_ref().get(self.word_of(offset));
        let found = start.and_then(|&index| Some((index, memory.blocks.as_ref().get(index as usize)?)));
        let (index, _) = found
            .filter(|(_, block)| block.state == State::Used && memory.granule.of(block.start) == offset)
            .ok_or(NotAllocated { offset })?;
        Ok(memory.extent(index))
    }

    /// Which word is that of the granule at this offset.
    #[inline]
    fn word_of(&self, offset: u64) -> usize {
        usize::try_from(offset >> self.memory().granule.shift).unwrap_or(usize::MAX)
    }

    /// Takes the lower end of a free range; `None` if it is none, is too short, or if records lack.
    pub(crate) fn take_at(&mut self, index: u32, granules: u32) -> Option<Extent> {
        let block = self.memory.memory.blocks.as_ref().get(index as usize)?;
        if block.state != State::Free || block.len < granules {
            return None;
        }
        let extent = self.memory.memory.cut(index, 0, granules)?;
        self.note(extent);
        Some(extent)
    }

    /// Frees the range of a record in use; gives the record of the free range that it is part of now.
    pub(crate) fn release_at(&mut self, index: u32) -> u32 {
        debug_assert!(self.memory.memory.get(index).state == State::Used);
        self.memory.memory.release(index)
    }

    /// The record of the range in use that starts at this granule.
    pub(crate) fn starting_at(&self, granule: u32) -> Option<u32> {
        self.look_up(self.memory().granule.of(granule)).ok().map(|extent| extent.block.index())
    }

    /// The record of the range at offset 0.
    pub(crate) fn first(&self) -> u32 {
        self.memory.memory.first
    }

    /// What the tiles of the memory look like at this record.
    pub(crate) fn tile(&self, index: u32) -> Tile {
        let &Block { start, len, state, before, after, .. } = self.memory.memory.get(index);
        Tile { start, len, free: state == State::Free, before, after }
    }

    #[inline]
    fn note(&mut self, extent: Extent) -> u64 {
        self.lead(extent.offset, extent.block.index());
        extent.offset
    }

    /// Has the word of an offset lead to a record.
    #[inline]
    fn lead(&mut self, offset: u64, record: u32) {
        let at = self.word_of(offset);
        if let Some(start) = self.starts.as_mut().get_mut(at) {
            *start = record;
        }
    }
}
