//! Who waits for which slot, in the order of asking.

use crate::access::relay::{Asker, CREDIT};
use crate::error::Status;
use crate::id::Id;
use crate::machine::Link;
use crate::slots::{Slot, Slots};
use crate::time::Time;

/// The end of a list.
const NIL: u32 = u32::MAX;

/// A rank that waits for a slot; lent by the caller.
#[derive(Clone, Copy, Debug)]
pub struct Waiter {
    asker: Asker,
    deadline: Time,
    slot: u32,
    next: u32,
}

/// Those who wait for one slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct List {
    first: u32,
    last: u32,
}

impl List {
    pub(super) const EMPTY: List = List { first: NIL, last: NIL };
}

#[derive(Debug)]
pub(super) struct Line<W, L> {
    waiters: Slots<W>,
    /// How many wait by link.
    outstanding: L,
    /// No deadline comes before.
    soonest: Time,
}

impl<W, L> Line<W, L>
where
    W: AsRef<[Slot<Waiter>]> + AsMut<[Slot<Waiter>]>,
    L: AsRef<[u32]> + AsMut<[u32]>,
{
    pub(super) fn new(waiters: W, mut outstanding: L) -> Self {
        outstanding.as_mut().fill(0);
        Line { waiters: Slots::new(waiters), outstanding, soonest: Time::NEVER }
    }

    pub(super) fn join(&mut self, list: &mut List, slot: u32, asker: Asker, deadline: Time) -> Result<(), Status> {
        let outstanding = self.outstanding.as_mut().get_mut(asker.link.index()).ok_or(Status::Full)?;
        if *outstanding >= CREDIT {
            return Err(Status::Full);
        }
        let id = self.waiters.take(Waiter { asker, deadline, slot, next: NIL }).map_err(|_| Status::Full)?;
        *outstanding += 1;
        let before = self.id(list.last).and_then(|before| self.waiters.get_mut(before).ok());
        match before {
            Some(before) => before.next = id.index(),
            None => list.first = id.index(),
        }
        list.last = id.index();
        self.soonest = self.soonest.min(deadline);
        Ok(())
    }

    fn id(&self, index: u32) -> Option<Id<Waiter>> {
        self.waiters.at(index).map(|(id, _)| id)
    }

    pub(super) fn leave_first(&mut self, list: &mut List) -> Option<(Asker, Time)> {
        let first = self.id(list.first)?;
        self.unlink(list, first)
    }

    /// Takes a waiter out of its list; O(its place).
    pub(super) fn unlink(&mut self, list: &mut List, id: Id<Waiter>) -> Option<(Asker, Time)> {
        let waiter = *self.waiters.get(id).ok()?;
        let (mut before, mut at) = (NIL, list.first);
        while at != id.index() {
            before = at;
            at = self.waiters.at(at)?.1.next;
        }
        let previous = self.id(before).and_then(|before| self.waiters.get_mut(before).ok());
        match previous {
            Some(previous) => previous.next = waiter.next,
            None => list.first = waiter.next,
        }
        if list.last == id.index() {
            list.last = before;
        }
        let _ = self.waiters.remove(id);
        if let Some(outstanding) = self.outstanding.as_mut().get_mut(waiter.asker.link.index()) {
            *outstanding = outstanding.saturating_sub(1);
        }
        Some((waiter.asker, waiter.deadline))
    }

    /// Somebody at this link who waits, and for which slot: unlink him.
    pub(super) fn at_link(&self, link: Link) -> Option<(Id<Waiter>, u32)> {
        self.find(|waiter| waiter.asker.link == link)
    }

    /// Somebody whose deadline has passed, and his slot: unlink him.
    pub(super) fn late(&mut self, now: Time) -> Option<(Id<Waiter>, u32)> {
        if self.soonest > now {
            return None;
        }
        let late = self.find(|waiter| waiter.deadline <= now);
        if late.is_none() {
            let deadlines = self.waiters.iter().map(|(_, waiter)| waiter.deadline);
            self.soonest = deadlines.fold(Time::NEVER, Time::min);
        }
        late
    }

    fn find(&self, which: impl Fn(&Waiter) -> bool) -> Option<(Id<Waiter>, u32)> {
        self.waiters.iter().find(|(_, waiter)| which(waiter)).map(|(id, waiter)| (id, waiter.slot))
    }

    pub(super) const fn soonest(&self) -> Time {
        self.soonest
    }
}
