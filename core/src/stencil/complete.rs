//! What a stencil cache asks for, and what it is told.

use super::error::{FreeError, GroupError, PreparedError};
use super::future::Future;
use super::group::{self, GONE, Group, Reference, Stage};
use super::input::{Input, Names};
use super::machine::Stencil;
use super::storage::Lent;
use crate::cache::slot::{LEAVING, NIL, TOLD, VALID};
use crate::id::Id;

/// What is to be done next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "an action is told once"]
pub enum Action {
    /// Load an input into a slot, and answer with [`Stencil::prepared`] or [`Stencil::failed`]. Once for each input
    /// that gets a slot; in the order of the groups, and of the members in a group.
    Prepare {
        /// The slot.
        slot: u32,
        /// The input.
        data: u64,
    },
    /// All inputs of a group are in their slots: compute the point from [`Stencil::slots`], then free the group.
    /// Groups that become ready by the same load are told in the order of submission.
    Ready {
        /// The output point.
        point: u64,
        /// The group.
        group: Id<Group>,
    },
    /// A group won't be ready, and has ended: an input could not be loaded. It may be submitted again.
    Failed {
        /// The output point.
        point: u64,
        /// The input.
        data: u64,
    },
    /// A group won't be ready: the cache was interrupted. Once for each group that nobody was told the end of.
    Interrupted {
        /// The output point.
        point: u64,
    },
}

impl<L: Lent, N: Names, F: Future> Stencil<L, N, F> {
    /// The next action. To be asked after each `submit`, `prepared`, `failed`, `free`, `free_group`, `hand_over` and
    /// `interrupt`, until there is none.
    #[inline]
    pub fn poll(&mut self) -> Option<Action> {
        if self.interrupted {
            return self.poll_interrupted();
        }
        let slot = self.to_prepare[0];
        if slot != NIL {
            let this = self.pool.at_mut(slot);
            self.to_prepare[0] = core::mem::replace(&mut this.next, NIL);
            this.set(TOLD);
            let data = this.data;
            if self.to_prepare[0] == NIL {
                self.to_prepare[1] = NIL;
            }
            return Some(Action::Prepare { slot: self.pool.outer(slot), data });
        }
        let groups = self.groups.as_mut();
        let index = self.outbox.pop(groups)?;
        let group = &mut groups[index as usize];
        let Group { point, failed: data, missing, .. } = *group;
        if group.stage == Stage::Ready {
            group.stage = Stage::Delivered;
            return Some(Action::Ready { point, group: group::id(groups, index) });
        }
        group.stage = Stage::Ending;
        if missing == 0 {
            self.end(index);
        }
        Some(Action::Failed { point, data })
    }

    /// The record of a group is free again.
    fn end(&mut self, index: u32) {
        let groups = self.groups.as_mut();
        let generation = groups[index as usize].generation.next();
        groups[index as usize] = Group { generation, ..Group::EMPTY };
        self.spare.push_first(groups, index);
    }

    /// The record and the slot of an input that is being filled, as somebody was told.
    fn filling(&self, data: u64) -> Result<(u32, u32), PreparedError> {
        self.working()?;
        let number = self.names.number(data).ok_or(PreparedError::NotFilling { data })?;
        let slot = self.inputs.as_ref().get(number as usize).map_or(NIL, |input| input.slot);
        if slot == NIL || self.pool.at(slot).is(VALID) || !self.pool.at(slot).is(TOLD) {
            return Err(PreparedError::NotFilling { data });
        }
        Ok((number, slot))
    }

    /// The input is in the slot that it was to be loaded into.
    ///
    /// # Errors
    /// [`PreparedError`] if nobody was told to load it, or if that was answered before.
    #[inline]
    pub fn prepared(&mut self, data: u64) -> Result<(), PreparedError> {
        let (number, slot) = self.filling(data)?;
        self.pool.fill(slot);
        let last = core::mem::replace(&mut self.pool.at_mut(slot).prev, NIL);
        let mut waiting = group::first(self.references.as_ref(), last);
        while let Some(at) = waiting {
            let this = &self.references.as_ref()[at as usize];
            let index = this.group();
            waiting = (at != last).then_some(this.next);
            let groups = self.groups.as_mut();
            let group = &mut groups[index as usize];
            group.missing -= 1;
            match (group.stage, group.missing) {
                (Stage::Assigned, 0) => {
                    group.stage = Stage::Ready;
                    self.outbox.push(groups, index);
                }
                (Stage::Failed | Stage::Ending, _) => self.let_go_of_failed(at, index, number),
                _ => {}
            }
        }
        // The load's own hold: if it is the last one, all that waited have failed.
        self.let_go_for_retry(slot, number);
        self.pump();
        Ok(())
    }

