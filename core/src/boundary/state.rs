//! The states of a channel, the roles of its sides, and why a call has no effect.

use core::fmt;

/// What is in a channel, as far as this side knows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum State {
    /// Nothing: the sender may fill it.
    #[default]
    Stale,
    /// A payload was handed over and not yet taken; nobody may write to it.
    Sending,
    /// The news that there is no payload was handed over.
    SendingNull,
    /// The receiver has a payload and may read it.
    Received,
    /// The receiver knows that nothing in the strip is above the threshold: the default stands for it.
    ReceivedNull,
}

impl State {
    /// All of them.
    pub const ALL: [State; 5] =
        [State::Stale, State::Sending, State::SendingNull, State::Received, State::ReceivedNull];

    /// Whether the receiver has its answer.
    #[must_use]
    #[inline]
    pub const fn is_received(self) -> bool {
        matches!(self, State::Received | State::ReceivedNull)
    }
}

/// Which side of a channel this is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Role {
    /// Both: sender and receiver share the object.
    Local,
    /// The sender's side.
    Sender,
    /// The receiver's side, whose memory is there before the message.
    Receiver,
    /// The receiver's side that takes memory only once it knows that a payload comes.
    SparseReceiver,
}

/// The channel joins two other ranks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct NotMyChannel {
    /// This rank.
    pub me: u32,
    /// The rank that sends.
    pub sender: u32,
    /// The rank that receives.
    pub receiver: u32,
}

impl fmt::Display for NotMyChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NotMyChannel { me, sender, receiver } = self;
        write!(f, "channel from rank {sender} to rank {receiver} is none of rank {me}: build only what touches it")
    }
}
impl core::error::Error for NotMyChannel {}

impl Role {
    /// All of them.
    pub const ALL: [Role; 4] = [Role::Local, Role::Sender, Role::Receiver, Role::SparseReceiver];

    /// The role of rank `me`. A channel within a rank has one storage whatever `sparse` says.
    ///
    /// # Errors
    /// [`NotMyChannel`].
    pub const fn of(me: u32, sender: u32, receiver: u32, sparse: bool) -> Result<Role, NotMyChannel> {
        match (me == sender, me == receiver) {
            (true, true) => Ok(Role::Local),
            (true, false) => Ok(Role::Sender),
            (false, true) if sparse => Ok(Role::SparseReceiver),
            (false, true) => Ok(Role::Receiver),
            (false, false) => Err(NotMyChannel { me, sender, receiver }),
        }
    }

    #[inline]
    pub(super) const fn sends(self) -> bool {
        matches!(self, Role::Local | Role::Sender)
    }
}

/// Why a call had no effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Refusal {
    /// This side of a channel has no such call.
    WrongRole {
        /// Which side it is.
        role: Role,
    },
    /// The storage is referred to; it is free again when the exchange is over.
    Busy {
        /// What the channel is doing.
        state: State,
    },
    /// The last message is still on its way, so nothing can be sent; ask
    /// [`is_available_for_write`](super::Channel::is_available_for_write) before.
    NotWritable {
        /// What the channel is doing.
        state: State,
    },
    /// There is nothing that could become stale.
    NotReceived {
        /// What the channel is doing.
        state: State,
    },
    /// Nobody had storage to give; an exchange that ends makes a retry worth while.
    NoStorage,
    /// A payload has another number of elements than the strip.
    SizeMismatch {
        /// Elements of the strip.
        count: u32,
        /// Elements that came.
        came: u32,
    },
    /// A strip without elements cannot be told from a null by its receiver.
    Empty,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::WrongRole { role } => write!(f, "the {role:?} side of a channel has no such call"),
            Refusal::Busy { state } => {
                write!(f, "storage of a channel in state {state:?} is in use: wait until it is stale")
            }
            Refusal::NotWritable { state } => {
                write!(f, "channel in state {state:?} takes no message: ask whether it is available for writing")
            }
            Refusal::NotReceived { state } => {
                write!(f, "channel in state {state:?} has nothing that could be given up: receive first")
            }
            Refusal::NoStorage => f.write_str("no storage for a channel: try again after an exchange has ended"),
            Refusal::SizeMismatch { count, came } => {
                write!(f, "{came} elements came for a strip of {count}: both sides must build the same plan")
            }
            Refusal::Empty => f.write_str("a strip without elements can only be sent within a rank, or as a null"),
        }
    }
}
impl core::error::Error for Refusal {}
