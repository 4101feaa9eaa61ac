//! A place in the line of those who wait for a slot.

use super::queue::{Queue, Record};
use crate::atomic::AtomicU64;
use crate::shared_slots::Owner;

/// A place in the line of those who wait for a slot; it is left when this is dropped.
///
/// Only the first may take a slot, and has to look after each [answer](Self::answer). Others sleep on
/// [`word`](Self::word), until they are the first or their data has a slot, but look now and then by themselves: whoever
/// should have woken them may have died.
#[derive(Debug)]
#[must_use = "a place that is dropped is left"]
pub struct Turn<'a> {
    queue: Queue<'a>,
    ticket: u32,
}

/// The first in line, as somebody behind him saw him.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct First(Record);

impl First {
    /// Whose it is, if the memory is not damaged.
    #[must_use]
    pub fn owner(&self) -> Option<Owner> {
        Owner::new(self.0.owner())
    }

    /// Whether he was called and has not answered yet.
    #[must_use]
    pub fn is_called(&self) -> bool {
        self.0.is_called()
    }
}

impl<'a> Turn<'a> {
    /// `None` if as many wait as there are records.
    pub(super) fn take(queue: Queue<'a>, owner: Owner, data: u64) -> Option<Turn<'a>> {
        queue.stand(owner, data).map(|ticket| Turn { queue, ticket })
    }

    /// Tells that this one looks for a slot now. Unless there is one, sleep while the lower half of [`word`](Self::word) is
    /// what this returns; `None` if this one was passed over, and has to come again.
    #[must_use = "who was passed over is in line no more"]
    pub fn answer(&self) -> Option<u32> {
        self.queue.answer(self.ticket)
    }

    /// What to sleep on.
    #[must_use]
    pub fn word(&self) -> &'a AtomicU64 {
        self.queue.record(self.ticket)
    }

    /// In the order of arrival, until they begin anew.
    #[must_use]
    pub fn ticket(&self) -> u32 {
        self.ticket
    }

    /// Who is first; `None` if that is this one.
    #[must_use]
    pub fn ahead(&self) -> Option<First> {
        self.queue.first().filter(|first| first.ticket() != self.ticket).map(First)
    }

    /// Takes one out of the line who does not answer, if he has done nothing since he was seen: because he died, or is
    /// stopped. If he goes on he finds out, and comes again.
    pub fn pass_over(&self, first: First) {
        self.queue.take_out(first.0);
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.queue.leave(self.ticket);
    }
}
