//! Groups take their turns: slots are assigned, and given back.

use super::claim::Census;
use super::future::{Future, Use};
use super::group::{self, Group, Reference, Stage};
use super::input::{Input, Names};
use super::machine::Stencil;
use super::marks::Marks;
use super::storage::Lent;
use crate::cache::policy::{Next, NextUse};
use crate::cache::pool::Pool;
use crate::cache::slot::{NIL, VALID};

impl<L: Lent, N: Names, F: Future> Stencil<L, N, F> {
    /// Gives slots to the group whose turn it is, and to the next ones, as far as there are slots.
    #[inline]
    pub(super) fn pump(&mut self) {
        if self.waiting.first != NIL {
            self.take_turns();
        }
    }

    #[inline(never)]
    fn take_turns(&mut self) {
        while self.active < self.limit && self.waiting.first != NIL {
            let index = self.waiting.first;
            if self.groups.as_ref()[index as usize].stage == Stage::Queued {
                self.begin(index);
            }
            if !self.assign_missing(index, Marks::ALL) {
                return;
            }
            let _ = self.waiting.pop(self.groups.as_mut());
            self.overtaking.next_turn();
            self.activate(index);
        }
    }

    /// The group has all its slots.
    #[inline]
    pub(super) fn activate(&mut self, index: u32) {
        self.active += 1;
        let groups = self.groups.as_mut();
        let group = &mut groups[index as usize];
        group.stage = Stage::Assigned;
        if group.missing == 0 {
            group.stage = Stage::Ready;
            self.outbox.push(groups, index);
        }
    }

    /// The group takes hold of the slots that its inputs have: nothing that it needs leaves for another of its inputs.
    fn begin(&mut self, index: u32) {
        let Group { members, in_queues, .. } = self.groups.as_ref()[index as usize];
        let first = (index * self.stride) as usize;
        let (inputs, mut slots) = (self.inputs.as_ref(), self.pool.retaining());
        let mut census = Census { members, ..Census::default() };
        self.alone = NIL;
        for (at, reference) in (0..).zip(&mut self.references.as_mut()[first..][..members as usize]) {
            let slot = inputs[reference.input as usize].slot;
            reference.slot = slot;
            let held = if in_queues { (slot != NIL).then_some(false) } else { slots.retain_content(slot) };
            census.note(at, held);
        }
        drop(slots);
        self.begin_with(index, census);
    }

    /// The present moves on to this group, whose references have the slots of their inputs, and which holds those with
    /// content, unless it waited in queues.
    #[inline(always)]
    pub(super) fn begin_with(&mut self, index: u32, census: Census) {
        let group = &mut self.groups.as_mut()[index as usize];
        let Group { time, members, .. } = *group;
        (group.stage, group.cursor) = (Stage::Assigning, 0);
        self.future.advance(&mut self.present, time);
        self.pool.policy.now(time);
        self.pool.statistics.hits += u64::from(members - census.without - census.not_held);
        if census.not_held > 0 {
            self.hold_others(index);
        }
    }

    /// Takes hold of what is awaited, or of all that a group has that leaves the queues.
    #[inline(never)]
    fn hold_others(&mut self, index: u32) {
        let Group { members, in_queues, .. } = self.groups.as_ref()[index as usize];
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
        self.alone = NIL;
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

    /// Assigns slots to the members that have none, all of which are marked; whether all have one now.
    #[inline(never)]
    pub(super) fn assign_missing(&mut self, index: u32, without: Marks) -> bool {
        let Group { cursor, members, in_queues, .. } = self.groups.as_ref()[index as usize];
        let (first, mut missing) = (index * self.stride, 0);
        let mut next = cursor;
        while let Some(member) = without.from(next).filter(|&member| member < members) {
            next = member + 1;
            let at = first + member;
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
                let group = &mut self.groups.as_mut()[index as usize];
                (group.cursor, group.missing) = (at - first, group.missing + missing);
                if !in_queues {
                    self.enqueue(index);
                }
                return false;
            };
            missing += u32::from(awaited);
        }
        self.groups.as_mut()[index as usize].missing += missing;
        true
    }

    /// Takes a slot for an input that has none; whether its content is awaited. `None` if all slots are in use.
    fn assign(&mut self, at: u32, reference: Reference, in_queues: bool) -> Option<bool> {
        let data = self.names.data(reference.input)?;
        let slot = match self.pool.take_empty(data) {
            Some(slot) => slot,
            None => {
                let (slot, evicted) = self.pool.take_idle(data, &mut ())?;
                if let Some(number) = self.names.number(evicted) {
                    self.inputs.as_mut()[number as usize].slot = NIL;
                }
                slot
            }
        };
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
        let this = self.pool.at_mut(slot);
        this.count += 1;
        group::append(references, &mut this.prev, at);
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

    /// Gives back a reference to a slot of this input, of a group that failed. Without other references its content stays
    /// for that group, which is expected again, unless somebody uses it sooner: to the future this use is over.
    #[inline]
    pub(super) fn let_go_for_retry(&mut self, slot: u32, number: u32) {
        if self.pool.at(slot).count > 1 {
            self.pool.release_in_place(slot);
        } else {
            self.let_last_go_for_retry(slot, number);
        }
    }

    #[inline(never)]
    fn let_last_go_for_retry(&mut self, slot: u32, number: u32) {
        let (retry, coming) = (self.time_of_next(), self.pool.policy.coming());
        self.holds().let_go_until(slot, number, retry.max(coming));
    }

    /// What giving back needs.
    #[inline]
    pub(super) fn holds(&mut self) -> Holds<'_, L, F> {
        Holds {
            groups: self.groups.as_ref(),
            references: self.references.as_ref(),
            ..Holds::apart(&mut self.pool, self.inputs.as_mut(), &self.future, &self.present)
        }
    }
}

