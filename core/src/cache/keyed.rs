//! Several caches in one table, by key, made and ended while the others work.
//!
//! Who names caches by what they are for (a workflow, a file) finds them by key; who uses one often keeps its id, which
//! is stale once the cache has ended, also if another one has its key or its place by then.
//!
//! ```
//! use umbra_core::cache::keyed::{CreateError, EndError, Keyed, Place};
//! use umbra_core::cache::{Dense, Slot, Stack};
//! use umbra_core::map::Entry;
//! let stack = || Stack::stack([Slot::EMPTY; 1], Dense::new([0; 9]), 0..1);
//! let mut caches = Keyed::new([const { Place::EMPTY }; 2], [const { Entry::EMPTY }; 8], 0x5eed);
//! let id = caches.create(7, stack()?).map_err(|refused| refused.why)?;
//! assert_eq!(caches.create(7, stack()?).unwrap_err().why, CreateError::DuplicateKey { key: 7 });
//! caches.get_mut(caches.find(7)?)?.alloc(3)?;
//! assert_eq!(caches.end(id).map(drop), Err(EndError::InUse { slots: 1, waiting: 0 }));
//! caches.get_mut(id)?.free(3)?;
//! assert!(caches.end(id).is_ok() && caches.get(id).is_err() && caches.find(7).is_err());
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! Invariants: a key has one cache at most; a cache that has ended was interrupted, so that whoever still sees it (a
//! thread that shares it) fails instead of using slots that are somebody else's.
//!
//! *Cost*: a look-up by id is one record, one by key a look-up in a [`Map`] more. To end a cache is O(1), or O(slots)
//! if it was interrupted before. Nothing allocates.

use core::fmt;

use super::SlotCache;
use super::index::Index;
use super::policy::Policy;
use super::slot::Slot;
use super::waiting::{Contract, Waiter, Waiting};
use crate::error::Stale;
use crate::id::Id;
use crate::map::{Entry, Map};
use crate::slots::{self, Slots};

/// A cache and its key.
#[derive(Debug)]
pub struct Named<C> {
    key: u64,
    cache: C,
}

impl<C> Named<C> {
    /// The key.
    pub fn key(&self) -> u64 {
        self.key
    }

    /// The cache.
    pub fn cache(&self) -> &C {
        &self.cache
    }
}

/// The place of one cache; a table is lent an array of them.
pub type Place<C> = slots::Slot<Named<C>>;

/// What can stand in a table: a cache that ends only if nobody uses it.
pub trait Ends {
    /// Interrupts the cache, unless somebody holds a slot or waits. One that was interrupted before ends once nobody may write
    /// to its slots any more.
    ///
    /// # Errors
    /// Who uses it; nothing has changed then.
    fn end(&mut self) -> Result<(), InUse>;
}

/// Who uses a cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct InUse {
    /// Slots with references; after an interrupt, slots that somebody may still be writing to.
    pub slots: u32,
    /// Those who wait.
    pub waiting: u32,
}

impl<S, I, P, C> Ends for SlotCache<S, I, P, C>
where
    S: AsRef<[Slot]> + AsMut<[Slot]>,
    I: Index,
    P: Policy,
{
    fn end(&mut self) -> Result<(), InUse> {
        match held(self) {
            0 => {
                self.interrupt();
                Ok(())
            }
            slots => Err(InUse { slots, waiting: 0 }),
        }
    }
}

impl<S, I, P, C, R> Ends for Waiting<S, I, P, C, R>
where
    S: AsRef<[Slot]> + AsMut<[Slot]>,
    I: Index,
    P: Policy,
    C: Contract,
    R: AsRef<[Waiter]> + AsMut<[Waiter]>,
{
    fn end(&mut self) -> Result<(), InUse> {
        self.end_unused()
    }
}

/// Slots with references; after an interrupt, slots that somebody may still be writing to.
pub(super) fn held<S, I, P, C>(cache: &SlotCache<S, I, P, C>) -> u32
where
    S: AsRef<[Slot]> + AsMut<[Slot]>,
    I: Index,
    P: Policy,
{
    match (cache.len(), cache.idle()) {
        (Ok(assigned), Ok(idle)) => assigned - idle,
        _ => cache.outstanding_fills().count() as u32,
    }
}

/// Why a cache was not put under a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum CreateError {
    /// Another cache has the key.
    DuplicateKey {
        /// The key.
        key: u64,
    },
    /// As many caches as can be.
    TableFull {
        /// They.
        caches: usize,
    },
}

impl fmt::Display for CreateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CreateError::DuplicateKey { key } => write!(f, "key {key} has a cache: end it, or take another key"),
            CreateError::TableFull { caches } => write!(f, "{caches} caches are there, as many as can be: end one"),
        }
    }
}
impl core::error::Error for CreateError {}

/// A cache that got no key, given back.
#[derive(Debug)]
pub struct Refused<C> {
    /// The cache.
    pub cache: C,
    /// Why.
    pub why: CreateError,
}

/// No cache has this key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct UnknownKey {
    /// The key.
    pub key: u64,
}

