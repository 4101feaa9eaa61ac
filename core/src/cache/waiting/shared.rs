//! A cache that many threads use: one lock, and each is woken by its own waker.

use core::task::{Poll, Waker};

use super::Waiter;
use super::answer::{Answer, Asked, ContentError, Scene, WaitError};
use super::future::{Content, Slotted};
use super::guard::{Fill, Given, Held};
use super::lock::{self, Line, Lock, asking, sealed};
use super::machine::{Contract, Waiting};
use crate::cache::error::{AllocError, FillError, ForgetError, FreeError, ResetError};
use crate::cache::grant::{Found, Grant, Pin};
use crate::cache::index::Index;
use crate::cache::keyed::InUse;
use crate::cache::policy::Policy;
use crate::cache::{Forgetting, Remembers, Slot, SlotCache};
use crate::id::Id;

/// What references and those who wait must know of their cache.
pub trait Guarded: Line {
    #[doc(hidden)]
    fn ask_slot(&mut self, data: u64, waker: &mut Option<Waker>) -> Result<Option<Asked<(Pin, Grant)>>, WaitError>;
    #[doc(hidden)]
    fn ask_for_content(&mut self, data: u64, waker: &mut Option<Waker>) -> Result<Option<Asked<()>>, ContentError>;
    #[doc(hidden)]
    fn heard(&mut self, waiter: Id<Waiter>, waker: &Waker, spare: &mut Option<Waker>) -> Option<Poll<Answer>>;
    #[doc(hidden)]
    fn end(&mut self, waiter: Id<Waiter>, spare: &mut Option<Waker>) -> Option<Answer>;
    #[doc(hidden)]
    fn take_back(&mut self, pin: Pin, fills: bool);
    #[doc(hidden)]
    fn scene(&self, data: u64) -> Scene;
}

/// A cache that remembers what its slots were filled with.
pub trait Filled: Guarded {
    #[doc(hidden)]
    fn filled(&mut self, pin: &Pin) -> Result<(), FillError>;
}

impl<S, I, P, C, R> sealed::Sealed for Waiting<S, I, P, C, R> {}

impl<S, I, P, C, R> Line for Waiting<S, I, P, C, R>
where
    S: AsRef<[Slot]> + AsMut<[Slot]>,
    I: Index,
    P: Policy,
    C: Contract,
    R: AsRef<[Waiter]> + AsMut<[Waiter]>,
{
    #[inline]
    fn next_waker(&mut self) -> Option<Waker> {
        Waiting::next_waker(self)
    }
}

impl<S, I, P, C, R> Guarded for Waiting<S, I, P, C, R>
where
    S: AsRef<[Slot]> + AsMut<[Slot]>,
    I: Index,
    P: Policy,
    C: Contract,
    R: AsRef<[Waiter]> + AsMut<[Waiter]>,
{
    #[inline]
    fn ask_slot(&mut self, data: u64, waker: &mut Option<Waker>) -> Result<Option<Asked<(Pin, Grant)>>, WaitError> {
        self.ask(data, waker)
    }
    fn ask_for_content(&mut self, data: u64, waker: &mut Option<Waker>) -> Result<Option<Asked<()>>, ContentError> {
        self.ask_content(data, waker)
    }
    fn heard(&mut self, waiter: Id<Waiter>, waker: &Waker, spare: &mut Option<Waker>) -> Option<Poll<Answer>> {
        self.hear(waiter, waker, spare)
    }
    fn end(&mut self, waiter: Id<Waiter>, spare: &mut Option<Waker>) -> Option<Answer> {
        self.leave(waiter, spare)
    }
    #[inline]
    fn take_back(&mut self, pin: Pin, fills: bool) {
        // A reference of before an interrupt or a reset is worth nothing, and nobody is to be told.
        let _ = if fills { self.give_up(pin) } else { self.free_pin(pin) };
    }
    fn scene(&self, data: u64) -> Scene {
        Waiting::scene(self, data)
    }
}

impl<S, I, P, C, R> Filled for Waiting<S, I, P, C, R>
where
    S: AsRef<[Slot]> + AsMut<[Slot]>,
    I: Index,
    P: Policy,
    C: Contract + Remembers,
    R: AsRef<[Waiter]> + AsMut<[Waiter]>,
{
    fn filled(&mut self, pin: &Pin) -> Result<(), FillError> {
        self.remember_pin(pin)
    }
}

/// A [`Waiting`] cache behind a lock; see the [module](super).
#[derive(Debug)]
pub struct Shared<L> {
    lock: L,
}

impl<L: Lock<Value: Guarded>> Shared<L> {
    /// Lets all threads that see it use the cache.
    pub const fn new(lock: L) -> Self {
        Shared { lock }
    }

    /// Acts under the lock, and wakes whom that answered after it.
    #[inline]
    pub(super) fn act<T>(&self, act: impl FnOnce(&mut L::Value) -> T) -> T {
        lock::act(&self.lock, act)
    }

    /// The answer to a waiter, once.
    pub(super) fn heard(&self, waiter: Id<Waiter>, waker: &Waker) -> Poll<Answer> {
        asking(waker, |spare| self.act(|cache| cache.heard(waiter, waker, spare)))
    }

