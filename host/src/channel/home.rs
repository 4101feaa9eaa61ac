//! Where a channel lies: in memory of its own, or in an allocation of a pool.
//!
//! An allocation may be freed, and become somebody else's, while a newcomer is about to take his place in it. So who comes
//! notes at the pool which block he is looking at, and only then looks whether it is there and not destroyed; and who leaves
//! a destroyed channel as the last one frees it only if nobody has noted it, and then nobody has a place in it. Otherwise the
//! newcomer, who finds it destroyed, frees it. If the last one was killed, nobody is left to do so: whoever finds that gives
//! the block another id, so that nobody else finds or frees it, and then takes a place in it and leaves as the last one.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use umbra_core::atomic::{Ordering, fence};
use umbra_core::cell::BytesMut;
use umbra_core::crew::Liveness as _;
use umbra_core::heap::BlockId;
use umbra_core::reference::{Object, Place, Reference};

use super::error::Error;
use super::layout::{self, View};
use super::memory::Pools;
use crate::pool::{self, Allocation, Pool};
use crate::reference;
use crate::sys::process::{ProcessId, Processes};
use crate::sys::segment::{Mapping, Segment, SegmentError};

/// The memory of a channel.
#[derive(Debug)]
pub(super) enum Home {
    /// Its own.
    Own(Segment),
    /// A block of a pool.
    Pooled(Berth),
}

/// A block, and where in its pool it is.
#[derive(Debug)]
pub(super) struct Berth {
    pool: Arc<Pool>,
    id: BlockId,
    offset: u64,
    len: u64,
}

impl Home {
    /// The memory behind a descriptor.
    pub(super) fn map(descriptor: OwnedFd) -> Result<Home, Error> {
        let size = rustix::fs::fstat(&descriptor).map_err(SegmentError::Descriptor)?.st_size;
        Ok(Home::Own(Segment::attach(descriptor, Mapping::ReadWrite, usize::try_from(size).unwrap_or(0))?))
    }

