//! The cache itself, and which of its operations each contract has.

use core::marker::PhantomData;
use core::ops::Range;

use super::counted::{Cut, shift};
use super::error::{AllocError, BuildError, FillError, FreeError, Interrupted, ResetError};
use super::grant::{Grant, Pin, State, Statistics};
use super::index::{Glance, Index};
use super::policy::{Never, Next, NextUse, Policy};
use super::pool::Pool;
use super::slot::{ABANDONED, Slot, VALID};

/// Alloc and free.
#[derive(Clone, Copy, Debug)]
pub enum Plain {}
/// And remember.
#[derive(Clone, Copy, Debug)]
pub enum Remembering {}
/// And forget.
#[derive(Clone, Copy, Debug)]
pub enum Forgetting {}

/// Contracts that have `remember`.
pub trait Remembers: sealed::Sealed {}
impl Remembers for Remembering {}
impl Remembers for Forgetting {}
mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Remembering {}
    impl Sealed for super::Forgetting {}
}

/// A slot for each data id that is in use; content is gone with the last reference.
pub type Stack<S, I> = SlotCache<S, I, Never, Plain>;
/// Remembers content beyond the last reference, until its slot is needed.
pub type Cache<S, I, P> = SlotCache<S, I, P, Remembering>;
/// And forgets content on request, so that its slot is used before any other content leaves.
pub type Forgetful<S, I, P> = SlotCache<S, I, P, Forgetting>;

/// One implementation of all contracts; use it by the names [`Stack`], [`Cache`] and [`Forgetful`].
#[derive(Clone, Debug)]
pub struct SlotCache<S, I, P, C> {
    pub(super) pool: Pool<S, P>,
    pub(super) index: I,
    /// References of one data id at most.
    pub(super) most: u32,
    pub(super) cut: Cut,
    interrupted: bool,
    /// Resets; a pin of an earlier life is not valid.
    epoch: u32,
    contract: PhantomData<C>,
}

impl<S: AsRef<[Slot]> + AsMut<[Slot]>, I: Index> Stack<S, I> {
    /// An empty cache that hands out the slots of the range, whatever the lent records held before.
    ///
    /// # Errors
    /// [`BuildError`] if the range is empty, or if too little was lent for it.
    pub fn stack(slots: S, index: I, range: Range<u32>) -> Result<Self, BuildError> {
        Self::new(slots, index, Never, range)
    }
}

impl<S: AsRef<[Slot]> + AsMut<[Slot]>, I: Index, P: Policy, C> SlotCache<S, I, P, C> {
    /// An empty cache that hands out the slots of the range, whatever the lent records held before.
    ///
    /// # Errors
    /// [`BuildError`] if the range is empty, or if too little was lent for it.
    pub fn new(slots: S, mut index: I, policy: P, range: Range<u32>) -> Result<Self, BuildError> {
        let pool = Pool::new(slots, policy, range)?;
        let (need, have) = (pool.count() as usize, index.room().min(index.numbers()));
        if have < need {
            return Err(BuildError::IndexTooSmall { need, have });
        }
        index.clear();
        index.numbers_from(shift(pool.count()));
        let cut = Cut::new(index.shift(), u32::MAX);
        Ok(SlotCache { pool, index, most: u32::MAX, cut, interrupted: false, epoch: 0, contract: PhantomData })
    }

    /// The same cache with at most this many references of one data id; 0 means 1, with which each is had once at a time.
    #[must_use]
    pub fn with_most_references(self, most: u32) -> Self {
        let most = most.max(1);
        SlotCache { most, cut: Cut::new(self.index.shift(), most), ..self }
    }

    #[inline]
    pub(super) fn working(&self) -> Result<(), Interrupted> {
        if self.interrupted { Err(Interrupted) } else { Ok(()) }
    }

    #[inline]
    pub(super) fn find(&self, data: u64) -> Option<u32> {
        self.look(data).map(|(_, word)| self.index.number(word))
    }

