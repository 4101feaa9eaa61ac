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
        match self.change(place, |word| (is_filling(word) && place.has(data)).then(|| end(word)))? {
            Ok(_) => {
                self.parts.queue.tell(self.parts.home(data).line);
                Ok(())
            }
            Err(word) if word.state() == VALID => Err(FillError::AlreadyRemembered { data }),
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
        match self.change(place, change)? {
            Ok(word) => {
                if word.leaving().is_vacant() {
                    self.parts.vacancy.set(place.number());
                }
                Ok(true)
            }
            Err(word) if !place.has(data) || word.is_free() => Ok(false),
            Err(word) if word.state() == VALID => {
                Err(ForgetError::InUse { data, references: word.references(self.parts.sharing.bits()) })
            }
            Err(word) if matches!(word.state(), FILLING | ABANDONED) => Err(ForgetError::NotRemembered { data }),
            Err(_) => Ok(false),
        }
    }
}

#[cfg(all(test, not(loom)))]
#[allow(clippy::unwrap_used, reason = "helpers of tests")]
mod tests {
    use super::super::client::Manners;
    use super::super::layout::tests::memory;
    use super::super::{AllocError, Blocked, Forgetful, FreeError, Identity, Sharing};
    use super::*;
    use crate::cache::State;
    use std::cell::Cell;

    #[test]
    fn who_waits_for_content_is_told_when_the_last_reference_to_an_unfilled_slot_goes() {
        let sharing = Sharing::new(2, 3).unwrap();
        let words = memory(2, sharing);
        let cache = Forgetful::create(&words, 2, sharing, 7).unwrap();
        let [a, b] = [1, 2].map(|pid| cache.join(Identity::new(pid, 0)).unwrap());
        let told = |give_back: &mut dyn FnMut()| {
            let event = b.fill_event(5);
            let seen = event.announce();
            give_back();
            event.word().load(crate::atomic::Ordering::Relaxed) as u32 != seen
        };
        a.alloc(5).unwrap();
        assert_eq!(b.alloc(5).map(|grant| grant.mine), Ok(1));
        assert!(!told(&mut || b.free(5).unwrap()), "the one that fills has its reference still");
        assert!(told(&mut || a.free(5).unwrap()));
        assert_eq!(b.state(5), Ok(None));

        let mut pin = Some(a.pin(5).unwrap());
        assert!(told(&mut || a.free_pin(pin.take().unwrap()).unwrap()));

        a.alloc(5).unwrap();
        a.remember(5).unwrap();
        assert!(!told(&mut || a.free(5).unwrap()), "content that is there is awaited by nobody");
    }

    #[test]
    fn who_is_overtaken_each_time_is_told_so_and_may_try_again() {
        let sharing = Sharing::new(2, 3).unwrap();
        let words = memory(2, sharing);
        let cache = Forgetful::create(&words, 2, sharing, 7).unwrap();
        let [a, b] = [1, 2].map(|pid| cache.join(Identity::new(pid, 0)).unwrap());
        let has = Cell::new(false);
        // Another process changes the word each time that this one has looked at it.
        let overtake = || {
            if has.replace(!has.get()) {
                b.free(5).unwrap()
            } else {
                let _ = b.alloc(5).unwrap();
            }
        };
        let why = Blocked::Busy { owner: u8::MAX };

        a.alloc(5).unwrap();
        let remembered = a.end_fill(5, |word| {
            overtake();
            word.filled()
        });
        assert_eq!((remembered, a.state(5)), (Err(FillError::Blocked { why }), Ok(Some(State::Filling))));
        assert_eq!(a.remember(5), Ok(()));

        let forgotten = a.forget_if(5, |_| {
            overtake();
            true
        });
        assert_eq!((forgotten, a.state(5)), (Err(ForgetError::Blocked { why }), Ok(Some(State::InUse))));

        let (place, _) = a.find(5).unwrap().unwrap();
        let released = a.release(place, |_| {
            overtake();
            true
        });
        assert_eq!((released.map_err(FreeError::from), a.references(5)), (Err(FreeError::Blocked { why }), Ok(1)));
        assert_eq!((a.free(5), a.references(5)), (Ok(()), Ok(0)));

        let _ = b.alloc(5).unwrap();
        let allocated = a.alloc_alone_beside(5, Manners::Pushes, || {
            overtake();
        });
        assert_eq!((allocated, a.references(5)), (Err(AllocError::Blocked { why }), Ok(1)));
        assert_eq!(a.alloc(5).map(|grant| grant.mine), Ok(1));
    }
}
