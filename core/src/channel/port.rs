//! One process at a channel: the same operations, waiting.
//!
//! Every send tells those who wait for a message, every receive those who wait for room: first when the message is
//! taken, because one who is stopped after that must not keep the room, and again when its slot is free.

use core::ops::Deref;

use super::error::{ReceiveError, SendError};
use super::loan::{Loan, Unsent};
use super::message::{Header, Messages, Peeked, Received, Taken};
use super::queue::Position;
use super::reclaim::Reclaimed;
use crate::cell::Bytes;
use crate::event::Wait;
use crate::time::Time;

/// How long to wait, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Patience {
    /// Looks that follow each other at once before the first sleep; [`SPIN`](crate::event::SPIN) to never sleep.
    pub spins: u32,
    /// When to give up.
    pub deadline: Time,
}

/// A channel as one process uses it; copies are cheap.
#[derive(Clone, Copy, Debug)]
pub struct Port<'a, W> {
    messages: Messages<'a>,
    by: u16,
    wait: W,
}

impl<'a, W: Wait> Port<'a, W> {
    /// Uses a channel as process number `by`, waiting as `wait` says.
    #[must_use]
    pub const fn new(messages: Messages<'a>, by: u16, wait: W) -> Self {
        Port { messages, by, wait }
    }

