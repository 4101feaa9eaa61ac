//! Collecting the entries of a group until none is missing.
//!
//! A builder is a set that only grows: the same entry again changes nothing, another entry for the same rank is a
//! conflict, and order does not matter. Which ranks are there is a bitmap; the count beside it is the number of its
//! set bits and never anything else. (Upstream counted entries, so a repeated one made the group full too early or
//! never: spec 0.2, 1.5.)
//!
//! ```
//! use umbra_core::endpoints::{Descriptor, JobKey, Shape, TableBuilder};
//! use umbra_core::id::Generation;
//! use umbra_core::peer::{Host, LocalRank, Rank, WorldRank};
//! use umbra_core::placement::Placement;
//!
//! let job = Placement::one_dpu_a_host(2, 2, 1)?;
//! let mut bytes = [0; Descriptor::WORLD_BYTES];
//! let world = Descriptor::write_world(0, 8, &mut bytes)?;
//! let shape = Shape::new(&world, JobKey::new([1; 16]).group(&world), &job);
//! let mut builder = TableBuilder::new(vec![0; shape.builder_bytes()], shape)?;
//! for rank in 0..8 {
//!     let entry = job.entry(WorldRank(rank), Host(rank / 4), LocalRank(rank % 4)).unwrap();
//!     assert_eq!(builder.missing().next(), Some(Rank(rank)));
//!     assert!(builder.set(Rank(rank), &entry)?);
//!     assert!(!builder.set(Rank(rank), &entry)?);
//! }
//! assert!(builder.is_full());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use core::fmt;

use zerocopy::FromBytes;
use zerocopy::little_endian::{U32, U64};

use super::layout::{NONE, halves, pair};
use super::shape::{Plan, Shape};
use crate::entry::{Entry, Shadows};
use crate::peer::{Host, Peer, Rank, Sp, WorldRank};

/// The entries of one group so far, over lent bytes.
#[derive(Debug)]
pub struct TableBuilder<S> {
    pub(super) storage: S,
    pub(super) shape: Shape,
    pub(super) plan: Plan,
    count: u32,
}

/// Why an entry was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum SetError {
    /// The rank is not below the group's size.
    RankOutOfRange {
        /// The rank.
        rank: Rank,
        /// The group's size.
        size: u32,
    },
    /// Another entry is there already; it stays.
    Conflict(Rank),
    /// The entry's process, host or a service process is beyond what the job can have.
    OutOfRange(Rank),
    /// The entry has no shadow service process, too many for the job, or one twice.
    BadShadows(Rank),
}

impl fmt::Display for SetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SetError::RankOutOfRange { rank, size } => write!(f, "rank {rank} is not in a group of {size}"),
            SetError::Conflict(rank) => write!(f, "rank {rank} is announced with two different entries"),
            SetError::OutOfRange(rank) => {
                write!(f, "entry of rank {rank} names a process, host or service process that the job cannot have")
            }
            SetError::BadShadows(rank) => {
                write!(f, "entry of rank {rank} names no shadow service process, too many, or one twice")
            }
        }
    }
}
impl core::error::Error for SetError {}

/// Why there is no table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum BuildError {
    /// The lent storage is shorter than [`Shape::builder_bytes`].
    StorageTooSmall {
        /// Bytes that are needed.
        needed: usize,
    },
    /// The shape is none of a group: no rank, too many ranks, or an absurd number of shadows.
    BadShape,
    /// Entries are missing.
    Missing {
        /// How many.
        count: u32,
        /// The first of them.
        first: Rank,
    },
    /// A service process shadows ranks of two hosts.
    ServiceProcessOnTwoHosts(Sp),
    /// One process is named as two ranks.
    DuplicateProcess(WorldRank),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::StorageTooSmall { needed } => {
                write!(f, "storage of the table builder is too small: lend {needed} bytes")
            }
            BuildError::BadShape => f.write_str("no group has this size or this number of shadow service processes"),
            BuildError::Missing { count, first } => {
                write!(f, "{count} ranks of the group are missing, the first is rank {first}")
            }
            BuildError::ServiceProcessOnTwoHosts(sp) => {
                write!(f, "service process {sp} shadows ranks of two hosts: correct the entries")
            }
            BuildError::DuplicateProcess(rank) => write!(f, "world rank {rank} is two ranks of one group"),
        }
    }
}
impl core::error::Error for BuildError {}

