//! A place at a slot cache whose words lie in a mapping, kept together with it.

use umbra_core::event::Wait as _;
use umbra_core::shared_cache::{AttachError, Client, Contract, Identity, JoinError, Sharing, SlotCache};

use super::futex::Futex;
use super::process::Processes;
use super::segment::Segment;
use super::shared_heap::words;

/// A mapping, and this process's place at the cache in it; what was checked of the cache once need not be checked again.
#[derive(Debug)]
pub struct MappedCache<C> {
    /// Looks into the segment below: lent for as long as `self` only.
    client: Client<'static, C>,
    segment: Segment,
}

/// Why a mapping gives no place at a cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlaceError {
    /// It is no such cache.
    Attach(AttachError),
    /// There is no place left.
    Join(JoinError),
}

impl<C: Contract> MappedCache<C> {
    /// Makes a cache in a mapping that nobody else uses yet.
    ///
    /// # Errors
    /// [`PlaceError`].
    pub fn create(
        segment: Segment,
        slots: usize,
        sharing: Sharing,
        seed: u64,
        identity: Identity,
    ) -> Result<MappedCache<C>, PlaceError> {
        Self::place(SlotCache::create(words(&segment), slots, sharing, seed), segment, |cache| cache.join(identity))
    }

    /// Uses the cache that somebody made in a mapping.
    ///
    /// # Errors
    /// [`PlaceError`].
    pub fn attach(segment: Segment, identity: Identity) -> Result<MappedCache<C>, PlaceError> {
        Self::place(SlotCache::attach(words(&segment)), segment, |cache| cache.join(identity))
    }

    /// As [`attach`](Self::attach), if need be in the place of a process that died, of which everything is taken back.
    ///
    /// # Errors
    /// [`PlaceError`].
    pub fn attach_or_succeed(
        segment: Segment,
        identity: Identity,
        abandoned: impl FnMut(u32, u64),
    ) -> Result<MappedCache<C>, PlaceError> {
        let take = |cache: SlotCache<'static, C>| cache.join_or_succeed(identity, &Processes, abandoned);
        Self::place(SlotCache::attach(words(&segment)), segment, take)
    }

    /// `cache` looks into `segment`.
    fn place(
        cache: Result<SlotCache<'static, C>, AttachError>,
        segment: Segment,
        take: impl FnOnce(SlotCache<'static, C>) -> Result<Client<'static, C>, JoinError>,
    ) -> Result<MappedCache<C>, PlaceError> {
        let cache = cache.map_err(PlaceError::Attach)?.waking(|word| Futex.wake(word));
        let client = take(cache).map_err(PlaceError::Join)?;
        Ok(MappedCache { client, segment })
    }

    /// The place.
    #[must_use]
    #[inline]
    pub fn client(&self) -> Client<'_, C> {
        self.client
    }

    /// The mapping.
    #[must_use]
    pub fn segment(&self) -> &Segment {
        &self.segment
    }
}