    /// A new block for so many bytes, all zero. It is [made a channel](Allocation::set_channel) when one lies in it: what was
    /// there before may have been a channel too, which others must not take for one, and a block of an ordinary kind is
    /// freed with those of its owner if he is killed until then.
    pub(super) fn block(pool: &Pool, bytes: usize) -> Result<Allocation<'_>, Error> {
        let block = pool.alloc(bytes as u64, 0)?;
        block.clear(0, bytes as u64).inspect_err(|_| drop(block.free()))?;
        Ok(block)
    }

    /// In a block of this pool.
    pub(super) fn within(pool: &Arc<Pool>, block: &Allocation<'_>) -> Home {
        Home::Pooled(Berth { pool: pool.clone(), id: block.id(), offset: block.offset(), len: block.len() })
    }

    /// What a reference names, and the number drawn for it; a pool is found among those that are known, or else by `attach`.
    pub(super) fn named(
        bytes: &[u8],
        pools: &Pools,
        attach: impl FnOnce(&[u8]) -> Result<Arc<Pool>, pool::Error>,
    ) -> Result<(Home, u64), Error> {
        let named = reference::parse_local(bytes)?;
        let (home, instance) = match (named.object, named.place) {
            (Object::Channel, Place::Process { pid, start, files: [file, 0] }) => {
                let home = Self::map(reference::open(ProcessId { pid, start }, file)?)?;
                if home.memory()?.len() as u64 != named.bytes {
                    return Err(reference::Error::Replaced.into());
                }
                (home, named.instance)
            }
            (Object::PooledChannel { id, instance }, _) => {
                let pool = pools.named(named.instance).map_or_else(|| attach(bytes), Ok)?;
                let block = pool.allocation(id)?;
                if block.kind()? != pool::CHANNELS {
                    return Err(reference::Error::Replaced.into());
                }
                (Self::within(&pool, &block), instance)
            }
            _ => return Err(reference::Error::WrongObject.into()),
        };
        if home.laid_out()?.instance() != instance {
            return Err(reference::Error::Replaced.into());
        }
        Ok((home, instance))
    }

    pub(super) fn memory(&self) -> Result<BytesMut<'_>, Error> {
        match self {
            Home::Own(segment) => Ok(segment.bytes_mut()?),
            Home::Pooled(berth) => Ok(berth.pool.range(berth.offset, berth.len)?),
        }
    }

    /// The pool that it is in.
    pub(super) fn pool(&self) -> Option<&Arc<Pool>> {
        match self {
            Home::Own(_) => None,
            Home::Pooled(berth) => Some(&berth.pool),
        }
    }

    /// The memory, if it is the channel's own.
    pub(super) fn segment(&self) -> Result<&Segment, Error> {
        match self {
            Home::Own(segment) => Ok(segment),
            Home::Pooled(_) => Err(Error::Pooled),
        }
    }

    /// The bytes by which others find it.
    pub(super) fn reference(&self, view: &View<'_>) -> Result<Vec<u8>, Error> {
        let uid = view.frame.uid();
        let segment = match self {
            Home::Own(segment) => segment,
            Home::Pooled(berth) => {
                let object = Object::PooledChannel { id: berth.id, instance: view.instance() };
                return Ok(berth.pool.refer_to(object, uid)?);
            }
        };
        let place = reference::at_descriptors([segment.number()?, 0])?;
        let (host, instance, bytes) = (crate::sys::host::id(), view.instance(), segment.len() as u64);
        let object = Object::Channel;
        Ok(reference::to_bytes(&Reference { host, instance, uid, bytes, object, place })?)
    }

    /// Does what takes a place in the memory, which is the channel's until that is done.
    pub(super) fn while_it_lasts<T>(&self, act: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        let Home::Pooled(berth) = self else { return act() };
        // What the memory says counts if it was the channel's before and after.
        let lasts = || berth.is_there() && !self.is_destroyed() && berth.is_there();
        let pinned = berth.pool.pinned(berth.id, || if lasts() { act() } else { Err(Error::Destroyed) });
        pinned?.inspect_err(|_| self.vacate())
    }

    /// Destroyed channels in a pool whose last members were killed: each is the caller's alone from then on.
    pub(super) fn forsaken(pool: &Arc<Pool>) -> impl Iterator<Item = Home> {
        let channels = pool.blocks().filter(|block| block.kind == pool::CHANNELS);
        channels.filter_map(move |block| {
            let block = pool.allocation(block.id).ok()?;
            let is_forsaken = Self::within(pool, &block).is_forsaken();
            // Who was faster has given it another id, or has freed it.
            is_forsaken.then(|| block.renamed().ok()).flatten().map(|block| Self::within(pool, &block))
        })
    }

    /// Whether it is destroyed, and nobody lives who has a place in it, or is about to take one.
    fn is_forsaken(&self) -> bool {
        let Home::Pooled(berth) = self else { return false };
        let is_destroyed = self.laid_out().is_ok_and(|view| view.messages.queue().is_destroyed());
        let lives = |view: View<'_>| view.frame.crew.members().any(|member| Processes.is_alive(member));
        // ORDERING: as in `vacate`.
        fence(Ordering::SeqCst);
        is_destroyed && !berth.pool.is_pinned(berth.id) && self.laid_out().is_ok_and(|view| !lives(view))
    }

    /// What its memory says, as somebody without a place sees it.
    fn laid_out(&self) -> Result<View<'_>, Error> {
        layout::attach(self.memory()?)
    }

    /// Whether its memory says that somebody has destroyed it, or is no channel's.
    fn is_destroyed(&self) -> bool {
        self.laid_out().map_or(true, |view| view.messages.queue().is_destroyed())
    }

    /// Frees the memory of a channel that is destroyed and has no members.
    pub(super) fn vacate(&self) {
        let Home::Pooled(berth) = self else { return };
        let is_left = || self.laid_out().is_ok_and(|view| view.frame.crew.members().next().is_none());
        let is_over = berth.is_there() && self.is_destroyed();
        // ORDERING: whoever notes the block after this finds that the channel is destroyed, or the block gone. Who has noted it
        // before is seen, and if he has taken his note back by then, so is the place that he took.
        fence(Ordering::SeqCst);
        if is_over && !berth.pool.is_pinned(berth.id) && is_left() {
            // Somebody else may have come to the same conclusion.
            let _ = berth.pool.allocation(berth.id).and_then(Allocation::free);
        }
    }
}

impl Berth {
    fn is_there(&self) -> bool {
        self.pool.allocation(self.id).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Attributes, Channel};
    use super::*;

    #[test]
    fn what_is_not_a_channel_yet_is_nobodys_to_reclaim_and_goes_with_its_maker() {
        let pool = Arc::new(Pool::create(None, &pool::Attributes { bytes: 1 << 20, ..Default::default() }).unwrap());
        let attributes = Attributes { capacity: 4, block: 256, ..Attributes::default() };
        let ended = Channel::create_in(&pool, &attributes).unwrap();
        assert_eq!(pool.blocks().next().unwrap().kind, pool::CHANNELS);
        ended.destroy().unwrap();
        drop(ended);
        // It is where the destroyed one was.
        let block = Home::block(&pool, layout::bytes_for(&attributes).unwrap()).unwrap();
        let home = Home::within(&pool, &block);
        layout::create(home.memory().unwrap(), &attributes, 1).unwrap();
        assert!(home.laid_out().unwrap().destroy());
        assert_eq!((Channel::reclaim_in(&pool), block.exists()), (0, true));
        assert_ne!(block.kind().unwrap(), pool::CHANNELS, "what frees the blocks of the dead passes channels over");
        block.free().unwrap();
    }
}
