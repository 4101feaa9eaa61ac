//! References are taken and given back: what happens all the time.
//!
//! What is inlined here calls nothing and knows only content that is there and stays. Everything else, and whatever came
//! between, is dealt with behind a call: the shorter a hit, the earlier the processor begins to fetch what the next ones
//! need, which is nearly all that they take.

use super::client::{Client, Joined, Manners};
use super::error::{AllocError, FreeError};
use super::grant::{Grant, Packed, Pin, marked};
use super::layout::Contract;
use super::place::Place;
use super::turn::Turn;
use super::word::Word;
use crate::cache::Found;

impl<'a, C: Contract> Client<'a, C> {
    /// Takes a reference to the slot of `data`, which is assigned now if it was not: to an empty slot, else to one
    /// whose idle content is not used any more.
    ///
    /// # Errors
    /// [`AllocError`]; [`AllocError::Full`] is where a blocking caller waits for a `free`.
    #[inline(always)]
    pub fn alloc(&self, data: u64) -> Result<Grant, AllocError> {
        self.alloc_or(data, Manners::Pushes)
    }

    /// As [`alloc`](Self::alloc), but while others [wait](Self::stand) for a slot, data that has none gets none.
    ///
    /// # Errors
    /// [`AllocError`]; [`AllocError::Full`] also because others wait.
    #[inline(always)]
    pub fn alloc_behind(&self, data: u64) -> Result<Grant, AllocError> {
        self.alloc_or(data, Manners::Waits)
    }

    /// As [`alloc`](Self::alloc), for who is the first in line of this cache and stands there for this data: he need not be called
    /// for what he gets by this. Anybody else would push past those who wait.
    ///
    /// # Errors
    /// [`AllocError`].
    #[inline]
    pub fn alloc_in_turn(&self, data: u64, turn: &Turn<'_>) -> Result<Grant, AllocError> {
        self.alloc_or(data, Manners::InTurn(turn.ticket()))
    }

    #[inline(always)]
    fn alloc_or(&self, data: u64, manners: Manners) -> Result<Grant, AllocError> {
        self.working()?;
        let hit = self.parts.at_home(data, |place| self.hit(place, data));
        if let Some(grant) = hit.and_then(|hit| self.granted(data, hit)) {
            return Ok(grant);
        }
        self.alloc_without_hit(data, manners).map(Packed::grant)
    }

    /// A reference to content of this data that stays, if it is here and the field has room.
    #[inline(always)]
    fn hit(&self, place: Place<'a>, data: u64) -> Option<(Place<'a>, Word)> {
        if !place.has(data) {
            return None;
        }
        let word = Word::of_slot(place.word());
        let next = word.hit(self.field)?;
        word.replace(place.word(), next).ok()?;
        Some((place, next))
    }

