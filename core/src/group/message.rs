//! What the machines say to each other: bodies of frames with operations `0x01..`.
//!
//! Every body opens with a [`Head`]: group, generation, and the incarnation of the sender. All of them may be
//! lost, repeated, delayed and reordered: each says something that stays true ("these ranks have joined generation
//! 3"), so saying it twice changes nothing. Answers are `Done` frames with a [`Reply`].
//!
//! Everything here parses bytes of another process: typed errors, no panic, no allocation, and no size taken from
//! a peer without a bound.

use crate::codec::{Reader, Short, Writer};
use crate::endpoints::GroupKey;
use crate::error::Status;
use crate::id::Generation;
use crate::peer::{Host, Incarnation, LocalRank, Rank, Sp, WorldRank};
use crate::wire::Op;

use super::cause::{Cause, Stretch};

/// Operation numbers of the bootstrap.
pub mod ops {
    use crate::wire::Op;

    /// Rank to service process: here I am ([`Hello`](super::Hello)).
    pub const HELLO: Op = Op(0x0101);
    /// Rank to service process: I join a group ([`Join`](super::Join)).
    pub const JOIN: Op = Op(0x0102);
    /// Rank to service process: I leave a group ([`Leave`](super::Leave)).
    pub const LEAVE: Op = Op(0x0103);
    /// Service process to rank: the group is full ([`Ready`](super::Ready)).
    pub const READY: Op = Op(0x0104);
    /// Service process to rank: the group has ended ([`Cause`](super::Cause)).
    pub const ENDED: Op = Op(0x0105);
    /// Either direction, a `Null`: I am alive; between service processes `arg` is the digest of the view.
    pub const PING: Op = Op(0x0106);
    /// Up the tree: these ranks have joined, or left ([`Part`](super::Part)).
    pub const PART: Op = Op(0x0110);
    /// Down the tree: a piece of the table ([`Snapshot`](super::Snapshot)).
    pub const SNAPSHOT: Op = Op(0x0111);
    /// Down the tree: the generation has ended ([`End`](super::End)).
    pub const END: Op = Op(0x0112);
    /// Between service processes: who is known to have failed or restarted ([`View`](super::View)).
    pub const VIEW: Op = Op(0x0113);
    /// All of them.
    pub const ALL: [Op; 10] = [HELLO, JOIN, LEAVE, READY, ENDED, PING, PART, SNAPSHOT, END, VIEW];
}

/// Whether an operation belongs to the bootstrap.
#[must_use]
pub const fn is_bootstrap(op: Op) -> bool {
    op.0 >> 8 == 1
}

/// The key under which the world group travels: it has one before anybody knows its size.
pub const WORLD: GroupKey = GroupKey(0);

/// Bytes of a [`Head`].
pub const HEAD_BYTES: usize = 28;

/// What every message starts with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// Which group; [`WORLD`] for the world group.
    pub key: GroupKey,
    /// Which generation of it.
    pub generation: Generation,
    /// Which life of the sender.
    pub from: Incarnation,
}

impl Head {
    /// Reads the head.
    ///
    /// # Errors
    /// [`Short`] if the message ends early.
    pub fn parse(r: &mut Reader<'_>) -> Result<Head, Short> {
        Ok(Head { key: GroupKey(r.u128()?), generation: Generation(r.u32()?), from: Incarnation(r.u64()?) })
    }

    /// Writes the head.
    ///
    /// # Errors
    /// [`Short`] if it does not fit.
    pub fn emit(&self, w: &mut Writer<'_>) -> Result<(), Short> {
        w.u128(self.key.0)?;
        w.u32(self.generation.0)?;
        w.u64(self.from.0)
    }
}

/// Why bytes are not a message of the bootstrap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum MessageError {
    /// The message ends before its last field.
    Short,
    /// Bytes follow the last field.
    Overlong,
    /// A field holds a value that no sender writes.
    BadField,
}

impl core::fmt::Display for MessageError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            MessageError::Short => "message ends before its last field",
            MessageError::Overlong => "message is followed by bytes that belong to nothing",
            MessageError::BadField => "field of a message holds a value that no sender writes",
        })
    }
}
impl core::error::Error for MessageError {}

impl From<Short> for MessageError {
    fn from(Short: Short) -> Self {
        MessageError::Short
    }
}

fn end(r: &Reader<'_>) -> Result<(), MessageError> {
    if r.rest().is_empty() { Ok(()) } else { Err(MessageError::Overlong) }
}

/// Which field of two descriptions differs; the word of a `Conflict` answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u32)]
#[non_exhaustive]
pub enum Field {
    /// The group's size.
    Size = 1,
    /// The number of ranks on the host.
    LocalCount = 2,
    /// The rank's number on its host.
    LocalRank = 3,
    /// The rank's host.
    Host = 4,
    /// The rank in the group.
    Rank = 5,
    /// The group's descriptor: its members differ, or its key is not its own.
    Descriptor = 6,
}

impl Field {
    /// The field with this number.
    #[must_use]
    pub const fn from_code(code: u32) -> Option<Field> {
        Some(match code {
            1 => Field::Size,
            2 => Field::LocalCount,
            3 => Field::LocalRank,
            4 => Field::Host,
            5 => Field::Rank,
            6 => Field::Descriptor,
            _ => return None,
        })
    }
}

