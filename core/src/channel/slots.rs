//! Slots: who may fill one, and giving them back.
//!
//! The word of a slot decides; a bit for each slot says where to look. A bit that is set wrongly is cleared by whoever
//! stumbles over it; one that is missing, because its process died between the two, is restored by a reclaim.

use super::error::SendError;
use super::queue::Queue;
use super::word::{Slot, State};
use crate::atomic::{AtomicU64, Ordering};

/// Passes over the bits in which others may be faster before a claim answers "full".
const PASSES: u32 = 8;

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

    /// Takes a free slot, to be filled and published.
    ///
    /// # Errors
    /// [`SendError::Full`].
    #[inline]
    pub fn claim(&self, by: u16) -> Result<Claim, SendError> {
        // Full is what a whole pass without any bit says; a pass that lost a race says nothing.
        for _ in 0..PASSES {
            let mut hinted = false;
            for (at, hint) in self.hints.iter().enumerate() {
                let mut bits = hint.load(Ordering::Relaxed);
                while bits != 0 {
                    let slot = at * 64 + bits.trailing_zeros() as usize;
                    bits &= bits - 1;
                    let Some(word) = self.slot_word(slot) else { break };
                    hinted = true;
                    let now = Slot::load(word);
                    if now.state() != State::Free {
                        self.clear_wrong_hint(slot, word);
                    } else if now.swap(word, now.held(by)) {
                        hint.fetch_and(!bit(slot), Ordering::Relaxed);
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

    /// Gives a claimed slot back without sending.
    pub fn give_up(&self, claim: Claim) {
        self.free(claim.slot, claim.word);
    }

    /// Frees a slot that is the caller's alone.
    #[inline]
    pub(super) fn free(&self, slot: usize, now: Slot) {
        if let Some(word) = self.slot_word(slot) {
            now.freed().store(word);
            self.set_hint(slot);
        }
    }

    #[inline]
    pub(super) fn set_hint(&self, slot: usize) {
        if let Some(hint) = self.hints.get(slot / 64) {
            // ORDERING: release, so that whoever clears this bit as wrong sees the slot free (next function).
            // Sequentially consistent, so that a notification may follow without a fence.
            hint.fetch_or(bit(slot), Ordering::SeqCst);
        }
    }

    fn clear_wrong_hint(&self, slot: usize, word: &AtomicU64) {
        if let Some(hint) = self.hints.get(slot / 64) {
            // ORDERING: acquire pairs with `set_hint`. If the bit that is cleared was set after the slot became free, that
            // is seen here, and the bit set again; if it is set later, it stays.
            hint.fetch_and(!bit(slot), Ordering::Acquire);
            if Slot::load(word).state() == State::Free {
                self.set_hint(slot);
            }
        }
    }
}

const fn bit(slot: usize) -> u64 {
    1 << (slot % 64)
}
