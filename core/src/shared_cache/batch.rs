//! Many operations at once.

use crate::cache::Partial;

use super::chain::Met;
use super::client::Client;
use super::error::{AllocError, FreeError};
use super::grant::Grant;
use super::layout::{Contract, NIL};

/// Ids that are looked for before anything is done for the first of them.
const AT_ONCE: usize = 32;

impl<'a, C: Contract> Client<'a, C> {
    /// [`Client::alloc`] of each element of `data` in order; the grants take the first places of `grants`. As many as the
    /// shorter slice has. Faster than one by one, because the processor waits for all lines together, which it does not
    /// across compare-and-swaps.
    ///
    /// # Errors
    /// [`Partial`] with the first refusal; what was done before it stays done.
    pub fn alloc_all(&self, data: &[u64], grants: &mut [Option<Grant>]) -> Result<(), Partial<AllocError>> {
        let mut grants = grants.iter_mut();
        self.in_batches(&data[..data.len().min(grants.len())], |data, glanced| {
            let granted = self.alloc_at(data, glanced)?;
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
        self.in_batches(data, |data, glanced| self.free_at(data, glanced))
    }

    /// `each` is told where the slot of its data was, which may have other data by then.
    #[inline]
    fn in_batches<E>(
        &self,
        data: &[u64],
        mut each: impl FnMut(u64, Option<Met<'a>>) -> Result<(), E>,
    ) -> Result<(), Partial<E>> {
        let mut done = 0;
        for batch in data.chunks(AT_ONCE) {
            let (mut first, mut glanced) = ([NIL; AT_ONCE], [None::<Met<'a>>; AT_ONCE]);
            for (first, &data) in first.iter_mut().zip(batch) {
                *first = self.parts.first(data);
            }
            for ((glanced, &first), &data) in glanced.iter_mut().zip(&first).zip(batch) {
                *glanced = self.parts.glance_from(first, data);
            }
            for (&glanced, &data) in glanced.iter().zip(batch) {
                each(data, glanced).map_err(|error| Partial { done, error })?;
                done += 1;
            }
        }
        Ok(())
    }
}
