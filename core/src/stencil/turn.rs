//! Groups take their turns: slots are assigned, and given back.

use super::future::{Future, Use};
use super::group::{self, Group, Reference, Stage};
use super::input::{Input, Names};
use super::machine::Stencil;
use super::storage::Lent;
use crate::cache::policy::{Next, NextUse};
use crate::cache::pool::Pool;
use crate::cache::slot::{LEAVING, NIL, VALID};

impl<L: Lent, N: Names, F: Future> Stencil<L, N, F> {
    /// Gives slots to the group whose turn it is, and to the next ones, as far as there are slots.
    #[inline]
    pub(super) fn pump(&mut self) {
        if self.waiting.first != NIL {
            self.take_turns();
        }
    }

    pub(super) fn take_turns(&mut self) {
        while self.active < self.limit && self.waiting.first != NIL {
            let index = self.waiting.first;
            if self.groups.as_ref()[index as usize].stage == Stage::Queued {
                self.begin(index);
            }
            if !self.assign_missing(index) {
                return;
            }
            let groups = self.groups.as_mut();
            let _ = self.waiting.pop(groups);
            self.overtaking.next_turn();
            self.active += 1;
            let group = &mut groups[index as usize];
            group.stage = Stage::Assigned;
            if group.missing == 0 {
                group.stage = Stage::Ready;
                self.outbox.push(groups, index);
            }
        }
    }

    /// The group takes hold of the slots that its inputs have: nothing that it needs leaves for another of its inputs.
    fn begin(&mut self, index: u32) {
        let Group { members, in_queues, .. } = self.groups.as_ref()[index as usize];
        let first = (index * self.stride) as usize;
        let (inputs, mut slots) = (self.inputs.as_ref(), self.pool.retaining());
        let mut census = Census::default();
        for reference in &mut self.references.as_mut()[first..][..members as usize] {
            reference.slot = inputs[reference.input as usize].slot;
            census.note(reference.slot, |slot| !in_queues && slots.retain_content(slot));
        }
        self.begin_with(index, census);
    }

    /// The present moves on to this group, whose references have the slots of their inputs, and which holds those with
    /// content, unless it waited in queues.
    pub(super) fn begin_with(&mut self, index: u32, census: Census) {
        let group = &mut self.groups.as_mut()[index as usize];
        let Group { number, members, in_queues, .. } = *group;
        (group.stage, group.cursor) = (Stage::Assigning, census.first_without.min(members));
        self.present = self.future.present(number);
        self.pool.policy.now(number);
        self.pool.statistics.hits += u64::from(members - census.without - census.not_held);
        if census.not_held == 0 {
            return;
        }
        // Content that is awaited, or a group that leaves the queues.
        let first = index * self.stride;
        for at in first..first + members {
            let slot = self.references.as_ref()[at as usize].slot;
            if slot != NIL && (in_queues || !self.pool.at(slot).is(VALID)) {
                let awaited = self.hold(at, in_queues);
                self.groups.as_mut()[index as usize].missing += u32::from(awaited);
            }
        }
    }

    /// Takes a reference to an assigned slot; whether its content is awaited.
    #[inline]
    fn hold(&mut self, at: u32, in_queues: bool) -> bool {
        let references = self.references.as_mut();
        let Reference { slot, input, .. } = references[at as usize];
        if in_queues {
            let _ = group::remove_first(references, &mut self.inputs.as_mut()[input as usize].queue);
        }
        self.pool.retain(slot);
        let this = self.pool.at_mut(slot);
        if this.is(VALID) {
            self.pool.statistics.hits += 1;
            return false;
        }
        group::append(references, &mut this.prev, at);
        self.pool.statistics.joins += 1;
        true
    }

    /// Assigns slots to the members that have none; whether all have one now.
    fn assign_missing(&mut self, index: u32) -> bool {
        let Group { cursor, members, in_queues, .. } = self.groups.as_ref()[index as usize];
        let first = index * self.stride;
        for at in first + cursor..first + members {
            let reference = self.references.as_ref()[at as usize];
            if reference.slot != NIL {
                continue;
            }
            let slot = self.inputs.as_ref()[reference.input as usize].slot;
            let awaited = if slot != NIL {
                // The same input, named before.
                self.references.as_mut()[at as usize].slot = slot;
                self.hold(at, in_queues)
            } else if let Some(awaited) = self.assign(at, reference, in_queues) {
                awaited
            } else {
                self.groups.as_mut()[index as usize].cursor = at - first;
                if !in_queues {
                    self.enqueue(index);
                }
                return false;
            };
            self.groups.as_mut()[index as usize].missing += u32::from(awaited);
        }
        true
    }

