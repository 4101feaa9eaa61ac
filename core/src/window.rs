//! Memory that firmware and host processes share: what lies where, who writes what.
//!
//! Firmware has no sockets. It lays out a window in memory that host processes map as well, publishes it as a
//! [`Segment`], and from then on answers over rings in it:
//!
//! ```text
//! state    written by the firmware: which board, which life, phase, heartbeat, stack, counters
//! lanes    LANES of them, one for each host process that is attached:
//!            claim      whose it is; the host process writes it, the firmware accepts it
//!            commands   ring of lines, host to firmware
//!            answers    ring of lines, firmware to host
//!            landing    where the firmware puts what was read, and takes what shall be written
//!            share      memory of the host process that it may export
//! cache    arena of the endpoint cache: the firmware publishes, everyone may look up
//! log      journal of the firmware's log
//! ```
//!
//! Commands and answers are [frames](crate::wire). Those of memory access are the usual ones
//! ([`READ`](crate::access::message::READ) and so on); [`ops`] holds those that only exist here, because something does
//! not fit into a line.
//!
//! A host process may die at any instruction. A lane that a dead process claimed is taken over by the next one that
//! finds it so: its claim replaces the old one, and the firmware forgets everything about the former owner, commands
//! that it did not look at yet included, before it accepts.
//!
//! The layout is versioned together with everything else that lives in a segment
//! ([`segment::VERSION`](crate::segment::VERSION)): firmware and host library of different versions refuse each other.

mod lane;
mod state;

use core::fmt;

use crate::atomic::{AtomicU64, Ordering};
use crate::cell::{BytesMut, CellError};
use crate::peer::Incarnation;
use crate::ring::{self, journal};
use crate::segment::{AttachError, CarveError, Draft, Kind, Segment};

pub use lane::{Claim, Lane};
pub use state::{Beat, Phase, State};

use lane::LANE_BYTES;
use state::STATE_BYTES;

/// What the segment is for.
pub const KIND: Kind = Kind(u32::from_le_bytes(*b"fwin"));
/// Host processes that can be attached at once.
pub const LANES: usize = 4;
/// Lines of each ring of a lane: more than anybody may have outstanding.
pub const LINES: usize = 64;
/// Bytes that one read or write can move.
pub const LANDING: usize = 256 << 10;
/// Bytes that the owner of a lane can export.
pub const SHARE: usize = 2 << 20;
/// Bytes of the log that are kept.
pub const LOG: usize = 64 << 10;
/// Groups whose tables the firmware keeps.
pub const GROUPS: u32 = 64;
/// Bytes of tables that the firmware keeps.
pub const TABLES: usize = 1 << 20;
/// Bytes of the window.
pub const BYTES: usize = 16 << 20;

/// Operations that only firmware knows.
pub mod ops {
    use crate::wire::Op;

    /// `Call` with a group's handle (u64) and a rank (u32): who is that? The answer holds the peer and its first shadow
    /// service process (u32 each).
    pub const LOOKUP: Op = Op(0x0401);
    /// `Offer` of a span of the landing area that holds a table: publish it, in slot `arg` if that is free. The answer
    /// holds the handle (u64). For service processes only.
    pub const PUBLISH: Op = Op(0x0402);
    /// `Call` with a handle (u64): forget the group. For service processes only.
    pub const RETIRE: Op = Op(0x0403);
    /// `Offer` of a span of the share: serve it under the span's key, with the rights `arg`. It is
    /// [`EXPORT`](crate::access::message::EXPORT) for memory that the firmware sees anyway.
    pub const EXPORT: Op = Op(0x0404);
}

const STATE: usize = 0;
const LANE: usize = 1;
const CACHE: usize = 2;
const JOURNAL: usize = 3;
/// What words that somebody writes keep from words that somebody else polls.
const APART: usize = 128;

/// Memory cannot become a window, or is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum WindowError {
    /// Too small.
    Carve(CarveError),
    /// Not reachable as words.
    Cell(CellError),
    /// Not a window of this version, or damaged.
    Attach(AttachError),
    /// A ring or the log in it is damaged.
    Ring(ring::AttachError),
}

impl fmt::Display for WindowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WindowError::Carve(error) => write!(f, "no room for a window: {error}"),
            WindowError::Cell(error) => write!(f, "memory of a window: {error}"),
            WindowError::Attach(error) => write!(f, "no usable window: {error}"),
            WindowError::Ring(error) => write!(f, "ring in a window: {error}"),
        }
    }
}
impl core::error::Error for WindowError {}

