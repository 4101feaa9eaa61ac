//! Records that a cache is lent, from the heap.

/// There is no memory for the records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NoMemory {
    /// Their length.
    pub(crate) bytes: usize,
}

/// So many records, or the news that there is no memory for them.
pub(crate) fn reserved<T>(count: usize, record: impl FnMut() -> T) -> Result<Vec<T>, NoMemory> {
    let mut records = Vec::new();
    let bytes = count.saturating_mul(size_of::<T>());
    records.try_reserve_exact(count).map_err(|_| NoMemory { bytes })?;
    records.resize_with(count, record);
    Ok(records)
}
