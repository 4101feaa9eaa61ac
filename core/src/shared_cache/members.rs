//! The processes that use a cache, and what is taken back from one that died.
//!
//! An owner's number belongs to one life of one process: pid and start time. One word holds both, and who buries it,
//! so each step of that is one compare-and-swap: free, taken, being buried, free.

use core::fmt;

use crate::atomic::{AtomicU64, Ordering};
use crate::shared_slots::Owner;

use super::error::{Blocked, JoinError, ReclaimError};
use super::layout::{OWNER, Parts};
use super::take::ATTEMPTS;
use super::word::{Field, Word};

/// One life of one process on this host.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Identity(u64);

impl Identity {
    /// The process with this pid that started then, in any unit that tells two lives of a pid apart: the lower 24
    /// bits of the pid and the lower 32 bits of the start are kept.
    #[must_use]
    pub const fn new(pid: u32, start: u64) -> Identity {
        Identity((pid as u64 & 0xff_ffff) << 32 | start & 0xffff_ffff)
    }

    /// Its pid.
    #[must_use]
    pub const fn pid(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} started at {}", self.pid(), self.0 as u32)
    }
}

/// What was taken back from a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Reclaimed {
    /// References that it held.
    pub references: u64,
    /// Fills that it had begun and not ended.
    pub fills: u64,
    /// Slots that nobody uses any more, and that have no content.
    pub emptied: u64,
}

/// The words of an owner's record.
#[derive(Clone, Copy)]
pub(super) enum Count {
    Loads = 1,
    Evictions = 2,
    Refused = 3,
}

/// Marks a taken number, whose identity may be all zeros.
const TAKEN: u64 = 1 << 63;
const ID: u32 = 7;
const BURIER: u64 = (1 << ID) - 1;

const fn entry(identity: Identity) -> u64 {
    TAKEN | identity.0 << ID
}

impl Parts<'_> {
    fn owner_word(&self, owner: Owner, word: usize) -> Option<&AtomicU64> {
        self.owners.get(usize::from(owner.number()) * OWNER + word)
    }

    fn all_owners(&self) -> impl Iterator<Item = Owner> {
        (0..self.sharing.owners()).filter_map(Owner::new)
    }

    pub(super) fn field(&self, owner: Owner) -> Field {
        Field::new(owner, self.sharing.bits())
    }

    pub(super) fn count(&self, owner: Owner, what: Count) {
        if let Some(word) = self.owner_word(owner, what as usize) {
            word.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn counted(&self, what: Count) -> u64 {
        let words = self.all_owners().filter_map(|owner| self.owner_word(owner, what as usize));
        words.fold(0, |sum, word| sum.wrapping_add(word.load(Ordering::Relaxed)))
    }

    pub(super) fn join(&self, identity: Identity) -> Result<Owner, JoinError> {
        for owner in self.all_owners() {
            let Some(word) = self.owner_word(owner, 0) else { continue };
            // ORDERING: acquire pairs with the end of `reclaim`: nobody touches what this number holds any more.
            if word.compare_exchange(0, entry(identity), Ordering::Acquire, Ordering::Relaxed).is_ok() {
                return Ok(owner);
            }
        }
        Err(JoinError::Full { owners: self.sharing.owners() })
    }

    /// Numbers that are taken, and by whom.
    pub(super) fn members(&self) -> impl Iterator<Item = (Owner, Identity)> {
        self.all_owners().filter_map(|owner| {
            let word = self.owner_word(owner, 0)?.load(Ordering::Relaxed);
            (word != 0).then_some((owner, Identity((word & !TAKEN) >> ID)))
        })
    }

    pub(super) fn reclaim(
        &self,
        dead: Owner,
        identity: Identity,
        by: Owner,
        abandoned: impl FnMut(u32, u64),
    ) -> Result<Reclaimed, ReclaimError> {
        let unknown = ReclaimError::Unknown(dead);
        let word = self.owner_word(dead, 0).ok_or(unknown)?;
        let lives = entry(identity);
        let buried = lives | u64::from(by.number() + 1);
        let leaves = lives | u64::from(dead.number() + 1);
        let mark = |from| word.compare_exchange(from, buried, Ordering::AcqRel, Ordering::Relaxed);
        // Two at once would be wrong: the slower one might go on when the number is already another process's. But one
        // that died while it left takes nothing back any more, and only others can end that.
        let marked = mark(lives).or_else(|now| if now == leaves && by != dead { mark(leaves) } else { Err(now) });
        if let Err(now) = marked {
            let by = (now & BURIER).wrapping_sub(1) as u8;
            return Err(if now & !BURIER == lives { ReclaimError::InProgress { by } } else { unknown });
        }
        let result = self.take_back(dead, by, abandoned);
        // ORDERING: release pairs with `join`.
        word.store(if result.is_ok() { 0 } else { lives }, Ordering::Release);
        result
    }

    fn take_back(
        &self,
        dead: Owner,
        by: Owner,
        mut abandoned: impl FnMut(u32, u64),
    ) -> Result<Reclaimed, ReclaimError> {
        let field = self.field(dead);
        let mut all = Reclaimed::default();
        self.release_all(dead);
        self.end_burials_of(dead);
        // First all that others can be in the way of. It is not counted, so a call that fails forgets nothing.
        self.unchain_claimed_by(dead, by)?;
        for slot in (0..self.slots.len()).map(|slot| slot as u32) {
            let (Some(mut word), Some(data)) = (self.word(slot), self.key(slot)) else { continue };
            // Nobody but the claimant changes a claimed slot, and he is dead.
            if word.is_claimed_by(dead) && self.swap(slot, word, word.emptied()).is_ok() {
                all.emptied += 1;
            }
            let mut attempts = 0;
            while word.count(field) != 0 || word.is_filled_by(dead) {
                let next = word.bereft(field, dead);
                match self.swap(slot, word, next) {
                    Ok(()) => {
                        all.references += u64::from(word.count(field));
                        all.emptied += u64::from(next.is_vacant());
                        if word.is_filled_by(dead) {
                            all.fills += 1;
                            abandoned(slot, data);
                        }
                        break;
                    }
                    Err(_) if attempts == ATTEMPTS => return Err(Blocked::Busy { owner: word.by() }.into()),
                    Err(now) => (word, attempts) = (now, attempts + 1),
                }
            }
            // Also of slots that the dead one emptied without saying so.
            if self.word(slot).is_some_and(Word::is_free) {
                self.vacancy.set(slot);
            }
        }
        Ok(all)
    }

    /// Takes the slots that the dead one claimed out of the chains that they are in.
    fn unchain_claimed_by(&self, dead: Owner, by: Owner) -> Result<(), Blocked> {
        for slot in (0..self.slots.len()).map(|slot| slot as u32) {
            let (Some(word), Some(data)) = (self.word(slot), self.key(slot)) else { continue };
            if word.is_claimed_by(dead) {
                let held = self.hold(self.bucket(data), by)?;
                if let Some(place) = held.place(slot)? {
                    held.take_out(slot, place);
                }
            }
        }
        Ok(())
    }

    /// Lets others bury whom the dead one was burying.
    fn end_burials_of(&self, dead: Owner) {
        let mark = u64::from(dead.number() + 1);
        for owner in self.all_owners().filter(|&owner| owner != dead) {
            let Some(word) = self.owner_word(owner, 0) else { continue };
            let now = word.load(Ordering::Relaxed);
            if now & BURIER == mark {
                let _ = word.compare_exchange(now, now & !BURIER, Ordering::AcqRel, Ordering::Relaxed);
            }
        }
    }
}
