//! A channel of another host, as a client uses it.

use std::sync::{Mutex, PoisonError};

use umbra_core::gateway::{Answer, MESSAGE_MAX, Request, Take};
use umbra_core::reference::Object;

use super::error::{Error, system};
use super::line::{Handle, Line, Opening, patience};
use super::registry::Gateways;
use crate::channel::{Event, Message, ReturnMode, SendOptions, Timeout};
use crate::secret;

/// What the gateway said of the channel when it was opened.
#[derive(Clone, Copy, Debug)]
struct Opened {
    capacity: u32,
    block: u32,
    uid: u64,
}

impl Opened {
    const fn read(answer: Answer<'_>) -> Option<Opened> {
        match answer {
            Answer::Opened { capacity, block, uid } => Some(Opened { capacity, block, uid }),
            _ => None,
        }
    }
}

/// A channel of another host; dropping it leaves the channel to the others.
pub struct RemoteChannel<'g> {
    gateways: &'g Gateways,
    host: u64,
    reference: Vec<u8>,
    opened: Opened,
    /// For what no handle does.
    line: Mutex<Line<'g>>,
}

impl<'g> RemoteChannel<'g> {
    /// Uses the channel that the bytes of a reference name, through the gateway of its host.
    ///
    /// # Errors
    /// [`Error::NoGateway`], [`Error::Local`], [`Error::Reference`], [`Error::Lost`], [`Error::Silent`]; and what the gateway
    /// says when it attaches.
    pub fn attach(bytes: &[u8], gateways: &'g Gateways, timeout: Timeout) -> Result<RemoteChannel<'g>, Error> {
        let host = gateways.host_of(bytes, |named| matches!(named, Object::Channel | Object::PooledChannel { .. }))?;
        let mut line = Line::new(gateways, host, bytes, Opening::Channel(Handle::default()));
        let opened = line.open(timeout, Opened::read)?;
        Ok(RemoteChannel { gateways, host, reference: bytes.to_vec(), opened, line: Mutex::new(line) })
    }

    /// The host that it is on.
    #[must_use]
    pub const fn host(&self) -> u64 {
        self.host
    }

    /// The bytes by which others attach.
    #[must_use]
    pub fn reference(&self) -> &[u8] {
        &self.reference
    }

    /// The id that its creator chose.
    #[must_use]
    pub const fn uid(&self) -> u64 {
        self.opened.uid
    }

    /// Messages that wait at once.
    #[must_use]
    pub const fn capacity(&self) -> u32 {
        self.opened.capacity
    }

    /// Bytes that fit into a message.
    #[must_use]
    pub const fn block(&self) -> u32 {
        self.opened.block
    }

    fn line(&self, handle: Handle, timeout: Timeout) -> Result<Line<'g>, Error> {
        let mut line = Line::new(self.gateways, self.host, &self.reference, Opening::Channel(handle));
        line.open(timeout, Opened::read)?;
        Ok(line)
    }

    /// Opens a send handle: messages of one handle are received in the order in which they were sent. Gateways wait asleep,
    /// whatever the options say.
    ///
    /// # Errors
    /// As for [`attach`](Self::attach).
    pub fn sender(&self, options: SendOptions, timeout: Timeout) -> Result<RemoteSender<'g>, Error> {
        let id = u128::from_le_bytes(secret::random().map_err(|error| system(&error))?);
        let on_receipt = options.returns == ReturnMode::Received;
        let handle = Handle { on_receipt, client: options.client, id: [id as u64, (id >> 64) as u64] };
        Ok(RemoteSender { line: self.line(handle, timeout)?, id: handle.id })
    }

    /// Opens a receive handle.
    ///
    /// # Errors
    /// As for [`attach`](Self::attach).
    pub fn receiver(&self, timeout: Timeout) -> Result<RemoteReceiver<'g>, Error> {
        Ok(RemoteReceiver { line: self.line(Handle::default(), timeout)? })
    }

    /// Opens a place at the channel's barrier, for one party.
    ///
    /// # Errors
    /// As for [`attach`](Self::attach).
    pub fn barrier(&self, timeout: Timeout) -> Result<RemoteBarrier<'g>, Error> {
        Ok(RemoteBarrier { line: self.line(Handle::default(), timeout)? })
    }

    /// Waits until the event holds, or does what it says, as [`Channel::poll`](crate::channel::Channel::poll). Other polls
    /// of this handle wait until it is done.
    ///
    /// # Errors
    /// [`Error::Channel`] with what the channel says; [`Error::Lost`], [`Error::Silent`].
    pub fn poll(&self, event: Event, timeout: Timeout) -> Result<u64, Error> {
        let deadline = timeout.deadline();
        // A line is whole whatever its user was doing.
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        let request = Request::Poll { patience: patience(timeout, deadline), event: event as i32 };
        line.call(&request, deadline, |answer| match answer {
            Answer::Done(number) => Some(number),
            _ => None,
        })
    }

    /// How many messages wait.
    ///
    /// # Errors
    /// As for [`poll`](Self::poll).
    pub fn count(&self) -> Result<u64, Error> {
        self.poll(Event::Size, Timeout::Now)
    }
}