impl From<CarveError> for WindowError {
    fn from(error: CarveError) -> Self {
        WindowError::Carve(error)
    }
}
impl From<CellError> for WindowError {
    fn from(error: CellError) -> Self {
        WindowError::Cell(error)
    }
}
impl From<AttachError> for WindowError {
    fn from(error: AttachError) -> Self {
        WindowError::Attach(error)
    }
}
impl From<ring::AttachError> for WindowError {
    fn from(error: ring::AttachError) -> Self {
        WindowError::Ring(error)
    }
}

/// A window; copies of it are cheap.
#[derive(Clone, Copy, Debug)]
pub struct Window<'a> {
    segment: Segment<'a>,
    bytes: BytesMut<'a>,
}

impl<'a> Window<'a> {
    /// Firmware: lays out a window for a new life of this board, whatever the memory held, and publishes it.
    ///
    /// # Errors
    /// [`WindowError`] if the memory is too small.
    pub fn create(bytes: BytesMut<'a>, board: [u8; 8], life: Incarnation) -> Result<Self, WindowError> {
        let words = bytes.words(0, bytes.len() / 8)?;
        let mut draft = Draft::new(words)?;
        let state = draft.carve(STATE_BYTES, APART)?;
        let lanes = draft.carve(LANES * LANE_BYTES, 4096)?;
        let cache = draft.carve(8 * cache_words(), 4096)?;
        let log = draft.carve(8 * journal::words_for(LOG).unwrap_or(0), APART)?;
        for (name, part) in [(STATE, state), (LANE, lanes), (CACHE, cache), (JOURNAL, log)] {
            draft.name(name, part)?;
        }
        draft.words(state)?.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        journal::Journal::create(draft.words(log)?, LOG)?;
        for at in 0..LANES {
            let lane = Lane::of(bytes.part(lanes.offset + at * LANE_BYTES, LANE_BYTES)?)?;
            lane.clear();
            lane.lay_rings()?;
        }
        let window = Window { segment: draft.publish(KIND), bytes };
        window.state()?.begin(board, life);
        Ok(window)
    }

    /// Host process: checks memory that firmware laid out.
    ///
    /// # Errors
    /// [`WindowError::Attach`], also if its parts are not as long as those of this version.
    pub fn attach(bytes: BytesMut<'a>) -> Result<Self, WindowError> {
        let segment = Segment::attach(bytes.words(0, bytes.len() / 8)?, KIND)?;
        let window = Window { segment, bytes };
        let log = 8 * journal::words_for(LOG).unwrap_or(0);
        for (name, len) in
            [(STATE, STATE_BYTES), (LANE, LANES * LANE_BYTES), (CACHE, 8 * cache_words()), (JOURNAL, log)]
        {
            if window.segment.place(name)?.len != len {
                return Err(AttachError::BadPart(name).into());
            }
        }
        Ok(window)
    }

    /// What the firmware says of itself.
    ///
    /// # Errors
    /// [`WindowError::Attach`] if the header was damaged.
    pub fn state(&self) -> Result<State<'a>, WindowError> {
        Ok(State::of(self.segment.named(STATE)?).ok_or(AttachError::BadPart(STATE))?)
    }

    /// One of the lanes.
    ///
    /// # Errors
    /// [`WindowError::Attach`] if there is no such lane, or the header was damaged.
    pub fn lane(&self, at: usize) -> Result<Lane<'a>, WindowError> {
        let place = self.segment.place(LANE)?;
        if at >= LANES {
            return Err(AttachError::BadPart(at).into());
        }
        Lane::of(self.bytes.part(place.offset + at * LANE_BYTES, LANE_BYTES)?)
    }

    /// The words of the endpoint cache.
    ///
    /// # Errors
    /// [`WindowError::Attach`] if the header was damaged.
    pub fn cache(&self) -> Result<&'a [AtomicU64], WindowError> {
        Ok(self.segment.named(CACHE)?)
    }

    /// The log.
    ///
    /// # Errors
    /// [`WindowError`] if it was damaged.
    pub fn log(&self) -> Result<journal::Journal<'a>, WindowError> {
        Ok(journal::Journal::attach(self.segment.named(JOURNAL)?)?)
    }
}

/// Words of the endpoint cache.
fn cache_words() -> usize {
    type Any<'a> = crate::endpoints::Endpoints<&'a [AtomicU64], [crate::memory::Block; 0]>;
    Any::words_needed(GROUPS, TABLES)
}
