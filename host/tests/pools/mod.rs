//! What tests want to know of pools, and do to them.

use umbra::pool::{Allocation, Pool};

/// Allocations that there are.
pub(crate) fn used(pool: &Pool) -> usize {
    pool.blocks().count()
}

/// Takes all that a pool has.
pub(crate) fn fill(pool: &Pool) -> Vec<Allocation<'_>> {
    // Smaller and smaller, until not even a byte is left.
    let sizes = (0..=20).rev().map(|bits| 1 << bits);
    sizes.flat_map(|size| std::iter::from_fn(move || pool.alloc(size, 0).ok())).collect()
}
