//! Groups, their references, and lists of both.

use crate::cache::slot::NIL;
use crate::id::{Generation, Id};

/// How far a group has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// The record is free.
    Free,
    /// Waits for its turn.
    Queued,
    /// The oldest that waits: it holds the slots that its inputs had when its turn came, and gets the others.
    Assigning,
    /// Has all its slots.
    Assigned,
    /// All content is there, and nobody was told yet.
    Ready,
    /// Its client was told.
    Delivered,
    /// A load failed, and nobody was told yet.
    Failed,
    /// Its client was told of the failure; references to slots that are being filled are left.
    Ending,
}

/// The record of one group; a cache is lent an array of them.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    pub(super) point: u64,
    /// Groups that were submitted before.
    pub(super) number: u64,
    /// Its number to the [future](super::Future).
    pub(super) time: u64,
    /// The input that could not be loaded.
    pub(super) failed: u64,
    pub(super) members: u32,
    /// References whose slots are being filled.
    pub(super) missing: u32,
    /// While slots are assigned: the first member that may still lack one.
    pub(super) cursor: u32,
    pub(super) next: u32,
    pub(super) generation: Generation,
    pub(super) stage: Stage,
    /// Its references without a slot are in the queues of their inputs.
    pub(super) in_queues: bool,
}

impl Group {
    /// A record that no group has used yet.
    pub const EMPTY: Self = Group {
        point: 0,
        number: 0,
        time: 0,
        failed: 0,
        members: 0,
        missing: 0,
        cursor: 0,
        next: NIL,
        generation: Generation::FIRST,
        stage: Stage::Free,
        in_queues: false,
    };
}
impl Default for Group {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// A group's hold on one input; a cache is lent an array of them. 16 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Reference {
    pub(super) input: u32,
    /// [`NIL`] without one, [`GONE`] after it was given back.
    pub(super) slot: u32,
    /// The next in the circle of those that wait: for their turn, or for the slot's content.
    pub(super) next: u32,
    /// The group's index; the highest bit is set for [scratch](super::Member::Scratch).
    group: u32,
}

/// The slot of a reference that was given back.
pub(super) const GONE: u32 = NIL - 1;
const SCRATCH: u32 = 1 << 31;

impl Reference {
    /// A reference that no group has used yet.
    pub const EMPTY: Self = Reference { input: NIL, slot: NIL, next: NIL, group: 0 };

    #[inline]
    pub(super) fn new(input: u32, group: u32, scratch: bool) -> Self {
        let group = if scratch { group | SCRATCH } else { group };
        Reference { input, slot: NIL, next: NIL, group }
    }

    /// The same with this slot.
    #[inline]
    pub(super) fn at(self, slot: u32) -> Self {
        Reference { slot, ..self }
    }

    #[inline]
    pub(super) fn group(&self) -> u32 {
        self.group & !SCRATCH
    }

    #[inline]
    pub(super) fn is_scratch(&self) -> bool {
        self.group & SCRATCH != 0
    }
}
impl Default for Reference {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// Appends to a circle of references, of which the last is known.
#[inline]
pub(super) fn append(references: &mut [Reference], last: &mut u32, reference: u32) {
    let first = match references.get_mut(*last as usize) {
        Some(last) => core::mem::replace(&mut last.next, reference),
        None => reference,
    };
    references[reference as usize].next = first;
    *last = reference;
}

/// The first of a circle.
#[inline]
pub(super) fn first(references: &[Reference], last: u32) -> Option<u32> {
    references.get(last as usize).map(|last| last.next)
}

/// Takes the first out of a circle.
#[inline]
pub(super) fn remove_first(references: &mut [Reference], last: &mut u32) -> Option<u32> {
    let first = first(references, *last)?;
    if first == *last {
        *last = NIL;
    } else {
        references[*last as usize].next = references[first as usize].next;
    }
    Some(first)
}

/// A queue of groups.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queue {
    pub(super) first: u32,
    last: u32,
}

impl Queue {
    pub(super) const EMPTY: Queue = Queue { first: NIL, last: NIL };

    pub(super) fn push(&mut self, groups: &mut [Group], group: u32) {
        groups[group as usize].next = NIL;
        match groups.get_mut(self.last as usize) {
            Some(last) => last.next = group,
            None => self.first = group,
        }
        self.last = group;
    }

    pub(super) fn push_first(&mut self, groups: &mut [Group], group: u32) {
        groups[group as usize].next = self.first;
        if self.first == NIL {
            self.last = group;
        }
        self.first = group;
    }

    pub(super) fn last(self) -> u32 {
        self.last
    }

    pub(super) fn pop(&mut self, groups: &mut [Group]) -> Option<u32> {
        let group = self.first;
        self.first = groups.get(group as usize)?.next;
        if self.first == NIL {
            self.last = NIL;
        }
        Some(group)
    }
}

/// The id by which clients know a group.
pub(super) fn id(groups: &[Group], group: u32) -> Id<Group> {
    Id::new(group, groups[group as usize].generation)
}