    /// Where the word of `data` stands in the index, and the word.
    #[inline]
    pub(super) fn look(&self, data: u64) -> Option<(usize, u32)> {
        self.index.look(data)
    }

    /// [`SlotCache::alloc`], with the reference as a value.
    ///
    /// # Errors
    /// [`AllocError`].
    pub fn pin(&mut self, data: u64) -> Result<(Pin, Grant), AllocError> {
        let grant = self.alloc(data)?;
        Ok((Pin { data, slot: grant.slot, epoch: self.epoch }, grant))
    }

    /// Gives the reference back.
    ///
    /// # Errors
    /// [`FreeError`] if the cache was interrupted or reset since. A pin of another cache is not told apart if the same
    /// data has the same slot there.
    #[inline]
    pub fn free_pin(&mut self, pin: Pin) -> Result<(), FreeError> {
        self.working()?;
        let Pin { data, slot, epoch } = pin;
        let found = match self.index.glance_again(data) {
            Glance::Here(place, word) => Some((place, *word)),
            Glance::Absent => None,
            Glance::Further => self.index.seek(data),
        };
        match found {
            // The record knows it as well, but would be waited for.
            Some((place, word)) if epoch == self.epoch && self.pool.outer(self.index.number(word)) == slot => {
                self.give_back(place, word, data, Next::Unknown)
            }
            _ => Err(FreeError::NotAssigned { data }),
        }
    }

    /// The slot of a pin, if the cache has not been reset since.
    fn pinned(&self, pin: &Pin) -> Option<u32> {
        let slot = self.pool.inner(pin.slot).filter(|_| pin.epoch == self.epoch)?;
        Some(slot).filter(|&slot| self.pool.is_of(slot, pin.data))
    }

    /// Nobody fills the slot of a pin any more.
    pub(super) fn abandon_pin(&mut self, pin: &Pin) -> Result<(), FillError> {
        let slot = self.filling_of(pin)?;
        self.pool.at_mut(slot).set(ABANDONED);
        Ok(())
    }

    fn filling_of(&self, pin: &Pin) -> Result<u32, FillError> {
        self.working()?;
        let slot = self.pinned(pin).ok_or(FillError::NotAssigned { data: pin.data })?;
        if self.pool.at(slot).is(VALID) { Err(FillError::AlreadyRemembered { data: pin.data }) } else { Ok(slot) }
    }

    /// What the slot of `data` is doing; `None` if it has none.
    ///
    /// # Errors
    /// [`Interrupted`].
    pub fn state(&self, data: u64) -> Result<Option<State>, Interrupted> {
        self.working()?;
        Ok(self.find(data).map(|slot| self.seen(slot).1))
    }

    /// References to `data`.
    ///
    /// # Errors
    /// [`Interrupted`].
    pub fn references(&self, data: u64) -> Result<u32, Interrupted> {
        self.working()?;
        Ok(self.find(data).map_or(0, |slot| self.seen(slot).0))
    }

    /// Slots that are assigned, with or without references.
    ///
    /// # Errors
    /// [`Interrupted`].
    pub fn len(&self) -> Result<u32, Interrupted> {
        self.working().map(|()| self.pool.assigned())
    }

    /// Whether no slot is assigned.
    ///
    /// # Errors
    /// [`Interrupted`].
    pub fn is_empty(&self) -> Result<bool, Interrupted> {
        Ok(self.len()? == 0)
    }

    /// Slots whose content may be given up.
    ///
    /// # Errors
    /// [`Interrupted`].
    pub fn idle(&self) -> Result<u32, Interrupted> {
        self.working().map(|()| self.pool.idle())
    }

    /// Whether an `alloc` of new data would find a slot.
    ///
    /// # Errors
    /// [`Interrupted`].
    pub fn has_room(&self) -> Result<bool, Interrupted> {
        self.working().map(|()| self.pool.has_room())
    }

