//! The memory of a channel: who uses it, its barrier or semaphore, its messages.

use umbra_core::atomic::{AtomicU64, Ordering};
use umbra_core::cell::BytesMut;
use umbra_core::channel::{Form, Messages, Shape};
use umbra_core::crew::Member;
use umbra_core::event::EventCount;

use super::barrier;
use super::error::Error;
use super::frame::{Format, Frame, FrameError};
use super::memory::{NONE, Pools};
use super::wait::{Shared, Spinning};
use super::{Attributes, Kind};
use crate::pool::Pool;
use crate::sys::fork;
use crate::sys::futex::Futex;

pub(super) const VERSION: u64 = 3;
const FORMAT: Format = Format { magic: u64::from_le_bytes(*b"umbrachn"), version: VERSION };

/// Words of the header.
#[derive(Clone, Copy)]
enum Field {
    Kind,
    Initial,
    Bounded,
    Owner,
    Spinners,
    Instance,
}

/// Words of the state.
#[derive(Clone, Copy)]
pub(super) enum State {
    Barrier,
    Semaphore,
    /// Changes with either of the two.
    Event,
}

/// Words of a member's pocket.
#[derive(Clone, Copy)]
pub(super) enum Pocket {
    /// Waits that spin.
    Spinners,
    /// Receives that wait.
    Receiving,
    /// The round of the barrier for which it is counted, as [`umbra_core::barrier`] notes it.
    Barrier,
}

/// What lies in the memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'a> {
    pub(super) frame: Frame<'a>,
    pub(super) messages: Messages<'a>,
    /// This process's number.
    pub(super) me: u16,
    /// What this process knows of what messages may be about.
    pub(super) pools: &'a Pools,
    /// The pool that the memory is of.
    within: Option<&'a Pool>,
    /// Of the process whose number this is: what it opens is not its children's.
    life: u32,
}

/// Bytes of memory that a channel needs.
pub(super) fn bytes_for(attributes: &Attributes) -> Result<usize, Error> {
    let front = Frame::bytes_for(attributes.members)?;
    let messages = attributes.shape()?.words().map_err(Error::TooLarge)?;
    Ok(front + messages * size_of::<AtomicU64>())
}

/// Makes a channel in memory that nobody else uses yet; everything is zero.
pub(super) fn create(memory: BytesMut<'_>, attributes: &Attributes, instance: u64) -> Result<(), Error> {
    Frame::create(memory, FORMAT, (attributes.members, attributes.uid), |frame, rest| {
        let set = |field: Field, value: u64| frame.own(field as usize).store(value, Ordering::Relaxed);
        set(Field::Instance, instance);
        set(Field::Spinners, attributes.max_spinners.into());
        if let Kind::Semaphore { initial, bounded } = attributes.kind {
            set(Field::Kind, 1);
            set(Field::Initial, initial);
            set(Field::Bounded, bounded.into());
            frame.state(State::Semaphore as usize).store(initial, Ordering::Relaxed);
        }
        Messages::create(rest, attributes.shape()?).map_err(Error::NotChannel)?;
        Ok(())
    })
}

/// Looks at a channel as nobody in particular.
pub(super) fn attach(memory: BytesMut<'_>) -> Result<View<'_>, Error> {
    let (frame, rest) = Frame::attach(memory, FORMAT)?;
    let messages = Messages::attach(rest).map_err(Error::NotChannel)?;
    Ok(View { frame, messages, me: u16::MAX, pools: &NONE, within: None, life: fork::life() })
}

/// Looks again at a channel in a pool, or in none, whose messages have this form, as member `me`, who knows these pools.
#[inline]
pub(super) fn attach_in<'a>(
    (memory, within): (BytesMut<'a>, Option<&'a Pool>),
    form: &Form,
    (me, pools): (u16, &'a Pools),
) -> Result<View<'a>, Error> {
    let (frame, rest) = Frame::attach(memory, FORMAT)?;
    let messages = Messages::attach_in(rest, form).map_err(Error::NotChannel)?;
    Ok(View { frame, messages, me, pools, within, life: fork::life() })
}

impl From<FrameError> for Error {
    fn from(error: FrameError) -> Self {
        match error {
            FrameError::Foreign => Error::NotChannel(umbra_core::channel::AttachError::NotChannel),
            FrameError::Version(version) => Error::VersionMismatch(version),
            FrameError::Damaged => Error::Damaged,
            FrameError::Members(members) => Error::Members(members),
        }
    }
}

