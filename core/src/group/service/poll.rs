//! What to do next: answers, then signs of life, news for the owner, and groups.
//!
//! The groups come in turn.

use crate::machine::{Action, Link};
use crate::time::Time;
use crate::wire::Token;

use super::super::draft;
use super::super::message::{Head, Ready, Reply, ViewEntry, WORLD, ops};
use super::super::record::{DONE, Phase};
use super::super::shelf::Shelf;
use super::peers::Work;
use super::records::Resends;
use super::report::Event;
use super::{Answer, Service, Storage};
use crate::id::Generation;
use crate::machine::Role;
use crate::peer::Sp;

impl<S: Storage, C: Shelf> Service<'_, S, C> {
    pub(super) fn next_action(&mut self, now: Time, buffer: &mut [u8]) -> Option<Action<Event>> {
        while let Some(answer) = self.answers.pop() {
            if let Some(action) = self.answer(answer, buffer) {
                return Some(self.count(action));
            }
        }
        while let Some((sp, work)) = self.peer_work(now) {
            let (link, len_bytes) = match work {
                Work::Connect => return Some(Action::Connect { sp }),
                Work::Ping(link) => (link, draft::null(buffer, ops::PING, self.view)),
                Work::View(link) => (link, self.write_view(buffer)),
            };
            if let Some(len_bytes) = len_bytes {
                return Some(self.count(Action::Send { link, len_bytes }));
            }
        }
        while let Some(link) = self.rank_to_ping() {
            if let Some(len_bytes) = draft::null(buffer, ops::PING, 0) {
                return Some(self.count(Action::Send { link, len_bytes }));
            }
        }
        if let Some(event) = self.events.pop() {
            return Some(Action::Event(event));
        }
        while let Some(at) = self.next_work() {
            if self.rec(at).phase == Phase::Unused {
                self.free_forgotten(at);
                continue;
            }
            let sent = self.work_on(at, buffer, now);
            let stage = self.stage(at);
            let record = self.rec_mut(at);
            let (key, generation) = (record.key, record.generation);
            if core::mem::replace(&mut record.shown, stage) != stage {
                self.events.push(Event::Stage { key, generation, stage });
            }
            if let Some((link, len_bytes)) = sent {
                self.stir(at);
                return Some(self.count(Action::Send { link, len_bytes }));
            }
            if self.awaits(at) {
                if !self.rec(at).resend.is_armed() {
                    let step = self.rec(at).step;
                    self.resends.arm(&mut Resends(self.records.as_mut()), at, step, now);
                }
            } else {
                self.resends.disarm(&mut Resends(self.records.as_mut()), at);
            }
        }
        self.events.pop().map(Action::Event)
    }

    fn work_on(&mut self, at: u32, buffer: &mut [u8], now: Time) -> Option<(Link, usize)> {
        // What there was no room for when it happened is tried again.
        self.add_own(at, false, false);
        self.add_own(at, true, false);
        self.check_full(at, now);
        self.check_ended(at, now);
        self.part_up(at, buffer, now).or_else(|| self.push_down(at, buffer, now)).or_else(|| self.tell(at, buffer))
    }

    /// Writes what a local rank has to know about its group.
    fn tell(&mut self, at: u32, buffer: &mut [u8]) -> Option<(Link, usize)> {
        let (link, _, behind) = self.next_to_tell(at)?;
        let record = self.rec(at);
        let from = self.config.incarnation;
        let head = |generation: Generation| Head { key: record.key, generation, from };
        let len = if behind {
            draft::call(buffer, ops::ENDED, Token(0), |w| {
                head(record.before).emit(w)?;
                record.before_cause.emit(w)
            })
        } else if record.phase == Phase::Ended {
            draft::call(buffer, ops::ENDED, Token(0), |w| {
                head(record.generation).emit(w)?;
                record.cause.emit(w)
            })
        } else {
            let handle = record.handle?.to_bits();
            draft::call(buffer, ops::READY, Token(0), |w| {
                head(record.generation).emit(w)?;
                Ready { handle, size: record.size, digest: record.digest }.emit(w)
            })
        };
        Some((link, len?))
    }

    fn answer(&mut self, answer: Answer, buffer: &mut [u8]) -> Option<Action<Event>> {
        let from = self.config.incarnation;
        let (link, len_bytes) = match answer {
            Answer::None => return None,
            Answer::Close { link, reason } => return Some(Action::Close { link, reason }),
            Answer::View { link } => (link, self.write_view(buffer)?),
            Answer::Done { link, op, token, status, key, generation, word } => {
                let reply = Reply { head: Head { key, generation, from }, word };
                (link, draft::done(buffer, op, token, status, |w| reply.emit(w))?)
            }
            Answer::End { link, key, generation, root, cause } => {
                (link, self.write_end(key, generation, root, cause, buffer)?)
            }
            Answer::Ended { link, key, generation, cause } => {
                let head = Head { key, generation, from };
                let len = draft::call(buffer, ops::ENDED, Token(0), |w| {
                    head.emit(w)?;
                    cause.emit(w)
                });
                (link, len?)
            }
            Answer::Piece { link, key, offset } => {
                let at = self.find(key).filter(|&at| self.rec(at).phase == Phase::Full)?;
                (link, self.write_piece(at, offset.min(DONE - 1), true, buffer)?.0)
            }
        };
        Some(Action::Send { link, len_bytes })
    }

    fn write_view(&self, buffer: &mut [u8]) -> Option<usize> {
        let head = Head { key: WORLD, generation: Generation::NEVER, from: self.config.incarnation };
        let room = draft::room(buffer.len()).saturating_sub(super::super::message::HEAD_BYTES);
        let most = room / super::super::message::VIEW_ENTRY_BYTES;
        let known = (0..).zip(self.peers.as_ref()).filter(|(_, peer)| peer.epoch > 0);
        draft::call(buffer, ops::VIEW, Token(0), |w| {
            head.emit(w)?;
            for (sp, peer) in known.take(most) {
                ViewEntry { sp: Sp(sp), epoch: peer.epoch, incarnation: peer.incarnation }.emit(w)?;
            }
            Ok(())
        })
    }

    fn count(&mut self, action: Action<Event>) -> Action<Event> {
        if let Action::Send { link, len_bytes } = action {
            let role = self.links.as_ref().get(link.index()).and_then(|slot| slot.identity).map(|i| i.role);
            if let Some(Role::Service(_)) = role {
                self.counters.messages_to_services += 1;
                self.counters.bytes_to_services += len_bytes as u64;
            } else {
                self.counters.messages_to_ranks += 1;
                self.counters.bytes_to_ranks += len_bytes as u64;
            }
        }
        action
    }
}
