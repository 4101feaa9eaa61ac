//! A stencil cache for many threads: one lock, and each is woken by its own waker.

use core::task::{Poll, Waker};

use super::Waiter;
use super::answer::{AllocError, Overdue, Place};
use super::future::{Allocated, Assigned};
use super::machine::Waiting;
use crate::cache::ResetError;
use crate::cache::waiting::lock::{self, sealed};
use crate::cache::waiting::{Line, Lock};
use crate::id::Id;
use crate::stencil::complete::Action;
use crate::stencil::error::{FreeError, GroupError, PreparedError, SubmitError, UsageError};
use crate::stencil::future::Future;
use crate::stencil::group::Group;
use crate::stencil::input::Names;
use crate::stencil::machine::{Member, Stencil};
use crate::stencil::storage::Lent;

/// What those who wait and those who deliver must know of their cache.
pub trait Guarded: Line {
    #[doc(hidden)]
    fn ask<M: IntoIterator<Item = Member> + Clone>(
        &mut self,
        place: &mut Place,
        point: u64,
        group: &M,
        waker: &Waker,
        spare: &mut Option<Waker>,
    ) -> Option<Poll<Result<Id<Group>, AllocError>>>;
    #[doc(hidden)]
    fn ask_assigned(
        &mut self,
        place: &mut Place,
        group: Id<Group>,
        waker: &Waker,
        spare: &mut Option<Waker>,
    ) -> Option<Poll<Result<Id<Group>, AllocError>>>;
    #[doc(hidden)]
    fn leave(&mut self, place: Place, spare: &mut Option<Waker>) -> Option<Result<Id<Group>, AllocError>>;
    #[doc(hidden)]
    fn overdue(&self, point: u64, accepted: Option<Id<Group>>) -> Overdue;
    #[doc(hidden)]
    fn next(&mut self) -> Option<Action>;
    #[doc(hidden)]
    fn teller(&mut self) -> &mut Option<u64>;
}

impl<L: Lent, N, F: Future, R> sealed::Sealed for Waiting<L, N, F, R> {}

impl<L: Lent, N: Names, F: Future, R: AsRef<[Waiter]> + AsMut<[Waiter]>> Line for Waiting<L, N, F, R> {
    #[inline]
    fn next_waker(&mut self) -> Option<Waker> {
        Waiting::next_waker(self)
    }
}

impl<L: Lent, N: Names, F: Future, R: AsRef<[Waiter]> + AsMut<[Waiter]>> Guarded for Waiting<L, N, F, R> {
    fn ask<M: IntoIterator<Item = Member> + Clone>(
        &mut self,
        place: &mut Place,
        point: u64,
        group: &M,
        waker: &Waker,
        spare: &mut Option<Waker>,
    ) -> Option<Poll<Result<Id<Group>, AllocError>>> {
        Waiting::ask(self, place, point, group, waker, spare)
    }
    fn ask_assigned(
        &mut self,
        place: &mut Place,
        group: Id<Group>,
        waker: &Waker,
        spare: &mut Option<Waker>,
    ) -> Option<Poll<Result<Id<Group>, AllocError>>> {
        Waiting::ask_assigned(self, place, group, waker, spare)
    }
    fn leave(&mut self, place: Place, spare: &mut Option<Waker>) -> Option<Result<Id<Group>, AllocError>> {
        Waiting::leave(self, place, spare)
    }
    fn overdue(&self, point: u64, accepted: Option<Id<Group>>) -> Overdue {
        Waiting::overdue(self, point, accepted)
    }
    fn next(&mut self) -> Option<Action> {
        self.poll()
    }
    fn teller(&mut self) -> &mut Option<u64> {
        &mut self.teller
    }
}

/// A [`Waiting`] stencil cache behind a lock; see the [module](super).
#[derive(Debug)]
pub struct Shared<L> {
    lock: L,
}

impl<L: Lock<Value: Guarded>> Shared<L> {
    /// Lets all threads that see it use the cache.
    pub const fn new(lock: L) -> Self {
        Shared { lock }
    }

    #[inline]
    pub(super) fn act<T>(&self, act: impl FnOnce(&mut L::Value) -> T) -> T {
        lock::act(&self.lock, act)
    }

    /// The id of the group, as soon as it is accepted and has all its slots; see [`Waiting::alloc`]. Its inputs may be on
    /// their way: that it is ready is told by [`Shared::deliver`].
    pub fn alloc<'a>(
        &'a self,
        point: u64,
        group: &'a [u64],
    ) -> Allocated<'a, L, impl Iterator<Item = Member> + Clone + 'a> {
        self.alloc_members(point, group.iter().map(|&data| Member::Load(data)))
    }

    /// [`Shared::alloc`] with members of all kinds, which must not panic; see [`Shared::submit_members`].
    pub fn alloc_members<M: IntoIterator<Item = Member> + Clone>(&self, point: u64, group: M) -> Allocated<'_, L, M> {
        Allocated::new(self, point, group)
    }

    /// When a group that was accepted has all its slots; see [`Waiting::assigned`].
    pub fn assigned(&self, group: Id<Group>) -> Assigned<'_, L> {
        Assigned::new(self, group)
    }
}