/// A send handle of a channel of another host.
pub struct RemoteSender<'g> {
    line: Line<'g>,
    id: [u64; 2],
}

impl RemoteSender<'_> {
    /// The id of this handle, which goes along with each message.
    #[must_use]
    pub const fn id(&self) -> [u64; 2] {
        self.id
    }

    /// Sends a copy of these bytes, and the 64 bits beside them.
    ///
    /// # Errors
    /// [`Error::Channel`] with what a sender at hand gets, and nothing was sent then; [`Error::TooLarge`]; [`Error::Lost`]
    /// and [`Error::Silent`], after which it is not known whether it was.
    pub fn send(&mut self, bytes: &[u8], hints: u64, timeout: Timeout) -> Result<(), Error> {
        if bytes.len() > MESSAGE_MAX {
            return Err(Error::TooLarge { len: bytes.len(), most: MESSAGE_MAX });
        }
        let deadline = timeout.deadline();
        let request = Request::Send { patience: patience(timeout, deadline), hints, bytes };
        self.line.call(&request, deadline, |answer| matches!(answer, Answer::Done(_)).then_some(()))
    }
}

/// A party at the barrier of a channel of another host.
pub struct RemoteBarrier<'g> {
    line: Line<'g>,
}

impl RemoteBarrier<'_> {
    /// Waits until all parties have come, on whatever hosts; the number of those who came before.
    ///
    /// # Errors
    /// [`Error::Channel`] with what a party at hand gets; [`Error::Lost`] and [`Error::Silent`], after which the barrier is
    /// broken, unless it was complete.
    pub fn wait(&mut self, timeout: Timeout) -> Result<u32, Error> {
        let deadline = timeout.deadline();
        self.line.call(&Request::Barrier { patience: patience(timeout, deadline) }, deadline, |answer| match answer {
            Answer::Done(came) => u32::try_from(came).ok(),
            _ => None,
        })
    }
}

/// A receive handle of a channel of another host.
pub struct RemoteReceiver<'g> {
    line: Line<'g>,
}

impl RemoteReceiver<'_> {
    /// Receives the first message into `pad`.
    ///
    /// # Errors
    /// [`Error::Channel`] with what a receiver at hand gets; [`Error::Lost`] and [`Error::Silent`], after which a message
    /// may have been received and lost, as when a receiver at hand is killed.
    pub fn receive(&mut self, pad: &mut [u8], timeout: Timeout) -> Result<Message, Error> {
        self.take(Take::Receive, pad, timeout)
    }

    /// Looks at the first message and copies as much of it as there is room for; it stays the first.
    ///
    /// # Errors
    /// As for [`receive`](Self::receive), but not for a pad that is too small.
    pub fn peek(&mut self, pad: &mut [u8], timeout: Timeout) -> Result<Message, Error> {
        self.take(Take::Peek, pad, timeout)
    }

    /// Removes the first message without looking at it.
    ///
    /// # Errors
    /// As for [`receive`](Self::receive), but not for a pad that is too small.
    pub fn pop(&mut self, timeout: Timeout) -> Result<(), Error> {
        self.take(Take::Pop, &mut [], timeout).map(drop)
    }

    fn take(&mut self, take: Take, pad: &mut [u8], timeout: Timeout) -> Result<Message, Error> {
        let deadline = timeout.deadline();
        let room = u32::try_from(pad.len().min(MESSAGE_MAX)).unwrap_or(u32::MAX);
        let request = Request::Receive { patience: patience(timeout, deadline), take, room };
        self.line.call(&request, deadline, |answer| match answer {
            Answer::Message { hints, client, handle, len, bytes } => {
                pad.get_mut(..bytes.len())?.copy_from_slice(bytes);
                Some(Message { len: usize::try_from(len).ok()?, hints, client, handle })
            }
            _ => None,
        })
    }
}
