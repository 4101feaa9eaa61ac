//! Hands out ranges of an address space it never touches.
//!
//! A two-level segregated-fit allocator over offsets `0..capacity`: the bytes may be anywhere (a mapped
//! segment, a region of another process, nothing at all), because all bookkeeping lives in lent [`Block`]
//! records beside them. One owner. The number of records bounds the number of ranges, not their size: `n`
//! ranges in use need at most `2n + 1` records, since two free ranges never touch.
//!
//! ```
//! use umbra_core::memory::{Block, Memory};
//! let mut memory = Memory::new([Block::default(); 16], 1 << 20);
//! let table = memory.alloc(1000)?;
//! assert_eq!((table.offset, table.len), (0, 1024));
//! assert!(memory.free(table).is_ok());
//! assert!(memory.free(table).is_err(), "the second free is refused");
//! assert_eq!(memory.free_bytes(), 1 << 20);
//! # Ok::<(), umbra_core::memory::AllocError>(())
//! ```
//!
//! Invariants: the records of state free or used tile `0..capacity` in order of `before`/`after`; two free
//! neighbours never touch; a free record is in the list of exactly its size class.
//!
//! *Cost*: `alloc` and `free` are O(1): two bit scans, at most one split or two merges; when no larger class
//! has room, at most [`WALK`] ranges of the request's own class are looked at. Waste: under 64 bytes a range.
//!
//! Source: Masmano et al., "TLSF: a new dynamic memory allocator for real-time systems", ECRTS 2004.

use core::fmt;

use crate::error::Stale;
use crate::id::{Generation, Id};

/// Every offset and length is a multiple of this many bytes: one cache line.
pub const GRANULE: u64 = 64;
/// Ranges of the request's own size class that are tried before the request is refused.
pub const WALK: usize = 32;

const NIL: u32 = u32::MAX;
const SECOND_BITS: u32 = 3;
const SECOND: usize = 1 << SECOND_BITS;
const FIRST: usize = 32 - SECOND_BITS as usize + 1;

/// One record of bookkeeping; a [`Memory`] is lent an array of them.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    start: u32,
    len: u32,
    generation: Generation,
    state: State,
    before: u32,
    after: u32,
    prev: u32,
    next: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Spare,
    Free,
    Used,
}

impl Default for Block {
    fn default() -> Self {
        Block {
            start: 0,
            len: 0,
            generation: Generation::NEVER,
            state: State::Spare,
            before: NIL,
            after: NIL,
            prev: NIL,
            next: NIL,
        }
    }
}

/// A range in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// Bytes from the start; a multiple of [`GRANULE`].
    pub offset: u64,
    /// Bytes, at least as many as were asked for; a multiple of [`GRANULE`].
    pub len: u64,
    /// The record; enough to free the range or to look it up again.
    pub block: Id<Block>,
}

/// Why no range could be handed out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum AllocError {
    /// No free range is long enough; freeing ranges makes a retry worth while.
    NoRoom {
        /// Bytes asked for.
        len: u64,
        /// Bytes free in all ranges together.
        free: u64,
    },
    /// All records are in use; freeing any range makes a retry worth while.
    NoRecord,
}

impl fmt::Display for AllocError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AllocError::NoRoom { len, free } => {
                write!(f, "no free range of {len} bytes ({free} bytes are free in all): free a range or lend more")
            }
            AllocError::NoRecord => f.write_str("all records of ranges are in use: free a range or lend more records"),
        }
    }
}
impl core::error::Error for AllocError {}

/// The allocator.
#[derive(Debug)]
pub struct Memory<S> {
    blocks: S,
    heads: [[u32; SECOND]; FIRST],
    second: [u8; FIRST],
    first: u32,
    spare: u32,
    capacity: u32,
    free: u32,
}

const fn class(granules: u32) -> (usize, usize) {
    if granules < SECOND as u32 {
        return (0, granules as usize);
    }
    let log = granules.ilog2();
    let second = (granules >> (log - SECOND_BITS)) as usize & (SECOND - 1);
    ((log - SECOND_BITS + 1) as usize, second)
}

impl<S: AsRef<[Block]> + AsMut<[Block]>> Memory<S> {
    /// Manages `0..capacity` bytes with the lent records, whatever these held before.
    ///
    /// The capacity is rounded down to a multiple of [`GRANULE`] and cut at 256 GiB. Without a record, or
    /// with less than one granule, every request is refused.
    #[must_use]
    pub fn new(mut blocks: S, capacity: u64) -> Self {
        let granules = u32::try_from(capacity / GRANULE).unwrap_or(NIL - 1).min(NIL - 1);
        let records = blocks.as_mut();
        // NIL is no index, so at most NIL records are of use.
        let count = u32::try_from(records.len()).unwrap_or(NIL);
        for (index, block) in (0..count).zip(records.iter_mut()) {
            let next = if index + 1 < count { index + 1 } else { NIL };
            *block = Block { generation: block.generation.next(), next, ..Block::default() };
        }
        let spare = if count == 0 { NIL } else { 0 };
        let heads = [[NIL; SECOND]; FIRST];
        let mut memory = Memory { blocks, heads, second: [0; FIRST], first: 0, spare, capacity: granules, free: 0 };
        if granules > 0
            && let Some(all) = memory.take_record()
        {
            memory.at(all).len = granules;
            memory.free = granules;
            memory.link(all);
        }
        memory
    }

    /// Bytes managed.
    #[must_use]
    pub fn capacity_bytes(&self) -> u64 {
        u64::from(self.capacity) * GRANULE
    }

