//! What the machine has, and has done.

use super::Stage;
use super::ask::Counters;
use super::lent::Storage;
use crate::cache::Statistics;

impl<S: Storage> Stage<S> {
    /// How many slots there are.
    #[must_use]
    pub fn slots(&self) -> u32 {
        self.cache.capacity()
    }

    /// Slots with a span, or about to have one.
    #[must_use]
    pub fn used(&self) -> u32 {
        self.cache.len().unwrap_or(0)
    }

    /// Regions of which spans may be kept.
    #[must_use]
    pub fn regions(&self) -> usize {
        self.kept.open()
    }

    /// What the cache counted: hits, joins of fills under way, fills, evictions, and spans that were dropped.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.cache.statistics()
    }

    /// What else was counted.
    #[must_use]
    pub const fn counters(&self) -> Counters {
        self.counters
    }

    /// Spans that were read ahead, or are to be, and that nobody has asked for yet.
    #[must_use]
    pub const fn unused(&self) -> u32 {
        self.ahead.all()
    }
}
