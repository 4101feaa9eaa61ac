//! The memory of an adapter: who uses it, its tasks, its conversations.

use umbra_core::atomic::{AtomicU64, Ordering};
use umbra_core::cell::BytesMut;
use umbra_core::channel::Patience;
use umbra_core::crew::Member;
use umbra_core::event::{EventCount, Wait};
use umbra_core::stream::{End, Outcome, Outlet, Reference, Streams, WriteError};
use umbra_core::time::Time;

use super::Attributes;
use super::error::Error;
use super::memory::Pools;
use crate::channel::{self, Format, Frame, FrameError, Patrol, Shared, Spinning, Timeout, WaitMode};
use crate::sys::futex::Futex;

pub(super) const VERSION: u64 = 4;
/// The word of a member's pocket that counts its waits that spin.
const SPINNING: usize = 0;
const FORMAT: Format = Format { magic: u64::from_le_bytes(*b"umbrastr"), version: VERSION };

/// Words of the header.
#[derive(Clone, Copy)]
enum Field {
    /// Whether it counts tasks.
    Tasks,
    /// Drawn when it was made.
    Instance,
    /// Most waits that spin at once.
    Spinners,
}

/// Words of the state.
#[derive(Clone, Copy)]
pub(super) enum State {
    /// Tasks that are not done.
    Tasks,
    /// Changes with the number of tasks.
    Event,
}

/// What lies in the memory, and whose memory may be sent through it.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'a> {
    pub(super) frame: Frame<'a>,
    pub(super) streams: Streams<'a>,
    pub(super) pools: &'a Pools,
    /// This process's number.
    pub(super) me: u16,
}

/// Bytes of memory that an adapter needs.
pub(super) fn bytes_for(attributes: &Attributes) -> Result<usize, Error> {
    let front = Frame::bytes_for(attributes.members)?;
    let streams = attributes.shape().words().map_err(Error::Shape)?;
    Ok(front + streams * size_of::<AtomicU64>())
}

/// Makes an adapter in memory that nobody else uses yet; everything is zero.
pub(super) fn create(memory: BytesMut<'_>, attributes: &Attributes, instance: u64) -> Result<(), Error> {
    Frame::create(memory, FORMAT, (attributes.members, attributes.uid), |frame, rest| {
        frame.own(Field::Tasks as usize).store(attributes.tasks.into(), Ordering::Relaxed);
        frame.own(Field::Instance as usize).store(instance, Ordering::Relaxed);
        frame.own(Field::Spinners as usize).store(attributes.max_spinners.into(), Ordering::Relaxed);
        Streams::create(rest, attributes.shape()).map_err(Error::NotStreams)?;
        Ok(())
    })
}

/// Looks at an adapter as member `me`.
pub(super) fn attach<'a>(memory: BytesMut<'a>, pools: &'a Pools, me: u16) -> Result<View<'a>, Error> {
    let (frame, rest) = Frame::attach(memory, FORMAT)?;
    let streams = Streams::attach(rest).map_err(Error::NotStreams)?;
    Ok(View { frame, streams, pools, me })
}

impl From<FrameError> for Error {
    fn from(error: FrameError) -> Self {
        match error {
            FrameError::Foreign => Error::NotStreams(umbra_core::stream::AttachError::NotStreams),
            FrameError::Version(version) => Error::VersionMismatch(version),
            FrameError::Damaged => Error::Damaged,
            FrameError::Members(members) => Error::Members(members),
        }
    }
}

impl<'a> View<'a> {
    pub(super) fn has_tasks(&self) -> bool {
        self.frame.own(Field::Tasks as usize).load(Ordering::Relaxed) != 0
    }

    /// Drawn when it was made: no other adapter has it.
    pub(super) fn instance(&self) -> u64 {
        self.frame.own(Field::Instance as usize).load(Ordering::Relaxed)
    }

    /// Waiting in this mode, which is idle for those who would be one spinner too many; `counted` ends with it.
    pub(super) fn patience(&self, mode: WaitMode, deadline: Time) -> (Patience, Option<Spinning<'a>>) {
        let most = self.frame.own(Field::Spinners as usize).load(Ordering::Relaxed);
        channel::patience(mode, deadline, || self.frame.spinner(self.me, SPINNING, most))
    }

    /// How many waits spin.
    pub(super) fn spinning(&self) -> u64 {
        self.frame.pockets(SPINNING)
    }

