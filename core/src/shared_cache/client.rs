//! What a process does with a cache that it shares.

use core::cell::Cell;
use core::marker::PhantomData;

use crate::atomic::Ordering;
use crate::cache::{Found, Interrupted, State};
use crate::crew::Identity;
use crate::event::EventCount;
use crate::shared_slots::Owner;

use super::SlotCache;
use super::error::{AllocError, Blocked, LookError, ReclaimError};
use super::grant::Grant;
use super::layout::{Contract, Parts};
use super::line::Held;
use super::members::{Count, Reclaimed};
use super::place::Place;
use super::take::{ATTEMPTS, Failed};
use super::turn::Turn;
use super::word::{ABANDONED, FILLING, Field, VALID, Word};

/// One process at a cache; its threads may use copies of it at the same time.
#[derive(Debug)]
pub struct Client<'a, C> {
    pub(super) parts: Parts<'a>,
    owner: Owner,
    identity: Identity,
    pub(super) field: Field,
    contract: PhantomData<C>,
}
impl<C> Copy for Client<'_, C> {}
impl<C> Clone for Client<'_, C> {
    fn clone(&self) -> Self {
        *self
    }
}

/// What became of an attempt to refer to a slot.
pub(super) enum Joined {
    Granted(Grant),
    /// The slot has, or soon has, other data.
    Gone,
    TooMany,
    /// Others were faster each time.
    Overtaken,
    /// Nobody needs the slot but those in line.
    NotInTurn,
}

/// Who comes first where data has no slot.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Manners {
    /// This one, whoever waits.
    Pushes,
    /// Those who wait.
    Waits,
    /// This one, who waits with this ticket.
    InTurn(u32),
}

impl<'a, C: Contract> Client<'a, C> {
    pub(super) fn new(parts: Parts<'a>, owner: Owner, identity: Identity) -> Self {
        Client { parts, owner, identity, field: parts.field(owner), contract: PhantomData }
    }

    /// The number of this process at the cache.
    #[must_use]
    pub fn owner(&self) -> Owner {
        self.owner
    }

