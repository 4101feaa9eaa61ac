//! Why an exchange refuses: what its own rank asks, and what peers send.

use core::fmt;

use super::header::HeadError;
use super::plan::{Key, PlanError};
use super::state::State;

/// Why no exchange was made of what was lent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum BuildError {
    /// The channels to or from a rank are no plan.
    Plan {
        /// The rank.
        rank: u32,
        /// Why.
        error: PlanError,
    },
    /// There are not as many channels as entries within the rank, or a range lies outside.
    Storage {
        /// Entries.
        entries: usize,
        /// Channels.
        channels: usize,
    },
    /// There are fewer words of bits than the peers need.
    Live {
        /// Words lent.
        lent: usize,
        /// Words needed.
        words: usize,
    },
    /// A slot would have more bytes at least than at most.
    Bounds {
        /// Bytes at least.
        smallest: u32,
        /// Bytes at most.
        largest: u32,
    },
    /// A slot is to have so few bytes at most that not even the head of a message fits, of which nothing can be fetched.
    Head {
        /// The rank whose messages have that head.
        rank: u32,
        /// Bytes of the head.
        head: u64,
        /// Bytes of a slot at most.
        largest: u32,
    },
    /// A pair of ranks needs two slots, or a larger power of two.
    Slots {
        /// How many it was to have.
        slots: u32,
    },
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::Plan { rank, error } => write!(f, "plan with rank {rank}: {error}"),
            BuildError::Storage { entries, channels } => {
                write!(
                    f,
                    "{entries} entries and {channels} channels: lend a channel for each entry within the rank, with all ranges inside"
                )
            }
            BuildError::Live { lent, words } => write!(f, "{lent} words of bits where the peers need {words}"),
            BuildError::Bounds { smallest, largest } => {
                write!(
                    f,
                    "slots of {smallest} bytes at least and {largest} at most: the second must not be below the first"
                )
            }
            BuildError::Head { rank, head, largest } => write!(
                f,
                "slots of {largest} bytes at most do not hold the head of a message of rank {rank}: allow {head} or more"
            ),
            BuildError::Slots { slots } => {
                write!(f, "a pair of ranks has {slots} slots: give it two, or a larger power of two")
            }
        }
    }
}
impl core::error::Error for BuildError {}

/// Why an exchange did not do what its rank asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum ExchangeError {
    /// No exchange is open: begin one.
    NotOpen,
    /// The last exchange is not over: what was received must be used and given up first.
    Open {
        /// Channels that are not stale.
        channels: u32,
    },
    /// No new exchange is begun, because the mesh is about to change.
    Closing,
    /// There is no such peer.
    NoPeer {
        /// The number that was given.
        peer: usize,
    },
    /// The message of this exchange was sent already.
    Sent {
        /// To which rank.
        rank: u32,
    },
    /// The peer has not given up the messages before: come back after having received.
    NoCredit {
        /// Which rank.
        rank: u32,
        /// The exchange that is to be sent.
        sequence: u32,
        /// The last one that it has given up.
        credit: u32,
    },
    /// The place for the head is too short.
    Short {
        /// Bytes needed.
        need: usize,
    },
    /// A channel was left out, or there was one too many.
    Incomplete {
        /// Channels that were packed.
        packed: u32,
        /// Channels of the plan.
        channels: u32,
    },
    /// A dense field has no nulls.
    NeverNull {
        /// Its channel.
        key: Key,
    },
    /// The message of the last exchange is still with the transport: come back when it has been sent.
    Held {
        /// To which rank.
        rank: u32,
    },
    /// The message of a peer is not there, or not all of it.
    NotReceived {
        /// Which rank.
        rank: u32,
    },
}

