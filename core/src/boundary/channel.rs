//! One channel: who may do what in which of its five states.
//!
//! ```
//! use umbra_core::boundary::{Channel, Refusal, Role, Sent, State};
//! let mut channel = Channel::<()>::new(Role::Local, 12);
//! channel.allocate(|| Some(()))?;
//! assert_eq!(channel.send(), Ok(Sent::Live));
//! assert_eq!(channel.send(), Err(Refusal::NotWritable { state: State::Sending }), "a second one loses nothing");
//! assert_eq!(channel.try_receive(|| None), Ok(true));
//! assert_eq!(channel.state(), State::Received);
//! channel.stale()?;
//! # Ok::<(), Refusal>(())
//! ```
//!
//! Between ranks there are two objects, one a side, which are never compared: the sender's is stale, sending or
//! sending a null, the receiver's stale or received. On one rank there is one object that walks through all states.
//!
//! An [`Exchange`](super::Exchange) has such objects for strips within its rank only: those between ranks share a
//! message, and a bit each, and the rules are rules of the message there. The other roles are for transports that carry
//! a message and keep storage for each strip, as `MpiStrips` of the package `umbra-mpi` does. Such a transport says
//! what came ([`on_message`](Channel::on_message)) and what it has sent ([`on_sent`](Channel::on_sent)), and receives
//! into the storage that it is given ([`incoming`](Channel::incoming)). What it counts as elements is its choice.
//!
//! A sparse receiver keeps its storage until a null comes, so that a strip which stays live takes none anew. Of one pool
//! such receivers have at most as much as there are strips whose last message was live: those of two exchanges that
//! follow each other, or of one if its nulls are taken first. A pool with a place for each strip that is live in one
//! exchange is enough in any order: who gets [`Refusal::NoStorage`] asks again when the others were received.
//!
//! Invariants: whatever is refused has changed nothing; storage that an operation in flight refers to is not given
//! back; nothing waits. The checks are the same in every build: they are a compare of one byte.

use super::state::{Refusal, Role, State};

/// What a send has started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sent {
    /// A message with all elements of the strip.
    Live,
    /// The news that there is nothing.
    Null,
}

/// What the start of a receive asks the transport for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    /// Nothing: it is posted already, or cannot be yet.
    Nothing,
    /// Receive exactly the elements of the strip into the storage.
    Post,
    /// Take the null that is there.
    PostNull,
}

/// One side of a channel, with storage `B`; dropping a `B` gives it back.
#[derive(Debug)]
pub struct Channel<B> {
    count: u32,
    /// Elements of the message that the transport has seen.
    came: Option<u32>,
    state: State,
    role: Role,
    /// Sender: a message is with the transport. Receiver: something will complete.
    posted: bool,
    /// Sender: the transport is done with the message.
    done: bool,
    storage: Option<B>,
}

impl<B> Channel<B> {
    /// A channel whose strip has `count` elements.
    #[must_use]
    pub const fn new(role: Role, count: u32) -> Self {
        Channel { count, came: None, state: State::Stale, role, posted: false, done: false, storage: None }
    }

    /// The state.
    #[must_use]
    #[inline]
    pub const fn state(&self) -> State {
        self.state
    }

    /// Which side this is.
    #[must_use]
    #[inline]
    pub const fn role(&self) -> Role {
        self.role
    }

    /// Elements of the strip.
    #[must_use]
    #[inline]
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// Whether it has storage. That says nothing about what is in it.
    #[must_use]
    #[inline]
    pub const fn is_active(&self) -> bool {
        self.storage.is_some()
    }

    /// The storage, to fill it before a send.
    ///
    /// # Errors
    /// [`Refusal::NotWritable`], [`Refusal::WrongRole`]; [`Refusal::NoStorage`] if there is none.
    pub fn fill(&mut self) -> Result<&mut B, Refusal> {
        self.writable()?;
        self.storage.as_mut().ok_or(Refusal::NoStorage)
    }