    /// The cache itself.
    #[must_use]
    pub fn cache(&self) -> SlotCache<'a, C> {
        SlotCache { parts: self.parts, contract: PhantomData }
    }

    #[inline]
    pub(super) fn working(&self) -> Result<(), Interrupted> {
        if self.parts.is_interrupted() { Err(Interrupted) } else { Ok(()) }
    }

    /// A further reference to the slot in a place that is probably that of `data`.
    pub(super) fn join(&self, place: Place<'a>, data: u64, manners: Manners) -> Joined {
        self.join_beside(place, data, manners, || ())
    }

    /// Whether new data may have a slot.
    fn may_take(&self, manners: Manners) -> bool {
        manners != Manners::Waits || !self.parts.queue.is_awaited()
    }

    /// The same beside others, who do this each time that the word was read.
    fn join_beside(&self, place: Place<'a>, data: u64, manners: Manners, others: impl Fn()) -> Joined {
        let mut word = Word::of_slot(place.word());
        for _ in 0..ATTEMPTS {
            others();
            let (found, next) = match word.state() {
                VALID => (Found::Remembered, word.joined(self.field)),
                FILLING => (Found::Assigned, word.joined(self.field)),
                // It is as good as empty, though its last data was this.
                ABANDONED if word.is_vacant() && !self.may_take(manners) => return Joined::NotInTurn,
                ABANDONED => (Found::Empty, word.refilled(self.field, self.owner)),
                _ => return Joined::Gone,
            };
            if word.count(self.field) == self.field.most() {
                // The place may have got other data, to which this process has as many references.
                return if place.has(data) { Joined::TooMany } else { Joined::Gone };
            }
            match word.replace(place.word(), next) {
                Ok(()) => return self.confirm(place, found, next, data),
                Err(now) => word = now,
            }
        }
        Joined::Overtaken
    }

    /// With the reference the place keeps its data: so now it is certain whose it is.
    fn confirm(&self, place: Place<'a>, found: Found, word: Word, data: u64) -> Joined {
        let grant = self.grant(place, found, word);
        if place.has(data) && grant.slot < self.parts.slots {
            if found == Found::Empty {
                // It may have been vacant. Hints that stay with slots in use would hide those that are free.
                self.parts.unhint(place);
                self.parts.count(self.owner, Count::Loads);
            }
            return Joined::Granted(grant);
        }
        if found == Found::Empty {
            // This client is the filler now, of what it did not want: the next to ask shall be.
            let _ = self.change(place, |word| word.is_filled_by(self.owner).then(|| word.abandoned()));
            self.parts.queue.tell_all();
        }
        // Overtaken each time, the reference stays until this process leaves. To subtract it without a comparison would change
        // others' counts in memory that is damaged, or where a thread gave back more than was its own.
        let _ = self.release(place, |_| true);
        Joined::Gone
    }

    /// What to tell who refers to this place now, by this word.
    #[inline(always)]
    pub(super) fn grant(&self, place: Place<'a>, found: Found, word: Word) -> Grant {
        let (mine, generation) = (word.count(self.field), word.generation());
        Grant { slot: place.slot(), found, mine, generation, place: place.mark() }
    }

    /// With the home of the data for itself: finds its place, or assigns one.
    #[cold]
    pub(super) fn alloc_alone(&self, data: u64, manners: Manners) -> Result<Grant, AllocError> {
        self.alloc_alone_beside(data, manners, || ())
    }

    /// The same beside others, who do this each time that the word of a place was read.
    pub(super) fn alloc_alone_beside(
        &self,
        data: u64,
        manners: Manners,
        others: impl Fn(),
    ) -> Result<Grant, AllocError> {
        let held = self.parts.hold(self.parts.home(data), self.owner)?;
        let Some(place) = held.find(data)? else { return self.assign(&held, data, manners) };
        match self.join_beside(place, data, manners, others) {
            Joined::Granted(grant) => Ok(grant),
            Joined::Overtaken => Err(Blocked::OVERTAKEN.into()),
            Joined::TooMany => Err(AllocError::TooManyReferences { data, most: self.field.most() }),
            Joined::NotInTurn => Err(AllocError::Full { slots: self.parts.slots }),
            // It left in between, and nobody else can have put it anywhere. If it is there still, that is not true.
            Joined::Gone => match held.find(data)? {
                None => self.assign(&held, data, manners),
                Some(place) => Err(Blocked::Damaged { at: place.number() as usize }.into()),
            },
        }
    }

    fn assign(&self, held: &Held<'_, 'a>, data: u64, manners: Manners) -> Result<Grant, AllocError> {
        if !self.may_take(manners) {
            return Err(AllocError::Full { slots: self.parts.slots });
        }
        let taken = match self.parts.take(self.owner, held) {
            Ok(taken) => taken,
            Err(Failed::Blocked(why)) => return Err(why.into()),
            Err(Failed::Full) => {
                self.parts.count(self.owner, Count::Refused);
                return Err(AllocError::Full { slots: self.parts.slots });
            }
        };
        let place = taken.place;
        place.key().store(data, Ordering::Release);
        // Only now can others refer to it: whoever finds the place, finds its data there.
        let word = taken.word.assigned(self.field, self.owner);
        taken.word.replace(place.word(), word).map_err(|_| Blocked::Damaged { at: place.number() as usize })?;
        self.parts.count(self.owner, Count::Loads);
        if taken.evicted {
            self.parts.count(self.owner, Count::Evictions);
        }
        let grant = self.grant(place, Found::Empty, word);
        if grant.slot >= self.parts.slots {
            return Err(Blocked::Damaged { at: place.number() as usize }.into());
        }
        Ok(grant)
    }

    /// The place of `data`, and its word; `None` if it has none.
    pub(super) fn find(&self, data: u64) -> Result<Option<(Place<'a>, Word)>, Blocked> {
        let assigned = |place: Place<'a>| {
            let word = Word::of_slot(place.word());
            let known = word.is_assigned() && !word.is_vacant();
            // The word first: if it is replaced later, the data was still that.
            (known && place.has(data)).then_some((place, word))
        };
        if let Some(found) = self.parts.glance(data).and_then(assigned) {
            return Ok(Some(found));
        }
        let held = self.parts.hold(self.parts.home(data), self.owner)?;
        Ok(held.find(data)?.and_then(assigned))
    }

    /// Replaces the word as long as `next` says by what; the word that was replaced, or the one that shall stay.
    pub(super) fn change(
        &self,
        place: Place<'_>,
        next: impl Fn(Word) -> Option<Word>,
    ) -> Result<Result<Word, Word>, Blocked> {
        let mut word = Word::of_slot(place.word());
        for _ in 0..ATTEMPTS {
            let Some(next) = next(word) else { return Ok(Err(word)) };
            match word.replace(place.word(), next) {
                Ok(()) => return Ok(Ok(word)),
                Err(now) => word = now,
            }
        }
        Err(Blocked::OVERTAKEN)
    }

    /// Gives back a reference of this process; whether there was one to a word of which `is` holds.
    pub(super) fn release(&self, place: Place<'_>, is: impl Fn(Word) -> bool) -> Result<bool, Blocked> {
        let referred = |word: Word| word.is_assigned() && word.count(self.field) > 0;
        let data = Cell::new(0);
        let change = |word: Word| {
            (referred(word) && is(word)).then(|| {
                let next = word.released(self.field);
                if next.is_vacant() {
                    // Behind the word: as long as that is not replaced, the data is its own.
                    data.set(place.key().load(Ordering::Acquire));
                }
                next
            })
        };
        let released = self.change(place, change)?;
        if let Ok(word) = released {
            let next = word.released(self.field);
            if next.is_vacant() {
                self.parts.vacancy.set(place.number());
                if C::REMEMBERS && word.state() == FILLING {
                    self.parts.queue.tell(self.parts.home(data.get()).line);
                }
            }
            self.parts.freed(next);
        }
        Ok(released.is_ok())
    }

    /// Stands in line for the slot of `data`, behind all who did before; `None` if 256 do already.
    pub fn stand(&self, data: u64) -> Option<Turn<'a>> {
        Turn::take(self.parts.queue, self.owner, data)
    }

    /// What to sleep on until the fill of `data` has ended, and now and then for no reason.
    #[must_use]
    pub fn fill_event(&self, data: u64) -> EventCount<'a> {
        self.parts.queue.event(self.parts.home(data).line)
    }

    /// What the slot of `data` is doing; `None` if it has none.
    ///
    /// # Errors
    /// [`LookError`].
    pub fn state(&self, data: u64) -> Result<Option<State>, LookError> {
        self.working()?;
        Ok(self.find(data)?.map(|(_, word)| match word.state() {
            VALID if word.is_idle() => State::Idle,
            VALID => State::InUse,
            FILLING => State::Filling,
            _ => State::Abandoned,
        }))
    }

    /// References of all processes to `data`.
    ///
    /// # Errors
    /// [`LookError`].
    pub fn references(&self, data: u64) -> Result<u32, LookError> {
        self.working()?;
        Ok(self.find(data)?.map_or(0, |(_, word)| word.references(self.parts.sharing.bits())))
    }

    /// Takes back what a process held that will not run again: its references and the fills that it had begun. Each
    /// slot of which it was the filler is named with its data; the next `alloc` of the data finds it empty. The
    /// number is free then. Runs beside all other operations, also those that an interrupt refuses.
    ///
    /// Only when the process has ended: a reference of one that lives would be lost. What it had others write into a
    /// slot (a device, a remote read) must have ended too.
    ///
    /// # Errors
    /// [`ReclaimError`]; what was done stays done, and a further call goes on.
    pub fn reclaim(
        &self,
        dead: Owner,
        identity: Identity,
        abandoned: impl FnMut(u32, u64),
    ) -> Result<Reclaimed, ReclaimError> {
        self.parts.reclaim(dead, identity, self.owner, abandoned)
    }

    /// Gives everything back that this process holds, and its number. No copy of this client may be used any more. If the
    /// process is killed meanwhile, another one reclaims the rest.
    ///
    /// # Errors
    /// [`ReclaimError`]; a further call goes on.
    pub fn leave(&self) -> Result<Reclaimed, ReclaimError> {
        self.parts.reclaim(self.owner, self.identity, self.owner, |_, _| ())
    }
}
