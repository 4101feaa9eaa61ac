//! The receiving end of a conversation.

use super::error::ReadError;
use super::pipe::{Front, Pipe, Pull, Reference};
use super::settle::{Outcome, Speaker};
use super::streams::Streams;
use super::table::Conversation;
use crate::channel::Patience;
use crate::event::Wait;

/// What its receiver does a conversation with. Dropped, the conversation stays as it is, its receiver's: leave it.
#[derive(Debug)]
pub struct Inlet<'a> {
    streams: Streams<'a>,
    pipe: Pipe<'a>,
    pull: Pull,
    conversation: Conversation,
    by: u16,
}

/// What was read of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Piece {
    /// How many bytes.
    pub len: usize,
    /// The 64 bits that came with them.
    pub arg: u64,
    /// Whether they are the last ones of a message.
    pub is_last: bool,
}

impl<'a> Inlet<'a> {
    pub(super) fn new(streams: Streams<'a>, pipe: Pipe<'a>, conversation: Conversation, by: u16) -> Self {
        Inlet { streams, pipe, pull: Pull::at(&pipe), conversation, by }
    }

    /// Which conversation it is.
    #[must_use]
    pub const fn conversation(&self) -> Conversation {
        self.conversation
    }

    /// What the sender does.
    #[must_use]
    pub fn speaker(&self) -> Option<Speaker> {
        self.streams.table().speaker(self.conversation, self.by)
    }

    /// Whether its sender minds if it is left before its end.
    #[must_use]
    pub fn is_brief(&self) -> bool {
        self.streams.table().is_brief(self.conversation)
    }

    /// The first record that was not wholly read.
    ///
    /// # Errors
    /// [`ReadError`]; [`ReadError::Ended`] and [`ReadError::PeerDead`] only if everything was read.
    #[inline]
    pub fn front(&mut self) -> Result<Front, ReadError> {
        match self.pull.front(&self.pipe) {
            Err(ReadError::Empty) => {}
            found => return found,
        }
        let speaker = self.speaker();
        // Again: what he said before he ended is seen now.
        match (self.pull.front(&self.pipe), speaker) {
            _ if self.streams.table().is_destroyed() => Err(ReadError::Destroyed),
            (Err(ReadError::Empty), Some(Speaker::Done)) => Err(ReadError::Ended),
            (Err(ReadError::Empty), Some(Speaker::Dead)) => Err(ReadError::PeerDead),
            (Err(ReadError::Empty), None) => Err(ReadError::Damaged),
            (found, _) => found,
        }
    }

    /// Reads bytes of the first record; one try. [Tell](Self::tell) afterwards.
    ///
    /// # Errors
    /// As for [`front`](Self::front); [`ReadError::Damaged`] if it is about memory.
    #[inline]
    pub fn read(&mut self, into: &mut [u8]) -> Result<Piece, ReadError> {
        let front = self.front()?;
        let len = front.len.min(into.len());
        let into = into.get_mut(..len).filter(|_| front.reference.is_none()).ok_or(ReadError::Damaged)?;
        self.pull.read(&self.pipe, front, into)?;
        Ok(Piece { len, arg: front.arg, is_last: len == front.len && !front.more })
    }

    /// Whether some bytes of the first record were read, and some were not.
    #[must_use]
    pub const fn is_in_part(&self) -> bool {
        self.pull.is_in_part()
    }

    /// Passes over the rest of the first record.
    pub fn skip(&mut self, front: &Front) {
        self.pull.skip(&self.pipe, front.len);
    }

    /// Tells the sender that something was read.
    #[inline]
    pub fn tell(&self, wait: &impl Wait) {
        self.pipe.read().notify(wait);
    }

    /// Waits until `attempt` finds something, or the deadline.
    ///
    /// # Errors
    /// [`ReadError::Empty`] if nothing came until then, or what `attempt` says.
    pub fn wait<T>(
        &mut self,
        wait: &impl Wait,
        patience: Patience,
        mut attempt: impl FnMut(&mut Self) -> Result<T, ReadError>,
    ) -> Result<T, ReadError> {
        let event = self.pipe.written();
        let look = || Some(attempt(self)).filter(|done| !matches!(done, Err(ReadError::Empty)));
        event.wait(wait, patience.spins, patience.deadline, look).unwrap_or(Err(ReadError::Empty))
    }

    /// Ends the conversation, whatever its sender may still have to say; otherwise as [`end`](super::Outlet::end).
    pub fn leave(self, dropped: impl Fn(Reference)) -> Outcome {
        let scrub = |place| self.streams.scrub(place, &dropped);
        self.streams.table().leave(self.conversation, self.by, scrub)
    }
}
