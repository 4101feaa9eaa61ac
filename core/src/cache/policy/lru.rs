//! Least recently used.

use super::{Next, Policy, Watch};
use crate::cache::slot::{LINKED, List, Slot};

/// Evicts the content whose last reference was given back longest ago.
#[derive(Clone, Copy, Debug)]
pub struct Lru {
    order: List,
}

impl Lru {
    /// Without any order yet.
    #[must_use]
    pub const fn new() -> Self {
        Lru { order: List::EMPTY }
    }
}
impl Default for Lru {
    fn default() -> Self {
        Self::new()
    }
}

impl Policy for Lru {
    fn clear(&mut self, _: u32) {
        self.order = List::EMPTY;
    }

    #[inline]
    fn hit(_: &mut Slot) {}

    fn idle(&mut self, slots: &mut [Slot], slot: u32, _: Next) {
        if self.order.first == slot {
            return;
        }
        self.leave(slots, slot);
        self.order.push(slots, slot);
    }

    fn leave(&mut self, slots: &mut [Slot], slot: u32) {
        if slots[slot as usize].is(LINKED) {
            self.order.unlink(slots, slot);
        }
    }

    fn victim(&mut self, slots: &mut [Slot], watch: &mut impl Watch) -> Option<u32> {
        self.order.oldest(slots, watch)
    }
}
