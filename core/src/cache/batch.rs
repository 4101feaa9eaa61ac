//! Many operations at once.

use super::contract::SlotCache;
use super::error::{AllocError, FreeError, Interrupted, Partial};
use super::grant::Grant;
use super::index::Index;
use super::policy::{Next, Policy};
use super::slot::Slot;

impl<S: AsRef<[Slot]> + AsMut<[Slot]>, I: Index, P: Policy, C> SlotCache<S, I, P, C> {
    /// [`SlotCache::alloc`] of each element of `data` in order, the grants at the same places of `grants`; faster
    /// than one by one, because the look-ups overlap. As many as the shorter slice has.
    ///
    /// # Errors
    /// [`Partial`] with the first refusal; what was done before it stays done.
    pub fn alloc_all(&mut self, data: &[u64], grants: &mut [Grant]) -> Result<(), Partial<AllocError>> {
        let mut done = 0;
        self.in_batches(data, |cache, data, found| {
            let Some(grant) = grants.get_mut(done) else { return Ok(false) };
            let granted = match found {
                Some((place, word)) => cache.join(place, word),
                None => cache.assign(data),
            };
            *grant = granted.map_err(|error| Partial { done, error })?;
            done += 1;
            Ok(found.is_none())
        })
    }

    /// [`SlotCache::free`] of each element in order.
    ///
    /// # Errors
    /// [`Partial`] with the first refusal; what was done before it stays done.
    pub fn free_all(&mut self, data: &[u64]) -> Result<(), Partial<FreeError>> {
        let mut done = 0;
        self.in_batches(data, |cache, data, found| {
            let found = found.ok_or(FreeError::NotAssigned { data });
            let emptied = found.and_then(|(place, word)| cache.give_back(place, word, data, Next::Unknown));
            let emptied = emptied.map_err(|error| Partial { done, error })?;
            done += 1;
            Ok(emptied)
        })
    }

    /// Looks up some ids at once before anything is done for them: the processor waits for all lines together. `each`
    /// tells whether words of the index may stand elsewhere now.
    #[inline]
    fn in_batches<E: From<Interrupted>>(
        &mut self,
        data: &[u64],
        mut each: impl FnMut(&mut Self, u64, Option<(usize, u32)>) -> Result<bool, Partial<E>>,
    ) -> Result<(), Partial<E>> {
        const AT_ONCE: usize = 32;
        const NOWHERE: usize = usize::MAX;
        self.working().map_err(|error| Partial { done: 0, error: error.into() })?;
        let mut places = [NOWHERE; AT_ONCE];
        for batch in data.chunks(AT_ONCE) {
            for (place, &data) in places.iter_mut().zip(batch) {
                *place = self.look(data).map_or(NOWHERE, |(place, _)| place);
            }
            let mut moved = false;
            for (&place, &data) in places.iter().zip(batch) {
                // The words may have changed: an id may be named twice.
                let found = if moved { self.look(data) } else { self.index.at(place).map(|word| (place, word)) };
                moved |= each(self, data, found)?;
            }
        }
        Ok(())
    }
}
