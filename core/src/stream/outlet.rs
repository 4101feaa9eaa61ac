//! The sending end of a conversation.

use super::error::WriteError;
use super::pipe::{Pipe, Push, Reference};
use super::settle::{End, Hearer, Outcome};
use super::streams::Streams;
use super::table::Conversation;
use crate::channel::Patience;
use crate::event::Wait;

/// What its sender does a conversation with. Dropped, the conversation stays as it is, its sender's: end it.
#[derive(Debug)]
pub struct Outlet<'a> {
    streams: Streams<'a>,
    pipe: Pipe<'a>,
    push: Push,
    conversation: Conversation,
    by: u16,
}

impl<'a> Outlet<'a> {
    pub(super) fn new(streams: Streams<'a>, pipe: Pipe<'a>, conversation: Conversation, by: u16) -> Self {
        Outlet { streams, pipe, push: Push::at(&pipe), conversation, by }
    }

    /// Which conversation it is.
    #[must_use]
    pub const fn conversation(&self) -> Conversation {
        self.conversation
    }

    /// Lets a receiver come; tell [`main`](super::Table::main). False if he is there already, or need not.
    pub fn deposit(&self) -> bool {
        self.streams.table().deposit(self.conversation, self.by)
    }

    /// Whether somebody still listens.
    ///
    /// # Errors
    /// [`WriteError::Unheard`], [`WriteError::PeerDead`], [`WriteError::Stale`], [`WriteError::Destroyed`].
    #[inline]
    pub fn check(&self) -> Result<(), WriteError> {
        match self.streams.table().hearer(self.conversation, self.by) {
            _ if self.streams.table().is_destroyed() => Err(WriteError::Destroyed),
            Some(Hearer::There) => Ok(()),
            Some(Hearer::Left) => Err(WriteError::Unheard),
            Some(Hearer::Dead) => Err(WriteError::PeerDead),
            None => Err(WriteError::Stale),
        }
    }

    /// Writes of a message as many of its first bytes as there is room for, and how many; one try. `more` if it is to go
    /// on with other bytes. [Tell](Self::tell) afterwards. No bytes are no message.
    ///
    /// # Errors
    /// [`WriteError`].
    #[inline]
    pub fn write(&mut self, bytes: &[u8], arg: u64, more: bool) -> Result<usize, WriteError> {
        self.check()?;
        if bytes.is_empty() {
            return Ok(0);
        }
        self.push.bytes(&self.pipe, bytes, arg, more)
    }

    /// Writes a message about memory; one try.
    ///
    /// # Errors
    /// [`WriteError`].
    pub fn refer(&mut self, to: Reference, arg: u64) -> Result<(), WriteError> {
        self.check()?;
        self.push.reference(&self.pipe, to, arg)
    }

    /// Tells the receiver that something was written.
    #[inline]
    pub fn tell(&self, wait: &impl Wait) {
        self.pipe.written().notify(wait);
    }

    /// Waits until `attempt` finds room, or the deadline.
    ///
    /// # Errors
    /// [`WriteError::Full`] if there was none until then, or what `attempt` says.
    pub fn wait<T>(
        &mut self,
        wait: &impl Wait,
        patience: Patience,
        mut attempt: impl FnMut(&mut Self) -> Result<T, WriteError>,
    ) -> Result<T, WriteError> {
        let event = self.pipe.read();
        let look = || Some(attempt(self)).filter(|done| !matches!(done, Err(WriteError::Full)));
        event.wait(wait, patience.spins, patience.deadline, look).unwrap_or(Err(WriteError::Full))
    }

    /// Ends the conversation; if nobody is left in its place, `dropped` is told the memory that nobody read. What
    /// changed, to be [told](Streams::tell).
    pub fn end(self, how: End, dropped: impl Fn(Reference)) -> Outcome {
        let scrub = |place| self.streams.scrub(place, &dropped);
        self.streams.table().end(self.conversation, self.by, how, scrub)
    }
}
