//! Ranges of a memory for threads: `alloc` waits for room, for so long.
//!
//! The table, the line of those who wait and the rules are [`umbra_core::room`] and [`umbra_core::memory`].
//!
//! ```
//! use std::time::Duration;
//! use umbra::cache::Memory;
//! use umbra_core::memory::Granule;
//! let memory = Memory::new(1 << 20, Granule::LINE, 100)?;
//! let patience = Duration::from_secs(5);
//! std::thread::scope(|scope| {
//!     for _ in 0..4 {
//!         scope.spawn(|| -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
//!             let range = memory.alloc(500_000, 4096, patience)?;
//!             assert_eq!(range.offset() % 4096, 0);
//!             Ok(()) // The range is given back here, also if the thread panics before.
//!         });
//!     }
//! });
//! assert_eq!(memory.look(|ranges| ranges.figures().free), 1 << 20);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Freed ranges are kept whole for the next of the same length while nobody waits, as
//! [`QuickFit`] does.
//!
//! *Cost*: that of the core's operation, and a lock that is held for it. Who waits is woken to be the first in line, and then
//! whenever there may be room. 72 bytes a range at most, and 4 KiB for the lists.

use std::ops::Deref;
use std::time::Duration;

use umbra_core::memory::{Block, Granule, Offsets, QuickFit};
use umbra_core::room::{self, Crowded, Range, RangeError, Ranges, Shared, WaitError, Waiter, Waiting};

use super::lock::Guard;
use super::room_error::{MakeError, Unmet};
use super::{WAITERS, wait};
use crate::sys::heap::reserved;

type Owned = Guard<Waiting<Ranges<Vec<Block>, Vec<u32>, Vec<u32>>, Vec<Waiter>>>;

/// A range; see [`umbra_core::room::HeldRange`].
pub type HeldRange<'a> = room::HeldRange<'a, Owned>;
/// Why no range was given.
pub type RangeUnmet = Unmet<WaitError<RangeError>, Crowded>;

/// A memory by offsets, for many threads.
///
/// What never waits is that of [`Shared`]: by [`Deref`].
#[derive(Debug)]
pub struct Memory(Shared<Owned>);

impl Memory {
    /// Lengths, in granules, of which freed ranges are kept whole for the next who asks for as much.
    pub const LISTS: usize = 1024;
    /// Ranges kept at most: what a request joins, before it is refused.
    pub const KEPT: u32 = 4096;

    /// Manages `0..capacity` bytes in whole granules, of which as many ranges can be in use at once, and for which 1024
    /// threads can wait.
    ///
    /// # Errors
    /// [`MakeError`] if nothing would fit, if not all of it could be given, or without memory for the records.
    pub fn new(capacity: u64, granule: Granule, ranges: u32) -> Result<Self, MakeError> {
        Self::with_waiters(capacity, granule, ranges, WAITERS)
    }

    /// The same for as many threads that wait at once.
    ///
    /// # Errors
    /// As for [`Memory::new`].
    pub fn with_waiters(capacity: u64, granule: Granule, ranges: u32, waiters: usize) -> Result<Self, MakeError> {
        let granules = MakeError::granules(capacity, granule, ranges)?;
        // Two free ranges never touch.
        let blocks = reserved((ranges as usize).saturating_mul(2).saturating_add(1), Block::default)?;
        let starts = reserved(Offsets::words_for(granules, ranges as usize), || 0)?;
        let lists = reserved(Self::LISTS.min(granules), || QuickFit::NO_RANGE)?;
        let memory = Offsets::with_lists(blocks, starts, capacity, granule, lists, Self::KEPT);
        let waiters = reserved(waiters, || Waiter::EMPTY)?;
        Ok(Memory(Shared::new(Guard::new(Waiting::new(Ranges::new(memory), waiters)))))
    }

    /// A range of so many bytes at least, at a multiple of `align`, a power of two; waits in line for it. Who does not want
    /// to wait asks [`Memory::try_alloc`].
    ///
    /// # Errors
    /// [`Unmet`]: the deadline, the interrupt, or what waiting does not help against.
    pub fn alloc(&self, len: u64, align: u64, within: Duration) -> Result<HeldRange<'_>, RangeUnmet> {
        let mut wish = Range::aligned(len, align);
        let mut room = self.0.room(&mut wish);
        Unmet::unless(within, wait::until(&mut room, within).map_or_else(|| room.expire(), Ok))?;
        self.0.held_range(wish).ok_or(Unmet::Interrupted)
    }

    /// A range now, or none; nobody in line is passed.
    ///
    /// # Errors
    /// [`RangeError`].
    pub fn try_alloc(&self, len: u64, align: u64) -> Result<HeldRange<'_>, RangeError> {
        let mut wish = Range::aligned(len, align);
        self.0.take_now(&mut wish)?;
        self.0.held_range(wish).ok_or(RangeError::Interrupted)
    }
}

impl Deref for Memory {
    type Target = Shared<Owned>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}
