//! Spans that ranks said they will read, and that are read before they ask.
//!
//! A hint may be wrong, and a rank may give any number of them. So what was read ahead and not asked for takes half of the
//! slots at most, and half of that for one rank; what ranks wait for is read first; and a hint that there is no room for is
//! dropped. Whoever asks for the span first, this rank or another, has *used* it; what leaves before that was *wasted*.

use super::lent::{State, Storage};
use super::queue::Queue;
use super::{List, SLOT_BYTES, Stage, Standing, Tag};
use crate::access::read::Get;
use crate::error::Status;
use crate::key::Span;
use crate::machine::Link;
use crate::time::Time;

/// Reads ahead that are under way at once over one link, so that a read that somebody waits for is behind few others. A
/// link that does not answer holds no more than its own.
const FLYING: u32 = 4;

/// What is to be read ahead, and what was and is not used.
#[derive(Debug)]
pub(super) struct Ahead<Q, L> {
    queue: Queue<Q>,
    /// Slots that are not used, by the link of who gave the hint.
    unused: L,
    all: u32,
    /// Reads under way, by the link that they are made over.
    flying: L,
    /// Most slots that may be unused, of all and of one.
    most: u32,
}

impl<Q, L> Ahead<Q, L>
where
    Q: AsRef<[u32]> + AsMut<[u32]>,
    L: AsRef<[u32]> + AsMut<[u32]>,
{
    pub(super) fn new(queue: Q, mut unused: L, mut flying: L, slots: u32) -> Self {
        unused.as_mut().fill(0);
        flying.as_mut().fill(0);
        Ahead { queue: Queue::new(queue), unused, all: 0, flying, most: slots / 2 }
    }

    fn has_room(&self, link: Link) -> bool {
        let of_link = self.unused.as_ref().get(link.index());
        !self.queue.is_full() && self.all < self.most && of_link.is_some_and(|&unused| unused < self.most.div_ceil(2))
    }

    pub(super) const fn all(&self) -> u32 {
        self.all
    }

    fn count(&mut self, link: Link) {
        if let Some(unused) = self.unused.as_mut().get_mut(link.index()) {
            *unused += 1;
            self.all += 1;
        }
    }

    fn uncount(&mut self, link: Link) {
        if let Some(unused) = self.unused.as_mut().get_mut(link.index()) {
            *unused = unused.saturating_sub(1);
            self.all = self.all.saturating_sub(1);
        }
    }

    pub(super) fn push(&mut self, slot: u32) -> bool {
        self.queue.push(slot)
    }

    fn depart(&mut self, via: Link) {
        if let Some(flying) = self.flying.as_mut().get_mut(via.index()) {
            *flying += 1;
        }
    }

    /// A read ahead over a link has ended.
    pub(super) fn landed(&mut self, via: Link) {
        if let Some(flying) = self.flying.as_mut().get_mut(via.index()) {
            *flying = flying.saturating_sub(1);
        }
    }
}

impl<S: Storage> Stage<S> {
    /// A rank will read a span of a region whose owner lets it be kept, or so it says: read it ahead if there is room. The
    /// spans of a hint are its [pieces](super::Hint::pieces). Poll afterwards as after `ask`.
    ///
    /// # Errors
    /// The hint is dropped: [`Status::Full`] if there is no room now, [`Status::PermissionDenied`] if the region is not to be
    /// kept, [`Status::OutOfBounds`] if the span is no piece.
    pub fn expect(&mut self, link: Link, span: Span, via: Link, now: Time) -> Result<(), Status> {
        let taken = self.take_hint(link, span, via, now);
        self.counters.refused += u64::from(taken.is_err());
        taken
    }

    fn take_hint(&mut self, link: Link, span: Span, via: Link, now: Time) -> Result<(), Status> {
        if !(1..=SLOT_BYTES).contains(&span.len) {
            return Err(Status::OutOfBounds);
        }
        let data = self.name(&span);
        if self.cache.state(data).is_ok_and(|state| state.is_some()) {
            // It is there, or on its way.
            return Ok(());
        }
        if !self.ahead.has_room(link) {
            return Err(Status::Full);
        }
        let standing = self.kept.enter(span.key, via, now);
        if standing == Standing::Refused {
            return Err(Status::PermissionDenied);
        }
        // What somebody reads or waits for has references, and stays.
        let slot = self.cache.alloc(data).map_err(|_| Status::Full)?.slot;
        self.retire(slot);
        let state = if standing == Standing::Open { State::Ahead } else { State::Parked };
        if let Some(tag) = self.tags.as_mut().get_mut(slot as usize) {
            *tag = Tag { span, via, state, keep: true, hinted: Some(link), early: false, waiting: List::EMPTY };
        }
        if state == State::Ahead {
            self.ahead.push(slot);
        }
        self.ahead.count(link);
        self.counters.prefetched += 1;
        Ok(())
    }

    /// The next read ahead, over a link that `may` be read over, and over which not too many are under way.
    pub(super) fn poll_ahead(&mut self, now: Time, may: impl Fn(Link) -> bool) -> Option<Get> {
        loop {
            let Stage { ahead: Ahead { queue, flying, .. }, tags, .. } = self;
            let (tags, flying) = (tags.as_ref(), flying.as_ref());
            let may_fly = |via: Link| flying.get(via.index()).is_some_and(|&flying| flying < FLYING) && may(via);
            let is_due = |tag: &Tag| tag.state != State::Ahead || tag.hinted.is_none() || may_fly(tag.via);
            let slot = queue.pop_that(|slot| tags.get(slot as usize).is_none_or(is_due))?;
            let Some(tag) = self.tags.as_mut().get_mut(slot as usize) else { continue };
            if tag.state != State::Ahead {
                // Somebody could not wait, and it was read.
                continue;
            }
            if tag.hinted.is_none() {
                // Nobody expects it any more.
                tag.state = State::Quiet;
                self.let_go(slot);
                continue;
            }
            tag.early = true;
            self.ahead.depart(tag.via);
            return self.fill(slot, now);
        }
    }

    /// Somebody asks for what a slot holds or will hold; if nothing else has begun it, it is read now.
    pub(super) fn hurry(&mut self, slot: u32) {
        if let Some(tag) = self.tags.as_mut().get_mut(slot as usize).filter(|tag| tag.state == State::Ahead) {
            tag.state = State::Queued;
            self.queue.push(slot);
        }
        if let Some(link) = self.unhint(slot) {
            self.ahead.uncount(link);
            self.counters.used += 1;
        }
    }

    /// What was in a slot, or should have come, is not there any more.
    pub(super) fn retire(&mut self, slot: u32) {
        if let Some(link) = self.unhint(slot) {
            self.ahead.uncount(link);
            self.counters.wasted += 1;
        }
    }

    fn unhint(&mut self, slot: u32) -> Option<Link> {
        self.tags.as_mut().get_mut(slot as usize)?.hinted.take()
    }

    /// Nobody at this link will read what he has said.
    pub(super) fn hints_gone(&mut self, link: Link) {
        for slot in 0..self.slots() {
            if self.tags.as_ref().get(slot as usize).is_some_and(|tag| tag.hinted == Some(link)) {
                self.retire(slot);
            }
        }
    }
}
