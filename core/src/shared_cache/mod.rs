//! A cache of slots in a segment, shared by processes of a host and their threads.
//!
//! The contracts are those of [`cache`](crate::cache), slot for slot: [`Stack`], [`Cache`], [`Forgetful`]. Each process
//! joins as a [`Client`], whose copies its threads use. What a slot is doing and who refers to it is one word, which
//! lies beside its data and its number where a hash of the data says; so a hit and its `free` touch one line of the
//! processor's cache, with one read-modify-write each, and have nothing to themselves. Who finds nothing has the *line*
//! of the index to himself where the data belongs, for as long as it takes to find a slot; others that miss in the same
//! line get [`Blocked::Busy`] if that lasts.
//!
//! Processes may be killed at any instruction. References are counted in the word by process, and it also names who
//! claims, fills or moves the slot, so there is nothing to repair, only to take back: [`Client::reclaim`] gives back
//! what a dead process held and names the fills that it had begun, beside all other work. Who lives is the caller's to
//! find out, by the [`Identity`] that each process joined with ([`SlotCache::members`]).
//!
//! ```
//! use umbra_core::cache::Found;
//! use umbra_core::cell::BytesMut;
//! use umbra_core::shared_cache::{Cache, Identity, Sharing, words_for};
//! let sharing = Sharing::new(8, 31).ok_or("too many")?;
//! let count = words_for(1000, sharing).ok_or("too many")?;
//! let mut memory = vec![0_u64; count]; // Or a segment that processes map.
//! let words = BytesMut::from_words(&mut memory).words(0, count)?;
//!
//! let cache = Cache::create(words, 1000, sharing, 1)?;
//! let (a, b) = (cache.join(Identity::new(1, 0))?, Cache::attach(words)?.join(Identity::new(2, 0))?);
//! let slot = a.alloc(42)?.slot; // Empty: load data 42 into the slot, and then:
//! a.remember(42)?;
//! assert_eq!((b.alloc(42)?.found, b.alloc(43)?.found), (Found::Remembered, Found::Empty));
//!
//! // b dies: what it held is given back, and it is told that nobody loads data 43 any more.
//! let mut abandoned = vec![];
//! let reclaimed = a.reclaim(b.owner(), Identity::new(2, 0), |_, data| abandoned.push(data))?;
//! assert_eq!((reclaimed.references, abandoned), (2, vec![43]));
//! assert_eq!(a.references(42)?, 1);
//! # let _ = slot;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Guaranteed, whichever processes are killed or stopped at whatever instruction: data has one slot at most, and a
//! slot one data id; content with a reference stays; one client at a time is told to fill a slot; no call
//! waits for a process that is stopped, though [`Blocked::Busy`] names it to those who need its line; after `reclaim`
//! no slot, reference or fill of the dead one is left. Where operations overlap, the order in which slots are taken and
//! content leaves is any.
//!
//! ABA: a compare-and-swap may take a word for one that it read before although the place had 2^13 other data
//! meanwhile. So an `alloc` looks at the data again when it has the reference, and a `forget` that slept that long
//! empties a slot of other idle content.
//!
//! Source of the split into a word that decides and an index that only leads there: this repository's
//! [`shared_slots`](crate::shared_slots).
//!
//! *Cost*: a hit touches one line if its data is at home, and up to nine if not. Of ids spread at random nine in ten
//! are at home as the cache fills; as content leaves for other it becomes seven in ten, half of the others are one line
//! away, and up to one in fifty more than eight: their hits need the home line, as misses do. 44 bytes a slot.
//! `reclaim` looks at each line three times; an `alloc` that finds all slots in use looked at each twice.

mod batch;
mod client;
mod contract;
mod error;
mod grant;
mod hit;
mod holding;
mod layout;
mod line;
mod members;
mod place;
mod queue;
mod take;
mod turn;
mod vacancy;
mod word;

use core::marker::PhantomData;

use crate::atomic::AtomicU64;
use crate::cache::{Forgetting, Plain, Remembering};
use crate::shared_slots::Owner;

pub use crate::crew::Identity;
use crate::crew::Liveness;
pub use client::Client;
pub use error::{
    AllocError, AttachError, Blocked, FillError, ForgetError, FreeError, JoinError, LookError, ReclaimError,
};
pub use grant::{Grant, Pin};
pub use holding::Holding;
pub use layout::{Contract, Sharing, words_for};
pub use members::Reclaimed;
pub use queue::Wake;
pub use turn::{First, Turn};

use layout::Parts;
use members::Count;

/// A slot for each data id that is in use; content is gone with the last reference.
pub type Stack<'a> = SlotCache<'a, Plain>;
/// Remembers content beyond the last reference, until its slot is needed.
pub type Cache<'a> = SlotCache<'a, Remembering>;
/// And forgets content on request, so that its slot is used before any other content leaves.
pub type Forgetful<'a> = SlotCache<'a, Forgetting>;

