//! Copies of spans that a service process keeps for its ranks.
//!
//! With them, what was read once is not read again. Memory may change under whoever reads it; so only spans of regions
//! are kept whose owner says that they stay as they are until he takes them back
//! ([`Access::CONSTANT`](crate::key::Access::CONSTANT)). Before the first span of a region is kept, the owner's service
//! process is asked for leave, and holds the region for the asker as for a read that is under way: a revocation is over
//! when everybody has dropped his copies, or is gone. So a key opens nothing after its revocation here either, and what
//! is exported next has another key.
//!
//! | operation | from, to | call | answer |
//! |---|---|---|---|
//! | [`KEEP`] | service process, server | the key | status |
//! | [`DROP`] | server, service process | [`Revoke`], forced if the owner is gone | status, when no copy is left |
//! | [`HINT`] | rank, service process | [`Hint`]: what it will read | status: whether all of it is read ahead |
//!
//! [`Revoke`]: super::message::Revoke
//!
//! The machine says which slot holds which span, who waits for it, and what is to be read; its driver has the bytes.
//!
//! ```text
//! ask(asker, want) ──> Here(slot)        answer out of the slot, now
//!                  ──> Later             the asker waits for a fill
//!                  ──> Elsewhere         read it as if nothing was ever kept
//! expect(span)         somebody will ask for it: read ahead, if there is room
//! poll_keep()      ──> a Call KEEP to send; its Done ──> answered
//! poll_fill()      ──> a Get for the reader; its end ──> ended(slot), then next_answer until None
//! poll_elsewhere() ──> whom to read for after all, where leave to keep was refused
//! dropped(key)         the server asks for its region back: answer at once
//! ```
//!
//! Invariants: every `ask` that was told `Later` is answered once, by `next_answer`, `next_late` or `poll_elsewhere`,
//! unless its link goes; a span is read once for all who wait for it; after `dropped` no byte of the region is `Here`.
//!
//! *Cost*: a hit is a look-up of the region and one of the span, O(1) each; `dropped`, `answered` and a link that goes
//! walk the tables.

mod ahead;
mod ask;
mod figures;
mod gone;
mod hint;
mod kept;
mod lent;
mod line;
mod queue;

use core::hash::Hasher as _;

use siphasher::sip::SipHasher13;

use super::read::Get;
use super::relay::Asker;
use super::serve::INLINE_MAX;
use crate::cache::policy::Lru;
use crate::cache::{BuildError, Forgetful, Found, Sparse};
use crate::error::Status;
use crate::key::{Access, Key, Span};
use crate::machine::Link;
use crate::peer::Incarnation;
use crate::region::Region;
use crate::time::{Lapse, Time};
use crate::wire::{Op, Token};

use ahead::Ahead;
pub use ask::{Counters, Reply, Want};
pub use hint::{HINT, HINT_MAX, Hint};
pub use kept::Keeping;
use kept::{Kept, Standing};
use lent::State;
pub use lent::{Lent, Storage, Tag};
pub use line::Waiter;
use line::{Line, List};
use queue::Queue;

/// A service process asks for leave to keep copies of a region.
pub const KEEP: Op = Op(0x0404);
/// The server asks that all copies be dropped.
pub const DROP: Op = Op(0x0405);

/// Bytes of a slot: whatever one answer carries.
pub const SLOT_BYTES: u64 = INLINE_MAX;

/// Marks the tags of reads that fill slots; the rest is the slot.
const FILL: u64 = 1 << 63;

/// The machine.
pub struct Stage<S: Storage> {
    cache: Forgetful<S::Slots, Sparse<S::Places, S::Ids>, Lru>,
    tags: S::Tags,
    /// Slots to be read.
    queue: Queue<S::Queue>,
    ahead: Ahead<S::Queue, S::Links>,
    kept: Kept<S::Regions, S::Keys>,
    line: Line<S::Waiters, S::Links>,
    /// Slots that are [`State::Refused`].
    refused: u32,
    seed: (u64, u64),
    patience: Lapse,
    counters: Counters,
}

impl<S: Storage> Stage<S> {
    /// A machine over lent tables. A read that fills a slot may take `patience`; the seed is random, so that nobody
    /// chooses spans that are taken for each other's.
    ///
    /// # Errors
    /// [`BuildError`] if there are no slots, or fewer places, ids, tags or queue than they need.
    pub fn new(lent: Lent<S>, seed: (u64, u64), patience: Lapse) -> Result<Self, BuildError> {
        let Lent { slots, places, ids, mut tags, queue, ahead, regions, keys, waiters, links, hints, flying } = lent;
        let need = slots.as_ref().len();
        let have = tags.as_ref().len().min(queue.as_ref().len());
        if have < need {
            return Err(BuildError::IndexTooSmall { need, have });
        }
        let count = u32::try_from(need).unwrap_or(u32::MAX);
        let cache = Forgetful::new(slots, Sparse::new(places, ids, seed.0), Lru::new(), 0..count)?;
        tags.as_mut().fill(Tag::NONE);
        Ok(Stage {
            cache,
            tags,
            queue: Queue::new(queue),
            ahead: Ahead::new(ahead, hints, flying, count),
            kept: Kept::new(regions, keys, seed.1),
            line: Line::new(waiters, links),
            refused: 0,
            seed,
            patience,
            counters: Counters::default(),
        })
    }

