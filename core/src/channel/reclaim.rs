//! What is taken back from a process that died.

use super::queue::Queue;
use super::word::{Cell, NOBODY, Slot, State};
use crate::atomic::Ordering;

/// What a dead process had of a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Reclaimed {
    /// Slots that it had claimed and not published.
    pub unsent: usize,
    /// Messages that it had received and not released.
    pub taken: usize,
    /// Messages of its that wait still, and will be received.
    pub waiting: usize,
}

impl Queue<'_> {
    /// Frees the slots of a process that will not run again. Messages that it published stay.
    ///
    /// May run beside everything else, and beside itself; if it is cut off, run it again. The number may be given to
    /// another process only when all calls for its last holder have returned; `u16::MAX` is no process's. Wake those who
    /// wait for room afterwards.
    pub fn reclaim(&self, dead: u16) -> Reclaimed {
        self.reclaim_telling(dead, |_| ())
    }

    /// As [`reclaim`](Self::reclaim); `lost` is told each slot whose message the dead one had received and not released,
    /// before it is free.
    pub(super) fn reclaim_telling(&self, dead: u16, mut lost: impl FnMut(usize)) -> Reclaimed {
        let mut all = Reclaimed::default();
        // What is nobody's waits: its senders died before.
        if dead == NOBODY {
            return all;
        }
        for cell in self.cells {
            let now = Cell::load(cell);
            let Some(slot) = now.slot() else { continue };
            let Ok(Some(word)) = self.named(cell, now, slot) else { continue };
            if word.state() != State::Held {
                // Taken, perhaps by the dead one: the cell must not name a slot that is given back.
                self.clear(cell, now);
            } else if word.owner() == dead && self.slot_word(slot).is_some_and(|at| word.swap(at, word.held(NOBODY))) {
                // From now on nobody's, but still to be received. If it is received at this moment, the swap fails.
                all.waiting += 1;
            }
        }
        // What is still the dead one's is named by no cell: one that named it was seen above, and one that does not name
        // it any more was emptied after the slot had become its receiver's.
        // What nobody ever claimed is not looked at, so that it takes no memory.
        let used = self.used().load(Ordering::Relaxed).min(self.plan.slots as u64) as usize;
        for slot in 0..used {
            let Some(at) = self.slot_word(slot) else { break };
            let word = Slot::load(at);
            if word.state() != State::Free && word.owner() == dead {
                let is_taken = word.state() == State::Taken;
                if is_taken {
                    lost(slot);
                }
                if word.swap(at, word.freed()) {
                    *(if is_taken { &mut all.taken } else { &mut all.unsent }) += 1;
                }
            }
            // Also of slots that the dead one freed without saying so, or whose bit it cleared without looking again.
            // ORDERING: whoever freed it and saw its bit did so before the dead one cleared that; all these are sequentially
            // consistent.
            if Slot::load_after_swap(at).state() == State::Free {
                self.set_hint(slot);
            }
        }
        all
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::{Header, Messages, ReceiveError, SendError, Shape};
    use super::*;
    use crate::cell::BytesMut;

    const SHAPE: Shape = Shape { capacity: 2, spares: 0, block: 8 };

    #[test]
    fn what_the_dead_sent_is_nobodys_and_not_reclaimed() {
        let mut memory = std::vec![0_u64; SHAPE.words().unwrap()];
        let messages = Messages::create(BytesMut::from_words(&mut memory), SHAPE).unwrap();
        messages.send(1, Header::default(), b"sent").unwrap();
        assert_eq!(messages.queue().reclaim(1).waiting, 1);
        assert_eq!(messages.queue().reclaim(NOBODY), Reclaimed::default());
        let mut pad = [0; 8];
        assert_eq!(messages.receive(2, &mut pad).map(|received| received.len), Ok(4));
        assert_eq!(messages.receive(2, &mut pad), Err(ReceiveError::Empty));
    }
    #[test]
    fn a_bit_that_the_dead_left_cleared_is_set_again() {
        let mut memory = std::vec![0_u64; SHAPE.words().unwrap()];
        let messages = Messages::create(BytesMut::from_words(&mut memory), SHAPE).unwrap();
        // Of slots that were in use once, as they are that a bit was cleared of.
        let mut pad = [0; 8];
        (0..2).for_each(|_| assert!(messages.send(2, Header::default(), b"before").is_ok()));
        (0..2).for_each(|_| assert_eq!(messages.receive(2, &mut pad).map(|received| received.len), Ok(6)));
        messages.queue().hints[0].store(0, Ordering::Relaxed);
        assert_eq!(messages.send(2, Header::default(), b"sent"), Err(SendError::Full));
        assert_eq!(messages.queue().reclaim(1), Reclaimed::default());
        assert!(
            messages.send(2, Header::default(), b"sent").is_ok() && messages.send(2, Header::default(), b"too").is_ok()
        );
    }
}