    /// The messages, for operations that do not wait and tell nobody.
    #[must_use]
    pub const fn messages(&self) -> &Messages<'a> {
        &self.messages
    }

    /// The number that this process is known by.
    #[must_use]
    pub const fn number(&self) -> u16 {
        self.by
    }

    /// How it waits.
    #[must_use]
    pub const fn waiting(&self) -> &W {
        &self.wait
    }

    /// Sends a message; one try.
    ///
    /// # Errors
    /// [`SendError`]; nothing was sent then.
    #[inline]
    pub fn try_send(&self, header: Header, bytes: &[u8]) -> Result<Position, SendError> {
        let position = self.messages.send(self.by, header, bytes)?;
        self.messages.queue().published().notify_after_swap(&self.wait);
        Ok(position)
    }

    /// Sends a message as soon as there is room.
    ///
    /// # Errors
    /// [`SendError::Full`] if there was none until the deadline, or another [`SendError`]; nothing was sent then.
    #[inline]
    pub fn send(&self, header: Header, bytes: &[u8], patience: Patience) -> Result<Position, SendError> {
        match self.try_send(header, bytes) {
            Err(SendError::Full) => self.await_room(patience, || self.try_send(header, bytes)),
            done => done,
        }
    }

    /// A slot to write a message of `len` bytes into, as soon as there is one; [`commit`](Self::commit) sends it.
    ///
    /// # Errors
    /// [`SendError`].
    pub fn loan(&self, len: usize, patience: Patience) -> Result<Loan<'a>, SendError> {
        match self.messages.loan(self.by, len) {
            Err(SendError::Full) => self.await_room(patience, || self.messages.loan(self.by, len)),
            done => done,
        }
    }

    /// Sends what was written into a loan; one try.
    ///
    /// # Errors
    /// [`Unsent`], with the loan; [`SendError::Full`] if as many messages wait as there is capacity for.
    #[expect(clippy::result_large_err, reason = "a loan that was not sent is its holder's again")]
    pub fn try_commit(&self, loan: Loan<'a>) -> Result<Position, Unsent<'a>> {
        let position = loan.send()?;
        self.messages.queue().published().notify_after_swap(&self.wait);
        Ok(position)
    }

    /// Sends what was written into a loan as soon as there is room.
    ///
    /// # Errors
    /// [`Unsent`], with the loan; [`SendError::Full`] if there was no room until the deadline.
    #[expect(clippy::result_large_err, reason = "a loan that was not sent is its holder's again")]
    pub fn commit(&self, loan: Loan<'a>, patience: Patience) -> Result<Position, Unsent<'a>> {
        let mut loan = match self.try_commit(loan) {
            Err(Unsent { error: SendError::Full, loan }) => loan,
            done => return done,
        };
        let sent = self.await_room(patience, || loan.attempt()).map_err(|error| Unsent { error, loan })?;
        self.messages.queue().published().notify_after_swap(&self.wait);
        Ok(sent)
    }

    /// Gives a slot back in which nothing is sent, and tells those who wait for one. A loan that was sent has none.
    pub fn give_up(&self, loan: &mut Loan<'a>) {
        if let Some(claim) = loan.claim.take() {
            self.messages.queue().give_up(claim);
            self.messages.queue().taken().notify_after_swap(&self.wait);
        }
    }

    #[cold]
    fn await_room<T>(
        &self,
        Patience { spins, deadline }: Patience,
        mut attempt: impl FnMut() -> Result<T, SendError>,
    ) -> Result<T, SendError> {
        let look = || Some(attempt()).filter(|done| !matches!(done, Err(SendError::Full)));
        let done = self.messages.queue().taken().wait(&self.wait, spins, deadline, look);
        done.unwrap_or(Err(SendError::Full))
    }

    /// Receives the first message into the caller's memory; one try.
    ///
    /// # Errors
    /// [`ReceiveError`]; a message that does not fit stays the first.
    #[inline]
    pub fn try_receive(&self, pad: &mut [u8]) -> Result<Received, ReceiveError> {
        let lent = self.lend(self.messages.take_within(self.by, pad.len())?);
        lent.copy_to(pad)?;
        Ok(lent.received())
    }

    /// Receives the first message into the caller's memory, as soon as there is one.
    ///
    /// # Errors
    /// [`ReceiveError::Empty`] if there was none until the deadline, or another [`ReceiveError`].
    #[inline]
    pub fn receive(&self, pad: &mut [u8], patience: Patience) -> Result<Received, ReceiveError> {
        match self.try_receive(pad) {
            Err(ReceiveError::Empty) => self.await_message(patience, || self.try_receive(pad)),
            done => done,
        }
    }

    /// Receives the first message where it lies, as soon as there is one.
    ///
    /// # Errors
    /// As for [`receive`](Self::receive).
    pub fn take(&self, patience: Patience) -> Result<Lent<'_, 'a, W>, ReceiveError> {
        let attempt = || self.messages.take_within(self.by, usize::MAX);
        let taken = match attempt() {
            Err(ReceiveError::Empty) => self.await_message(patience, attempt)?,
            done => done?,
        };
        Ok(self.lend(taken))
    }

    /// Receives the first message where it lies, unless `judge` refuses it, as [`Messages::take_if`] says; one try.
    ///
    /// # Errors
    /// [`ReceiveError`], and those of `judge`.
    #[inline]
    pub fn try_take_if<E: From<ReceiveError>>(
        &self,
        judge: impl FnMut(Header, Bytes<'a>) -> Result<(), E>,
    ) -> Result<Lent<'_, 'a, W>, E> {
        Ok(self.lend(self.messages.take_if(self.by, judge)?))
    }

    #[inline]
    fn lend(&self, taken: Taken<'a>) -> Lent<'_, 'a, W> {
        self.messages.queue().taken().notify_after_swap(&self.wait);
        Lent { taken, _tells: Tells(self) }
    }

    /// Looks at the first message, as soon as there is one, and copies as much of it as there is room for.
    ///
    /// # Errors
    /// As for [`receive`](Self::receive), but not for a pad that is too small.
    pub fn peek(&self, pad: &mut [u8], patience: Patience) -> Result<Peeked, ReceiveError> {
        match self.messages.peek(pad) {
            Err(ReceiveError::Empty) => self.await_message(patience, || self.messages.peek(pad)),
            done => done,
        }
    }

    #[cold]
    fn await_message<T>(
        &self,
        Patience { spins, deadline }: Patience,
        mut attempt: impl FnMut() -> Result<T, ReceiveError>,
    ) -> Result<T, ReceiveError> {
        let look = || Some(attempt()).filter(|done| !matches!(done, Err(ReceiveError::Empty)));
        let done = self.messages.queue().published().wait(&self.wait, spins, deadline, look);
        done.unwrap_or(Err(ReceiveError::Empty))
    }

    /// Waits until somebody received the message at this position; false if nobody did until the deadline.
    #[must_use]
    pub fn await_receipt(&self, position: Position, Patience { spins, deadline }: Patience) -> bool {
        let queue = self.messages.queue();
        let look = || (queue.is_received(position) || queue.is_destroyed()).then_some(());
        queue.taken().wait(&self.wait, spins, deadline, look).is_some() && queue.is_received(position)
    }

    /// Waits until `look` finds something, which is asked again whenever a message was sent or received.
    ///
    /// *Cost*: only one of the two kinds wakes: `sent` says which.
    pub fn await_change<T>(
        &self,
        sent: bool,
        Patience { spins, deadline }: Patience,
        look: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        let queue = self.messages.queue();
        let event = if sent { queue.published() } else { queue.taken() };
        event.wait(&self.wait, spins, deadline, look)
    }

    /// Frees what a process held that will not run again, as [`Queue::reclaim`](super::Queue::reclaim) says, and wakes
    /// everybody: it may have died before it could.
    pub fn reclaim(&self, dead: u16) -> Reclaimed {
        let reclaimed = self.messages.queue().reclaim(dead);
        self.wake();
        reclaimed
    }

    /// Says that nobody shall use the channel any more, and wakes everybody; true for the first who says so.
    pub fn destroy(&self) -> bool {
        let first = self.messages.queue().destroy();
        self.wake();
        first
    }

    fn wake(&self) {
        self.messages.queue().published().notify(&self.wait);
        self.messages.queue().taken().notify(&self.wait);
    }
}

/// A received message where it lies; dropping it gives the slot back, and tells those who wait for room.
#[derive(Debug)]
pub struct Lent<'p, 'a, W: Wait> {
    // The order counts: fields are dropped from the first to the last.
    pub(super) taken: Taken<'a>,
    _tells: Tells<'p, 'a, W>,
}

impl<'a, W: Wait> Deref for Lent<'_, 'a, W> {
    type Target = Taken<'a>;

    fn deref(&self) -> &Taken<'a> {
        &self.taken
    }
}

#[derive(Debug)]
struct Tells<'p, 'a, W: Wait>(&'p Port<'a, W>);

impl<W: Wait> Drop for Tells<'_, '_, W> {
    #[inline]
    fn drop(&mut self) {
        self.0.messages.queue().taken().notify_after_swap(&self.0.wait);
    }
}