    /// The id of a span in the cache; that it is really this span is checked by the tag.
    fn name(&self, span: &Span) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(self.seed.0, self.seed.1);
        for word in [span.key.to_bits(), span.offset, span.len] {
            hasher.write_u64(word);
        }
        hasher.finish()
    }

    /// A rank wants a span of a region whose owner lets it be kept, or so the rank says.
    ///
    /// # Errors
    /// [`Status::Full`] if it waits for more than it may, or there is no room to wait.
    pub fn ask(&mut self, asker: Asker, want: Want, now: Time) -> Result<Reply, Status> {
        let Want { span, via, deadline } = want;
        let standing = match span.len {
            1..=SLOT_BYTES => self.kept.enter(span.key, via, now),
            _ => Standing::Refused,
        };
        if standing == Standing::Refused {
            return Ok(self.elsewhere());
        }
        let data = self.name(&span);
        let Ok(grant) = self.cache.alloc(data) else { return Ok(self.elsewhere()) };
        if grant.found == Found::Empty {
            self.retire(grant.slot);
        }
        let Some(tag) = self.tags.as_mut().get_mut(grant.slot as usize) else { return Ok(self.elsewhere()) };
        if grant.found == Found::Empty {
            let state = if standing == Standing::Open { State::Queued } else { State::Parked };
            *tag = Tag { span, via, state, keep: true, hinted: None, early: false, waiting: List::EMPTY };
            if let Err(full) = self.line.join(&mut tag.waiting, grant.slot, asker, deadline) {
                tag.state = State::Quiet;
                self.let_go(grant.slot);
                return Err(full);
            }
            if state == State::Queued {
                self.queue.push(grant.slot);
            }
            return Ok(Reply::Later);
        }
        let (same, state, keep) = (tag.span == span, tag.state, tag.keep);
        let joined = match (grant.found, state) {
            _ if !same => None,
            (Found::Remembered, _) => Some(Ok(Reply::Here(grant.slot))),
            (_, State::Parked | State::Queued | State::Ahead | State::Flying) if keep => {
                Some(self.line.join(&mut tag.waiting, grant.slot, asker, deadline).map(|()| Reply::Later))
            }
            _ => None,
        };
        // Whoever fills the slot has the reference that keeps it.
        self.let_go(grant.slot);
        if let Some(Ok(_)) = joined {
            self.hurry(grant.slot);
        }
        match joined {
            Some(Ok(Reply::Here(slot))) => {
                self.counters.bytes += span.len;
                Ok(Reply::Here(slot))
            }
            Some(joined) => joined,
            None => Ok(self.elsewhere()),
        }
    }

    fn elsewhere(&mut self) -> Reply {
        self.counters.elsewhere += 1;
        Reply::Elsewhere
    }

    /// Gives back a reference to a slot whose tag is of the content that it was taken for.
    fn let_go(&mut self, slot: u32) {
        let Some(tag) = self.tags.as_ref().get(slot as usize) else { return };
        // Where spans share a name, the slot has it all the same.
        let freed = self.cache.free(self.name(&tag.span));
        debug_assert!(freed.is_ok(), "the reference was there");
    }

    /// The next leave to ask for: the key is the body. Poll after `ask` until `None`.
    pub fn poll_keep(&mut self) -> Option<(Link, Token, Key)> {
        self.kept.poll()
    }

    /// The server answered. What waited for leave goes on.
    pub fn answered(&mut self, link: Link, token: Token, status: Status, now: Time) {
        let Some(key) = self.kept.answered(link, token, status == Status::Ok, now) else { return };
        crate::log!(debug, "copies of {:?} may be kept: {:?}", key, status);
        for slot in 0..self.slots() {
            let Some(tag) = self.tags.as_mut().get_mut(slot as usize) else { break };
            if tag.state != State::Parked || tag.span.key != key {
                continue;
            }
            if status != Status::Ok {
                tag.state = State::Refused;
                self.refused += 1;
                self.retire(slot);
            } else if tag.hinted.is_some() && self.ahead.push(slot) {
                tag.state = State::Ahead;
            } else {
                tag.state = State::Queued;
                self.queue.push(slot);
            }
        }
    }

    /// The next read that fills a slot, over a link that `may` be read over: hand it to the reader, which has room for it,
    /// and tell its [end](Self::ended).
    #[must_use]
    pub fn poll_fill(&mut self, now: Time, may: impl Fn(Link) -> bool) -> Option<Get> {
        let via = |tags: &S::Tags, slot: u32| tags.as_ref().get(slot as usize).map(|tag| tag.via);
        while let Some(slot) = self.queue.pop_that(|slot| via(&self.tags, slot).is_none_or(&may)) {
            if let Some(get) = self.fill(slot, now) {
                return Some(get);
            }
        }
        self.poll_ahead(now, may)
    }

    /// The read that fills a slot.
    fn fill(&mut self, slot: u32, now: Time) -> Option<Get> {
        let tag = self.tags.as_mut().get_mut(slot as usize)?;
        tag.state = State::Flying;
        let Span { key, offset, len } = tag.span;
        // Its server knows the region's real bounds; ranks name bytes by their offset.
        let region = Region { key, incarnation: Incarnation::ANY, base: 0, len: u64::MAX, access: Access::READ };
        Some(Get {
            owner: key.owner(),
            via: tag.via,
            address: offset,
            len,
            deadline: now + self.patience,
            tag: FILL | u64::from(slot),
            region: Some(region),
        })
    }

    /// The slot that a read of this tag fills; `None` if it is another kind of read.
    #[must_use]
    pub const fn slot_of(tag: u64) -> Option<u32> {
        if tag & FILL != 0 { Some(tag as u32) } else { None }
    }

    /// A read that fills a slot has ended, and if it `came`, the bytes are in the slot. Then take all answers.
    pub fn ended(&mut self, slot: u32, came: bool) {
        let Some(tag) = self.tags.as_mut().get_mut(slot as usize) else { return };
        if tag.state != State::Flying {
            return;
        }
        tag.state = State::Ended;
        if core::mem::take(&mut tag.early) {
            self.ahead.landed(tag.via);
        }
        let (span, stays) = (tag.span, came && tag.keep);
        if !stays {
            self.retire(slot);
        } else {
            let remembered = self.cache.remember(self.name(&span));
            debug_assert!(remembered.is_ok(), "nobody else fills it");
        }
    }

    /// The next who waits for what has ended. Call until `None`: then the slot may be used for other spans.
    pub fn next_answer(&mut self, slot: u32) -> Option<Asker> {
        let tag = self.tags.as_mut().get_mut(slot as usize).filter(|tag| tag.state == State::Ended)?;
        let next = self.line.leave_first(&mut tag.waiting);
        if next.is_none() {
            tag.state = State::Quiet;
            self.let_go(slot);
        }
        next.map(|(asker, _)| asker)
    }

    /// The next who shall be read for as if nothing was ever kept: its span, and when it gives up. Poll after `answered`,
    /// `dropped` and `on_gone` until `None`.
    #[must_use]
    pub fn poll_elsewhere(&mut self) -> Option<(Asker, Span, Time)> {
        while self.refused > 0 {
            let refused = |tag: &Tag| tag.state == State::Refused;
            let Some(slot) = self.tags.as_ref().iter().position(refused) else {
                self.refused = 0;
                break;
            };
            let Some(tag) = self.tags.as_mut().get_mut(slot) else { break };
            if let Some((asker, deadline)) = self.line.leave_first(&mut tag.waiting) {
                self.counters.elsewhere += 1;
                return Some((asker, tag.span, deadline));
            }
            tag.state = State::Quiet;
            self.refused -= 1;
            self.let_go(slot as u32);
        }
        None
    }

    /// The server asks for a region back. When this returns, no copy is left that anybody is told of.
    pub fn dropped(&mut self, link: Link, key: Key) {
        if self.kept.remove(key, link) {
            self.forget(key);
        }
    }

    fn forget(&mut self, key: Key) {
        crate::log!(debug, "copies of {:?} are dropped", key);
        self.counters.dropped += 1;
        for slot in 0..self.slots() {
            let Some(tag) = self.tags.as_mut().get_mut(slot as usize).filter(|tag| tag.span.key == key) else {
                continue;
            };
            tag.keep = false;
            match tag.state {
                State::Quiet | State::Ended => {
                    let span = tag.span;
                    // Content that is given up, or was never there, is none to forget.
                    let _ = self.cache.forget_later(self.name(&span));
                }
                State::Parked => {
                    tag.state = State::Refused;
                    self.refused += 1;
                }
                State::Queued | State::Ahead | State::Flying | State::Refused => {}
            }
            self.retire(slot);
        }
    }
}
