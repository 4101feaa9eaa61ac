//! A hand that moves from old to new and lets what was used stay where it is.

use super::{Next, Policy, Watch};
use crate::cache::slot::{LINKED, List, NIL, Slot, fetch_ahead};

/// Like a clock whose new content goes to the head of the order instead of behind the hand.
///
/// Source: Zhang et al., "SIEVE is simpler than LRU", NSDI 2024.
#[derive(Clone, Copy, Debug)]
pub struct Sieve {
    order: List,
    hand: u32,
}

impl Sieve {
    /// Without any order yet.
    #[must_use]
    pub const fn new() -> Self {
        Sieve { order: List::EMPTY, hand: NIL }
    }
}
impl Default for Sieve {
    fn default() -> Self {
        Self::new()
    }
}

impl Policy for Sieve {
    const USES: Option<u32> = Some(1);

    fn clear(&mut self, _: &mut [Slot]) {
        *self = Self::new();
    }

    #[inline]
    fn hit(slot: &mut Slot) {
        slot.uses = 1;
    }

    #[inline]
    fn idle(&mut self, slots: &mut [Slot], slot: u32, _: Next) {
        let this = &mut slots[slot as usize];
        if !this.is(LINKED) {
            this.uses = 0;
            self.order.push(slots, slot);
        }
    }

    fn leave(&mut self, slots: &mut [Slot], slot: u32) {
        let this = &slots[slot as usize];
        if !this.is(LINKED) {
            return;
        }
        if self.hand == slot {
            self.hand = this.prev;
        }
        self.order.unlink(slots, slot);
    }

    fn victim(&mut self, slots: &mut [Slot], watch: &mut impl Watch) -> Option<u32> {
        // Twice along the order at most: the first time takes away the marks.
        while self.order.last != NIL {
            let slot = if self.hand == NIL { self.order.last } else { self.hand };
            fetch_ahead(slots, slots[slot as usize].prev, |slot| slot.prev, watch);
            let this = &mut slots[slot as usize];
            watch.comes_by(this);
            self.hand = this.prev;
            if this.is_idle() && this.uses > 0 {
                this.uses = 0;
                continue;
            }
            let idle = this.is_idle();
            self.order.unlink(slots, slot);
            if idle {
                return Some(slot);
            }
        }
        None
    }
}
