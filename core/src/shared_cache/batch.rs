//! Many operations at once.

use crate::cache::Partial;

use super::client::Client;
use super::error::{AllocError, FreeError};
use super::grant::Grant;
use super::layout::Contract;
use crate::fetch::fetch_to_write;

/// Ids that are looked for before anything is done for the first of them.
const AT_ONCE: usize = 32;

impl<C: Contract> Client<'_, C> {
    /// [`Client::alloc`] of each element of `data` in order; the grants take the first places of `grants`. As many as the
    /// shorter slice has. Faster than one by one, because the processor waits for all lines together, which it does not
    /// across compare-and-swaps.
    ///
    /// # Errors
    /// [`Partial`] with the first refusal; what was done before it stays done.
    pub fn alloc_all(&self, data: &[u64], grants: &mut [Option<Grant>]) -> Result<(), Partial<AllocError>> {
        let mut grants = grants.iter_mut();
        self.in_batches(&data[..data.len().min(grants.len())], |data| {
            let granted = self.alloc(data)?;
            if let Some(grant) = grants.next() {
                *grant = Some(granted);
            }
            Ok(())
        })
    }

    /// [`Client::free`] of each element in order.
    ///
    /// # Errors
    /// [`Partial`] with the first refusal; what was done before it stays done.
    pub fn free_all(&self, data: &[u64]) -> Result<(), Partial<FreeError>> {
        self.in_batches(data, |data| self.free(data))
    }

    #[inline]
    fn in_batches<E>(&self, data: &[u64], mut each: impl FnMut(u64) -> Result<(), E>) -> Result<(), Partial<E>> {
        let mut done = 0;
        for batch in data.chunks(AT_ONCE) {
            for line in batch.iter().filter_map(|&data| self.parts.lines.get(self.parts.home(data).line)) {
                fetch_to_write(line);
            }
            for &data in batch {
                each(data).map_err(|error| Partial { done, error })?;
                done += 1;
            }
        }
        Ok(())
    }
}
