//! The stencil cache: groups come in, and get their slots in turn.

use core::ops::Range;

use super::claim::Census;
use super::error::{BuildError, SubmitError, UsageError};
use super::future::Future;
use super::group::{self, Group, Queue, Reference, Stage};
use super::input::{Input, MARK, Names};
use super::kept::Kept;
use super::marks::Marks;
use super::overtake::Overtaking;
use super::storage::{Lent, Storage};
use crate::cache::policy::{Next, NextUse};
use crate::cache::pool::Pool;
use crate::cache::slot::NIL;
use crate::cache::{Interrupted, Statistics};
use crate::id::Id;

/// What a stencil cache must know before the first group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Different inputs of a group at most.
    pub largest_group: u32,
    /// Groups at most that have all their slots and are not freed; one costs about one slot. More groups can be
    /// submitted: they wait in line, and are known as future uses.
    pub active: u32,
    /// How many groups ahead next uses are told apart; two rows of a plane, or two planes of a space, suffice.
    pub horizon: u64,
}

/// A member of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Member {
    /// An input.
    Load(u64),
    /// A place for an output, under its own id: it gets a slot and is not loaded. Another group that names the same id to be
    /// loaded meanwhile gets this slot, with what the first one has written there.
    Scratch(u64),
}

/// The cache; see the [module](super).
pub struct Stencil<L: Lent, N, F: Future> {
    pub(super) pool: Pool<L::Slots, NextUse<L::Buckets>>,
    pub(super) inputs: L::Inputs,
    pub(super) groups: L::Groups,
    pub(super) references: L::References,
    pub(super) names: N,
    pub(super) future: F,
    pub(super) present: F::Present,
    /// References of each group.
    pub(super) stride: u32,
    pub(super) limit: u32,
    pub(super) active: u32,
    /// Records of groups that are free.
    pub(super) spare: Queue,
    pub(super) waiting: Queue,
    pub(super) outbox: Queue,
    /// The first and last slot that somebody is to be told to fill.
    pub(super) to_prepare: [u32; 2],
    submitted: u64,
    /// Those of them that failed: they are expected to be submitted again.
    pub(super) failures: u64,
    /// The group that is the only one to hold any of its slots, and holds each of them once; [`NIL`] if that is not known.
    pub(super) alone: u32,
    /// Its members that do not go on by one from the one before, in ids and in numbers, or with the last use of their input.
    pub(super) apart: Marks,
    pub(super) kept: Kept,
    pub(super) overtaking: Overtaking,
    pub(super) interrupted: bool,
    /// Groups that were told of the interrupt.
    pub(super) told: u32,
}

impl<L: Lent, N: Names, F: Future> Stencil<L, N, F> {
    /// An empty cache that hands out the slots of the range. Only the usage map within the inputs' records is kept.
    ///
    /// # Errors
    /// [`BuildError`] if some group could not be served.
    pub fn new(storage: L, names: N, future: F, slots: Range<u32>, limits: Limits) -> Result<Self, BuildError> {
        let Storage { slots: records, buckets, inputs, groups, references } = storage.into_storage();
        let pool = Pool::new(records, NextUse::new(buckets, limits.horizon), slots)?;
        let (need, have) = (limits.largest_group, pool.count());
        if need > have {
            return Err(BuildError::NotEnoughSlots { need, have });
        }
        let count = groups.as_ref().len();
        let each = references.as_ref().len().checked_div(count).ok_or(BuildError::NoGroups)?;
        if limits.active == 0 || count >= 1 << 31 {
            return Err(BuildError::NoGroups);
        }
        // References are numbered with 32 bits, of which the last two are no references.
        let stride = each.min((u32::MAX - 2) as usize / count) as u32;
        if stride < need {
            return Err(BuildError::TooFewReferences { need, have: each });
        }
        let present = future.present(0);
        let mut stencil = Stencil {
            pool,
            inputs,
            groups,
            references,
            names,
            future,
            present,
            stride,
            limit: limits.active,
            active: 0,
            spare: Queue::EMPTY,
            waiting: Queue::EMPTY,
            outbox: Queue::EMPTY,
            to_prepare: [NIL; 2],
            submitted: 0,
            failures: 0,
            alone: NIL,
            apart: Marks::NONE,
            kept: Kept::NOTHING,
            overtaking: Overtaking::default(),
            interrupted: false,
            told: 0,
        };
        stencil.clear();
        Ok(stencil)
    }

