//! A second chance for what was used.

use super::{Next, Policy, Watch};
use crate::cache::slot::{LINKED, NIL, Slot, fetch_ahead};

/// A hand goes around: used content loses its mark and stays, content without a mark leaves.
///
/// Source: Corbató, "A paging experiment with the Multics system", 1968.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    hand: u32,
}

impl Clock {
    /// Without any order yet.
    #[must_use]
    pub const fn new() -> Self {
        Clock { hand: NIL }
    }
}
impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock {
    /// Behind the hand: the last that it comes to.
    #[inline(never)]
    fn enter(&mut self, slots: &mut [Slot], slot: u32) {
        let this = &mut slots[slot as usize];
        this.set(LINKED);
        this.uses = 0;
        if self.hand == NIL {
            (this.prev, this.next) = (slot, slot);
            self.hand = slot;
            return;
        }
        let before = slots[self.hand as usize].prev;
        slots[self.hand as usize].prev = slot;
        slots[before as usize].next = slot;
        (slots[slot as usize].prev, slots[slot as usize].next) = (before, self.hand);
    }
}

impl Policy for Clock {
    const USES: Option<u32> = Some(1);

    fn clear(&mut self, _: &mut [Slot]) {
        self.hand = NIL;
    }

    #[inline]
    fn hit(slot: &mut Slot) {
        slot.uses = 1;
    }

    #[inline]
    fn idle(&mut self, slots: &mut [Slot], slot: u32, _: Next) {
        if !slots[slot as usize].is(LINKED) {
            self.enter(slots, slot);
        }
    }

    #[inline]
    fn leave(&mut self, slots: &mut [Slot], slot: u32) {
        let this = &slots[slot as usize];
        if !this.is(LINKED) {
            return;
        }
        let (prev, next) = (this.prev, this.next);
        slots[prev as usize].next = next;
        slots[next as usize].prev = prev;
        if self.hand == slot {
            self.hand = if next == slot { NIL } else { next };
        }
        slots[slot as usize].clear(LINKED);
    }

    fn victim(&mut self, slots: &mut [Slot], watch: &mut impl Watch) -> Option<u32> {
        // Twice around at most: the first time takes away the marks.
        while self.hand != NIL {
            let slot = self.hand;
            fetch_ahead(slots, slots[slot as usize].next, |slot| slot.next, watch);
            let this = &mut slots[slot as usize];
            watch.comes_by(this);
            if this.is_idle() && this.uses > 0 {
                this.uses = 0;
                self.hand = this.next;
                continue;
            }
            let idle = this.is_idle();
            self.leave(slots, slot);
            if idle {
                return Some(slot);
            }
        }
        None
    }
}
