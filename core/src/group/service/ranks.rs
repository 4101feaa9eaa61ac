//! Ranks that connect: what they claim is checked, repeats change nothing.

use crate::codec::Reader;
use crate::error::Status;
use crate::id::Generation;
use crate::machine::Link;
use crate::peer::{Incarnation, WorldRank};
use crate::time::Time;
use crate::wire::{Frame, Token};

use super::super::bits;
use super::super::message::{Field, Head, Hello, MessageError, WORLD, ops};
use super::super::record::Phase;
use super::super::shelf::Shelf;
use super::local::{LocalSlot, Set};
use super::records::Entered;
use super::report::Event;
use super::{Answer, Service, Storage};

/// Why a rank is not admitted: status and word of the answer.
type Refusal = (Status, u32);

impl<S: Storage, C: Shelf> Service<'_, S, C> {
    pub(super) fn take_from_rank(
        &mut self,
        link: Link,
        incarnation: Incarnation,
        local: Option<u32>,
        frame: &Frame<'_>,
        now: Time,
    ) -> Result<(), MessageError> {
        if let Some(slot) = local.and_then(|local| self.local_mut(local)) {
            slot.heard = now;
        }
        let (op, token, body) = match *frame {
            Frame::Null { op: ops::PING, .. } => return Ok(()),
            Frame::Done { op: op @ (ops::READY | ops::ENDED), body, .. } => return self.on_told(local, op, body, now),
            Frame::Call { op, token, body } => (op, token, body),
            _ => return Err(MessageError::BadField),
        };
        let mut r = Reader::new(body);
        let head = Head::parse(&mut r)?;
        if head.from != incarnation {
            self.counters.stale_peer += 1;
            return Ok(());
        }
        if head.generation.0 == 0 {
            return Err(MessageError::BadField);
        }
        match op {
            ops::HELLO => self.on_hello(link, incarnation, token, head, Hello::parse(&mut r)?, now),
            ops::JOIN => return self.on_join(link, local, token, head, &mut r, now),
            ops::LEAVE => return self.on_leave(link, local, token, head, &mut r, now),
            _ => return Err(MessageError::BadField),
        }
        Ok(())
    }

    fn on_hello(&mut self, link: Link, incarnation: Incarnation, token: Token, head: Head, hello: Hello, now: Time) {
        let (status, word) = match self.admit(link, incarnation, &hello, now) {
            Err(refusal) => {
                self.counters.refused += 1;
                crate::log!(warn, "{:?} on {:?} is refused: {:?}, {:?}", hello.rank, link, refusal.0, refusal.1);
                self.events.push(Event::RankRefused { link, rank: hello.rank, status: refusal.0 });
                refusal
            }
            Ok(None) => (Status::Ok, 0),
            Ok(Some(local)) => self.join_world(local, head, hello.size, now),
        };
        let Head { key, generation, .. } = head;
        self.answers.push(Answer::Done { link, op: ops::HELLO, token, status, key, generation, word });
    }

    /// Checks what a rank says about itself; the index of its place here, or `None` if it only wants its memory
    /// served.
    fn admit(
        &mut self,
        link: Link,
        incarnation: Incarnation,
        hello: &Hello,
        now: Time,
    ) -> Result<Option<u32>, Refusal> {
        let Hello { size, rank, host, local, n_local, shadow } = *hello;
        let me = self.config.sp;
        if self.fenced {
            return Err((Status::PeerFailed, me.0));
        }
        let conflict = |field: Field| (Status::Conflict, field as u32);
        if host.0 >= self.placement.hosts() {
            self.counters.foreign += 1;
            return Err(conflict(Field::Host));
        }
        let expected = self.placement.shadows(host, local).get(shadow as usize).copied();
        let wrong = (Status::WrongServiceProcess, expected.map_or(u32::MAX, |sp| sp.0));
        if local.0 >= n_local || expected != Some(me) {
            return Err(wrong);
        }
        if size == 0 || size > self.config.ranks_max || (self.world_size != 0 && size != self.world_size) {
            return Err(conflict(Field::Size));
        }
        if rank.0 >= size {
            return Err((Status::RankOutOfRange, size));
        }
        // Who is missing of the ranks here is looked for one by one: there are no more of them than ranks.
        if n_local > size || (self.n_local != 0 && n_local != self.n_local) {
            return Err(conflict(Field::LocalCount));
        }
        if shadow > 0 {
            self.events.push(Event::RankConnected { link, rank, shadow });
            return Ok(None);
        }
        let at = self.seat(link, incarnation, hello, now)?;
        self.world_size = size;
        self.n_local = n_local;
        Ok(Some(at))
    }

    /// Finds the place of a rank, or gives it one.
    fn seat(&mut self, link: Link, incarnation: Incarnation, hello: &Hello, now: Time) -> Result<u32, Refusal> {
        let Hello { rank, local, .. } = *hello;
        if self.home(rank).is_some_and(|sp| sp != self.config.sp) {
            return Err((Status::DuplicateRank, rank.0));
        }
        let at = match self.local_by_world_rank(rank) {
            Some(at) => {
                let slot = self.local(at).copied().unwrap_or_default();
                let known = slot.incarnation.0 != 0;
                if known && slot.incarnation != incarnation && !slot.dead {
                    return Err((Status::DuplicateRank, rank.0));
                }
                if slot.local.is_some_and(|known| known != local) {
                    return Err((Status::Conflict, Field::LocalRank as u32));
                }
                if known && slot.incarnation != incarnation {
                    self.forget_dead(at);
                } else if slot.link == Some(link) {
                    return Ok(at);
                }
                at
            }
            None => {
                if self.locals.as_ref().iter().any(|slot| slot.used && slot.local == Some(local)) {
                    return Err((Status::Conflict, Field::LocalRank as u32));
                }
                let free = (0..).zip(self.locals.as_ref()).find(|(_, slot)| !slot.used).map(|(at, _)| at);
                free.ok_or((Status::Full, 0))?
            }
        };
        let Some(slot) = self.local_mut(at) else { return Err((Status::Full, 0)) };
        let (staging, staged, staging_key) = (slot.staging, slot.staged, slot.staging_key);
        *slot = LocalSlot {
            used: true,
            world_rank: rank,
            local: Some(local),
            link: Some(link),
            incarnation,
            dead: false,
            since: now,
            heard: now,
            ping_due: false,
            staging,
            staged,
            staging_key,
        };
        if let Some(slot) = self.links.as_mut().get_mut(link.index()) {
            slot.local = Some(at);
        }
        crate::log!(debug, "{:?} is here, on {:?}", rank, link);
        self.events.push(Event::RankConnected { link, rank, shadow: 0 });
        self.renew_news(at);
        Ok(at)
    }

    /// A rank came back, in the same life or the next: it is told everything again.
    fn renew_news(&mut self, local: u32) {
        for at in 0..self.records.as_ref().len() as u32 {
            let record = self.rec(at);
            if record.phase != Phase::Unused && record.locals.is_some() {
                bits::remove(self.set_mut(at, Set::Told), local);
                bits::remove(self.set_mut(at, Set::Known), local);
                self.stir(at);
            }
        }
    }

    /// A dead rank is replaced by its next life, which is in no group yet.
    fn forget_dead(&mut self, local: u32) {
        for at in 0..self.records.as_ref().len() as u32 {
            if self.rec(at).phase != Phase::Unused && self.rec(at).locals.is_some() {
                for set in [Set::Joined, Set::Behind] {
                    bits::remove(self.set_mut(at, set), local);
                }
            }
        }
    }

    fn join_world(&mut self, local: u32, head: Head, size: u32, now: Time) -> (Status, u32) {
        let generation = head.generation;
        let root = self.config.sp;
        let at = match self.enter(WORLD, generation, root, size, false, now) {
            Entered::At(at) => at,
            Entered::Stale(last) => {
                self.tell_why(local, generation);
                return (Status::StaleGeneration, last.0);
            }
            Entered::Conflict(field) => return (Status::Conflict, field as u32),
            Entered::Busy | Entered::NoRoom => return (Status::Full, 0),
        };
        if self.need_sets(at, now).is_none() {
            return (Status::Full, 0);
        }
        if self.in_set(at, Set::Left, local) {
            return (Status::AlreadyRevoked, generation.0);
        }
        self.joined(at, local, now);
        (Status::Ok, 0)
    }

    /// A rank that was away while its world group ended is told why, where that is known.
    fn tell_why(&mut self, local: u32, generation: Generation) {
        let Some(at) = self.find(WORLD) else { return };
        let record = self.rec(at);
        let cause = if record.phase == Phase::Ended && record.generation == generation {
            record.cause
        } else {
            record.before_cause
        };
        let known = record.generation == generation || record.before == generation;
        if let Some(link) = self.local(local).and_then(|slot| slot.link)
            && known
            && cause.status != Status::Ok
        {
            self.answers.push(Answer::Ended { link, key: WORLD, generation, cause });
        }
    }

    /// A local rank is in a group.
    pub(super) fn joined(&mut self, at: u32, local: u32, now: Time) {
        bits::insert(self.set_mut(at, Set::Joined), local);
        self.caught_up(at, local);
        bits::remove(self.set_mut(at, Set::Told), local);
        bits::remove(self.set_mut(at, Set::Known), local);
        self.add_own(at, false, false);
        self.check_full(at, now);
        self.stir(at);
    }

    pub(super) fn rank_link_gone(&mut self, link: Link, local: Option<u32>, now: Time) {
        let Some(slot) = local.and_then(|local| self.local_mut(local)).filter(|slot| slot.link == Some(link)) else {
            return;
        };
        slot.link = None;
        slot.since = now;
        let rank = slot.world_rank;
        crate::log!(info, "link of {:?} is gone; it has {:?} to come back", rank, self.config.rank_grace);
        self.tick_at = self.tick_at.min(now + self.config.rank_grace);
    }

    /// A rank did not come back: it has left every group.
    pub(super) fn rank_died(&mut self, local: u32, now: Time) {
        let Some(slot) = self.local_mut(local).filter(|slot| slot.used && !slot.dead) else { return };
        slot.dead = true;
        slot.link = None;
        let rank: WorldRank = slot.world_rank;
        let mut staging = slot.staging.take();
        self.heap.give(&mut staging);
        self.counters.ranks_died += 1;
        crate::log!(warn, "{:?} did not come back: it has left every group", rank);
        self.events.push(Event::RankDied { rank });
        for at in 0..self.records.as_ref().len() as u32 {
            let record = self.rec(at);
            let alive = matches!(record.phase, Phase::Gathering | Phase::Full);
            if alive && (self.in_set(at, Set::Members, local) || self.in_set(at, Set::Joined, local)) {
                bits::insert(self.set_mut(at, Set::Left), local);
                self.add_own(at, true, false);
                self.check_ended(at, now);
                self.stir(at);
            }
            self.check_settled(at, now);
        }
    }
}
