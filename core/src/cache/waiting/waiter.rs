//! Who waits, for what, and in which order; and who was answered and does not know yet.

use core::task::Waker;

use super::answer::Answer;
use crate::id::{Generation, Id};

/// The end of a list, and no waiter.
pub(super) const NIL: u32 = u32::MAX;

/// The record of one waiter; a cache is lent an array of them.
#[derive(Debug)]
pub struct Waiter {
    pub(super) data: u64,
    generation: Generation,
    stage: Stage,
    /// Whether this one stands in a list for all who wait for the same.
    leads: bool,
    /// Neighbours in the list, or the next free record.
    prev: u32,
    next: u32,
    /// Neighbours in the circle of those who wait for the same.
    peer_prev: u32,
    peer_next: u32,
    /// The first leader whose data belongs to the bucket of this record's number.
    bucket: u32,
    /// The next leader of the same bucket.
    chain: u32,
    answer: Option<Answer>,
    waker: Option<Waker>,
}

/// What a waiter waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    Free,
    /// A slot.
    Slot,
    /// The content of a slot.
    Content,
    /// Nothing any more: the answer is there.
    Answered,
}

impl Waiter {
    /// A record that nobody has used yet.
    pub const EMPTY: Self = Waiter {
        data: 0,
        generation: Generation::FIRST,
        stage: Stage::Free,
        leads: false,
        prev: NIL,
        next: NIL,
        peer_prev: NIL,
        peer_next: NIL,
        bucket: NIL,
        chain: NIL,
        answer: None,
        waker: None,
    };
}

impl Default for Waiter {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// The first and last of a list.
#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    last: u32,
}

impl List {
    const EMPTY: List = List { first: NIL, last: NIL };

    fn push(&mut self, waiters: &mut [Waiter], at: u32) {
        let this = &mut waiters[at as usize];
        (this.prev, this.next) = (self.last, NIL);
        match waiters.get_mut(self.last as usize) {
            Some(last) => last.next = at,
            None => self.first = at,
        }
        self.last = at;
    }

    fn unlink(&mut self, waiters: &mut [Waiter], at: u32) {
        let Waiter { prev, next, .. } = waiters[at as usize];
        self.join(waiters, prev, next);
    }

    /// Puts one in the place of another.
    fn replace(&mut self, waiters: &mut [Waiter], old: u32, new: u32) {
        let Waiter { prev, next, .. } = waiters[old as usize];
        let this = &mut waiters[new as usize];
        (this.prev, this.next) = (prev, next);
        match waiters.get_mut(prev as usize) {
            Some(before) => before.next = new,
            None => self.first = new,
        }
        match waiters.get_mut(next as usize) {
            Some(after) => after.prev = new,
            None => self.last = new,
        }
    }

    fn join(&mut self, waiters: &mut [Waiter], prev: u32, next: u32) {
        match waiters.get_mut(prev as usize) {
            Some(before) => before.next = next,
            None => self.first = next,
        }
        match waiters.get_mut(next as usize) {
            Some(after) => after.prev = prev,
            None => self.last = prev,
        }
    }
}

/// All waiters of a cache.
///
/// Invariants: a record is free, or in the circle of those who wait for the same, or answered. One of each circle
/// stands for it in the line of those who want a slot, or among those who want content; nobody waits for both of the same
/// data, because data with a slot is found.
#[derive(Debug)]
pub(super) struct Waiters<R> {
    records: R,
    /// Records in use, at most.
    capacity: u32,
    free: u32,
    /// Records that wait.
    waiting: u32,
    slots: List,
    contents: List,
    answered: List,
    /// The first of the answered that was not woken.
    to_wake: u32,
}