    /// The payload that was received. There is none to look at after a null.
    ///
    /// # Errors
    /// [`Refusal::NotReceived`].
    pub const fn payload(&self) -> Result<&B, Refusal> {
        match (self.state, &self.storage) {
            (State::Received, Some(storage)) => Ok(storage),
            _ => Err(Refusal::NotReceived { state: self.state }),
        }
    }

    /// The storage that the transport receives into; none unless that was [posted](Self::try_start_receive).
    #[inline]
    pub const fn incoming(&mut self) -> Option<&mut B> {
        if self.posted && !self.role.sends() { self.storage.as_mut() } else { None }
    }

    #[inline]
    fn writable(&self) -> Result<(), Refusal> {
        if !self.role.sends() {
            Err(Refusal::WrongRole { role: self.role })
        } else if self.state != State::Stale || self.posted {
            Err(Refusal::NotWritable { state: self.state })
        } else {
            Ok(())
        }
    }

    #[inline]
    fn idle(&self) -> Result<(), Refusal> {
        if self.state == State::Stale && !self.posted { Ok(()) } else { Err(Refusal::Busy { state: self.state }) }
    }

    /// Takes storage if there is none.
    ///
    /// # Errors
    /// [`Refusal::Busy`] unless the channel is stale with nothing in flight; [`Refusal::NoStorage`].
    pub fn allocate(&mut self, take: impl FnOnce() -> Option<B>) -> Result<(), Refusal> {
        if self.role.sends() {
            self.idle()?;
        } else if self.state != State::Stale {
            return Err(Refusal::Busy { state: self.state });
        }
        self.ensure(take)
    }

    #[inline]
    fn ensure(&mut self, take: impl FnOnce() -> Option<B>) -> Result<(), Refusal> {
        if self.storage.is_none() {
            self.storage = Some(take().ok_or(Refusal::NoStorage)?);
        }
        Ok(())
    }

    /// Hands the storage out, if there is any.
    ///
    /// # Errors
    /// [`Refusal::Busy`] while a message that refers to it is under way, or may still arrive in it.
    pub fn free(&mut self) -> Result<Option<B>, Refusal> {
        self.idle()?;
        Ok(self.storage.take())
    }

    /// Hands the strip over; without storage a null. Never waits.
    ///
    /// # Errors
    /// [`Refusal::NotWritable`], [`Refusal::WrongRole`]; [`Refusal::Empty`] for an empty strip to another rank.
    #[inline]
    pub fn send(&mut self) -> Result<Sent, Refusal> {
        self.writable()?;
        if self.storage.is_none() {
            return self.send_null();
        }
        if self.count == 0 && self.role == Role::Sender {
            return Err(Refusal::Empty);
        }
        self.state = State::Sending;
        self.posted = self.role == Role::Sender;
        Ok(Sent::Live)
    }

    /// Hands over that there is nothing; storage is kept and ignored.
    ///
    /// # Errors
    /// [`Refusal::NotWritable`], [`Refusal::WrongRole`].
    #[inline]
    pub fn send_null(&mut self) -> Result<Sent, Refusal> {
        self.writable()?;
        self.state = State::SendingNull;
        self.posted = self.role == Role::Sender;
        Ok(Sent::Null)
    }

    /// Whether the next send is accepted; a sender whose message the transport is done with becomes stale by this.
    ///
    /// # Errors
    /// [`Refusal::WrongRole`].
    #[inline]
    pub fn is_available_for_write(&mut self) -> Result<bool, Refusal> {
        if !self.role.sends() {
            return Err(Refusal::WrongRole { role: self.role });
        }
        if self.posted && self.done {
            (self.posted, self.done, self.state) = (false, false, State::Stale);
        }
        Ok(self.state == State::Stale)
    }

    /// The transport is done with the message: the sender's storage is his again. Says nothing about the receiver.
    #[inline]
    pub const fn on_sent(&mut self) {
        if matches!(self.role, Role::Sender) && self.posted {
            self.done = true;
        }
    }

