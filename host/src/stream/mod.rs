//! Streams: conversations between processes of a host, one to one, like files.
//!
//! Somebody makes an adapter; whoever gets its descriptor attaches. A sender begins a conversation, a receiver meets
//! the oldest one that waits, and then bytes, 64 bits beside each message, and memory of pools flow between exactly
//! these two, until the sender closes. Both ends are files: [`std::io::Write`] and [`std::io::Read`].
//!
//! ```
//! use std::io::{Read, Write};
//! use umbra::channel::Timeout;
//! use umbra::stream::{Adapter, Attributes, Error, ReceiveOptions, SendOptions};
//! let adapter = Adapter::create(&Attributes::default(), [])?;
//! // As another process would, to which the descriptor was handed.
//! let theirs = Adapter::attach(adapter.share()?, [])?;
//!
//! let mut sender = adapter.send(&SendOptions::default(), Timeout::Never)?;
//! sender.send(b"hello", 42, Timeout::Never)?;
//! writeln!(sender, ", you")?;
//! sender.close(Timeout::Never)?;
//!
//! let mut receiver = theirs.receive(&ReceiveOptions::default(), Timeout::Never)?;
//! let first = receiver.receive(Timeout::Never)?;
//! assert_eq!((&first.bytes[..], first.arg), (&b"hello"[..], 42));
//! let mut rest = String::new();
//! receiver.read_to_string(&mut rest)?;
//! assert_eq!(rest, ", you\n");
//! assert_eq!(receiver.receive(Timeout::Never), Err(Error::Ended));
//! receiver.close(Timeout::Never)?;
//! assert_eq!(theirs.counts()?.idle, 8);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Nobody's death or stop blocks the others. A receiver whose sender died reads what had come and gets
//! [`Error::PeerDead`] then; a sender whose receiver died gets it at once. Their stream is cleared and used again. One
//! of those who wait, or try again and again, asks every 200 ms whether all members live; [`Adapter::reap`] does so at
//! once.
//!
//! A forked child is refused what its parent attached ([`Error::Forked`]), all but [`Adapter::share`] and
//! [`Adapter::reference`], by which it attaches anew. Whatever it drops goes on for its parent.
//!
//! *Cost*: that of [`umbra_core::stream`], and of waiting as at a [channel](crate::channel).

mod early;
mod error;
mod file;
mod handing;
mod layout;
mod look;
mod meeting;
mod memory;
mod options;
mod pad;
mod receive;
mod reference;
mod send;
mod task;
mod transmit;

use std::convert::Infallible;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use umbra_core::crew::Member;
use umbra_core::stream::{Counts, Kept};

pub(crate) use early::{Early, Filled};
pub use error::Error;
pub use file::{NoFile, ReadableFile, WritableFile};
pub use handing::Received;
pub use look::{Snapshot, find};
pub use meeting::{Meeting, NAME_MAX, Role};
pub use options::{Attributes, ReceiveOptions, SendOptions};
pub use receive::{Message, Piece, Receiver};
pub use send::Sender;
pub use umbra_core::stream::{Class, Mode, Seen, Shape, Stage};

pub use crate::reference::Found;

use crate::channel::{Shared, Timeout, WaitMode, identity};
use crate::pool::Pool;
use crate::sys::fork;
use crate::sys::futex::Futex;
use crate::sys::process::{ProcessId, Processes};
use crate::sys::segment::Segment;
use layout::{View, Watch};
use memory::Pools;

/// From here on the 64 bits beside a message are not the user's.
pub const RESERVED: u64 = u64::MAX - 0xff;

/// Streams that this process uses. Copies are the same; dropping the last one leaves them to the others.
#[derive(Clone, Debug)]
pub struct Adapter(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    segment: Segment,
    pools: Pools,
    me: Member,
    /// Of the process that made this. A forked child inherits it, may not use it, and ends nothing of its parent's when it
    /// drops it.
    life: u32,
}

/// A stream that a process keeps and begins its conversations in; anybody's again when this is dropped.
#[derive(Debug)]
pub struct Supplied<'a> {
    adapter: &'a Adapter,
    view: View<'a>,
    kept: Kept,
}

/// Refuses what was made in another life than this process's: its parent's place there is not its own.
#[inline]
fn refuse_heirs(life: u32) -> Result<(), Error> {
    if life == fork::life() { Ok(()) } else { Err(Error::Forked) }
}

impl Drop for Supplied<'_> {
    fn drop(&mut self) {
        if self.adapter.is_inherited() {
            return;
        }
        self.view.streams.table().give_up(self.kept, self.view.me);
        self.view.streams.table().manager().notify(&Futex);
    }
}

impl Adapter {
    /// Makes an adapter, which lives as long as somebody has it attached, or holds its descriptor. Memory of these pools
    /// can be sent through it by this process, and received; the first one is where bytes land that are received as
    /// memory.
    ///
    /// # Errors
    /// [`Error`] if the attributes are impossible, or there is no memory.
    pub fn create(attributes: &Attributes, pools: impl IntoIterator<Item = Arc<Pool>>) -> Result<Adapter, Error> {
        let pools = Pools::new(pools)?;
        let segment = Segment::create("umbra-stream", layout::bytes_for(attributes)?)?;
        let instance = crate::reference::draw().map_err(Error::Random)?;
        layout::create(segment.bytes_mut()?, attributes, instance)?;
        Self::join(segment, pools)
    }

