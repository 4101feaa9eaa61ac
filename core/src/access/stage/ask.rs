//! What is asked, what is answered, and what is counted.

use crate::key::Span;
use crate::machine::Link;
use crate::time::Time;

/// A span that a rank wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Want {
    /// Which bytes.
    pub span: Span,
    /// The link to the owner's first service process.
    pub via: Link,
    /// When the rank gives up.
    pub deadline: Time,
}

/// Where the bytes of a span are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Reply {
    /// In this slot, from its beginning on; until the next call.
    Here(u32),
    /// Not yet here; the asker waits.
    Later,
    /// Not here: they are not kept, or there is no room.
    Elsewhere,
}

/// What it has done since it started, beside what the cache counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Bytes that were answered out of slots.
    pub bytes: u64,
    /// Asks that were sent elsewhere.
    pub elsewhere: u64,
    /// Regions of which all copies were dropped.
    pub dropped: u64,
    /// Spans that hints made it read, or that are to be read.
    pub prefetched: u64,
    /// Those of them that somebody asked for.
    pub used: u64,
    /// Those of them that left, or did not come, before anybody had asked.
    pub wasted: u64,
    /// Spans of hints that there was no room for, or that may not be kept.
    pub refused: u64,
}
