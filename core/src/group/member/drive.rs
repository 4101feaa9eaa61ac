//! What a rank says and hears.

use crate::codec::Reader;
use crate::endpoints::GroupKey;
use crate::error::Status;
use crate::id::{Generation, Id};
use crate::machine::{Action, Link};
use crate::peer::{Incarnation, Sp};
use crate::time::{Lapse, Time};
use crate::wire::{Frame, Op, Token};

use super::super::cause::Cause;
use super::super::draft;
use super::super::message::{Head, Hello, MessageError, Ready, Reply, WORLD, ops};
use super::super::timers::{MOST, NIL, STEPS};
use super::groups::{Deadlines, Resends};
use super::{Event, Member, State, Storage};

/// What is waiting to be acknowledged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ack {
    pub(crate) op: Op,
    pub(crate) token: Token,
    pub(crate) key: GroupKey,
    pub(crate) generation: Generation,
}

/// Acknowledgements that can wait; one that does not fit is asked for again.
pub(super) const ACKS: usize = 16;

impl<S: Storage> Member<S> {
    pub(super) fn link_up(&mut self, link: Link, sp: Sp, incarnation: Incarnation, now: Time) {
        let reborn = self.sp_life != incarnation;
        self.link = Some((link, sp, incarnation));
        self.sp = Some(sp);
        self.sp_life = incarnation;
        self.admitted = false;
        self.lost = false;
        self.heard = now;
        self.sent = now;
        for at in 0..self.groups.as_ref().len() as u32 {
            let group = self.group_mut(at);
            // A service process in its first life on this link knows nothing: all is said again.
            // One that took this rank for dead while the link was down has let it leave what it waits for.
            let doubtful = reborn || group.state == State::Joined;
            if doubtful && group.used {
                group.taken = 0;
                if matches!(group.state, State::Joined | State::Ready) {
                    group.state = State::Joining;
                }
            }
            group.asked = false;
            group.step = 0;
            let joins_to_leave = group.state == State::Leaving && group.taken < group.len && !group.again;
            if group.state != State::Out {
                self.stir(at);
            }
            if joins_to_leave && reborn {
                self.deadlines.arm(&mut Deadlines(self.groups.as_mut()), at, MOST, now);
            }
        }
        if self.world != NIL {
            self.stir(self.world);
        }
    }

    pub(super) fn take_frame(&mut self, frame: &Frame<'_>, now: Time) -> Result<(), MessageError> {
        let Some((_, _, life)) = self.link else { return Ok(()) };
        match *frame {
            Frame::Null { op: ops::PING, .. } => Ok(()),
            Frame::Call { op: op @ (ops::READY | ops::ENDED), token, body } => {
                let mut r = Reader::new(body);
                let head = Head::parse(&mut r)?;
                if head.from != life {
                    return Ok(());
                }
                if op == ops::READY {
                    self.on_ready(head, Ready::parse(&mut r)?);
                } else {
                    let cause = Cause::parse(&mut r)?;
                    if !r.rest().is_empty() {
                        return Err(MessageError::Overlong);
                    }
                    self.on_ended(head, cause, now);
                }
                // A full queue costs a repetition.
                let _ = self.acks.push_back(Ack { op, token, key: head.key, generation: head.generation });
                Ok(())
            }
            Frame::Done { op: op @ (ops::HELLO | ops::JOIN | ops::LEAVE), token, status, body } => {
                let reply = Reply::parse(body)?;
                if reply.head.from == life {
                    self.on_answer(op, token, status, &reply, now);
                }
                Ok(())
            }
            _ => Err(MessageError::BadField),
        }
    }

    fn on_ready(&mut self, head: Head, ready: Ready) {
        let handle = Id::from_bits(ready.handle);
        let Some(at) = self.find(head.key) else { return };
        let group = self.group_mut(at);
        let waits = matches!(group.state, State::Joining | State::Joined | State::Ready);
        if group.generation != head.generation || !waits || group.handle == Some(handle) && group.state == State::Ready
        {
            return;
        }
        group.state = State::Ready;
        group.handle = Some(handle);
        group.asked = false;
        self.resends.disarm(&mut Resends(self.groups.as_mut()), at);
        self.deadlines.disarm(&mut Deadlines(self.groups.as_mut()), at);
        let Ready { size, digest, .. } = ready;
        self.push(Event::Ready { key: head.key, generation: head.generation, handle, size, digest });
        if head.key == WORLD {
            self.release_waiting();
        }
    }

    /// The world group is ready: what waited for it goes on.
    fn release_waiting(&mut self) {
        for at in 0..self.groups.as_ref().len() as u32 {
            let group = self.group_mut(at);
            if group.state == State::Waiting {
                group.state = State::Joining;
            }
            if group.state != State::Out {
                self.stir(at);
            }
        }
    }

