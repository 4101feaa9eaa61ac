//! What a cache knows of one slot, and lists through slots.

use super::grant::State;
use super::policy::Watch;
use crate::fetch::fetch_to_read;

/// The end of a list, and no slot.
pub(crate) const NIL: u32 = u32::MAX;
/// No list of a policy with several.
pub(crate) const NOWHERE: u16 = u16::MAX;
/// A list that no slot is ever in.
pub(crate) const NO_LIST: u16 = NOWHERE - 1;

/// The record of one slot; a cache is lent an array of them. 24 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// Whose content the slot has or awaits, while it is assigned.
    pub(crate) data: u64,
    /// References that were taken and not given back.
    pub(crate) count: u32,
    /// What a policy notes here: which of its lists the slot is in, or who left.
    pub(crate) noted: u16,
    pub(crate) flags: u8,
    /// What a policy counted of the uses of this content, and may know of it beside that.
    pub(crate) uses: u8,
    pub(crate) prev: u32,
    /// The next one in the list of empty slots, of the policy, or of what is to be prepared.
    pub(crate) next: u32,
}

/// Bits of a slot's state.
#[derive(Clone, Copy)]
pub(crate) struct Flag(u8);

/// The slot belongs to a data id.
pub(crate) const ASSIGNED: Flag = Flag(1);
/// The content is there.
pub(crate) const VALID: Flag = Flag(2);
/// Nobody fills the slot any more; the next to ask shall.
pub(crate) const ABANDONED: Flag = Flag(4);
/// The content goes with the last reference.
pub(crate) const LEAVING: Flag = Flag(8);
/// In a list of the policy.
pub(crate) const LINKED: Flag = Flag(16);
/// Somebody was told to fill the slot.
pub(crate) const TOLD: Flag = Flag(32);
/// References are counted in the word of the index, and none here.
pub(crate) const ELSEWHERE: Flag = Flag(64);

impl Slot {
    /// A slot that no cache has used yet.
    pub const EMPTY: Self = Slot { data: 0, count: 0, noted: NOWHERE, flags: 0, uses: 0, prev: NIL, next: NIL };

    /// The record of a slot that was just given to a data id.
    #[inline]
    pub(crate) fn assigned(data: u64) -> Slot {
        Slot { data, count: 1, flags: ASSIGNED.0, ..Slot::EMPTY }
    }

    #[inline]
    pub(crate) fn is(&self, flag: Flag) -> bool {
        self.flags & flag.0 != 0
    }

    /// Whether nothing else is known of it.
    #[inline]
    pub(crate) fn is_only(&self, flag: Flag) -> bool {
        self.flags == flag.0
    }

    #[inline]
    pub(crate) fn set(&mut self, flag: Flag) {
        self.flags |= flag.0;
    }

    #[inline]
    pub(crate) fn clear(&mut self, flag: Flag) {
        self.flags &= !flag.0;
    }

    /// Nobody's any more, and in front of this one in the list of empty slots.
    #[inline]
    pub(crate) fn make_empty(&mut self, next: u32) {
        (self.flags, self.next) = (0, next);
    }

    /// The content outlives its references.
    #[inline]
    pub(crate) fn stays(&self) -> bool {
        self.flags & (VALID.0 | LEAVING.0) == VALID.0
    }

    /// Content that outlives its references, and is in this list of the policy.
    #[inline]
    pub(crate) fn stays_in_list(&self, list: u16) -> bool {
        self.noted == list && self.flags & (VALID.0 | LEAVING.0 | LINKED.0) == VALID.0 | LINKED.0
    }

    /// Somebody writes to the slot.
    pub(crate) fn is_filling(&self) -> bool {
        self.is(ASSIGNED) && !self.is(VALID) && !self.is(ABANDONED)
    }

    /// What an assigned slot is doing.
    pub(crate) fn state(&self) -> State {
        if self.is_idle() {
            State::Idle
        } else if self.is(VALID) {
            State::InUse
        } else if self.is(ABANDONED) {
            State::Abandoned
        } else {
            State::Filling
        }
    }

    /// Idle content in the policy's order that nobody has asked to leave.
    #[inline]
    pub(crate) fn stays_in_order(&self) -> bool {
        self.is_idle() && self.is(LINKED) && self.stays()
    }

    /// Known content without a reference: what may be evicted.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.count == 0 && self.is(VALID)
    }
}

impl Default for Slot {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// A doubly linked list through slots, newest first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    pub(crate) first: u32,
    pub(crate) last: u32,
    pub(crate) len: u32,
}

impl List {
    pub(crate) const EMPTY: List = List { first: NIL, last: NIL, len: 0 };

    pub(crate) fn push(&mut self, slots: &mut [Slot], slot: u32) {
        let this = &mut slots[slot as usize];
        this.set(LINKED);
        (this.prev, this.next) = (NIL, self.first);
        match slots.get_mut(self.first as usize) {
            Some(second) => second.prev = slot,
            None => self.last = slot,
        }
        self.first = slot;
        self.len += 1;
    }

    pub(crate) fn unlink(&mut self, slots: &mut [Slot], slot: u32) {
        let this = &mut slots[slot as usize];
        this.clear(LINKED);
        let (prev, next) = (this.prev, this.next);
        match slots.get_mut(prev as usize) {
            Some(before) => before.next = next,
            None => self.first = next,
        }
        match slots.get_mut(next as usize) {
            Some(after) => after.prev = prev,
            None => self.last = prev,
        }
        self.len -= 1;
    }

    /// Takes the oldest idle slot out of the list, and those in front of it that are in use: they come back with
    /// their last reference.
    pub(crate) fn oldest(&mut self, slots: &mut [Slot], watch: &mut impl Watch) -> Option<u32> {
        while self.last != NIL {
            let oldest = self.oldest_if_idle(slots, watch);
            if oldest.is_some() {
                return oldest;
            }
        }
        None
    }

    /// Takes the oldest slot out of the list, of which there is one; gives it if it is idle.
    #[inline]
    pub(crate) fn oldest_if_idle(&mut self, slots: &mut [Slot], watch: &mut impl Watch) -> Option<u32> {
        let slot = self.last;
        self.unlink(slots, slot);
        self.fetch_oldest(slots, watch);
        watch.comes_by(&mut slots[slot as usize]);
        slots[slot as usize].is_idle().then_some(slot)
    }

    /// [`fetch_ahead`] of a search that will come by the oldest slots.
    #[inline]
    pub(crate) fn fetch_oldest(&self, slots: &[Slot], watch: &mut impl Watch) -> Option<u64> {
        fetch_ahead(slots, self.last, |slot| slot.prev, watch)
    }
}

/// Records that lie in the nearest cache of the processor, with their index, once they are used.
const FEW: usize = 1024;

/// Has fetched what a search needs that will come by this slot and then by those that it leads to; gives the data of the
/// third.
// Each search that comes by one slot fetches the fifth, so the next ones know already where it leads to.
#[inline]
pub(crate) fn fetch_ahead(
    slots: &[Slot],
    next: u32,
    leads_to: impl Fn(&Slot) -> u32,
    watch: &mut impl Watch,
) -> Option<u64> {
    if slots.len() < FEW {
        return None;
    }
    let after = |slot: &Slot| slots.get(leads_to(slot) as usize);
    let third = slots.get(next as usize).and_then(after).and_then(after)?;
    watch.will_come_by(third);
    if let Some(fifth) = after(third).and_then(after) {
        fetch_to_read(fifth);
    }
    Some(third.data)
}
