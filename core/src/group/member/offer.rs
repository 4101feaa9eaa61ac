//! Descriptors on their way to the service process, which wants to see them.
//!
//! One that fits into a message goes at once. Of those that take several messages the service process keeps the pieces
//! of one for each rank; if a rank sent two at a time they would drive each other out for ever, so they take turns.

use crate::wire::Token;

use super::super::draft;
use super::super::message::{HEAD_BYTES, Head, Join, ops};
use super::super::timers::NIL;
use super::{Member, State, Storage};

/// Repetitions without an answer after which the turn passes to the next descriptor.
const PATIENCE: u8 = 3;

impl<S: Storage> Member<S> {
    /// Whether the service process has yet to take the descriptor of a group, or a part of it.
    fn is_offered(&self, at: u32) -> bool {
        self.groups.as_ref().get(at as usize).is_some_and(|group| {
            group.used && matches!(group.state, State::Joining | State::Leaving) && group.taken < group.len
        })
    }

    /// Writes the next piece of a group's descriptor; `None` if it is another's turn.
    pub(super) fn offer(&mut self, at: u32, head: Head, token: Token, buffer: &mut [u8]) -> Option<usize> {
        let room = draft::room(buffer.len()).checked_sub(HEAD_BYTES + 12)?;
        if self.group(at).len as usize > room {
            if self.offering != at && self.is_offered(self.offering) {
                return None;
            }
            self.offering = at;
        }
        let group = self.group(at);
        let bytes = self.heap.bytes(&group.descriptor, group.len as usize);
        let from = group.taken as usize;
        let to = from.saturating_add(room).min(bytes.len());
        let join = Join { rank: group.rank, total: group.len, offset: group.taken, bytes: bytes.get(from..to)? };
        draft::call(buffer, ops::JOIN, token, |w| {
            head.emit(w)?;
            join.emit(w)
        })
    }

    /// Lets the next descriptor have its turn if the one that has it needs it no more.
    pub(super) fn end_turn(&mut self) {
        if self.offering != NIL && !self.is_offered(self.offering) {
            self.pass_turn(self.offering);
        }
    }

    /// A group was not answered in time: others shall not wait for it for ever.
    pub(super) fn unanswered(&mut self, at: u32) {
        if self.offering == at && self.group(at).step >= PATIENCE {
            self.pass_turn(at);
        }
    }

    /// The turn goes round, so that it comes to everybody.
    fn pass_turn(&mut self, from: u32) {
        self.offering = NIL;
        let count = self.groups.as_ref().len() as u32;
        for at in (from + 1..count).chain(0..=from) {
            if self.is_offered(at) {
                self.stir(at);
            }
        }
    }
}
