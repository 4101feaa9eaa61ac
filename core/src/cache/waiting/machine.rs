//! A cache and the line of those who wait for it.

use core::task::{Poll, Waker};

use super::Waiter;
use super::answer::{Answer, Asked, ContentError, Holding, Scene, WaitError};
use super::lock::asking;
use super::record::Stage;
use super::waiter::Waiters;
use crate::cache::error::{AllocError, FillError, ForgetError, FreeError, ResetError};
use crate::cache::grant::{Found, Grant, Pin, State};
use crate::cache::index::Index;
use crate::cache::keyed::{Ends, InUse, held};
use crate::cache::policy::Policy;
use crate::cache::{Forgetting, Plain, Remembering, Remembers, Slot, SlotCache};
use crate::id::Id;

/// What becomes of a slot that nobody will fill, by contract.
pub trait Contract: sealed::Sealed {
    /// Whether somebody else may fill it instead.
    #[doc(hidden)]
    const REFILLS: bool;
}
impl Contract for Plain {
    const REFILLS: bool = false;
}
impl Contract for Remembering {
    const REFILLS: bool = true;
}
impl Contract for Forgetting {
    const REFILLS: bool = true;
}
mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Plain {}
    impl Sealed for super::Remembering {}
    impl Sealed for super::Forgetting {}
}

/// A slot cache for several clients, some of whom wait; see the [module](super).
#[derive(Debug)]
pub struct Waiting<S, I, P, C, R> {
    pub(super) cache: SlotCache<S, I, P, C>,
    waiters: Waiters<Answer, R>,
}

