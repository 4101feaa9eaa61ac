//! Channels: bounded, ordered queues of messages between processes of a host.
//!
//! Each message is received once. Somebody creates a channel; whoever gets its descriptor, or [one in
//! bytes](crate::reference), attaches. Any number of processes and threads send and receive. Nobody's death or stop
//! blocks the others: what a dead process held is taken back by whoever waits, or by [`Channel::reap`]. Small
//! messages are copied into the channel and out of it, or written and read in place.
//!
//! ```
//! use std::time::Duration;
//! use umbra::channel::{Attributes, Channel, Error, SendOptions, Timeout, WaitMode};
//! let channel = Channel::create(&Attributes { capacity: 4, ..Attributes::default() })?;
//! // As another process would, to which the descriptor was handed.
//! let theirs = Channel::attach(channel.share()?)?;
//!
//! let sender = channel.sender(SendOptions { client: 7, ..SendOptions::default() })?;
//! sender.send(b"hello", 42, Timeout::Never)?;
//!
//! let receiver = theirs.receiver(WaitMode::Adaptive)?;
//! let mut pad = [0; 64];
//! let message = receiver.receive(&mut pad, Timeout::After(Duration::from_secs(5)))?;
//! assert_eq!((&pad[..message.len], message.hints, message.client), (&b"hello"[..], 42, 7));
//! assert_eq!(receiver.receive(&mut pad, Timeout::Now), Err(Error::Empty));
//! # Ok::<(), Error>(())
//! ```
//!
//! Order: messages of one sender are received in the order in which they were sent, by each receiver. A receiver that
//! is killed takes the message that it had just received with it.
//!
//! A child that was forked off may use the channels of its parent, in its own name. What its parent opened at them is
//! refused to it ([`Error::Forked`]): it opens its own.
//!
//! *Cost*: that of [`umbra_core::channel`]. A waiter that sleeps makes a system call every 50 ms, and whoever wakes it one;
//! one that never sleeps looks at a line of each member first. Who waits, or goes away empty-handed, reads the clock, and
//! every 200 ms one of all of these asks by some system calls a member whether the members live.

mod barrier;
mod bell;
mod error;
mod frame;
mod handing;
mod home;
mod layout;
mod look;
mod memory;
mod poll;
mod receive;
mod seat;
mod semaphore;
mod send;
mod set;
mod wait;

use std::os::fd::OwnedFd;
use std::sync::Arc;

use umbra_core::channel::Form;
use umbra_core::crew::Identity;

pub use barrier::Barrier;
pub use bell::Bell;
pub use error::Error;
pub use look::{Snapshot, find};
pub use memory::Parcel;
pub use poll::Event;
pub use receive::{InPlace, Message, Receiver};
pub use semaphore::Semaphore;
pub use send::{ReturnMode, SendOptions, Sender, Unsent, Writing};
pub use set::{ChannelSet, Ready};
pub use wait::{Timeout, WaitMode};

pub use crate::reference::Found;

use crate::known::{Known, Stay};
use crate::pool::Pool;
use crate::reference;
use crate::sys::process::ProcessId;
use crate::sys::segment::Segment;
use crate::uid::{self, Claim};
pub(crate) use frame::{Format, Frame, FrameError};
use home::Home;
use layout::View;
use memory::Pools;
pub(crate) use memory::block;
use seat::Seat;
pub(crate) use wait::{Patrol, Shared, Spinning, patience};

/// Fewest bytes of a block.
pub const BLOCK_MIN: u32 = 256;

/// What a channel is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Kind {
    /// Messages, and a barrier for as many parties as there is capacity for.
    #[default]
    Messages,
    /// A count.
    Semaphore {
        /// Its value at first.
        initial: u64,
        /// Whether it can never be larger than at first.
        bounded: bool,
    },
}

/// What the creator of a channel chooses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attributes {
    /// Its id, which users choose; but for 0, no two channels that a process made have the same while both live.
    pub uid: u64,
    /// Messages that wait at once.
    pub capacity: u32,
    /// Bytes of a message, at least [`BLOCK_MIN`].
    pub block: u32,
    /// Messages beyond the capacity, for processes that are stopped while they send or receive.
    pub spares: u32,
    /// Processes that use it at once.
    pub members: u16,
    /// Waits that spin at once; the others sleep.
    pub max_spinners: u32,
    /// What it is for.
    pub kind: Kind,
}

impl Default for Attributes {
    fn default() -> Self {
        let (capacity, block, spares) = (100, 1024, 2);
        Attributes { uid: 0, capacity, block, spares, members: 32, max_spinners: 32, kind: Kind::Messages }
    }
}

pub(crate) fn identity(process: ProcessId) -> Identity {
    Identity::new(process.pid, process.start)
}

/// A channel that this process uses; dropping it leaves the channel to the others.
#[derive(Debug)]
pub struct Channel {
    home: Home,
    /// That of its messages, which nobody changes.
    form: Form,
    seat: Seat,
    pools: Pools,
    /// That no other channel of this process has its number.
    claim: Claim,
    /// The last to go, if others of this process may have the [same handle](Self::attach_reference_once).
    stay: Option<Stay>,
}

