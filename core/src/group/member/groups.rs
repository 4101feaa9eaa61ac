//! The groups of a rank: joining, leaving, and what is remembered of the past.

use crate::endpoints::{Descriptor, GroupKey};
use crate::error::Status;
use crate::id::Generation;
use crate::peer::Rank;
use crate::time::Time;

use super::super::cause::{Cause, Missing, Who};
use super::super::message::WORLD;
use super::super::timers::{MOST, NIL, Node, Nodes};
use super::{Event, JoinError, LeaveError, Member, Membership, State, Storage};

pub(super) struct Resends<'a>(pub(super) &'a mut [Membership]);
impl Nodes for Resends<'_> {
    fn node(&mut self, id: u32) -> Option<&mut Node> {
        self.0.get_mut(id as usize).map(|group| &mut group.resend)
    }
}

pub(super) struct Deadlines<'a>(pub(super) &'a mut [Membership]);
impl Nodes for Deadlines<'_> {
    fn node(&mut self, id: u32) -> Option<&mut Node> {
        self.0.get_mut(id as usize).map(|group| &mut group.deadline)
    }
}

impl<S: Storage> Member<S> {
    /// Joins a group, in the generation after the last one that this rank has seen end. If the rank has left a
    /// generation that has not ended yet, it joins the next one as soon as it has.
    ///
    /// # Errors
    /// [`JoinError`]; nothing has changed then.
    pub fn join(&mut self, descriptor: &Descriptor<'_>, now: Time) -> Result<GroupKey, JoinError> {
        if descriptor.is_world() {
            return Err(JoinError::World);
        }
        let rank = descriptor.rank_of(self.config.rank).ok_or(JoinError::NotAMember)?;
        let key = self.key(descriptor);
        let at = match self.find(key) {
            None => self.make(key).ok_or(JoinError::Full)?,
            Some(at) => at,
        };
        match self.group(at).state {
            State::Out => {}
            State::Leaving if !self.group(at).again => {
                self.keep(at, rank, descriptor)?;
                self.group_mut(at).again = true;
                self.deadlines.arm(&mut Deadlines(self.groups.as_mut()), at, MOST, now);
                return Ok(key);
            }
            _ => return Err(JoinError::AlreadyJoined),
        }
        self.keep(at, rank, descriptor)?;
        self.start(at, now);
        Ok(key)
    }

    fn keep(&mut self, at: u32, rank: Rank, descriptor: &Descriptor<'_>) -> Result<(), JoinError> {
        let bytes = descriptor.bytes();
        let words = bytes.len().div_ceil(8);
        if self.group(at).descriptor.is_none() {
            let piece = Some(self.heap.take(words).ok_or(JoinError::Full)?);
            self.group_mut(at).descriptor = piece;
        }
        let piece = self.group(at).descriptor;
        let place = self.heap.bytes_mut(&piece).get_mut(..bytes.len()).ok_or(JoinError::Full)?;
        place.copy_from_slice(bytes);
        let group = self.group_mut(at);
        group.rank = rank;
        group.len = bytes.len() as u32;
        Ok(())
    }

    /// Joins the world group; again, if an earlier generation of it has ended.
    ///
    /// # Errors
    /// [`JoinError::AlreadyJoined`] or [`JoinError::Full`].
    pub fn join_world(&mut self, now: Time) -> Result<(), JoinError> {
        if self.world != NIL && self.group(self.world).state != State::Out {
            return Err(JoinError::AlreadyJoined);
        }
        if self.enter_world(now) { Ok(()) } else { Err(JoinError::Full) }
    }

    pub(super) fn enter_world(&mut self, now: Time) -> bool {
        let Some(at) = self.find(WORLD).or_else(|| self.make(WORLD)) else { return false };
        self.world = at;
        self.start(at, now);
        true
    }

    /// Starts the generation after the last one.
    fn start(&mut self, at: u32, now: Time) {
        let ready = self.world_is_ready();
        let group = self.group_mut(at);
        group.generation = group.generation.next();
        group.state = if ready || group.key == WORLD { State::Joining } else { State::Waiting };
        group.handle = None;
        group.taken = 0;
        group.confirmed = false;
        group.again = false;
        group.reported = false;
        group.asked = false;
        group.step = 0;
        self.deadlines.arm(&mut Deadlines(self.groups.as_mut()), at, MOST, now);
        self.stir(at);
    }