    /// Forgets everything but the usage map.
    pub(super) fn clear(&mut self) {
        self.pool.clear();
        self.inputs.as_mut().iter_mut().for_each(Input::clear);
        (self.spare, self.waiting, self.outbox) = (Queue::EMPTY, Queue::EMPTY, Queue::EMPTY);
        let groups = self.groups.as_mut();
        for at in (0..groups.len()).rev() {
            groups[at] = Group { generation: groups[at].generation.next(), ..Group::EMPTY };
            self.spare.push_first(groups, at as u32);
        }
        (self.to_prepare, self.active, self.told) = ([NIL; 2], 0, 0);
        (self.submitted, self.failures) = (0, 0);
        (self.alone, self.kept) = (NIL, Kept::NOTHING);
        self.overtaking.next_turn();
        self.present = self.future.present(0);
        self.interrupted = false;
    }

    #[inline]
    pub(super) fn working(&self) -> Result<(), Interrupted> {
        if self.interrupted { Err(Interrupted) } else { Ok(()) }
    }

    /// The number of the first group that has not all its slots.
    #[inline]
    pub(super) fn turn_of(&self) -> u64 {
        self.groups.as_ref().get(self.waiting.first as usize).map_or(self.submitted, |first| first.number)
    }

    /// The number that the next group has to the future: a group that failed has none, so that what comes behind it has
    /// the number that it was listed with, once it was submitted again.
    pub(super) fn time_of_next(&self) -> u64 {
        let in_turn = self.submitted - self.failures;
        // What is in line has the numbers up to there.
        self.groups.as_ref().get(self.waiting.last() as usize).map_or(in_turn, |last| last.time.max(in_turn))
    }

    /// Adds uses of an input to the usage map, also while groups are under way.
    ///
    /// # Errors
    /// [`UsageError`] if the input has no record, or too many uses, or the cache was interrupted.
    pub fn expect(&mut self, data: u64, times: u32) -> Result<(), UsageError> {
        self.working()?;
        let have = self.inputs.as_ref().len();
        let number = self.names.number(data).ok_or(UsageError::NoRecord { data, have })?;
        let input = self.inputs.as_mut().get_mut(number as usize);
        input.ok_or(UsageError::NoRecord { data, have })?.add(times)
    }

    /// Accepts the group of inputs that an output point is computed from. An input may be named several times: each
    /// is a use of its own. Actions follow: one to prepare for each input that nobody asked for yet, and one when the
    /// group is ready; at once if everything is there.
    ///
    /// # Errors
    /// [`SubmitError`]; nothing has changed then.
    pub fn submit(&mut self, point: u64, group: &[u64]) -> Result<Id<Group>, SubmitError> {
        self.accept(point, |stencil, index, turn, refused| {
            if turn && stencil.kept.long {
                return stencil.claim_rows(index, group, refused);
            }
            stencil.claim(index, turn, group.iter().map(|&data| Member::Load(data)), refused)
        })
    }

    /// [`Stencil::submit`] with members of all kinds. No id may be both an input and a scratch of one group. Where there is a
    /// scratch, all members are gone through for that.
    ///
    /// # Errors
    /// [`SubmitError`]; nothing has changed then.
    ///
    /// # Panics
    /// Only if `members` does; the uses that it had named stay claimed then, and their slots held.
    #[inline]
    pub fn submit_members(
        &mut self,
        point: u64,
        members: impl IntoIterator<Item = Member>,
    ) -> Result<Id<Group>, SubmitError> {
        self.accept(point, |stencil, index, turn, refused| {
            let mut scratch = false;
            let members = members.into_iter().inspect(|member| scratch |= matches!(member, Member::Scratch(_)));
            let census = stencil.claim(index, turn, members, refused);
            if scratch && refused.is_none() {
                let first = index * stencil.stride;
                let data = stencil.loaded_scratch(first..first + census.members);
                *refused = data.map(|data| SubmitError::LoadOfScratch { data });
            }
            census
        })
    }