    /// Bytes free, in all ranges together.
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        u64::from(self.free) * GRANULE
    }

    /// Takes a range of at least `len` bytes (and at least one granule), aligned to [`GRANULE`].
    ///
    /// # Errors
    /// [`AllocError`]; nothing has changed then.
    pub fn alloc(&mut self, len: u64) -> Result<Extent, AllocError> {
        let no_room = AllocError::NoRoom { len, free: self.free_bytes() };
        let granules = u32::try_from(len.div_ceil(GRANULE).max(1)).map_err(|_| no_room)?;
        let found = self.find(granules).ok_or(no_room)?;
        let rest = self.get(found).len - granules;
        if rest > 0 {
            let tail = self.take_record().ok_or(AllocError::NoRecord)?;
            self.unlink(found);
            let (start, after) = (self.get(found).start, self.get(found).after);
            *self.at(tail) = Block { start: start + granules, len: rest, before: found, after, ..*self.get(tail) };
            if after != NIL {
                self.at(after).before = tail;
            }
            let block = self.at(found);
            block.after = tail;
            block.len = granules;
            self.link(tail);
        } else {
            self.unlink(found);
        }
        self.at(found).state = State::Used;
        self.free -= granules;
        Ok(self.extent(found))
    }

    /// Gives a range back; it is merged with free neighbours.
    ///
    /// # Errors
    /// [`Stale`] if the range is not in use (any more); nothing has changed then.
    pub fn free(&mut self, extent: Extent) -> Result<(), Stale> {
        self.free_block(extent.block)
    }

    /// Gives the range of this record back.
    ///
    /// # Errors
    /// [`Stale`] if it is not in use (any more); nothing has changed then.
    pub fn free_block(&mut self, block: Id<Block>) -> Result<(), Stale> {
        self.used(block)?;
        let mut this = block.index();
        self.free += self.get(this).len;
        self.at(this).generation = self.get(this).generation.next();
        let after = self.get(this).after;
        if after != NIL && self.get(after).state == State::Free {
            self.unlink(after);
            self.absorb(this, after);
        }
        let before = self.get(this).before;
        if before != NIL && self.get(before).state == State::Free {
            self.unlink(before);
            self.absorb(before, this);
            this = before;
        }
        self.link(this);
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

    fn used(&self, id: Id<Block>) -> Result<(), Stale> {
        let block = self.blocks.as_ref().get(id.index() as usize).ok_or(Stale)?;
        if block.state == State::Used && block.generation == id.generation() { Ok(()) } else { Err(Stale) }
    }

    fn extent(&self, index: u32) -> Extent {
        let block = self.get(index);
        Extent {
            offset: u64::from(block.start) * GRANULE,
            len: u64::from(block.len) * GRANULE,
            block: Id::new(index, block.generation),
        }
    }

    fn find(&self, granules: u32) -> Option<u32> {
        // Any range of a class above the request's own fits; rounding up skips the own class unless the
        // request is its smallest member.
        let step =
            granules.checked_ilog2().and_then(|log| log.checked_sub(SECOND_BITS)).map_or(0, |shift| (1 << shift) - 1);
        if let Some(rounded) = granules.checked_add(step) {
            let (mut first, second) = class(rounded);
            let mut bits = u32::from(self.second[first]) & (u32::MAX << second);
            if bits == 0 {
                let firsts = u64::from(self.first) & (u64::MAX << (first + 1));
                first = firsts.trailing_zeros() as usize % FIRST;
                bits = if firsts == 0 { 0 } else { u32::from(self.second[first]) };
            }
            if bits != 0 {
                return Some(self.heads[first][bits.trailing_zeros() as usize]);
            }
        }
        let (first, second) = class(granules);
        let mut at = self.heads[first][second];
        for _ in 0..WALK {
            if at == NIL || self.get(at).len >= granules {
                break;
            }
            at = self.get(at).next;
        }
        (at != NIL && self.get(at).len >= granules).then_some(at)
    }

    fn take_record(&mut self) -> Option<u32> {
        let index = self.spare;
        if index == NIL {
            return None;
        }
        self.spare = self.get(index).next;
        Some(index)
    }

    fn absorb(&mut self, into: u32, gone: u32) {
        let (len, after) = (self.get(gone).len, self.get(gone).after);
        let block = self.at(into);
        block.len += len;
        block.after = after;
        if after != NIL {
            self.at(after).before = into;
        }
        let generation = self.get(gone).generation;
        *self.at(gone) = Block { generation, next: self.spare, ..Block::default() };
        self.spare = gone;
    }

    fn link(&mut self, index: u32) {
        let (first, second) = class(self.get(index).len);
        let head = core::mem::replace(&mut self.heads[first][second], index);
        if head != NIL {
            self.at(head).prev = index;
        }
        let block = self.at(index);
        block.state = State::Free;
        block.prev = NIL;
        block.next = head;
        self.second[first] |= 1 << second;
        self.first |= 1 << first;
    }

    fn unlink(&mut self, index: u32) {
        let (prev, next) = (self.get(index).prev, self.get(index).next);
        let (first, second) = class(self.get(index).len);
        if prev != NIL {
            self.at(prev).next = next;
        } else {
            self.heads[first][second] = next;
        }
        if next != NIL {
            self.at(next).prev = prev;
        } else if prev == NIL {
            self.second[first] &= !(1 << second);
            if self.second[first] == 0 {
                self.first &= !(1 << first);
            }
        }
    }

    fn get(&self, index: u32) -> &Block {
        &self.blocks.as_ref()[index as usize]
    }

    fn at(&mut self, index: u32) -> &mut Block {
        &mut self.blocks.as_mut()[index as usize]
    }
}
