//! One data at a time: allocate, fill, free, forget.

use super::runs::Run;
use super::{CachedMemory, Found, Index, Lend, Place, PlaceError};
use crate::cache::slot::{ABANDONED, LEAVING, Slot, VALID};
use crate::cache::{FillError, ForgetError, FreeError};
use crate::memory::{AllocError, Block};

impl<B, S, R, T, W, I> CachedMemory<B, S, R, T, W, I>
where
    B: Lend<Block>,
    S: Lend<Slot>,
    R: Lend<Run>,
    T: Lend<u32>,
    W: Lend<u64>,
    I: Index,
{
    /// Takes a reference to the place of `data`, which gets one of `len` bytes now if it had none.
    ///
    /// # Errors
    /// [`PlaceError`]; [`PlaceError::Blocked`] is where a caller takes a turn and waits for a `free`.
    pub fn alloc(&mut self, data: u64, len: u64) -> Result<Place, PlaceError> {
        self.working()?;
        let granules = self.length(data, len)?;
        if let Some(at) = self.find(data) {
            self.check_hit(at, granules, len, 1)?;
            if self.slot(at).count == 0 {
                self.pin(at);
            }
            return Ok(self.join(at));
        }
        self.index.admits(data)?;
        if !self.line.may_go(None) {
            return Err(PlaceError::OthersWait);
        }
        if self.places == self.most_places && self.idle.len == 0 {
            self.statistics.cache.refused += 1;
            return Err(PlaceError::NoPlace { places: self.most_places });
        }
        let (hole, full) = (self.space.memory().find(granules), self.places == self.most_places);
        let free = match hole {
            Some(_) if !full => hole,
            _ => self.make_room(granules, full),
        };
        match free.and_then(|free| self.enter(free, granules, data)) {
            Some(at) => Ok(self.fresh(at)),
            None => {
                self.statistics.cache.refused += 1;
                Err(self.blocked(granules))
            }
        }
    }

    /// A free range for data that is new, if any content can leave for it; else nothing has changed.
    fn make_room(&mut self, granules: u32, full: bool) -> Option<u32> {
        self.begin();
        if full {
            if self.space.memory().find(granules).is_none() {
                self.run_of(granules)?;
            }
            if let Some(oldest) = self.oldest() {
                self.evict(oldest);
            }
        }
        // With room for a place, it was seen before that no range is free.
        let hole = if full { self.space.memory().find(granules) } else { None };
        let free = hole.or_else(|| self.clear(granules));
        self.end();
        free
    }

    /// The length of a request in granules.
    pub(super) fn length(&self, data: u64, len: u64) -> Result<u32, PlaceError> {
        self.space.memory().granules(len).map_err(|error| match error {
            AllocError::ZeroSize => PlaceError::ZeroSize { data },
            _ => PlaceError::TooLarge { need: len, capacity: self.space.memory().capacity_bytes() },
        })
    }

    pub(super) fn blocked(&self, granules: u32) -> PlaceError {
        PlaceError::Blocked { need: self.bytes(granules), longest: self.longest_run() }
    }

    /// Whether so many more references to a place can be given for this length.
    pub(super) fn check_hit(&self, at: u32, granules: u32, len: u64, more: u32) -> Result<(), PlaceError> {
        let (data, have) = (self.slot(at).data, self.space.tile(at).len);
        if have != granules {
            return Err(PlaceError::SizeMismatch { data, len, have: self.bytes(have) });
        }
        match self.slot(at).count.checked_add(more) {
            Some(_) => Ok(()),
            None => Err(PlaceError::TooManyReferences { data }),
        }
    }

    /// A further reference to a place, which is in no run any more.
    pub(super) fn join(&mut self, at: u32) -> Place {
        if self.slot(at).is_idle() {
            self.idle.unlink(self.slots.as_mut(), at);
        }
        let slot = &mut self.slots.as_mut()[at as usize];
        slot.count += 1;
        let (references, statistics) = (slot.count, &mut self.statistics.cache);
        let found = if slot.is(VALID) {
            statistics.hits += 1;
            Found::Remembered
        } else if slot.is(ABANDONED) {
            slot.clear(ABANDONED);
            statistics.loads += 1;
            Found::Empty
        } else {
            statistics.joins += 1;
            Found::Assigned
        };
        Place { offset: self.bytes(self.space.tile(at).start), found, references }
    }

    /// Gives `data` a place at the lower end of a free range, with one reference.
    pub(super) fn enter(&mut self, free: u32, granules: u32, data: u64) -> Option<u32> {
        let at = self.space.take_at(free, granules)?.block.index();
        *self.slot_mut(at) = Slot::assigned(data);
        self.index.enter(data, at);
        self.places += 1;
        self.pin(at);
        Some(at)
    }

    /// Tells the first client of a place about it.
    pub(super) fn fresh(&mut self, at: u32) -> Place {
        self.statistics.cache.loads += 1;
        Place { offset: self.bytes(self.space.tile(at).start), found: Found::Empty, references: 1 }
    }

    /// Gives a reference back. Without content, or with content that shall leave, the last one frees the place.
    ///
    /// # Errors
    /// [`FreeError`] if there is no reference.
    pub fn free(&mut self, data: u64) -> Result<(), FreeError> {
        self.free_until(data, 0)
    }

    /// [`free`](Self::free) of data that is wanted again after about so many further calls of `free`: content that is
    /// wanted late leaves first.
    ///
    /// # Errors
    /// [`FreeError`] if there is no reference.
    pub fn free_wanted_in(&mut self, data: u64, frees: u64) -> Result<(), FreeError> {
        let wanted = self.clock.saturating_add(1).saturating_add(frees);
        self.free_until(data, wanted)
    }

    fn free_until(&mut self, data: u64, wanted: u64) -> Result<(), FreeError> {
        self.working()?;
        let at = self.find(data).ok_or(FreeError::NotAssigned { data })?;
        let slot = self.slot_mut(at);
        slot.count = slot.count.checked_sub(1).ok_or(FreeError::NotInUse { data })?;
        let (in_use, stays) = (slot.count > 0, slot.is(VALID) && !slot.is(LEAVING));
        self.clock += 1;
        if in_use {
            return Ok(());
        }
        self.unpin(at);
        if stays {
            let clock = self.clock;
            let run = self.run_mut(at);
            (run.freed, run.wanted) = (clock, wanted);
            self.idle.push(self.slots.as_mut(), at);
        } else {
            self.vacate(at);
        }
        Ok(())
    }

    /// The client that found the place empty has filled it: its content outlives the references.
    ///
    /// # Errors
    /// [`FillError`] if the data has no place any more, or if somebody filled it before.
    pub fn remember(&mut self, data: u64) -> Result<(), FillError> {
        let at = self.filling(data)?;
        let slot = self.slot_mut(at);
        slot.set(VALID);
        slot.clear(ABANDONED);
        Ok(())
    }

    /// The client that found the place empty gives up, and frees its reference as usual: the next `alloc` finds the
    /// place empty, also while others still hold references.
    ///
    /// # Errors
    /// [`FillError`] if the data has no place any more, or if it was filled.
    pub fn abandon(&mut self, data: u64) -> Result<(), FillError> {
        let at = self.filling(data)?;
        self.slot_mut(at).set(ABANDONED);
        Ok(())
    }

    /// Tells an interrupted memory that nobody writes to the place of `data` any more; whether it was an outstanding fill.
    pub fn settle(&mut self, data: u64) -> bool {
        let Some(at) = self.find(data).filter(|_| self.interrupted) else { return false };
        let filling = self.slot(at).is_filling();
        if filling {
            self.slot_mut(at).set(ABANDONED);
        }
        filling
    }

    fn filling(&self, data: u64) -> Result<u32, FillError> {
        self.working()?;
        let at = self.find(data).ok_or(FillError::NotAssigned { data })?;
        if self.slot(at).is(VALID) { Err(FillError::AlreadyRemembered { data }) } else { Ok(at) }
    }

    /// Frees the place of idle content, and says whether there was any.
    ///
    /// # Errors
    /// [`ForgetError`] if the place is being filled, or in use.
    pub fn forget(&mut self, data: u64) -> Result<bool, ForgetError> {
        match self.remembered(data)? {
            None => Ok(false),
            Some((_, references)) if references > 0 => Err(ForgetError::InUse { data, references }),
            Some((at, _)) => {
                self.drop_idle(at);
                self.statistics.cache.forgotten += 1;
                Ok(true)
            }
        }
    }

    /// [`forget`](Self::forget), but content in use leaves with its last reference, also if further ones are taken
    /// meanwhile.
    ///
    /// # Errors
    /// [`ForgetError`] if the place is being filled.
    pub fn forget_later(&mut self, data: u64) -> Result<bool, ForgetError> {
        match self.remembered(data)? {
            Some((at, references)) if references > 0 => {
                self.slot_mut(at).set(LEAVING);
                Ok(true)
            }
            _ => self.forget(data),
        }
    }

    /// The place of content, and its references.
    fn remembered(&self, data: u64) -> Result<Option<(u32, u32)>, ForgetError> {
        self.working()?;
        match self.find(data).map(|at| (at, self.slot(at))) {
            Some((_, slot)) if !slot.is(VALID) => Err(ForgetError::NotRemembered { data }),
            found => Ok(found.map(|(at, slot)| (at, slot.count))),
        }
    }
}
