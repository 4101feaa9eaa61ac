//! Short answers waiting to be sent.
//!
//! The queue is bounded and lossy: whoever does not get an answer asks again, so a full queue costs time and never
//! memory.

use crate::endpoints::GroupKey;
use crate::error::Status;
use crate::id::Generation;
use crate::machine::Link;
use crate::peer::Sp;
use crate::wire::{Op, Token};

use super::super::cause::Cause;

/// One answer: lent by the owner, opaque.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub enum Answer {
    /// No answer.
    #[default]
    None,
    /// A `Done`.
    Done {
        /// To whom.
        link: Link,
        /// What is answered.
        op: Op,
        /// The asker's token.
        token: Token,
        /// How it went.
        status: Status,
        /// Group in question.
        key: GroupKey,
        /// Its generation.
        generation: Generation,
        /// See [`Reply`](super::super::message::Reply).
        word: u32,
    },
    /// The generation in question is over.
    End {
        /// To whom.
        link: Link,
        /// Group in question.
        key: GroupKey,
        /// The last generation that ended.
        generation: Generation,
        /// The group's authority.
        root: Sp,
        /// Why it ended.
        cause: Cause,
    },
    /// The generation in question is over, to a rank that was away when it ended.
    Ended {
        /// To whom.
        link: Link,
        /// Group in question.
        key: GroupKey,
        /// Which generation.
        generation: Generation,
        /// Why it ended.
        cause: Cause,
    },
    /// A piece of a table for somebody who asks out of turn.
    Piece {
        /// To whom.
        link: Link,
        /// Group in question.
        key: GroupKey,
        /// Where the piece starts.
        offset: u32,
    },
    /// What is known about failed and restarted service processes.
    View {
        /// To whom.
        link: Link,
    },
    /// Close a link.
    Close {
        /// Which.
        link: Link,
        /// Why.
        reason: Status,
    },
}

#[derive(Debug)]
pub(crate) struct Queue<A> {
    cells: A,
    front: usize,
    len: usize,
    pub(crate) lost: u64,
}

impl<A: AsRef<[Answer]> + AsMut<[Answer]>> Queue<A> {
    pub(crate) fn new(cells: A) -> Self {
        Queue { cells, front: 0, len: 0, lost: 0 }
    }

    pub(crate) fn push(&mut self, answer: Answer) {
        let cells = self.cells.as_mut();
        let capacity = cells.len();
        if self.len >= capacity {
            self.lost += 1;
            return;
        }
        if let Some(cell) = cells.get_mut((self.front + self.len) % capacity) {
            *cell = answer;
            self.len += 1;
        }
    }

    pub(crate) fn pop(&mut self) -> Option<Answer> {
        if self.len == 0 {
            return None;
        }
        let cells = self.cells.as_mut();
        let capacity = cells.len();
        let answer = cells.get_mut(self.front).map(core::mem::take);
        self.front = (self.front + 1) % capacity;
        self.len -= 1;
        answer
    }
}
