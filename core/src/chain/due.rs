//! Whose turn it is: calls with something to do.

use super::context::{NIL, NO_KID, State};
use super::machine::{Handle, Machine};
use super::storage::Storage;

/// Contexts with something to do, strung together through themselves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Due {
    head: u32,
    tail: u32,
}

impl Due {
    pub(super) const NOBODY: Due = Due { head: NIL, tail: NIL };
}

impl<S: Storage> Machine<S> {
    /// Whether [`poll`](Self::poll) has nothing to give out before something else is told to the machine.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let nobody_is_ready = self.walker.is_none() && self.up.head == NIL && self.down.head == NIL;
        nobody_is_ready && self.queue.is_empty() && !self.line.has_news()
    }

    /// Whose turn it is.
    pub(super) fn next_ready(&mut self) -> Option<Handle> {
        let line = if self.up.head == NIL { &mut self.down } else { &mut self.up };
        let (id, _) = self.contexts.at(line.head)?;
        let context = self.contexts.get_mut(id).ok()?;
        context.queued = false;
        line.head = context.next;
        if line.head == NIL {
            line.tail = NIL;
        }
        Some(id)
    }

    /// Puts a context into its queue, if it is in none.
    pub(super) fn ready(&mut self, id: Handle) {
        let Ok(context) = self.contexts.get_mut(id) else { return };
        if context.queued {
            return;
        }
        context.queued = true;
        context.next = NIL;
        let is_up = match context.state {
            State::Answering | State::Failing | State::Ended | State::Draining => true,
            State::Gathering => context.parked.0 != NO_KID || context.pend == 0,
            State::Queued | State::Running => false,
        };
        // What belongs together here is done in depth: few places are in use at once, and those are at hand.
        let first = context.at_home || context.readers > 0;
        let line = if is_up { &mut self.up } else { &mut self.down };
        if first {
            context.next = core::mem::replace(&mut line.head, id.index());
            if context.next == NIL {
                line.tail = id.index();
            }
            return;
        }
        let last = core::mem::replace(&mut line.tail, id.index());
        if last == NIL {
            line.head = id.index();
        } else if let Some((before, _)) = self.contexts.at(last)
            && let Ok(before) = self.contexts.get_mut(before)
        {
            before.next = id.index();
        }
    }
}