    /// Uses an adapter whose descriptor another process [shared](Self::share).
    ///
    /// # Errors
    /// [`Error`] if it is none, or destroyed, or there is no room for another member.
    pub fn attach(descriptor: OwnedFd, pools: impl IntoIterator<Item = Arc<Pool>>) -> Result<Adapter, Error> {
        Self::used(reference::map(descriptor)?, Pools::new(pools)?)
    }

    fn used(segment: Segment, pools: Pools) -> Result<Adapter, Error> {
        let adapter = Self::join(segment, pools)?;
        adapter.reap()?;
        if adapter.is_destroyed()? { Err(Error::Destroyed) } else { Ok(adapter) }
    }

    fn join(segment: Segment, pools: Pools) -> Result<Adapter, Error> {
        let identity = identity(ProcessId::current()?);
        let me = {
            let view = layout::attach(segment.bytes_mut()?, &pools, u16::MAX)?;
            if !view.frame.is_of_this_space() {
                return Err(Error::OtherNamespace);
            }
            let give_back = |dead| {
                view.give_back(dead);
                Ok::<_, Infallible>(())
            };
            let joined = view.frame.crew.join_or_succeed(identity, &Processes, give_back);
            joined.map_err(|_| Error::TooManyMembers(identity))?
        };
        Ok(Adapter(Arc::new(Inner { segment, pools, me, life: fork::life() })))
    }

    /// As this process sees it, if no parent of it made this.
    fn view(&self) -> Result<View<'_>, Error> {
        refuse_heirs(self.0.life)?;
        self.0.view()
    }

    /// Whether a parent of this process made it.
    fn is_inherited(&self) -> bool {
        self.0.life != fork::life()
    }

    /// Another descriptor, to hand to another process.
    ///
    /// # Errors
    /// [`Error::Segment`] if no descriptor is free.
    pub fn share(&self) -> Result<OwnedFd, Error> {
        Ok(self.0.segment.share()?)
    }

    /// The id that its creator chose.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Forked`].
    pub fn uid(&self) -> Result<u64, Error> {
        Ok(self.view()?.frame.uid())
    }

    /// How its creator wanted conversations to begin.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Forked`].
    pub fn mode(&self) -> Result<Mode, Error> {
        Ok(self.view()?.streams.table().shape().mode)
    }

    /// How many streams are idle, conversations wait, and so on.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Forked`].
    pub fn counts(&self) -> Result<Counts, Error> {
        Ok(self.view()?.streams.table().counts())
    }

    /// Whether a conversation waits for a receiver; does not wait.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Forked`].
    pub fn poll(&self) -> Result<bool, Error> {
        Ok(self.view()?.streams.table().is_waiting())
    }

    /// Whether no further conversation could begin now.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Forked`].
    pub fn is_full(&self) -> Result<bool, Error> {
        let view = self.view()?;
        let Counts { idle, offered, room, .. } = view.streams.table().counts();
        let is_full = idle + offered + room == 0;
        if is_full {
            // Of what the dead have, perhaps; and who asks may do nothing else than ask again.
            Watch::new(view).patrol();
        }
        Ok(is_full)
    }

    /// Takes a stream to keep and begin conversations in, one after the other.
    ///
    /// # Errors
    /// [`Error::StreamRefused`] in modes in which nobody brings one; [`Error::Empty`] if all are in use;
    /// [`Error::Destroyed`], [`Error::Forked`].
    pub fn supply(&self) -> Result<Supplied<'_>, Error> {
        self.supply_within(Timeout::Now)
    }

    /// As [`supply`](Self::supply), but waits asleep for a stream; [`Error::Timeout`] if none came.
    pub(crate) fn supply_within(&self, timeout: Timeout) -> Result<Supplied<'_>, Error> {
        let view = self.view()?;
        let table = view.streams.table();
        if !matches!(table.shape().mode, Mode::SenderSupplied | Mode::ReceiverSupplied) {
            return Err(Error::StreamRefused);
        }
        let look = || match table.is_destroyed() {
            true => Some(Err(Error::Destroyed)),
            false => table.keep(view.me).map(Ok),
        };
        let kept = Watch::new(view).wait_for(table.manager(), (WaitMode::Idle, timeout), Error::Empty, look)?;
        Ok(Supplied { adapter: self, view, kept })
    }

    /// Whether somebody destroyed it.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Forked`].
    pub fn is_destroyed(&self) -> Result<bool, Error> {
        Ok(self.view()?.streams.table().is_destroyed())
    }

    /// Ends it for all: whoever waits, and whoever comes, gets [`Error::Destroyed`].
    ///
    /// # Errors
    /// [`Error::Destroyed`] if it was before; [`Error::Forked`].
    pub fn destroy(&self) -> Result<(), Error> {
        if self.view()?.destroy() { Ok(()) } else { Err(Error::Destroyed) }
    }

    /// Takes back what members held whose processes ended; how many they were. Who waits does it by himself.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Forked`].
    pub fn reap(&self) -> Result<usize, Error> {
        Ok(self.view()?.bury_dead())
    }
}

impl Inner {
    fn view(&self) -> Result<View<'_>, Error> {
        layout::attach(self.segment.bytes_mut()?, &self.pools, self.me.number)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.life == fork::life()
            && let Ok(view) = self.view()
        {
            let leave = |member| {
                view.give_back(member);
                Ok::<_, Infallible>(())
            };
            // Whoever destroyed it may have been killed before he had cleared away all that waited.
            if view.streams.table().is_destroyed() {
                view.clear();
            }
            // A number that is another's by now is none of ours.
            let _ = view.frame.crew.bury(self.me, self.me.number, leave);
        }
    }
}