impl<R: AsRef<[Waiter]> + AsMut<[Waiter]>> Waiters<R> {
    pub(super) fn new(mut records: R) -> Self {
        let all = records.as_mut();
        let capacity = u32::try_from(all.len()).unwrap_or(NIL);
        for (at, record) in (0..capacity).zip(all.iter_mut()) {
            let next = if at + 1 < capacity { at + 1 } else { NIL };
            *record = Waiter { next, generation: record.generation.next(), ..Waiter::EMPTY };
        }
        let free = if capacity == 0 { NIL } else { 0 };
        let (slots, contents, answered) = (List::EMPTY, List::EMPTY, List::EMPTY);
        Waiters { records, capacity, free, waiting: 0, slots, contents, answered, to_wake: NIL }
    }

    pub(super) fn capacity(&self) -> u32 {
        self.capacity
    }

    /// How many wait, for slots and for contents.
    pub(super) fn waiting(&self) -> u32 {
        self.waiting
    }

    /// Who stands first in line for a slot.
    pub(super) fn first_for_slot(&self) -> Option<u32> {
        Some(self.slots.first).filter(|&first| first != NIL)
    }

    pub(super) fn data(&self, at: u32) -> u64 {
        self.records.as_ref()[at as usize].data
    }

    fn bucket(&self, data: u64) -> u32 {
        // The high half of a product with an odd number spreads neighbours.
        let mixed = data.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((u128::from(mixed) * u128::from(self.capacity)) >> 64) as u32
    }

    /// Who stands for those who wait for something of this data.
    pub(super) fn leader(&self, data: u64) -> Option<u32> {
        let records = self.records.as_ref();
        let mut at = records.get(self.bucket(data) as usize)?.bucket;
        while let Some(record) = records.get(at as usize) {
            if record.data == data {
                return Some(at);
            }
            at = record.chain;
        }
        None
    }

    /// Puts somebody into the circle of those who wait for the same, or at the end of the line. `None` if no record is
    /// free.
    pub(super) fn enter(&mut self, data: u64, stage: Stage, waker: &Waker) -> Option<Id<Waiter>> {
        let leader = self.leader(data);
        let bucket = self.bucket(data) as usize;
        let records = self.records.as_mut();
        let at = self.free;
        let this = records.get_mut(at as usize)?;
        self.free = this.next;
        (this.data, this.stage, this.leads) = (data, stage, leader.is_none());
        (this.peer_prev, this.peer_next) = (at, at);
        this.waker = Some(waker.clone());
        let id = Id::new(at, this.generation);
        self.waiting += 1;
        if let Some(leader) = leader {
            let last = records[leader as usize].peer_prev;
            (records[at as usize].peer_prev, records[at as usize].peer_next) = (last, leader);
            records[last as usize].peer_next = at;
            records[leader as usize].peer_prev = at;
        } else {
            records[at as usize].chain = core::mem::replace(&mut records[bucket].bucket, at);
            let list = if stage == Stage::Slot { &mut self.slots } else { &mut self.contents };
            list.push(records, at);
        }
        Some(id)
    }

    /// The place in its bucket's chain that leads to this leader.
    fn set_chain(&mut self, leader: u32, to: u32) {
        let bucket = self.bucket(self.data(leader)) as usize;
        let records = self.records.as_mut();
        let mut at = records[bucket].bucket;
        if at == leader {
            records[bucket].bucket = to;
            return;
        }
        while let Some(record) = records.get_mut(at as usize) {
            if record.chain == leader {
                record.chain = to;
                return;
            }
            at = record.chain;
        }
    }

    /// Takes a leader out of its list and its bucket.
    fn dismiss(&mut self, leader: u32) {
        self.set_chain(leader, self.records.as_ref()[leader as usize].chain);
        let records = self.records.as_mut();
        records[leader as usize].leads = false;
        let of_slots = records[leader as usize].stage == Stage::Slot;
        let list = if of_slots { &mut self.slots } else { &mut self.contents };
        list.unlink(records, leader);
    }

