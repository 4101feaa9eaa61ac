//! Bounded queues: which one to take.
//!
//! | module | ends | items | lives in | when an end dies or stops |
//! |---|---|---|---|---|
//! | [`spsc`] | one, one | any `Copy` | one process | both ends die together |
//! | [`mpmc`] | many or sole, many or sole | any `Copy` | one process | all ends die together |
//! | [`line`](mod@line) | one, one | 64 bytes | a segment | the other end goes on; a successor takes over |
//! | [`mailbox`] | many, many | 64 bytes | a segment | everyone goes on; nothing is lost but what it held |
//! | [`journal`] | one, many that only look | bytes | a segment | everyone goes on; a slow reader loses the oldest bytes |
//!
//! A ticketed queue such as [`mpmc`] must not be shared between processes that can die or be stopped one by
//! one: a sender that took its ticket and never publishes blocks every receiver behind it for ever. That is
//! what [`mailbox`] is for: there, one compare-and-swap publishes a message, another takes it and names the
//! taker, and whoever meets a half-done step finishes it.
//!
//! All of them are bounded by the storage lent, a power of two, and never block: `push` gives the item back
//! when full, `pop` returns `None` when empty, and [`Backoff`] says how to wait in between. Batches publish
//! once.

mod ahead;
mod backoff;
pub mod journal;
pub mod line;
pub mod mailbox;
pub mod mpmc;
mod place;
pub mod spsc;

use core::fmt;

pub use backoff::Backoff;
use line::Line;
pub use place::Place;

/// Storage whose length is not a power of two, or too short (two for [`mpmc`], one elsewhere).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Unfit(pub usize);

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a ring of {} places cannot be made: lend a power of two", self.0)
    }
}
impl core::error::Error for Unfit {}

/// Why a mapping is no usable ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum AttachError {
    /// The magic word of this kind of ring is missing: another structure, or not created yet.
    NotRing,
    /// The capacity that the header states is no power of two or does not fit into the mapping.
    BadCapacity(u64),
    /// The positions of the two ends contradict each other.
    BadPositions {
        /// Messages ever sent, as the header states.
        tail: u64,
        /// Messages ever received, as the header states.
        head: u64,
    },
}

impl fmt::Display for AttachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AttachError::NotRing => f.write_str("memory holds no ring of this kind, or one that is not created yet"),
            AttachError::BadCapacity(n) => write!(f, "ring states a capacity of {n}, which does not fit the memory"),
            AttachError::BadPositions { tail, head } => {
                write!(f, "ring states that {head} messages of {tail} were received: its memory is damaged")
            }
        }
    }
}
impl core::error::Error for AttachError {}

/// Why a [`Line`] was not sent through a segment; it comes back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PushError {
    /// All places are in use; a receive makes a retry worth while.
    Full(Line),
    /// What the other ends wrote into the memory is impossible: no retry helps.
    Damaged(Line),
}

impl fmt::Display for PushError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PushError::Full(_) => "queue is full: retry after a receiver has made progress",
            PushError::Damaged(_) => "memory of the queue is damaged: give the queue up",
        })
    }
}
impl core::error::Error for PushError {}

/// Keeps a word that one side writes on a pair of cache lines of its own: processors fetch lines in pairs.
#[repr(align(128))]
#[derive(Debug, Default)]
struct Padded<T>(T);
