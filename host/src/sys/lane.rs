//! Two rings of lines in one segment: a full-duplex lane between two processes.
//!
//! The rings themselves are [`umbra_core::ring::line`]; this only ties their ends to the life of the
//! mapping that they lie in. One side creates the lane and passes the descriptor, the other attaches; each
//! sends into one ring and receives from the other.
//!
//! *Cost*: one cache line a message, either way.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use umbra_core::atomic::AtomicU64;
use umbra_core::ring::AttachError;
use umbra_core::ring::PushError;
use umbra_core::ring::line::{Line, Receiver, Ring, Sender, words_for};

use super::segment::{Mapping, Segment, SegmentError};

/// Why a lane cannot be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaneError {
    /// The capacity is not a power of two, or too large.
    #[error("a lane of {0} lines cannot be made: ask for a power of two")]
    Capacity(usize),
    /// Its shared memory.
    #[error("lane: {0}")]
    Segment(#[from] SegmentError),
    /// The memory that a peer passed holds no lane.
    #[error("peer passed memory that is no lane: {0}")]
    NotALane(AttachError),
}

impl From<AttachError> for LaneError {
    fn from(error: AttachError) -> Self {
        LaneError::NotALane(error)
    }
}

/// One end of a lane.
#[derive(Debug)]
pub struct Lane {
    // Both borrow from `segment`; never handed out, so nobody can keep them longer.
    sender: Sender<'static>,
    receiver: Receiver<'static>,
    segment: Arc<Segment>,
    lines: usize,
}

impl Lane {
    /// Bytes of shared memory behind a lane of `lines` lines each way.
    ///
    /// # Errors
    /// [`LaneError::Capacity`].
    pub fn bytes(lines: usize) -> Result<usize, LaneError> {
        let words = words_for(lines).ok_or(LaneError::Capacity(lines))?;
        words.checked_mul(2 * 8).ok_or(LaneError::Capacity(lines))
    }

    /// Makes a lane; pass [`share`](Self::share) to the other side.
    ///
    /// # Errors
    /// [`LaneError::Capacity`], [`LaneError::Segment`].
    pub fn create(lines: usize) -> Result<Lane, LaneError> {
        let segment = Arc::new(Segment::create("umbra-lane", Self::bytes(lines)?)?);
        let [ours, theirs] = halves(&segment, lines)?;
        let (ours, theirs) = (Ring::create(ours, lines)?, Ring::create(theirs, lines)?);
        Self::of(&segment, ours, theirs, lines)
    }

    /// The other end of a lane that a peer made.
    ///
    /// # Errors
    /// [`LaneError`] if the descriptor is not what a lane of this size is.
    pub fn attach(descriptor: OwnedFd, lines: usize) -> Result<Lane, LaneError> {
        let segment = Arc::new(Segment::attach(descriptor, Mapping::ReadWrite, Self::bytes(lines)?)?);
        let [theirs, ours] = halves(&segment, lines)?;
        let (ours, theirs) = (Ring::attach(ours)?, Ring::attach(theirs)?);
        if ours.capacity() != lines || theirs.capacity() != lines {
            return Err(LaneError::Capacity(ours.capacity()));
        }
        Self::of(&segment, ours, theirs, lines)
    }

    fn of(segment: &Arc<Segment>, out: Ring<'_>, into: Ring<'_>, lines: usize) -> Result<Lane, LaneError> {
        let (sender, receiver) = (out.sender()?, into.receiver()?);
        // SAFETY: both borrow words of `segment`, which stays mapped at the same address as long as the lane
        // holds it; they never leave the lane, and neither is used when it is dropped.
        let sender = unsafe { std::mem::transmute::<Sender<'_>, Sender<'static>>(sender) };
        // SAFETY: as above.
        let receiver = unsafe { std::mem::transmute::<Receiver<'_>, Receiver<'static>>(receiver) };
        Ok(Lane { sender, receiver, segment: segment.clone(), lines })
    }

    /// A descriptor for the other side.
    ///
    /// # Errors
    /// [`LaneError::Segment`] if no descriptor is left.
    pub fn share(&self) -> Result<OwnedFd, LaneError> {
        Ok(self.segment.share()?)
    }

    /// Lines that fit into each ring.
    #[must_use]
    pub const fn lines(&self) -> usize {
        self.lines
    }

    /// Sends a line.
    ///
    /// # Errors
    /// [`PushError`] with the line.
    #[inline]
    pub fn push(&mut self, line: Line) -> Result<(), PushError> {
        self.sender.push(line)
    }

    /// Receives a line, if there is one.
    #[inline]
    pub fn pop(&mut self) -> Option<Line> {
        self.receiver.pop()
    }
}

fn halves(segment: &Segment, lines: usize) -> Result<[&[AtomicU64]; 2], LaneError> {
    let words = words_for(lines).ok_or(LaneError::Capacity(lines))?;
    Ok([segment.words(0, words)?, segment.words(words * 8, words)?])
}
