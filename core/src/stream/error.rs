//! What an adapter and its streams refuse, and why.

use core::fmt;

use super::layout::{Mode, PLACES_MAX};

/// Why memory is no usable adapter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum AttachError {
    /// The magic word is missing: another structure, or not created yet.
    NotStreams,
    /// The shape is impossible.
    BadShape(ShapeError),
    /// The memory is smaller than an adapter of this shape.
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
            AttachError::NotStreams => f.write_str("memory holds no streams, or they are not created yet"),
            AttachError::BadShape(error) => error.fmt(f),
            AttachError::TooSmall { words, needed } => {
                write!(f, "streams of {needed} words do not fit into {words} words of memory")
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
    /// Nobody could talk.
    NoPlaces,
    /// More places than there can be.
    TooManyPlaces(u64),
    /// The mode wants streams and there are none, or the other way round.
    NotOfMode(Mode),
    /// A ring or a block is too large, or all together.
    TooLarge,
}

impl fmt::Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ShapeError::NoPlaces => f.write_str("without streams and without messages nobody can talk"),
            ShapeError::TooManyPlaces(places) => {
                write!(f, "{places} streams and messages together are more than the {PLACES_MAX} possible")
            }
            ShapeError::NotOfMode(Mode::Buffered) => f.write_str("in the mode Buffered there are no streams"),
            ShapeError::NotOfMode(Mode::Single) => {
                f.write_str("in the mode Single there is one stream, and there are no messages")
            }
            ShapeError::NotOfMode(Mode::ReceiverSupplied) => {
                f.write_str("in the mode ReceiverSupplied there are streams, and no messages")
            }
            ShapeError::NotOfMode(mode) => write!(f, "in the mode {mode:?} there is at least one stream"),
            ShapeError::TooLarge => f.write_str("a ring or block of more than 2^30 bytes is too large"),
        }
    }
}
impl core::error::Error for ShapeError {}

/// Why a conversation took nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum WriteError {
    /// The receiver has to read first; that he does makes a retry worth while.
    Full,
    /// The message does not fit into its place, ever.
    TooLarge {
        /// Bytes of the message.
        len: usize,
        /// Bytes there are.
        most: usize,
    },
    /// The receiver has closed: close too.
    Unheard,
    /// The receiver died.
    PeerDead,
    /// The conversation is not this member's any more.
    Stale,
    /// The adapter was destroyed.
    Destroyed,
    /// The words contradict each other; no retry helps.
    Damaged,
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WriteError::Full => f.write_str("stream is full: wait until the receiver reads"),
            WriteError::TooLarge { len, most } => write!(f, "message of {len} bytes does not fit into {most} bytes"),
            WriteError::Unheard => f.write_str("the receiver has closed the stream: close it too"),
            WriteError::PeerDead => f.write_str("the receiver of the stream died: close it"),
            WriteError::Stale => f.write_str("the conversation is over"),
            WriteError::Destroyed => f.write_str("the streams were destroyed"),
            WriteError::Damaged => f.write_str("the stream is damaged: give it up"),
        }
    }
}
impl core::error::Error for WriteError {}

/// Why a conversation gave nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum ReadError {
    /// Nothing has come yet; that the sender writes makes a retry worth while.
    Empty,
    /// The sender said everything, and it was read.
    Ended,
    /// The sender died or gave up, and what he had sent was read.
    PeerDead,
    /// The adapter was destroyed.
    Destroyed,
    /// The words contradict each other; no retry helps.
    Damaged,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReadError::Empty => "stream is empty: wait until the sender writes",
            ReadError::Ended => "the stream has ended",
            ReadError::PeerDead => "the sender of the stream died or gave up: what came before is all there is",
            ReadError::Destroyed => "the streams were destroyed",
            ReadError::Damaged => "the stream is damaged: give it up",
        })
    }
}
impl core::error::Error for ReadError {}
