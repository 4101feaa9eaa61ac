//! What only some contracts have: remember, and forget.

use crate::cache::{Forgetting, Remembers};

use super::client::Client;
use super::error::{FillError, ForgetError};
use super::layout::Contract;
use super::word::{ABANDONED, FILLING, VALID, Word};

impl<C: Contract + Remembers> Client<'_, C> {
    /// The client that found the slot empty has filled it: its content outlives the references, and what was written
    /// before is seen by whoever finds it remembered.
    ///
    /// # Errors
    /// [`FillError`] if the data has no slot any more, or if somebody filled it before.
    #[inline]
    pub fn remember(&self, data: u64) -> Result<(), FillError> {
        self.end_fill(data, Word::filled)
    }

    /// The client that found the slot empty gives up, and frees its reference as usual: the next `alloc` finds the
    /// slot empty, also while others still hold references.
    ///
    /// # Errors
    /// [`FillError`] if the data has no slot any more, or if it was filled.
    pub fn abandon(&self, data: u64) -> Result<(), FillError> {
        self.end_fill(data, Word::abandoned)
    }

    fn end_fill(&self, data: u64, end: impl Fn(Word) -> Word) -> Result<(), FillError> {
        self.working()?;
        let (place, _) = self.find(data)?.ok_or(FillError::NotAssigned { data })?;
        let is_filling = |word: Word| matches!(word.state(), FILLING | ABANDONED) && word.is_referred();
        match self.change(place, |word| (is_filling(word) && place.has(data)).then(|| end(word))) {
            Ok(_) => Ok(()),
            Err(Some(word)) if word.state() == VALID => Err(FillError::AlreadyRemembered { data }),
            Err(_) => Err(FillError::NotAssigned { data }),
        }
    }
}

impl Client<'_, Forgetting> {
    /// Empties the slot of idle content, and says whether there was any.
    ///
    /// # Errors
    /// [`ForgetError`] if the slot is being filled, or in use.
    pub fn forget(&self, data: u64) -> Result<bool, ForgetError> {
        self.forget_if(data, Word::is_idle)
    }

    /// [`Client::forget`], but content in use leaves with its last reference, also if further ones are taken
    /// meanwhile.
    ///
    /// # Errors
    /// [`ForgetError`] if the slot is being filled.
    pub fn forget_later(&self, data: u64) -> Result<bool, ForgetError> {
        self.forget_if(data, |_| true)
    }

    fn forget_if(&self, data: u64, may: impl Fn(Word) -> bool) -> Result<bool, ForgetError> {
        self.working()?;
        let Some((place, _)) = self.find(data)? else { return Ok(false) };
        let change = |word: Word| {
            let is_it = word.state() == VALID && may(word) && place.has(data);
            is_it.then(|| word.leaving())
        };
        match self.change(place, change) {
            Ok(word) => {
                if word.leaving().is_vacant() {
                    self.parts.vacancy.set(place.number);
                }
                Ok(true)
            }
            Err(Some(word)) if !place.has(data) || word.is_free() => Ok(false),
            Err(Some(word)) if word.state() == VALID => {
                Err(ForgetError::InUse { data, references: word.references(self.parts.sharing.bits()) })
            }
            Err(Some(word)) if matches!(word.state(), FILLING | ABANDONED) => Err(ForgetError::NotRemembered { data }),
            Err(_) => Ok(false),
        }
    }
}
