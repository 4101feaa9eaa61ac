//! Our allocators and those of others behind one trait.
//!
//! Their records lie beside the memory, never in it.

use buddy_system_allocator::FrameAllocator;
use offset_allocator::{Allocation, Allocator};
use umbra::sys::heap::reserved;
use umbra_core::id::Id;
use umbra_core::memory::{Block, Granule, Memory, Offsets, QuickFit};

/// Bytes managed.
pub(crate) const CAPACITY: u64 = 512 << 20;
/// Offsets and lengths are multiples of this many bytes, as with all sides.
pub(crate) const UNIT: u64 = 16;
/// Ranges at most, with which the records are sized.
const RANGES: usize = 1 << 20;
/// Lengths that have a list of kept ranges, as on a host: up to 16 KiB.
const LISTS: usize = umbra::cache::Memory::LISTS;
/// Ranges kept at most.
const KEPT: u32 = umbra::cache::Memory::KEPT;

/// An allocator that has [`CAPACITY`] bytes to give.
pub(crate) trait Arena {
    /// What a range is freed by.
    type Handle: Copy;
    fn new() -> Self;
    fn alloc(&mut self, len: u64) -> Option<Self::Handle>;
    /// Frees a range that came from [`alloc`](Self::alloc) with this length.
    fn free(&mut self, handle: Self::Handle, len: u64);
}

impl Arena for Memory<Vec<Block>> {
    type Handle = Id<Block>;

    fn new() -> Self {
        let unit = Granule::new(UNIT).expect("a power of two");
        Memory::with_granule(vec![Block::default(); 2 * RANGES + 1], CAPACITY, unit)
    }

    #[inline]
    fn alloc(&mut self, len: u64) -> Option<Id<Block>> {
        Memory::alloc(self, len).ok().map(|extent| extent.block)
    }

    #[inline]
    fn free(&mut self, handle: Id<Block>, _len: u64) {
        self.free_block(handle).expect("in use");
    }
}

impl Arena for QuickFit<Vec<Block>, Vec<u32>> {
    type Handle = Id<Block>;

    fn new() -> Self {
        QuickFit::new(Arena::new(), vec![QuickFit::NO_RANGE; LISTS], KEPT)
    }

    #[inline]
    fn alloc(&mut self, len: u64) -> Option<Id<Block>> {
        QuickFit::alloc(self, len).ok().map(|extent| extent.block)
    }

    #[inline]
    fn free(&mut self, handle: Id<Block>, _len: u64) {
        self.free_block(handle).expect("in use");
    }
}

impl Arena for Offsets<Vec<Block>, Vec<u32>, Vec<u32>> {
    type Handle = u64;

    fn new() -> Self {
        let unit = Granule::new(UNIT).expect("a power of two");
        // As `umbra::cache::Memory` lends them, in large pages where the system gives some.
        let blocks = reserved(2 * RANGES + 1, Block::default).expect("memory for the records");
        let words = Offsets::words_for((CAPACITY / UNIT) as usize, RANGES);
        let starts = reserved(words, || 0).expect("memory for the words");
        let lists = vec![QuickFit::NO_RANGE; LISTS];
        Offsets::with_lists(blocks, starts, CAPACITY, unit, lists, KEPT)
    }

    #[inline]
    fn alloc(&mut self, len: u64) -> Option<u64> {
        Offsets::alloc(self, len).ok()
    }

    #[inline]
    fn free(&mut self, handle: u64, _len: u64) {
        Offsets::free(self, handle).expect("in use");
    }
}

impl Arena for Allocator {
    type Handle = Allocation;

    fn new() -> Self {
        Allocator::with_max_allocs((CAPACITY / UNIT) as u32, 2 * RANGES as u32)
    }

    #[inline]
    fn alloc(&mut self, len: u64) -> Option<Allocation> {
        self.allocate(len.div_ceil(UNIT) as u32)
    }

    #[inline]
    fn free(&mut self, handle: Allocation, _len: u64) {
        Allocator::free(self, handle);
    }
}

impl Arena for FrameAllocator<33> {
    type Handle = usize;

    fn new() -> Self {
        let mut frames = FrameAllocator::new();
        frames.add_frame(0, (CAPACITY / UNIT) as usize);
        frames
    }

    #[inline]
    fn alloc(&mut self, len: u64) -> Option<usize> {
        FrameAllocator::alloc(self, len.div_ceil(UNIT) as usize)
    }

    #[inline]
    fn free(&mut self, handle: usize, len: u64) {
        self.dealloc(handle, len.div_ceil(UNIT) as usize);
    }
}
