//! Receiving.

use umbra_core::cell::Bytes;
use umbra_core::channel::{Header, Lent, Patience, Port, ReceiveError};

use super::error::Error;
use super::layout::{Pocket, View};
use super::wait::{Timeout, WaitMode, Watch};
use super::{Channel, Kind};

/// A receive handle.
#[derive(Debug)]
pub struct Receiver<'a> {
    port: Port<'a, Watch<'a>>,
    view: View<'a>,
    mode: WaitMode,
}

/// What was received, or seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message {
    /// Its bytes.
    pub len: usize,
    /// The 64 bits that were sent beside them.
    pub hints: u64,
    /// Who sent it, by a number of the user's.
    pub client: u64,
    /// The id of the send handle.
    pub handle: [u64; 2],
}

impl Message {
    const fn new(len: usize, Header { hints, sender, handle, .. }: Header) -> Message {
        Message { len, hints, client: sender, handle }
    }
}

impl Channel {
    /// Opens a receive handle that waits in this way.
    ///
    /// # Errors
    /// [`Error::WrongKind`] if it is a semaphore.
    pub fn receiver(&self, mode: WaitMode) -> Result<Receiver<'_>, Error> {
        let view = self.view()?;
        if view.kind() != Kind::Messages {
            return Err(Error::WrongKind);
        }
        Ok(Receiver { port: Port::new(view.messages, view.me, Watch::new(view)), view, mode })
    }
}

impl<'a> Receiver<'a> {
    /// Does it, at once or as soon as there is a message.
    fn wait<T>(&self, timeout: Timeout, attempt: impl FnOnce(Patience) -> Result<T, ReceiveError>) -> Result<T, Error> {
        // A deadline that has passed leaves one look.
        let (patience, _counted) = match timeout {
            Timeout::Now => (Patience { spins: 0, deadline: timeout.deadline() }, None),
            _ => self.port.waiting().patience(self.mode, timeout.deadline()),
        };
        let _blocked = self.view.enter(Pocket::Receiving);
        attempt(patience).map_err(|error| match error.into() {
            Error::Empty if timeout != Timeout::Now => Error::Timeout,
            error => error,
        })
    }

    /// Receives the first message into `pad`.
    ///
    /// # Errors
    /// [`Error::Empty`] for one try, [`Error::Timeout`], [`Error::PadTooSmall`], [`Error::Destroyed`].
    #[inline]
    pub fn receive(&self, pad: &mut [u8], timeout: Timeout) -> Result<Message, Error> {
        let received = match self.port.try_receive(pad) {
            Err(ReceiveError::Empty) if timeout != Timeout::Now => {
                self.wait(timeout, |patience| self.port.receive(pad, patience))?
            }
            done => done?,
        };
        Ok(Message::new(received.len, received.header))
    }

    /// Receives the first message where it lies; its place is free again when what this returns is dropped.
    ///
    /// # Errors
    /// As for [`receive`](Self::receive), but not for a pad that is too small.
    pub fn take(&self, timeout: Timeout) -> Result<InPlace<'_, 'a>, Error> {
        Ok(InPlace { lent: self.wait(timeout, |patience| self.port.take(patience))? })
    }

    /// Looks at the first message and copies as much of it as there is room for; it stays the first.
    ///
    /// # Errors
    /// As for [`receive`](Self::receive), but not for a pad that is too small.
    pub fn peek(&self, pad: &mut [u8], timeout: Timeout) -> Result<Message, Error> {
        let peeked = self.wait(timeout, |patience| self.port.peek(pad, patience))?;
        Ok(Message::new(peeked.len, peeked.header))
    }

    /// Removes the first message without looking at it.
    ///
    /// # Errors
    /// As for [`receive`](Self::receive), but not for a pad that is too small.
    pub fn pop(&self, timeout: Timeout) -> Result<(), Error> {
        self.take(timeout).map(drop)
    }
}

/// A received message where it lies.
#[derive(Debug)]
pub struct InPlace<'r, 'a> {
    lent: Lent<'r, 'a, Watch<'a>>,
}

impl InPlace<'_, '_> {
    /// Its bytes; what another process writes there meanwhile is seen.
    #[must_use]
    pub fn bytes(&self) -> Bytes<'_> {
        self.lent.bytes()
    }

    /// What came along.
    #[must_use]
    pub fn message(&self) -> Message {
        let received = self.lent.received();
        Message::new(received.len, received.header)
    }
}
