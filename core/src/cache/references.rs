//! References are taken and given back: what happens all the time.
//!
//! What is inlined here calls nothing, so that a hit stays short enough for the processor to overlap it with the next ones.

use super::contract::SlotCache;
use super::counted::{Words, possible};
use super::error::{AllocError, FreeError};
use super::grant::{Found, Grant};
use super::index::{Glance, Index};
use super::policy::{Next, Policy};
use super::slot::Slot;

/// What there is to do if a glance and a word are not enough.
#[derive(Clone, Copy)]
pub(super) enum NoHit {
    /// The record of the slot with this word, which stands at this place, counts the references.
    ByRecord(usize, u32),
    /// The data has no slot.
    Absent,
    /// One has to look further.
    Further,
}

impl<S: AsRef<[Slot]> + AsMut<[Slot]>, I: Index, P: Policy, C> SlotCache<S, I, P, C> {
    /// Takes a reference to the slot of `data`, which is assigned now if it was not: to the slot that became empty
    /// last, else to one never used, else to one whose idle content the policy gives up.
    ///
    /// # Errors
    /// [`AllocError`]; [`AllocError::Full`] is where a blocking caller waits for a `free`.
    #[inline]
    pub fn alloc(&mut self, data: u64) -> Result<Grant, AllocError> {
        self.working()?;
        match self.hit(|index| index.glance_first(data)) {
            Ok(grant) => Ok(grant),
            Err(no_hit) => self.alloc_without_hit(data, no_hit),
        }
    }

    /// A further reference to what this glance finds, if the word can count it.
    // Inlined everywhere: what is granted is then written once, to where the caller wants it.
    #[inline(always)]
    pub(super) fn hit(&mut self, glance: impl FnOnce(&mut I) -> Glance<'_>) -> Result<Grant, NoHit> {
        let shift = self.index.shift();
        match glance(&mut self.index) {
            Glance::Here(place, word) => {
                // Of the word that was found: a search has that number already.
                let slot = word.wrapping_shr(shift);
                if possible::<P>()
                    && let Some((more, references)) = self.cut.joined::<P>(*word)
                {
                    *word = more;
                    return Ok(self.note_join(place, slot, references));
                }
                Err(NoHit::ByRecord(place, *word))
            }
            Glance::Absent => Err(NoHit::Absent),
            Glance::Further => Err(NoHit::Further),
        }
    }

    #[inline]
    pub(super) fn alloc_without_hit(&mut self, data: u64, no_hit: NoHit) -> Result<Grant, AllocError> {
        match no_hit {
            NoHit::ByRecord(place, word) => self.join_by_record(place, word),
            NoHit::Absent => self.assign(data),
            NoHit::Further => self.alloc_further(data),
        }
    }

    #[inline(never)]
    fn alloc_further(&mut self, data: u64) -> Result<Grant, AllocError> {
        match self.index.seek(data) {
            Some((place, word)) => self.join(place, word),
            None => self.assign(data),
        }
    }

    /// A further reference to an assigned slot, which the word can't count.
    // Short for those who come while it is being filled.
    #[inline(never)]
    pub(super) fn join_by_record(&mut self, place: usize, word: u32) -> Result<Grant, AllocError> {
        let slot = self.index.number(word);
        match self.pool.join_filling(slot, self.most) {
            Some(references) => Ok(Grant::new(self.pool.outer(slot), Found::Assigned, references).at(place)),
            None => self.join_filled(place, word),
        }
    }

    #[inline(never)]
    fn join_filled(&mut self, place: usize, word: u32) -> Result<Grant, AllocError> {
        let slot = self.index.number(word);
        if self.cut.counted(word).is_some_and(|references| references >= self.most) {
            return self.too_many(slot);
        }
        self.bring_back(slot);
        match self.pool.join(slot, self.most) {
            Some((found, references)) => Ok(Grant::new(self.pool.outer(slot), found, references).at(place)),
            None => self.too_many(slot),
        }
    }

    #[cold]
    fn too_many(&self, slot: u32) -> Result<Grant, AllocError> {
        Err(AllocError::TooManyReferences { data: self.pool.at(slot).data, most: self.most })
    }

    #[inline(never)]
    fn assign(&mut self, data: u64) -> Result<Grant, AllocError> {
        self.index.admits(data)?;
        let cut = self.cut;
        let mut words = Words::<I, P>::new(cut, &mut self.index);
        let taken = self.pool.take(data, &mut words);
        let seen_last = words.last;
        let Some((slot, evicted)) = taken else {
            self.pool.statistics.refused += 1;
            return Err(AllocError::Full { slots: self.pool.count() });
        };
        match (evicted, seen_last) {
            (Some(evicted), Some(place)) => self.index.remove_at(place, evicted),
            (Some(evicted), None) => self.index.remove(evicted),
            (None, _) => {}
        }
        let place = self.index.enter(data, self.index.word(slot));
        self.pool.statistics.loads += 1;
        Ok(Grant::new(self.pool.outer(slot), Found::Empty, 1).at(place))
    }

    /// Gives a reference back. Without content, or with content that shall leave, the last one empties the slot.
    ///
    /// # Errors
    /// [`FreeError`] if there is no reference.
    #[inline]
    pub fn free(&mut self, data: u64) -> Result<(), FreeError> {
        self.free_until(data, Next::Unknown)
    }

    #[inline]
    pub(super) fn free_until(&mut self, data: u64, next: Next) -> Result<(), FreeError> {
        self.working()?;
        self.free_where(data, next, |index| index.glance_again(data))
    }

    /// [`SlotCache::free_until`] of data that this glance is for.
    #[inline(always)]
    pub(super) fn free_where(
        &mut self,
        data: u64,
        next: Next,
        glance: impl FnOnce(&mut I) -> Glance<'_>,
    ) -> Result<(), FreeError> {
        let shift = self.index.shift();
        match glance(&mut self.index) {
            Glance::Here(place, word) => {
                let slot = word.wrapping_shr(shift);
                if possible::<P>()
                    && let Some((less, last)) = self.cut.released(*word)
                {
                    *word = less;
                    self.pool.note_free(slot, last);
                    return Ok(());
                }
                let word = *word;
                self.give_back_by_record(place, word, data, next)
            }
            Glance::Absent => Err(FreeError::NotAssigned { data }),
            Glance::Further => self.free_further(data, next),
        }
    }

    #[inline(never)]
    fn free_further(&mut self, data: u64, next: Next) -> Result<(), FreeError> {
        let (place, word) = self.index.seek(data).ok_or(FreeError::NotAssigned { data })?;
        self.give_back(place, word, data, next)
    }

    /// Gives a reference back, if there is one, that the word does not count.
    #[inline(never)]
    pub(super) fn give_back_by_record(
        &mut self,
        place: usize,
        word: u32,
        data: u64,
        next: Next,
    ) -> Result<(), FreeError> {
        // What the word counts it can count down, unless there are none.
        let slot = self.index.number(word);
        if self.pool.at(slot).count == 0 {
            return Err(FreeError::NotInUse { data });
        }
        match self.pool.release(slot, next) {
            Some(dropped) => self.index.remove(dropped),
            None => self.count_in_word(place, slot),
        }
        Ok(())
    }
}
