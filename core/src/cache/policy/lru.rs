//! Least recently used.
//!
//! To move content to the front of the order takes its record and those of its two neighbours, which nobody else has read.
//! So what was used is noted down, and moved together with what is used next: by then its record is there, and the
//! processor fetches the neighbours of all of them at once. Only whoever is asked for the oldest needs to know whether it
//! is among those noted down.

use super::{Next, Policy, Watch};
use crate::cache::slot::{LINKED, List, NIL, Slot};
use crate::fetch::fetch_to_read;

/// Uses that are noted down.
const NOTED: usize = 16;

/// Evicts the content whose last reference was given back longest ago.
///
/// *Cost*: every 16th use moves the content of the last 16.
#[derive(Clone, Copy, Debug)]
pub struct Lru {
    order: List,
    /// What is in front of the order, newest last, whatever the order says. New content there is its own neighbour.
    noted: [u32; NOTED],
    /// How many are noted down; the others are no slots.
    count: usize,
}

impl Lru {
    /// Without any order yet.
    #[must_use]
    pub const fn new() -> Self {
        Lru { order: List::EMPTY, noted: [NIL; NOTED], count: 0 }
    }

    /// Moves what is noted down.
    #[inline(never)]
    fn move_noted(&mut self, slots: &mut [Slot]) {
        let noted = core::mem::replace(&mut self.noted, [NIL; NOTED]);
        let noted = &noted[..core::mem::take(&mut self.count)];
        for &slot in noted {
            let this = &slots[slot as usize];
            for neighbour in [this.prev, this.next] {
                if let Some(neighbour) = slots.get(neighbour as usize) {
                    fetch_to_read(&raw const neighbour.prev);
                }
            }
        }
        for &slot in noted {
            if self.order.first == slot {
                continue;
            }
            if slots[slot as usize].prev != slot {
                self.order.unlink(slots, slot);
            }
            self.order.push(slots, slot);
        }
    }
}
impl Default for Lru {
    fn default() -> Self {
        Self::new()
    }
}

impl Policy for Lru {
    const USES: Option<u32> = Some(0);

    fn clear(&mut self, _: &mut [Slot]) {
        *self = Self::new();
    }

    #[inline]
    fn hit(_: &mut Slot) {}

    #[inline]
    fn idle(&mut self, slots: &mut [Slot], slot: u32, _: Next) {
        let this = &mut slots[slot as usize];
        if !this.is(LINKED) {
            this.set(LINKED);
            (this.prev, this.next) = (slot, slot);
        }
        self.idle_again(slots, slot);
    }

    #[inline]
    fn idle_again(&mut self, slots: &mut [Slot], slot: u32) {
        if let Some(this) = slots.get(slot as usize) {
            fetch_to_read(&raw const this.prev);
        }
        if let Some(free) = self.noted.get_mut(self.count) {
            *free = slot;
            self.count += 1;
        }
        if self.count == NOTED {
            self.move_noted(slots);
        }
    }

    fn leave(&mut self, slots: &mut [Slot], slot: u32) {
        if slots[slot as usize].is(LINKED) {
            self.move_noted(slots);
            self.order.unlink(slots, slot);
        }
    }

    fn victim(&mut self, slots: &mut [Slot], watch: &mut impl Watch) -> Option<u32> {
        loop {
            // Without an order as well: no slot is noted down, too.
            if self.noted.contains(&self.order.last) {
                self.move_noted(slots);
            }
            if self.order.last == NIL {
                return None;
            }
            let oldest = self.order.oldest_if_idle(slots, watch);
            if oldest.is_some() {
                return oldest;
            }
        }
    }
}
