//! Many operations at once.

use super::contract::SlotCache;
use super::error::{AllocError, FreeError, Interrupted, Partial};
use super::grant::Grant;
use super::index::{Glance, Index};
use super::policy::{Next, Policy};
use super::slot::Slot;

/// Ids whose words are fetched before anything is done for the first of them.
const AT_ONCE: usize = 32;

/// What there is of `data`, by its place if that was looked for ahead.
#[inline(always)]
fn glance<I: Index>(index: &mut I, place: Option<usize>, data: u64) -> Glance<'_> {
    match place {
        Some(place) => index.glance_at(place, data),
        None => index.glance(data),
    }
}

impl<S: AsRef<[Slot]> + AsMut<[Slot]>, I: Index, P: Policy, C> SlotCache<S, I, P, C> {
    /// [`SlotCache::alloc`] of each element of `data` in order, the grants at the same places of `grants`; faster
    /// than one by one, because the processor waits for all lines together. As many as the shorter slice has.
    ///
    /// # Errors
    /// [`Partial`] with the first refusal; what was done before it stays done.
    pub fn alloc_all(&mut self, data: &[u64], grants: &mut [Grant]) -> Result<(), Partial<AllocError>> {
        let mut grants = grants.iter_mut();
        self.in_batches(&data[..data.len().min(grants.len())], |cache, data, place| {
            let Some(grant) = grants.next() else { return Ok(()) };
            // Each written by itself: a copy of what was just written in pieces would wait for all of them.
            match cache.hit(|index| glance(index, place, data)) {
                Ok(granted) => *grant = granted,
                Err(no_hit) => *grant = cache.alloc_without_hit(data, no_hit)?,
            }
            Ok(())
        })
    }

    /// [`SlotCache::free`] of each element in order.
    ///
    /// # Errors
    /// [`Partial`] with the first refusal; what was done before it stays done.
    pub fn free_all(&mut self, data: &[u64]) -> Result<(), Partial<FreeError>> {
        self.in_batches(data, |cache, data, place| {
            cache.free_where(data, Next::Unknown, |index| glance(index, place, data))
        })
    }

    /// [`SlotCache::free`] of each element in order, by the grants that were given for them: nothing is searched for that
    /// still is where it was then. As many as the shorter slice has.
    ///
    /// # Errors
    /// [`Partial`] with the first refusal; what was done before it stays done.
    pub fn free_all_granted(&mut self, data: &[u64], grants: &[Grant]) -> Result<(), Partial<FreeError>> {
        self.working().map_err(|error| Partial { done: 0, error: error.into() })?;
        for (done, (&data, grant)) in data.iter().zip(grants).enumerate() {
            let freed = self.free_where(data, Next::Unknown, |index| index.glance_at(grant.place(), data));
            freed.map_err(|error| Partial { done, error })?;
        }
        Ok(())
    }

    #[inline]
    fn in_batches<E: From<Interrupted>>(
        &mut self,
        data: &[u64],
        mut each: impl FnMut(&mut Self, u64, Option<usize>) -> Result<(), E>,
    ) -> Result<(), Partial<E>> {
        self.working().map_err(|error| Partial { done: 0, error: error.into() })?;
        if self.index.is_near() {
            for (done, &data) in data.iter().enumerate() {
                each(self, data, None).map_err(|error| Partial { done, error })?;
            }
            return Ok(());
        }
        let mut done = 0;
        for batch in data.chunks(AT_ONCE) {
            let mut places = [0; AT_ONCE];
            for (place, &data) in places.iter_mut().zip(batch) {
                *place = self.index.fetch(data);
            }
            for place in &mut places[..batch.len()] {
                *place = self.index.spot(*place);
            }
            for (&place, &data) in places.iter().zip(batch) {
                each(self, data, Some(place)).map_err(|error| Partial { done, error })?;
                done += 1;
            }
        }
        Ok(())
    }
}
