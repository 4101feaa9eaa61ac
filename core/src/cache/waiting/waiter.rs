//! Who waits, for what, in which order; who was answered and does not know yet.
//!
//! Caches of slots and caches of groups wait alike; they differ in what they answer.

use core::marker::PhantomData;
use core::task::{Poll, Waker};

use super::record::{List, NIL, Record, Stage};
use crate::id::Id;

/// All waiters of a cache.
///
/// Invariants: a record is free, or in the circle of those who wait for the same, or answered. One of each circle
/// stands for it in the line of those who wait for their turn, or among those who wait for an event; nobody waits for both
/// under the same number. Of a cache of slots the turn is a slot for data, the event is its content, and the number is the
/// data: what has a slot is found.
#[derive(Debug)]
pub(crate) struct Waiters<A, R> {
    records: R,
    /// Records in use, at most.
    capacity: u32,
    free: u32,
    /// Records that wait.
    waiting: u32,
    turns: List,
    events: List,
    answered: List,
    /// The first of the answered that was not woken.
    to_wake: u32,
    answer: PhantomData<A>,
}

impl<A, R: AsRef<[Record<A>]> + AsMut<[Record<A>]>> Waiters<A, R> {
    pub(crate) fn new(mut records: R) -> Self {
        let all = records.as_mut();
        let capacity = u32::try_from(all.len()).unwrap_or(NIL);
        for (at, record) in (0..capacity).zip(all.iter_mut()) {
            let next = if at + 1 < capacity { at + 1 } else { NIL };
            *record = Record { next, generation: record.generation.next(), ..Record::EMPTY };
        }
        let free = if capacity == 0 { NIL } else { 0 };
        let (turns, events, answered) = (List::EMPTY, List::EMPTY, List::EMPTY);
        Waiters { records, capacity, free, waiting: 0, turns, events, answered, to_wake: NIL, answer: PhantomData }
    }

    pub(crate) fn capacity(&self) -> u32 {
        self.capacity
    }

    /// How many wait, for turns and for events.
    pub(crate) fn waiting(&self) -> u32 {
        self.waiting
    }

    /// Whose turn is next.
    pub(crate) fn first_in_line(&self) -> Option<u32> {
        Some(self.turns.first).filter(|&first| first != NIL)
    }

    pub(crate) fn data(&self, at: u32) -> u64 {
        self.records.as_ref()[at as usize].data
    }

    fn bucket(&self, data: u64) -> u32 {
        // The high half of a product with an odd number spreads neighbours.
        let mixed = data.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((u128::from(mixed) * u128::from(self.capacity)) >> 64) as u32
    }

