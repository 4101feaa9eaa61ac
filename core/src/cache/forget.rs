//! Content that leaves on request.

use super::contract::Forgetful;
use super::counted::{Cut, possible};
use super::error::ForgetError;
use super::index::Index;
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
        let cut = self.cut;
        match self.index.pick(data, |word| is_idle::<P>(cut, word)) {
            Some(word) => {
                self.pool.forget(self.index.number(word));
                Ok(true)
            }
            None => self.forget_further(data),
        }
    }

    // The shortest case calls nothing before its stores: what a call saves is read again after them, and a processor that does
    // not know yet where they go may let the next operations wait for that.
    #[inline(never)]
    fn forget_further(&mut self, data: u64) -> Result<bool, ForgetError> {
        let Some((place, word)) = self.look(data) else { return Ok(false) };
        if is_idle::<P>(self.cut, word) {
            self.pool.forget(self.index.number(word));
            self.index.remove_at(place, data);
            return Ok(true);
        }
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

/// Whether the word counts, and counts no references: such content is in the order, and its record has nothing to say against
/// its leaving.
#[inline]
fn is_idle<P: Policy>(cut: Cut, word: u32) -> bool {
    possible::<P>() && cut.is_idle(word)
}
