//! Slots with their references, content and order of eviction.
//!
//! Whose they are is found elsewhere.

use core::ops::Range;

use super::error::BuildError;
use super::grant::{Found, Statistics};
use super::policy::{Next, Policy, Watch};
use super::slot::{ABANDONED, ASSIGNED, NIL, Slot, VALID};

/// The slots of one cache, numbered from 0.
///
/// Invariants: a slot is empty and in the list of empty ones, or never used, or assigned; `idle` counts the
/// assigned slots with content and no reference, and each of them is in the policy's order.
#[derive(Clone, Debug)]
pub(crate) struct Pool<S, P> {
    slots: S,
    pub(crate) policy: P,
    /// The outer number of slot 0.
    first: u32,
    count: u32,
    /// The slot that became empty last.
    empty: u32,
    /// Slots below were used.
    fresh: u32,
    assigned: u32,
    idle: u32,
    pub(crate) statistics: Statistics,
}

impl<S: AsRef<[Slot]> + AsMut<[Slot]>, P: Policy> Pool<S, P> {
    pub(crate) fn new(slots: S, policy: P, range: Range<u32>) -> Result<Self, BuildError> {
        let count = range.end.saturating_sub(range.start);
        if count == 0 {
            return Err(BuildError::NoSlots { start: range.start, end: range.end });
        }
        let have = slots.as_ref().len();
        if have < count as usize {
            return Err(BuildError::TooFewRecords { need: count as usize, have });
        }
        let first = range.start;
        let statistics = Statistics::default();
        let mut pool = Pool { slots, policy, first, count, empty: NIL, fresh: 0, assigned: 0, idle: 0, statistics };
        pool.clear();
        Ok(pool)
    }

    /// Forgets everything but the statistics.
    pub(crate) fn clear(&mut self) {
        self.policy.clear(&mut self.slots.as_mut()[..self.count as usize]);
        (self.empty, self.fresh, self.assigned, self.idle) = (NIL, 0, 0, 0);
    }

    #[inline]
    pub(crate) fn outer(&self, slot: u32) -> u32 {
        self.first + slot
    }

    #[inline]
    pub(crate) fn inner(&self, slot: u32) -> Option<u32> {
        slot.checked_sub(self.first).filter(|&inner| inner < self.fresh)
    }

    #[inline]
    pub(crate) fn at(&self, slot: u32) -> &Slot {
        &self.slots.as_ref()[slot as usize]
    }

    #[inline]
    pub(crate) fn at_mut(&mut self, slot: u32) -> &mut Slot {
        &mut self.slots.as_mut()[slot as usize]
    }

    /// Whether the slot is still assigned to `data`.
    #[inline]
    pub(crate) fn is_of(&self, slot: u32, data: u64) -> bool {
        let this = self.at(slot);
        this.data == data && this.is(ASSIGNED)
    }

    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    pub(crate) fn assigned(&self) -> u32 {
        self.assigned
    }

    pub(crate) fn idle(&self) -> u32 {
        self.idle
    }

    /// Content was found; `first` if nobody had a reference to it.
    #[inline]
    pub(crate) fn note_hit(&mut self, first: bool) {
        self.idle -= u32::from(first);
        self.statistics.hits += 1;
    }

    /// Content in the order, whose references its record does not count, was used by one who holds none; `alone` if nobody
    /// does.
    #[inline]
    pub(crate) fn note_use(&mut self, slot: u32, alone: bool) {
        self.statistics.hits += 1;
        if alone {
            self.policy.idle_again(self.slots.as_mut(), slot);
        }
    }

    /// Content in the order has lost a reference, which its record did not count; `last` if it is idle now.
    #[inline]
    pub(crate) fn note_free(&mut self, slot: u32, last: bool) {
        self.idle += u32::from(last);
        if last {
            self.policy.idle_again(self.slots.as_mut(), slot);
        }
    }

    /// All slots that are assigned; O(slots).
    pub(crate) fn all(&self) -> impl Iterator<Item = (u32, &Slot)> {
        let used = self.slots.as_ref().iter().take(self.fresh as usize);
        (0..).zip(used).filter(|(_, slot)| slot.is(ASSIGNED))
    }

