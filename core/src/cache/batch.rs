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
        self.in_batches(data, |cache, data, slot| {
            let Some(grant) = grants.get_mut(done) else { return Ok(()) };
            // An earlier element of the batch may have moved things.
            let here = slot.filter(|&slot| cache.pool.is_of(slot, data));
            *grant = match here {
                Some(slot) => cache.join(slot),
                None => cache.alloc(data),
            }
            .map_err(|error| Partial { done, error })?;
            done += 1;
            Ok(())
        })
    }

    /// [`SlotCache::free`] of each element in order.
    ///
    /// # Errors
    /// [`Partial`] with the first refusal; what was done before it stays done.
    pub fn free_all(&mut self, data: &[u64]) -> Result<(), Partial<FreeError>> {
        let mut done = 0;
        self.in_batches(data, |cache, data, slot| {
            let here = slot.filter(|&slot| cache.pool.is_of(slot, data));
            match here {
                Some(slot) => cache.give_back(slot, data, Next::Unknown).map(drop),
                None => cache.free(data),
            }
            .map_err(|error| Partial { done, error })?;
            done += 1;
            Ok(())
        })
    }

    /// Looks up some ids at once before anything is done for them: the processor waits for all lines together.
    #[inline]
    fn in_batches<E: From<Interrupted>>(
        &mut self,
        data: &[u64],
        mut each: impl FnMut(&mut Self, u64, Option<u32>) -> Result<(), Partial<E>>,
    ) -> Result<(), Partial<E>> {
        const AT_ONCE: usize = 32;
        self.working().map_err(|error| Partial { done: 0, error: error.into() })?;
        let mut slots = [None; AT_ONCE];
        for batch in data.chunks(AT_ONCE) {
            for (slot, &data) in slots.iter_mut().zip(batch) {
                *slot = self.find(data).filter(|&slot| self.pool.is_of(slot, data));
            }
            for (&slot, &data) in slots.iter().zip(batch) {
                each(self, data, slot)?;
            }
        }
        Ok(())
    }
}