/// What giving back many references needs, looked up once.
pub(super) struct Holds<'a, L: Lent, F: Future> {
    pool: &'a mut Pool<L::Slots, NextUse<L::Buckets>>,
    pub(super) inputs: &'a mut [Input],
    groups: &'a [Group],
    pub(super) references: &'a [Reference],
    future: &'a F,
    present: &'a F::Present,
    /// The list of content that the very next group uses.
    coming: u16,
}

impl<'a, L: Lent, F: Future> Holds<'a, L, F> {
    /// While nobody waits in a queue.
    #[inline]
    pub(super) fn apart(
        pool: &'a mut Pool<L::Slots, NextUse<L::Buckets>>,
        inputs: &'a mut [Input],
        future: &'a F,
        present: &'a F::Present,
    ) -> Self {
        let coming = pool.policy.list_of_coming();
        Holds { pool, inputs, groups: &[], references: &[], future, present, coming }
    }

    /// Gives back a reference to a slot of this input; with the last one its content becomes idle, or leaves if its
    /// last use is over.
    // Inlined, as it is most of what a group costs.
    #[inline(always)]
    pub(super) fn let_go(&mut self, slot: u32, number: u32) {
        let record = self.pool.at(slot);
        if record.count > 1 {
            return self.pool.release_in_place(slot);
        }
        let Input { queue, unclaimed, .. } = self.inputs[number as usize];
        if queue != NIL {
            self.let_last_go(slot, number, queue);
        } else if unclaimed == 0 {
            self.leave(slot, number);
        } else if !self.future.is_next(record.data, *self.present) {
            self.let_last_go(slot, number, NIL);
        } else if record.stays_in_list(self.coming) {
            self.pool.release_in_place(slot);
        } else {
            self.give_back(slot, number, Next::At(self.pool.policy.coming()));
        }
    }

    /// Gives back the last reference to a slot of this input, which is used again: by the first group in its queue, or by
    /// another one than the very next.
    #[inline(never)]
    fn let_last_go(&mut self, slot: u32, number: u32, queue: u32) {
        match self.stays_for(self.next_use(slot, queue), number) {
            Some(next) => self.give_back(slot, number, next),
            None => self.leave(slot, number),
        }
    }

    /// Gives back the last reference to a slot of this input, which is used again by the group with this number at the
    /// latest.
    fn let_go_until(&mut self, slot: u32, number: u32, latest: u64) {
        let next = match self.next_use(slot, self.inputs[number as usize].queue) {
            Use::At(group) => Next::At(group.min(latest)),
            Use::Never => Next::At(latest),
            // Nor is it known whether the group comes again.
            Use::Unknown => Next::Unknown,
        };
        self.give_back(slot, number, next);
    }

    /// When the content of a slot is used again: by the first group in its input's queue, or else as the future says.
    #[inline]
    fn next_use(&self, slot: u32, queue: u32) -> Use {
        if queue == NIL {
            self.future.next_use(self.pool.at(slot).data, *self.present)
        } else {
            self.next_in_line(queue)
        }
    }

    /// What content of this input stays for, which is used again then; `None` if its last use is over.
    #[inline]
    fn stays_for(&self, next: Use, number: u32) -> Option<Next> {
        match next {
            Use::At(group) => Some(Next::At(group)),
            Use::Unknown => Some(Next::Unknown),
            // The usage map knows of uses that are to come: groups are not where the future has them.
            Use::Never if self.inputs[number as usize].left() > 0 => Some(Next::Unknown),
            Use::Never => None,
        }
    }

    /// Gives back the last reference to a slot of this input, which is used again then.
    #[inline]
    fn give_back(&mut self, slot: u32, number: u32, next: Next) {
        if self.pool.release(slot, next).is_some() {
            self.inputs[number as usize].slot = NIL;
        }
    }

    /// Gives back the only reference to content of this input, for which nobody waits.
    // Inlined, as it is most of what a group costs that loads much.
    #[inline(always)]
    pub(super) fn let_only_go(&mut self, slot: u32, number: u32, data: u64) {
        let unclaimed = self.inputs[number as usize].unclaimed;
        let next = if unclaimed == 0 { Use::Never } else { self.future.next_use(data, *self.present) };
        let next = match next {
            // The runs need not tell all that is next. Who tells them mostly knows more, so this is asked last.
            Use::Unknown if self.future.is_next(data, *self.present) => Some(Next::At(self.pool.policy.coming())),
            next => self.stays_for(next, number),
        };
        match next {
            Some(next) => self.pool.release_only(slot, next),
            None => self.leave(slot, number),
        }
    }

    /// The first of the groups that wait for an input.
    #[inline(never)]
    fn next_in_line(&self, queue: u32) -> Use {
        let first = group::first(self.references, queue);
        let group = first.map_or(0, |first| self.references[first as usize].group());
        Use::At(self.groups[group as usize].time)
    }

    /// Gives back the last reference to content whose last use is over.
    #[inline(never)]
    fn leave(&mut self, slot: u32, number: u32) {
        let had_content = self.pool.release_for_good(slot);
        self.pool.statistics.forgotten += u64::from(had_content);
        self.inputs[number as usize].slot = NIL;
    }
}