/// The builder's storage, cut up.
pub(super) struct Parts<'b> {
    pub(super) set: &'b mut [U64],
    pub(super) ranks: &'b mut [U64],
    pub(super) hosts: &'b mut [U32],
    pub(super) extra: &'b mut [U32],
    pub(super) pairs: &'b mut [U64],
    pub(super) table: &'b mut [u8],
}

impl<'b> Parts<'b> {
    pub(super) fn cut(storage: &'b mut [u8], plan: &Plan) -> Option<Parts<'b>> {
        let (set, rest) = storage.split_at_mut_checked(plan.ranks)?;
        let (ranks, rest) = rest.split_at_mut_checked(plan.hosts - plan.ranks)?;
        let (hosts, rest) = rest.split_at_mut_checked(plan.extra - plan.hosts)?;
        let (extra, rest) = rest.split_at_mut_checked(plan.pairs - plan.extra)?;
        let (pairs, rest) = rest.split_at_mut_checked(plan.table - plan.pairs)?;
        Some(Parts {
            set: <[U64]>::mut_from_bytes(set).ok()?,
            ranks: <[U64]>::mut_from_bytes(ranks).ok()?,
            hosts: <[U32]>::mut_from_bytes(hosts).ok()?,
            extra: <[U32]>::mut_from_bytes(extra).ok()?,
            pairs: <[U64]>::mut_from_bytes(pairs).ok()?,
            table: rest.get_mut(..plan.end - plan.table)?,
        })
    }
}

impl<S: AsRef<[u8]> + AsMut<[u8]>> TableBuilder<S> {
    /// An empty builder for a group of this shape, in storage of at least [`Shape::builder_bytes`].
    ///
    /// # Errors
    /// [`BuildError::StorageTooSmall`] or [`BuildError::BadShape`].
    pub fn new(mut storage: S, shape: Shape) -> Result<Self, BuildError> {
        if shape.size == 0 || shape.size > Peer::CAPACITY || shape.per_dpu == 0 {
            return Err(BuildError::BadShape);
        }
        let plan = shape.plan().ok_or(BuildError::BadShape)?;
        let too_small = BuildError::StorageTooSmall { needed: plan.end };
        let bytes = storage.as_mut().get_mut(..plan.end).ok_or(too_small)?;
        bytes.get_mut(..plan.ranks).ok_or(too_small)?.fill(0);
        Ok(TableBuilder { storage, shape, plan, count: 0 })
    }

    /// The shape for which this builder was made.
    #[must_use]
    pub const fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Gives the storage back.
    #[must_use]
    pub fn into_storage(self) -> S {
        self.storage
    }

    /// Says whether an entry would be new, without adding it.
    ///
    /// # Errors
    /// As [`set`](Self::set).
    pub fn check(&self, rank: Rank, entry: &Entry) -> Result<bool, SetError> {
        let Shape { size, shadows, service_processes, hosts, .. } = self.shape;
        if rank.0 >= size {
            return Err(SetError::RankOutOfRange { rank, size });
        }
        let beyond = entry.shadows.iter().any(|sp| sp.0 >= service_processes.min(Peer::CAPACITY));
        if beyond || entry.world_rank.0 >= Peer::CAPACITY || entry.host.0 >= hosts {
            return Err(SetError::OutOfRange(rank));
        }
        let count = entry.shadows.len();
        let repeated = entry.shadows.iter().enumerate().any(|(i, sp)| entry.shadows.iter().take(i).any(|s| s == sp));
        if count == 0 || count > shadows as usize || repeated {
            return Err(SetError::BadShadows(rank));
        }
        match self.get(rank) {
            None => Ok(true),
            Some(known) if known == *entry => Ok(false),
            Some(_) => Err(SetError::Conflict(rank)),
        }
    }