    pub(super) fn state(&self, which: State) -> &'a AtomicU64 {
        self.frame.state(which as usize)
    }

    pub(super) fn event(&self) -> EventCount<'a> {
        EventCount::new(self.state(State::Event))
    }

    /// Frees memory that nobody will read any more.
    pub(super) fn dropped(&self) -> impl Fn(Reference) + use<'a> {
        let pools = self.pools;
        move |reference| pools.forget(reference)
    }

    /// Ends the adapter for all; true for the first who says so.
    pub(super) fn destroy(&self) -> bool {
        let first = self.streams.table().destroy();
        self.clear();
        self.wake();
        first
    }

    /// Clears away what nobody has begun to read, and nobody will read: the adapter is destroyed.
    pub(super) fn clear(&self) {
        while let Some(inlet) = self.streams.table().meet(self.me).and_then(|met| self.streams.inlet(met, self.me)) {
            inlet.leave(self.dropped());
        }
    }

    /// Lets receivers hear of a conversation.
    pub(super) fn deposit(&self, outlet: &Outlet<'_>, wait: &impl Wait) {
        if outlet.deposit() {
            self.is_deposited(wait);
        }
    }

    /// Ends a conversation as its sender, and tells whoever waits. It may not have been his any more, and then nobody hears
    /// that it ended.
    pub(super) fn end(&self, outlet: Outlet<'_>, how: End, wait: &impl Wait) -> Result<(), WriteError> {
        let at = outlet.conversation();
        match outlet.end(how, self.dropped()) {
            Outcome::Stale => return Err(WriteError::Stale),
            Outcome::Deposited => self.is_deposited(wait),
            outcome => self.streams.tell(at, outcome, wait),
        }
        Ok(())
    }

    fn is_deposited(&self, wait: &impl Wait) {
        self.streams.table().main().notify_after_swap(wait);
        // Whoever destroyed it may have looked before.
        if self.streams.table().is_destroyed_by_now() {
            self.clear();
        }
    }

    fn wake(&self) {
        self.streams.tell_all(&Futex);
        self.event().notify(&Futex);
    }

    /// Takes back what a member held that will not run again, or that leaves.
    pub(super) fn give_back(&self, member: Member) {
        self.streams.reclaim(member.number, self.dropped());
        self.frame.empty_pocket(member.number);
        self.wake();
    }
}

impl Shared for View<'_> {
    fn patrolled(&self) -> &AtomicU64 {
        self.frame.patrolled()
    }
    fn looked(&self) -> Option<&AtomicU64> {
        self.frame.looked(self.me)
    }
    fn bury_dead(&self) -> usize {
        self.frame.bury_dead(self.me, |member| self.give_back(member))
    }
}

/// Waits by futex, and buries the dead now and then.
pub(super) type Watch<'a> = Patrol<View<'a>>;

/// Whether nobody destroyed the adapter; for one who waits for what no change of it tells him of.
pub(super) fn is_there(watch: &Watch<'_>) -> Result<(), Error> {
    watch.patrol();
    if watch.view().streams.table().is_destroyed() { Err(Error::Destroyed) } else { Ok(()) }
}

impl Watch<'_> {
    /// Waits for an event until `look` finds something; it looks once if the timeout is one try. Who goes without finds the
    /// adapter in `state`.
    pub(super) fn wait_for<T>(
        &self,
        event: EventCount<'_>,
        (mode, timeout): (WaitMode, Timeout),
        state: Error,
        mut look: impl FnMut() -> Option<Result<T, Error>>,
    ) -> Result<T, Error> {
        let found = match look() {
            None if timeout != Timeout::Now => {
                let (patience, _counted) = self.view().patience(mode, timeout.deadline());
                event.wait(self, patience.spins, patience.deadline, look)
            }
            found => found,
        };
        found.unwrap_or_else(|| Err(self.late(state, timeout)))
    }

    /// The error of one who gives up: the state that he found at his one try, or that his time is over. He looks after the dead
    /// before he goes, for he may come again and again, and never stay long enough to do it.
    #[cold]
    pub(super) fn late(&self, error: impl Into<Error>, timeout: Timeout) -> Error {
        let error = error.into();
        if matches!(error, Error::Full | Error::Empty | Error::Timeout) {
            self.patrol();
        }
        if matches!(error, Error::Full | Error::Empty) && timeout != Timeout::Now { Error::Timeout } else { error }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::{Adapter, SendOptions};
    use super::*;
    use crate::pool::{self, Pool};

    #[test]
    fn what_a_destroyer_who_was_killed_over_it_left_is_freed_by_who_leaves() {
        let pool = Arc::new(Pool::create(None, &pool::Attributes { bytes: 1 << 20, ..Default::default() }).unwrap());
        let ours = Adapter::create(&Attributes::default(), [pool.clone()]).unwrap();
        let theirs = Adapter::attach(ours.share().unwrap(), [pool.clone()]).unwrap();
        for _ in 0..2 {
            let mut sender = ours.send(&SendOptions::default(), Timeout::Now).unwrap();
            sender.send_memory(pool.alloc(100, 0).unwrap(), 0, Timeout::Now).unwrap();
            sender.close(Timeout::Now).unwrap();
        }
        assert!(theirs.view().unwrap().streams.table().destroy());
        assert_eq!(pool.blocks().count(), 2);
        drop(theirs);
        assert_eq!(pool.blocks().count(), 0);
    }
}
