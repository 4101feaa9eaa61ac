//! The other caches, each asked for an id and given it if it has it not.

use std::num::NonZeroUsize;

/// A cache of so many ids.
pub(crate) trait Peer {
    /// Crate and version.
    const NAME: &'static str;

    /// An empty cache.
    fn new(capacity: u32) -> Self;

    /// What it has for an id.
    fn find(&mut self, data: u64) -> Option<u32>;

    /// Adds an id that was not found.
    fn add(&mut self, data: u64);

    /// Removes an id; whether it was there.
    fn remove(&mut self, data: u64) -> bool;

    /// Whether the id had to be added.
    fn get_or_add(&mut self, data: u64) -> bool {
        let missing = self.find(data).is_none();
        if missing {
            self.add(data);
        }
        missing
    }
}

pub(crate) struct Hashlink(hashlink::LruCache<u64, u32>);
impl Peer for Hashlink {
    const NAME: &'static str = "hashlink 0.12";
    fn new(capacity: u32) -> Self {
        Hashlink(hashlink::LruCache::new(capacity as usize))
    }
    fn find(&mut self, data: u64) -> Option<u32> {
        self.0.get(&data).copied()
    }
    fn add(&mut self, data: u64) {
        self.0.insert(data, data as u32);
    }
    fn remove(&mut self, data: u64) -> bool {
        self.0.remove(&data).is_some()
    }
}

pub(crate) struct Lru(lru::LruCache<u64, u32>);
impl Peer for Lru {
    const NAME: &'static str = "lru 0.19";
    fn new(capacity: u32) -> Self {
        Lru(lru::LruCache::new(NonZeroUsize::new(capacity as usize).unwrap_or(NonZeroUsize::MIN)))
    }
    fn find(&mut self, data: u64) -> Option<u32> {
        self.0.get(&data).copied()
    }
    fn add(&mut self, data: u64) {
        self.0.put(data, data as u32);
    }
    fn remove(&mut self, data: u64) -> bool {
        self.0.pop(&data).is_some()
    }
}

/// The form for one thread.
pub(crate) struct Quick(quick_cache::unsync::Cache<u64, u32>);
impl Peer for Quick {
    const NAME: &'static str = "quick_cache 0.7 unsync";
    fn new(capacity: u32) -> Self {
        Quick(quick_cache::unsync::Cache::new(capacity as usize))
    }
    fn find(&mut self, data: u64) -> Option<u32> {
        self.0.get(&data).copied()
    }
    fn add(&mut self, data: u64) {
        self.0.insert(data, data as u32);
    }
    fn remove(&mut self, data: u64) -> bool {
        self.0.remove(&data).is_some()
    }
}

/// The form for many threads, used by one.
pub(crate) struct QuickSync(quick_cache::sync::Cache<u64, u32>);
impl Peer for QuickSync {
    const NAME: &'static str = "quick_cache 0.7 sync";
    fn new(capacity: u32) -> Self {
        QuickSync(quick_cache::sync::Cache::new(capacity as usize))
    }
    fn find(&mut self, data: u64) -> Option<u32> {
        self.0.get(&data)
    }
    fn add(&mut self, data: u64) {
        self.0.insert(data, data as u32);
    }
    fn remove(&mut self, data: u64) -> bool {
        self.0.remove(&data).is_some()
    }
}

pub(crate) struct Moka(moka::sync::Cache<u64, u32>);
impl Peer for Moka {
    const NAME: &'static str = "moka 0.12 sync";
    fn new(capacity: u32) -> Self {
        Moka(moka::sync::Cache::new(u64::from(capacity)))
    }
    fn find(&mut self, data: u64) -> Option<u32> {
        self.0.get(&data)
    }
    fn add(&mut self, data: u64) {
        self.0.insert(data, data as u32);
    }
    fn remove(&mut self, data: u64) -> bool {
        self.0.remove(&data).is_some()
    }
}