    /// Accepts a group whose uses are claimed so.
    #[inline]
    fn accept(
        &mut self,
        point: u64,
        claim: impl FnOnce(&mut Self, u32, bool, &mut Option<SubmitError>) -> Census,
    ) -> Result<Id<Group>, SubmitError> {
        self.working()?;
        let index = self.spare.first;
        if index == NIL {
            return Err(SubmitError::GroupsFull { groups: self.groups.as_ref().len() });
        }
        let first = index * self.stride;
        // What the members claim may be the last uses of what another group holds.
        self.alone = NIL;
        // Whose turn it is at once takes hold of its slots while it is looked through.
        let turn = self.waiting.first == NIL && self.active < self.limit;
        if !turn || self.kept.index != index {
            self.give_back_kept();
        }
        let mut refused = None;
        let census = claim(self, index, turn, &mut refused);
        let references = first..first + census.members;
        if census.members > self.pool.count() && refused.is_none() {
            let (need, have) = (self.different(references.clone()), self.pool.count());
            refused = (need > have).then_some(SubmitError::GroupTooLarge { need, have });
        }
        if let Some(error) = refused {
            self.unclaim(references);
            return Err(error);
        }
        let (number, time, members) = (self.submitted, self.time_of_next(), census.members);
        let groups = self.groups.as_mut();
        let _ = self.spare.pop(groups);
        let generation = groups[index as usize].generation;
        groups[index as usize] =
            Group { point, number, time, members, generation, stage: Stage::Queued, ..Group::EMPTY };
        self.submitted += 1;
        let id = Id::new(index, generation);
        if turn {
            self.begin_with(index, census);
            self.alone = if census.alone { index } else { NIL };
            self.apart = census.apart;
            if self.assign_missing(index, census.lacking) {
                self.activate(index);
            } else {
                self.waiting.push(self.groups.as_mut(), index);
            }
        } else if self.may_pass(references) {
            self.pass(index);
        } else {
            self.waiting.push(self.groups.as_mut(), index);
            self.enqueue(index);
        }
        Ok(id)
    }

    /// [`Stencil::claim_all`] for a group whose turn it is, or not.
    #[inline]
    fn claim(
        &mut self,
        index: u32,
        turn: bool,
        members: impl Iterator<Item = Member>,
        refused: &mut Option<SubmitError>,
    ) -> Census {
        if turn {
            self.claim_all::<true>(index, members, refused)
        } else {
            self.claim_all::<false>(index, members, refused)
        }
    }

    /// Scratch that the references of one group also name as an input.
    #[inline(never)]
    fn loaded_scratch(&mut self, references: Range<u32>) -> Option<u64> {
        let named = &self.references.as_ref()[references.start as usize..references.end as usize];
        let inputs = self.inputs.as_mut();
        for reference in named.iter().filter(|reference| !reference.is_scratch()) {
            inputs[reference.input as usize].handed_over |= MARK;
        }
        let is_both = |of: &&Reference| of.is_scratch() && inputs[of.input as usize].handed_over & MARK != 0;
        let both = named.iter().find(is_both).map(|reference| reference.input);
        for reference in named {
            inputs[reference.input as usize].handed_over &= !MARK;
        }
        self.names.data(both?)
    }

    /// How many different inputs the references name.
    fn different(&mut self, references: Range<u32>) -> u32 {
        let named = &self.references.as_ref()[references.start as usize..references.end as usize];
        let inputs = self.inputs.as_mut();
        let mut count = 0;
        for reference in named {
            let input = &mut inputs[reference.input as usize];
            count += u32::from(input.handed_over & MARK == 0);
            input.handed_over |= MARK;
        }
        for reference in named {
            inputs[reference.input as usize].handed_over &= !MARK;
        }
        count
    }

    /// Puts the group's references without a slot into the queues of their inputs; idle content that the group will
    /// use moves to its new place in the calendar.
    pub(super) fn enqueue(&mut self, index: u32) {
        let group = &mut self.groups.as_mut()[index as usize];
        group.in_queues = true;
        let (time, first) = (group.time, index * self.stride);
        let references = self.references.as_mut();
        for at in first..first + group.members {
            let reference = references[at as usize];
            if reference.slot != NIL {
                continue;
            }
            let input = &mut self.inputs.as_mut()[reference.input as usize];
            let is_first = input.queue == NIL;
            group::append(references, &mut input.queue, at);
            if is_first && input.slot != NIL {
                self.pool.reorder(input.slot, Next::At(time));
            }
        }
    }

    /// What happened so far; also after an interrupt.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.pool.statistics
    }
}
