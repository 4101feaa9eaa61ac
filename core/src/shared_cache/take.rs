//! Where a slot for new data comes from: an empty one, else one whose content leaves.
//!
//! CLOCK, because it needs no list: a hand goes around over all slots, takes the mark of use from idle content that
//! has one, and evicts idle content that has none. Source: Corbató, "A paging experiment with the Multics system", 1968.

use crate::atomic::Ordering;
use crate::shared_slots::Owner;

use super::chain::Held;
use super::error::Blocked;
use super::layout::Parts;
use super::word::{EMPTY, Word};

/// Hints that may be wrong or in others' hands before the hand looks at the slots themselves.
const HINTS: u32 = if cfg!(loom) { 4 } else { 256 };

/// Compare-and-swaps of one slot that may fail before an operation gives up: others are never that fast, but memory
/// may be damaged on purpose.
pub(super) const ATTEMPTS: u32 = 1 << 16;

/// A slot that this client has to itself, and that is in no chain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    pub(super) slot: u32,
    pub(super) word: Word,
    pub(super) evicted: bool,
}

/// Why there was no slot.
pub(super) enum Failed {
    Full,
    Blocked(Blocked),
}

/// What became of an attempt at one slot.
enum Attempt {
    Taken(Taken),
    NotThis,
    Busy(Blocked),
}

impl From<Blocked> for Failed {
    fn from(why: Blocked) -> Self {
        Failed::Blocked(why)
    }
}

impl Parts<'_> {
    #[inline]
    pub(super) fn word(&self, slot: u32) -> Option<Word> {
        self.slots.get(slot as usize).map(|[word, _]| Word::of_slot(word))
    }

    #[inline]
    pub(super) fn key(&self, slot: u32) -> Option<u64> {
        self.slots.get(slot as usize).map(|[_, key]| key.load(Ordering::Acquire))
    }

    /// Gives a claimed slot to other data.
    pub(super) fn set_key(&self, slot: u32, data: u64) {
        if let Some([_, key]) = self.slots.get(slot as usize) {
            key.store(data, Ordering::Release);
        }
    }

    /// Replaces exactly this word.
    #[inline]
    pub(super) fn swap(&self, slot: u32, old: Word, new: Word) -> Result<(), Word> {
        let Some([word, _]) = self.slots.get(slot as usize) else { return Err(old) };
        old.replace(word, new)
    }

    /// Takes a slot for data of the bucket that is held. Damage ends the search at once: each
    /// further slot might lead through the same damaged chain.
    pub(super) fn take(&self, owner: Owner, held: &Held<'_, '_>) -> Result<Taken, Failed> {
        let mut busy = None;
        if let Some(taken) = self.take_empty(owner, held, &mut busy)? {
            return Ok(taken);
        }
        // By the hand once around for what was not used, and once more for what lost its mark. Others move the hand too,
        // so it may pass by slots that this client never sees: the last time around, for anything idle, is its own.
        let slots = self.slots.len();
        let own = 2 * slots;
        let (mut step, mut idle) = (0, false);
        while step < own + slots {
            if step == slots && !idle {
                step = own;
            }
            let by_hand = step < own;
            let slot = if by_hand { self.advance() } else { step - own } as u32;
            step += 1;
            let Some(word) = self.word(slot) else { continue };
            if word.is_idle() {
                idle = true;
                if word.is_used() && by_hand {
                    let _ = self.swap(slot, word, word.unused());
                    continue;
                }
            } else if !word.is_free() {
                continue;
            }
            match self.attempt(slot, word, owner, held)? {
                Attempt::Taken(taken) => {
                    if !taken.evicted {
                        self.unhint(slot);
                    }
                    return Ok(taken);
                }
                Attempt::NotThis => {}
                Attempt::Busy(why) => busy = Some(why),
            }
        }
        // What was in another's hands may be free in a moment.
        Err(busy.map_or(Failed::Full, Failed::Blocked))
    }

    /// Takes back the hint that this slot is free, unless it is after all.
    pub(super) fn unhint(&self, slot: u32) {
        self.vacancy.clear(slot, || self.word(slot).is_some_and(Word::is_free));
    }

    fn take_empty(
        &self,
        owner: Owner,
        held: &Held<'_, '_>,
        busy: &mut Option<Blocked>,
    ) -> Result<Option<Taken>, Blocked> {
        // Owners begin at different slots, so that they seldom meet.
        let owners = u64::from(self.sharing.owners());
        let start = (u64::from(owner.number()) % owners * self.slots.len() as u64 / owners) as u32;
        let (mut from, mut around) = (start, start == 0);
        for _ in 0..HINTS {
            let Some(slot) = self.vacancy.find(from).filter(|&slot| (slot as usize) < self.slots.len()) else {
                if around {
                    break;
                }
                (from, around) = (0, true);
                continue;
            };
            let attempt = match self.word(slot).filter(|&word| word.is_free()) {
                Some(word) => self.attempt(slot, word, owner, held)?,
                None => Attempt::NotThis,
            };
            match attempt {
                Attempt::Taken(taken) => {
                    self.unhint(slot);
                    return Ok(Some(taken));
                }
                Attempt::NotThis => self.unhint(slot),
                Attempt::Busy(why) => *busy = Some(why),
            }
            from = slot + 1;
        }
        Ok(None)
    }

    /// Claims a slot with this word, and takes it out of its chain.
    ///
    /// # Errors
    /// [`Blocked::Damaged`].
    fn attempt(&self, slot: u32, word: Word, owner: Owner, held: &Held<'_, '_>) -> Result<Attempt, Blocked> {
        let taken = Taken { slot, word: word.claimed(owner), evicted: word.is_idle() };
        if word.state() == EMPTY {
            return Ok(match self.swap(slot, word, taken.word) {
                Ok(()) => Attempt::Taken(taken),
                Err(_) => Attempt::NotThis,
            });
        }
        let Some(key) = self.key(slot) else { return Ok(Attempt::NotThis) };
        let bucket = self.bucket(key);
        if bucket == held.bucket() {
            return self.claim_out(taken, word, held);
        }
        // Not waiting for a second bucket is what keeps two clients from waiting for each other.
        match self.try_hold(bucket, owner) {
            Ok(other) => self.claim_out(taken, word, &other),
            Err(why @ Blocked::Busy { .. }) => Ok(Attempt::Busy(why)),
            Err(why @ Blocked::Damaged { .. }) => Err(why),
        }
    }

    fn claim_out(&self, taken: Taken, word: Word, held: &Held<'_, '_>) -> Result<Attempt, Blocked> {
        Ok(match held.place(taken.slot)? {
            Some(place) if self.swap(taken.slot, word, taken.word).is_ok() => {
                held.take_out(taken.slot, place);
                Attempt::Taken(taken)
            }
            // It was given to other data meanwhile, or somebody came first.
            _ => Attempt::NotThis,
        })
    }
}
