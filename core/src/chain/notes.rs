//! Short answers that are sent before anything else: a bounded queue.

use super::name::{CallId, Edge, Node};
use super::report::{Record, Tallies};

/// A short answer; a [`Machine`](super::Machine) is lent a queue of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Note {
    /// Which member that lives here it is from.
    pub(super) from: Node,
    pub(super) to: Node,
    pub(super) call: CallId,
    pub(super) edge: Edge,
    pub(super) attempt: u8,
    pub(super) what: What,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum What {
    /// The call is known here and goes on.
    Alive,
    /// There is no room.
    Busy,
    /// The request is not carried out: its receiver failed, the others that the record counts are not reached.
    Refuse(Record),
    /// The request is not carried out any more: so many members are not reached.
    Unreached(u32),
    /// The answer was given before, and is kept here.
    Repeat { tomb: u32 },
}

impl Note {
    /// A place that holds nothing yet.
    pub const EMPTY: Note = Note {
        from: Node(0),
        to: Node(0),
        call: CallId { root: Node(0), life: super::name::Life(0), seq: 0 },
        edge: Edge { index: 0, generation: 0, ordinal: 0 },
        attempt: 0,
        what: What::Alive,
    };
}

impl Default for Note {
    fn default() -> Self {
        Note::EMPTY
    }
}

/// What became of a subtree whose request was refused.
pub(super) const fn refused(record: &Record) -> Tallies {
    Tallies { ok: 0, failed: 1, unreached: record.count.saturating_sub(1), unknown: 0 }
}

/// What became of a subtree whose request was not taken and will not be.
pub(super) const fn never_begun(members: u32) -> Tallies {
    Tallies { ok: 0, failed: 0, unreached: members, unknown: 0 }
}

/// The queue's ends, over lent places.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Queue {
    head: u32,
    len: u32,
}

impl Queue {
    pub(super) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many more fit.
    pub(super) const fn room(&self, places: &[Note]) -> usize {
        places.len() - self.len as usize
    }

    /// Appends; nothing if there is no room.
    pub(super) fn push(&mut self, places: &mut [Note], note: Note) {
        let count = places.len();
        if (self.len as usize) < count {
            places[(self.head as usize + self.len as usize) % count] = note;
            self.len += 1;
        }
    }

    #[inline]
    pub(super) fn pop(&mut self, places: &[Note]) -> Option<Note> {
        if self.len == 0 {
            return None;
        }
        let note = *places.get(self.head as usize)?;
        self.head = (self.head + 1) % places.len() as u32;
        self.len -= 1;
        Some(note)
    }
}