    pub(super) fn world_is_ready(&self) -> bool {
        self.world != NIL && matches!(self.group(self.world).state, State::Ready | State::Leaving)
    }

    /// Leaves a group. The generation ends when all members have left; an [`Event::Ended`] tells.
    ///
    /// # Errors
    /// [`LeaveError`]; nothing has changed then.
    pub fn leave(&mut self, key: GroupKey) -> Result<(), LeaveError> {
        let at = self.find(key).ok_or(LeaveError::UnknownGroup)?;
        match self.group(at).state {
            State::Out => return Err(LeaveError::UnknownGroup),
            State::Leaving => return Err(LeaveError::AlreadyRevoked),
            // Nobody has heard of it: it never happened, and this generation can still be joined.
            State::Waiting => {
                let last = self.group(at).generation.0.saturating_sub(1);
                self.group_mut(at).generation = Generation(last);
                self.out(at);
                return Ok(());
            }
            // The request to join may have arrived or not: it is repeated until it has, then the rank leaves.
            State::Joining | State::Joined | State::Ready => {}
        }
        let joined = self.group(at).state != State::Joining;
        let group = self.group_mut(at);
        group.state = State::Leaving;
        group.asked = false;
        group.step = 0;
        // What was not taken yet is offered again before it is left.
        group.taken = if joined || group.key == WORLD { group.len } else { 0 };
        // How long the others stay is their affair; how long the service process takes to know of this rank is not.
        if joined {
            self.deadlines.disarm(&mut Deadlines(self.groups.as_mut()), at);
        }
        self.stir(at);
        Ok(())
    }

    /// A generation is over.
    pub(super) fn ended(&mut self, at: u32, generation: Generation, cause: Cause, now: Time) {
        let group = self.group_mut(at);
        let (key, again, reported) = (group.key, group.again, group.reported);
        group.generation = generation;
        if !reported {
            self.push(Event::Ended { key, generation, cause });
        }
        if again {
            self.start(at, now);
        } else {
            self.out(at);
        }
        if key == WORLD && cause.status != Status::Ok {
            self.without_world(cause);
        }
    }

    /// The service process does not take a rank that has left already: there is nothing to leave.
    pub(super) fn refused(&mut self, at: u32, now: Time) {
        let (generation, confirmed) = (self.group(at).generation, self.group(at).confirmed);
        self.ended(at, generation, Cause::LEFT, now);
        if !confirmed {
            // It was never in this generation, which may still come about.
            let group = self.group_mut(at);
            group.generation = Generation(group.generation.0.saturating_sub(1));
        }
    }

    /// The generation that this rank wants to join is over, or an earlier life of it has left it.
    pub(super) fn overtaken(&mut self, at: u32, last: Generation, status: Status, now: Time) {
        let group = self.group(at);
        let member = group.confirmed || group.key == WORLD;
        match group.state {
            // It was not a member of what has ended: its wish goes for the next generation.
            State::Joining if !member => {
                self.group_mut(at).generation = last;
                self.restart(at);
            }
            // It was, before the service process lost its memory, or took this rank for dead.
            State::Joining | State::Joined => self.ended(at, last, Cause::of(status), now),
            // The others have left meanwhile.
            State::Ready if status == Status::StaleGeneration => self.ended(at, last, Cause::of(status), now),
            State::Leaving if group.taken < group.len && status == Status::StaleGeneration => {
                self.ended(at, last, Cause::LEFT, now)
            }
            // A late answer to a question asked long ago; the end, if it is one, is told separately.
            _ => {}
        }
    }

    fn restart(&mut self, at: u32) {
        let group = self.group_mut(at);
        group.generation = group.generation.next();
        group.state = State::Joining;
        group.taken = 0;
        group.asked = false;
        group.step = 0;
        self.stir(at);
    }

    /// The world group came to nothing, and with it every group that is not ready.
    fn without_world(&mut self, cause: Cause) {
        for at in 0..self.groups.as_ref().len() as u32 {
            let group = self.group(at);
            let (key, generation, state) = (group.key, group.generation, group.state);
            if group.key == WORLD || matches!(state, State::Out | State::Ready) {
                continue;
            }
            if !group.reported {
                self.push(Event::Ended { key, generation, cause });
            }
            self.out(at);
        }
    }

