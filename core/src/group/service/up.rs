//! Up the tree: what the subtree knows goes to the parent, in order, one message at a time.
//!
//! While a message is unanswered, news gather and travel together in the next one; a lost message is repeated from
//! where the parent's knowledge ends. So each entry crosses each hop once unless something is lost.

use crate::codec::Reader;
use crate::error::Status;
use crate::machine::Link;
use crate::peer::Sp;
use crate::time::Time;
use crate::wire::{HEAD, Token};

use super::super::cause::Cause;
use super::super::draft;
use super::super::message::{
    ENTRIES_BYTES, Entries, HEAD_BYTES, Head, MessageError, Part, Phase as Saying, Reply, ops,
};
use super::super::record::Phase;
use super::super::shelf::Shelf;
use super::records::Entered;
use super::{Answer, Service, Storage};

/// Bytes of a part before its entries.
const BEFORE: usize = HEAD_BYTES + 9;

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
        if part.entries().any(|entries| entries.sp.0 >= known) {
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
        // Somebody below waits for the end, and the answer may be known further up.
        let asks = leave && part.entries().next().is_none() && self.rec(at).phase == Phase::Full;
        self.rec_mut(at).pull |= asks;
        if !leave && self.rec(at).phase == Phase::Full {
            // The child is behind: it gets the table, in turn if it is a child of this tree.
            self.answers.push(answer(Status::Ok, 0));
            self.push_again(at, sp, link);
            return Ok(());
        }
        for entries in part.entries() {
            if self.add(at, leave, entries).is_none() {
                self.counters.no_room += 1;
                return Ok(());
            }
        }
        self.answers.push(answer(Status::Ok, 0));
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
        let joined = gathering && (news(&record.joined) || (record.pull && record.joined.serial == 0));
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
        let room = (draft::room(buffer.len()).saturating_sub(BEFORE) / ENTRIES_BYTES) as u32;
        let count = (flow.len - flow.sent).min(room);
        let list = self.heap.words(&flow.list);
        let len = draft::call(buffer, ops::PART, Token(u64::from(serial)), |w| {
            head.emit(w)?;
            Part::emit_head(w, root, size, if leave { Saying::Leave } else { Saying::Join })?;
            let from = flow.sent as usize * 2;
            for words in list.get(from..from + count as usize * 2).unwrap_or(&[]).chunks_exact(2) {
                if let &[first, second] = words {
                    Entries::from_words([first, second]).emit(w)?;
                }
            }
            Ok(())
        })?;
        flow.sent += count;
        flow.serial = serial;
        *self.flow(at, leave) = flow;
        if full || !leave {
            self.rec_mut(at).pull = false;
        }
        self.counters.entries_sent += u64::from(count);
        self.counters.parts_sent += 1;
        debug_assert!(len >= HEAD + BEFORE);
        Some((link, len))
    }
}
