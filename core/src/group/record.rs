//! What a service process remembers of one group, and the states in which that is.

use crate::endpoints::{Group, GroupKey};
use crate::id::{Generation, Id};
use crate::peer::Sp;
use crate::time::Time;
use crate::tree::ARITY_MAX;

use super::cause::Cause;
use super::heap::Piece;
use super::timers::{NIL, Node};

/// State of one generation of a group at one service process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Stage {
    /// Nothing is known.
    #[default]
    Absent,
    /// Ranks served here are missing.
    Collecting,
    /// They have all joined, but there is no link to the parent yet.
    LocalDone,
    /// The parent knows; others are missing.
    Exchanging,
    /// The table is published.
    Full,
    /// Every local member has taken note.
    Pushed,
    /// A member has left or died; look-ups still answer.
    Revoking,
    /// Over; the number of the generation is kept.
    Ended,
}

/// A set of ranks on its way up the tree.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flow {
    /// Bitmap of the ranks.
    pub(crate) bits: Piece,
    /// Ranks in the bitmap.
    pub(crate) count: u32,
    /// The same ranks as entries, in order of arrival.
    pub(crate) list: Piece,
    /// Entries in the list.
    pub(crate) len: u32,
    /// Entries that the parent has.
    pub(crate) acked: u32,
    /// Entries that were sent to it.
    pub(crate) sent: u32,
    /// The message whose answer is awaited; zero if none.
    pub(crate) serial: u32,
}

/// How far the table, or the news of the end, got with one neighbour.
pub(crate) const DONE: u32 = u32::MAX;
/// Children, and the root after it came back without memory.
pub(crate) const NEIGHBOURS: usize = ARITY_MAX as usize + 1;

/// Phases of a record, coarser than [`Stage`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Phase {
    #[default]
    Unused,
    Gathering,
    Full,
    Ended,
}

/// What a service process remembers of one group: lent by the owner, opaque.
#[derive(Clone, Debug)]
pub struct Record {
    pub(crate) key: GroupKey,
    pub(crate) generation: Generation,
    pub(crate) phase: Phase,
    pub(crate) root: Sp,
    pub(crate) size: u32,
    pub(crate) cause: Cause,
    /// Where the table is, once full.
    pub(crate) handle: Option<Id<Group>>,
    pub(crate) digest: u64,
    pub(crate) table_len: u32,
    /// Slot that the caller's number asks for.
    pub(crate) wish: u32,
    /// Sets of local ranks, see [`super::service`].
    pub(crate) locals: Piece,
    pub(crate) descriptor: Piece,
    pub(crate) descriptor_len: u32,
    /// The own ranks were added to the flow.
    pub(crate) joined_out: bool,
    pub(crate) left_out: bool,
    pub(crate) joined: Flow,
    pub(crate) left: Flow,
    /// A table on its way in.
    pub(crate) incoming: Piece,
    pub(crate) received: u32,
    /// Bytes of the table that each neighbour has, or [`DONE`].
    pub(crate) pushed: [u32; NEIGHBOURS],
    /// Neighbours to which something was sent since the last repetition.
    pub(crate) outstanding: u16,
    /// Ask the parent for news.
    pub(crate) pull: bool,
    /// Neighbours that have said who joined this generation: until it is full they ask again and again.
    pub(crate) spoken: u16,
    /// Something was repeated: no more time is given to who may still come.
    pub(crate) hurry: bool,
    pub(crate) step: u8,
    pub(crate) resend: Node,
    pub(crate) deadline: Node,
    pub(crate) since: Time,
    /// The generation before, of whose end some neighbours and local members may not know yet.
    pub(crate) before: Generation,
    pub(crate) before_cause: Cause,
    /// A service process that serves some of its ranks has failed since it was full.
    pub(crate) orphaned: bool,
    /// The last state that was reported.
    pub(crate) shown: Stage,
    pub(crate) queued: bool,
    pub(crate) next_queued: u32,
    pub(crate) next_unused: u32,
    /// Ended, and nobody asks any more: may be forgotten.
    pub(crate) old: bool,
}

impl Default for Record {
    fn default() -> Self {
        Record {
            key: GroupKey(0),
            generation: Generation::NEVER,
            phase: Phase::Unused,
            root: Sp(0),
            size: 0,
            cause: Cause::LEFT,
            handle: None,
            digest: 0,
            table_len: 0,
            wish: NIL,
            locals: None,
            descriptor: None,
            descriptor_len: 0,
            joined_out: false,
            left_out: false,
            joined: Flow::default(),
            left: Flow::default(),
            incoming: None,
            received: 0,
            pushed: [0; NEIGHBOURS],
            outstanding: 0,
            pull: false,
            spoken: 0,
            hurry: false,
            step: 0,
            resend: Node::default(),
            deadline: Node::default(),
            since: Time::ZERO,
            before: Generation::NEVER,
            before_cause: Cause::LEFT,
            orphaned: false,
            shown: Stage::Absent,
            queued: false,
            next_queued: NIL,
            next_unused: NIL,
            old: false,
        }
    }
}

impl Record {
    pub(crate) fn is_world(&self) -> bool {
        self.key == super::message::WORLD
    }
}