impl Channel {
    /// Makes a channel. It lives as long as somebody has it attached, or holds its descriptor.
    ///
    /// # Errors
    /// [`Error`] if the attributes are impossible, or there is no memory.
    pub fn create(attributes: &Attributes) -> Result<Channel, Error> {
        Self::create_with(attributes, [])
    }

    /// As [`create`](Self::create), and messages may be about memory of these pools. Every process that is to receive
    /// such a message names its pool too; the first one is where received bytes are put that are wanted as memory.
    ///
    /// # Errors
    /// As for [`create`](Self::create).
    pub fn create_with(attributes: &Attributes, pools: impl IntoIterator<Item = Arc<Pool>>) -> Result<Channel, Error> {
        let home = Home::Own(Segment::create("umbra-channel", layout::bytes_for(attributes)?)?);
        Self::begin(home, attributes, Pools::new(pools))
    }

    /// Makes a channel in an allocation of a pool, of which its messages may be about memory. It lives until somebody
    /// destroys it, also if nobody uses it, and its memory is the pool's again when the last one who uses it then leaves.
    ///
    /// # Errors
    /// As for [`create`](Self::create); [`Error::Pool`] if there is no room.
    pub fn create_in(pool: &Arc<Pool>, attributes: &Attributes) -> Result<Channel, Error> {
        Self::reclaim_in(pool);
        let block = Home::block(pool, layout::bytes_for(attributes)?)?;
        let made = Self::begin(Home::within(pool, &block), attributes, Pools::default());
        made.and_then(|channel| block.set_channel().map(|()| channel).map_err(Error::Pool))
            .inspect_err(|_| drop(block.free()))
    }

    /// Frees the memory of destroyed channels in a pool whose last members were killed; how many they were. Who makes a
    /// channel there does it by himself.
    pub fn reclaim_in(pool: &Arc<Pool>) -> usize {
        // As its last member, who buries the others and frees it when he leaves.
        let join = |home: Home| -> Result<Channel, Error> {
            let pools = Pools::default().and(home.pool());
            let (seat, form) = {
                let view = layout::attach(home.memory()?)?.knowing(&pools);
                (Seat::take(&view)?, view.messages.form())
            };
            Ok(Channel { home, form, seat, pools, claim: Claim::none(uid::Kind::Channel), stay: None })
        };
        Home::forsaken(pool, join).map(drop).count()
    }

    /// Makes a channel in memory that nobody else knows yet.
    fn begin(home: Home, attributes: &Attributes, pools: Pools) -> Result<Channel, Error> {
        let claim = Claim::take(uid::Kind::Channel, attributes.uid).ok_or(Error::UidTaken(attributes.uid))?;
        layout::create(home.memory()?, attributes, reference::draw().map_err(Error::Random)?)?;
        Self::join(home, pools, claim)
    }

    /// Makes a channel that is destroyed when this process drops it or ends, also if it is killed: then as soon as
    /// somebody waits at it for longer than a moment, or attaches.
    ///
    /// # Errors
    /// As for [`create`](Self::create).
    pub fn create_process_local(attributes: &Attributes) -> Result<Channel, Error> {
        let channel = Self::create(attributes)?;
        channel.view()?.own();
        Ok(channel)
    }

    /// Uses a channel whose descriptor another process [shared](Self::share).
    ///
    /// # Errors
    /// [`Error`] if it is none, or destroyed, or there is no room for another member.
    pub fn attach(descriptor: OwnedFd) -> Result<Channel, Error> {
        Self::attach_with(descriptor, [])
    }

    /// As [`attach`](Self::attach), and messages may be about memory of these pools.
    ///
    /// # Errors
    /// As for [`attach`](Self::attach).
    pub fn attach_with(descriptor: OwnedFd, pools: impl IntoIterator<Item = Arc<Pool>>) -> Result<Channel, Error> {
        Self::used(Home::map(descriptor)?, Pools::new(pools))
    }

    /// Uses the channel that the bytes of a [reference](Self::reference) name; one that lies in a pool attaches that pool.
    ///
    /// # Errors
    /// [`Error::Reference`] if they name none, or one that is gone; otherwise as for [`attach`](Self::attach).
    pub fn attach_reference(bytes: &[u8]) -> Result<Channel, Error> {
        Self::attach_reference_with(bytes, [])
    }

    /// As [`attach_reference`](Self::attach_reference), and messages may be about memory of these pools. If the channel lies
    /// in one of them, that is used.
    ///
    /// # Errors
    /// As for [`attach_reference`](Self::attach_reference).
    pub fn attach_reference_with(bytes: &[u8], pools: impl IntoIterator<Item = Arc<Pool>>) -> Result<Channel, Error> {
        let pools = Pools::new(pools);
        Self::used(Home::named(bytes, &pools, Pool::attach_reference_once)?.0, pools)
    }

