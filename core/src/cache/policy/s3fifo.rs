//! Three queues: a small one, a main one, and the ids of what left too early.
//!
//! New content begins in the small one.

use super::{Next, Policy, Watch};
use crate::cache::slot::{LINKED, List, NOWHERE, Slot};
use crate::fetch::fetch_to_read;

/// New content waits in a small queue, a tenth of the slots, and moves to the main one if it was used
/// meanwhile; from there it leaves when its uses are counted down. Content that comes back soon after it left
/// the small queue goes to the main one at once: that is what the lent words are for, [one a slot](S3Fifo::words_for) or
/// a few, in fours. With fewer than four nothing is known to come back. (The paper asks for two uses of what is new, which finds less under
/// moderate skew.)
///
/// Ids of what left are kept as 32 bits of hash and the time, in one of the four places of a line that the hash names: the
/// oldest of five ids that meet there is forgotten, which costs a hit now and then and never an error.
///
/// Source: Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023.
#[derive(Clone, Debug)]
pub struct S3Fifo<G> {
    queues: [List; 2],
    small_at_most: u32,
    slots: u32,
    ghosts: G,
    /// Contents that left the small queue.
    left: u32,
}

const SMALL: u16 = 0;
const MAIN: u16 = 1;
/// Places in which an id may be.
const WAYS: usize = 4;
/// Uses that are told apart.
const MOST_USES: u8 = 3;

impl S3Fifo<()> {
    /// How many words to lend it for so many slots: one a slot, in fours.
    #[must_use]
    pub const fn words_for(slots: u32) -> usize {
        (slots as usize).div_ceil(WAYS).saturating_mul(WAYS)
    }
}

impl<G: AsRef<[u64]> + AsMut<[u64]>> S3Fifo<G> {
    /// Without any order yet; the lent words may hold anything. [`S3Fifo::words_for`] tells how many.
    #[must_use]
    pub fn new(ghosts: G) -> Self {
        S3Fifo { queues: [List::EMPTY; 2], small_at_most: 1, slots: 0, ghosts, left: 0 }
    }

    fn hash(data: u64) -> u64 {
        let mixed = (data ^ (data >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ (mixed >> 29)).wrapping_mul(0xd6e8_feb8_6659_fd93)
    }

    /// The mark of an id, and where the places begin in which it may be.
    fn ghost(&self, data: u64) -> (u32, usize) {
        let hash = Self::hash(data);
        let lines = self.ghosts.as_ref().len() / WAYS;
        let at = (u128::from(hash) * lines as u128) >> 64;
        // Another part of the hash than the one that chose the place.
        (hash as u32, at as usize * WAYS)
    }

    // Here and below all places are looked at without a branch: which of them it is nobody can guess.
    fn remember_ghost(&mut self, data: u64) {
        self.left = self.left.wrapping_add(1);
        let (left, (tag, at)) = (self.left, self.ghost(data));
        let Some(places) = self.ghosts.as_mut().get_mut(at..).and_then(<[u64]>::first_chunk_mut::<WAYS>) else {
            return;
        };
        // What is known of the same id already is replaced first, else what left first.
        let key = |way: usize| {
            let (known, age) = ((places[way] >> 32) as u32 == tag, left.wrapping_sub(places[way] as u32));
            u64::from(known) << 40 | u64::from(age) << 2 | way as u64
        };
        let oldest = key(0).max(key(1)).max(key(2).max(key(3))) as usize % WAYS;
        places[oldest] = u64::from(tag) << 32 | u64::from(left);
    }

    fn came_back(&self, data: u64) -> bool {
        let (tag, at) = self.ghost(data);
        let main = self.slots - self.small_at_most.min(self.slots);
        let places = self.ghosts.as_ref().get(at..).and_then(<[u64]>::first_chunk::<WAYS>);
        let here = |place: u64| ((place >> 32) as u32 == tag) & (self.left.wrapping_sub(place as u32) < main);
        places.is_some_and(|&[a, b, c, d]| here(a) | here(b) | here(c) | here(d))
    }

    fn queue(&mut self, list: u16) -> &mut List {
        &mut self.queues[usize::from(list == MAIN)]
    }
}

impl<G: AsRef<[u64]> + AsMut<[u64]>> Policy for S3Fifo<G> {
    const USES: Option<u32> = Some(MOST_USES as u32);

    fn clear(&mut self, slots: u32) {
        self.queues = [List::EMPTY; 2];
        self.small_at_most = (slots / 10).max(1);
        self.slots = slots;
        self.left = 0;
        // A time that is never within reach of the next ones.
        self.ghosts.as_mut().fill(u64::from(slots.wrapping_neg()));
    }

    #[inline]
    fn hit(slot: &mut Slot) {
        slot.uses = (slot.uses + 1).min(MOST_USES);
    }

    #[inline]
    fn will_enter(&self, data: u64) {
        if let Some(place) = self.ghosts.as_ref().get(self.ghost(data).1) {
            fetch_to_read(place);
        }
    }

    fn idle(&mut self, slots: &mut [Slot], slot: u32, _: Next) {
        let this = &slots[slot as usize];
        if this.is(LINKED) {
            return;
        }
        // Content that was only taken out because it was in use returns to the queue that it was in.
        let list = match this.list {
            NOWHERE if self.came_back(this.data) => MAIN,
            NOWHERE => SMALL,
            list => list,
        };
        (slots[slot as usize].list, slots[slot as usize].uses) = (list, 0);
        self.queue(list).push(slots, slot);
    }

    fn leave(&mut self, slots: &mut [Slot], slot: u32) {
        let this = &slots[slot as usize];
        if this.is(LINKED) {
            let list = this.list;
            self.queue(list).unlink(slots, slot);
        }
    }

    fn victim(&mut self, slots: &mut [Slot], watch: &mut impl Watch) -> Option<u32> {
        loop {
            let [small, main] = &self.queues;
            let list = if main.len == 0 || small.len > self.small_at_most { SMALL } else { MAIN };
            if self.queue(list).len == 0 {
                return None;
            }
            let slot = self.queue(list).last;
            self.queue(list).unlink(slots, slot);
            if let Some(soon) = self.queue(list).fetch_oldest(slots, watch)
                && list == SMALL
            {
                self.will_enter(soon);
            }
            let this = &mut slots[slot as usize];
            watch.comes_by(this);
            if !this.is_idle() {
                continue;
            }
            // Each turn counts a use down, moves from small to main, or ends.
            if list == MAIN && this.uses > 0 {
                this.uses -= 1;
                self.queue(MAIN).push(slots, slot);
            } else if list == SMALL && this.uses > 0 {
                (this.list, this.uses) = (MAIN, 0);
                self.queue(MAIN).push(slots, slot);
            } else {
                if list == SMALL {
                    let data = this.data;
                    self.remember_ghost(data);
                }
                return Some(slot);
            }
        }
    }
}
