//! Many operations at once.

use crate::cache::Partial;

use super::client::Client;
use super::error::{AllocError, FreeError};
use super::grant::{Grant, marked};
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
        let line = |data| Some(self.parts.home(data).line);
        self.in_batches(&data[..data.len().min(grants.len())], line, |data| {
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
        let line = |data| Some(self.parts.home(data).line);
        self.in_batches(data, line, |data| self.free(data))
    }

    /// [`Client::free_marked`] of each element in order: data, and the mark of its grant.
    ///
    /// # Errors
    /// [`Partial`] with the first refusal; what was done before it stays done.
    pub fn free_all_marked(&self, references: &[(u64, u64)]) -> Result<(), Partial<FreeError>> {
        let line = |(_, mark)| Some(self.parts.marked(marked(mark)?.0)?.line());
        self.in_batches(references, line, |(data, mark)| self.free_marked(data, mark))
    }

    /// Does this for each element in order, but looks for the `line` of each of a batch first.
    #[inline]
    fn in_batches<T: Copy, E>(
        &self,
        all: &[T],
        line: impl Fn(T) -> Option<usize>,
        mut each: impl FnMut(T) -> Result<(), E>,
    ) -> Result<(), Partial<E>> {
        let mut done = 0;
        for batch in all.chunks(AT_ONCE) {
            for line in batch.iter().filter_map(|&one| self.parts.lines.get(line(one)?)) {
                fetch_to_write(line);
            }
            for &one in batch {
                each(one).map_err(|error| Partial { done, error })?;
                done += 1;
            }
        }
        Ok(())
    }
}