    /// The input could not be loaded. Each group that waits for it fails, and what else it holds is given back, its uses
    /// too; the slot is empty, and a later group tries again.
    ///
    /// # Errors
    /// [`PreparedError`] if nobody was told to load it, or if that was answered before.
    pub fn failed(&mut self, data: u64) -> Result<(), PreparedError> {
        let (number, slot) = self.filling(data)?;
        while let Some(at) = group::remove_first(self.references.as_mut(), &mut self.pool.at_mut(slot).prev) {
            let index = self.references.as_ref()[at as usize].group();
            self.groups.as_mut()[index as usize].missing -= 1;
            self.let_go_of_failed(at, index, number);
            self.fail(index, data);
        }
        self.let_go(slot, number);
        self.pump();
        Ok(())
    }

    /// Gives back a reference of a group that fails or failed, which waited for the slot's content.
    fn let_go_of_failed(&mut self, at: u32, index: u32, number: u32) {
        let slot = core::mem::replace(&mut self.references.as_mut()[at as usize].slot, GONE);
        self.let_go(slot, number);
        let Group { stage, missing, .. } = self.groups.as_ref()[index as usize];
        if stage == Stage::Ending && missing == 0 {
            self.end(index);
        }
    }

    /// Takes back all that a group holds or waits for, but for what is being filled.
    fn fail(&mut self, index: u32, data: u64) {
        let Group { members, stage, in_queues, .. } = self.groups.as_ref()[index as usize];
        match stage {
            Stage::Assigned => self.active -= 1,
            Stage::Assigning => {
                let _ = self.waiting.pop(self.groups.as_mut());
                self.overtaking.next_turn();
            }
            _ => return,
        }
        self.failures += 1;
        let first = index * self.stride;
        // Uses that are not made first, so that content stays for who makes them, and what still waits for its turn: it is
        // no next use any more. No group is older, so these references are the first in their queues.
        for at in first..first + members {
            let references = self.references.as_mut();
            let reference = references[at as usize];
            self.inputs.as_mut()[reference.input as usize].unclaim();
            if in_queues && reference.slot == NIL {
                let _ = group::remove_first(references, &mut self.inputs.as_mut()[reference.input as usize].queue);
                references[at as usize].slot = GONE;
            }
        }
        for at in first..first + members {
            let reference = &mut self.references.as_mut()[at as usize];
            let Reference { slot, input, .. } = *reference;
            if slot != GONE && self.pool.at(slot).is(VALID) {
                reference.slot = GONE;
                if reference.is_scratch() {
                    // Nobody has written what belongs there.
                    self.pool.at_mut(slot).set(LEAVING);
                }
                self.let_go_for_retry(slot, input);
            }
        }
        let groups = self.groups.as_mut();
        let group = &mut groups[index as usize];
        (group.stage, group.failed) = (Stage::Failed, data);
        self.outbox.push(groups, index);
    }

    /// The group with this id, if its client was told that it is ready.
    #[inline]
    fn delivered(&self, group: Id<Group>) -> Result<&Group, GroupError> {
        self.working()?;
        let record = self.groups.as_ref().get(group.index() as usize);
        let record = record.filter(|record| record.generation == group.generation()).ok_or(GroupError::Stale {})?;
        match record.stage {
            Stage::Delivered => Ok(record),
            Stage::Free | Stage::Failed | Stage::Ending => Err(GroupError::Stale {}),
            _ => Err(GroupError::NotReady {}),
        }
    }

    /// The slots of a ready group, in the order in which its members were named.
    ///
    /// # Errors
    /// [`GroupError`] if no action has said that the group is ready, or if it has ended.
    pub fn slots(&self, group: Id<Group>) -> Result<impl Iterator<Item = u32>, GroupError> {
        let members = self.delivered(group)?.members as usize;
        let first = (group.index() * self.stride) as usize;
        let references = &self.references.as_ref()[first..first + members];
        Ok(references.iter().map(|reference| self.pool.outer(reference.slot)))
    }

    /// The computation is over: gives back all references of a ready group.
    ///
    /// # Errors
    /// [`GroupError`] if no action has said that the group is ready, or if it has ended.
    #[inline]
    pub fn free_group(&mut self, group: Id<Group>) -> Result<(), GroupError> {
        let (index, members) = (group.index(), self.delivered(group)?.members);
        if self.may_keep(index) {
            self.keep(index, members);
        } else {
            let first = (index * self.stride) as usize;
            let mut holds = self.holds();
            for reference in &holds.references[first..first + members as usize] {
                holds.let_go(reference.slot, reference.input);
            }
        }
        self.finish(index);
        Ok(())
    }