    /// A reference to the slot of `data` as soon as there is one; see [`Waiting::alloc`].
    pub fn slot(&self, data: u64) -> Slotted<'_, L> {
        Slotted::new(self, data)
    }

    /// Ends a wait: the answer that came before, if one did, and what was known then.
    pub(super) fn end(&self, waiter: Option<Id<Waiter>>, data: u64) -> (Option<Answer>, Scene) {
        let mut spare = None;
        self.act(|cache| (waiter.and_then(|waiter| cache.end(waiter, &mut spare)), cache.scene(data)))
    }

    pub(super) fn take_back(&self, pin: Pin, fills: bool) {
        self.act(|cache| cache.take_back(pin, fills));
    }

    pub(super) fn given(&self, (pin, grant): (Pin, Grant)) -> Given<'_, L> {
        let held = Held::new(self, pin, grant);
        match grant.found {
            Found::Empty => Given::Empty(Fill::new(held)),
            Found::Assigned => Given::Assigned(held),
            Found::Remembered => Given::Remembered(held),
        }
    }
}

impl<L: Lock<Value: Filled>> Shared<L> {
    /// The content of an assigned slot as soon as it is there. Who holds a reference sees the slot stay.
    pub fn content(&self, data: u64) -> Content<'_, L> {
        Content::new(self, data)
    }

    pub(super) fn filled(&self, pin: &Pin) -> Result<(), FillError> {
        self.act(|cache| cache.filled(pin))
    }
}

impl<S, I, P, C, R, L> Shared<L>
where
    S: AsRef<[Slot]> + AsMut<[Slot]>,
    I: Index,
    P: Policy,
    C: Contract,
    R: AsRef<[Waiter]> + AsMut<[Waiter]>,
    L: Lock<Value = Waiting<S, I, P, C, R>>,
{
    /// A reference now, or none; see [`Waiting::try_alloc`].
    ///
    /// # Errors
    /// [`AllocError`].
    #[inline]
    pub fn try_alloc(&self, data: u64) -> Result<Given<'_, L>, AllocError> {
        Ok(self.given(self.act(|cache| cache.try_alloc(data))?))
    }

    /// Gives a reference back that is not held as a value.
    ///
    /// # Errors
    /// [`FreeError`] if there is none.
    #[inline]
    pub fn free(&self, data: u64) -> Result<(), FreeError> {
        self.act(|cache| cache.free(data))
    }

    /// Gives the reference back.
    ///
    /// # Errors
    /// [`FreeError`] if the cache was interrupted or reset since.
    pub fn free_pin(&self, pin: Pin) -> Result<(), FreeError> {
        self.act(|cache| cache.free_pin(pin))
    }

    /// Makes all calls fail, those that wait and those to come; see [`Waiting::interrupt`].
    pub fn interrupt(&self) {
        self.act(Waiting::interrupt);
    }

    /// Interrupts the cache, unless somebody holds a slot or waits; see [`Waiting::end_unused`].
    ///
    /// # Errors
    /// [`InUse`]; nothing has changed then.
    pub fn end_unused(&self) -> Result<(), InUse> {
        // It answers nobody. Who was answered before is woken by whom that answered: a table of caches asks this under its lock.
        self.lock.with(Waiting::end_unused)
    }

    /// Tells an interrupted cache that nobody writes to this slot any more; see [`SlotCache::settle`].
    pub fn settle(&self, slot: u32) -> bool {
        self.act(|cache| cache.settle(slot))
    }

    /// Makes an interrupted cache ready again, and empty, once nobody reads what he got before; see [`SlotCache::reset`].
    ///
    /// # Errors
    /// [`ResetError`] if it was not interrupted, or if slots are still being filled.
    pub fn reset(&self) -> Result<(), ResetError> {
        self.act(Waiting::reset)
    }

    /// How many wait now, for slots and for contents.
    pub fn waiting(&self) -> u32 {
        self.lock.with(|cache| cache.waiting())
    }

    /// Asks the cache; nobody else can use it meanwhile, not even the one who asks.
    pub fn look<T>(&self, look: impl FnOnce(&SlotCache<S, I, P, C>) -> T) -> T {
        self.lock.with(|cache| look(cache.cache()))
    }
}

impl<S, I, P, C, R, L> Shared<L>
where
    S: AsRef<[Slot]> + AsMut<[Slot]>,
    I: Index,
    P: Policy,
    C: Contract + Remembers,
    R: AsRef<[Waiter]> + AsMut<[Waiter]>,
    L: Lock<Value = Waiting<S, I, P, C, R>>,
{
    /// The content is there, says who filled the slot; see [`Waiting::remember`].
    ///
    /// # Errors
    /// [`FillError`] if the data has no slot any more, or if somebody filled it before.
    pub fn remember(&self, data: u64) -> Result<(), FillError> {
        self.act(|cache| cache.remember(data))
    }

    /// The content will not come; see [`Waiting::abandon`].
    ///
    /// # Errors
    /// [`FillError`] if the data has no slot any more, or if it was filled.
    pub fn abandon(&self, data: u64) -> Result<(), FillError> {
        self.act(|cache| cache.abandon(data))
    }
}

impl<S, I, P, R, L> Shared<L>
where
    S: AsRef<[Slot]> + AsMut<[Slot]>,
    I: Index,
    P: Policy,
    R: AsRef<[Waiter]> + AsMut<[Waiter]>,
    L: Lock<Value = Waiting<S, I, P, Forgetting, R>>,
{
    /// Empties the slot of idle content, and says whether there was any.
    ///
    /// # Errors
    /// [`ForgetError`] if the slot is being filled, or in use.
    pub fn forget(&self, data: u64) -> Result<bool, ForgetError> {
        self.act(|cache| cache.forget(data))
    }

    /// [`Shared::forget`], but content in use leaves with its last reference.
    ///
    /// # Errors
    /// [`ForgetError`] if the slot is being filled.
    pub fn forget_later(&self, data: u64) -> Result<bool, ForgetError> {
        self.act(|cache| cache.forget_later(data))
    }
}
