//! Content that leaves on request.

use super::contract::Forgetful;
use super::counted::possible;
use super::error::ForgetError;
use super::index::{Glance, Index};
use super::policy::Policy;
use super::slot::{LEAVING, Slot, VALID};

impl<S: AsRef<[Slot]> + AsMut<[Slot]>, I: Index, P: Policy> Forgetful<S, I, P> {
    /// Empties the slot of idle content, and says whether there was any.
    ///
    /// # Errors
    /// [`ForgetError`] if the slot is being filled, or in use.
    #[inline]
    pub fn forget(&mut self, data: u64) -> Result<bool, ForgetError> {
        self.working()?;
        match self.index.glance(data) {
            Glance::Here(place, word) => {
                let word = *word;
                // Such content is in the order, and its record has nothing to say against it.
                if possible::<P>() && self.cut.counted(word) == Some(0) {
                    self.pool.forget(self.cut.slot(word));
                    self.index.remove_at(place, data);
                    return Ok(true);
                }
                self.forget_by_record(data)
            }
            Glance::Absent => Ok(false),
            Glance::Further => self.forget_by_record(data),
        }
    }

    #[inline(never)]
    fn forget_by_record(&mut self, data: u64) -> Result<bool, ForgetError> {
        let Some(slot) = self.remembered(data)? else { return Ok(false) };
        if let (references @ 1.., _) = self.seen(slot) {
            return Err(ForgetError::InUse { data, references });
        }
        self.bring_back(slot);
        self.drop_idle(slot, data);
        Ok(true)
    }

    /// [`Forgetful::forget`], but content in use leaves with its last reference, also if further ones are taken
    /// meanwhile.
    ///
    /// # Errors
    /// [`ForgetError`] if the slot is being filled.
    pub fn forget_later(&mut self, data: u64) -> Result<bool, ForgetError> {
        let Some(slot) = self.remembered(data)? else { return Ok(false) };
        self.bring_back(slot);
        if self.pool.at(slot).count == 0 {
            self.drop_idle(slot, data);
        } else {
            self.pool.at_mut(slot).set(LEAVING);
        }
        Ok(true)
    }

    fn remembered(&self, data: u64) -> Result<Option<u32>, ForgetError> {
        self.working()?;
        match self.find(data) {
            Some(slot) if !self.pool.at(slot).is(VALID) => Err(ForgetError::NotRemembered { data }),
            found => Ok(found),
        }
    }

    fn drop_idle(&mut self, slot: u32, data: u64) {
        self.pool.forget(slot);
        self.index.remove(data);
    }
}
