//! Descriptors that are no links: their owner is told when they become readable.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::{Driver, Event};

impl Driver {
    /// Reports [`Event::Readable`] with the returned number whenever `descriptor` is readable.
    pub fn watch(&mut self, descriptor: OwnedFd) -> usize {
        let free = self.watched.iter().position(Option::is_none);
        if let Some((number, place)) = free.and_then(|number| Some((number, self.watched.get_mut(number)?))) {
            *place = Some(descriptor);
            return number;
        }
        self.watched.push(Some(descriptor));
        self.watched.len() - 1
    }

    /// Reports nothing of a descriptor any more and closes it; its number is given to the next one.
    pub fn unwatch(&mut self, number: usize) {
        if let Some(place) = self.watched.get_mut(number) {
            *place = None;
        }
        self.events.retain(|event| !matches!(event, Event::Readable(readable) if *readable == number));
    }

    /// A descriptor given to [`watch`](Self::watch).
    #[must_use]
    pub fn watched(&self, number: usize) -> Option<BorrowedFd<'_>> {
        self.watched.get(number)?.as_ref().map(AsFd::as_fd)
    }
}
