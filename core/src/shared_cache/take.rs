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

/// Hints that may be wrong or in others' hands before content is evicted.
const HINTS: u32 = if cfg!(loom) { 4 } else { 256 };

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

impl Parts<'_> {
    pub(super) fn word(&self, slot: u32) -> Option<Word> {
        // ORDERING: acquire, so that the data read behind it is not older.
        self.slots.get(slot as usize).map(|[word, _]| Word(word.load(Ordering::Acquire)))
    }

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
        // ORDERING: release, so that what this client did with the slot is over before the next one begins; acquire,
        // so that this client sees what others wrote to the slot, or had read of it, before.
        match word.compare_exchange(old.0, new.0, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Ok(()),
            Err(now) => Err(Word(now)),
        }
    }

    /// Takes a slot for data of the bucket that is held.
    pub(super) fn take(&self, owner: Owner, held: &Held<'_, '_>) -> Result<Taken, Failed> {
        let mut busy = None;
        if let Some(taken) = self.take_empty(owner, held, &mut busy) {
            return Ok(taken);
        }
        // Once around for what was not used, once more for what lost its mark, and once for anything idle.
        let slots = self.slots.len();
        let mut idle = false;
        for step in 0..3 * slots {
            if step == slots && !idle {
                break;
            }
            let slot = self.advance() as u32;
            let Some(word) = self.word(slot) else { continue };
            if !word.is_idle() {
                continue;
            }
            idle = true;
            if word.is_used() && step < 2 * slots {
                let _ = self.swap(slot, word, word.unused());
                continue;
            }
            match self.attempt(slot, word, owner, held) {
                Attempt::Taken(taken) => return Ok(Taken { evicted: true, ..taken }),
                Attempt::NotThis => {}
                Attempt::Busy(why) => busy = Some(why),
            }
        }
        // What was in another's hands may be free in a moment.
        Err(busy.map_or(Failed::Full, Failed::Blocked))
    }

    fn take_empty(&self, owner: Owner, held: &Held<'_, '_>, busy: &mut Option<Blocked>) -> Option<Taken> {
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
            let is_free = || self.word(slot).is_some_and(Word::is_free);
            let attempt = match self.word(slot).filter(|&word| word.is_free()) {
                Some(word) => self.attempt(slot, word, owner, held),
                None => Attempt::NotThis,
            };
            match attempt {
                Attempt::Taken(taken) => {
                    self.vacancy.clear(slot, is_free);
                    return Some(taken);
                }
                Attempt::NotThis => self.vacancy.clear(slot, is_free),
                Attempt::Busy(why) => *busy = Some(why),
            }
            from = slot + 1;
        }
        None
    }

    /// Claims a slot with this word, and takes it out of its chain.
    fn attempt(&self, slot: u32, word: Word, owner: Owner, held: &Held<'_, '_>) -> Attempt {
        let taken = Taken { slot, word: word.claimed(owner), evicted: false };
        if word.state() == EMPTY {
            return match self.swap(slot, word, taken.word) {
                Ok(()) => Attempt::Taken(taken),
                Err(_) => Attempt::NotThis,
            };
        }
        let Some(key) = self.key(slot) else { return Attempt::NotThis };
        let bucket = self.bucket(key);
        if bucket == held.bucket() {
            return self.claim_out(taken, word, held);
        }
        // Not waiting for a second bucket is what keeps two clients from waiting for each other.
        match self.try_hold(bucket, owner) {
            Ok(other) => self.claim_out(taken, word, &other),
            Err(why) => Attempt::Busy(why),
        }
    }

    fn claim_out(&self, taken: Taken, word: Word, held: &Held<'_, '_>) -> Attempt {
        match held.place(taken.slot) {
            Ok(Some(place)) if self.swap(taken.slot, word, taken.word).is_ok() => {
                held.take_out(taken.slot, place);
                Attempt::Taken(taken)
            }
            // It was given to other data meanwhile, or somebody came first.
            Ok(_) => Attempt::NotThis,
            Err(why) => Attempt::Busy(why),
        }
    }
}
