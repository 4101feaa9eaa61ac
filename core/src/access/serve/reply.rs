//! What the server wants its driver to do.

use crate::access::message::{READ, Reach};
use crate::error::Status;
use crate::id::Id;
use crate::key::Key;
use crate::machine::Link;
use crate::region::{Held, Region};
use crate::ticket::Locator;
use crate::wire::{Frame, INLINE, Op, Token};

use super::Job;

const STATUS_BYTES: usize = 2;

/// A `Done` frame to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "the asker waits for it"]
pub struct Answer {
    /// Over which link.
    pub link: Link,
    /// What it answers.
    pub op: Op,
    /// The asker's name for it.
    pub token: Token,
    /// How it ended.
    pub status: Status,
    len: u8,
    body: [u8; INLINE - STATUS_BYTES],
}

impl Answer {
    #[inline]
    pub(super) const fn plain(link: Link, op: Op, token: Token, status: Status) -> Answer {
        Answer { link, op, token, status, len: 0, body: [0; INLINE - STATUS_BYTES] }
    }

    pub(super) fn with<const N: usize>(link: Link, op: Op, token: Token, body: &[u8; N]) -> Answer {
        const { assert!(N <= INLINE - STATUS_BYTES, "an answer fits into one cell") };
        let mut answer = Answer::plain(link, op, token, Status::Ok);
        answer.body[..N].copy_from_slice(body);
        answer.len = N as u8;
        answer
    }

    /// Tells the asker of bytes that landed how they were got at.
    #[inline]
    pub fn reached(mut self, reach: Reach) -> Answer {
        if self.op == READ && self.status == Status::Ok && self.len == 0 {
            self.body[0] = reach as u8;
            self.len = 1;
        }
        self
    }

    /// The frame; it fits into one cell.
    #[inline]
    #[must_use]
    pub fn frame(&self) -> Frame<'_> {
        let body = self.body.get(..usize::from(self.len)).unwrap_or(&[]);
        Frame::Done { op: self.op, token: self.token, status: self.status, body }
    }
}

/// Which way bytes go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From the region into the asker's landing segment.
    ToLanding,
    /// From the asker's landing segment into the region.
    FromLanding,
    /// From the region into the body of the answer.
    ToFrame,
    /// From the body of the request, [`Reply::Store`], into the region.
    FromFrame,
}

/// Bytes to move; report with [`Serve::copied`](super::Serve::copied).
#[derive(Debug)]
#[must_use = "the asker waits for it"]
pub struct Copy {
    /// The asker's link.
    pub link: Link,
    /// The asker's name for the request.
    pub token: Token,
    /// Which way.
    pub direction: Direction,
    /// Where the driver keeps the region's memory.
    pub place: usize,
    /// First byte within the region.
    pub offset: u64,
    /// First byte in the address space of the region's owner.
    pub address: u64,
    /// First byte within the asker's landing segment; 0 if the bytes travel in a frame.
    pub landing: u64,
    /// Bytes.
    pub len: u64,
    pub(super) of: Of,
}

/// Whether a copy is a whole request or a step of one.
#[derive(Debug)]
pub(super) enum Of {
    Whole { op: Op, epoch: u32, held: Held },
    Step(Id<Job>),
}

/// Memory to map; report with [`Serve::attached`](super::Serve::attached).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "the owner waits for it"]
pub struct Attach {
    /// The owner's link; a descriptor came with the frame if the locator is a segment.
    pub link: Link,
    /// The owner's name for the request.
    pub token: Token,
    /// Under which number to keep the mapping; replaces whatever was kept there.
    pub place: usize,
    /// The region.
    pub region: Region,
    /// Where its bytes are.
    pub locator: Locator,
}

/// What to do with a frame that came.
#[derive(Debug)]
#[must_use = "the asker waits for it"]
pub enum Reply<'f> {
    /// Send this.
    Answer(Answer),
    /// Move bytes now.
    Copy(Copy),
    /// Move these bytes of the frame now.
    Store(Copy, &'f [u8]),
    /// Map memory now.
    Attach(Attach),
    /// Nothing now; poll.
    Later,
}

/// What to do without a frame that came.
#[derive(Debug)]
#[must_use = "somebody waits for it"]
pub enum Action {
    /// Move bytes.
    Copy(Copy),
    /// Send this.
    Answer(Answer),
    /// Nobody may use this memory any more: unmap it.
    Detach {
        /// The number under which it is kept.
        place: usize,
        /// What it was.
        key: Key,
    },
}
