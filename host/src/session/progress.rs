//! Turning: links in, machine forward, messages out.

use std::os::fd::{BorrowedFd, OwnedFd};

use umbra_core::access::direct::CONNECT;
use umbra_core::access::message::{FETCH, WHY_MAX};
use umbra_core::access::stage::HINT;
use umbra_core::endpoints::GroupKey;
use umbra_core::group::member;
use umbra_core::group::member::State;
use umbra_core::group::message::{Reply, WORLD};
use umbra_core::group::ops as group_ops;
use umbra_core::machine::{Action, Identity, Link, Machine as _, Role};
use umbra_core::peer::{Peer, Sp};
use umbra_core::time::Time;
use umbra_core::wire::{BODY_MAX, Frame, HEAD};

use super::memory::NOBODY_WAITS;
use super::{GROUPS, Session, SessionError, Shadow};
use crate::admin::ops;
use crate::driver::{self, Event, LinkId};
use crate::link::{Close, Party};
use crate::sys::segment::{Mapping, Segment};

impl Session {
    /// Makes progress until something has happened, at most until `deadline`.
    ///
    /// # Errors
    /// [`SessionError::Io`] if the system refuses to wait, or `also` is closed.
    pub fn progress(&mut self, deadline: Time) -> Result<(), SessionError> {
        self.refuse_heirs()?;
        self.pump();
        let due = [self.member.deadline(), self.reads.deadline()].into_iter().flatten().fold(deadline, Time::min);
        self.driver.wait(due).map_err(|error| SessionError::Io { what: "wait for the links", error })?;
        let mut frame = std::mem::take(&mut self.buffer);
        while let Some(event) = self.driver.next(&mut frame) {
            self.on_event(event, &frame);
        }
        self.buffer = frame;
        let now = self.driver.looked();
        self.member.on_time(now);
        if let Some(shadow) = self.shadows.first() {
            self.reads.expire(now, shadow.sp);
        }
        self.pump();
        Ok(())
    }

    /// Sleeps until a link to a service process ends (true; [`recover`](Self::recover) then), or `also` is readable or
    /// a signal came (false). For a rank that computes elsewhere or has nothing to do: signs of life do not wake it, unless memory is
    /// exported over RDMA, because a service process that wants to read it may ask to be connected.
    ///
    /// # Errors
    /// [`SessionError::Io`] if the system refuses to wait.
    pub fn sleep(&self, also: BorrowedFd<'_>) -> Result<bool, SessionError> {
        self.refuse_heirs()?;
        if !self.is_whole() {
            return Ok(true);
        }
        let slept = match self.exposure {
            Some(_) => self.driver.wait_for_word(also),
            None => self.driver.wait_for_end(also),
        };
        slept.map_err(|error| SessionError::Io { what: "wait for the links", error })
    }

    /// Makes progress until the service processes, if they were started again, have this rank's groups and exported
    /// memory back. Dials those again that were given up, because they did not come back within a deadline. Groups have other
    /// handles then: [`current`](Self::current) gives them.
    ///
    /// # Errors
    /// [`SessionError`]: who did not come back before the deadline.
    pub fn recover(&mut self) -> Result<(), SessionError> {
        self.refuse_heirs()?;
        let deadline = self.deadline();
        for at in 0..self.shadows.len() {
            if let Some(why) = self.shadows.get(at).and_then(|shadow| shadow.why.clone()) {
                self.dial_again(at, why);
            }
        }
        loop {
            // At least once: that a link has ended is seen only by reading it.
            self.progress(if self.is_whole() { Time::ZERO } else { deadline })?;
            if let Some((status, word)) = self.refused.remove(&WORLD.0) {
                return Err(SessionError::Refused { status, word });
            }
            if self.is_whole() {
                return Ok(());
            }
            if let Some((sp, why)) = self.shadows.iter().find_map(|s| Some((s.sp, s.why.clone()?))) {
                return Err(SessionError::Unreachable { sp, why });
            }
            if self.driver.looked() >= deadline {
                let missing = self.shadows.iter().find(|s| !self.is_back(s)).or_else(|| self.shadows.first());
                return Err(SessionError::ServiceLost { sp: missing.map_or(Sp(0), |s| s.sp) });
            }
        }
    }

    /// Whether every service process is linked and knows all that it should of this rank.
    fn is_whole(&self) -> bool {
        let known = |key: &u128| !matches!(self.member.state(GroupKey(*key)), State::Joining | State::Joined);
        self.shadows.iter().all(|shadow| self.is_back(shadow))
            && !self.driver.has_unsent()
            && self.sizes.keys().all(known)
    }

