//! Places for data of any length, for threads.
//!
//! `alloc` and `alloc_group` wait for room, for as long as they are told. The table, the line of those who wait and the
//! rules are [`umbra_core::room`] and [`umbra_core::cached_memory`].
//!
//! ```
//! use std::time::Duration;
//! use umbra::cache::CachedMemory;
//! use umbra_core::cache::{Dense, Found};
//! use umbra_core::cached_memory::Member;
//! use umbra_core::memory::Granule;
//! let memory = CachedMemory::new(1 << 20, Granule::LINE, 100, Dense::new(vec![0; 1000]))?;
//! let patience = Duration::from_secs(5);
//! let mut group = [Member::new(7, 600_000), Member::new(8, 400_000)];
//! let mut held = memory.alloc_group(&mut group, patience)?;
//! assert_eq!(held.place(0).map(|place| place.found), Some(Found::Empty));
//! held.remember()?; // after the loads to held.offset(0) and held.offset(1)
//! drop(held);
//! let again = memory.alloc(8, 400_000, patience)?;
//! assert_eq!(again.place(0).map(|place| place.found), Some(Found::Remembered));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! *Cost*: as for [`Memory`](super::Memory).

use std::ops::Deref;
use std::time::Duration;

use umbra_core::cache::waiting::{ContentError, Record};
use umbra_core::cache::{Index, Slot};
use umbra_core::cached_memory::{self, Lent, Member, PlaceError, Run, bits_needed, records_needed};
use umbra_core::memory::{Block, Granule};
use umbra_core::room::{self, Places, Scene, Shared, Told, WaitError, Waiter, Waiting};

use super::lock::Guard;
use super::room_error::{MakeError, Unmet};
use super::{WAITERS, wait};
use crate::sys::heap::reserved;

type Owned<I> =
    Guard<Waiting<Places<Vec<Block>, Vec<Slot>, Vec<Run>, Vec<u32>, Vec<u64>, I, Vec<Record<Told>>>, Vec<Waiter>>>;

/// References to places, and the duty to fill some; see [`umbra_core::room::Held`].
pub type HeldPlaces<'a, I, G> = room::Held<'a, Owned<I>, G>;
/// Why no place was given.
pub type PlaceUnmet = Unmet<WaitError<PlaceError>, Scene>;
/// Why content was not waited for any longer.
pub type ContentUnmet = Unmet<ContentError, Scene>;

/// A cache of data of any length in one memory, for many threads.
///
/// What never waits is that of [`Shared`]: by [`Deref`].
#[derive(Debug)]
pub struct CachedMemory<I>(Shared<Owned<I>>);

impl<I: Index> CachedMemory<I> {
    /// Caches in `0..capacity` bytes in whole granules, so many data at once; 1024 threads can wait for room, and as many
    /// for content. A sparse index has room for as many, and ids for [`records_needed`].
    ///
    /// # Errors
    /// [`MakeError`] if nothing would fit, if not all of it could be given, if the index has no room for so many, or without
    /// memory for the records.
    pub fn new(capacity: u64, granule: Granule, places: u32, index: I) -> Result<Self, MakeError> {
        Self::with_waiters(capacity, granule, places, index, WAITERS)
    }

    /// The same for as many threads that wait at once.
    ///
    /// # Errors
    /// As for [`CachedMemory::new`].
    pub fn with_waiters(
        capacity: u64,
        granule: Granule,
        places: u32,
        index: I,
        waiters: usize,
    ) -> Result<Self, MakeError> {
        let granules = MakeError::granules(capacity, granule, places)?;
        let records = records_needed(places as usize);
        let lent = Lent {
            blocks: reserved(records, Block::default)?,
            slots: reserved(records, || Slot::EMPTY)?,
            runs: reserved(records.saturating_add(1), || Run::EMPTY)?,
            starts: reserved(granules, || 0)?,
            bits: reserved(bits_needed(capacity, granule), || 0)?,
        };
        let memory = cached_memory::CachedMemory::new(lent, index, capacity, granule)?;
        let contents = reserved(waiters, || Record::EMPTY)?;
        let waiters = reserved(waiters, || Waiter::EMPTY)?;
        Ok(CachedMemory(Shared::new(Guard::new(Waiting::new(Places::new(memory, contents), waiters)))))
    }

    /// A reference to the place of `data`, which gets one of `len` bytes now if it had none; waits in line for room.
    ///
    /// # Errors
    /// [`Unmet`]: the deadline, the interrupt, or what waiting does not help against.
    pub fn alloc(&self, data: u64, len: u64, within: Duration) -> Result<HeldPlaces<'_, I, [Member; 1]>, PlaceUnmet> {
        let mut members = [Member::new(data, len)];
        self.wait(&mut members, within)?;
        Ok(self.0.held(members))
    }

    /// References to the places of all members, at once or none of them; waits in line for room. Who waits holds nothing of
    /// the group, so groups can't block each other.
    ///
    /// # Errors
    /// [`Unmet`]: the deadline, the interrupt, or what waiting does not help against.
    pub fn alloc_group<'a>(
        &'a self,
        members: &'a mut [Member],
        within: Duration,
    ) -> Result<HeldPlaces<'a, I, &'a mut [Member]>, PlaceUnmet> {
        self.wait(members, within)?;
        Ok(self.0.held(members))
    }

    /// [`CachedMemory::alloc_group`] now, or none; nobody in line is passed.
    ///
    /// # Errors
    /// [`PlaceError`].
    pub fn try_alloc_group<'a>(
        &'a self,
        members: &'a mut [Member],
    ) -> Result<HeldPlaces<'a, I, &'a mut [Member]>, PlaceError> {
        self.0.take_now(members)?;
        Ok(self.0.held(members))
    }

    fn wait(&self, members: &mut [Member], within: Duration) -> Result<(), PlaceUnmet> {
        let mut room = self.0.room(members);
        Unmet::unless(within, wait::until(&mut room, within).map_or_else(|| room.expire(), Ok))
    }

    /// Waits until the place of `data` is filled, for who found it `Assigned`.
    ///
    /// # Errors
    /// [`Unmet`]: the deadline, the interrupt, or that the content will not come.
    pub fn filled(&self, data: u64, within: Duration) -> Result<(), ContentUnmet> {
        let mut content = self.0.content(data);
        Unmet::unless(within, wait::until(&mut content, within).map_or_else(|| content.expire(), Ok))
    }
}

impl<I> Deref for CachedMemory<I> {
    type Target = Shared<Owned<I>>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}
