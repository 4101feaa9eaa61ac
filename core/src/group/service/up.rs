//! Up the tree: what the subtree knows, in order, one message at a time.
//!
//! While a message is unanswered, news gather and travel together in the next one; a lost message is repeated from
//! where the parent's knowledge ends. So each entry crosses each hop once unless something is lost.
//!
//! Of the world group, in which everybody takes part, a service process waits for its own ranks and for its children
//! before it speaks the first time, though no longer than until a first repetition would be due; and that first message
//! needs no answer, for the table will come instead. So as a rule one message goes up each edge of the tree.

use crate::codec::Reader;
use crate::error::Status;
use crate::machine::Link;
use crate::peer::Sp;
use crate::time::Time;
use crate::wire::Token;

use super::super::cause::Cause;
use super::super::draft;
use super::super::message::{
    Entries, HEAD_BYTES, Head, MessageError, PART_BYTES, Part, Phase as Saying, RUN_BYTES, Reply, emit_entries, ops,
};
use super::super::record::{NEIGHBOURS, Phase};
use super::super::shelf::Shelf;
use super::records::Entered;
use super::{Answer, Service, Storage};

impl<S: Storage, C: Shelf> Service<'_, S, C> {
    /// A child says what its subtree knows.
    pub(super) fn on_part(
        &mut self,
        link: Link,
        sp: Sp,
        token: Token,
        body: &[u8],
        now: Time,
    ) -> Result<(), MessageError> {
        let mut r = Reader::new(body);
        let head = Head::parse(&mut r)?;
        let part = Part::parse(&mut r)?;
        if head.generation.0 == 0 {
            return Err(MessageError::BadField);
        }
        let known = self.placement.service_processes();
        if part.size <= self.config.ranks_max && part.entries().any(|entries| entries.sp.0 >= known) {
            self.counters.foreign += 1;
            return Ok(());
        }
        let Head { key, generation, .. } = head;
        let answer = |status, word| Answer::Done { link, op: ops::PART, token, status, key, generation, word };
        let at = match self.enter(key, generation, part.root, part.size, true, now) {
            Entered::At(at) => at,
            Entered::Stale(last) => {
                self.counters.stale += 1;
                self.answer_end(link, key, last);
                return Ok(());
            }
            Entered::Conflict(field) => {
                self.counters.conflicts += 1;
                self.answers.push(answer(Status::Conflict, field as u32));
                return Ok(());
            }
            Entered::Busy | Entered::NoRoom => return Ok(()),
        };
        let leave = part.phase == Saying::Leave;
        if let Some(n) = self.neighbour_number(at, sp).filter(|_| !leave) {
            self.rec_mut(at).spoken |= 1 << n;
        }
        // Somebody below waits for the end, and the answer may be known further up.
        let asks = leave && part.entries().next().is_none() && self.rec(at).phase == Phase::Full;
        self.rec_mut(at).pull |= asks;
        if !leave && self.rec(at).phase == Phase::Full {
            // The child is behind: it gets the table, in turn if it is a child of this tree.
            if part.answer {
                self.answers.push(answer(Status::Ok, 0));
            }
            self.push_again(at, sp, link);
            return Ok(());
        }
        for entries in part.entries() {
            if self.add(at, leave, entries).is_none() {
                self.counters.no_room += 1;
                return Ok(());
            }
        }
        if part.answer {
            self.answers.push(answer(Status::Ok, 0));
        }
        if leave {
            self.check_ended(at, now)
        } else {
            self.check_full(at, now)
        }
        self.check_poisoned(at, now);
        self.stir(at);
        Ok(())
    }

    /// The parent answers.
    pub(super) fn on_part_done(
        &mut self,
        sp: Sp,
        token: Token,
        status: Status,
        body: &[u8],
        now: Time,
    ) -> Result<(), MessageError> {
        let reply = Reply::parse(body)?;
        let Some(at) = self.find(reply.head.key) else { return Ok(()) };
        let record = self.rec(at);
        if record.generation != reply.head.generation || self.parent(at) != Some(sp) {
            self.counters.stale += 1;
            return Ok(());
        }
        if status == Status::Conflict && record.phase == Phase::Gathering {
            self.counters.conflicts += 1;
            self.end_here(at, Cause { sp: Some(sp), ..Cause::of(Status::Conflict) });
            return Ok(());
        }
        let serial = token.0 as u32;
        for leave in [false, true] {
            let flow = self.flow(at, leave);
            if flow.serial == serial && serial != 0 {
                flow.acked = flow.sent;
                flow.serial = 0;
                self.calm(at);
                self.stir(at);
            }
        }
        self.check_settled(at, now);
        Ok(())
    }

    /// Writes the next message to the parent, if there is something to say: its link and length.
    pub(super) fn part_up(&mut self, at: u32, buffer: &mut [u8], now: Time) -> Option<(Link, usize)> {
        let record = self.rec(at);
        let (gathering, full) = (record.phase == Phase::Gathering, record.phase == Phase::Full);
        let news = |flow: &super::super::record::Flow| flow.serial == 0 && flow.sent < flow.len;
        let joined =
            gathering && !self.holds_back(at) && (news(&record.joined) || (record.pull && record.joined.serial == 0));
        // In a tree that has changed, or when a rank waits for the end, the parent of a full group is asked for it.
        let left = (gathering || full) && news(&record.left) || full && record.pull && record.left.serial == 0;
        if !(joined || left) || self.is_root(at) {
            return None;
        }
        let parent = self.parent(at)?;
        let Some(link) = self.link_to(parent) else {
            self.want(parent, now);
            return None;
        };
        let leave = !joined;
        self.serial = self.serial.wrapping_add(1).max(1);
        let serial = self.serial;
        let record = self.rec_mut(at);
        let head = Head { key: record.key, generation: record.generation, from: self.config.incarnation };
        let (root, size) = (self.root_of(at), self.rec(at).size);
        let mut flow = *self.flow(at, leave);
        if flow.serial == 0 {
            // A first message without an answer may be lost.
            flow.sent = flow.acked;
        }
        let room = draft::room(buffer.len()).saturating_sub(HEAD_BYTES + PART_BYTES);
        let fresh = flow.sent as usize * 2..flow.len as usize * 2;
        let quiet = !leave && self.may_be_quiet(at) && (flow.len as usize) * RUN_BYTES <= room;
        let list = self.heap.words_mut(&flow.list).get_mut(fresh).unwrap_or(&mut []);
        // In the order of service processes, so that those of a regular placement become one run.
        list.as_chunks_mut::<2>().0.sort_unstable();
        let mut count = 0;
        let len = draft::call(buffer, ops::PART, Token(u64::from(serial)), |w| {
            head.emit(w)?;
            Part::emit_head(w, root, size, if leave { Saying::Leave } else { Saying::Join }, !quiet)?;
            count = emit_entries(w, list.as_chunks::<2>().0.iter().copied().map(Entries::from_words))?;
            Ok(())
        })?;
        flow.sent += count;
        flow.serial = if quiet { 0 } else { serial };
        *self.flow(at, leave) = flow;
        if full || !leave {
            self.rec_mut(at).pull = false;
        }
        self.counters.entries_sent += u64::from(count);
        self.counters.parts_sent += 1;
        Some((link, len))
    }

    /// Whether this is the time before the first repetition about the world group, in which few words do.
    fn is_early(&self, at: u32) -> bool {
        let record = self.rec(at);
        record.is_world() && !record.hurry && record.joined.acked == 0
    }

    /// Whether more is likely to come soon: a child or a rank that is served here has not spoken yet.
    fn holds_back(&self, at: u32) -> bool {
        let record = self.rec(at);
        let child = |n: usize| record.spoken >> n & 1 == 0 && self.neighbour(at, n).is_some();
        self.is_early(at) && record.joined.sent == 0 && (!record.joined_out || (0..NEIGHBOURS - 1).any(child))
    }

    /// Whether the next message up needs no answer.
    fn may_be_quiet(&self, at: u32) -> bool {
        self.is_early(at) && self.rec(at).joined.sent == 0
    }
}