    fn on_ended(&mut self, head: Head, cause: Cause, now: Time) {
        let Some(at) = self.find(head.key) else { return };
        let group = self.group(at);
        if group.generation == head.generation && !matches!(group.state, State::Out | State::Waiting) {
            self.ended(at, head.generation, cause, now);
        }
    }

    fn on_answer(&mut self, op: Op, token: Token, status: Status, reply: &Reply, now: Time) {
        let Some(at) = self.find(reply.head.key) else { return };
        let group = self.group(at);
        if group.generation != reply.head.generation || token.0 as u32 != group.generation.0 {
            return;
        }
        let (key, state) = (group.key, group.state);
        let joining = !matches!(state, State::Out | State::Waiting);
        match (op, status) {
            (ops::HELLO, Status::Ok) => {
                let group = self.group_mut(at);
                group.confirmed = true;
                if group.state == State::Joining {
                    group.state = State::Joined;
                }
                self.admit(at);
            }
            (ops::JOIN, Status::Ok) if joining => {
                let group = self.group_mut(at);
                // It needs from there on what it has dropped meanwhile; of what it had as a whole it needs nothing.
                if group.taken < group.len {
                    group.taken = reply.word.min(group.len);
                }
                group.asked = false;
                group.step = 0;
                group.confirmed |= group.taken == group.len;
                let whole = group.taken == group.len;
                if whole && group.state == State::Joining {
                    group.state = State::Joined;
                }
                if whole && group.state == State::Leaving && !group.again {
                    self.deadlines.disarm(&mut Deadlines(self.groups.as_mut()), at);
                }
                self.stir(at);
            }
            (ops::JOIN | ops::HELLO, Status::StaleGeneration | Status::AlreadyRevoked) => {
                let last = Generation(reply.word);
                // Who was taken for dead while its link was down has left the world group, and is served all the same.
                if op == ops::HELLO && state != State::Joining {
                    self.admit(at);
                }
                if last >= self.group(at).generation {
                    self.overtaken(at, last, status, now);
                }
            }
            // No room for now: it is asked again, until the time is up.
            (ops::JOIN | ops::HELLO, Status::Full) => {}
            (ops::JOIN | ops::HELLO, _) if state == State::Joining => {
                let word = reply.word;
                self.push(Event::Refused { key, status, word });
                let last = self.group(at).generation.0.saturating_sub(1);
                self.group_mut(at).generation = Generation(last);
                self.out(at);
            }
            (ops::JOIN, _) if state == State::Leaving && self.group(at).taken < self.group(at).len => {
                self.refused(at, now);
            }
            (ops::HELLO, _) if state == State::Leaving && !self.admitted => self.refused(at, now),
            (ops::LEAVE, Status::Ok | Status::AlreadyRevoked) if state == State::Leaving => {
                // The end is still to come; it is asked for from time to time.
                self.group_mut(at).asked = true;
            }
            (ops::LEAVE, Status::StaleGeneration) if state == State::Leaving => {
                let generation = self.group(at).generation;
                self.ended(at, generation, Cause::LEFT, now);
            }
            (ops::LEAVE, Status::UnknownGroup) if state == State::Leaving => {
                // The service process has forgotten, in a restart or because the group never was: nothing to leave.
                let generation = self.group(at).generation;
                self.ended(at, generation, Cause::LEFT, now);
            }
            _ => {}
        }
    }

    /// The service process knows this rank on the current link: what it has to say about its groups can be said.
    fn admit(&mut self, world: u32) {
        if let Some((_, sp, incarnation)) = self.link.filter(|_| !self.admitted) {
            self.admitted = true;
            self.push(Event::Admitted { sp, incarnation });
        }
        self.group_mut(world).asked = false;
        for at in 0..self.groups.as_ref().len() as u32 {
            if self.group(at).state != State::Out {
                self.stir(at);
            }
        }
    }

    pub(super) fn tick(&mut self, now: Time) {
        while let Some((at, _)) = self.resends.expired(&mut Resends(self.groups.as_mut()), now) {
            let group = self.group_mut(at);
            group.asked = false;
            group.step = (group.step + 1).min(STEPS - 1);
            self.unanswered(at);
            self.stir(at);
        }
        while let Some((at, _)) = self.deadlines.expired(&mut Deadlines(self.groups.as_mut()), now) {
            let cause = self.why(Status::Timeout);
            self.give_up(at, cause);
        }
        if now < self.tick_at {
            return;
        }
        self.tick_at = now + self.config.ping;
        let quiet = now.since(self.heard);
        let silent = quiet >= self.config.silence;
        match self.link {
            Some((link, ..)) if silent => {
                // Nothing has come for too long: the link is as good as gone.
                self.link = None;
                self.admitted = false;
                self.close = Some(link);
            }
            Some(_) if now.since(self.sent) >= self.config.ping => self.ping_due = true,
            _ => {}
        }
        // One that has not come so far is given more time than one that went.
        let seen = self.sp_life.0 != 0;
        let grace = if seen { self.config.grace } else { self.config.grace.max(Lapse(self.config.timeout.0 / 2)) };
        if self.link.is_none() && ((silent && seen) || quiet >= grace) {
            self.without_service();
        }
    }

