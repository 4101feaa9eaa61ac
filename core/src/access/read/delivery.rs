//! How bytes come back.

use super::{ReadError, Waiting};
use crate::access::message::Reach;
use crate::id::Id;
use crate::machine::Link;

/// How bytes come back over a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Landing {
    /// The server writes into a segment that we lend: `slots` pieces of `slot_bytes`, one after the other.
    Segment {
        /// How many, at most 64; also how many requests may be outstanding.
        slots: u32,
        /// Bytes of each.
        slot_bytes: u64,
    },
    /// The bytes come in the answers.
    Inline {
        /// How many requests may be outstanding, at most 64.
        requests: u32,
    },
}

/// Bytes that came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "give the slot back with `consumed`"]
pub struct Delivery<'f> {
    /// Of which request.
    pub request: Id<Waiting>,
    /// The request's tag.
    pub tag: u64,
    /// First byte within the request.
    pub at: u64,
    /// The bytes.
    pub bytes: Bytes<'f>,
    /// How the server got at them, if it said so.
    pub reach: Option<Reach>,
    /// The read has started over: what came of this request before it did does not count.
    pub again: bool,
    /// Whether this was the last delivery: the request has ended well.
    pub last: bool,
}

/// Where delivered bytes are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bytes<'f> {
    /// In the frame.
    Inline(&'f [u8]),
    /// In the landing segment of the link; take them out, then call [`Reader::consumed`](super::Reader::consumed).
    Landed(Landed),
}

/// A slot of a landing segment that holds bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Landed {
    /// Whose segment.
    pub link: Link,
    /// First byte within it.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
    pub(super) slot: u8,
}

/// A request that ended without a last delivery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ended {
    /// Which.
    pub request: Id<Waiting>,
    /// Its tag.
    pub tag: u64,
    /// How.
    pub outcome: Result<(), ReadError>,
}
