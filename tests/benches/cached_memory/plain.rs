//! A plain memory: what was used longest ago leaves until a request fits.

use std::collections::HashMap;

use lru::LruCache;
use umbra_core::memory::{Block, Granule, Offsets};

use crate::{CAPACITY, GRANULE, PLACES, Side};

pub(crate) const NAME: &str = "lru 0.19 over our allocator";

/// Where data lies, and how many references there are.
struct Place {
    offset: u64,
    references: u32,
}

pub(crate) struct Plain {
    space: Offsets<Vec<Block>, Vec<u32>, [u32; 0]>,
    used: HashMap<u64, Place>,
    /// Offsets of what nobody uses.
    idle: LruCache<u64, u64>,
    evictions: u64,
    flushes: u64,
}

impl Plain {
    pub(crate) fn new() -> Self {
        let granule = Granule::new(GRANULE).expect("a power of two");
        let starts = vec![0; (CAPACITY / GRANULE) as usize];
        Plain {
            space: Offsets::new(vec![Block::default(); 2 * PLACES + 1], starts, CAPACITY, granule),
            used: HashMap::with_capacity(1024),
            idle: LruCache::unbounded(),
            evictions: 0,
            flushes: 0,
        }
    }

    fn one(&mut self, data: u64, len: u64) -> u64 {
        if let Some(place) = self.used.get_mut(&data) {
            place.references += 1;
            return 0;
        }
        if let Some(offset) = self.idle.pop(&data) {
            self.used.insert(data, Place { offset, references: 1 });
            return 0;
        }
        let mut left = false;
        let offset = loop {
            if let Ok(offset) = self.space.alloc(len) {
                break offset;
            }
            let (_, oldest) = self.idle.pop_lru().expect("room beside few data in use");
            self.space.free(oldest).expect("it was in use");
            self.evictions += 1;
            left = true;
        };
        self.flushes += u64::from(left && self.idle.is_empty());
        self.used.insert(data, Place { offset, references: 1 });
        len
    }
}

impl Side for Plain {
    fn take(&mut self, wanted: &[(u64, u64)]) -> u64 {
        wanted.iter().map(|&(data, len)| self.one(data, len)).sum()
    }

    fn free(&mut self, data: u64) {
        let place = self.used.get_mut(&data).expect("in use");
        place.references -= 1;
        if place.references == 0 {
            let offset = place.offset;
            self.used.remove(&data);
            self.idle.put(data, offset);
        }
    }

    fn evictions(&self) -> u64 {
        self.evictions
    }

    fn flushes(&self) -> u64 {
        self.flushes
    }
}
