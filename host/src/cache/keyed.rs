//! Several caches under keys, for threads.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use umbra_core::cache::Index;
use umbra_core::cache::keyed::{CreateError, EndError, Ends, InUse, Keyed, Named, Place, UnknownKey};
use umbra_core::cache::policy::Policy;
use umbra_core::cache::waiting::Contract;
use umbra_core::error::Stale;
use umbra_core::id::Id;
use umbra_core::map::Entry;

use super::{BuildError, SlotCache};
use crate::sys::heap::reserved;

/// A cache in a table, which those who found it may still use.
#[derive(Debug)]
pub struct Tenant<C>(Arc<C>);

/// How a table names a cache: stale once that has ended.
pub type Handle<C> = Id<Named<Tenant<C>>>;

type Table<C> = Keyed<Vec<Place<Tenant<C>>>, Vec<Entry<u64, Handle<C>>>>;

/// A table of caches, each under a key; they are made and ended while the others work.
///
/// ```
/// use std::time::Duration;
/// use umbra::cache::{Caches, Stack};
/// use umbra_core::cache::Dense;
/// let caches = Caches::new(10)?;
/// caches.create(7, Stack::stack(0..2, Dense::new(vec![0; 100]))?)?;
/// let cache = caches.find(7)?;
/// let held = cache.alloc(42, Duration::from_secs(5))?;
/// assert!(caches.end(7).is_err(), "a slot is in use");
/// drop(held);
/// caches.end(7)?;
/// assert!(cache.alloc(42, Duration::from_secs(5)).is_err() && caches.find(7).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// *Cost*: a look-up takes a lock that look-ups share; keep what it returns.
#[derive(Debug)]
pub struct Caches<C>(RwLock<Table<C>>);

/// Why no cache with this key was ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EndKeyError {
    /// No cache has the key.
    #[error(transparent)]
    UnknownKey(#[from] UnknownKey),
    /// Somebody uses it.
    #[error("the cache with key {key}: {error}")]
    Refused {
        /// The key.
        key: u64,
        /// Who.
        error: EndError,
    },
}

/// A cache that threads share, and that can stand in a table.
pub trait EndsShared {
    /// [`Ends::end`] by those who share it.
    ///
    /// # Errors
    /// Who uses it; nothing has changed then.
    fn end_unused(&self) -> Result<(), InUse>;

    /// Makes all calls fail, those that wait and those to come.
    fn interrupt(&self);
}

impl<I: Index, P: Policy, K: Contract> EndsShared for SlotCache<I, P, K> {
    fn end_unused(&self) -> Result<(), InUse> {
        self.0.end_unused()
    }
    fn interrupt(&self) {
        self.0.interrupt();
    }
}

impl<C: EndsShared> Ends for Tenant<C> {
    fn end(&mut self) -> Result<(), InUse> {
        self.0.end_unused()
    }
}

impl<C: EndsShared> Caches<C> {
    /// A table for so many caches.
    ///
    /// # Errors
    /// [`BuildError::NoMemory`].
    pub fn new(caches: usize) -> Result<Self, BuildError> {
        let entries = caches.saturating_mul(2).checked_next_power_of_two().unwrap_or(usize::MAX).max(8);
        let (places, entries) = (reserved(caches, || Place::EMPTY)?, reserved(entries, || Entry::EMPTY)?);
        Ok(Caches(RwLock::new(Keyed::new(places, entries, RandomState::new().hash_one(caches)))))
    }

    /// A thread that panics has changed nothing of the table.
    fn read(&self) -> RwLockReadGuard<'_, Table<C>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Table<C>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many caches there are.
    pub fn len(&self) -> usize {
        self.read().len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.read().is_empty()
    }

    /// Puts a cache under a key.
    ///
    /// # Errors
    /// [`CreateError`]; the cache is dropped then.
    pub fn create(&self, key: u64, cache: C) -> Result<Handle<C>, CreateError> {
        let created = self.write().create(key, Tenant(Arc::new(cache)));
        // What was refused is dropped here, without the lock.
        created.map_err(|refused| refused.why)
    }

    /// The cache with this key.
    ///
    /// # Errors
    /// [`UnknownKey`].
    pub fn find(&self, key: u64) -> Result<Arc<C>, UnknownKey> {
        let table = self.read();
        table.get(table.find(key)?).map(|tenant| Arc::clone(&tenant.0)).map_err(|Stale| UnknownKey { key })
    }

    /// The cache that was created with this handle.
    ///
    /// # Errors
    /// [`Stale`] once it has ended, also if another cache has its key.
    pub fn get(&self, handle: Handle<C>) -> Result<Arc<C>, Stale> {
        self.read().get(handle).map(|tenant| Arc::clone(&tenant.0))
    }

    /// Ends the cache with this key, if nobody holds a slot of it or waits. Whoever still has it finds it interrupted.
    ///
    /// # Errors
    /// [`EndKeyError`]; nothing has changed then.
    pub fn end(&self, key: u64) -> Result<(), EndKeyError> {
        let mut table = self.write();
        let ended = table.find(key).map(|handle| table.end(handle));
        drop(table);
        // It is dropped here, without the lock.
        ended?.map(drop).map_err(|error| not_ended(key, error))
    }

    /// Interrupts the cache with this key, so that everybody who waits or uses it fails, and ends it; never one that
    /// somebody puts under the key meanwhile.
    ///
    /// # Errors
    /// [`EndKeyError`] if there is none, if another call has ended it meanwhile, or if its slots may still be written to: it
    /// is interrupted then, and ends once each of its outstanding fills is settled.
    pub fn interrupt_and_end(&self, key: u64) -> Result<(), EndKeyError> {
        let table = self.read();
        let handle = table.find(key)?;
        let cache = table.get(handle).map(|tenant| Arc::clone(&tenant.0)).map_err(|Stale| UnknownKey { key })?;
        drop(table);
        cache.interrupt();
        let ended = self.write().end(handle);
        ended.map(drop).map_err(|error| not_ended(key, error))
    }
}

/// Why the cache that was found under a key has not ended.
fn not_ended(key: u64, error: EndError) -> EndKeyError {
    match error {
        EndError::Stale => UnknownKey { key }.into(),
        error => EndKeyError::Refused { key, error },
    }
}
