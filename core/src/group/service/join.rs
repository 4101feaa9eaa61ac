//! Local ranks join groups and leave them.

use zerocopy::IntoBytes;

use crate::codec::Reader;
use crate::endpoints::{Descriptor, GroupKey};
use crate::error::Status;
use crate::id::Generation;
use crate::machine::Link;
use crate::peer::Rank;
use crate::time::Time;
use crate::wire::Token;

use super::super::bits;
use super::super::heap::Piece;
use super::super::message::{Field, Head, Join, Leave, MessageError, WORLD, ops};
use super::super::record::Phase;
use super::super::shelf::Shelf;
use super::super::timers::NIL;
use super::local::{LocalSlot, Set};
use super::records::Entered;
use super::{Answer, Service, Storage};

/// Status and word of an answer; `None` if there is none yet and the rank shall ask again.
type Verdict = Option<(Status, u32)>;

const fn conflict(field: Field) -> Verdict {
    Some((Status::Conflict, field as u32))
}

impl<S: Storage, C: Shelf> Service<'_, S, C> {
    pub(super) fn on_join(
        &mut self,
        link: Link,
        local: Option<u32>,
        token: Token,
        head: Head,
        r: &mut Reader<'_>,
        now: Time,
    ) -> Result<(), MessageError> {
        let join = Join::parse(r)?;
        let local = local.ok_or(MessageError::BadField)?;
        if head.key == WORLD {
            return Err(MessageError::BadField);
        }
        if let Some((status, word)) = self.judge_join(local, head, &join, now) {
            let Head { key, generation, .. } = head;
            if status != Status::Ok {
                self.counters.refused += 1;
                crate::log!(warn, "{:?} may not join {:?} of {:?}: {:?}, {:?}", link, generation, key, status, word);
            }
            self.answers.push(Answer::Done { link, op: ops::JOIN, token, status, key, generation, word });
        }
        Ok(())
    }

    fn judge_join(&mut self, local: u32, head: Head, join: &Join<'_>, now: Time) -> Verdict {
        if self.fenced {
            return Some((Status::PeerFailed, self.config.sp.0));
        }
        if self.world == NIL || self.rec(self.world).phase != Phase::Full {
            return None;
        }
        let world_rank = self.local(local)?.world_rank;
        if let Some(at) = self.find(head.key) {
            let record = self.rec(at);
            let over = record.generation > head.generation || record.phase == Phase::Ended;
            if over && record.generation >= head.generation {
                let last = if record.phase == Phase::Ended { record.generation.0 } else { record.generation.0 - 1 };
                return Some((Status::StaleGeneration, last));
            }
            if record.generation == head.generation {
                if self.in_set(at, Set::Left, local) {
                    return Some((Status::AlreadyRevoked, head.generation.0));
                }
                if let Some(handle) = record.handle {
                    let known = self.shelf.entry(handle, join.rank).is_some_and(|(rank, _)| rank == world_rank);
                    return if known { self.join_now(at, local, join.total, now) } else { conflict(Field::Rank) };
                }
                if record.descriptor_len > 0 {
                    return self.join_known(at, local, join, now);
                }
            }
        }
        self.take_descriptor(local, head, join, now)
    }

    /// Joins a group that is being filled and whose descriptor is known.
    fn join_known(&mut self, at: u32, local: u32, join: &Join<'_>, now: Time) -> Verdict {
        let record = self.rec(at);
        let bytes = self.heap.bytes(&record.descriptor, record.descriptor_len as usize);
        let from = join.offset as usize;
        if bytes.get(from..from + join.bytes.len()) != Some(join.bytes) || bytes.len() != join.total as usize {
            return conflict(Field::Descriptor);
        }
        let world_rank = self.local(local)?.world_rank;
        let named = Descriptor::parse(bytes).ok().and_then(|d| d.world_rank_of(join.rank));
        if named != Some(world_rank) {
            return conflict(Field::Rank);
        }
        self.join_now(at, local, join.total, now)
    }

    fn join_now(&mut self, at: u32, local: u32, total: u32, now: Time) -> Verdict {
        if self.need_sets(at, now).is_none() {
            return Some((Status::Full, 0));
        }
        self.unstage(local);
        if self.in_set(at, Set::Joined, local) && self.in_set(at, Set::Known, local) {
            self.counters.duplicates += 1;
        }
        self.joined(at, local, now);
        Some((Status::Ok, total))
    }

    /// Keeps the pieces of a descriptor until all of it has come.
    fn take_descriptor(&mut self, local: u32, head: Head, join: &Join<'_>, now: Time) -> Verdict {
        // No canonical descriptor of this job's groups is longer.
        if join.total as usize > Descriptor::bytes_needed(self.world_size) {
            return conflict(Field::Descriptor);
        }
        let id = head.key.0 ^ u128::from(head.generation.0);
        let slot = self.local(local)?;
        if slot.staging_key != id || slot.staging.is_none() {
            self.unstage(local);
            let Some(piece) = self.heap.take((join.total as usize).div_ceil(8)) else { return Some((Status::Full, 0)) };
            let slot = self.local_mut(local)?;
            slot.staging = Some(piece);
            slot.staging_key = id;
        }
        let slot = *self.local(local)?;
        if join.offset != slot.staged {
            return Some((Status::Ok, slot.staged));
        }
        let to = join.offset as usize + join.bytes.len();
        let Some(place) = self.heap.bytes_mut(&slot.staging).get_mut(join.offset as usize..to) else {
            return conflict(Field::Descriptor);
        };
        place.copy_from_slice(join.bytes);
        self.local_mut(local)?.staged = to as u32;
        if to < join.total as usize {
            return Some((Status::Ok, to as u32));
        }
        let mut piece = self.local_mut(local)?.staging.take();
        let verdict = self.join_first(local, head, join.rank, &mut piece, to, now);
        self.heap.give(&mut piece);
        self.unstage(local);
        verdict
    }

    /// Joins a group of which only relayed news are known here, or none. The descriptor lies in `piece`, which the
    /// group's record keeps if all is well and which is left to the caller otherwise.
    fn join_first(&mut self, local: u32, head: Head, rank: Rank, piece: &mut Piece, len: usize, now: Time) -> Verdict {
        let Head { key, generation, .. } = head;
        let world_rank = self.local(local)?.world_rank;
        let Ok(descriptor) = Descriptor::parse(self.heap.bytes(piece, len)) else {
            return conflict(Field::Descriptor);
        };
        let (lead, size, id) = (descriptor.lead(), descriptor.size(), descriptor.id());
        if descriptor.is_world() || size > self.world_size || self.config.job.group(&descriptor) != key {
            return conflict(Field::Descriptor);
        }
        if descriptor.world_rank_of(rank) != Some(world_rank) {
            return conflict(Field::Rank);
        }
        match self.names_each_once(piece, len) {
            None => return Some((Status::Full, 0)),
            Some(false) => return conflict(Field::Descriptor),
            Some(true) => {}
        }
        let root = self.home(lead)?;
        let at = match self.enter(key, generation, root, size, false, now) {
            Entered::At(at) => at,
            Entered::Stale(last) => return Some((Status::StaleGeneration, last.0)),
            Entered::Busy => return None,
            Entered::Conflict(field) => return conflict(field),
            Entered::NoRoom => return Some((Status::Full, 0)),
        };
        if self.need_sets(at, now).is_none() {
            return Some((Status::Full, 0));
        }
        let record = self.rec_mut(at);
        record.descriptor = piece.take();
        record.descriptor_len = len as u32;
        record.wish = id;
        self.members_from_descriptor(at);
        let verdict = self.join_now(at, local, len as u32, now);
        self.check_poisoned(at, now);
        verdict
    }

    /// Whether a descriptor names only processes of the job, and none twice; `None` if there is no room to tell.
    fn names_each_once(&mut self, piece: &Piece, len: usize) -> Option<bool> {
        let mut seen = Some(self.heap.take(bits::words(self.world_size))?);
        let world_size = self.world_size;
        let (words, seen_bytes) = self.heap.beside(piece, &seen);
        let bytes = words.as_bytes().get(..len).unwrap_or(&[]);
        let distinct = Descriptor::parse(bytes).is_ok_and(|descriptor| {
            descriptor.members().iter().all(|member| {
                let byte = seen_bytes.get_mut(member.index() / 8).filter(|_| member.0 < world_size);
                byte.is_some_and(|byte| {
                    let bit = 1 << (member.0 % 8);
                    core::mem::replace(byte, *byte | bit) & bit == 0
                })
            })
        });
        self.heap.give(&mut seen);
        Some(distinct)
    }

    fn members_from_descriptor(&mut self, at: u32) {
        let (descriptor, len) = (self.rec(at).descriptor, self.rec(at).descriptor_len as usize);
        for local in 0..self.locals.as_ref().len() as u32 {
            let Some(&LocalSlot { world_rank, dead, .. }) = self.local(local) else { continue };
            if Descriptor::parse(self.heap.bytes(&descriptor, len)).is_ok_and(|d| d.contains(world_rank)) {
                bits::insert(self.set_mut(at, Set::Members), local);
                if dead {
                    bits::insert(self.set_mut(at, Set::Left), local);
                }
            }
        }
    }

    fn unstage(&mut self, local: u32) {
        if let Some(slot) = self.local_mut(local) {
            let mut staging = slot.staging.take();
            slot.staged = 0;
            slot.staging_key = 0;
            self.heap.give(&mut staging);
        }
    }

    pub(super) fn on_leave(
        &mut self,
        link: Link,
        local: Option<u32>,
        token: Token,
        head: Head,
        r: &mut Reader<'_>,
        now: Time,
    ) -> Result<(), MessageError> {
        Leave::parse(r)?;
        let local = local.ok_or(MessageError::BadField)?;
        let (status, word) = self.judge_leave(local, head.key, head.generation, now);
        let Head { key, generation, .. } = head;
        self.answers.push(Answer::Done { link, op: ops::LEAVE, token, status, key, generation, word });
        Ok(())
    }

    fn judge_leave(&mut self, local: u32, key: GroupKey, generation: Generation, now: Time) -> (Status, u32) {
        let Some(at) = self.find(key) else { return (Status::UnknownGroup, 0) };
        let record = self.rec(at);
        if record.generation > generation {
            // The answer may get lost, so the rank counts as told only once it has acknowledged the end itself.
            return (Status::StaleGeneration, record.generation.0 - 1);
        }
        if record.generation < generation {
            return (Status::UnknownGroup, 0);
        }
        if record.phase == Phase::Ended {
            bits::remove(self.set_mut(at, Set::Told), local);
            self.stir(at);
            return (Status::StaleGeneration, generation.0);
        }
        if !self.in_set(at, Set::Joined, local) && !self.in_set(at, Set::Members, local) {
            return (Status::UnknownGroup, 0);
        }
        if !bits::insert(self.set_mut(at, Set::Left), local) {
            // It still waits for the end: whoever the tree had for a parent when the others left may not have told.
            self.rec_mut(at).pull |= self.rec(at).phase == Phase::Full;
            self.stir(at);
            return (Status::AlreadyRevoked, 0);
        }
        self.add_own(at, true, false);
        self.check_ended(at, now);
        self.stir(at);
        (Status::Ok, 0)
    }
}
