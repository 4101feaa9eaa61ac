//! What caches count, as C sees it.

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
}

impl From<Statistics> for Counted {
    fn from(told: Statistics) -> Counted {
        let Statistics { hits, joins, loads, evictions, forgotten, refused } = told;
        Counted { size: size_of::<Counted>(), hits, joins, loads, evictions, forgotten, refused }
    }
}
