//! What a memory is counted in, what it is described with, and what it hands out.

use super::bins::{Binned, Links, NIL};
use crate::id::{Generation, Id};

/// The unit of offsets and lengths: a power of two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Granule {
    pub(super) shift: u8,
}

impl Granule {
    /// One byte.
    pub const BYTE: Granule = Granule { shift: 0 };
    /// One cache line, 64 bytes.
    pub const LINE: Granule = Granule { shift: 6 };

    /// A unit of so many bytes; `None` unless that is a power of two.
    #[must_use]
    pub const fn new(bytes: u64) -> Option<Granule> {
        if bytes.is_power_of_two() { Some(Granule { shift: bytes.trailing_zeros() as u8 }) } else { None }
    }

    /// Bytes of the unit.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        1 << self.shift
    }

    /// So many units, in bytes.
    pub(crate) const fn of(self, granules: u32) -> u64 {
        (granules as u64) << self.shift
    }

    /// The units that hold so many bytes; `None` if they cannot be counted.
    pub(super) fn holding(self, bytes: u64) -> Option<u32> {
        // Without the division that a unit which is no constant would take.
        let rest = u64::from(bytes & (self.bytes() - 1) != 0);
        u32::try_from((bytes >> self.shift) + rest).ok()
    }
}

/// One record of bookkeeping; a [`Memory`](super::Memory) is lent an array of them.
// Half a cache line, and never on two lines.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub struct Block {
    pub(super) start: u32,
    pub(super) len: u32,
    pub(super) generation: Generation,
    pub(super) state: State,
    /// Whether the neighbours are free: so a free decides what to join before it has seen their records.
    pub(super) before_free: bool,
    pub(super) after_free: bool,
    pub(super) before: u32,
    pub(super) after: u32,
    pub(super) links: Links,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// In the list of spare records.
    Spare,
    /// In a bin.
    Free,
    /// Handed out.
    Used,
    /// Given back and kept whole; nothing else of it differs from one that is handed out.
    Kept,
}

impl Block {
    /// A record that no table of ranges has used yet.
    pub const SPARE: Block = Block {
        start: 0,
        len: 0,
        generation: Generation::NEVER,
        state: State::Spare,
        before_free: false,
        after_free: false,
        before: NIL,
        after: NIL,
        links: Links::NONE,
    };
}

impl Default for Block {
    fn default() -> Self {
        Block::SPARE
    }
}

impl Binned for Block {
    #[inline]
    fn length(&self) -> u32 {
        self.len
    }
    #[inline]
    fn links(&mut self) -> &mut Links {
        &mut self.links
    }
    #[inline]
    fn next(&self) -> u32 {
        self.links.next
    }
}

impl Block {
    /// Granules from the start to the next multiple of `align`; `None` past the end of all numbers.
    #[inline]
    pub(super) fn gap(&self, align: u32) -> Option<u32> {
        Some(self.start.checked_next_multiple_of(align)? - self.start)
    }

    /// Whether a range of so many granules at a multiple of `align` fits into it.
    #[inline]
    pub(super) fn fits(&self, granules: u32, align: u32) -> bool {
        self.gap(align).and_then(|gap| gap.checked_add(granules)).is_some_and(|need| need <= self.len)
    }
}

/// A range in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// Bytes from the start; a multiple of the granule.
    pub offset: u64,
    /// Bytes, at least as many as were asked for; a multiple of the granule.
    pub len: u64,
    /// The record; enough to free the range or to look it up again.
    pub block: Id<Block>,
}
