//! What service processes say to each other: parts, tables, ends, and who failed.
//!
//! Parts go up the tree; tables and ends go down.

use crate::codec::{Reader, Short, Writer};
use crate::peer::{Incarnation, Sp};

use super::super::cause::Cause;
use super::runs::{self, Entries};
use super::{MessageError, end, piece};

/// What a [`Part`] is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Phase {
    /// The ranks have joined.
    Join,
    /// The ranks have left or died.
    Leave,
}

/// What a service process tells its parent: the ranks of its subtree that have joined or left.
///
/// Without entries it says: I have told you all, what is the state?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part<'a> {
    /// The group's authority, root of the tree.
    pub root: Sp,
    /// Ranks in the group.
    pub size: u32,
    /// Joined or left.
    pub phase: Phase,
    /// Whether the sender waits for an answer. It needs none if the table will come soon, and asks if it does not.
    pub answer: bool,
    entries: &'a [u8],
}

/// Most bytes of a part before its entries.
pub const PART_BYTES: usize = 11;

const LEAVE: u8 = 1;
const QUIET: u8 = 2;

impl<'a> Part<'a> {
    /// Reads what follows the head; entries outside `size`, or more of them, are refused.
    ///
    /// # Errors
    /// [`MessageError`] if the bytes are not exactly one such message.
    pub fn parse(r: &mut Reader<'a>) -> Result<Part<'a>, MessageError> {
        let flags = r.u8()?;
        if flags & !(LEAVE | QUIET) != 0 {
            return Err(MessageError::BadField);
        }
        let phase = if flags & LEAVE == 0 { Phase::Join } else { Phase::Leave };
        let (root, size) = (Sp(r.var()?), r.var()?);
        let part = Part { root, size, phase, answer: flags & QUIET == 0, entries: r.rest() };
        runs::check(part.entries, size)?;
        Ok(part)
    }

    /// The entries.
    pub fn entries(&self) -> impl Iterator<Item = Entries> + use<'a> {
        runs::entries(self.entries)
    }

    /// Writes everything but the entries, which the caller appends.
    ///
    /// # Errors
    /// [`Short`] if it does not fit.
    pub fn emit_head(w: &mut Writer<'_>, root: Sp, size: u32, phase: Phase, answer: bool) -> Result<(), Short> {
        let leave = if phase == Phase::Leave { LEAVE } else { 0 };
        w.u8(leave | if answer { 0 } else { QUIET })?;
        w.var(root.0)?;
        w.var(size)
    }
}

/// A piece of a group's table, or the whole of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Snapshot<'a> {
    /// The group's authority, root of the tree.
    pub root: Sp,
    /// Ranks in the group.
    pub size: u32,
    /// Bytes of the whole table.
    pub total: u32,
    /// Where this piece starts.
    pub offset: u32,
    /// Digest of the whole table; not sent with the whole table, which holds it.
    pub digest: u64,
    /// Whether the sender waits for an answer. It needs none from somebody who asks again until the table is there.
    pub answer: bool,
    /// The piece.
    pub bytes: &'a [u8],
}

/// Most bytes of a snapshot's fields before its piece.
pub const SNAPSHOT_BYTES: usize = 29;

const PIECE: u8 = 1;

