//! Down the tree: the one table, and the news of the end.
//!
//! The receiver says how much it has, and gets the next piece; so nothing has to be remembered about a receiver but
//! one number, and somebody who asks out of turn is served as well.

use crate::codec::Reader;
use crate::endpoints::GroupKey;
use crate::error::Status;
use crate::id::Generation;
use crate::machine::Link;
use crate::peer::Sp;
use crate::time::Time;
use crate::wire::{Op, Token};

use super::super::cause::Cause;
use super::super::draft;
use super::super::message::{End, HEAD_BYTES, Head, MessageError, Reply, SNAPSHOT_BYTES, Snapshot, ops};
use super::super::record::{DONE, NEIGHBOURS, Phase};
use super::super::shelf::Shelf;
use super::records::Entered;
use super::{Answer, Service, Storage};

impl<S: Storage, C: Shelf> Service<'_, S, C> {
    /// Writes the next piece of news for a neighbour, if there is one: its link and length.
    pub(super) fn push_down(&mut self, at: u32, buffer: &mut [u8], now: Time) -> Option<(Link, usize)> {
        let phase = self.rec(at).phase;
        for n in 0..NEIGHBOURS {
            let record = self.rec(at);
            let got = record.pushed.get(n).copied().unwrap_or(DONE);
            if got == DONE || record.outstanding >> n & 1 == 1 {
                continue;
            }
            let Some(sp) = self.neighbour(at, n) else { continue };
            let Some(link) = self.link_to(sp) else {
                self.want(sp, now);
                continue;
            };
            let len = if phase == Phase::Full {
                let asks = self.rec(at).spoken >> n & 1 == 1;
                let len = self.write_piece(at, got, asks, buffer);
                if let Some((len, true)) = len {
                    // Whoever asks until it is full does not answer when it is.
                    if let Some(got) = self.rec_mut(at).pushed.get_mut(n) {
                        *got = DONE;
                    }
                    return Some((link, len));
                }
                len.map(|(len, _)| len)
            } else {
                let record = self.rec(at);
                let (generation, cause) = match phase {
                    Phase::Ended => (record.generation, record.cause),
                    _ => (record.before, record.before_cause),
                };
                self.write_end(record.key, generation, self.root_of(at), cause, buffer)
            };
            self.rec_mut(at).outstanding |= 1 << n;
            if let Some(len) = len {
                return Some((link, len));
            }
        }
        None
    }

    /// Writes the piece of a table that starts at `offset`; its length, and whether it is all of the table and needs no
    /// answer, because the receiver `asks` until it has the table.
    pub(super) fn write_piece(&mut self, at: u32, offset: u32, asks: bool, buffer: &mut [u8]) -> Option<(usize, bool)> {
        let record = self.rec(at);
        let handle = record.handle?;
        let room = draft::room(buffer.len()).checked_sub(HEAD_BYTES + SNAPSHOT_BYTES)? & !7;
        if offset >= record.table_len || !offset.is_multiple_of(8) {
            return None;
        }
        let head = Head { key: record.key, generation: record.generation, from: self.config.incarnation };
        let (root, size, total, digest) = (self.root_of(at), record.size, record.table_len, record.digest);
        let whole = offset == 0 && total as usize <= room;
        let quiet = whole && asks;
        let before = draft::call(buffer, ops::SNAPSHOT, Token(u64::from(offset)), |w| {
            head.emit(w)?;
            Snapshot { root, size, total, offset, digest, answer: !quiet, bytes: &[] }.emit_head(w, whole)
        })?;
        let copied = self.shelf.copy(handle, offset, buffer.get_mut(before..before + room)?);
        self.counters.snapshots_sent += 1;
        Some((draft::extend(buffer, before, copied)?, quiet))
    }

    pub(super) fn write_end(
        &self,
        key: GroupKey,
        generation: Generation,
        root: Sp,
        cause: Cause,
        buffer: &mut [u8],
    ) -> Option<usize> {
        let head = Head { key, generation, from: self.config.incarnation };
        draft::call(buffer, ops::END, Token(0), |w| {
            head.emit(w)?;
            End { root, cause }.emit(w)
        })
    }

    /// Tells somebody who speaks of an old generation which one ended last.
    pub(super) fn answer_end(&mut self, link: Link, key: GroupKey, generation: Generation) {
        let Some(at) = self.find(key) else { return };
        let record = self.rec(at);
        let cause = if record.phase == Phase::Ended && record.generation == generation {
            record.cause
        } else if record.before == generation {
            record.before_cause
        } else {
            Cause::LEFT
        };
        let root = self.root_of(at);
        self.answers.push(Answer::End { link, key, generation, root, cause });
    }

    pub(super) fn neighbour_number(&self, at: u32, sp: Sp) -> Option<usize> {
        (0..NEIGHBOURS).find(|&n| self.neighbour(at, n) == Some(sp))
    }

    /// A service process that should have the table does not.
    pub(super) fn push_again(&mut self, at: u32, sp: Sp, link: Link) {
        match self.neighbour_number(at, sp) {
            Some(n) => {
                let record = self.rec_mut(at);
                if record.outstanding >> n & 1 == 0 {
                    if let Some(got) = record.pushed.get_mut(n).filter(|got| **got == DONE) {
                        *got = 0;
                    }
                    self.stir(at);
                }
            }
            None => self.answers.push(Answer::Piece { link, key: self.rec(at).key, offset: 0 }),
        }
    }

    /// A neighbour says how much of the table it has, or that it knows of the end.
    pub(super) fn on_pushed(
        &mut self,
        link: Link,
        sp: Sp,
        _token: Token,
        op: Op,
        body: &[u8],
        now: Time,
    ) -> Result<(), MessageError> {
        let Reply { head, word } = Reply::parse(body)?;
        let Some(at) = self.find(head.key) else { return Ok(()) };
        let record = self.rec(at);
        let current = head.generation == record.generation;
        let expected = match record.phase {
            Phase::Unused => false,
            Phase::Gathering => op == ops::END && head.generation == record.before,
            Phase::Full => op == ops::SNAPSHOT && current,
            Phase::Ended => op == ops::END && current,
        };
        if !expected {
            return Ok(());
        }
        let total = record.table_len;
        let done = op == ops::END || word >= total;
        match self.neighbour_number(at, sp) {
            Some(n) => {
                let record = self.rec_mut(at);
                let Some(got) = record.pushed.get_mut(n) else { return Ok(()) };
                if done {
                    *got = DONE;
                } else if *got != DONE && word > *got {
                    *got = word;
                } else {
                    // It had no room for the table and has dropped what came: all of it is sent again, when it is time to
                    // repeat the last piece.
                    if *got != DONE {
                        *got = word;
                    }
                    return Ok(());
                }
                record.outstanding &= !(1 << n);
                self.calm(at);
                self.stir(at);
                self.check_settled(at, now);
            }
            None if !done => self.answers.push(Answer::Piece { link, key: head.key, offset: word }),
            None => {}
        }
        Ok(())
    }

    /// A piece of a table arrives.
    pub(super) fn on_snapshot(&mut self, link: Link, token: Token, body: &[u8], now: Time) -> Result<(), MessageError> {
        let mut r = Reader::new(body);
        let head = Head::parse(&mut r)?;
        let piece = Snapshot::parse(&mut r)?;
        let Head { key, generation, .. } = head;
        if generation.0 == 0 {
            return Err(MessageError::BadField);
        }
        let answer = |service: &mut Self, word| {
            let status = Status::Ok;
            if piece.answer {
                service.answers.push(Answer::Done { link, op: ops::SNAPSHOT, token, status, key, generation, word });
            }
        };
        let at = match self.enter(key, generation, piece.root, piece.size, true, now) {
            Entered::At(at) => at,
            Entered::Stale(last) => {
                self.counters.stale += 1;
                let at = self.find(key).filter(|&at| self.rec(at).generation == generation);
                if at.is_some_and(|at| self.rec(at).cause.status == Status::Conflict) {
                    // Ranks here said what fits nobody else: that is their affair, and no end of the group.
                    answer(self, piece.total);
                } else {
                    // What is over for members of a group is over: the sender did not know.
                    self.answer_end(link, key, last);
                }
                return Ok(());
            }
            Entered::Conflict(field) => {
                self.counters.conflicts += 1;
                if let Some(at) = self.find(key).filter(|&at| self.rec(at).phase == Phase::Gathering) {
                    let _ = field;
                    self.end_here(at, Cause::of(Status::Conflict));
                }
                answer(self, piece.total);
                return Ok(());
            }
            Entered::Busy | Entered::NoRoom => return Ok(()),
        };
        if self.rec(at).phase == Phase::Full {
            self.counters.duplicates += 1;
            answer(self, piece.total);
            return Ok(());
        }
        let Some(received) = self.take_piece(at, &piece) else {
            self.counters.no_room += 1;
            return Ok(());
        };
        self.calm(at);
        if received < piece.total {
            answer(self, received);
            return Ok(());
        }
        if self.publish_incoming(at, &piece, now) {
            answer(self, piece.total);
        } else {
            self.stir(at);
        }
        Ok(())
    }

    /// Adds a piece that continues what is there; how much is there then. `None` if there is no room.
    fn take_piece(&mut self, at: u32, piece: &Snapshot<'_>) -> Option<u32> {
        let record = self.rec(at);
        if record.incoming.is_none() || record.table_len != piece.total || record.digest != piece.digest {
            let mut incoming = self.rec_mut(at).incoming.take();
            self.heap.give(&mut incoming);
            let words = (piece.total as usize).div_ceil(8);
            let incoming = Some(self.heap.take(words)?);
            let record = self.rec_mut(at);
            record.incoming = incoming;
            record.received = 0;
            record.table_len = piece.total;
            record.digest = piece.digest;
        }
        let record = self.rec(at);
        let (incoming, received) = (record.incoming, record.received);
        if piece.offset == received {
            let from = received as usize;
            self.heap.bytes_mut(&incoming).get_mut(from..from + piece.bytes.len())?.copy_from_slice(piece.bytes);
            self.rec_mut(at).received = received + piece.bytes.len() as u32;
        }
        Some(self.rec(at).received)
    }

    /// A generation has ended. The news come from the parent as a rule, but whoever knows of the end tells all its
    /// neighbours, since the authority may have lost its memory.
    pub(super) fn on_end(
        &mut self,
        link: Link,
        sp: Sp,
        token: Token,
        body: &[u8],
        now: Time,
    ) -> Result<(), MessageError> {
        let mut r = Reader::new(body);
        let head = Head::parse(&mut r)?;
        let End { root, cause } = End::parse(&mut r)?;
        let Head { key, generation, .. } = head;
        if generation.0 == 0 {
            return Err(MessageError::BadField);
        }
        let (status, word) = (Status::Ok, 0);
        let answer = Answer::Done { link, op: ops::END, token, status, key, generation, word };
        let at = match self.find(key) {
            // The size does not matter for a group that is over.
            None => match self.enter(key, generation, root, 1, true, now) {
                Entered::At(at) => at,
                _ => return Ok(()),
            },
            Some(at) => at,
        };
        self.answers.push(answer);
        let record = self.rec(at);
        if record.generation > generation || (record.generation == generation && record.phase == Phase::Ended) {
            if record.generation > generation {
                self.counters.stale += 1;
            }
            return Ok(());
        }
        if record.generation < generation {
            if record.phase != Phase::Ended {
                self.end_here(at, Cause::LEFT);
            }
            self.leave_behind(at);
            let size = self.rec(at).size;
            self.begin(at, generation, root, size, now);
        }
        self.end(at, cause, now);
        if let Some(n) = self.neighbour_number(at, sp)
            && let Some(got) = self.rec_mut(at).pushed.get_mut(n)
        {
            *got = DONE;
        }
        self.check_settled(at, now);
        Ok(())
    }
}