    /// Assigns a slot with one reference: the one that became empty last, or one that was never used, or one whose
    /// content the policy gives up, which is told. `None` if all are in use. The watch sees each record that the policy
    /// judges.
    #[inline]
    pub(crate) fn take(&mut self, data: u64, watch: &mut impl Watch) -> Option<(u32, Option<u64>)> {
        self.policy.will_enter(self.slots.as_ref(), data);
        if let Some(slot) = self.take_empty(data) {
            return Some((slot, None));
        }
        let (slot, evicted) = self.take_idle(data, watch)?;
        Some((slot, Some(evicted)))
    }

    /// [`Pool::take`] of a slot without content, if there is one.
    #[inline]
    pub(crate) fn take_empty(&mut self, data: u64) -> Option<u32> {
        let slots = self.slots.as_mut();
        let slot = if let Some(empty) = slots.get(self.empty as usize) {
            core::mem::replace(&mut self.empty, empty.next)
        } else if self.fresh < self.count {
            self.fresh += 1;
            self.fresh - 1
        } else {
            return None;
        };
        renew::<P>(&mut slots[slot as usize], Slot::assigned(data));
        self.assigned += 1;
        Some(slot)
    }

    /// [`Pool::take`] of the slot whose content the policy gives up, which is told.
    #[inline]
    pub(crate) fn take_idle(&mut self, data: u64, watch: &mut impl Watch) -> Option<(u32, u64)> {
        if self.idle == 0 {
            return None;
        }
        let slots = self.slots.as_mut();
        let slot = self.policy.victim(slots, watch)?;
        let evicted = renew::<P>(&mut slots[slot as usize], Slot::assigned(data)).data;
        self.idle -= 1;
        self.statistics.evictions += 1;
        Some((slot, evicted))
    }

    /// Whether [`Pool::take`] would find a slot.
    pub(crate) fn has_room(&self) -> bool {
        self.idle > 0 || self.assigned < self.count
    }

    /// Adds a reference for a client, and tells what it finds, and how many references there are. `None` if there are
    /// as many as may be.
    #[inline]
    pub(crate) fn join(&mut self, slot: u32, most: u32) -> Option<(Found, u32)> {
        let this = &mut self.slots.as_mut()[slot as usize];
        if this.count >= most {
            return None;
        }
        this.count += 1;
        let references = this.count;
        if !this.is(VALID) {
            return Some((self.join_unfilled(slot), references));
        }
        self.idle -= u32::from(references == 1);
        P::hit(this);
        self.statistics.hits += 1;
        Some((Found::Remembered, references))
    }

    /// Adds a reference to a slot that is assigned and nothing else, and tells how many there are. `None` if there are as many
    /// as may be, or if there is more to know of it.
    #[inline]
    pub(crate) fn join_filling(&mut self, slot: u32, most: u32) -> Option<u32> {
        let this = self.slots.as_mut().get_mut(slot as usize)?;
        if this.count >= most || !this.is_only(ASSIGNED) {
            return None;
        }
        this.count += 1;
        self.statistics.joins += 1;
        Some(this.count)
    }

    /// What a client finds that has just taken a reference to a slot without content.
    #[cold]
    fn join_unfilled(&mut self, slot: u32) -> Found {
        let this = &mut self.slots.as_mut()[slot as usize];
        if this.is(ABANDONED) {
            this.clear(ABANDONED);
            self.statistics.loads += 1;
            return Found::Empty;
        }
        self.statistics.joins += 1;
        Found::Assigned
    }

    /// Adds a reference; the caller has seen that there is room for one more.
    #[inline]
    pub(crate) fn retain(&mut self, slot: u32) {
        let this = &mut self.slots.as_mut()[slot as usize];
        if this.is(VALID) {
            if this.count == 0 {
                self.idle -= 1;
            }
            P::hit(this);
        }
        this.count += 1;
    }

