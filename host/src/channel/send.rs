//! Sending.

use umbra_core::atomic::{AtomicU64, Ordering};
use umbra_core::cell::BytesMut;
use umbra_core::channel::{Header, Loan, Port, Position, Unsent as Kept};

use super::error::Error;
use super::layout::View;
use super::wait::{Timeout, WaitMode, Watch};
use super::{Channel, Kind};
use crate::sys::fork;

/// Handles that this process opened.
static OPENED: AtomicU64 = AtomicU64::new(0);

/// What has happened when a send returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ReturnMode {
    /// The message is in the channel, and its source may be used for something else.
    #[default]
    Deposited,
    /// Somebody received it.
    Received,
}

/// How a handle sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SendOptions {
    /// Who sends, by a number of the user's; goes along with each message.
    pub client: u64,
    /// When to return.
    pub returns: ReturnMode,
    /// How to wait.
    pub mode: WaitMode,
}

/// A send handle; messages of one handle are received in the order in which they were sent. A child that is forked off opens
/// its own.
#[derive(Debug)]
pub struct Sender<'a> {
    pub(super) port: Port<'a, Watch<'a>>,
    pub(super) view: View<'a>,
    pub(super) options: SendOptions,
    handle: [u64; 2],
}

impl Channel {
    /// Opens a send handle.
    ///
    /// # Errors
    /// [`Error::WrongKind`] if it is a semaphore.
    #[inline]
    pub fn sender(&self, options: SendOptions) -> Result<Sender<'_>, Error> {
        let view = self.view()?;
        let me = view.frame.crew.member(view.me).ok_or(Error::Damaged)?.identity;
        let identity = u64::from(me.pid()) << 32 | u64::from(me.start());
        Sender::over(view, options, [identity, OPENED.fetch_add(1, Ordering::Relaxed)])
    }

    /// A send handle with this id, for whoever it belongs to.
    pub(crate) fn sender_as(&self, options: SendOptions, handle: [u64; 2]) -> Result<Sender<'_>, Error> {
        Sender::over(self.view()?, options, handle)
    }
}

impl<'a> Sender<'a> {
    #[inline]
    fn over(view: View<'a>, options: SendOptions, handle: [u64; 2]) -> Result<Self, Error> {
        if view.kind() != Kind::Messages {
            return Err(Error::WrongKind);
        }
        Ok(Sender { port: Port::new(view.messages, view.me, Watch::new(view)), view, options, handle })
    }

    /// The id of this handle, which goes along with each message.
    #[must_use]
    pub const fn id(&self) -> [u64; 2] {
        self.handle
    }

    pub(super) fn header(&self, hints: u64) -> Header {
        Header { hints, sender: self.options.client, handle: self.handle, flags: 0 }
    }

    /// Sends a copy of these bytes, and the 64 bits beside them. What does not fit into a block goes by way of the first
    /// pool that this process knows at the channel.
    ///
    /// # Errors
    /// [`Error::Full`] for one try, [`Error::Timeout`], [`Error::MessageTooLarge`], [`Error::Pool`], [`Error::Destroyed`],
    /// [`Error::Forked`]: nothing was sent then. If the handle returns when a message is received, it was sent with
    /// [`Error::NotReceived`], and may have been with [`Error::Destroyed`].
    #[inline]
    pub fn send(&self, bytes: &[u8], hints: u64, timeout: Timeout) -> Result<(), Error> {
        self.view.refuse_heirs()?;
        match self.port.try_send(self.header(hints), bytes) {
            Ok(_) if self.options.returns == ReturnMode::Deposited => Ok(()),
            Ok(position) => self.await_receipt(position, timeout),
            Err(error) => self.send_otherwise(error.into(), bytes, hints, timeout),
        }
    }

    #[cold]
    fn send_otherwise(&self, error: Error, bytes: &[u8], hints: u64, timeout: Timeout) -> Result<(), Error> {
        let deadline = timeout.deadline();
        let position = self.deposit_otherwise(error, bytes, hints, timeout)?;
        self.returned(position, timeout.rest(deadline))
    }

    /// After this error: through a pool if they do not fit into a block, or as soon as there is room.
    fn deposit_otherwise(&self, error: Error, bytes: &[u8], hints: u64, timeout: Timeout) -> Result<Position, Error> {
        if matches!(error, Error::MessageTooLarge { .. })
            && let Ok(home) = self.view.pools.home()
        {
            return self.place(bytes, home, hints, timeout);
        }
        self.deposit_later(error, self.header(hints), bytes, timeout)
    }

    /// Sends a copy of these bytes, as [`send`](Self::send), but does not wait until it was received; where it stands.
    pub(crate) fn deposit_bytes(&self, bytes: &[u8], hints: u64, timeout: Timeout) -> Result<Position, Error> {
        self.view.refuse_heirs()?;
        let sent = self.port.try_send(self.header(hints), bytes);
        sent.or_else(|error| self.deposit_otherwise(error.into(), bytes, hints, timeout))
    }

    /// Sends a message as soon as there is room, after this error.
    #[cold]
    fn deposit_later(&self, error: Error, header: Header, bytes: &[u8], timeout: Timeout) -> Result<Position, Error> {
        if error != Error::Full || timeout == Timeout::Now {
            return Err(self.port.waiting().late(error, timeout));
        }
        let (patience, _counted) = self.port.waiting().patience(self.options.mode, timeout.deadline());
        self.port.send(header, bytes, patience).map_err(|e| self.port.waiting().late(e.into(), timeout))
    }