    /// Who stands for those who wait for something of this data.
    pub(crate) fn leader(&self, data: u64) -> Option<u32> {
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
    /// free; else the waker is taken.
    pub(crate) fn enter(&mut self, data: u64, stage: Stage, waker: &mut Option<Waker>) -> Option<Id<Record<A>>> {
        let leader = self.leader(data);
        let bucket = self.bucket(data) as usize;
        let records = self.records.as_mut();
        let at = self.free;
        let this = records.get_mut(at as usize)?;
        self.free = this.next;
        (this.data, this.stage, this.leads) = (data, stage, leader.is_none());
        (this.peer_prev, this.peer_next) = (at, at);
        this.waker = waker.take();
        let id = Id::new(at, this.generation);
        self.waiting += 1;
        if let Some(leader) = leader {
            let last = records[leader as usize].peer_prev;
            (records[at as usize].peer_prev, records[at as usize].peer_next) = (last, leader);
            records[last as usize].peer_next = at;
            records[leader as usize].peer_prev = at;
        } else {
            records[at as usize].chain = core::mem::replace(&mut records[bucket].bucket, at);
            let list = if stage == Stage::Turn { &mut self.turns } else { &mut self.events };
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
        let of_turns = records[leader as usize].stage == Stage::Turn;
        let list = if of_turns { &mut self.turns } else { &mut self.events };
        list.unlink(records, leader);
    }

    /// Takes out somebody who waits; the next who waits for the same takes over the place in line.
    fn leave(&mut self, at: u32) {
        let Record { leads, peer_prev, peer_next, stage, .. } = self.records.as_ref()[at as usize];
        if leads && peer_next == at {
            self.dismiss(at);
        } else if leads {
            self.set_chain(at, peer_next);
            let records = self.records.as_mut();
            records[peer_next as usize].chain = records[at as usize].chain;
            records[peer_next as usize].leads = true;
            let list = if stage == Stage::Turn { &mut self.turns } else { &mut self.events };
            list.replace(records, at, peer_next);
        }
        let records = self.records.as_mut();
        records[peer_prev as usize].peer_next = peer_next;
        records[peer_next as usize].peer_prev = peer_prev;
        self.waiting -= 1;
    }

    /// Answers a leader and all who wait for the same, in the order in which they came.
    pub(crate) fn answer(&mut self, leader: u32, mut answer: impl FnMut(u64) -> A) {
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
    pub(crate) fn answer_all(&mut self, mut answer: impl FnMut(u64, Stage) -> A, mut again: impl FnMut(&mut A)) {
        let mut at = self.answered.first;
        while let Some(record) = self.records.as_mut().get_mut(at as usize) {
            record.answer.as_mut().map(&mut again);
            at = record.next;
        }
        while self.turns.first != NIL {
            self.answer(self.turns.first, |data| answer(data, Stage::Turn));
        }
        while self.events.first != NIL {
            self.answer(self.events.first, |data| answer(data, Stage::Event));
        }
    }

    /// Who is to be woken next; each is named once.
    pub(crate) fn next_waker(&mut self) -> Option<Waker> {
        while let Some(record) = self.records.as_mut().get_mut(self.to_wake as usize) {
            self.to_wake = record.next;
            if let Some(waker) = record.waker.take() {
                return Some(waker);
            }
        }
        None
    }

    fn at(&self, id: Id<Record<A>>) -> Option<u32> {
        let record = self.records.as_ref().get(id.index() as usize)?;
        let known = record.generation == id.generation() && record.stage != Stage::Free;
        known.then_some(id.index())
    }

    /// Takes the answer, if there is one; else `waker` is who will be woken. `None` if that is to be asked again, with a clone
    /// of the waker in `spare` where there was none, and with none where there was one: see [`asking`](super::lock::asking).
    /// What is in `spare` afterwards is of no use.
    pub(crate) fn hear(&mut self, id: Id<Record<A>>, waker: &Waker, spare: &mut Option<Waker>) -> Option<Poll<A>> {
        let Some(at) = self.at(id) else { return Some(Poll::Pending) };
        let record = &mut self.records.as_mut()[at as usize];
        let answered = record.stage == Stage::Answered;
        if !answered && record.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            return Some(Poll::Pending);
        }
        if answered == spare.is_some() {
            return None;
        }
        if answered {
            return self.take(at, spare).map(Poll::Ready);
        }
        core::mem::swap(&mut record.waker, spare);
        Some(Poll::Pending)
    }

    /// Ends the wait; the answer, if there is one already. `spare` is empty before; see [`Waiters::hear`].
    pub(crate) fn end(&mut self, id: Id<Record<A>>, spare: &mut Option<Waker>) -> Option<A> {
        let at = self.at(id)?;
        if self.records.as_ref()[at as usize].stage == Stage::Answered {
            return self.take(at, spare);
        }
        self.leave(at);
        self.release(at, spare);
        None
    }

    fn take(&mut self, at: u32, spare: &mut Option<Waker>) -> Option<A> {
        let records = self.records.as_mut();
        if self.to_wake == at {
            self.to_wake = records[at as usize].next;
        }
        self.answered.unlink(records, at);
        let answer = records[at as usize].answer.take();
        self.release(at, spare);
        answer
    }

    fn release(&mut self, at: u32, spare: &mut Option<Waker>) {
        let record = &mut self.records.as_mut()[at as usize];
        *spare = record.waker.take();
        (record.stage, record.leads) = (Stage::Free, false);
        record.generation = record.generation.next();
        record.next = core::mem::replace(&mut self.free, at);
    }
}