    /// As [`attach_reference`](Self::attach_reference), but who of this process attached the channel so before shares his
    /// handle: it is one member until the last one drops it. The handle that made the channel is another one.
    ///
    /// # Errors
    /// As for [`attach_reference`](Self::attach_reference).
    pub fn attach_reference_once(bytes: &[u8]) -> Result<Arc<Channel>, Error> {
        static CHANNELS: Known<Channel> = Known::new();
        let (home, instance) = Home::named(bytes, &Pools::default(), Pool::attach_reference_once)?;
        let channel = CHANNELS.or_attach(instance, |stay| {
            let mut channel = Self::used(home, Pools::default())?;
            channel.stay = Some(stay);
            Ok::<_, Error>(channel)
        })?;
        if channel.is_destroyed()? { Err(Error::Destroyed) } else { Ok(channel) }
    }

    fn used(home: Home, pools: Pools) -> Result<Channel, Error> {
        let channel = Self::join(home, pools, Claim::none(uid::Kind::Channel))?;
        channel.reap()?;
        if channel.is_destroyed()? { Err(Error::Destroyed) } else { Ok(channel) }
    }

    fn join(home: Home, pools: Pools, claim: Claim) -> Result<Channel, Error> {
        let pools = pools.and(home.pool());
        let (seat, form) = home.while_it_lasts(|| {
            let view = layout::attach(home.memory()?)?.knowing(&pools);
            Ok((Seat::take(&view)?, view.messages.form()))
        })?;
        Ok(Channel { home, form, seat, pools, claim, stay: None })
    }

    #[inline]
    fn seen_by(&self, me: u16) -> Result<View<'_>, Error> {
        let pool = self.home.pool().map(|pool| &**pool);
        layout::attach_in((self.home.memory()?, pool), &self.form, (me, &self.pools))
    }

    /// As somebody without a place sees it.
    fn outside(&self) -> Result<View<'_>, Error> {
        self.seen_by(u16::MAX)
    }

    #[inline]
    fn view(&self) -> Result<View<'_>, Error> {
        let me = match self.seat.known() {
            Some(number) => number,
            None => self.home.while_it_lasts(|| self.seat.number(&self.outside()?))?,
        };
        self.seen_by(me)
    }

    /// The bytes by which any process of this user on this host attaches, as long as this process lives and keeps the
    /// handle, or its pool has a name.
    ///
    /// # Errors
    /// [`Error::Destroyed`], [`Error::Damaged`].
    pub fn reference(&self) -> Result<Vec<u8>, Error> {
        let view = self.view()?;
        if view.messages.queue().is_destroyed() {
            return Err(Error::Destroyed);
        }
        self.home.reference(&view)
    }

    /// Another descriptor, to hand to another process.
    ///
    /// # Errors
    /// [`Error::Segment`] if no descriptor is free; [`Error::Pooled`].
    pub fn share(&self) -> Result<OwnedFd, Error> {
        Ok(self.home.segment()?.share()?)
    }

    /// The id that its creator chose.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    pub fn uid(&self) -> Result<u64, Error> {
        Ok(self.view()?.frame.uid())
    }

    /// Bytes that fit into a message.
    #[must_use]
    pub const fn block(&self) -> usize {
        self.form.block()
    }

    /// Whether it lies [in a pool](Self::create_in): then messages may be longer than a block.
    #[must_use]
    pub fn is_pooled(&self) -> bool {
        self.home.pool().is_some()
    }

    /// Messages that wait at once.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    pub fn capacity(&self) -> Result<u32, Error> {
        Ok(self.view()?.messages.queue().shape().capacity)
    }

    /// How many messages wait.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    pub fn count(&self) -> Result<usize, Error> {
        Ok(self.view()?.messages.queue().len())
    }

    /// Whether somebody destroyed it.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    pub fn is_destroyed(&self) -> Result<bool, Error> {
        Ok(self.view()?.messages.queue().is_destroyed())
    }

    /// Ends it for all: whoever waits, and whoever comes, gets [`Error::Destroyed`].
    ///
    /// # Errors
    /// [`Error::Destroyed`] if it was before.
    pub fn destroy(&self) -> Result<(), Error> {
        let view = self.view()?;
        self.claim.release();
        if view.destroy() { Ok(()) } else { Err(Error::Destroyed) }
    }

    /// Takes back what members held whose processes ended; how many they were. Who waits does it by himself.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    pub fn reap(&self) -> Result<usize, Error> {
        Ok(self.view()?.bury_dead())
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // A child that never used it has no place in it, and its memory may be somebody else's by now.
        if let Some(number) = self.seat.known()
            && let Ok(view) = self.outside()
        {
            if view.messages.queue().is_destroyed() {
                let ours = view.seen_by(number);
                // Whoever destroyed it may have been killed before he had removed all that waited.
                ours.drain();
                ours.bury_dead();
            }
            self.seat.leave(&view);
            self.home.vacate();
        }
    }
}
