//! The ranks served here, and which of them are in which state of which group.
//!
//! Each group with local members has six sets of local ranks: its members served here, those that have joined, those
//! that have left or died, those that were told the latest news, those that have acknowledged it, and those
//! that have yet to acknowledge the end of the generation before.

use crate::endpoints::Descriptor;
use crate::error::Status;
use crate::machine::Link;
use crate::peer::{Incarnation, LocalRank, Rank, Sp, WorldRank};
use crate::time::Time;
use crate::wire::Op;

use super::super::bits;
use super::super::cause::Stretch;
use super::super::heap::Piece;
use super::super::message::{Entries, MessageError, Reply, ops};
use super::super::record::Phase;
use super::super::shelf::Shelf;
use super::super::timers::NIL;
use super::{Answer, Audience, Service, Storage};

/// One rank served here: lent by the owner, opaque.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalSlot {
    pub(super) used: bool,
    pub(super) world_rank: WorldRank,
    /// Unknown until the rank has said it.
    pub(super) local: Option<LocalRank>,
    pub(super) link: Option<Link>,
    pub(super) incarnation: Incarnation,
    pub(super) dead: bool,
    /// Since when there is no link.
    pub(super) since: Time,
    pub(super) heard: Time,
    pub(super) ping_due: bool,
    /// A descriptor that comes in pieces.
    pub(super) staging: Piece,
    pub(super) staged: u32,
    pub(super) staging_key: u128,
}

/// Which set of local ranks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Set {
    Members = 0,
    Joined = 1,
    Left = 2,
    Told = 3,
    Known = 4,
    Behind = 5,
}
const SETS: usize = 6;