    /// Sends a message; where it stands.
    pub(super) fn deposit(&self, header: Header, bytes: &[u8], timeout: Timeout) -> Result<Position, Error> {
        self.port.try_send(header, bytes).or_else(|error| self.deposit_later(error.into(), header, bytes, timeout))
    }

    /// Returns when the handle's option says so.
    pub(crate) fn returned(&self, position: Position, timeout: Timeout) -> Result<(), Error> {
        match self.options.returns {
            ReturnMode::Deposited => Ok(()),
            ReturnMode::Received => self.await_receipt(position, timeout),
        }
    }

    #[cold]
    fn await_receipt(&self, position: Position, timeout: Timeout) -> Result<(), Error> {
        let (patience, _counted) = self.port.waiting().patience(self.options.mode, timeout.deadline());
        if self.port.await_receipt(position, patience) {
            return Ok(());
        }
        let is_destroyed = self.port.messages().queue().is_destroyed();
        let error = if is_destroyed { Error::Destroyed } else { Error::NotReceived };
        Err(self.port.waiting().late(error, timeout))
    }

    /// A message of `len` bytes to be written where it will lie.
    ///
    /// # Errors
    /// As for [`send`](Self::send).
    pub fn write(&self, len: usize, timeout: Timeout) -> Result<Writing<'_, 'a>, Error> {
        self.view.refuse_heirs()?;
        let (patience, _counted) = self.port.waiting().patience(self.options.mode, timeout.deadline());
        let loan = match timeout {
            Timeout::Now => self.port.messages().loan(self.port.number(), len),
            _ => self.port.loan(len, patience),
        };
        Ok(Writing::new(self, loan.map_err(|e| self.port.waiting().late(e.into(), timeout))?))
    }
}

/// A message that is being written where it will lie; dropped, it is not sent.
#[derive(Debug)]
pub struct Writing<'s, 'a> {
    sender: &'s Sender<'a>,
    loan: Loan<'a>,
    /// Of the process that began it: a child that was forked off leaves it to its parent.
    life: u32,
}

impl Drop for Writing<'_, '_> {
    #[inline]
    fn drop(&mut self) {
        if self.life == fork::life() {
            self.sender.port.give_up(&mut self.loan);
        } else {
            self.loan.disown();
        }
    }
}

impl<'s, 'a> Writing<'s, 'a> {
    fn new(sender: &'s Sender<'a>, loan: Loan<'a>) -> Self {
        Writing { sender, loan, life: fork::life() }
    }

    /// Its bytes; what is not written is what an earlier message left.
    #[must_use]
    pub fn bytes(&self) -> BytesMut<'_> {
        self.loan.bytes()
    }

    /// Sends it, and the 64 bits beside it, as soon as there is room: there may be memory to write a message into while as
    /// many wait as the channel has capacity for.
    ///
    /// # Errors
    /// [`Unsent`] with the errors of [`Sender::send`], and with the message if it was not sent; with [`Error::Forked`] it is
    /// still the parent's, who may send it.
    #[expect(clippy::result_large_err, reason = "a message that was not sent is its writer's again")]
    pub fn send(mut self, hints: u64, timeout: Timeout) -> Result<(), Unsent<'s, 'a>> {
        if self.life != fork::life() {
            return Err(Unsent { error: Error::Forked, writing: Some(self) });
        }
        let (sender, mut loan) = (self.sender, self.loan.move_out());
        let deadline = timeout.deadline();
        loan.header = sender.header(hints);
        let sent = match timeout {
            Timeout::Now => sender.port.try_commit(loan),
            _ => {
                let (patience, _counted) = sender.port.waiting().patience(sender.options.mode, deadline);
                sender.port.commit(loan, patience)
            }
        };
        let position = sent.map_err(|Kept { error, loan }| Unsent {
            error: sender.port.waiting().late(error.into(), timeout),
            writing: Some(Writing::new(sender, loan)),
        })?;
        let returned = sender.returned(position, timeout.rest(deadline));
        returned.map_err(|error| Unsent { error, writing: None })
    }
}

/// Why [`Writing::send`] failed. Without a use for the message, `?` makes an [`Error`] of it.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct Unsent<'s, 'a> {
    /// Why.
    pub error: Error,
    /// The message as it was written, to be sent again; `None` if it was sent and nobody received it in time.
    pub writing: Option<Writing<'s, 'a>>,
}

impl From<Unsent<'_, '_>> for Error {
    fn from(unsent: Unsent<'_, '_>) -> Error {
        unsent.error
    }
}

#[cfg(test)]
mod tests {
    use super::super::Attributes;
    use super::*;

    #[test]
    fn who_waits_for_room_to_write_hears_of_what_is_not_sent_after_all() {
        let channel = Channel::create(&Attributes { capacity: 1, block: 256, ..Attributes::default() }).unwrap();
        let sender = channel.sender(SendOptions::default()).unwrap();
        let write = || sender.write(1, Timeout::Now);
        let room = sender.port.messages().queue().taken();
        // Whether one was woken who fell asleep while all places were taken.
        let wakes = |act: &dyn Fn(Writing<'_, '_>)| {
            let mut all: Vec<_> = std::iter::from_fn(|| write().ok()).collect();
            let asleep = room.announce();
            assert!(write().is_err());
            act(all.pop().unwrap());
            room.word().load(Ordering::Relaxed) as u32 != asleep
        };
        assert!(wakes(&|writing| drop(writing)), "there is room for one");
        assert!(!wakes(&|writing| writing.send(7, Timeout::Now).unwrap()), "the place is taken still");
        assert!(wakes(&|writing| assert_eq!(writing.send(8, Timeout::Now).unwrap_err().error, Error::Full)));
    }
}