    /// What takes many references.
    #[inline]
    pub(crate) fn retaining(&mut self) -> Retaining<'_, S, P> {
        Retaining { pool: self, first: 0 }
    }

    /// Removes a reference that is not the last one, or the last one to content that stays where it is in the order.
    #[inline]
    pub(crate) fn release_in_place(&mut self, slot: u32) {
        let this = &mut self.slots.as_mut()[slot as usize];
        this.count -= 1;
        self.idle += u32::from(this.count == 0);
    }

    /// Removes a reference, of which there is one at least. With the last one content becomes idle, and a slot
    /// without content, or whose content is leaving, is empty: then its data is returned.
    #[inline(always)]
    pub(crate) fn release(&mut self, slot: u32, next: Next) -> Option<u64> {
        let slots = self.slots.as_mut();
        let this = &mut slots[slot as usize];
        this.count -= 1;
        if this.count > 0 {
            return None;
        }
        if !this.stays() {
            let data = this.data;
            self.drop_unreferenced(slot);
            return Some(data);
        }
        self.policy.idle(slots, slot, next);
        self.idle += 1;
        None
    }

    /// Removes the only reference to content that stays.
    #[inline(always)]
    pub(crate) fn release_only(&mut self, slot: u32, next: Next) {
        let slots = self.slots.as_mut();
        slots[slot as usize].count = 0;
        self.policy.idle(slots, slot, next);
        self.idle += 1;
    }

    /// Removes the last reference to a slot, and empties it; whether it had content.
    #[inline]
    pub(crate) fn release_for_good(&mut self, slot: u32) -> bool {
        let had_content = self.at(slot).is(VALID);
        self.make_empty(slot);
        had_content
    }

    /// Empties a slot that has no reference any more, and that isn't counted as idle.
    #[inline(never)]
    fn drop_unreferenced(&mut self, slot: u32) {
        self.make_empty(slot);
    }

    #[inline(always)]
    fn make_empty(&mut self, slot: u32) {
        let slots = self.slots.as_mut();
        self.policy.leave(slots, slot);
        // The rest is written when the slot is taken.
        slots[slot as usize].make_empty(self.empty);
        self.empty = slot;
        self.assigned -= 1;
    }

    /// Empties an idle slot.
    #[inline]
    pub(crate) fn forget(&mut self, slot: u32) {
        self.idle -= 1;
        self.make_empty(slot);
        self.statistics.forgotten += 1;
    }

    /// The content is there.
    #[inline]
    pub(crate) fn fill(&mut self, slot: u32) {
        let this = &mut self.slots.as_mut()[slot as usize];
        this.set(VALID);
        this.clear(ABANDONED);
    }

    /// Moves idle content to where its next use puts it.
    pub(crate) fn reorder(&mut self, slot: u32, next: Next) {
        let slots = self.slots.as_mut();
        if slots[slot as usize].is_idle() {
            self.policy.idle(slots, slot, next);
        }
    }
}

/// A new record for a slot; gives the one before.
#[inline(always)]
fn renew<P: Policy>(record: &mut Slot, new: Slot) -> Slot {
    let noted = if P::NOTES_STAY { record.noted } else { new.noted };
    core::mem::replace(record, Slot { noted, ..new })
}

/// Takes references to slots with content; who does it counts the hits.
pub(crate) struct Retaining<'a, S: AsRef<[Slot]> + AsMut<[Slot]>, P: Policy> {
    pub(crate) pool: &'a mut Pool<S, P>,
    /// How much of the content was idle; the pool still counts it, because that is not in a register.
    pub(crate) first: u32,
}

impl<S: AsRef<[Slot]> + AsMut<[Slot]>, P: Policy> Retaining<'_, S, P> {
    /// Adds a reference to a slot with content; `false` if there is none yet, `None` if there is no such slot.
    #[inline]
    pub(crate) fn retain_content(&mut self, slot: u32) -> Option<bool> {
        let this = self.pool.slots.as_mut().get_mut(slot as usize)?;
        if !this.is(VALID) {
            return Some(false);
        }
        self.first += u32::from(this.count == 0);
        this.count += 1;
        P::hit(this);
        Some(true)
    }
}

impl<S: AsRef<[Slot]> + AsMut<[Slot]>, P: Policy> Drop for Retaining<'_, S, P> {
    #[inline]
    fn drop(&mut self) {
        self.pool.idle -= self.first;
    }
}
