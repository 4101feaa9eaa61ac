//! Slot caches for threads, and memories for data of any length.
//!
//! `alloc` waits for its turn, for as long as it is told. The tables, the line of those who wait and the rules are
//! [`umbra_core::cache::waiting`]; here are a lock and threads that sleep. Each waiter is woken by its own news, once;
//! nobody is woken in vain.
//!
//! ```
//! use std::time::Duration;
//! use umbra::cache::{Cache, Given};
//! use umbra_core::cache::{Dense, policy::Clock};
//! let cache = Cache::new(0..2, Dense::new(vec![0; 100]), Clock::new())?;
//! let patience = Duration::from_secs(5);
//! std::thread::scope(|scope| {
//!     for _ in 0..4 {
//!         scope.spawn(|| -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
//!             let held = match cache.alloc(42, patience)? {
//!                 Given::Empty(fill) => fill.remember()?, // after the load into fill.slot()
//!                 Given::Assigned(held) => {
//!                     cache.filled(42, patience)?;
//!                     held
//!                 }
//!                 Given::Remembered(held) => held,
//!             };
//!             assert!(held.slot() < 2);
//!             Ok(()) // The reference is given back here, also if the thread panics before.
//!         });
//!     }
//! });
//! assert_eq!(cache.look(|cache| cache.statistics().loads), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! *Cost*: that of the core's operation, and a lock that is held for it. A wait costs a system call to sleep and one to
//! wake.

mod error;
mod keyed;
mod lock;
mod mapped;
mod mapped_line;
mod mapped_wait;
mod memory;
mod passing;
mod places;
mod room_error;
pub(crate) mod wait;

use std::ops::{Deref, Range};
use std::time::Duration;

use umbra_core::cache::policy::Policy;
use umbra_core::cache::waiting::{Contract, Shared, Waiter, Waiting};
use umbra_core::cache::{self, Forgetting, Index, Plain, Remembering, Remembers, Slot};

use crate::sys::heap::reserved;
pub use error::{AllocError, BuildError, FilledError};
pub use keyed::{Caches, EndKeyError, EndsShared, Handle, Tenant};
pub use lock::Guard;
pub use mapped::{Mapped, MappedError, Unreclaimed};
pub use mapped_line::{Holder, Holders, UnservedError};
pub use mapped_wait::UnfilledError;
pub use memory::{HeldRange, Memory, RangeUnmet};
pub use passing::Passing;
pub use places::{CachedMemory, ContentUnmet, HeldPlaces, PlaceUnmet};
pub use room_error::{MakeError, Unmet};

/// All that a cache works in, owned.
type Owned<I, P, C> = Guard<Waiting<Vec<Slot>, I, P, C, Vec<Waiter>>>;
/// A reference to a slot; see [`umbra_core::cache::waiting::Held`].
pub type Held<'a, I, P, C> = cache::waiting::Held<'a, Owned<I, P, C>>;
/// The duty to fill a slot; see [`umbra_core::cache::waiting::Fill`].
pub type Fill<'a, I, P, C> = cache::waiting::Fill<'a, Owned<I, P, C>>;
/// A slot, and what its new holder found in it.
pub type Given<'a, I, P, C> = cache::waiting::Given<'a, Owned<I, P, C>>;

/// A slot for each data id that is in use; content is gone with the last reference.
pub type Stack<I> = SlotCache<I, cache::policy::Never, Plain>;
/// Remembers content beyond the last reference, until its slot is needed.
pub type Cache<I, P> = SlotCache<I, P, Remembering>;
/// And forgets content on request.
pub type Forgetful<I, P> = SlotCache<I, P, Forgetting>;

/// Threads that wait at once for one cache, unless said otherwise.
const WAITERS: usize = 1024;

/// A slot cache for many threads; use it by the names [`Stack`], [`Cache`] and [`Forgetful`].
///
/// What never waits is that of [`Shared`]: by [`Deref`].
#[derive(Debug)]
pub struct SlotCache<I, P, C>(Shared<Owned<I, P, C>>);

impl<I: Index> Stack<I> {
    /// An empty cache that hands out the slots of the range, for which 1024 threads can wait at once.
    ///
    /// # Errors
    /// As for [`SlotCache::new`].
    pub fn stack(slots: Range<u32>, index: I) -> Result<Self, BuildError> {
        Self::new(slots, index, cache::policy::Never)
    }
}

impl<I: Index, P: Policy, C: Contract> SlotCache<I, P, C> {
    /// An empty cache that hands out the slots of the range, for which 1024 threads can wait at once.
    ///
    /// # Errors
    /// [`BuildError`] if the range is empty, if the index has no room for it, or without memory.
    pub fn new(slots: Range<u32>, index: I, policy: P) -> Result<Self, BuildError> {
        Self::with_waiters(slots, index, policy, WAITERS)
    }

    /// The same for as many threads that wait at once.
    ///
    /// # Errors
    /// As for [`SlotCache::new`].
    pub fn with_waiters(slots: Range<u32>, index: I, policy: P, waiters: usize) -> Result<Self, BuildError> {
        let records = reserved(slots.len(), || Slot::EMPTY)?;
        let waiters = reserved(waiters, || Waiter::EMPTY)?;
        let cache = cache::SlotCache::new(records, index, policy, slots)?;
        Ok(SlotCache(Shared::new(Guard::new(Waiting::new(cache, waiters)))))
    }

    /// A reference to the slot of `data`, waiting for one in line if all are in use. Who does not want to wait asks
    /// [`Shared::try_alloc`].
    ///
    /// # Errors
    /// [`AllocError`]: the deadline, the interrupt, or what waiting does not help against.
    pub fn alloc(&self, data: u64, within: Duration) -> Result<Given<'_, I, P, C>, AllocError> {
        let mut slot = self.0.slot(data);
        match wait::until(&mut slot, within) {
            Some(given) => Ok(given?),
            None => Ok(slot.expire().map_err(|scene| AllocError::Expired { within, scene: scene.into() })??),
        }
    }
}

impl<I: Index, P: Policy, C: Contract + Remembers> SlotCache<I, P, C> {
    /// Waits until the slot of `data` is filled, for who found it `Assigned`.
    ///
    /// # Errors
    /// [`FilledError`]: the deadline, the interrupt, or that the content will not come.
    pub fn filled(&self, data: u64, within: Duration) -> Result<(), FilledError> {
        let mut content = self.0.content(data);
        match wait::until(&mut content, within) {
            Some(told) => Ok(told?),
            None => Ok(content.expire().map_err(|scene| FilledError::Expired { within, scene: scene.into() })??),
        }
    }
}

impl<I, P, C> Deref for SlotCache<I, P, C> {
    type Target = Shared<Owned<I, P, C>>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}