    /// Slots that there are.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        self.pool.count()
    }

    /// What happened so far; also after an interrupt.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.pool.statistics
    }

    /// From now on every operation fails with `Interrupted` and has no effect. A second interrupt changes nothing.
    pub fn interrupt(&mut self) {
        self.interrupted = true;
    }

    /// Whether the cache was interrupted.
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        self.interrupted
    }

    /// Slots without content that somebody may still be writing to, with their data; O(slots). Their memory must not
    /// be given to anybody else, not even after an interrupt.
    pub fn outstanding_fills(&self) -> impl Iterator<Item = (u32, u64)> {
        let filling = self.pool.all().filter(|(_, slot)| slot.is_filling());
        filling.map(|(slot, record)| (self.pool.outer(slot), record.data))
    }

    /// Tells an interrupted cache that nobody writes to this slot any more; whether it was an outstanding fill.
    pub fn settle(&mut self, slot: u32) -> bool {
        let Some(slot) = self.pool.inner(slot).filter(|_| self.interrupted) else { return false };
        let filling = self.pool.at(slot).is_filling();
        self.pool.at_mut(slot).set(ABANDONED);
        filling
    }

    /// Makes an interrupted cache ready again, and empty. Pins of before are not valid any more. It does not wait for those
    /// who read content that they got before the interrupt: reset once nobody does.
    ///
    /// # Errors
    /// [`ResetError`] if it was not interrupted, or if slots are still being filled.
    pub fn reset(&mut self) -> Result<(), ResetError> {
        if !self.interrupted {
            return Err(ResetError::NotInterrupted);
        }
        if let Some((slot, data)) = self.outstanding_fills().next() {
            return Err(ResetError::Filling { slot, data });
        }
        self.pool.clear();
        self.index.clear();
        self.interrupted = false;
        self.epoch = self.epoch.wrapping_add(1);
        Ok(())
    }
}

impl<S: AsRef<[Slot]> + AsMut<[Slot]>, I: Index, P: Policy, C: Remembers> SlotCache<S, I, P, C> {
    /// The client that found the slot empty has filled it: its content outlives the references.
    ///
    /// # Errors
    /// [`FillError`] if the data has no slot any more, or if somebody filled it before.
    #[inline]
    pub fn remember(&mut self, data: u64) -> Result<(), FillError> {
        let slot = self.filling(data)?;
        self.pool.fill(slot);
        Ok(())
    }

    /// [`SlotCache::remember`] by the client that pinned the slot; not if the cache was reset since.
    ///
    /// # Errors
    /// [`FillError`].
    pub fn remember_pin(&mut self, pin: &Pin) -> Result<(), FillError> {
        let slot = self.filling_of(pin)?;
        self.pool.fill(slot);
        Ok(())
    }

    /// The client that found the slot empty gives up, and frees its reference as usual: the next `alloc` finds the
    /// slot empty, also while others still hold references.
    ///
    /// # Errors
    /// [`FillError`] if the data has no slot any more, or if it was filled.
    pub fn abandon(&mut self, data: u64) -> Result<(), FillError> {
        let slot = self.filling(data)?;
        self.pool.at_mut(slot).set(ABANDONED);
        Ok(())
    }

    fn filling(&self, data: u64) -> Result<u32, FillError> {
        self.working()?;
        let slot = self.find(data).ok_or(FillError::NotAssigned { data })?;
        if self.pool.at(slot).is(VALID) { Err(FillError::AlreadyRemembered { data }) } else { Ok(slot) }
    }
}

impl<S: AsRef<[Slot]> + AsMut<[Slot]>, I: Index, H: AsRef<[u32]> + AsMut<[u32]>, C: Remembers>
    SlotCache<S, I, NextUse<H>, C>
{
    /// [`SlotCache::free`] of data whose next use is known to be at this point.
    ///
    /// # Errors
    /// [`FreeError`] if there is no reference.
    pub fn free_until_used_at(&mut self, data: u64, point: u64) -> Result<(), FreeError> {
        self.free_until(data, Next::At(point))
    }

    /// Moves the present on to this point.
    pub fn now(&mut self, point: u64) {
        self.pool.policy.now(point);
    }
}
