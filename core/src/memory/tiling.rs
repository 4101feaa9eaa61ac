//! A memory whose ranges are taken and given back by the numbers of their records.
//!
//! For who keeps more beside each record, and chooses what leaves by what lies beside each other. The way from where a range
//! starts to its record is one lent word a granule, which is believed only if the record says the same: so the words need no
//! initial value, and nobody takes back what they say.
//!
//! *Cost*: that of [`Memory`]; one line of the words where a range is taken or looked up by where it starts.

use super::block::State;
use super::{Block, Extent, Granule, Memory};

/// A range, free or in use, and the records of its neighbours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tile {
    pub(crate) start: u32,
    pub(crate) len: u32,
    pub(crate) free: bool,
    pub(crate) before: u32,
    pub(crate) after: u32,
}

/// The memory; `S` lends the records, `T` a word for each granule.
#[derive(Clone, Debug)]
pub(crate) struct Tiling<S, T> {
    memory: Memory<S>,
    starts: T,
}

impl<S: AsRef<[Block]> + AsMut<[Block]>, T: AsRef<[u32]> + AsMut<[u32]>> Tiling<S, T> {
    /// Manages `0..capacity` bytes, for which there are enough words, as [`Memory::with_granule`].
    pub(crate) fn new(blocks: S, starts: T, capacity: u64, granule: Granule) -> Self {
        Tiling { memory: Memory::with_granule(blocks, capacity, granule), starts }
    }

    /// What is managed.
    pub(crate) fn memory(&self) -> &Memory<S> {
        &self.memory
    }

    /// Takes the lower end of a free range; `None` if it is none, is too short, or if records lack.
    pub(crate) fn take_at(&mut self, index: u32, granules: u32) -> Option<Extent> {
        let &Block { start, len, state, .. } = self.memory.blocks.as_ref().get(index as usize)?;
        if state != State::Free || len < granules {
            return None;
        }
        let extent = self.memory.cut(index, 0, granules)?;
        if let Some(word) = self.starts.as_mut().get_mut(start as usize) {
            *word = extent.block.index();
        }
        Some(extent)
    }

    /// Frees the range of a record in use; gives the record of the free range that it is part of now.
    pub(crate) fn release_at(&mut self, index: u32) -> u32 {
        debug_assert!(self.memory.get(index).state == State::Used);
        self.memory.release(index)
    }

    /// The record of the range in use that starts at this granule.
    pub(crate) fn starting_at(&self, granule: u32) -> Option<u32> {
        let index = *self.starts.as_ref().get(granule as usize)?;
        let block = self.memory.blocks.as_ref().get(index as usize)?;
        (block.state == State::Used && block.start == granule).then_some(index)
    }

    /// The record of the range at offset 0.
    pub(crate) fn first(&self) -> u32 {
        self.memory.first
    }

    /// What the tiles of the memory look like at this record.
    pub(crate) fn tile(&self, index: u32) -> Tile {
        let &Block { start, len, state, before, after, .. } = self.memory.get(index);
        Tile { start, len, free: state == State::Free, before, after }
    }
}
