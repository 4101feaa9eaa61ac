//! Where a channel lies: in memory of its own, or in an allocation of a pool.
//!
//! An allocation may be freed, and become somebody else's, while a newcomer is about to take his place in it. So who comes
//! notes at the pool which block he is looking at, and only then looks whether it is there and not destroyed; and who leaves
//! a destroyed channel as the last one frees it only if nobody has noted it, and then nobody has a place in it. Otherwise the
//! newcomer, who finds it destroyed, frees it. If the last one was killed, nobody is left to do so: whoever finds that gives
//! the block another id, by which nobody else frees it, and then takes a place in it and leaves as the last one. Others may find
//! it by that id; so he notes the block before, and takes the note back only when he has his place.

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

    /// Destroyed channels in a pool whose last members were killed: `join` takes a place in each, which is the caller's alone.
    pub(super) fn forsaken<T>(pool: &Arc<Pool>, join: impl Fn(Home) -> Result<T, Error>) -> impl Iterator<Item = T> {
        let channels = pool.blocks().filter(|block| block.kind == pool::CHANNELS);
        channels.filter_map(move |block| {
            let block = pool.allocation(block.id).ok()?;
            if !Self::within(pool, &block).is_forsaken() {
                return None;
            }
            // Who was faster has given it another id, or has freed it.
            let join = || block.renamed_channel().ok().and_then(|block| join(Self::within(pool, &block)).ok());
            pool.pinned(block.id(), join).ok().flatten()
        })
    }

    /// Whether it is destroyed, and nobody lives who has a place in it, or is about to take one.
    fn is_forsaken(&self) -> bool {
        let Home::Pooled(berth) = self else { return false };
        let is_destroyed = self.laid_out().is_ok_and(|view| view.messages.queue().is_destroyed());
        let lives = |view: View<'_>| view.frame.crew.members().any(|member| Processes.is_alive(member));
        // ORDERING: as in `vacate`.
        fence(Ordering::SeqCst);
        is_destroyed && !berth.pool.is_pinned_by_any_id(berth.id) && self.laid_out().is_ok_and(|view| !lives(view))
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
            let _ = berth.pool.allocation(berth.id).and_then(Allocation::free_channel);
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
    use std::process::Command;

    use super::super::{Attributes, Channel, SendOptions, Timeout, identity};
    use super::*;

    fn attributes() -> Attributes {
        Attributes { capacity: 4, block: 256, members: 4, ..Attributes::default() }
    }

    fn pool() -> Arc<Pool> {
        Arc::new(Pool::create(None, &pool::Attributes { bytes: 1 << 20, ..Default::default() }).unwrap())
    }

    /// A process that has ended.
    fn dead() -> ProcessId {
        let mut child = Command::new("true").spawn().unwrap();
        let process = ProcessId::of(child.id()).unwrap();
        child.wait().unwrap();
        process
    }

    /// A destroyed channel in which only a dead process has a place.
    fn forsake<'p>(pool: &'p Arc<Pool>, dead: ProcessId) -> Allocation<'p> {
        let block = Home::block(pool, layout::bytes_for(&attributes()).unwrap()).unwrap();
        let home = Home::within(pool, &block);
        layout::create(home.memory().unwrap(), &attributes(), 1).unwrap();
        let view = home.laid_out().unwrap();
        view.frame.crew.join(identity(dead)).unwrap();
        assert!(view.destroy());
        block.set_channel().unwrap();
        block
    }

    #[test]
    fn what_a_destroyer_who_was_killed_over_it_left_is_freed_by_who_leaves() {
        let (pool, wait) = (pool(), Timeout::Now);
        let ours = Channel::create_with(&attributes(), [pool.clone()]).unwrap();
        let theirs = Channel::attach_with(ours.share().unwrap(), [pool.clone()]).unwrap();
        let sender = ours.sender(SendOptions::default()).unwrap();
        (0..2).for_each(|_| sender.send_memory(pool.alloc(100, 0).unwrap(), 0, wait).unwrap());
        assert!(theirs.view().unwrap().messages.queue().destroy());
        assert_eq!(pool.blocks().count(), 2);
        drop(theirs);
        assert_eq!(pool.blocks().count(), 0);
    }

    #[test]
    fn who_reclaims_a_channel_is_not_overtaken_before_he_has_his_place() {
        let pool = pool();
        let block = forsake(&pool, dead());
        let joined = Home::forsaken(&pool, |home| {
            // By its new id, of which nobody but who looks for channels knows.
            assert!(!block.exists());
            assert_eq!((Channel::reclaim_in(&pool), pool.blocks().count()), (0, 1));
            Ok(home)
        });
        assert_eq!(joined.count(), 1);
        assert_eq!((Channel::reclaim_in(&pool), pool.blocks().count()), (1, 0), "who gave up is in nobody's way");
    }

    #[test]
    fn threads_that_reclaim_at_once_touch_nothing_that_lies_there_next() {
        let (pool, dead) = (pool(), dead());
        let bytes = layout::bytes_for(&attributes()).unwrap();
        let turn = || {
            forsake(&pool, dead);
            Channel::reclaim_in(&pool);
            let ours = Channel::create_in(&pool, &attributes()).unwrap();
            // What says that it is a channel may be left in it.
            let block = pool.alloc(bytes as u64, 0).unwrap();
            let contents = || {
                let mut contents = vec![0; bytes];
                block.read(0, &mut contents).unwrap();
                contents
            };
            let before = contents();
            for _ in 0..4 {
                Channel::reclaim_in(&pool);
                assert_eq!(ours.view().unwrap().frame.crew.members().count(), 1);
                assert!(before == contents(), "memory of a user changed");
            }
            block.free().unwrap();
            ours.destroy().unwrap();
        };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..if cfg!(miri) { 2 } else { 200 }).for_each(|_| turn()));
            }
        });
        Channel::reclaim_in(&pool);
        assert_eq!(pool.blocks().count(), 0);
    }

    #[test]
    fn what_is_not_a_channel_yet_is_nobodys_to_reclaim_and_goes_with_its_maker() {
        let pool = pool();
        let ended = Channel::create_in(&pool, &attributes()).unwrap();
        assert_eq!(pool.blocks().next().unwrap().kind, pool::CHANNELS);
        ended.destroy().unwrap();
        drop(ended);
        // It is where the destroyed one was.
        let block = Home::block(&pool, layout::bytes_for(&attributes()).unwrap()).unwrap();
        let home = Home::within(&pool, &block);
        layout::create(home.memory().unwrap(), &attributes(), 1).unwrap();
        assert!(home.laid_out().unwrap().destroy());
        assert_eq!((Channel::reclaim_in(&pool), block.exists()), (0, true));
        assert_ne!(block.kind().unwrap(), pool::CHANNELS, "what frees the blocks of the dead passes channels over");
        block.free().unwrap();
    }
}