/// One implementation of all contracts; use it by the names [`Stack`], [`Cache`] and [`Forgetful`].
#[derive(Debug)]
pub struct SlotCache<'a, C> {
    parts: Parts<'a>,
    contract: PhantomData<C>,
}
impl<C> Copy for SlotCache<'_, C> {}
impl<C> Clone for SlotCache<'_, C> {
    fn clone(&self) -> Self {
        *self
    }
}

/// What happened since the cache was made, in all processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Statistics {
    /// Allocations that had to fill: each is a load.
    pub loads: u64,
    /// Contents given up for another.
    pub evictions: u64,
    /// Allocations refused because all slots were in use.
    pub refused: u64,
}

impl<'a, C: Contract> SlotCache<'a, C> {
    /// Makes an empty cache; nobody may use the memory as one meanwhile. Without ids that others choose any seed will
    /// do. Memory that begins at a multiple of 64 bytes makes it fast.
    ///
    /// # Errors
    /// [`AttachError`] if it does not fit, or would have no slots.
    pub fn create(words: &'a [AtomicU64], slots: usize, sharing: Sharing, seed: u64) -> Result<Self, AttachError> {
        let parts = Parts::create::<C>(words, slots, sharing, seed)?;
        Ok(SlotCache { parts, contract: PhantomData })
    }

    /// Looks at a cache that another process created; `words` may be longer than it.
    ///
    /// # Errors
    /// [`AttachError`].
    pub fn attach(words: &'a [AtomicU64]) -> Result<Self, AttachError> {
        Ok(SlotCache { parts: Parts::attach::<C>(words)?, contract: PhantomData })
    }

    /// The same, with a way to wake those who sleep on a word of it: for who shares it with [those who
    /// wait](Client::stand). Without one they find out by themselves, when they look again.
    #[must_use]
    pub fn waking(self, wake: Wake) -> Self {
        SlotCache { parts: self.parts.waking(wake), contract: PhantomData }
    }

    /// Makes a process one of those that use the cache; once a process.
    ///
    /// # Errors
    /// [`JoinError`].
    pub fn join(&self, identity: Identity) -> Result<Client<'a, C>, JoinError> {
        Ok(Client::new(self.parts, self.parts.join(identity)?, identity))
    }

    /// As [`join`](Self::join), if need be in the place of a process that will not run again: so a cache whose processes
    /// all died can be used again. What that one held is taken back as by [`Client::reclaim`], under the same conditions.
    ///
    /// # Errors
    /// [`JoinError`] if all places are those of the living, or of dead ones whose things cannot be taken back now.
    pub fn join_or_succeed(
        &self,
        identity: Identity,
        liveness: &impl Liveness,
        abandoned: impl FnMut(u32, u64),
    ) -> Result<Client<'a, C>, JoinError> {
        Ok(Client::new(self.parts, self.parts.join_or_succeed(identity, liveness, abandoned)?, identity))
    }

    /// The processes that joined and neither left nor were reclaimed.
    pub fn members(&self) -> impl Iterator<Item = (Owner, Identity)> {
        self.parts.members()
    }

    /// How many stand in line for a slot, just then.
    #[must_use]
    pub fn waiting(&self) -> u32 {
        self.parts.queue.count()
    }

    /// A word in which those who look after the dead can note when they did; 0 in the beginning.
    #[must_use]
    pub fn patrolled(&self) -> &'a AtomicU64 {
        self.parts.queue.patrolled()
    }

    /// Slots that there are.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        self.parts.slots
    }

    /// The line of the index where data belongs, and its place there; for tests, which need data that belongs into the same.
    #[doc(hidden)]
    #[must_use]
    pub fn home(&self, data: u64) -> (usize, usize) {
        let home = self.parts.home(data);
        (home.line, home.at)
    }

    /// How many processes can use it, with how many references each.
    #[must_use]
    pub fn sharing(&self) -> Sharing {
        self.parts.sharing
    }

    /// Slots that are empty right now; O(slots).
    #[must_use]
    pub fn empty(&self) -> u32 {
        self.parts.places().filter(|place| word::Word::of_slot(place.word()).is_free()).count() as u32
    }

    /// What happened so far.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let counted = |what| self.parts.counted(what);
        let (loads, evictions) = (counted(Count::Loads), counted(Count::Evictions));
        Statistics { loads, evictions, refused: counted(Count::Refused) }
    }

    /// From now on every operation of every process fails with `Interrupted`, for good; one that had begun may still
    /// have its effect. A second interrupt changes nothing.
    pub fn interrupt(&self) {
        self.parts.interrupt();
    }

    /// Whether the cache was interrupted.
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        self.parts.is_interrupted()
    }
}
