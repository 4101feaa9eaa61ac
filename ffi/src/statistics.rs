//! What caches count, as C sees it.

use std::mem::offset_of;

use umbra_core::cache::Statistics;

/// `struct umbra_cache_statistics`.
#[repr(C)]
pub struct Counted {
    size: usize,
    hits: u64,
    joins: u64,
    loads: u64,
    evictions: u64,
    forgotten: u64,
    refused: u64,
    waiting: u32,
}

impl Counted {
    /// Bytes of the statistics that know nothing of those who wait.
    pub(crate) const LEAST: usize = offset_of!(Counted, waiting);

    pub(crate) fn new(told: Statistics, waiting: u32) -> Counted {
        let Statistics { hits, joins, loads, evictions, forgotten, refused } = told;
        Counted { size: size_of::<Counted>(), hits, joins, loads, evictions, forgotten, refused, waiting }
    }
}