impl<'a> Snapshot<'a> {
    /// Whether this is the whole table.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.offset == 0 && self.bytes.len() == self.total as usize
    }

    /// Reads what follows the head.
    ///
    /// # Errors
    /// [`MessageError`] if the bytes are not exactly one such message.
    pub fn parse(r: &mut Reader<'a>) -> Result<Snapshot<'a>, MessageError> {
        let flags = r.u8()?;
        if flags & !(PIECE | QUIET) != 0 {
            return Err(MessageError::BadField);
        }
        let (root, size, answer) = (Sp(r.var()?), r.var()?, flags & QUIET == 0);
        if flags & PIECE == 0 {
            let bytes = r.rest();
            let total = u32::try_from(bytes.len()).map_err(|_| MessageError::BadField)?;
            piece(total, 0, bytes)?;
            return Ok(Snapshot { root, size, total, offset: 0, digest: 0, answer, bytes });
        }
        let (total, offset, digest) = (r.var()?, r.var()?, r.u64()?);
        let snapshot = Snapshot { root, size, total, offset, digest, answer, bytes: r.rest() };
        piece(total, offset, snapshot.bytes)?;
        if snapshot.is_whole() { Err(MessageError::BadField) } else { Ok(snapshot) }
    }

    /// Writes it behind a head, but for its bytes, which the caller appends.
    ///
    /// # Errors
    /// [`Short`] if it does not fit.
    pub fn emit_head(&self, w: &mut Writer<'_>, whole: bool) -> Result<(), Short> {
        w.u8(if whole { 0 } else { PIECE } | if self.answer { 0 } else { QUIET })?;
        w.var(self.root.0)?;
        w.var(self.size)?;
        if !whole {
            w.var(self.total)?;
            w.var(self.offset)?;
            w.u64(self.digest)?;
        }
        Ok(())
    }

    /// Writes it behind a head.
    ///
    /// # Errors
    /// [`Short`] if it does not fit.
    pub fn emit(&self, w: &mut Writer<'_>) -> Result<(), Short> {
        self.emit_head(w, self.is_whole())?;
        w.bytes(self.bytes)
    }
}

/// A generation has ended, for all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct End {
    /// The group's authority, root of the tree.
    pub root: Sp,
    /// Why.
    pub cause: Cause,
}

impl End {
    /// Reads what follows the head.
    ///
    /// # Errors
    /// [`MessageError`] if the bytes are not exactly one such message.
    pub fn parse(r: &mut Reader<'_>) -> Result<End, MessageError> {
        let message = End { root: Sp(r.u32()?), cause: Cause::parse(r)? };
        end(r)?;
        Ok(message)
    }

    /// Writes it behind a head.
    ///
    /// # Errors
    /// [`Short`] if it does not fit.
    pub fn emit(&self, w: &mut Writer<'_>) -> Result<(), Short> {
        w.u32(self.root.0)?;
        self.cause.emit(w)
    }
}

/// How often one service process has failed and come back, as far as the sender knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ViewEntry {
    /// Which one.
    pub sp: Sp,
    /// Even: alive; odd: failed. Grows with every change, so the larger one is the newer.
    pub epoch: u32,
    /// The life that failed or lives.
    pub incarnation: Incarnation,
}

/// Bytes of one [`ViewEntry`].
pub const VIEW_ENTRY_BYTES: usize = 16;

/// Which service processes have failed or restarted; the others are in their first life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct View<'a> {
    entries: &'a [u8],
}

impl<'a> View<'a> {
    /// Reads what follows the head.
    ///
    /// # Errors
    /// [`MessageError`] if the bytes are not exactly one such message.
    pub fn parse(r: &mut Reader<'a>) -> Result<View<'a>, MessageError> {
        let entries = r.rest();
        if entries.len().is_multiple_of(VIEW_ENTRY_BYTES) { Ok(View { entries }) } else { Err(MessageError::Short) }
    }

    /// The entries.
    pub fn entries(&self) -> impl Iterator<Item = ViewEntry> + use<'a> {
        self.entries.chunks_exact(VIEW_ENTRY_BYTES).filter_map(|bytes| {
            let mut r = Reader::new(bytes);
            Some(ViewEntry { sp: Sp(r.u32().ok()?), epoch: r.u32().ok()?, incarnation: Incarnation(r.u64().ok()?) })
        })
    }
}

impl ViewEntry {
    /// Writes one entry.
    ///
    /// # Errors
    /// [`Short`] if it does not fit.
    pub fn emit(&self, w: &mut Writer<'_>) -> Result<(), Short> {
        w.u32(self.sp.0)?;
        w.u32(self.epoch)?;
        w.u64(self.incarnation.0)
    }
}