    /// Takes out somebody who waits; the next who waits for the same takes over the place in line.
    fn leave(&mut self, at: u32) {
        let Waiter { leads, peer_prev, peer_next, stage, .. } = self.records.as_ref()[at as usize];
        if leads && peer_next == at {
            self.dismiss(at);
        } else if leads {
            self.set_chain(at, peer_next);
            let records = self.records.as_mut();
            records[peer_next as usize].chain = records[at as usize].chain;
            records[peer_next as usize].leads = true;
            let list = if stage == Stage::Slot { &mut self.slots } else { &mut self.contents };
            list.replace(records, at, peer_next);
        }
        let records = self.records.as_mut();
        records[peer_prev as usize].peer_next = peer_next;
        records[peer_next as usize].peer_prev = peer_prev;
        self.waiting -= 1;
    }

    /// Answers a leader and all who wait for the same, in the order in which they came.
    pub(super) fn answer(&mut self, leader: u32, mut answer: impl FnMut(u64) -> Answer) {
        self.dismiss(leader);
        let mut at = leader;
        loop {
            let records = self.records.as_mut();
            let this = &mut records[at as usize];
            let next = this.peer_next;
            this.stage = Stage::Answered;
            this.answer = Some(answer(this.data));
            self.answered.push(records, at);
            self.waiting -= 1;
            if self.to_wake == NIL {
                self.to_wake = at;
            }
            if next == leader {
                return;
            }
            at = next;
        }
    }

    /// Answers everybody who waits, and lets those who do not know their answer yet have another one.
    pub(super) fn answer_all(
        &mut self,
        mut answer: impl FnMut(u64, Stage) -> Answer,
        mut again: impl FnMut(&mut Answer),
    ) {
        let mut at = self.answered.first;
        while let Some(record) = self.records.as_mut().get_mut(at as usize) {
            record.answer.as_mut().map(&mut again);
            at = record.next;
        }
        while self.slots.first != NIL {
            self.answer(self.slots.first, |data| answer(data, Stage::Slot));
        }
        while self.contents.first != NIL {
            self.answer(self.contents.first, |data| answer(data, Stage::Content));
        }
    }

    /// Who is to be woken next; each is named once.
    pub(super) fn next_waker(&mut self) -> Option<Waker> {
        while let Some(record) = self.records.as_mut().get_mut(self.to_wake as usize) {
            self.to_wake = record.next;
            if let Some(waker) = record.waker.take() {
                return Some(waker);
            }
        }
        None
    }

    /// Whether somebody is to be woken.
    pub(super) fn wakes(&self) -> bool {
        self.to_wake != NIL
    }

    fn at(&self, id: Id<Waiter>) -> Option<u32> {
        let record = self.records.as_ref().get(id.index() as usize)?;
        let known = record.generation == id.generation() && record.stage != Stage::Free;
        known.then_some(id.index())
    }

    /// Takes the answer, if there is one; else `waker` is who will be woken.
    pub(super) fn poll(&mut self, id: Id<Waiter>, waker: &Waker) -> Option<Answer> {
        let at = self.at(id)?;
        let record = &mut self.records.as_mut()[at as usize];
        if record.stage == Stage::Answered {
            return self.take(at);
        }
        if !record.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            record.waker = Some(waker.clone());
        }
        None
    }

    /// Ends the wait; the answer, if there is one already.
    pub(super) fn end(&mut self, id: Id<Waiter>) -> Option<Answer> {
        let at = self.at(id)?;
        if self.records.as_ref()[at as usize].stage == Stage::Answered {
            return self.take(at);
        }
        self.leave(at);
        self.release(at);
        None
    }

    fn take(&mut self, at: u32) -> Option<Answer> {
        let records = self.records.as_mut();
        if self.to_wake == at {
            self.to_wake = records[at as usize].next;
        }
        self.answered.unlink(records, at);
        let answer = records[at as usize].answer.take();
        self.release(at);
        answer
    }

    fn release(&mut self, at: u32) {
        let record = &mut self.records.as_mut()[at as usize];
        (record.stage, record.waker, record.leads) = (Stage::Free, None, false);
        record.generation = record.generation.next();
        record.next = core::mem::replace(&mut self.free, at);
    }
}