    /// The service process must have failed: nothing will come of waiting for it, nor of leaving from now on.
    fn without_service(&mut self) {
        let first = !core::mem::replace(&mut self.lost, true);
        if first {
            self.push(Event::ServiceLost { sp: self.sp });
        }
        // One that was never seen may still come; until then only leaving is in vain.
        let first = first && self.sp.is_some();
        for at in 0..self.groups.as_ref().len() as u32 {
            let group = self.group(at);
            let waits = match group.state {
                State::Joining | State::Joined => first,
                State::Leaving => !group.reported,
                State::Out | State::Waiting | State::Ready => false,
            };
            if waits {
                let cause = self.why(Status::PeerFailed);
                self.give_up(at, cause);
            }
        }
    }

    pub(super) fn next_action(&mut self, now: Time, buffer: &mut [u8]) -> Option<Action<Event>> {
        if let Some(link) = self.close.take() {
            return Some(Action::Close { link, reason: Status::Timeout });
        }
        if let Some((link, ..)) = self.link {
            let from = self.config.incarnation;
            while let Some(Ack { op, token, key, generation }) = self.acks.pop_front() {
                let reply = Reply { head: Head { key, generation, from }, word: 0 };
                if let Some(len_bytes) = draft::done(buffer, op, token, Status::Ok, |w| reply.emit(w)) {
                    self.sent = now;
                    return Some(Action::Send { link, len_bytes });
                }
            }
            self.end_turn();
            while let Some(at) = self.next_work() {
                if let Some(len_bytes) = self.say(at, link, buffer) {
                    self.group_mut(at).asked = true;
                    let step = self.group(at).step;
                    self.resends.arm(&mut Resends(self.groups.as_mut()), at, step, now);
                    self.sent = now;
                    return Some(Action::Send { link, len_bytes });
                }
            }
            if core::mem::take(&mut self.ping_due)
                && let Some(len_bytes) = draft::null(buffer, ops::PING, 0)
            {
                self.sent = now;
                return Some(Action::Send { link, len_bytes });
            }
        }
        self.pop().map(Action::Event)
    }

    /// Writes what has to be said about a group; its length.
    fn say(&mut self, at: u32, _link: Link, buffer: &mut [u8]) -> Option<usize> {
        let group = self.group(at);
        if !group.used || group.asked {
            return None;
        }
        let head = Head { key: group.key, generation: group.generation, from: self.config.incarnation };
        let token = Token(u64::from(group.generation.0));
        if group.key == WORLD {
            let greet = !self.admitted || group.state == State::Joining;
            if greet && group.state != State::Out {
                let super::Config { size, rank, host, local, n_local, .. } = self.config;
                let hello = Hello { size, rank, host, local, n_local, shadow: 0 };
                return draft::call(buffer, ops::HELLO, token, |w| {
                    head.emit(w)?;
                    hello.emit(w)
                });
            }
            return match group.state {
                State::Leaving => draft::call(buffer, ops::LEAVE, token, |w| head.emit(w)),
                _ => None,
            };
        }
        if !self.admitted {
            return None;
        }
        match group.state {
            State::Joining | State::Leaving if group.taken < group.len => self.offer(at, head, token, buffer),
            State::Leaving => draft::call(buffer, ops::LEAVE, token, |w| head.emit(w)),
            _ => None,
        }
    }

    pub(super) fn push(&mut self, event: Event) {
        let cells = self.events.as_mut();
        let capacity = cells.len();
        if self.event_len < capacity
            && let Some(cell) = cells.get_mut((self.event_front + self.event_len) % capacity)
        {
            *cell = Some(event);
            self.event_len += 1;
        }
    }

    fn pop(&mut self) -> Option<Event> {
        if self.event_len == 0 {
            return None;
        }
        let cells = self.events.as_mut();
        let capacity = cells.len();
        let event = cells.get_mut(self.event_front).and_then(Option::take);
        self.event_front = (self.event_front + 1) % capacity;
        self.event_len -= 1;
        event
    }
}