    pub(super) fn out(&mut self, at: u32) {
        self.resends.disarm(&mut Resends(self.groups.as_mut()), at);
        self.deadlines.disarm(&mut Deadlines(self.groups.as_mut()), at);
        let group = self.group_mut(at);
        group.state = State::Out;
        group.handle = None;
        group.again = false;
        group.asked = false;
        let mut piece = group.descriptor.take();
        self.heap.give(&mut piece);
    }

    /// Nothing came of waiting for a group.
    pub(super) fn give_up(&mut self, at: u32, cause: Cause) {
        let group = self.group(at);
        let (key, generation, state) = (group.key, group.generation, group.state);
        match state {
            State::Out | State::Ready => {}
            State::Waiting => {
                self.push(Event::Ended { key, generation, cause });
                let last = generation.0.saturating_sub(1);
                self.group_mut(at).generation = Generation(last);
                self.out(at);
            }
            // Whoever may count on this rank is told that it has left; its owner hears only once.
            State::Joining | State::Joined => {
                self.push(Event::Ended { key, generation, cause });
                let _ = self.leave(key);
                self.group_mut(at).reported = true;
            }
            State::Leaving => {
                let unknown = !self.group(at).confirmed || self.group(at).taken < self.group(at).len;
                let failed = (cause.status == Status::PeerFailed || unknown) && !self.group(at).reported;
                if failed {
                    self.push(Event::Ended { key, generation, cause });
                }
                let again = core::mem::take(&mut self.group_mut(at).again);
                if again {
                    self.push(Event::Ended { key, generation: generation.next(), cause });
                }
                // It goes on leaving in silence, for those who count on it.
                self.group_mut(at).reported |= failed || again;
            }
        }
    }

    /// The cause of giving up, as far as a rank can know it: it was waiting for its service process, which is listed as
    /// missing if it cannot even be reached.
    pub(super) fn why(&self, status: Status) -> Cause {
        let sp = self.sp.or(self.config.sp);
        let unreachable = if self.link.is_none() { sp } else { None };
        let missing = Missing::collect(Who::ServiceProcesses, unreachable.map(|sp| sp.0));
        Cause { status, sp, missing }
    }

    pub(super) fn find(&self, key: GroupKey) -> Option<u32> {
        self.index.get(key.0)
    }

    fn make(&mut self, key: GroupKey) -> Option<u32> {
        if self.unused == NIL {
            self.forget_one();
        }
        let at = self.unused;
        if at == NIL || self.index.insert(key.0, at).is_err() {
            return None;
        }
        self.unused = self.group(at).next_unused;
        *self.group_mut(at) = Membership { key, used: true, ..Membership::default() };
        Some(at)
    }

    /// Forgets one group of which this rank is no member; the service process remembers its generation.
    fn forget_one(&mut self) {
        let found = (0..)
            .zip(self.groups.as_ref())
            .find(|(_, group)| group.used && group.state == State::Out && !group.queued && group.key != WORLD);
        let Some((at, key)) = found.map(|(at, group)| (at, group.key)) else { return };
        self.index.remove(key.0);
        *self.group_mut(at) = Membership { next_unused: NIL, ..Membership::default() };
        self.unused = at;
    }

    /// There is something to send for this group.
    pub(super) fn stir(&mut self, at: u32) {
        if self.group(at).queued {
            return;
        }
        let last = self.work.1;
        let group = self.group_mut(at);
        group.queued = true;
        group.next_queued = NIL;
        if last == NIL {
            self.work.0 = at;
        } else {
            self.group_mut(last).next_queued = at;
        }
        self.work.1 = at;
    }

    pub(super) fn next_work(&mut self) -> Option<u32> {
        let at = self.work.0;
        if at == NIL {
            return None;
        }
        let group = self.group_mut(at);
        group.queued = false;
        let next = core::mem::replace(&mut group.next_queued, NIL);
        self.work.0 = next;
        if next == NIL {
            self.work.1 = NIL;
        }
        Some(at)
    }
}
