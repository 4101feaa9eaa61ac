//! How a generation ends: all have left, somebody never came, somebody died.

use crate::endpoints::Descriptor;
use crate::error::Status;
use crate::peer::{Rank, Sp};
use crate::time::Time;

use super::super::bits;
use super::super::cause::{Cause, Missing, Who};
use super::super::message::Entries;
use super::super::record::{DONE, NEIGHBOURS, Phase};
use super::super::shelf::Shelf;
use super::super::timers::{HALF, LINGER, MOST, QUARTER, STEPS};
use super::local::Set;
use super::records::{Deadlines, Resends};
use super::report::Event;
use super::{Service, Storage};

impl<S: Storage, C: Shelf> Service<'_, S, C> {
    /// The generation is over, here and in the subtree.
    pub(super) fn end(&mut self, at: u32, cause: Cause, now: Time) {
        self.end_here(at, cause);
        self.rec_mut(at).pushed = [0; NEIGHBOURS];
        self.check_settled(at, now);
    }

    /// The generation is over here; the others know it or find out by themselves.
    pub(super) fn end_here(&mut self, at: u32, cause: Cause) {
        if self.rec(at).phase == Phase::Ended {
            return;
        }
        if let Some(handle) = self.rec_mut(at).handle.take() {
            self.shelf.retire(handle);
        }
        self.drop_pieces(at);
        self.deadlines.disarm(&mut Deadlines(self.records.as_mut()), at);
        let record = self.rec_mut(at);
        record.phase = Phase::Ended;
        record.cause = cause;
        record.pushed = [DONE; NEIGHBOURS];
        record.outstanding = 0;
        record.pull = false;
        record.step = 0;
        let (key, generation) = (record.key, record.generation);
        self.counters.ended += 1;
        crate::log!(info, "{:?} of {:?} ended: {:?}", generation, key, cause);
        self.events.push(Event::Ended { key, generation, cause });
        self.tell_again(at);
    }

    /// At the authority: has everybody left?
    pub(super) fn check_ended(&mut self, at: u32, now: Time) {
        let record = self.rec(at);
        if !matches!(record.phase, Phase::Gathering | Phase::Full) {
            return;
        }
        if self.is_root(at) {
            let left = &record.left;
            let all = left.count == record.size
                || (self.dead > 0 && left.count > 0 && record.phase == Phase::Full && self.rest_is_dead(at));
            if all {
                self.end(at, Cause::LEFT, now);
            }
        } else if record.phase == Phase::Full && record.left_out && self.is_dead(self.root_of(at)) {
            // Nobody is left who could say that the group has ended, and nobody here needs it.
            let root = self.root_of(at);
            self.end_here(at, Cause::failed(root));
        }
    }

    /// Gives up the group that is known for longest of those in which nobody here is and whose authority is dead, so that
    /// nobody will tell of their end. Its room is for groups that somebody waits for. Whether there was one.
    pub(super) fn give_way(&mut self, now: Time) -> bool {
        let idle = |&at: &u32| {
            let record = self.rec(at);
            let unused = record.phase == Phase::Full && record.locals.is_none() && !record.is_world();
            unused && self.is_dead(record.root) && !self.serves(at)
        };
        let all = 0..self.records.as_ref().len() as u32;
        let Some(at) = all.filter(idle).min_by_key(|&at| self.rec(at).since) else { return false };
        self.end_here(at, Cause::failed(self.rec(at).root));
        self.check_settled(at, now);
        true
    }

    /// Whether everybody who has not left was served by a service process that is dead.
    fn rest_is_dead(&self, at: u32) -> bool {
        let record = self.rec(at);
        let Some(handle) = record.handle else { return false };
        let left = self.heap.words(&record.left.bits);
        bits::absent(left, record.size)
            .all(|rank| self.shelf.entry(handle, Rank(rank)).is_some_and(|(_, sp)| self.is_dead(sp)))
    }

    /// Ends a group that can never be full, because a service process that it needs has died.
    pub(super) fn check_poisoned(&mut self, at: u32, now: Time) {
        let record = self.rec(at);
        if record.phase != Phase::Gathering || self.dead == 0 {
            return;
        }
        let root = self.root_of(at);
        if self.is_dead(root) {
            self.end_here(at, Cause::failed(root));
        } else if self.is_root(at)
            && let Some(sp) = self.dead_member(at)
        {
            let missing = self.missing_ranks(at);
            self.end(at, Cause { missing, ..Cause::failed(sp) }, now);
        }
    }

    /// A dead service process that serves members of a group, as far as is known.
    fn dead_member(&self, at: u32) -> Option<Sp> {
        let record = self.rec(at);
        if record.is_world() {
            let list = self.heap.words(&record.joined.list);
            return list.chunks_exact(2).take(record.joined.len as usize).find_map(|words| {
                let &[first, second] = words else { return None };
                Some(Entries::from_words([first, second]).sp).filter(|&sp| self.is_dead(sp))
            });
        }
        let bytes = self.heap.bytes(&record.descriptor, record.descriptor_len as usize);
        let descriptor = Descriptor::parse(bytes).ok()?;
        descriptor.members().iter().find_map(|member| self.home(member).filter(|&sp| self.is_dead(sp)))
    }

    fn missing_ranks(&self, at: u32) -> Missing {
        let record = self.rec(at);
        Missing::collect(Who::Ranks, bits::absent(self.heap.words(&record.joined.bits), record.size))
    }

    /// Who is missing, seen from here.
    pub(super) fn missing(&self, at: u32) -> Missing {
        let record = self.rec(at);
        if record.phase != Phase::Gathering {
            return Missing::default();
        }
        if self.is_root(at) {
            return self.missing_ranks(at);
        }
        if record.locals.is_some() && !self.all_joined(at) {
            return self.missing_here(at);
        }
        let parent = self.parent(at).unwrap_or(self.root_of(at));
        let unreachable = self.link_to(parent).is_none();
        Missing::collect(Who::ServiceProcesses, unreachable.then_some(parent.0))
    }

    fn missing_here(&self, at: u32) -> Missing {
        let record = self.rec(at);
        if record.is_world() {
            let expected = self.placement.expected_local_ranks(self.config.sp, self.n_local);
            let absent = expected.filter(|&local| {
                !(0..)
                    .zip(self.locals.as_ref())
                    .any(|(i, slot)| slot.used && slot.local == Some(local) && self.in_set(at, Set::Joined, i))
            });
            return Missing::collect(Who::LocalRanks, absent.map(|local| local.0));
        }
        let bytes = self.heap.bytes(&record.descriptor, record.descriptor_len as usize);
        let Ok(descriptor) = Descriptor::parse(bytes) else { return Missing::default() };
        let members = bits::members(self.set(at, Set::Members)).filter(|&i| !self.in_set(at, Set::Joined, i));
        let ranks = members.filter_map(|i| descriptor.rank_of(self.local(i)?.world_rank));
        Missing::collect(Who::Ranks, ranks.map(|rank| rank.0))
    }

    /// A group is not full in time.
    pub(super) fn overdue(&mut self, at: u32, queue: u8, now: Time) {
        if self.rec(at).phase == Phase::Full {
            if self.rec(at).locals.is_some() {
                self.absent_have_left(at, now);
            } else if self.serves(at) {
                // There was no room for those who may come back; they have time from now on.
                let _ = self.need_sets(at, now);
                self.deadlines.arm(&mut Deadlines(self.records.as_mut()), at, MOST, now);
            }
        }
        if self.rec(at).phase != Phase::Gathering {
            return;
        }
        let root = self.is_root(at);
        if queue == MOST {
            // Near the end the parent hears of those who are here, so that only the others are called missing.
            self.add_own(at, false, true);
            self.check_full(at, now);
            if self.rec(at).phase == Phase::Gathering {
                let queue = if root { QUARTER } else { HALF };
                self.deadlines.arm(&mut Deadlines(self.records.as_mut()), at, queue, now);
                self.stir(at);
            }
            return;
        }
        let waits = !self.set(at, Set::Joined).iter().all(|&word| word == 0);
        let missing = self.missing(at);
        let died = self.rec(at).is_world() && self.dead > 0;
        let dead = (0..self.placement.service_processes()).map(Sp).find(|&sp| died && self.is_dead(sp));
        let cause = match dead {
            Some(sp) => Cause { missing, ..Cause::failed(sp) },
            None => {
                // Everybody here has joined, and the parent can be reached but has not said what came of it.
                let silent = if missing.count() == 0 { self.parent(at).or(Some(self.root_of(at))) } else { None };
                Cause { sp: silent, missing, ..Cause::of(Status::Timeout) }
            }
        };
        if root {
            self.counters.timeouts += 1;
            self.end(at, cause, now);
        } else if waits && queue != LINGER {
            self.counters.timeouts += 1;
            self.end_here(at, cause);
            self.check_settled(at, now);
        } else {
            self.forget(at);
        }
    }

    /// Members that joined at an earlier life of this process and do not know of it any more have left.
    fn absent_have_left(&mut self, at: u32, now: Time) {
        for word in 0..self.local_words() {
            let read = |set| self.set(at, set).get(word).copied().unwrap_or(0);
            let absent = read(Set::Members) & !read(Set::Joined);
            if let Some(left) = self.set_mut(at, Set::Left).get_mut(word) {
                *left |= absent;
            }
        }
        self.add_own(at, true, false);
        self.check_ended(at, now);
        self.stir(at);
    }

    /// What was sent and is not acknowledged is sent again.
    pub(super) fn repeat(&mut self, at: u32) {
        let idle = {
            let record = self.rec(at);
            record.phase == Phase::Gathering && (record.locals.is_none() || record.joined_out)
        };
        let pull = idle && !self.is_root(at);
        let words = self.local_words();
        for word in 0..words {
            let known = self.set(at, Set::Known).get(word).copied().unwrap_or(0);
            if let Some(told) = self.set_mut(at, Set::Told).get_mut(word) {
                *told &= known;
            }
        }
        let record = self.rec_mut(at);
        let unanswered = record.phase == Phase::Full && record.left.serial != 0;
        for flow in [&mut record.joined, &mut record.left] {
            flow.sent = flow.acked;
            flow.serial = 0;
        }
        record.outstanding = 0;
        record.pull |= pull || unanswered;
        self.stir(at);
    }

    /// Repeats, the next time after twice as long.
    pub(super) fn repeat_later(&mut self, at: u32) {
        self.counters.repeats += 1;
        let record = self.rec(at);
        crate::log!(debug, "{:?} of {:?}: no answer; said again", record.generation, record.key);
        self.repeat(at);
        let record = self.rec_mut(at);
        record.hurry = true;
        record.step = (record.step + 1).min(STEPS - 1);
    }

    /// Whether something was said to somebody who has not answered, or could not be said for want of room.
    pub(super) fn awaits(&self, at: u32) -> bool {
        let record = self.rec(at);
        if self.owes(at, false) || self.owes(at, true) {
            return true;
        }
        match record.phase {
            Phase::Unused => false,
            Phase::Gathering => {
                record.left.serial != 0
                    || !self.is_settled(at)
                    // Of the end of the generation before.
                    || self.awaits_locals(at)
                    || (!self.is_root(at)
                        && (record.locals.is_none()
                            || record.joined_out
                            || record.joined.serial != 0
                            || record.joined.sent < record.joined.len))
            }
            Phase::Full | Phase::Ended => {
                let asks = record.phase == Phase::Full && record.pull;
                (asks || record.left.sent < record.left.len) && !self.is_root(at)
                    || record.left.serial != 0
                    || !self.is_settled(at)
                    || self.awaits_locals(at)
            }
        }
    }

    /// An ended group of which everybody knows becomes a memory.
    pub(super) fn check_settled(&mut self, at: u32, now: Time) {
        if self.rec(at).phase == Phase::Ended && self.is_settled(at) && self.locals_know(at) {
            self.resends.disarm(&mut Resends(self.records.as_mut()), at);
            self.retire_record(at, now);
        }
    }
}