    /// Adds the entry of one rank; `Ok(true)` if it is new, `Ok(false)` if the same entry was there.
    ///
    /// # Errors
    /// [`SetError`]; nothing changed then.
    pub fn set(&mut self, rank: Rank, entry: &Entry) -> Result<bool, SetError> {
        if !self.check(rank, entry)? {
            return Ok(false);
        }
        let Shape { size, shadows, .. } = self.shape;
        let Some((&first, further)) = entry.shadows.split_first() else { return Err(SetError::BadShadows(rank)) };
        let unreachable = SetError::RankOutOfRange { rank, size };
        let parts = Parts::cut(self.storage.as_mut(), &self.plan).ok_or(unreachable)?;
        let at = rank.index();
        let slots = shadows as usize - 1;
        if let Some(extra) = parts.extra.get_mut(at * slots..(at + 1) * slots) {
            extra.fill(U32::new(NONE));
            extra.iter_mut().zip(further).for_each(|(slot, sp)| slot.set(sp.0));
        }
        parts.ranks.get_mut(at).ok_or(unreachable)?.set(pair(entry.world_rank.0, first.0));
        parts.hosts.get_mut(at).ok_or(unreachable)?.set(entry.host.0);
        let word = parts.set.get_mut(at / 64).ok_or(unreachable)?;
        word.set(word.get() | 1 << (at % 64));
        self.count += 1;
        Ok(true)
    }

    pub(super) fn part<T: FromBytes + zerocopy::Immutable + zerocopy::KnownLayout + zerocopy::Unaligned>(
        &self,
        from: usize,
        at: usize,
    ) -> Option<&T> {
        let from = from.checked_add(at.checked_mul(size_of::<T>())?)?;
        T::ref_from_bytes(self.storage.as_ref().get(from..from.checked_add(size_of::<T>())?)?).ok()
    }

    /// Whether the rank's entry is there.
    #[must_use]
    pub fn is_set(&self, rank: Rank) -> bool {
        let word = self.part::<U64>(0, rank.index() / 64).filter(|_| rank.0 < self.shape.size);
        word.is_some_and(|word| word.get() >> (rank.0 % 64) & 1 == 1)
    }

    /// The entry of a rank, if it is there.
    #[must_use]
    pub fn get(&self, rank: Rank) -> Option<Entry> {
        if !self.is_set(rank) {
            return None;
        }
        let (world_rank, first) = halves(self.part::<U64>(self.plan.ranks, rank.index())?.get());
        let host = Host(self.part::<U32>(self.plan.hosts, rank.index())?.get());
        let mut shadows = Shadows::new();
        shadows.push(Sp(first)).ok()?;
        let slots = self.shape.shadows as usize - 1;
        for at in 0..slots {
            let sp = self.part::<U32>(self.plan.extra, rank.index() * slots + at)?.get();
            if sp != NONE {
                shadows.push(Sp(sp)).ok()?;
            }
        }
        Some(Entry { world_rank: WorldRank(world_rank), host, shadows })
    }

    /// Number of ranks whose entry is there: the number of set bits.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// Whether no entry is missing.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.count == self.shape.size
    }

    /// The ranks whose entries are missing, ascending; skips 64 present ranks at a time.
    pub fn missing(&self) -> impl Iterator<Item = Rank> + '_ {
        self.ranks_where(false)
    }

    /// The ranks whose entries are there, ascending; skips 64 absent ranks at a time.
    pub fn present(&self) -> impl Iterator<Item = Rank> + '_ {
        self.ranks_where(true)
    }

    fn ranks_where(&self, set: bool) -> impl Iterator<Item = Rank> + '_ {
        let size = self.shape.size;
        let words = (0..size.div_ceil(64)).map(move |at| {
            let word = self.part::<U64>(0, at as usize).map_or(0, |word| word.get());
            (at * 64, if set { word } else { !word })
        });
        words
            .flat_map(|(base, mut word)| {
                core::iter::from_fn(move || {
                    let bit = (word != 0).then(|| word.trailing_zeros())?;
                    word &= word - 1;
                    Some(Rank(base + bit))
                })
            })
            .take_while(move |rank| rank.0 < size)
    }
}
