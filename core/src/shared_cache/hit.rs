//! References are taken and given back: what happens all the time.
//!
//! What is inlined here calls nothing and knows only content that is there and stays. Everything else, and whatever came
//! between, is dealt with behind a call: the shorter a hit, the earlier the processor begins to fetch what the next ones
//! need, which is nearly all that they take.

use super::chain::Met;
use super::client::{Client, Joined};
use super::error::{AllocError, FreeError};
use super::grant::{Grant, Pin};
use super::layout::Contract;
use super::word::Word;
use crate::atomic::Ordering;
use crate::cache::Found;

impl<'a, C: Contract> Client<'a, C> {
    /// Takes a reference to the slot of `data`, which is assigned now if it was not: to an empty slot, else to one
    /// whose idle content is not used any more.
    ///
    /// # Errors
    /// [`AllocError`]; [`AllocError::Full`] is where a blocking caller waits for a `free`.
    #[inline]
    pub fn alloc(&self, data: u64) -> Result<Grant, AllocError> {
        self.alloc_at(data, self.parts.glance(data))
    }

    /// [`Client::alloc`] of data whose slot may be the one at which a glance found it.
    #[inline]
    pub(super) fn alloc_at(&self, data: u64, glanced: Option<Met<'a>>) -> Result<Grant, AllocError> {
        self.working()?;
        let grant = match glanced.and_then(|met| self.hit(met, data)) {
            Some(grant) => grant,
            None => self.alloc_without_hit(data, glanced)?,
        };
        Ok(grant)
    }

    /// A reference to the content of this slot, if it is that of `data` and the field has room.
    // Inlined everywhere, and nothing called here returns a grant: so what is granted need not go through memory, where the
    // processor would wait for it.
    #[inline(always)]
    fn hit(&self, met: Met<'a>, data: u64) -> Option<Grant> {
        let word = Word::of_slot(met.word);
        let next = word.hit(self.field)?;
        word.replace(met.word, next).ok()?;
        // With the reference the slot keeps its data: so now it is certain whose it is.
        if met.key.load(Ordering::Acquire) != data {
            self.give_up(met.slot);
            return None;
        }
        let (mine, generation) = (next.count(self.field), next.generation());
        Some(Grant { slot: met.slot, found: Found::Remembered, mine, generation })
    }

    /// The reference was one to other data.
    #[cold]
    fn give_up(&self, slot: u32) {
        let _ = self.release(slot, |_| true);
    }

    #[inline(never)]
    fn alloc_without_hit(&self, data: u64, glanced: Option<Met<'a>>) -> Result<Grant, AllocError> {
        if let Some(Met { slot, .. }) = glanced
            && let Joined::Granted(grant) = self.join(slot, data)
        {
            return Ok(grant);
        }
        self.alloc_alone(self.parts.bucket(data), data)
    }

    /// Gives a reference back. Without content, or with content that shall leave, the last one empties the slot.
    ///
    /// # Errors
    /// [`FreeError`] if this process has no reference.
    #[inline]
    pub fn free(&self, data: u64) -> Result<(), FreeError> {
        self.free_at(data, self.parts.glance(data))
    }

    /// [`Client::free`] of data whose slot may be the one at which a glance found it.
    #[inline]
    pub(super) fn free_at(&self, data: u64, glanced: Option<Met<'a>>) -> Result<(), FreeError> {
        self.working()?;
        match glanced.and_then(|met| self.give_back(met, data, |_| true)) {
            Some(()) => Ok(()),
            None => self.free_further(data, glanced),
        }
    }

    /// Gives back a reference to content that stays, of a slot that has this data, and a word of which `is` holds.
    #[inline(always)]
    fn give_back(&self, met: Met<'a>, data: u64, is: impl Fn(Word) -> bool) -> Option<()> {
        let word = Word::of_slot(met.word);
        let next = word.given_back(self.field)?;
        // The data behind the word: with a reference of this process the slot keeps it.
        if met.key.load(Ordering::Acquire) != data || !is(word) {
            return None;
        }
        word.replace(met.word, next).ok()
    }

    #[inline(never)]
    fn free_further(&self, data: u64, glanced: Option<Met<'a>>) -> Result<(), FreeError> {
        let release = |slot: u32| self.release(slot, |_| self.parts.key(slot) == Some(data));
        if glanced.is_some_and(|met| release(met.slot)) {
            return Ok(());
        }
        let (slot, _) = self.find(data)?.ok_or(FreeError::NotAssigned { data })?;
        if release(slot) { Ok(()) } else { Err(FreeError::NotInUse { data }) }
    }

    /// [`Client::alloc`], with the reference as a value.
    ///
    /// # Errors
    /// [`AllocError`].
    #[inline]
    pub fn pin(&self, data: u64) -> Result<Pin, AllocError> {
        Ok(Pin { data, grant: self.alloc(data)? })
    }

    /// Gives the reference back, without looking for the data.
    ///
    /// # Errors
    /// [`FreeError`] if the cache was interrupted. A pin of another cache is refused too, unless this one has the same
    /// data in the same slot, assigned as often as there, and this process refers to it.
    #[inline]
    pub fn free_pin(&self, pin: Pin) -> Result<(), FreeError> {
        self.working()?;
        let Pin { data, grant: Grant { slot, generation, .. } } = pin;
        let is = |word: Word| word.generation() == generation;
        let met = self.parts.slots.get(slot as usize).map(|[word, key]| Met { slot, word, key });
        match met.and_then(|met| self.give_back(met, data, is)) {
            Some(()) => Ok(()),
            None => self.free_pin_further(slot, data, is),
        }
    }

    #[inline(never)]
    fn free_pin_further(&self, slot: u32, data: u64, is: impl Fn(Word) -> bool) -> Result<(), FreeError> {
        if self.release(slot, |word| is(word) && self.parts.key(slot) == Some(data)) {
            Ok(())
        } else {
            Err(FreeError::NotAssigned { data })
        }
    }
}