    /// Whether a service process is linked and told of this rank's memory. Whose world has ended is admitted nowhere
    /// any more, and exports nothing anew.
    fn is_back(&self, shadow: &Shadow) -> bool {
        shadow.up && (shadow.told || self.member.state(WORLD) == State::Out)
    }

    /// Waits until `done`; a refusal or an end of group `about`, or the loss of one of the service processes that are
    /// `needed` for it, ends it earlier.
    pub(super) fn wait(
        &mut self,
        what: &'static str,
        deadline: Time,
        needed: &[Sp],
        done: impl Fn(&Session) -> bool,
        about: Option<GroupKey>,
    ) -> Result<(), SessionError> {
        // The machine knows better than the clock who is missing, and tells a little after the deadline.
        let patience = deadline + self.settings.lapse();
        loop {
            if done(self) {
                return Ok(());
            }
            if let Some(key) = about {
                for key in [key.0, WORLD.0] {
                    if let Some((status, word)) = self.refused.remove(&key) {
                        return Err(SessionError::Refused { status, word });
                    }
                    if let Some(&cause) = self.ended.get(&key) {
                        return Err(SessionError::Ended { what, cause });
                    }
                }
            }
            let mut needs = self.shadows.iter().filter(|shadow| needed.contains(&shadow.sp));
            if let Some((sp, why)) = needs.find_map(|s| Some((s.sp, s.why.clone()?))) {
                return Err(SessionError::Unreachable { sp, why });
            }
            if let Some(sp) = self.lost.filter(|sp| needed.contains(sp)) {
                return Err(SessionError::ServiceLost { sp });
            }
            if self.driver.looked() >= patience {
                let sp = needed.first().copied().unwrap_or(self.first());
                return Err(SessionError::Timeout { what, sp });
            }
            self.progress(patience)?;
        }
    }

    fn on_event(&mut self, event: Event, bytes: &[u8]) {
        let now = driver::now();
        match event {
            Event::Up { link, peer, .. } => {
                let first = self.is_first(link);
                if let Some(shadow) = self.shadows.iter_mut().find(|s| s.has(link)) {
                    shadow.up = true;
                    shadow.ups = shadow.ups.wrapping_add(1);
                    let role = Role::Service(shadow.sp);
                    if first {
                        let identity = Identity { role, incarnation: peer.incarnation };
                        self.member.on_link(Link(link.0), identity, now);
                    }
                    self.export_again();
                    if let Some(tables) = self.tables.as_mut().filter(|_| first) {
                        tables.ask_again();
                        self.ask_for_tables();
                    }
                }
            }
            Event::Gone { link, why, .. } => self.on_gone(link, why, now),
            Event::Frame { link, descriptors } => {
                if let Ok(frame) = Frame::parse(bytes) {
                    self.on_frame(link, &frame, descriptors, now);
                }
            }
            Event::Readable(_) => {}
        }
        self.pump();
    }

    fn on_gone(&mut self, link: LinkId, why: Close, now: Time) {
        if self.is_first(link) {
            self.member.on_gone(Link(link.0), now);
            self.reads.lose(self.first());
        }
        let Some(at) = self.shadows.iter().position(|s| s.has(link)) else { return };
        let Some(shadow) = self.shadows.get_mut(at) else { return };
        let was_up = std::mem::replace(&mut shadow.up, false);
        shadow.told = false;
        if !was_up {
            // The dial gave up at its deadline, or was refused for good.
            shadow.why = Some(why);
            return;
        }
        self.answers.remove(&link);
        // It may come back; whether that is soon enough, the machine decides.
        self.dial_again(at, why);
    }

    /// Dials a service process that is gone, for the reason `why`.
    ///
    /// If that cannot even begin, it is given up.
    fn dial_again(&mut self, at: usize, why: Close) {
        let deadline = self.deadline();
        let Some(shadow) = self.shadows.get_mut(at) else { return };
        let whom = Peer::service(shadow.sp).zip(self.settings.address(shadow.sp));
        let dial = whom.and_then(|(peer, address)| self.driver.dial(address, Party::Peer(peer), deadline).ok());
        match dial {
            Some(link) => (shadow.link, shadow.why) = (link, None),
            None => shadow.why = Some(why),
        }
    }

    /// Whether this is the link to the first service process.
    pub(super) fn is_first(&self, link: LinkId) -> bool {
        self.shadows.first().is_some_and(|shadow| shadow.has(link))
    }

