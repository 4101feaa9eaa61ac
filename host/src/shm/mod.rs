//! Frames between two processes of one machine, over rings in shared memory.
//!
//! A [`FrameLane`] is a lane of lines that carries frames of one cell, and rings the other side's doorbell
//! if that sleeps. A request is one cache line out, an answer one line back; no system call while both
//! sides are awake.
//!
//! What the peer writes is hostile: a line that is no frame is told by [`Cell::frame`], a ring whose positions
//! are impossible by [`SendError::Damaged`]; give such a lane up.
//!
//! ```
//! use umbra::shm::FrameLane;
//! use umbra_core::wire::{Frame, Op, Token};
//! let mut ours = FrameLane::create(64)?;
//! let mut theirs = FrameLane::attach(ours.share()?, 64)?;
//! let call = Frame::Call { op: Op(7), token: Token(1), body: b"hello" };
//! ours.send(&call)?;
//! let cell = theirs.receive().ok_or("nothing came")?;
//! assert_eq!(cell.frame(), Ok(call));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod transport;

pub use transport::Shm;

use std::os::fd::OwnedFd;

use umbra_core::codec::words;
use umbra_core::peer::Peer;
use umbra_core::ring::PushError;
use umbra_core::ring::line::Line;
use umbra_core::transport::Event;
use umbra_core::wire::{Frame, FrameError};

use crate::sys::lane::{Lane, LaneError};
use crate::sys::wait::Ringer;

/// Bytes of a cell: the longest frame that a lane carries.
pub const CELL: usize = 64;

/// Why a frame was not sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The ring is full.
    #[error("ring to the peer is full: send again after it has received")]
    Full,
    /// The frame does not fit into a cell.
    #[error("frame is longer than one cell: offer its bytes as a span")]
    TooLong,
    /// The peer damaged the ring.
    #[error("peer damaged the ring: give the lane up")]
    Damaged,
}

/// A line that came.
#[derive(Clone, Copy, Debug)]
pub struct Cell(pub(crate) [u8; CELL]);

impl Cell {
    /// The frame in it.
    ///
    /// # Errors
    /// [`FrameError`] if the peer sent something else.
    #[inline(always)]
    pub fn frame(&self) -> Result<Frame<'_>, FrameError> {
        let len = Frame::announced_len(self.0.first_chunk().ok_or(FrameError::Truncated)?)?;
        Frame::parse(self.0.get(..len).ok_or(FrameError::TooLarge)?)
    }

    /// Tells what is in it as an event of a transport.
    #[inline]
    pub(crate) fn tell(&self, from: Peer, sink: &mut dyn FnMut(Event<'_>)) {
        match self.frame() {
            Ok(frame) => sink(Event::Frame { from, frame }),
            Err(_) => sink(Event::Damaged { from }),
        }
    }
}

/// One end of a lane of frames.
#[derive(Debug)]
pub struct FrameLane {
    lane: Lane,
    ringer: Option<Ringer>,
}

impl FrameLane {
    /// Makes a lane of `lines` frames each way, a power of two.
    ///
    /// # Errors
    /// [`LaneError`].
    pub fn create(lines: usize) -> Result<FrameLane, LaneError> {
        Ok(FrameLane { lane: Lane::create(lines)?, ringer: None })
    }

    /// The other end of a lane that a peer made.
    ///
    /// # Errors
    /// [`LaneError`].
    pub fn attach(descriptor: OwnedFd, lines: usize) -> Result<FrameLane, LaneError> {
        Ok(FrameLane { lane: Lane::attach(descriptor, lines)?, ringer: None })
    }

    /// A descriptor for the other side.
    ///
    /// # Errors
    /// [`LaneError::Segment`] if none is left.
    pub fn share(&self) -> Result<OwnedFd, LaneError> {
        self.lane.share()
    }

    /// Frames that fit into each ring.
    #[must_use]
    pub const fn lines(&self) -> usize {
        self.lane.lines()
    }

    /// How to wake the other side; until this is called it must poll.
    pub fn wakes(&mut self, ringer: Ringer) {
        self.ringer = Some(ringer);
    }

    /// Sends a frame.
    ///
    /// # Errors
    /// [`SendError`]; nothing was sent.
    #[inline(always)]
    pub fn send(&mut self, frame: &Frame<'_>) -> Result<(), SendError> {
        self.send_words(frame.to_words().map_err(|_| SendError::TooLong)?)
    }

    /// Sends a frame that was emitted into the front of a cell of zeros.
    ///
    /// # Errors
    /// [`SendError`]; nothing was sent.
    #[inline(always)]
    pub fn send_cell(&mut self, bytes: &[u8; CELL]) -> Result<(), SendError> {
        self.send_words(words(bytes))
    }

    /// Sends the words of a frame that lies in a cell, zeros behind it.
    ///
    /// # Errors
    /// [`SendError`]; nothing was sent.
    #[inline(always)]
    pub fn send_words(&mut self, words: [u64; CELL / 8]) -> Result<(), SendError> {
        // Byte 5 of a frame is zero, which is where the ring keeps its mark.
        let line = Line::new(words).ok_or(SendError::Damaged)?;
        self.lane.push(line).map_err(|error| match error {
            PushError::Full(_) => SendError::Full,
            _ => SendError::Damaged,
        })?;
        if let Some(ringer) = &self.ringer {
            ringer.ring();
        }
        Ok(())
    }

    /// The next line that came.
    #[inline(always)]
    pub fn receive(&mut self) -> Option<Cell> {
        let line = self.lane.pop()?;
        let mut cell = Cell([0; CELL]);
        for (to, word) in cell.0.as_chunks_mut().0.iter_mut().zip(line.words()) {
            *to = word.to_le_bytes();
        }
        Some(cell)
    }
}
