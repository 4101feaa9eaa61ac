//! Many operations at once.

use super::contract::SlotCache;
use super::error::{AllocError, FreeError, Interrupted, Partial};
use super::grant::Grant;
use super::index::Index;
use super::policy::Policy;
use super::slot::Slot;

/// Ids whose words are fetched before anything is done for the first of them.
const AT_ONCE: usize = 32;

impl<S: AsRef<[Slot]> + AsMut<[Slot]>, I: Index, P: Policy, C> SlotCache<S, I, P, C> {
    /// [`SlotCache::alloc`] of each element of `data` in order, the grants at the same places of `grants`; faster
    /// than one by one, because the processor waits for all lines together. As many as the shorter slice has.
    ///
    /// # Errors
    /// [`Partial`] with the first refusal; what was done before it stays done.
    pub fn alloc_all(&mut self, data: &[u64], grants: &mut [Grant]) -> Result<(), Partial<AllocError>> {
        let mut grants = grants.iter_mut();
        self.in_batches(&data[..data.len().min(grants.len())], |cache, data| {
            let granted = cache.alloc(data)?;
            if let Some(grant) = grants.next() {
                *grant = granted;
            }
            Ok(())
        })
    }

    /// [`SlotCache::free`] of each element in order.
    ///
    /// # Errors
    /// [`Partial`] with the first refusal; what was done before it stays done.
    pub fn free_all(&mut self, data: &[u64]) -> Result<(), Partial<FreeError>> {
        self.in_batches(data, Self::free)
    }

    #[inline]
    fn in_batches<E: From<Interrupted>>(
        &mut self,
        data: &[u64],
        mut each: impl FnMut(&mut Self, u64) -> Result<(), E>,
    ) -> Result<(), Partial<E>> {
        self.working().map_err(|error| Partial { done: 0, error: error.into() })?;
        let mut done = 0;
        for batch in data.chunks(AT_ONCE) {
            batch.iter().for_each(|&data| self.index.fetch(data));
            for &data in batch {
                each(self, data).map_err(|error| Partial { done, error })?;
                done += 1;
            }
        }
        Ok(())
    }
}
