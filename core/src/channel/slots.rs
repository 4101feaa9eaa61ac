//! Slots: who may fill one, and giving them back.
//!
//! The word of a slot decides; a bit for each slot says where to look. While all bits of a word are set, a claim leaves
//! that of its slot set: as long as no claim meets a slot in use, because one message at a time is under way, nobody writes
//! the bits, which all processes read. Who stumbles over a bit whose slot is in use clears it, and then looks at the slot
//! once more. From then on, until all bits of that
//! word are set again, claims clear those of their slots at once, so that not every claim stumbles over the last one's.
//!
//! Who frees a slot does so, and then looks at its bit, and sets it if it was cleared. One of the two looks comes after
//! the other side's step: so either the bit is set again, or who cleared it finds the slot free, and takes it. A bit that
//! is missing, because a process died between its step and its look, is restored by the reclaim of that process.

use super::error::SendError;
use super::layout::LINE;
use super::queue::Queue;
use super::word::{Slot, State};
use crate::atomic::{AtomicU64, Ordering, fence};
use crate::fetch::{fetch_to_read, fetch_to_write};

/// Passes over the bits in which others may be faster before a claim answers "full".
const PASSES: u32 = 8;
/// Lines of a message that are brought near: those of a short one. The processor sees by itself that more are read in a row.
const NEAR: usize = 3;
const LINE_BYTES: usize = LINE * size_of::<u64>();

/// A slot that its holder fills; [`Queue::publish`] sends it.
#[derive(PartialEq, Eq, Debug)]
#[must_use = "a claimed slot is published or given up"]
pub struct Claim {
    pub(super) slot: usize,
    pub(super) word: Slot,
}

impl Claim {
    /// Which slot it is.
    #[must_use]
    pub const fn slot(&self) -> usize {
        self.slot
    }
}

impl<'a> Queue<'a> {
    /// The word of a slot, if there is such a slot.
    #[inline]
    pub(super) fn slot_word(&self, slot: usize) -> Option<&'a AtomicU64> {
        if slot < self.plan.slots { self.slots.get(slot * self.plan.stride) } else { None }
    }

    /// Has the lines brought near at once that a sender of so many bytes, with what its message says about itself, is about to
    /// write, and the receiver has had: else each step of a send waits for its line, for it comes after a swap. Not that of the
    /// cell, at which a receiver who waits looks again and again: he would take it back before it is written.
    #[inline]
    pub(super) fn fetch_to_send(&self, len: usize) {
        if cfg!(loom) {
            return;
        }
        // The first word of bits alone: where it has none, many messages wait, and nobody waits for this one.
        let bits = self.hints.first().map_or(0, |hint| hint.load(Ordering::Relaxed));
        if bits != 0 {
            self.fetch_slot(bits.trailing_zeros() as usize, len.div_ceil(LINE_BYTES), fetch_to_write);
        }
    }

    /// Has the lines brought near at once that whoever comes upon the message in this slot is about to read.
    #[inline]
    pub(super) fn fetch_to_take(&self, slot: usize) {
        self.fetch_slot(slot, NEAR, fetch_to_read);
    }

    /// Has this many lines of a slot, or the first few of more, brought near.
    #[inline(always)]
    fn fetch_slot(&self, slot: usize, lines: usize, fetch: impl Fn(*const AtomicU64)) {
        if slot >= self.plan.slots {
            return;
        }
        let start = slot * self.plan.stride;
        let lines = lines.min(NEAR).min(self.plan.stride / LINE);
        (0..lines).filter_map(|line| self.slots.get(start + line * LINE)).for_each(|word| fetch(word));
    }

    /// Takes a free slot, to be filled and published.
    ///
    /// # Errors
    /// [`SendError::Full`].
    #[inline]
    pub fn claim(&self, by: u16) -> Result<Claim, SendError> {
        // Full is what a whole pass without any bit says; one that lost a race, or cleared bits, says nothing: slots that it
        // had passed may be free by now.
        for _ in 0..PASSES {
            let mut hinted = false;
            for (at, hint) in self.hints.iter().enumerate() {
                let mut bits = hint.load(Ordering::Relaxed);
                let is_quiet = bits == self.plan.bits(at);
                while bits != 0 {
                    let slot = at * 64 + bits.trailing_zeros() as usize;
                    bits &= bits - 1;
                    let Some(word) = self.slot_word(slot) else { break };
                    hinted = true;
                    let mut now = Slot::load(word);
                    if now.state() != State::Free {
                        now = clear_wrong_hint(hint, slot, word);
                    }
                    if now.state() != State::Free {
                        continue;
                    }
                    self.use_to(slot);
                    // If the bit was cleared and somebody else is faster now, he sees that when he frees the slot.
                    if now.swap(word, now.held(by)) {
                        if !is_quiet {
                            // ORDERING: Relaxed: he who frees the slot comes after this, by the words that decide.
                            hint.fetch_and(!bit(slot), Ordering::Relaxed);
                        }
                        return Ok(Claim { slot, word: now.held(by) });
                    }
                }
            }
            if !hinted {
                break;
            }
        }
        Err(SendError::Full)
    }

    /// Notes that slots may be in use up to this one, which is about to be: a reclaim looks no further.
    #[inline]
    fn use_to(&self, slot: usize) {
        // ORDERING: who looks for what a dead one had comes after all that this one has done.
        if slot as u64 >= self.used().load(Ordering::Relaxed) {
            self.used().fetch_max(slot as u64 + 1, Ordering::Relaxed);
        }
    }

    /// Gives a claimed slot back without sending.
    pub fn give_up(&self, claim: Claim) {
        self.free(claim.slot, claim.word);
    }

    /// Frees a slot that is the caller's alone.
    #[inline]
    pub(super) fn free(&self, slot: usize, now: Slot) {
        let (Some(word), Some(hint)) = (self.slot_word(slot), self.hints.get(slot / 64)) else { return };
        now.freed().put(word);
        // ORDERING: this load comes after the swap of the word, both sequentially consistent; pairs with
        // `clear_wrong_hint`. Loom does not know such accesses, only fences.
        if cfg!(loom) {
            fence(Ordering::SeqCst);
        }
        if hint.load(Ordering::SeqCst) & bit(slot) == 0 {
            self.set_hint(slot);
        }
    }

    /// Says that a slot is free, after it became so.
    pub(super) fn set_hint(&self, slot: usize) {
        if let Some(hint) = self.hints.get(slot / 64) {
            // ORDERING: release: whoever clears this bit as wrong sees the slot free. Sequentially consistent, so that a
            // notification may follow without a fence.
            hint.fetch_or(bit(slot), Ordering::SeqCst);
        }
    }
}