/// What a rank claims about itself when it connects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Hello {
    /// Ranks in the world group.
    pub size: u32,
    /// Its world rank.
    pub rank: WorldRank,
    /// Its host.
    pub host: Host,
    /// Its number among the ranks of its host.
    pub local: LocalRank,
    /// How many ranks its host has.
    pub n_local: u32,
    /// Which of the rank's shadow service processes is addressed: 0 is the one that gathers the rank's groups,
    /// the others only serve its memory.
    pub shadow: u32,
}

impl Hello {
    /// Reads what follows the head.
    ///
    /// # Errors
    /// [`MessageError`] if the bytes are not exactly one such message.
    pub fn parse(r: &mut Reader<'_>) -> Result<Hello, MessageError> {
        let hello = Hello {
            size: r.u32()?,
            rank: WorldRank(r.u32()?),
            host: Host(r.u32()?),
            local: LocalRank(r.u32()?),
            n_local: r.u32()?,
            shadow: r.u32()?,
        };
        end(r)?;
        Ok(hello)
    }

    /// Writes it behind a head.
    ///
    /// # Errors
    /// [`Short`] if it does not fit.
    pub fn emit(&self, w: &mut Writer<'_>) -> Result<(), Short> {
        for word in [self.size, self.rank.0, self.host.0, self.local.0, self.n_local, self.shadow] {
            w.u32(word)?;
        }
        Ok(())
    }
}

/// A rank joins a group; its descriptor comes in pieces if it is long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Join<'a> {
    /// Its rank in the group.
    pub rank: Rank,
    /// Bytes of the whole descriptor.
    pub total: u32,
    /// Where this piece starts.
    pub offset: u32,
    /// The piece.
    pub bytes: &'a [u8],
}

impl<'a> Join<'a> {
    /// Reads what follows the head.
    ///
    /// # Errors
    /// [`MessageError`] if the bytes are not exactly one such message.
    pub fn parse(r: &mut Reader<'a>) -> Result<Join<'a>, MessageError> {
        let join = Join { rank: Rank(r.u32()?), total: r.u32()?, offset: r.u32()?, bytes: r.rest() };
        piece(join.total, join.offset, join.bytes)?;
        Ok(join)
    }

    /// Writes it behind a head.
    ///
    /// # Errors
    /// [`Short`] if it does not fit.
    pub fn emit(&self, w: &mut Writer<'_>) -> Result<(), Short> {
        w.u32(self.rank.0)?;
        w.u32(self.total)?;
        w.u32(self.offset)?;
        w.bytes(self.bytes)
    }
}

fn piece(total: u32, offset: u32, bytes: &[u8]) -> Result<(), MessageError> {
    let len = u32::try_from(bytes.len()).map_err(|_| MessageError::BadField)?;
    match offset.checked_add(len) {
        Some(to) if to <= total && len > 0 => Ok(()),
        _ => Err(MessageError::BadField),
    }
}

/// A rank leaves a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Leave;

impl Leave {
    /// Reads what follows the head: nothing.
    ///
    /// # Errors
    /// [`MessageError`] if something follows.
    pub fn parse(r: &mut Reader<'_>) -> Result<Leave, MessageError> {
        end(r)?;
        Ok(Leave)
    }
}

/// The group is full; its table is published.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Ready {
    /// Bits of the `Id<Group>` under which the service process publishes the table.
    pub handle: u64,
    /// Ranks in the group.
    pub size: u32,
    /// Digest of the table's bytes.
    pub digest: u64,
}

impl Ready {
    /// Reads what follows the head.
    ///
    /// # Errors
    /// [`MessageError`] if the bytes are not exactly one such message.
    pub fn parse(r: &mut Reader<'_>) -> Result<Ready, MessageError> {
        let ready = Ready { handle: r.u64()?, size: r.u32()?, digest: r.u64()? };
        end(r)?;
        Ok(ready)
    }

    /// Writes it behind a head.
    ///
    /// # Errors
    /// [`Short`] if it does not fit.
    pub fn emit(&self, w: &mut Writer<'_>) -> Result<(), Short> {
        w.u64(self.handle)?;
        w.u32(self.size)?;
        w.u64(self.digest)
    }
}

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

/// The body of every answer: what was answered, and one word whose meaning depends on the status.
///
/// `Ok`: bytes taken so far; `WrongServiceProcess`: the right one; `StaleGeneration`: the last generation that
/// ended; `Conflict`: the [`Field`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reply {
    /// Group, generation, sender.
    pub head: Head,
    /// See the type.
    pub word: u32,
}

impl Reply {
    /// Reads a whole body.
    ///
    /// # Errors
    /// [`MessageError`] if the bytes are not exactly one such message.
    pub fn parse(body: &[u8]) -> Result<Reply, MessageError> {
        let mut r = Reader::new(body);
        let reply = Reply { head: Head::parse(&mut r)?, word: r.u32()? };
        end(&r)?;
        Ok(reply)
    }

    /// Writes a whole body.
    ///
    /// # Errors
    /// [`Short`] if it does not fit.
    pub fn emit(&self, w: &mut Writer<'_>) -> Result<(), Short> {
        self.head.emit(w)?;
        w.u32(self.word)
    }
}

/// The status of a cause as it travels.
pub(crate) fn status(code: u16) -> Result<Status, MessageError> {
    Status::from_code(code).ok_or(MessageError::BadField)
}