    /// The transport has a message of so many elements; none is a null.
    ///
    /// # Errors
    /// [`Refusal::WrongRole`]; [`Refusal::Busy`] if the last one was not given up yet.
    #[inline]
    pub fn on_message(&mut self, elements: u32) -> Result<(), Refusal> {
        if self.role.sends() {
            return Err(Refusal::WrongRole { role: self.role });
        }
        if self.state != State::Stale || self.came.is_some() {
            return Err(Refusal::Busy { state: self.state });
        }
        self.came = Some(elements);
        Ok(())
    }

    /// Gets ready for the message: at once, or for a sparse receiver as soon as it is there.
    ///
    /// # Errors
    /// [`Refusal::WrongRole`] of a sender; [`Refusal::NoStorage`]; [`Refusal::SizeMismatch`] of a sparse receiver, also when
    /// asked again: what does not fit is not received.
    #[inline]
    pub fn try_start_receive(&mut self, take: impl FnOnce() -> Option<B>) -> Result<Start, Refusal> {
        match self.role {
            Role::Local => Ok(Start::Nothing),
            Role::Sender => Err(Refusal::WrongRole { role: self.role }),
            _ if self.state != State::Stale || self.posted => Ok(Start::Nothing),
            Role::Receiver => {
                self.ensure(take)?;
                self.posted = true;
                Ok(Start::Post)
            }
            Role::SparseReceiver => match self.came {
                None => Ok(Start::Nothing),
                Some(0) => {
                    self.storage = None;
                    self.posted = true;
                    Ok(Start::PostNull)
                }
                Some(came) if came != self.count => Err(Refusal::SizeMismatch { count: self.count, came }),
                Some(_) => {
                    self.ensure(take)?;
                    self.posted = true;
                    Ok(Start::Post)
                }
            },
        }
    }

    /// Whether the message has been received; asking again changes nothing.
    ///
    /// # Errors
    /// [`Refusal::WrongRole`] of a sender; [`Refusal::SizeMismatch`], also when asked again; [`Refusal::NoStorage`].
    #[inline]
    pub fn try_receive(&mut self, take: impl FnOnce() -> Option<B>) -> Result<bool, Refusal> {
        match (self.role, self.state) {
            (Role::Sender, _) => return Err(Refusal::WrongRole { role: self.role }),
            (_, State::Received | State::ReceivedNull) => return Ok(true),
            (Role::Local, State::Sending) => self.state = State::Received,
            (Role::Local, State::SendingNull) => self.state = State::ReceivedNull,
            (Role::Local, State::Stale) => return Ok(false),
            // A receiver never sends.
            (_, State::Sending | State::SendingNull) => return Err(Refusal::WrongRole { role: self.role }),
            (_, State::Stale) => {
                // Before anything is posted or taken, as what is refused changes nothing.
                if let Some(came) = self.came.filter(|&came| came != 0 && came != self.count) {
                    return Err(Refusal::SizeMismatch { count: self.count, came });
                }
                self.try_start_receive(take)?;
                let Some(came) = self.came.filter(|_| self.posted) else { return Ok(false) };
                self.state = if came == 0 { State::ReceivedNull } else { State::Received };
                (self.posted, self.came) = (false, None);
            }
        }
        Ok(true)
    }

    /// Gives up what was received, so that the next message can come.
    ///
    /// # Errors
    /// [`Refusal::NotReceived`], [`Refusal::WrongRole`] of a sender.
    #[inline]
    pub fn stale(&mut self) -> Result<(), Refusal> {
        if self.role == Role::Sender {
            return Err(Refusal::WrongRole { role: self.role });
        }
        if !self.state.is_received() {
            return Err(Refusal::NotReceived { state: self.state });
        }
        self.state = State::Stale;
        Ok(())
    }

    /// Whether nothing in flight can touch this object, and nothing for it is posted or has come. That the sender owes it
    /// nothing either is the exchange's to know.
    #[must_use]
    pub const fn is_safe_to_delete(&self) -> bool {
        match self.role {
            Role::Sender => !self.posted || self.done,
            _ => matches!(self.state, State::Stale) && !self.posted && self.came.is_none(),
        }
    }
}

#[cfg(test)]
mod tests;
