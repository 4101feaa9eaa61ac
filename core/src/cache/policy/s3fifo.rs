//! Three queues: a small one, a main one, and the ids of what left too early.
//!
//! New content begins in the small one.

use super::{Next, Policy, Watch};
use crate::cache::slot::{LINKED, List, Slot};
use crate::fetch::fetch_to_read;

/// New content waits in a small queue, a tenth of the slots, and moves to the main one if it was used
/// meanwhile; from there it leaves when its uses are counted down. Content that comes back soon after it left
/// the small queue goes to the main one at once. (The paper asks for two uses of what is new, which finds less under
/// moderate skew.)
///
/// Who left is written down in the records of the slots, whoever has them, so no further memory is lent: 16 bits of a hash,
/// in the first of two records side by side, which another part of the hash names. What was in the first one moves to the
/// second; what was there is forgotten. So as many ids are known as there are slots, and each until two others meet it, or
/// with an odd number of slots, one in the last record. An id that is forgotten early, or taken for another one, costs a
/// hit now and then and never an error.
///
/// Source: Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023.
#[derive(Clone, Copy, Debug)]
pub struct S3Fifo {
    queues: [List; 2],
    small_at_most: u32,
    slots: u32,
}

/// Uses that are told apart, in the lowest bits of what a record counts; the others name the queue, or none for new content.
const MOST_USES: u8 = 3;
const SMALL: u8 = 4;
const MAIN: u8 = 8;
/// No mark of an id.
const NOBODY: u16 = 0;

impl S3Fifo {
    /// Without any order yet.
    #[must_use]
    pub const fn new() -> Self {
        S3Fifo { queues: [List::EMPTY; 2], small_at_most: 1, slots: 0 }
    }

    fn hash(data: u64) -> u64 {
        let mixed = (data ^ (data >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ (mixed >> 29)).wrapping_mul(0xd6e8_feb8_6659_fd93)
    }

    /// The mark of an id, and the first of the two records where it may stand.
    fn mark(&self, data: u64) -> (u16, usize) {
        let hash = Self::hash(data);
        let pair = (u128::from(hash) * u128::from(self.slots.div_ceil(2))) >> 64;
        // Another part of the hash than the one that chose the pair.
        let mark = (u64::from(hash as u32) * u64::from(u16::MAX)) >> 32;
        (mark as u16 + 1, pair as usize * 2)
    }

    /// The record after the first of a pair; the same one at the end.
    fn second(&self, first: usize) -> usize {
        (first + 1).min(self.slots.saturating_sub(1) as usize)
    }

    // Who is known goes to the main queue, and is not noted when it leaves from there: so nobody stands in both places.
    fn note_left(&self, slots: &mut [Slot], data: u64) {
        let (mark, first) = self.mark(data);
        slots[self.second(first)].noted = slots[first].noted;
        slots[first].noted = mark;
    }

    fn came_back(&self, slots: &[Slot], data: u64) -> bool {
        let (mark, first) = self.mark(data);
        // Without a branch: which of them it is nobody can guess.
        (slots[first].noted == mark) | (slots[self.second(first)].noted == mark)
    }

    /// Has fetched where an id may stand.
    fn fetch_mark(&self, slots: &[Slot], data: u64) {
        let first = self.mark(data).1;
        for record in [first, self.second(first)] {
            if let Some(record) = slots.get(record) {
                fetch_to_read(&raw const record.noted);
            }
        }
    }

    fn queue(&mut self, queue: u8) -> &mut List {
        &mut self.queues[usize::from(queue == MAIN)]
    }
}
impl Default for S3Fifo {
    fn default() -> Self {
        Self::new()
    }
}

impl Policy for S3Fifo {
    const USES: Option<u32> = Some(MOST_USES as u32);
    const NOTES_STAY: bool = true;

    fn clear(&mut self, slots: &mut [Slot]) {
        self.queues = [List::EMPTY; 2];
        self.slots = slots.len() as u32;
        self.small_at_most = (self.slots / 10).max(1);
        slots.iter_mut().for_each(|slot| slot.noted = NOBODY);
    }

    #[inline]
    fn hit(slot: &mut Slot) {
        slot.uses += u8::from(slot.uses & MOST_USES < MOST_USES);
    }

    #[inline]
    fn will_enter(&self, slots: &[Slot], data: u64) {
        self.fetch_mark(slots, data);
    }

    fn idle(&mut self, slots: &mut [Slot], slot: u32, _: Next) {
        let this = &slots[slot as usize];
        if this.is(LINKED) {
            return;
        }
        // Content that was only taken out because it was in use returns to the queue that it was in.
        let queue = match this.uses & !MOST_USES {
            0 if self.came_back(slots, this.data) => MAIN,
            0 => SMALL,
            queue => queue,
        };
        slots[slot as usize].uses = queue;
        self.queue(queue).push(slots, slot);
    }

    fn leave(&mut self, slots: &mut [Slot], slot: u32) {
        let this = &slots[slot as usize];
        if this.is(LINKED) {
            let queue = this.uses & !MOST_USES;
            self.queue(queue).unlink(slots, slot);
        }
    }

    fn victim(&mut self, slots: &mut [Slot], watch: &mut impl Watch) -> Option<u32> {
        loop {
            let [small, main] = &self.queues;
            let queue = if main.len == 0 || small.len > self.small_at_most { SMALL } else { MAIN };
            if self.queue(queue).len == 0 {
                return None;
            }
            let slot = self.queue(queue).last;
            self.queue(queue).unlink(slots, slot);
            if let Some(soon) = self.queue(queue).fetch_oldest(slots, watch)
                && queue == SMALL
            {
                self.fetch_mark(slots, soon);
            }
            let this = &mut slots[slot as usize];
            watch.comes_by(this);
            if !this.is_idle() {
                continue;
            }
            // Each turn counts a use down, moves from small to main, or ends.
            let used = this.uses & MOST_USES > 0;
            if queue == MAIN && used {
                this.uses -= 1;
                self.queue(MAIN).push(slots, slot);
            } else if queue == SMALL && used {
                this.uses = MAIN;
                self.queue(MAIN).push(slots, slot);
            } else {
                if queue == SMALL {
                    let data = this.data;
                    self.note_left(slots, data);
                }
                return Some(slot);
            }
        }
    }
}
