//! First in, first out.

use super::{Next, Policy, Watch};
use crate::cache::slot::{LINKED, List, Slot};

/// Evicts the content that has been there longest.
#[derive(Clone, Copy, Debug)]
pub struct Fifo {
    order: List,
}

impl Fifo {
    /// Without any order yet.
    #[must_use]
    pub const fn new() -> Self {
        Fifo { order: List::EMPTY }
    }
}
impl Default for Fifo {
    fn default() -> Self {
        Self::new()
    }
}

impl Policy for Fifo {
    const USES: Option<u32> = Some(0);

    fn clear(&mut self, _: &mut [Slot]) {
        self.order = List::EMPTY;
    }

    #[inline]
    fn hit(_: &mut Slot) {}

    #[inline]
    fn idle(&mut self, slots: &mut [Slot], slot: u32, _: Next) {
        if !slots[slot as usize].is(LINKED) {
            self.order.push(slots, slot);
        }
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
