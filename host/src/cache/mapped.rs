//! A slot cache that processes of a host share, in a segment.
//!
//! The first process makes it and hands a descriptor to the others, over a socket or through a fork; each has a place of its
//! own, and its threads use that. No lock is held between processes, so nobody's death or stop holds others up. What a
//! dead process held is taken back by whoever [looks for it](Mapped::reclaim).
//!
//! ```
//! use umbra::cache::Mapped;
//! use umbra_core::cache::{Found, Remembering};
//! use umbra_core::shared_cache::Sharing;
//! let sharing = Sharing::new(8, 31).ok_or("too many")?;
//! let ours = Mapped::<Remembering>::create(1000, sharing)?;
//! // As another process would, to which the descriptor was handed.
//! let theirs = Mapped::<Remembering>::attach(ours.share()?)?;
//!
//! let slot = ours.client().alloc(42)?.slot; // Empty: load data 42 into the slot, and then:
//! ours.client().remember(42)?;
//! let found = theirs.client().alloc(42)?;
//! assert_eq!((found.slot, found.found), (slot, Found::Remembered));
//! drop(theirs); // Gives back what it held.
//! assert_eq!(ours.client().references(42)?, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! *Cost*: that of [`umbra_core::shared_cache`]; `reclaim` asks the system about each other process, too.

use std::os::fd::OwnedFd;
use std::time::Duration;

use umbra_core::atomic::AtomicU64;
use umbra_core::shared_cache::{AttachError, Client, Contract, JoinError, ReclaimError, Reclaimed, Sharing, words_for};

use super::passing::Passing;
use crate::channel::{Patrol, Shared};
use crate::secret;
use crate::sys::fork;
use crate::sys::host;
use crate::sys::mapped_cache::{MappedCache, PlaceError};
use crate::sys::process::{self, ProcessError, ProcessId};
use crate::sys::segment::{Mapping, Segment, SegmentError};

/// Why there is no cache, or no place at it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MappedError {
    /// So many slots cannot be numbered.
    #[error("{slots} slots are too many for a cache: 2^27 can be numbered")]
    TooManySlots {
        /// How many were asked for.
        slots: usize,
    },
    /// There is no memory to be shared, or it cannot be mapped.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// The memory holds no such cache.
    #[error(transparent)]
    Attach(AttachError),
    /// As many processes use it as it was made for; that one leaves or is reclaimed makes a retry worth while. The place of a
    /// dead one can be [taken](Mapped::attach_or_succeed).
    #[error(transparent)]
    Join(JoinError),
    /// Who this process is cannot be told.
    #[error(transparent)]
    Process(#[from] ProcessError),
}

/// Why not all the dead were buried, and what was taken back nevertheless.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{why}")]
pub struct Unreclaimed {
    /// What was taken back from those that nothing kept; a further call does not count it again.
    pub done: Reclaimed,
    /// What was in the way last.
    pub why: ReclaimError,
}

impl Passing for Unreclaimed {
    fn passes(&self) -> bool {
        self.why.passes()
    }
}

impl From<PlaceError> for MappedError {
    fn from(error: PlaceError) -> Self {
        match error {
            PlaceError::Attach(error) => MappedError::Attach(error),
            PlaceError::Join(error) => MappedError::Join(error),
        }
    }
}

/// This process's place at a cache in a segment; dropping it gives back what the process holds.
///
/// A child that was forked off has no place: it attaches by itself, and its end does nothing to what is the parent's. All
/// users are in one space of process numbers.
#[derive(Debug)]
pub struct Mapped<C: Contract> {
    cache: MappedCache<C>,
    reclaims: bool,
    /// In which process the place was taken.
    life: u32,
}

impl<C: Contract> Mapped<C> {
    /// Makes an empty cache with slots from 0, for as many processes and references as said.
    ///
    /// # Errors
    /// [`MappedError`].
    pub fn create(slots: usize, sharing: Sharing) -> Result<Mapped<C>, MappedError> {
        let words = words_for(slots, sharing).ok_or(MappedError::TooManySlots { slots })?;
        let segment = Segment::create("umbra-cache", words * 8)?;
        segment.use_large_pages();
        // Who cannot foresee it can't choose ids that all have one home.
        let seed = secret::random().map_or_else(|_| host::id(), u64::from_le_bytes);
        Ok(Self::over(MappedCache::create(segment, slots, sharing, seed, ProcessId::current()?.into())?))
    }

    /// Uses a cache that another process made, by a descriptor of its memory.
    ///
    /// # Errors
    /// [`MappedError`].
    pub fn attach(memory: OwnedFd) -> Result<Mapped<C>, MappedError> {
        Ok(Self::over(MappedCache::attach(map(memory)?, ProcessId::current()?.into())?))
    }