impl<K, N, F, R, L> Shared<L>
where
    K: Lent,
    N: Names,
    F: Future,
    R: AsRef<[Waiter]> + AsMut<[Waiter]>,
    L: Lock<Value = Waiting<K, N, F, R>>,
{
    /// Accepts a group at once, or not; see [`Waiting::submit_members`].
    ///
    /// # Errors
    /// [`SubmitError`]; nothing has changed then.
    pub fn submit(&self, point: u64, group: &[u64]) -> Result<Id<Group>, SubmitError> {
        self.act(|cache| cache.submit_members(point, group.iter().map(|&data| Member::Load(data))))
    }

    /// [`Shared::submit`] with members of all kinds. They are taken under the lock, and must not panic: what was claimed
    /// for the first of them would stay so.
    ///
    /// # Errors
    /// [`SubmitError`]; nothing has changed then.
    pub fn submit_members(
        &self,
        point: u64,
        group: impl IntoIterator<Item = Member>,
    ) -> Result<Id<Group>, SubmitError> {
        self.act(|cache| cache.submit_members(point, group))
    }

    /// Adds uses of an input to the usage map.
    ///
    /// # Errors
    /// [`UsageError`] if the input has no record, or too many uses.
    pub fn expect(&self, data: u64, times: u32) -> Result<(), UsageError> {
        self.act(|cache| cache.expect(data, times))
    }

    /// The input is in the slot that it was to be loaded into.
    ///
    /// # Errors
    /// [`PreparedError`] if nobody was told to load it, or if that was answered before.
    pub fn prepared(&self, data: u64) -> Result<(), PreparedError> {
        self.act(|cache| cache.prepared(data))
    }

    /// The input could not be loaded: the groups that wait for it fail.
    ///
    /// # Errors
    /// [`PreparedError`] if nobody was told to load it, or if that was answered before.
    pub fn failed(&self, data: u64) -> Result<(), PreparedError> {
        self.act(|cache| cache.failed(data))
    }

    /// Tells the slots of a ready group, in the order in which its members were named; `tell` runs under the lock.
    ///
    /// # Errors
    /// [`GroupError`] if no action has said that the group is ready, or if it has ended.
    pub fn slots(&self, group: Id<Group>, tell: impl FnMut(u32)) -> Result<(), GroupError> {
        self.lock.with(|cache| cache.stencil().slots(group).map(|slots| slots.for_each(tell)))
    }

    /// The computation is over: gives back all references of a ready group.
    ///
    /// # Errors
    /// [`GroupError`] if no action has said that the group is ready, or if it has ended.
    pub fn free_group(&self, group: Id<Group>) -> Result<(), GroupError> {
        self.act(|cache| cache.free_group(group))
    }

    /// Copies the slots of a ready group and hands its references over; see [`Stencil::hand_over`].
    ///
    /// # Errors
    /// [`GroupError`] as for [`Shared::free_group`], or if the place is too short.
    pub fn hand_over(&self, group: Id<Group>, slots: &mut [u32]) -> Result<usize, GroupError> {
        self.act(|cache| cache.hand_over(group, slots))
    }

    /// Gives back a reference that was handed over.
    ///
    /// # Errors
    /// [`FreeError`] if no reference to the input is handed over.
    pub fn free(&self, data: u64) -> Result<(), FreeError> {
        self.act(|cache| cache.free(data))
    }

    /// Makes all calls fail, those that wait and those to come; see [`Waiting::interrupt`].
    pub fn interrupt(&self) {
        self.act(Waiting::interrupt);
    }

    /// Tells an interrupted cache that nobody writes to this slot any more.
    pub fn settle(&self, slot: u32) -> bool {
        self.act(|cache| cache.settle(slot))
    }

    /// Makes an interrupted cache ready again, and empty, once nobody reads what he got before; see [`Stencil::reset`].
    ///
    /// # Errors
    /// [`ResetError`] if it was not interrupted, or if slots are still being filled.
    pub fn reset(&self) -> Result<(), ResetError> {
        self.act(Waiting::reset)
    }

    /// How many wait now.
    pub fn waiting(&self) -> u32 {
        self.lock.with(|cache| cache.waiting())
    }

    /// Asks the cache; nobody else can use it meanwhile, not even the one who asks.
    pub fn look<T>(&self, look: impl FnOnce(&Stencil<K, N, F>) -> T) -> T {
        self.lock.with(|cache| look(cache.stencil()))
    }
}