impl fmt::Display for ExchangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExchangeError::NotOpen => f.write_str("no exchange is open: begin one"),
            ExchangeError::Open { channels } => {
                write!(f, "the last exchange is not over, {channels} channels are not stale: receive and set first")
            }
            ExchangeError::Closing => f.write_str("the mesh is about to change: no exchange is begun any more"),
            ExchangeError::NoPeer { peer } => write!(f, "there is no peer {peer}"),
            ExchangeError::Sent { rank } => write!(f, "the message to rank {rank} was sent already"),
            ExchangeError::NoCredit { rank, sequence, credit } => write!(
                f,
                "rank {rank} has given up messages only up to exchange {credit}: receive, then send exchange {sequence}"
            ),
            ExchangeError::Short { need } => write!(f, "the head of a message needs {need} bytes"),
            ExchangeError::Incomplete { packed, channels } => {
                write!(f, "{packed} of {channels} channels were packed: pack each once")
            }
            ExchangeError::NeverNull { key } => write!(f, "channel of a dense field cannot be null: {key}"),
            ExchangeError::Held { rank } => {
                write!(f, "the last message to rank {rank} is still being sent: wait for it")
            }
            ExchangeError::NotReceived { rank } => write!(f, "the message of rank {rank} is not there yet"),
        }
    }
}
impl core::error::Error for ExchangeError {}

/// Why a message of a peer was not taken; each is counted, and nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Refused {
    /// It is none, or was damaged.
    Head(HeadError),
    /// It was sent before the mesh changed.
    OldEpoch {
        /// Its epoch.
        came: u32,
        /// Ours.
        ours: u32,
    },
    /// It came before.
    Duplicate {
        /// Its exchange.
        came: u32,
        /// The last one that came.
        seen: u32,
    },
    /// Messages before it are missing.
    Gap {
        /// Its exchange.
        came: u32,
        /// The last one that came.
        seen: u32,
    },
    /// The peer has built another plan.
    Plan {
        /// Lower half of the fingerprint that came.
        came: u32,
        /// Ours.
        ours: u32,
    },
    /// The payload is not as long as the live strips are.
    Payload {
        /// Bytes that came.
        came: u64,
        /// Bytes of the live strips.
        expected: u64,
    },
    /// More lies in the slot than was announced.
    TooLong {
        /// Bytes that came.
        came: u64,
        /// Bytes of the slot.
        room: u32,
    },
    /// The split between slot and overflow lies within a strip.
    Split,
    /// The credit is for what was never sent, or less than before.
    Credit {
        /// The credit that came.
        came: u32,
        /// The last exchange that was sent.
        sent: u32,
    },
    /// A null of a dense field.
    NeverNull {
        /// Its channel.
        key: Key,
    },
    /// The sender is no peer.
    Stranger,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Head(error) => error.fmt(f),
            Refused::OldEpoch { came, ours } => write!(f, "message of epoch {came} after epoch {ours} has begun"),
            Refused::Duplicate { came, seen } => write!(f, "message of exchange {came} again, after {seen}"),
            Refused::Gap { came, seen } => {
                write!(f, "message of exchange {came}, although {seen} was the last to come")
            }
            Refused::Plan { came, ours } => {
                write!(f, "message of plan {came:08x}, ours is {ours:08x}: both sides must build the same plan")
            }
            Refused::Payload { came, expected } => {
                write!(f, "message with {came} bytes of payload for live strips of {expected}")
            }
            Refused::TooLong { came, room } => write!(f, "message with {came} bytes in a slot of {room}"),
            Refused::Split => f.write_str("message whose overflow begins within a strip"),
            Refused::Credit { came, sent } => {
                write!(f, "message with credit for exchange {came}, {sent} was the last sent")
            }
            Refused::NeverNull { key } => write!(f, "message with a null of a dense field: {key}"),
            Refused::Stranger => f.write_str("message of a rank that shares no channel"),
        }
    }
}
impl core::error::Error for Refused {}

impl From<HeadError> for Refused {
    fn from(error: HeadError) -> Self {
        Refused::Head(error)
    }
}

/// A channel that is not received although its exchange should be over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Missing {
    /// The rank that should have sent.
    pub rank: u32,
    /// The channel.
    pub key: Key,
    /// Its state.
    pub state: State,
    /// The last exchange of which a message of that rank came.
    pub seen: u32,
    /// Whether the message came, and its overflow has not been fetched.
    pub fetching: bool,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Missing { rank, key, state, seen, fetching } = self;
        write!(f, "rank {rank}: {key} (state {state:?}, last message of exchange {seen}")?;
        f.write_str(if *fetching { ", overflow not fetched)" } else { ")" })
    }
}