    fn on_frame(&mut self, link: LinkId, frame: &Frame<'_>, mut descriptors: Vec<OwnedFd>, now: Time) {
        match *frame {
            Frame::Call { op: ops::ARENA, body, .. } => {
                if let (Some(descriptor), Ok(len), true) = (descriptors.pop(), body.try_into(), self.is_first(link)) {
                    let len = usize::try_from(u64::from_le_bytes(len)).unwrap_or(0);
                    self.arena = Segment::attach(descriptor, Mapping::ReadOnly, len).ok();
                }
            }
            Frame::Call { op: CONNECT, token, body } => self.on_connect(link, token, body),
            Frame::Done { op: ops::DUMP, token, status, body } => self.table_came(link, token, status, body),
            Frame::Done { op: FETCH, token, status, body } => self.fetched(link, token, status, body),
            Frame::Done { op: HINT, .. } => self.hinted(link),
            Frame::Done { op: ops::CALLS, token, status, body } if token == self.asked => {
                self.invitation = Some((status, body.to_vec(), descriptors.pop()));
            }
            Frame::Done { op, token, status, body } if op.0 >> 8 == 2 => {
                if token != NOBODY_WAITS && token == self.asked {
                    let why = body.get(..WHY_MAX).unwrap_or(body);
                    self.answers.insert(link, (status, String::from_utf8_lossy(why).into_owned()));
                }
            }
            Frame::Done { op: group_ops::LEAVE, body, .. } => {
                self.left |= is_about_the_world(body) && self.member.state(WORLD) == State::Leaving;
                self.member.on_frame(Link(link.0), frame, now);
            }
            _ => self.member.on_frame(Link(link.0), frame, now),
        }
    }

    pub(super) fn pump(&mut self) {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.resize(HEAD + BODY_MAX, 0);
        while let Some(action) = self.member.poll(driver::now(), &mut buffer) {
            match action {
                Action::Send { link, len_bytes } => {
                    if let Some(Ok(frame)) = buffer.get(..len_bytes).map(Frame::parse) {
                        // What is lost with a link, the machine says again.
                        let _ = self.driver.send(LinkId(link.0), &frame, Vec::new());
                    }
                }
                // Links are dialled from the start, and again when they break.
                Action::Connect { .. } => {}
                Action::Close { link, reason } => {
                    self.driver.close(LinkId(link.0));
                    self.on_gone(LinkId(link.0), Close::Refused(reason), driver::now());
                }
                Action::Event(event) => self.on_member(event),
            }
        }
        self.buffer = buffer;
        self.fetch();
        self.driver.flush();
    }

    fn on_member(&mut self, event: member::Event) {
        match event {
            member::Event::Ready { key, size, handle, digest, .. } => {
                self.sizes.insert(key.0, size);
                self.ended.remove(&key.0);
                if let Some(tables) = &mut self.tables {
                    tables.want(key, handle, digest);
                    self.ask_for_tables();
                }
            }
            member::Event::Ended { key, cause, .. } => {
                self.sizes.remove(&key.0);
                if self.ended.len() >= GROUPS {
                    // Nobody asked for so many that nobody will. Every wait looks whether the world has ended.
                    self.ended.retain(|&key, _| key == WORLD.0);
                }
                self.ended.insert(key.0, cause);
                if let Some(tables) = &mut self.tables {
                    tables.forget(key);
                }
            }
            member::Event::Refused { key, status, word } => {
                self.refused.insert(key.0, (status, word));
            }
            member::Event::ServiceLost { sp } => {
                self.lost = sp.or_else(|| self.shadows.first().map(|s| s.sp));
            }
            member::Event::Admitted { .. } => {
                self.lost = None;
                self.export_again();
            }
            _ => {}
        }
    }
}

/// Whether this is what a service process answers about the world, and not about another group that is left with it.
fn is_about_the_world(body: &[u8]) -> bool {
    Reply::parse(body).is_ok_and(|reply| reply.head.key == WORLD)
}

#[cfg(test)]
mod tests {
    use umbra_core::codec::Writer;
    use umbra_core::group::message::Head;
    use umbra_core::id::Generation;
    use umbra_core::peer::Incarnation;

    use super::*;

    #[test]
    fn the_world_is_left_when_the_answer_about_the_world_comes_and_not_one_about_another_group() {
        let told = |key: GroupKey| {
            let mut body = [0; 64];
            let mut w = Writer::new(&mut body);
            let head = Head { key, generation: Generation::FIRST, from: Incarnation(7) };
            Reply { head, word: 0 }.emit(&mut w).unwrap();
            let len = w.len();
            is_about_the_world(&body[..len])
        };
        assert!(told(WORLD));
        assert!(!told(GroupKey(WORLD.0 ^ 1)));
        assert!(!is_about_the_world(&[]));
    }
}
