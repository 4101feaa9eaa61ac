//! Who waits no more: he gave up, or a link went.

use super::line::List;
use super::{Stage, State, Storage};
use crate::access::relay::Asker;
use crate::machine::Link;
use crate::time::Time;

impl<S: Storage> Stage<S> {
    /// A link went down: nobody there waits any more, what was kept by leave of who was there is dropped, and what was to
    /// be read over it is not kept.
    pub fn on_gone(&mut self, link: Link) {
        while let Some((waiter, slot)) = self.line.at_link(link) {
            let Some(tag) = self.tags.as_mut().get_mut(slot as usize) else { break };
            let _ = self.line.unlink(&mut tag.waiting, waiter);
            self.give_up(slot);
        }
        self.hints_gone(link);
        while let Some(key) = self.kept.gone(link) {
            self.forget(key);
        }
        // Who is read for after all is told whose link it was, or gets the bytes over the next one.
        let via = |tags: &S::Tags, slot: u32| tags.as_ref().get(slot as usize).map(|tag| tag.via);
        while let Some(slot) = self.queue.pop_that(|slot| via(&self.tags, slot) == Some(link)) {
            if let Some(tag) = self.tags.as_mut().get_mut(slot as usize) {
                tag.state = State::Refused;
                self.refused += 1;
            }
        }
    }

    /// The next who has waited too long, and over which link nobody answered. Call when it is [time](Self::deadline), until
    /// `None`.
    pub fn next_late(&mut self, now: Time) -> Option<(Asker, Link)> {
        let (waiter, slot) = self.line.late(now)?;
        let tag = self.tags.as_mut().get_mut(slot as usize)?;
        let (asker, _) = self.line.unlink(&mut tag.waiting, waiter)?;
        let via = tag.via;
        self.give_up(slot);
        Some((asker, via))
    }

    /// Somebody waits no more. If he was the last, and the read has not begun, it is not made: a server that does not answer
    /// keeps no slot longer than somebody waits for it.
    fn give_up(&mut self, slot: u32) {
        let tag = self.tags.as_mut().get_mut(slot as usize);
        let Some(tag) = tag.filter(|tag| tag.waiting == List::EMPTY) else { return };
        match tag.state {
            State::Parked => {}
            State::Queued => {
                let _ = self.queue.pop_that(|queued| queued == slot);
            }
            _ => return,
        }
        tag.state = State::Quiet;
        self.let_go(slot);
    }

    /// When somebody may have waited too long.
    #[must_use]
    pub const fn deadline(&self) -> Time {
        self.line.soonest()
    }
}