    /// Takes a slot for an input that has none; whether its content is awaited. `None` if all slots are in use.
    fn assign(&mut self, at: u32, reference: Reference, in_queues: bool) -> Option<bool> {
        let data = self.names.data(reference.input)?;
        let (slot, evicted) = self.pool.take(data, &mut ())?;
        if let Some(number) = evicted.and_then(|evicted| self.names.number(evicted)) {
            self.inputs.as_mut()[number as usize].slot = NIL;
        }
        let references = self.references.as_mut();
        references[at as usize].slot = slot;
        let input = &mut self.inputs.as_mut()[reference.input as usize];
        input.slot = slot;
        if in_queues {
            let _ = group::remove_first(references, &mut input.queue);
        }
        if reference.is_scratch() {
            self.pool.fill(slot);
            return Some(false);
        }
        self.pool.statistics.loads += 1;
        // The load holds the slot as well: it stays until the load was answered, whatever becomes of the groups.
        self.pool.retain(slot);
        group::append(references, &mut self.pool.at_mut(slot).prev, at);
        match core::mem::replace(&mut self.to_prepare[1], slot) {
            NIL => self.to_prepare[0] = slot,
            last => self.pool.at_mut(last).next = slot,
        }
        Some(true)
    }

    /// Gives back a reference to a slot of this input.
    #[inline]
    pub(super) fn let_go(&mut self, slot: u32, number: u32) {
        if self.pool.at(slot).count > 1 {
            self.pool.release_in_place(slot);
        } else {
            self.let_last_go(slot, number);
        }
    }

    #[inline(never)]
    fn let_last_go(&mut self, slot: u32, number: u32) {
        self.holds().let_go(slot, number);
    }

    /// What giving back needs.
    #[inline]
    pub(super) fn holds(&mut self) -> Holds<'_, L, F> {
        Holds {
            inputs: self.inputs.as_mut(),
            groups: self.groups.as_ref(),
            references: self.references.as_ref(),
            future: &self.future,
            present: self.present,
            coming: self.pool.policy.list_of_coming(),
            pool: &mut self.pool,
        }
    }
}

/// What the members of a group have when its turn comes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Census {
    /// All members.
    pub(super) members: u32,
    /// Those without a slot, and the first of them.
    without: u32,
    first_without: u32,
    /// Those whose slot is not held yet.
    not_held: u32,
}

impl Default for Census {
    fn default() -> Self {
        Census { members: 0, without: 0, first_without: NIL, not_held: 0 }
    }
}

impl Census {
    /// Counts the next member, which has this slot, and may take hold of it.
    // What most members are costs one count.
    #[inline]
    pub(super) fn note(&mut self, slot: u32, hold: impl FnOnce(u32) -> bool) {
        if slot == NIL {
            self.without += 1;
            self.first_without = self.first_without.min(self.members);
        } else if !hold(slot) {
            self.not_held += 1;
        }
        self.members += 1;
    }
}

/// What giving back many references needs, looked up once.
pub(super) struct Holds<'a, L: Lent, F: Future> {
    pool: &'a mut Pool<L::Slots, NextUse<L::Buckets>>,
    inputs: &'a mut [Input],
    groups: &'a [Group],
    pub(super) references: &'a [Reference],
    future: &'a F,
    present: F::Present,
    /// The list of content that the very next group uses.
    coming: u16,
}

impl<L: Lent, F: Future> Holds<'_, L, F> {
    /// Gives back a reference to a slot of this input; with the last one its content becomes idle, or leaves if its
    /// last use is over.
    // Inlined, as it is most of what a group costs.
    #[inline(always)]
    pub(super) fn let_go(&mut self, slot: u32, number: u32) {
        let record = self.pool.at(slot);
        let (data, in_place) = (record.data, record.stays_in_list(self.coming));
        if record.count > 1 {
            return self.pool.release_in_place(slot);
        }
        let Input { queue, unclaimed, .. } = self.inputs[number as usize];
        let coming = queue == NIL && unclaimed != 0 && self.future.is_next(data, self.present);
        if coming && in_place {
            self.pool.release_in_place(slot);
        } else {
            self.let_last_go(slot, number, coming);
        }
    }

    /// Gives back the last reference to a slot of this input, which is known to be used by the very next group, or not.
    #[inline(never)]
    fn let_last_go(&mut self, slot: u32, number: u32, coming: bool) {
        let input = self.inputs[number as usize];
        let Input { queue, unclaimed, .. } = input;
        let next = if coming {
            Use::At(self.pool.policy.coming())
        } else if queue != NIL {
            self.next_in_line(queue)
        } else if unclaimed == 0 {
            Use::Never
        } else {
            self.future.next_use(self.pool.at(slot).data, self.present)
        };
        let next = match next {
            Use::At(group) => Next::At(group),
            Use::Unknown => Next::Unknown,
            // The usage map knows of uses that are to come: groups are not where the future has them.
            Use::Never if input.left() > 0 => Next::Unknown,
            Use::Never => return self.leave(slot, number),
        };
        if self.pool.release(slot, next).is_some() {
            self.inputs[number as usize].slot = NIL;
        }
    }

    /// The first of the groups that wait for an input.
    #[inline(never)]
    fn next_in_line(&self, queue: u32) -> Use {
        let first = group::first(self.references, queue);
        let group = first.map_or(0, |first| self.references[first as usize].group());
        Use::At(self.groups[group as usize].number)
    }

    /// Gives back the last reference to content whose last use is over.
    #[inline(never)]
    fn leave(&mut self, slot: u32, number: u32) {
        if self.pool.at(slot).is(VALID) {
            self.pool.statistics.forgotten += 1;
        }
        self.pool.at_mut(slot).set(LEAVING);
        if self.pool.release(slot, Next::Unknown).is_some() {
            self.inputs[number as usize].slot = NIL;
        }
    }
}
