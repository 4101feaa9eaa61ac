//! What the queue of a channel refuses, and why.

use core::fmt;

/// Why memory is no usable channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum AttachError {
    /// The magic word is missing: another structure, or not created yet.
    NotChannel,
    /// The shape is impossible.
    BadShape(ShapeError),
    /// The memory is smaller than a channel of this shape.
    TooSmall {
        /// Words there are.
        words: usize,
        /// Words needed.
        needed: usize,
    },
}

impl fmt::Display for AttachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AttachError::NotChannel => f.write_str("memory holds no channel, or one that is not created yet"),
            AttachError::BadShape(error) => error.fmt(f),
            AttachError::TooSmall { words, needed } => {
                write!(f, "a channel of {needed} words does not fit into {words} words of memory")
            }
        }
    }
}
impl core::error::Error for AttachError {}

/// Which part of a shape is impossible.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum ShapeError {
    /// No message would fit.
    NoCapacity,
    /// Capacity and spares together are more slots than a cell can name.
    TooManySlots {
        /// Slots asked for.
        slots: u64,
        /// Slots there can be.
        most: usize,
    },
    /// The block of a message is larger than 2^31 bytes.
    BlockTooLarge(u32),
}

impl fmt::Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ShapeError::NoCapacity => f.write_str("a channel has a capacity of at least one message"),
            ShapeError::TooManySlots { slots, most } => {
                write!(f, "capacity and spares are {slots} messages together, but at most {most} are possible")
            }
            ShapeError::BlockTooLarge(bytes) => write!(f, "a block of {bytes} bytes a message is too large"),
        }
    }
}
impl core::error::Error for ShapeError {}

/// Why nothing was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum SendError {
    /// As many messages wait as there is capacity for, or all slots are in somebody's hands; a receive makes a retry
    /// worth while.
    Full,
    /// The message does not fit into a block: send it by reference.
    TooLarge {
        /// Bytes of the message.
        len: usize,
        /// Bytes of a block.
        block: usize,
    },
    /// The channel was destroyed.
    Destroyed,
    /// The words of the channel contradict each other; no retry helps.
    Damaged,
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SendError::Full => f.write_str("channel is full: wait until a message is received"),
            SendError::TooLarge { len, block } => {
                write!(f, "message of {len} bytes does not fit into a block of {block} bytes: send it by reference")
            }
            SendError::Destroyed => f.write_str("channel was destroyed"),
            SendError::Damaged => f.write_str("channel is damaged: give it up"),
        }
    }
}
impl core::error::Error for SendError {}

/// Why nothing was received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum ReceiveError {
    /// No message waits; a send makes a retry worth while.
    Empty,
    /// The first message does not fit into the memory that it was to land in; it is still the first.
    PadTooSmall {
        /// Bytes of the message.
        len: usize,
        /// Bytes of the memory.
        pad: usize,
    },
    /// The channel was destroyed.
    Destroyed,
    /// The words of the channel contradict each other; no retry helps.
    Damaged,
}

impl fmt::Display for ReceiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReceiveError::Empty => f.write_str("channel is empty: wait until a message is sent"),
            ReceiveError::PadTooSmall { len, pad } => {
                write!(f, "message of {len} bytes does not fit into {pad} bytes: it is kept, offer more memory")
            }
            ReceiveError::Destroyed => f.write_str("channel was destroyed"),
            ReceiveError::Damaged => f.write_str("channel is damaged: give it up"),
        }
    }
}
impl core::error::Error for ReceiveError {}

/// The words contradict each other.
#[derive(Debug)]
pub(super) struct Damaged;

impl From<Damaged> for SendError {
    fn from(_: Damaged) -> Self {
        SendError::Damaged
    }
}
impl From<Damaged> for ReceiveError {
    fn from(_: Damaged) -> Self {
        ReceiveError::Damaged
    }
}
