//! A memory whose ranges are named by their offset alone.
//!
//! `alloc(length) -> offset` and `free(offset)`, for callers that keep no [`Extent`]. The record of a range in use lies where
//! its offset tells, in one of two places side by side; if both are taken, one of the lent words leads to it.
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
//! *Cost*: that of [`Memory`], or with lists that of [`QuickFit`]. Records lie scattered, so that each takes a line, and many of
//! them should lie in large pages. For a range whose places were taken a word is read too, and the others in its list. How many
//! ranges that are depends on how many records are spare: it was one in 75 of 120,000 with lengths of all kinds in two million
//! records, and is more than half where hardly any is. With as many words as [`Offsets::words_for`] says a list has a few
//! ranges; it could have more only by offsets that are chosen for that, and never more than there are granules for each word.

use super::fold::Fold;
use super::starts::Starts;
use super::{AllocError, Block, Extent, Figures, Granule, Memory, NotAllocated, QuickFit};

/// The allocator; `S` lends the records, `T` words that lead to records, and `L` one for each length of which freed ranges
/// are kept, which is none if nothing is said.
#[derive(Clone, Debug)]
pub struct Offsets<S, T, L = [u32; 0]> {
    memory: QuickFit<S, L>,
    starts: Starts<T>,
}

impl<S: AsRef<[Block]> + AsMut<[Block]>, T: AsRef<[u32]> + AsMut<[u32]>> Offsets<S, T> {
    /// Manages `0..capacity` bytes with the lent records and words, whatever these held before; without a word nothing.
    ///
    /// Otherwise as [`Memory::with_granule`].
    #[must_use]
    pub fn new(blocks: S, starts: T, capacity: u64, granule: Granule) -> Self {
        Offsets::with_lists(blocks, starts, capacity, granule, [], 0)
    }
}

impl Offsets<(), ()> {
    /// Words by which lists stay short, also if most ranges need one: one for each of so many ranges in use, in a power of two,
    /// but no more than granules.
    #[must_use]
    pub fn words_for(granules: usize, ranges: usize) -> usize {
        ranges.checked_next_power_of_two().map_or(granules, |words| words.min(granules))
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
        let capacity = if starts.as_ref().is_empty() { 0 } else { capacity };
        let mut memory = Memory::with_granule(blocks, capacity, granule);
        let starts = Starts::new(starts);
        memory.homes = Some(Fold::new(memory.capacity(), memory.blocks.as_ref().len()));
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

    /// The same, and looks at all free ranges before it finds them scattered.
    ///
    /// # Errors
    /// As for [`alloc_aligned`](Self::alloc_aligned).
    pub(crate) fn alloc_any(&mut self, len: u64, align: u64) -> Result<u64, AllocError> {
        let extent = match self.memory.alloc_aligned(len, align) {
            // Nothing is kept any more.
            Err(AllocError::Fragmented { .. }) => self.memory.memory.alloc_any(len, align)?,
            taken => taken?,
        };
        Ok(self.note(extent))
    }

    /// Gives the range that starts at this offset back, and tells its length in bytes.
    ///
    /// # Errors
    /// [`NotAllocated`] if no range in use starts there; nothing has changed then.
    #[inline]
    pub fn free(&mut self, offset: u64) -> Result<u64, NotAllocated> {
        let index = self.forget(offset)?;
        Ok(self.memory().granule.of(self.memory.give_back(index)))
    }

    /// The same, and joins the range with what is free around it, as [`QuickFit::free_joined`] does.
    ///
    /// # Errors
    /// [`NotAllocated`] if no range in use starts there; nothing has changed then.
    pub fn free_joined(&mut self, offset: u64) -> Result<u64, NotAllocated> {
        let index = self.forget(offset)?;
        let len = self.memory().get(index).len;
        self.memory.memory.release(index);
        Ok(self.memory().granule.of(len))
    }

    /// The range that starts at this offset.
    ///
    /// # Errors
    /// [`NotAllocated`] if no range in use starts there.
    #[inline]
    pub fn look_up(&self, offset: u64) -> Result<Extent, NotAllocated> {
        let memory = self.memory();
        let found = self
            .granule_at(offset)
            .and_then(|start| memory.at_home(start).or_else(|| self.starts.find(memory.blocks.as_ref(), start)));
        found.map(|index| memory.extent(index)).ok_or(NotAllocated { offset })
    }

    #[cfg(test)]
    pub(super) fn longest(&self) -> usize {
        self.starts.longest(self.memory().blocks.as_ref())
    }

    /// The granule that starts at this offset.
    #[inline]
    fn granule_at(&self, offset: u64) -> Option<u32> {
        let granule = self.memory().granule;
        let start = u32::try_from(offset >> granule.shift).ok()?;
        (granule.of(start) == offset).then_some(start)
    }

    /// No way leads from this offset any more to the record that it gives.
    #[inline]
    fn forget(&mut self, offset: u64) -> Result<u32, NotAllocated> {
        let start = self.granule_at(offset).ok_or(NotAllocated { offset })?;
        if let Some(index) = self.memory().at_home(start) {
            return Ok(index);
        }
        self.starts.leave(self.memory.memory.blocks.as_mut(), start).ok_or(NotAllocated { offset })
    }

    #[inline]
    fn note(&mut self, extent: Extent) -> u64 {
        let start = (extent.offset >> self.memory().granule.shift) as u32;
        if !self.memory().is_at_home(extent.block.index(), start) {
            self.starts.enter(self.memory.memory.blocks.as_mut(), extent.block.index());
        }
        extent.offset
    }
}
