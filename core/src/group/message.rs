//! What the machines say to each other: bodies of frames with operations `0x01..`.
//!
//! Every body opens with a [`Head`]: group, generation, and the incarnation of the sender. All of them may be
//! lost, repeated, delayed and reordered: each says something that stays true ("these ranks have joined generation
//! 3"), so saying it twice changes nothing. Answers are `Done` frames with a [`Reply`].
//!
//! Everything here parses bytes of another process: typed errors, no panic, no allocation, and no size taken from
//! a peer without a bound.

use crate::codec::{Reader, Short, VarError, Writer};
use crate::endpoints::GroupKey;
use crate::error::Status;
use crate::id::Generation;
use crate::peer::{Host, Incarnation, LocalRank, Rank, WorldRank};
use crate::wire::Op;

mod between;
mod runs;

pub use between::{End, PART_BYTES, Part, Phase, SNAPSHOT_BYTES, Snapshot, VIEW_ENTRY_BYTES, View, ViewEntry};
pub use runs::Entries;
pub(crate) use runs::{RUN_BYTES, emit as emit_entries};

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
    /// Service process to rank: the group has ended ([`Cause`](super::super::Cause)).
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

impl From<VarError> for MessageError {
    fn from(error: VarError) -> Self {
        match error {
            VarError::Short => MessageError::Short,
            VarError::NotShortest => MessageError::BadField,
        }
    }
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

impl core::fmt::Display for Field {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Field::Size => "number of ranks",
            Field::LocalCount => "number of ranks on the host",
            Field::LocalRank => "local rank",
            Field::Host => "host",
            Field::Rank => "rank in the group",
            Field::Descriptor => "members of the group",
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