impl<S: Storage, C: Shelf> Service<'_, S, C> {
    pub(super) fn local_words(&self) -> usize {
        self.locals.as_ref().len().div_ceil(64)
    }

    /// Makes room for the sets of a group; the members of one that is full are known at once.
    pub(super) fn need_sets(&mut self, at: u32, now: Time) -> Option<()> {
        if self.rec(at).locals.is_none() {
            let piece = self.heap.take(self.local_words() * SETS)?;
            self.rec_mut(at).locals = Some(piece);
            self.members_from_table(at, now);
        }
        Some(())
    }

    pub(super) fn set(&self, at: u32, set: Set) -> &[u64] {
        let words = self.local_words();
        let from = set as usize * words;
        self.heap.words(&self.rec(at).locals).get(from..from + words).unwrap_or(&[])
    }

    pub(super) fn set_mut(&mut self, at: u32, set: Set) -> &mut [u64] {
        let words = self.local_words();
        let from = set as usize * words;
        let piece = self.rec(at).locals;
        self.heap.words_mut(&piece).get_mut(from..from + words).unwrap_or(&mut [])
    }

    pub(super) fn in_set(&self, at: u32, set: Set, local: u32) -> bool {
        bits::contains(self.set(at, set), local)
    }

    /// Whether every local rank in `part` is in `whole`.
    pub(super) fn within(&self, at: u32, part: Set, whole: Set) -> bool {
        self.set(at, part).iter().zip(self.set(at, whole)).all(|(part, whole)| part & !whole == 0)
    }

    pub(super) fn local(&self, at: u32) -> Option<&LocalSlot> {
        self.locals.as_ref().get(at as usize).filter(|slot| slot.used)
    }

    pub(super) fn local_mut(&mut self, at: u32) -> Option<&mut LocalSlot> {
        self.locals.as_mut().get_mut(at as usize)
    }

    pub(super) fn local_by_world_rank(&self, rank: WorldRank) -> Option<u32> {
        (0..).zip(self.locals.as_ref()).find(|(_, slot)| slot.used && slot.world_rank == rank).map(|(at, _)| at)
    }

    /// Whether all local ranks that are waited for have joined.
    pub(super) fn all_joined(&self, at: u32) -> bool {
        let joined = bits::count(self.set(at, Set::Joined));
        if self.rec(at).is_world() {
            joined > 0 && Some(joined) == self.placement.expected_ranks(self.config.sp, self.n_local)
        } else {
            joined > 0 && self.within(at, Set::Members, Set::Joined)
        }
    }

    fn all_left(&self, at: u32) -> bool {
        let left = bits::count(self.set(at, Set::Left));
        match self.rec(at).phase {
            Phase::Gathering if self.rec(at).is_world() => {
                self.all_joined(at) && self.within(at, Set::Joined, Set::Left)
            }
            _ => left > 0 && self.within(at, Set::Members, Set::Left),
        }
    }

    /// Whether the local ranks that join, or leave, have yet to be put on their way up.
    fn says(&self, at: u32, leave: bool) -> bool {
        let record = self.rec(at);
        let out = match record.phase {
            Phase::Gathering if !leave => record.joined_out,
            Phase::Gathering | Phase::Full if leave => record.left_out,
            _ => true,
        };
        record.locals.is_some() && !out
    }

    /// Whether they have all joined, or left, and are not on their way up: what is left to do needs room.
    pub(super) fn owes(&self, at: u32, leave: bool) -> bool {
        self.says(at, leave) && if leave { self.all_left(at) } else { self.all_joined(at) }
    }

    /// Puts the local ranks that have joined, or left, on their way up, once all of them have (or, with `partly`,
    /// those that have). If there is no room it is tried again.
    pub(super) fn add_own(&mut self, at: u32, leave: bool, partly: bool) {
        let ready = self.owes(at, leave);
        let some = partly && self.says(at, leave);
        if !ready && !some {
            return;
        }
        let set = if leave { Set::Left } else { Set::Joined };
        let Some(piece) = self.heap.take(self.local_words() * 64) else { return };
        let count = self.own_ranks(at, set, &Some(piece));
        let mut run = Stretch::default();
        let mut fits = true;
        for i in 0..=count {
            let next = self.heap.words(&Some(piece)).get(i).copied().filter(|_| i < count);
            if let Some(next) = next
                && run.extend(next as u32)
            {
                continue;
            }
            if run.count > 0 {
                fits &= self.add(at, leave, Entries { sp: self.config.sp, ranks: run }).is_some();
            }
            run = Stretch { first: next.unwrap_or(0) as u32, stride: 0, count: 1 };
        }
        self.heap.give(&mut Some(piece));
        if fits && ready {
            let record = self.rec_mut(at);
            if leave {
                record.left_out = true;
            } else {
                record.joined_out = true;
            }
        }
    }

    /// Writes the group ranks of a set of local ranks into a piece, ascending; how many there are.
    fn own_ranks(&mut self, at: u32, set: Set, out: &Piece) -> usize {
        let record = self.rec(at);
        let (world, descriptor, len) = (record.is_world(), record.descriptor, record.descriptor_len);
        let mut count = 0;
        if let Some(handle) = record.handle {
            let (locals, all) = (self.locals.as_ref(), record.locals);
            let words = self.local_words();
            let from = set as usize * words;
            let (sets, bytes) = self.heap.beside(&all, out);
            let chosen = sets.get(from..from + words).unwrap_or(&[]);
            self.shelf.ranks_of(handle, self.config.sp, &mut |rank, world_rank| {
                let local = (0..).zip(locals).find(|(_, slot)| slot.used && slot.world_rank == world_rank);
                if local.is_some_and(|(local, _)| bits::contains(chosen, local))
                    && let Some(word) = bytes.get_mut(count * 8..count * 8 + 8)
                {
                    word.copy_from_slice(&u64::from(rank.0).to_ne_bytes());
                    count += 1;
                }
            });
            return count;
        }
        for local in 0..self.locals.as_ref().len() as u32 {
            if !self.in_set(at, set, local) {
                continue;
            }
            let Some(world_rank) = self.local(local).map(|slot| slot.world_rank) else { continue };
            let rank = if world {
                Some(Rank(world_rank.0))
            } else {
                Descriptor::parse(self.heap.bytes(&descriptor, len as usize)).ok().and_then(|d| d.rank_of(world_rank))
            };
            if let Some(rank) = rank
                && let Some(word) = self.heap.words_mut(out).get_mut(count)
            {
                *word = u64::from(rank.0);
                count += 1;
            }
        }
        if let Some(ranks) = self.heap.words_mut(out).get_mut(..count) {
            ranks.sort_unstable();
        }
        count
    }

    /// Whether the table of a full group names ranks that are served here.
    pub(super) fn serves(&self, at: u32) -> bool {
        let mut any = false;
        if let Some(handle) = self.rec(at).handle {
            self.shelf.ranks_of(handle, self.config.sp, &mut |_, _| any = true);
        }
        any
    }

    /// Takes the local members of a full group from its table.
    pub(super) fn members_from_table(&mut self, at: u32, now: Time) {
        let Some(handle) = self.rec(at).handle else { return };
        let me = self.config.sp;
        let (locals, no_room) = (self.locals.as_mut(), &mut self.counters.no_room);
        let words = locals.len().div_ceil(64);
        let piece = self.records.as_ref()[at as usize].locals;
        let members = self.heap.words_mut(&piece).get_mut(..words).unwrap_or(&mut []);
        self.shelf.ranks_of(handle, me, &mut |_, world_rank| {
            let known = locals.iter().position(|slot| slot.used && slot.world_rank == world_rank);
            let local = known.or_else(|| locals.iter().position(|slot| !slot.used));
            let Some(slot) = local.and_then(|local| locals.get_mut(local)) else {
                *no_room += 1;
                return;
            };
            if !slot.used {
                // It was served by an earlier life of this process: it has time to come back.
                *slot = LocalSlot { used: true, world_rank, since: now, ..LocalSlot::default() };
            }
            bits::insert(members, local.unwrap_or(0) as u32);
        });
        for local in 0..self.locals.as_ref().len() as u32 {
            if self.local(local).is_some_and(|slot| slot.dead) && self.in_set(at, Set::Members, local) {
                bits::insert(self.set_mut(at, Set::Left), local);
            }
        }
    }

    /// All local ranks in `set` have to be told the news (again).
    pub(super) fn tell_again(&mut self, at: u32) {
        self.set_mut(at, Set::Told).fill(0);
        self.set_mut(at, Set::Known).fill(0);
        self.stir(at);
    }

    /// The next local rank that has to be told what its group has become: its link, and whether it is told of the
    /// end of the generation before.
    pub(super) fn next_to_tell(&mut self, at: u32) -> Option<(Link, u32, bool)> {
        let record = self.rec(at);
        if record.locals.is_none() || record.phase == Phase::Unused {
            return None;
        }
        let gathering = record.phase == Phase::Gathering;
        let everybody = self.config.audience == Audience::Everybody && record.phase == Phase::Full;
        for local in 0..self.locals.as_ref().len() as u32 {
            let Some(link) = self.local(local).and_then(|slot| slot.link) else { continue };
            if self.in_set(at, Set::Told, local) {
                continue;
            }
            let behind = self.in_set(at, Set::Behind, local);
            let joined = self.in_set(at, Set::Joined, local) || everybody;
            // Who left a full group has no use for its table; everybody who joined hears of the end.
            let left = self.in_set(at, Set::Left, local) && record.phase == Phase::Full;
            if behind || (joined && !gathering && !left) {
                bits::insert(self.set_mut(at, Set::Told), local);
                return Some((link, local, behind));
            }
        }
        None
    }

    /// Whether some local rank was told something and has not acknowledged it.
    pub(super) fn awaits_locals(&self, at: u32) -> bool {
        let told = self.set(at, Set::Told).iter().zip(self.set(at, Set::Known));
        told.clone().any(|(told, known)| told & !known != 0)
            && (0..self.locals.as_ref().len() as u32).any(|local| {
                self.in_set(at, Set::Told, local)
                    && !self.in_set(at, Set::Known, local)
                    && self.local(local).is_some_and(|slot| slot.link.is_some())
            })
    }

    /// Whether every member here that can be told knows the latest.
    pub(super) fn locals_know(&self, at: u32) -> bool {
        (0..self.locals.as_ref().len() as u32).all(|local| {
            let waits = self.in_set(at, Set::Joined, local) || self.in_set(at, Set::Behind, local);
            !waits || self.in_set(at, Set::Known, local) || self.local(local).is_none_or(|slot| slot.dead)
        })
    }

    /// A local rank has answered `READY` or `ENDED`.
    pub(super) fn on_told(&mut self, local: Option<u32>, op: Op, body: &[u8], now: Time) -> Result<(), MessageError> {
        let head = Reply::parse(body)?.head;
        let (Some(local), Some(at)) = (local, self.find(head.key)) else { return Ok(()) };
        let record = self.rec(at);
        let current = head.generation == record.generation;
        match (op, record.phase) {
            (ops::READY, Phase::Full) | (ops::ENDED, Phase::Ended) if current => {
                bits::insert(self.set_mut(at, Set::Known), local);
            }
            (ops::ENDED, _) if head.generation == record.before => {
                self.caught_up(at, local);
            }
            _ => self.counters.stale += 1,
        }
        self.check_settled(at, now);
        Ok(())
    }

    /// A local rank knows that the generation before has ended.
    pub(super) fn caught_up(&mut self, at: u32, local: u32) {
        if self.in_set(at, Set::Behind, local) {
            bits::remove(self.set_mut(at, Set::Behind), local);
            bits::remove(self.set_mut(at, Set::Told), local);
            self.stir(at);
        }
    }

    /// The members that have not heard of the end of this generation are remembered while the next one runs.
    pub(super) fn leave_behind(&mut self, at: u32) {
        let words = self.local_words();
        let piece = self.rec(at).locals;
        let all = self.heap.words_mut(&piece);
        for word in 0..words {
            let bit = |set: Set| set as usize * words + word;
            let read = |all: &[u64], set: Set| all.get(bit(set)).copied().unwrap_or(0);
            let behind = (read(all, Set::Joined) & !read(all, Set::Known)) | read(all, Set::Behind);
            for set in [Set::Members, Set::Joined, Set::Left, Set::Told, Set::Known] {
                if let Some(word) = all.get_mut(bit(set)) {
                    *word = 0;
                }
            }
            if let Some(word) = all.get_mut(bit(Set::Behind)) {
                *word = behind;
            }
        }
    }

    /// Refuses the local ranks for which the world's table names another place.
    pub(super) fn refuse_displaced(&mut self, at: u32) {
        let Some(handle) = self.rec(at).handle else { return };
        for local in 0..self.locals.as_ref().len() as u32 {
            let Some(slot) = self.local(local).copied() else { continue };
            let place = self.shelf.entry(handle, Rank(slot.world_rank.0));
            if place.is_some_and(|(_, sp)| sp == self.config.sp) {
                continue;
            }
            if let Some(link) = slot.link {
                if let Some(slot) = self.links.as_mut().get_mut(link.index()) {
                    slot.local = None;
                }
                self.counters.conflicts += 1;
                self.answers.push(Answer::Close { link, reason: Status::DuplicateRank });
            }
            for set in [Set::Members, Set::Joined, Set::Left, Set::Told, Set::Known, Set::Behind] {
                bits::remove(self.set_mut(at, set), local);
            }
            if let Some(slot) = self.local_mut(local) {
                *slot = LocalSlot::default();
            }
        }
    }

    /// Where a world rank is served, by the world table.
    pub(super) fn home(&self, rank: WorldRank) -> Option<Sp> {
        if self.world == NIL {
            return None;
        }
        let handle = self.rec(self.world).handle?;
        Some(self.shelf.entry(handle, Rank(rank.0))?.1)
    }
}