/// Clears the bit of a slot that was in use; what the slot is after that.
#[cold]
fn clear_wrong_hint(hint: &AtomicU64, slot: usize, word: &AtomicU64) -> Slot {
    // ORDERING: the load of the word comes after the clearing, both sequentially consistent. Who frees the slot has the
    // same two in the other order: either he sees the bit cleared, or it is seen here that the slot is free. Acquire
    // pairs with `set_hint`, which a reclaim calls without a look at the bit.
    hint.fetch_and(!bit(slot), Ordering::SeqCst);
    if cfg!(loom) {
        fence(Ordering::SeqCst);
    }
    Slot::load_after_swap(word)
}

const fn bit(slot: usize) -> u64 {
    1 << (slot % 64)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::Shape;
    use super::*;

    #[test]
    fn bits_are_left_alone_until_somebody_stumbles_over_one() {
        let shape = Shape { capacity: 66, spares: 0, block: 0 };
        let words: std::vec::Vec<_> = (0..shape.words().unwrap()).map(|_| AtomicU64::new(0)).collect();
        let queue = Queue::create(&words, shape).unwrap();
        let bits = || [0, 1].map(|at| queue.hints[at].load(Ordering::Relaxed));
        let claims = [u64::MAX, u64::MAX - 1, u64::MAX - 0b111].map(|left| {
            let claim = queue.claim(1).unwrap();
            assert_eq!(bits(), [left, 3], "{claim:?}");
            claim
        });
        assert_eq!(claims.each_ref().map(Claim::slot), [0, 1, 2]);
        claims.into_iter().for_each(|claim| queue.give_up(claim));
        assert_eq!(bits(), [u64::MAX, 3], "who frees a slot sets the bit that another cleared");
        let all: std::vec::Vec<_> = std::iter::from_fn(|| queue.claim(1).ok()).collect();
        assert_eq!((all.len(), bits()), (66, [0, 0]), "full only when every slot was looked at");
        all.into_iter().for_each(|claim| queue.give_up(claim));
        assert_eq!((bits(), queue.free_slots()), ([u64::MAX, 3], 66));
    }
}