/// Refuses what was opened in another life than this process's, in its parent's name.
#[inline]
pub(super) fn refuse_heirs(life: u32) -> Result<(), Error> {
    if life == fork::life() { Ok(()) } else { Err(Error::Forked) }
}

impl<'a> View<'a> {
    /// Refuses a child that was forked off since: its parent's number is not its own.
    #[inline]
    pub(super) fn refuse_heirs(&self) -> Result<(), Error> {
        refuse_heirs(self.life)
    }

    fn get(&self, field: Field) -> u64 {
        self.frame.own(field as usize).load(Ordering::Relaxed)
    }

    /// The same, as another member looks at it.
    pub(super) const fn seen_by(self, me: u16) -> Self {
        View { me, ..self }
    }

    /// The same, by a process that knows these pools.
    pub(super) const fn knowing(self, pools: &'a Pools) -> Self {
        View { pools, ..self }
    }

    /// Drawn when it was made: no other channel has it.
    pub(super) fn instance(&self) -> u64 {
        self.get(Field::Instance)
    }

    pub(super) fn kind(&self) -> Kind {
        let semaphore = Kind::Semaphore { initial: self.get(Field::Initial), bounded: self.get(Field::Bounded) != 0 };
        if self.get(Field::Kind) == 0 { Kind::Messages } else { semaphore }
    }

    pub(super) fn max_spinners(&self) -> u64 {
        self.get(Field::Spinners)
    }

    /// The word of the state.
    pub(super) fn state(&self, which: State) -> &'a AtomicU64 {
        self.frame.state(which as usize)
    }

    pub(super) fn event(&self) -> EventCount<'a> {
        EventCount::new(self.state(State::Event))
    }

    pub(super) fn pocket(&self, number: u16, which: Pocket) -> Option<&'a AtomicU64> {
        self.frame.pocket(number, which as usize)
    }

    /// Sum over the pockets of all members.
    pub(super) fn pockets(&self, which: Pocket) -> u64 {
        self.frame.pockets(which as usize)
    }

    /// Counts this process in, until what this returns is dropped.
    pub(super) fn enter(&self, which: Pocket) -> Option<Spinning<'a>> {
        self.pocket(self.me, which).map(Spinning::count)
    }

    /// Binds the life of the channel to this member's.
    pub(super) fn own(&self) {
        self.frame.own(Field::Owner as usize).store(u64::from(self.me) + 1, Ordering::Relaxed);
    }

    pub(super) fn is_owned_by(&self, number: u16) -> bool {
        self.get(Field::Owner) == u64::from(number) + 1
    }

    pub(super) fn destroy(&self) -> bool {
        let first = self.messages.queue().destroy();
        self.drain();
        self.wake();
        first
    }

    /// Removes all messages, and frees what was handed over with them.
    pub(super) fn drain(&self) {
        self.messages.drain(self.me, |header, bytes| self.pools.forget(header, bytes));
    }

    /// Wakes everybody who waits here.
    pub(super) fn wake(&self) {
        let queue = self.messages.queue();
        for event in [queue.published(), queue.taken(), self.event()] {
            event.notify(&Futex);
        }
    }

    /// Takes back what a member held that will not run again, or that leaves.
    pub(super) fn give_back(&self, member: Member) {
        self.messages.reclaim(member.number, |header, bytes| self.pools.forget(header, bytes));
        barrier::forsaken(self, member.number);
        self.frame.empty_pocket(member.number);
        if self.is_owned_by(member.number) {
            self.destroy();
        }
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
        let buried = self.frame.bury_dead(self.me, |member| self.give_back(member));
        barrier::settle(self);
        // Nobody finds it any more, and so nobody would come to whoever waits.
        if self.within.is_some_and(Pool::is_destroyed) {
            self.destroy();
        }
        buried
    }
}

impl Attributes {
    pub(super) fn shape(&self) -> Result<Shape, Error> {
        let (capacity, block) = match self.kind {
            Kind::Messages => (self.capacity, self.block),
            Kind::Semaphore { .. } => (1, 8),
        };
        if capacity == 0 {
            return Err(Error::CapacityTooSmall);
        }
        if self.kind == Kind::Messages && block < super::BLOCK_MIN {
            return Err(Error::BlockTooSmall(block));
        }
        Ok(Shape { capacity, spares: self.spares, block })
    }
}
