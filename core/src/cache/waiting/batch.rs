//! Many operations at once, under one lock.
//!
//! None of them waits: who held some slots while it waits for more would hold up others, and they it.

use super::Waiter;
use super::lock::Lock;
use super::machine::{Contract, Waiting};
use super::shared::Shared;
use crate::cache::Slot;
use crate::cache::error::{AllocError, FreeError, Partial};
use crate::cache::grant::Grant;
use crate::cache::index::Index;
use crate::cache::policy::Policy;

impl<S, I, P, C, R> Waiting<S, I, P, C, R>
where
    S: AsRef<[Slot]> + AsMut<[Slot]>,
    I: Index,
    P: Policy,
    C: Contract,
    R: AsRef<[Waiter]> + AsMut<[Waiter]>,
{
    /// [`SlotCache::alloc_all`](crate::cache::SlotCache::alloc_all): references now, as many as there are slots for. As
    /// with [`Waiting::try_alloc`] nobody in line is passed.
    ///
    /// # Errors
    /// [`Partial`] with the first refusal; what was done before it stays done.
    pub fn try_alloc_all(&mut self, data: &[u64], grants: &mut [Grant]) -> Result<(), Partial<AllocError>> {
        self.cache.alloc_all(data, grants)
    }

    /// [`Waiting::free`] of each element in order. Those in line get slots once all are given back.
    ///
    /// # Errors
    /// [`Partial`] with the first refusal; what was done before it stays done.
    pub fn free_all(&mut self, data: &[u64]) -> Result<(), Partial<FreeError>> {
        let done = self.cache.free_all(data);
        self.freed_as_far(data, done)
    }

    /// [`Waiting::free_all`] by the grants that were given for them: nothing is searched for that still is where it was
    /// then. As many as the shorter slice has. Grants only say where to look first, those of other data, of another cache
    /// or of long ago, too: whether there is a reference to give back is asked of the cache.
    ///
    /// # Errors
    /// [`Partial`] with the first refusal; what was done before it stays done.
    pub fn free_all_granted(&mut self, data: &[u64], grants: &[Grant]) -> Result<(), Partial<FreeError>> {
        let done = self.cache.free_all_granted(data, grants);
        self.freed_as_far(data.get(..grants.len()).unwrap_or(data), done)
    }

    fn freed_as_far(&mut self, data: &[u64], done: Result<(), Partial<FreeError>>) -> Result<(), Partial<FreeError>> {
        let count = done.err().map_or(data.len(), |partial| partial.done);
        self.freed(data.get(..count).unwrap_or(data));
        done
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
    /// References now, as many as there are slots for; see [`Waiting::try_alloc_all`]. They are not held as values:
    /// [`Shared::free_all`], [`Shared::free_all_granted`] or [`Shared::free`] gives them back, and who finds a slot
    /// `Empty` says `remember` or `abandon`.
    ///
    /// # Errors
    /// [`Partial`] with the first refusal; what was done before it stays done.
    pub fn try_alloc_all(&self, data: &[u64], grants: &mut [Grant]) -> Result<(), Partial<AllocError>> {
        self.act(|cache| cache.try_alloc_all(data, grants))
    }

    /// Gives references back that are not held as values, in order.
    ///
    /// # Errors
    /// [`Partial`] with the first refusal; what was done before it stays done.
    pub fn free_all(&self, data: &[u64]) -> Result<(), Partial<FreeError>> {
        self.act(|cache| cache.free_all(data))
    }

    /// The same by their grants, without a search; see [`Waiting::free_all_granted`].
    ///
    /// # Errors
    /// [`Partial`] with the first refusal; what was done before it stays done.
    pub fn free_all_granted(&self, data: &[u64], grants: &[Grant]) -> Result<(), Partial<FreeError>> {
        self.act(|cache| cache.free_all_granted(data, grants))
    }
}