impl fmt::Display for UnknownKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no cache has key {}: it has ended, or was never created", self.key)
    }
}
impl core::error::Error for UnknownKey {}

/// Why a cache did not end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum EndError {
    /// The id names a cache that has ended.
    Stale,
    /// Somebody holds slots, or waits.
    InUse {
        /// Slots with references; after an interrupt, slots that somebody may still be writing to.
        slots: u32,
        /// Those who wait.
        waiting: u32,
    },
}

impl From<Stale> for EndError {
    fn from(_: Stale) -> Self {
        EndError::Stale
    }
}

impl From<InUse> for EndError {
    fn from(InUse { slots, waiting }: InUse) -> Self {
        EndError::InUse { slots, waiting }
    }
}

impl fmt::Display for EndError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EndError::Stale => f.write_str("the cache has ended already"),
            EndError::InUse { slots, waiting } => {
                write!(
                    f,
                    "{slots} slots are in use and {waiting} wait: free them, or interrupt the cache and settle its fills"
                )
            }
        }
    }
}
impl core::error::Error for EndError {}

/// A table of caches; see the [module](self).
#[derive(Debug)]
pub struct Keyed<S, M> {
    caches: Slots<S>,
    keys: Map<M>,
}

impl<S, M> Keyed<S, M> {
    /// An empty table for as many caches as there are places and as 7/8 of the entries; the seed mixes the keys.
    pub fn new<C>(places: S, entries: M, seed: u64) -> Self
    where
        S: AsRef<[Place<C>]> + AsMut<[Place<C>]>,
        M: AsRef<[Entry<u64, Id<Named<C>>>]> + AsMut<[Entry<u64, Id<Named<C>>>]>,
    {
        Keyed { caches: Slots::new(places), keys: Map::new(entries, seed) }
    }

    /// How many caches there are.
    pub fn len(&self) -> usize {
        self.caches.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.caches.is_empty()
    }

    /// Puts a cache under a key.
    ///
    /// # Errors
    /// [`Refused`], with the cache.
    pub fn create<C>(&mut self, key: u64, cache: C) -> Result<Id<Named<C>>, Refused<C>>
    where
        S: AsRef<[Place<C>]> + AsMut<[Place<C>]>,
        M: AsRef<[Entry<u64, Id<Named<C>>>]> + AsMut<[Entry<u64, Id<Named<C>>>]>,
    {
        if self.find(key).is_ok() {
            return Err(Refused { cache, why: CreateError::DuplicateKey { key } });
        }
        let why = CreateError::TableFull { caches: self.caches.len() };
        let id = self.caches.take(Named { key, cache }).map_err(|full| Refused { cache: full.0.cache, why })?;
        if self.keys.insert(key, id).is_err()
            && let Ok(Named { cache, .. }) = self.caches.remove(id)
        {
            return Err(Refused { cache, why });
        }
        Ok(id)
    }

    /// The id of the cache with this key.
    ///
    /// # Errors
    /// [`UnknownKey`].
    pub fn find<C>(&self, key: u64) -> Result<Id<Named<C>>, UnknownKey>
    where
        M: AsRef<[Entry<u64, Id<Named<C>>>]> + AsMut<[Entry<u64, Id<Named<C>>>]>,
    {
        self.keys.get(key).ok_or(UnknownKey { key })
    }

    /// The cache with this id.
    ///
    /// # Errors
    /// [`Stale`] if it has ended.
    pub fn get<C>(&self, id: Id<Named<C>>) -> Result<&C, Stale>
    where
        S: AsRef<[Place<C>]> + AsMut<[Place<C>]>,
    {
        self.caches.get(id).map(|named| &named.cache)
    }

    /// The cache with this id, to work with it.
    ///
    /// # Errors
    /// [`Stale`] if it has ended.
    pub fn get_mut<C>(&mut self, id: Id<Named<C>>) -> Result<&mut C, Stale>
    where
        S: AsRef<[Place<C>]> + AsMut<[Place<C>]>,
    {
        self.caches.get_mut(id).map(|named| &mut named.cache)
    }

    /// Ends a cache that nobody uses, and gives it back: interrupted, and without its key.
    ///
    /// # Errors
    /// [`EndError`]; nothing has changed then.
    pub fn end<C: Ends>(&mut self, id: Id<Named<C>>) -> Result<C, EndError>
    where
        S: AsRef<[Place<C>]> + AsMut<[Place<C>]>,
        M: AsRef<[Entry<u64, Id<Named<C>>>]> + AsMut<[Entry<u64, Id<Named<C>>>]>,
    {
        self.get_mut(id)?.end()?;
        let Named { key, cache } = self.caches.remove(id)?;
        let _ = self.keys.remove::<u64, Id<Named<C>>>(key);
        Ok(cache)
    }

    /// All caches.
    pub fn iter<'a, C: 'a>(&'a self) -> impl Iterator<Item = (Id<Named<C>>, &'a Named<C>)>
    where
        S: AsRef<[Place<C>]> + AsMut<[Place<C>]>,
    {
        self.caches.iter()
    }
}