    /// As [`attach`](Self::attach), but if all places are taken, in that of a dead process: without it nobody could use
    /// a cache again whose processes were all killed. What the dead one held is taken back as by [`reclaim`](Self::reclaim),
    /// and what it had others write into a slot must have ended, too.
    ///
    /// # Errors
    /// [`MappedError`].
    pub fn attach_or_succeed(memory: OwnedFd, abandoned: impl FnMut(u32, u64)) -> Result<Mapped<C>, MappedError> {
        Ok(Self::over(MappedCache::attach_or_succeed(map(memory)?, ProcessId::current()?.into(), abandoned)?))
    }

    fn over(cache: MappedCache<C>) -> Mapped<C> {
        fork::watch();
        Mapped { cache, reclaims: false, life: fork::life() }
    }

    /// Has all who wait here [take back](Self::reclaim) what dead processes held, five times a second at most. A fill that was
    /// begun counts as given up then: the next `alloc` of its data finds the slot empty.
    ///
    /// Whoever asks for this promises that a process that dies leaves nobody behind who writes into its slots: no device, no
    /// remote read.
    #[must_use]
    pub fn reclaiming(mut self) -> Mapped<C> {
        self.reclaims = true;
        self
    }

    /// Looks after the dead, if that is wanted, and if it is time again and no other process did.
    pub(super) fn patrol(&self) {
        if self.reclaims {
            Patrol::new(Place(self.client())).patrol();
        }
    }

    /// A descriptor of the memory, for another process to [attach](Self::attach) by.
    ///
    /// # Errors
    /// [`SegmentError::Descriptor`] if no descriptor is free.
    pub fn share(&self) -> Result<OwnedFd, SegmentError> {
        self.cache.segment().share()
    }

    /// All that this process can do with the cache.
    #[must_use]
    #[inline]
    pub fn client(&self) -> Client<'_, C> {
        self.cache.client()
    }

    /// Takes back what dead processes hold: their references, their places, and their fills, of which each is named with its
    /// slot and data: the next `alloc` of the data finds the slot empty. What a dead process had others write into a slot (a
    /// device, a remote read) must have ended before.
    ///
    /// One of the dead may have died over the burial of another, and another process may be at it: so it goes over all the
    /// dead again until none is left, for at most so long; without a time, once.
    ///
    /// # Errors
    /// [`Unreclaimed`]; what was done stays done, and a further call goes on. So it ends, too, if `abandoned` calls it: the
    /// dead process whose fill is named is being buried then.
    pub fn reclaim(&self, within: Duration, mut abandoned: impl FnMut(u32, u64)) -> Result<Reclaimed, Unreclaimed> {
        let mut done = Reclaimed::default();
        let buried = self.within(within, |client| reclaim_once(client, &mut done, &mut abandoned));
        buried.map(|()| done).map_err(|why| Unreclaimed { done, why })
    }
}

/// The place of one who looks after the dead.
struct Place<'a, C>(Client<'a, C>);

impl<C: Contract> Shared for Place<'_, C> {
    fn patrolled(&self) -> &AtomicU64 {
        self.0.cache().patrolled()
    }
    fn looked(&self) -> Option<&AtomicU64> {
        None
    }
    fn bury_dead(&self) -> usize {
        let before = self.0.cache().members().count();
        // What is in the way now may be gone the next time.
        let _ = reclaim_once(self.0, &mut Reclaimed::default(), &mut |_, _| ());
        before.saturating_sub(self.0.cache().members().count())
    }
}

/// Goes over the dead once.
///
/// # Errors
/// What was in the way of the last one that it was in the way of.
fn reclaim_once<C: Contract>(
    client: Client<'_, C>,
    done: &mut Reclaimed,
    abandoned: &mut impl FnMut(u32, u64),
) -> Result<(), ReclaimError> {
    let mut ended = Ok(());
    for (owner, identity) in client.cache().members() {
        if owner == client.owner() || process::lives(identity) {
            continue;
        }
        match client.reclaim(owner, identity, &mut *abandoned) {
            Ok(Reclaimed { references, fills, emptied }) => {
                done.references += references;
                done.fills += fills;
                done.emptied += emptied;
            }
            // Another process was faster.
            Err(ReclaimError::Unknown(_)) => {}
            Err(error) if error.passes() => ended = Err(error),
            Err(error) => return Err(error),
        }
    }
    ended
}

fn map(memory: OwnedFd) -> Result<Segment, SegmentError> {
    let len = rustix::fs::fstat(&memory).map_err(SegmentError::Descriptor)?.st_size;
    Segment::attach(memory, Mapping::ReadWrite, usize::try_from(len).unwrap_or(0))
}

impl<C: Contract> Drop for Mapped<C> {
    fn drop(&mut self) {
        if self.life == fork::life() {
            // What cannot be given back now is taken back once this process has ended.
            let _ = self.client().leave();
        }
    }
}