    /// With the reference the place keeps its data: so now it is certain whose it is.
    // Nothing called here returns a grant: so what is granted need not go through memory, where the processor would wait for it.
    #[inline(always)]
    fn granted(&self, data: u64, (place, word): (Place<'a>, Word)) -> Option<Grant> {
        if place.has(data) {
            let generation = word.generation_staying();
            let grant = Grant { generation, ..self.grant(place, Found::Remembered, word) };
            if grant.slot < self.parts.slots {
                return Some(grant);
            }
        }
        self.give_up(place.mark());
        None
    }

    /// The reference was one to other data. It stays if others are faster each time, as in `confirm`.
    #[cold]
    fn give_up(&self, place: u32) {
        let _ = self.parts.marked(place).map(|place| self.release(place, |_| true));
    }

    #[inline(never)]
    fn alloc_without_hit(&self, data: u64, manners: Manners) -> Result<Packed, AllocError> {
        let hit = self.parts.beyond_home(data, |place| self.hit(place, data));
        if let Some(grant) = hit.and_then(|hit| self.granted(data, hit)) {
            return Ok(Packed::new(grant));
        }
        let joined = self.parts.glance(data).map(|place| self.join(place, data, manners));
        let grant = match joined {
            Some(Joined::Granted(grant)) => grant,
            _ => self.alloc_alone(data, manners)?,
        };
        // Others in line may wait for the same data, and need no slot any more. By now this one is in nobody's way.
        if grant.found == Found::Empty && self.parts.queue.is_awaited() {
            let own = if let Manners::InTurn(ticket) = manners { Some(ticket) } else { None };
            self.parts.queue.call_for(data, own);
        }
        Ok(Packed::new(grant))
    }

    /// Gives a reference back. Without content, or with content that shall leave, the last one empties the slot.
    ///
    /// # Errors
    /// [`FreeError`] if this process has no reference.
    #[inline(always)]
    pub fn free(&self, data: u64) -> Result<(), FreeError> {
        self.working()?;
        match self.parts.at_home(data, |place| self.give_back(place, data, Word::stays)) {
            Some(()) => Ok(()),
            None => self.free_further(data),
        }
    }

    /// Gives back a reference to content of this data, if it is here and `stays`.
    #[inline(always)]
    fn give_back(&self, place: Place<'a>, data: u64, stays: impl Fn(Word) -> bool) -> Option<()> {
        let word = Word::of_slot(place.word());
        // The data behind the word: with a reference of this process the slot keeps it.
        if !stays(word) || !place.has(data) {
            return None;
        }
        let next = word.given_back(self.field)?;
        word.replace(place.word(), next).ok()?;
        self.parts.freed(next);
        Some(())
    }

    #[inline(never)]
    fn free_further(&self, data: u64) -> Result<(), FreeError> {
        if let Some(()) = self.parts.beyond_home(data, |place| self.give_back(place, data, Word::stays)) {
            return Ok(());
        }
        let (place, _) = self.find(data)?.ok_or(FreeError::NotAssigned { data })?;
        if self.release(place, |_| place.has(data))? { Ok(()) } else { Err(FreeError::NotInUse { data }) }
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
    /// data in the same place, assigned as often as there, and this process refers to it. What is blocked is given back by a
    /// [`free`](Client::free) later.
    #[inline]
    pub fn free_pin(&self, pin: Pin) -> Result<(), FreeError> {
        let Pin { data, grant: Grant { place, generation, .. } } = pin;
        self.free_at(data, place, generation)
    }

    /// [`Client::free_pin`] by the number that stands for a grant. A number can be copied: who gives it back twice gives back
    /// another reference of this process, as with [`Client::free`], if there is one and the slot was not assigned anew.
    ///
    /// # Errors
    /// [`FreeError`] if the cache was interrupted, if this is no mark, or if this process has no reference there to this data.
    #[inline]
    pub fn free_marked(&self, data: u64, mark: u64) -> Result<(), FreeError> {
        let (place, generation) = marked(mark).ok_or(FreeError::NotAssigned { data })?;
        self.free_at(data, place, generation)
    }

    #[inline(always)]
    fn free_at(&self, data: u64, place: u32, generation: u16) -> Result<(), FreeError> {
        self.working()?;
        let stays = |word: Word| word.stays_in(generation);
        match self.parts.marked(place).and_then(|place| self.give_back(place, data, stays)) {
            Some(()) => Ok(()),
            None => self.free_at_further(data, place, generation),
        }
    }

    // It gets numbers, all of which fit into registers: a place that was handed over would have to lie in memory, and what is
    // inlined would look at it there, and wait until it had been stored.
    #[inline(never)]
    fn free_at_further(&self, data: u64, place: u32, generation: u16) -> Result<(), FreeError> {
        let unknown = FreeError::NotAssigned { data };
        let place = self.parts.marked(place).ok_or(unknown)?;
        let released = self.release(place, |word| word.generation() == generation && place.has(data))?;
        if released { Ok(()) } else { Err(unknown) }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::layout::tests::memory;
    use super::super::{Forgetful, Identity, Sharing};
    use crate::atomic::Ordering;

    #[test]
    fn the_data_that_counts_is_that_behind_the_word() {
        let sharing = Sharing::new(2, 3).unwrap();
        let words = memory(1, sharing);
        let client = Forgetful::create(&words, 1, sharing, 7).unwrap().join(Identity::new(1, 0)).unwrap();
        let grant = client.alloc(5).unwrap();
        client.remember(5).unwrap();
        let place = client.parts.marked(grant.mark() as u32).unwrap();

        // The place has other data before its word is looked at, and gets this one only then.
        place.key().store(6, Ordering::Relaxed);
        let given_back = client.give_back(place, 6, |_| {
            place.key().store(5, Ordering::Relaxed);
            true
        });
        assert_eq!((given_back, client.references(5)), (None, Ok(1)));

        // A reference to other data is none, and does not stay.
        let hit = client.hit(place, 5).unwrap();
        assert_eq!((client.granted(6, hit), client.references(5)), (None, Ok(1)));
        assert_eq!((client.free(5), client.references(5)), (Ok(()), Ok(0)));
    }
}
