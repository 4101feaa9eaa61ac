//! The memory of an adapter: who uses it, its tasks, its conversations.

use std::convert::Infallible;
use std::time::Duration;

use umbra_core::atomic::{AtomicU64, Ordering};
use umbra_core::cell::BytesMut;
use umbra_core::channel::Patience;
use umbra_core::crew::{Crew, Member};
use umbra_core::event::{EventCount, SPIN};
use umbra_core::stream::{Reference, Streams};
use umbra_core::time::Time;

use super::Attributes;
use super::error::Error;
use super::memory::Pools;
use crate::channel::{ADAPTIVE, Patrol, Processes, Shared, Timeout, WaitMode};
use crate::sys::clock;
use crate::sys::futex::Futex;

pub(super) const VERSION: u64 = 1;
const MAGIC: u64 = u64::from_le_bytes(*b"umbrastr");
const HEADER: usize = 16;
const STATE: usize = 16;
const WORD: usize = size_of::<u64>();

/// Words of the header.
#[derive(Clone, Copy)]
enum Field {
    Magic,
    Version,
    Members,
    Uid,
    Tasks,
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
    header: &'a [AtomicU64],
    state: &'a [AtomicU64],
    pub(super) crew: Crew<'a>,
    pub(super) streams: Streams<'a>,
    pub(super) pools: &'a Pools,
    /// This process's number.
    pub(super) me: u16,
}

/// Bytes of memory that an adapter needs.
pub(super) fn bytes_for(attributes: &Attributes) -> Result<usize, Error> {
    let streams = attributes.shape().words().map_err(Error::Shape)?;
    Ok((HEADER + STATE + Crew::words_for(attributes.members) + streams) * WORD)
}

/// Makes an adapter in memory that nobody else uses yet; everything is zero.
pub(super) fn create(memory: BytesMut<'_>, attributes: &Attributes) -> Result<(), Error> {
    let words = memory.words(0, HEADER + STATE).map_err(|_| Error::Damaged)?;
    let set = |field: Field, value: u64| words[field as usize].store(value, Ordering::Relaxed);
    set(Field::Version, VERSION);
    set(Field::Members, attributes.members.into());
    set(Field::Uid, attributes.uid);
    set(Field::Tasks, attributes.tasks.into());
    let at = HEADER + STATE + Crew::words_for(attributes.members);
    let rest = memory.part(at * WORD, memory.len() - at * WORD).map_err(|_| Error::Damaged)?;
    Streams::create(rest, attributes.shape()).map_err(Error::NotStreams)?;
    // ORDERING: pairs with the load in `attach`.
    words[Field::Magic as usize].store(MAGIC, Ordering::Release);
    Ok(())
}

/// Looks at an adapter as member `me`.
pub(super) fn attach<'a>(memory: BytesMut<'a>, pools: &'a Pools, me: u16) -> Result<View<'a>, Error> {
    let none = || Error::NotStreams(umbra_core::stream::AttachError::NotStreams);
    let words = memory.words(0, HEADER + STATE).map_err(|_| none())?;
    let (header, state) = words.split_at(HEADER);
    // ORDERING: pairs with the store in `create`.
    if header[Field::Magic as usize].load(Ordering::Acquire) != MAGIC {
        return Err(none());
    }
    let get = |field: Field| header[field as usize].load(Ordering::Relaxed);
    if get(Field::Version) != VERSION {
        return Err(Error::VersionMismatch(get(Field::Version)));
    }
    let members = u16::try_from(get(Field::Members)).map_err(|_| Error::Damaged)?;
    let count = Crew::words_for(members);
    let crew = Crew::attach(memory.words((HEADER + STATE) * WORD, count).map_err(|_| Error::Damaged)?);
    let at = (HEADER + STATE + count) * WORD;
    let rest = memory.len().checked_sub(at).and_then(|len| memory.part(at, len).ok()).ok_or(Error::Damaged)?;
    let streams = Streams::attach(rest).map_err(Error::NotStreams)?;
    Ok(View { header, state, crew, streams, pools, me })
}

impl<'a> View<'a> {
    fn get(&self, field: Field) -> u64 {
        self.header[field as usize].load(Ordering::Relaxed)
    }

    /// Whether it is the same adapter, attached by the same call.
    pub(super) fn is_same(&self, other: &View<'_>) -> bool {
        std::ptr::eq(self.header, other.header)
    }

    pub(super) fn uid(&self) -> u64 {
        self.get(Field::Uid)
    }

    pub(super) fn has_tasks(&self) -> bool {
        self.get(Field::Tasks) != 0
    }

    pub(super) fn state(&self, which: State) -> &'a AtomicU64 {
        &self.state[which as usize]
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
        // What nobody has begun to read nobody will read.
        while let Some(inlet) = self.streams.table().meet(self.me).and_then(|met| self.streams.inlet(met, self.me)) {
            inlet.leave(self.dropped());
        }
        self.wake();
        first
    }

    fn wake(&self) {
        self.streams.tell_all(&Futex);
        self.event().notify(&Futex);
    }

    /// Takes back what a member held that will not run again, or that leaves.
    pub(super) fn give_back(&self, member: Member) {
        self.streams.reclaim(member.number, self.dropped());
        self.wake();
    }
}

impl Shared for View<'_> {
    fn bury_dead(&self) -> usize {
        let give_back = |member| {
            self.give_back(member);
            Ok::<_, Infallible>(())
        };
        let Ok(dead) = self.crew.bury_dead(self.me, &Processes, give_back);
        dead
    }
}

/// Waits by futex, and buries the dead now and then.
pub(super) type Watch<'a> = Patrol<View<'a>>;

/// How to wait in a mode.
pub(super) const fn patience(mode: WaitMode, deadline: Time) -> Patience {
    let spins = match mode {
        WaitMode::Idle => 0,
        WaitMode::Spin => SPIN,
        WaitMode::Adaptive => ADAPTIVE,
    };
    Patience { spins, deadline }
}

/// Waits for an event until `look` finds something; it looks once if the timeout is one try.
pub(super) fn wait_for<T>(
    event: EventCount<'_>,
    watch: &Watch<'_>,
    Patience { spins, deadline }: Patience,
    timeout: Timeout,
    mut look: impl FnMut() -> Option<T>,
) -> Option<T> {
    match look() {
        None if timeout != Timeout::Now => event.wait(watch, spins, deadline, look),
        found => found,
    }
}

/// What is left of a timeout that began with this deadline.
pub(super) fn rest_of(timeout: Timeout, deadline: Time) -> Timeout {
    match timeout {
        Timeout::After(_) => Timeout::After(Duration::from_nanos(deadline.since(clock::now()).0)),
        Timeout::Now | Timeout::Never => timeout,
    }
}
