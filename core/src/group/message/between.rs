//! What service processes say to each other: parts up, tables and ends down, and who has failed.

use crate::codec::{Reader, Short, Writer};
use crate::peer::{Incarnation, Sp};

use super::super::cause::{Cause, Stretch};
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

/// Ranks of one group at one service process, as an arithmetic run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Entries {
    /// Their service process.
    pub sp: Sp,
    /// Which ranks.
    pub ranks: Stretch,
}

/// Bytes of one [`Entries`].
pub const ENTRIES_BYTES: usize = 16;

impl Entries {
    /// Two words, for lent storage.
    pub(crate) const fn to_words(self) -> [u64; 2] {
        [(self.sp.0 as u64) << 32 | self.ranks.first as u64, (self.ranks.stride as u64) << 32 | self.ranks.count as u64]
    }

    pub(crate) const fn from_words(words: [u64; 2]) -> Entries {
        Entries {
            sp: Sp((words[0] >> 32) as u32),
            ranks: Stretch { first: words[0] as u32, stride: (words[1] >> 32) as u32, count: words[1] as u32 },
        }
    }

    /// Writes the entries.
    ///
    /// # Errors
    /// [`Short`] if they do not fit.
    pub fn emit(&self, w: &mut Writer<'_>) -> Result<(), Short> {
        w.u32(self.sp.0)?;
        self.ranks.emit(w)
    }
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
    entries: &'a [u8],
}

impl<'a> Part<'a> {
    /// Reads what follows the head; entries outside `size` are refused.
    ///
    /// # Errors
    /// [`MessageError`] if the bytes are not exactly one such message.
    pub fn parse(r: &mut Reader<'a>) -> Result<Part<'a>, MessageError> {
        let (root, size) = (Sp(r.u32()?), r.u32()?);
        let phase = match r.u8()? {
            0 => Phase::Join,
            1 => Phase::Leave,
            _ => return Err(MessageError::BadField),
        };
        let part = Part { root, size, phase, entries: r.rest() };
        if !part.entries.len().is_multiple_of(ENTRIES_BYTES) {
            return Err(MessageError::Short);
        }
        if part.entries().any(|entries| entries.ranks.last().is_none_or(|last| last >= size)) {
            return Err(MessageError::BadField);
        }
        Ok(part)
    }

    /// The entries.
    pub fn entries(&self) -> impl Iterator<Item = Entries> + use<'a> {
        self.entries.chunks_exact(ENTRIES_BYTES).filter_map(|bytes| {
            let mut r = Reader::new(bytes);
            Some(Entries { sp: Sp(r.u32().ok()?), ranks: Stretch::parse(&mut r).ok()? })
        })
    }

    /// Writes everything but the entries, which the caller appends.
    ///
    /// # Errors
    /// [`Short`] if it does not fit.
    pub fn emit_head(w: &mut Writer<'_>, root: Sp, size: u32, phase: Phase) -> Result<(), Short> {
        w.u32(root.0)?;
        w.u32(size)?;
        w.u8(match phase {
            Phase::Join => 0,
            Phase::Leave => 1,
        })
    }
}

/// A piece of a group's table.
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
    /// Digest of the whole table.
    pub digest: u64,
    /// The piece.
    pub bytes: &'a [u8],
}

/// Bytes of a snapshot's fields before its piece.
pub const SNAPSHOT_BYTES: usize = 24;

impl<'a> Snapshot<'a> {
    /// Reads what follows the head.
    ///
    /// # Errors
    /// [`MessageError`] if the bytes are not exactly one such message.
    pub fn parse(r: &mut Reader<'a>) -> Result<Snapshot<'a>, MessageError> {
        let (root, size, total, offset, digest) = (Sp(r.u32()?), r.u32()?, r.u32()?, r.u32()?, r.u64()?);
        let bytes = r.rest();
        piece(total, offset, bytes)?;
        Ok(Snapshot { root, size, total, offset, digest, bytes })
    }

    /// Writes it behind a head.
    ///
    /// # Errors
    /// [`Short`] if it does not fit.
    pub fn emit(&self, w: &mut Writer<'_>) -> Result<(), Short> {
        for word in [self.root.0, self.size, self.total, self.offset] {
            w.u32(word)?;
        }
        w.u64(self.digest)?;
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