    fn finish(&mut self, index: u32) {
        self.active -= 1;
        self.end(index);
        self.pump();
    }

    /// Copies the slots of a ready group, and hands its references over one by one: each is given back with
    /// [`Stencil::free`], in any order and by anybody. The group ends; it doesn't count as active any more.
    ///
    /// # Errors
    /// [`GroupError`] if no action has said that the group is ready, if it has ended, if the place is too short, or if so many
    /// references to an input are handed over and not given back that no more can be counted.
    pub fn hand_over(&mut self, group: Id<Group>, slots: &mut [u32]) -> Result<usize, GroupError> {
        let need = self.delivered(group)?.members as usize;
        let slots = slots.get_mut(..need).ok_or(GroupError::TooShort { need })?;
        let first = (group.index() * self.stride) as usize;
        let references = &self.references.as_ref()[first..first + need];
        let inputs = self.inputs.as_ref();
        // A group may name one input as often as it has members.
        if let Some(full) = references.iter().find(|reference| !inputs[reference.input as usize].can_hand_over(need)) {
            return Err(GroupError::TooManyReferences { input: full.input });
        }
        for (slot, reference) in slots.iter_mut().zip(references) {
            self.inputs.as_mut()[reference.input as usize].handed_over += 1;
            *slot = self.pool.outer(reference.slot);
        }
        self.finish(group.index());
        Ok(need)
    }

    /// Gives back a reference that was handed over.
    ///
    /// # Errors
    /// [`FreeError`] if no reference to the input is handed over.
    pub fn free(&mut self, data: u64) -> Result<(), FreeError> {
        self.working()?;
        let number = self.names.number(data).ok_or(FreeError::NotAssigned { data })?;
        let input = self.inputs.as_mut().get_mut(number as usize).ok_or(FreeError::NotAssigned { data })?;
        let slot = input.slot;
        if slot == NIL {
            return Err(FreeError::NotAssigned { data });
        }
        if input.handed_over == 0 {
            // What is kept is idle, but has a reference.
            self.give_back_kept();
            let idle = self.pool.at(slot).is_idle();
            return Err(if idle { FreeError::NotInUse { data } } else { FreeError::NotReady { data } });
        }
        input.handed_over -= 1;
        self.let_go(slot, number);
        self.pump();
        Ok(())
    }

    /// Inputs of which more uses were counted than claimed, with the rest; O(inputs). After the last group it tells
    /// what the usage map has too much.
    pub fn unclaimed(&self) -> impl Iterator<Item = (u64, u32)> {
        let left = (0..).zip(self.inputs.as_ref()).filter(|(_, input)| input.left() > 0);
        left.filter_map(|(number, input): (u32, &Input)| Some((self.names.data(number)?, input.left())))
    }
}

#[cfg(test)]
mod tests {
    use super::super::input::MARK;
    use super::super::{ByNumber, Group, Input, Limits, Reference, Stencil, Storage, Unknown};
    use super::{Action, GroupError};
    use crate::cache::Slot;

    #[test]
    fn no_more_references_are_handed_over_than_can_be_counted() {
        let storage = Storage {
            slots: [Slot::EMPTY; 1],
            buckets: [0; 1],
            inputs: [Input::UNBOUNDED; 1],
            groups: [Group::EMPTY; 1],
            references: [Reference::EMPTY; 2],
        };
        let limits = Limits { largest_group: 1, active: 1, horizon: 1 };
        let mut stencil = Stencil::new(storage, ByNumber, Unknown, 0..1, limits).unwrap();
        let group = stencil.submit(7, &[0, 0]).unwrap();
        assert!(matches!(stencil.poll(), Some(Action::Prepare { data: 0, .. })));
        stencil.prepared(0).unwrap();
        assert_eq!(stencil.poll(), Some(Action::Ready { point: 7, group }));
        stencil.inputs[0].handed_over = MARK - 2;
        let mut slots = [9; 2];
        assert_eq!(stencil.hand_over(group, &mut slots), Err(GroupError::TooManyReferences { input: 0 }));
        assert_eq!((stencil.inputs[0].handed_over, slots), (MARK - 2, [9; 2]), "nothing has changed");
        stencil.inputs[0].handed_over = MARK - 3;
        assert_eq!(stencil.hand_over(group, &mut slots), Ok(2));
        assert_eq!((stencil.inputs[0].handed_over, slots), (MARK - 1, [0; 2]));
    }
}