impl<S, I, P, C, R> Waiting<S, I, P, C, R>
where
    S: AsRef<[Slot]> + AsMut<[Slot]>,
    I: Index,
    P: Policy,
    C: Contract,
    R: AsRef<[Waiter]> + AsMut<[Waiter]>,
{
    /// Lets as many wait for the cache as there are records.
    pub fn new(cache: SlotCache<S, I, P, C>, waiters: R) -> Self {
        Waiting { cache, waiters: Waiters::new(waiters) }
    }

    /// The cache, for questions.
    pub fn cache(&self) -> &SlotCache<S, I, P, C> {
        &self.cache
    }

    /// How many wait now, for slots and for contents.
    pub fn waiting(&self) -> u32 {
        self.waiters.waiting()
    }

    /// A reference to the slot of `data`, now or when its turn has come. Who is first in line gets the first slot;
    /// several who want a slot for the same data have one place in line and get one slot. An assigned slot is for all.
    ///
    /// # Errors
    /// [`WaitError`] if waiting would not help.
    pub fn alloc(&mut self, data: u64, waker: &Waker) -> Result<Asked<(Pin, Grant)>, WaitError> {
        asking(waker, |spare| self.ask(data, spare).transpose())
    }

    /// [`Waiting::alloc`]; `None` if it needs a waker to wait.
    #[inline]
    pub(super) fn ask(
        &mut self,
        data: u64,
        waker: &mut Option<Waker>,
    ) -> Result<Option<Asked<(Pin, Grant)>>, WaitError> {
        match self.cache.pin(data) {
            Ok(given) => return Ok(Some(Asked::Now(given))),
            Err(AllocError::Full { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        // It is not refused: it waits.
        self.cache.pool.statistics.refused -= 1;
        if waker.is_none() {
            return Ok(None);
        }
        let waiter = self.waiters.enter(data, Stage::Turn, waker).map(Asked::Later);
        waiter.map(Some).ok_or(WaitError::TooManyWaiters { waiters: self.waiters.capacity() })
    }

    /// [`SlotCache::pin`]: a reference now, or none. Those in line have all slots that there are, so nobody passes them.
    ///
    /// # Errors
    /// [`AllocError`].
    pub fn try_alloc(&mut self, data: u64) -> Result<(Pin, Grant), AllocError> {
        self.cache.pin(data)
    }

    /// Tells when the content of an assigned slot is there.
    ///
    /// # Errors
    /// [`ContentError`] if it will not come.
    pub fn content(&mut self, data: u64, waker: &Waker) -> Result<Asked<()>, ContentError> {
        asking(waker, |spare| self.ask_content(data, spare).transpose())
    }

    /// [`Waiting::content`]; `None` if it needs a waker to wait.
    pub(super) fn ask_content(
        &mut self,
        data: u64,
        waker: &mut Option<Waker>,
    ) -> Result<Option<Asked<()>>, ContentError> {
        match self.cache.state(data)? {
            None => Err(ContentError::NotAssigned { data }),
            Some(State::Abandoned) => Err(ContentError::Abandoned { data }),
            Some(State::InUse | State::Idle) => Ok(Some(Asked::Now(()))),
            Some(State::Filling) if waker.is_none() => Ok(None),
            Some(State::Filling) => {
                let waiter = self.waiters.enter(data, Stage::Event, waker).map(Asked::Later);
                waiter.map(Some).ok_or(ContentError::TooManyWaiters { waiters: self.waiters.capacity() })
            }
        }
    }

    /// The answer to a waiter, once; `None` if there is none yet, and then `waker` will be woken.
    pub fn poll(&mut self, waiter: Id<Waiter>, waker: &Waker) -> Option<Answer> {
        match asking(waker, |spare| self.hear(waiter, waker, spare)) {
            Poll::Ready(answer) => Some(answer),
            Poll::Pending => None,
        }
    }

    /// [`Waiters::hear`].
    pub(super) fn hear(
        &mut self,
        waiter: Id<Waiter>,
        waker: &Waker,
        spare: &mut Option<Waker>,
    ) -> Option<Poll<Answer>> {
        self.waiters.hear(waiter, waker, spare)
    }

    /// Ends a wait. An answer that the waiter did not know yet is its answer: a slot that it was given is its own.
    pub fn end(&mut self, waiter: Id<Waiter>) -> Option<Answer> {
        self.leave(waiter, &mut None)
    }

    /// [`Waiters::end`].
    pub(super) fn leave(&mut self, waiter: Id<Waiter>, spare: &mut Option<Waker>) -> Option<Answer> {
        self.waiters.end(waiter, spare)
    }

    /// Who is to be woken next, after any of the operations; until there is none.
    pub fn next_waker(&mut self) -> Option<Waker> {
        self.waiters.next_waker()
    }

    /// What can be told to somebody who stops waiting for something of this data.
    pub fn scene(&self, data: u64) -> Scene {
        let mut held = [None; 4];
        let pool = &self.cache.pool;
        let seen = |slot: u32| (slot, pool.at(slot).data, self.cache.seen(slot));
        let one = self.cache.find(data).map(seen);
        // What has a slot is told at once; only without one the others are looked through.
        let all = one
            .is_none()
            .then(|| pool.all().map(|(slot, _)| seen(slot)).filter(|&(_, _, (references, _))| references > 0));
        for (place, (slot, data, (references, state))) in
            held.iter_mut().zip(one.into_iter().chain(all.into_iter().flatten()))
        {
            *place = Some(Holding { slot: pool.outer(slot), data, references, state });
        }
        Scene { data, slots: pool.count(), waiting: self.waiters.waiting(), held }
    }

    /// Gives slots to those in line, as far as there are slots.
    fn serve(&mut self) {
        while let Some(leader) = self.waiters.first_in_line() {
            if self.cache.is_interrupted() || !self.cache.pool.has_room() {
                return;
            }
            self.waiters.answer(leader, |data| Answer::Slot(self.cache.pin(data)));
        }
    }

    /// References were given back: slots may be empty, and the content of this data may never come.
    pub(super) fn freed(&mut self, data: &[u64]) {
        if self.waiters.waiting() == 0 {
            return;
        }
        for &data in data {
            if let Some(leader) = self.waiters.leader(data)
                && self.cache.find(data).is_none()
            {
                self.waiters.answer(leader, |data| Answer::Content(Err(ContentError::NotAssigned { data })));
            }
        }
        self.serve();
    }

    /// Gives a reference back.
    ///
    /// # Errors
    /// [`FreeError`] if there is no reference.
    #[inline]
    pub fn free(&mut self, data: u64) -> Result<(), FreeError> {
        self.cache.free(data)?;
        self.freed(&[data]);
        Ok(())
    }

    /// Gives the reference back.
    ///
    /// # Errors
    /// [`FreeError`] as for [`SlotCache::free_pin`].
    #[inline]
    pub fn free_pin(&mut self, pin: Pin) -> Result<(), FreeError> {
        let data = pin.data();
        self.cache.free_pin(pin)?;
        self.freed(&[data]);
        Ok(())
    }

    /// Who found the slot empty gives it back without content. Whoever waits for the content is told, and the next to
    /// allocate fills the slot.
    ///
    /// # Errors
    /// [`FreeError`] as for [`Waiting::free_pin`].
    pub fn give_up(&mut self, pin: Pin) -> Result<(), FreeError> {
        let data = pin.data();
        if C::REFILLS && self.cache.abandon_pin(&pin).is_ok() {
            self.tell(data, Err(ContentError::Abandoned { data }));
        }
        self.free_pin(pin)
    }

    /// Answers those who wait for content.
    fn tell(&mut self, data: u64, answer: Result<(), ContentError>) {
        if self.waiters.waiting() > 0
            && let Some(leader) = self.waiters.leader(data)
        {
            self.waiters.answer(leader, |_| Answer::Content(answer));
        }
    }

    /// From now on every operation fails, and so does whatever somebody waits for: each waiter that does not know its
    /// answer yet is told that the cache was interrupted. A second interrupt changes nothing.
    pub fn interrupt(&mut self) {
        if self.cache.is_interrupted() {
            return;
        }
        let cache = &mut self.cache;
        cache.interrupt();
        let interrupted = |_, stage| match stage {
            Stage::Event => Answer::Content(Err(ContentError::Interrupted)),
            _ => Answer::Slot(Err(AllocError::Interrupted)),
        };
        self.waiters.answer_all(interrupted, |answer| match answer {
            Answer::Slot(given) => {
                if let Ok((_, Grant { slot, found: Found::Empty, .. })) = given {
                    // Nobody was told to fill it.
                    cache.settle(*slot);
                }
                *given = Err(AllocError::Interrupted);
            }
            Answer::Content(told) => *told = Err(ContentError::Interrupted),
        });
    }

    /// Interrupts the cache, unless somebody holds a slot or waits; see [`Ends::end`].
    ///
    /// # Errors
    /// [`InUse`]; nothing has changed then.
    pub fn end_unused(&mut self) -> Result<(), InUse> {
        match self.waiters.waiting() {
            0 => self.cache.end(),
            waiting => Err(InUse { slots: held(&self.cache), waiting }),
        }
    }

    /// [`SlotCache::settle`].
    pub fn settle(&mut self, slot: u32) -> bool {
        self.cache.settle(slot)
    }

    /// [`SlotCache::reset`].
    ///
    /// # Errors
    /// [`ResetError`] if it was not interrupted, or if slots are still being filled.
    pub fn reset(&mut self) -> Result<(), ResetError> {
        self.cache.reset()
    }
}

impl<S, I, P, C, R> Waiting<S, I, P, C, R>
where
    S: AsRef<[Slot]> + AsMut<[Slot]>,
    I: Index,
    P: Policy,
    C: Contract + Remembers,
    R: AsRef<[Waiter]> + AsMut<[Waiter]>,
{
    /// The content is there: it outlives the references, and whoever waits for it is told.
    ///
    /// # Errors
    /// [`FillError`] if the data has no slot any more, or if somebody filled it before.
    pub fn remember(&mut self, data: u64) -> Result<(), FillError> {
        self.cache.remember(data)?;
        self.tell(data, Ok(()));
        Ok(())
    }

    /// [`Waiting::remember`] by who found the slot empty.
    ///
    /// # Errors
    /// [`FillError`], also if the cache was reset since the slot was pinned.
    pub fn remember_pin(&mut self, pin: &Pin) -> Result<(), FillError> {
        self.cache.remember_pin(pin)?;
        self.tell(pin.data(), Ok(()));
        Ok(())
    }

    /// The content will not come. Whoever waits for it is told, and the next to allocate fills the slot.
    ///
    /// # Errors
    /// [`FillError`] if the data has no slot any more, or if it was filled.
    pub fn abandon(&mut self, data: u64) -> Result<(), FillError> {
        self.cache.abandon(data)?;
        self.tell(data, Err(ContentError::Abandoned { data }));
        Ok(())
    }
}

impl<S, I, P, R> Waiting<S, I, P, Forgetting, R>
where
    S: AsRef<[Slot]> + AsMut<[Slot]>,
    I: Index,
    P: Policy,
    R: AsRef<[Waiter]> + AsMut<[Waiter]>,
{
    /// Empties the slot of idle content, and says whether there was any. Nobody is in line for a slot while content is
    /// idle.
    ///
    /// # Errors
    /// [`ForgetError`] if the slot is being filled, or in use.
    pub fn forget(&mut self, data: u64) -> Result<bool, ForgetError> {
        self.cache.forget(data)
    }

    /// [`Waiting::forget`], but content in use leaves with its last reference.
    ///
    /// # Errors
    /// [`ForgetError`] if the slot is being filled.
    pub fn forget_later(&mut self, data: u64) -> Result<bool, ForgetError> {
        self.cache.forget_later(data)
    }
}
