//! The records of those who wait, and lists of them.

use core::task::Waker;

use crate::id::Generation;

/// The end of a list, and no waiter.
pub(super) const NIL: u32 = u32::MAX;

/// The record of one who waits for an answer; a cache is lent an array of them.
#[derive(Debug)]
pub struct Record<A> {
    pub(super) data: u64,
    pub(super) generation: Generation,
    pub(super) stage: Stage,
    /// Whether this one stands in a list for all who wait for the same.
    pub(super) leads: bool,
    /// Neighbours in the list, or the next free record.
    pub(super) prev: u32,
    pub(super) next: u32,
    /// Neighbours in the circle of those who wait for the same.
    pub(super) peer_prev: u32,
    pub(super) peer_next: u32,
    /// The first leader whose data belongs to the bucket of this record's number.
    pub(super) bucket: u32,
    /// The next leader of the same bucket.
    pub(super) chain: u32,
    pub(super) answer: Option<A>,
    pub(super) waker: Option<Waker>,
}

/// What a waiter waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    Free,
    /// Its turn: who came first is served first.
    Turn,
    /// Something that happens to what it named, to all who wait for that at once.
    Event,
    /// Nothing any more: the answer is there.
    Answered,
}

impl<A> Record<A> {
    /// A record that nobody has used yet.
    pub const EMPTY: Self = Record {
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

impl<A> Default for Record<A> {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// The first and last of a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    pub(super) first: u32,
    last: u32,
}

impl List {
    pub(super) const EMPTY: List = List { first: NIL, last: NIL };

    pub(super) fn push<A>(&mut self, waiters: &mut [Record<A>], at: u32) {
        let this = &mut waiters[at as usize];
        (this.prev, this.next) = (self.last, NIL);
        match waiters.get_mut(self.last as usize) {
            Some(last) => last.next = at,
            None => self.first = at,
        }
        self.last = at;
    }

    pub(super) fn unlink<A>(&mut self, waiters: &mut [Record<A>], at: u32) {
        let Record { prev, next, .. } = waiters[at as usize];
        self.join(waiters, prev, next);
    }

    /// Puts one in the place of another.
    pub(super) fn replace<A>(&mut self, waiters: &mut [Record<A>], old: u32, new: u32) {
        let Record { prev, next, .. } = waiters[old as usize];
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

    fn join<A>(&mut self, waiters: &mut [Record<A>], prev: u32, next: u32) {
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
