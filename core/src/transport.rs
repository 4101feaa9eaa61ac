//! What carries frames and bytes between processes.
//!
//! A transport takes three kinds of work: send a frame of one cell, read a span into a span, write a span
//! to a span. It never blocks: work that has no room is refused and the caller keeps it. What happened is
//! told by [`poll`](Transport::poll).
//!
//! Contract, checked by one conformance suite for every transport:
//! - frames to one peer arrive in the order of their posts, each at most once;
//! - every accepted read or write ends in exactly one [`Event::Done`] with its token;
//! - after [`Event::Gone`] nothing more comes from that life of the peer, and the work that was under way
//!   to it has ended with [`Status::PeerFailed`];
//! - what the peer sends is checked: damage is told, it is never an error of the program.

use core::fmt;

use crate::error::Status;
use crate::key::Span;
use crate::peer::Peer;
use crate::wire::{Frame, Token};

/// Work for a transport.
#[derive(Clone, Copy, Debug)]
pub enum Work<'a> {
    /// Send this frame; it must fit into one cell.
    Send(Frame<'a>),
    /// Copy the peer's span `from` to our span `to`; both have the same length.
    Read {
        /// The peer's memory.
        from: Span,
        /// Ours.
        to: Span,
    },
    /// Copy our span `from` to the peer's span `to`; both have the same length.
    Write {
        /// Our memory.
        from: Span,
        /// The peer's.
        to: Span,
    },
}

/// Why work was not accepted. It was not begun; the caller still has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum PostError {
    /// No room now; retry after [`Transport::poll`] told of progress.
    Full,
    /// The peer is gone or was never there.
    Gone,
    /// The frame does not fit into one cell.
    TooLong,
    /// This transport cannot do this kind of work, or the spans differ in length.
    Unsupported,
    /// The span may not be touched; the queue stays usable.
    Refused(Status),
}

impl fmt::Display for PostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PostError::Full => f.write_str("no room in the transport: poll it, then retry"),
            PostError::Gone => f.write_str("the peer is gone"),
            PostError::TooLong => f.write_str("frame is longer than one cell: offer its bytes as a span"),
            PostError::Unsupported => f.write_str("this transport cannot do that"),
            PostError::Refused(status) => fmt::Display::fmt(status, f),
        }
    }
}
impl core::error::Error for PostError {}

/// What a transport has to tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event<'a> {
    /// A frame came.
    Frame {
        /// From whom.
        from: Peer,
        /// What.
        frame: Frame<'a>,
    },
    /// A read or a write ended.
    Done {
        /// The token it was posted with.
        token: Token,
        /// How.
        status: Status,
    },
    /// A cell that is no frame came; it was dropped.
    Damaged {
        /// From whom.
        from: Peer,
    },
    /// The peer died or left.
    Gone {
        /// Who.
        peer: Peer,
    },
}

/// What a transport can do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Caps {
    /// Longest frame, in bytes with its head.
    pub frame_max: usize,
    /// Whether it reads spans.
    pub reads: bool,
    /// Whether it writes spans.
    pub writes: bool,
}

/// Carries work to peers and tells what came of it.
pub trait Transport {
    /// Accepts work for `to`, or leaves it with the caller. `token` comes back in [`Event::Done`]; a sent
    /// frame has no `Done`.
    ///
    /// # Errors
    /// [`PostError`]; nothing was begun.
    fn post(&mut self, to: Peer, work: Work<'_>, token: Token) -> Result<(), PostError>;

    /// Makes progress and tells everything that happened since; returns how much that was. Never blocks.
    fn poll(&mut self, sink: &mut dyn FnMut(Event<'_>)) -> usize;

    /// What it can do.
    fn caps(&self) -> Caps;
}
