//! Size classes of a pool: slots of one size and the list of those that are free.
//!
//! [`Class::size_for`] rounds to powers of two with four steps each, so that at most a quarter is wasted.

use super::slot::{Header, NIL, next};
use crate::atomic::{AtomicU32, AtomicU64, Ordering};

/// Slots of one size; a [`Pool`](super::Pool) is lent some, in the order of their sizes.
#[derive(Debug)]
pub struct Class {
    size: u32,
    count: u32,
    first: u32,
    offset: u64,
    /// tag:32 | index:32; the tag counts changes, so that a head which came back is not taken for unchanged.
    head: AtomicU64,
}

impl Class {
    /// `count` slots of `size` bytes each.
    #[cfg(not(loom))]
    #[must_use]
    pub const fn new(size: u32, count: u32) -> Class {
        Class { size, count, first: 0, offset: 0, head: AtomicU64::new(NIL as u64) }
    }

    /// `count` slots of `size` bytes each.
    #[cfg(loom)]
    #[must_use]
    pub fn new(size: u32, count: u32) -> Class {
        Class { size, count, first: 0, offset: 0, head: AtomicU64::new(u64::from(NIL)) }
    }

    /// The size of the class for objects of so many bytes; at least 8, at most a quarter more than asked for. `None`
    /// above 3.5 GiB.
    #[must_use]
    pub const fn size_for(bytes: u32) -> Option<u32> {
        if bytes <= 8 {
            return Some(8);
        }
        // Four steps between a power of two and the next: the three bits at the top of what is rounded up count.
        let step = 1u32 << (bytes - 1).ilog2().saturating_sub(2);
        bytes.checked_next_multiple_of(step)
    }

    /// Bytes of each slot.
    #[must_use]
    pub const fn size(&self) -> u32 {
        self.size
    }

    /// Slots.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.count
    }

    pub(super) const fn first(&self) -> u32 {
        self.first
    }

    pub(super) const fn offset(&self) -> u64 {
        self.offset
    }

    pub(super) const fn place(&mut self, first: u64, offset: u64) {
        // A pool refuses more slots than there are indices before it uses this.
        (self.first, self.offset) = (first as u32, offset);
    }

    pub(super) fn clear(&self) {
        let tag = self.head.load(Ordering::Relaxed) >> 32;
        self.head.store(tag << 32 | u64::from(NIL), Ordering::Relaxed);
    }

    pub(super) fn pop(&self, headers: &[Header]) -> Option<u32> {
        // ORDERING: acquire pairs with the release of `push`: the link is the one that was stored before.
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            let index = head as u32;
            // A link that changes under us is that of a slot that was taken meanwhile, and then the tag has moved on.
            let after = next(headers, index)?.load(Ordering::Relaxed);
            match self.swap(head, after) {
                Ok(()) => return Some(index),
                // Another thread has popped or pushed.
                Err(now) => head = now,
            }
        }
    }

    pub(super) fn push(&self, index: u32, link: &AtomicU32) {
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            link.store(head as u32, Ordering::Relaxed);
            match self.swap(head, index) {
                Ok(()) => return,
                Err(now) => head = now,
            }
        }
    }

    fn swap(&self, head: u64, index: u32) -> Result<(), u64> {
        let tag = (head >> 32) as u32;
        let new = u64::from(tag.wrapping_add(1)) << 32 | u64::from(index);
        let swapped = self.head.compare_exchange_weak(head, new, Ordering::AcqRel, Ordering::Acquire);
        swapped.map(|_| ())
    }
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_waste_at_most_a_quarter() {
        let mut last = 0;
        for bytes in 1..100_000 {
            let size = Class::size_for(bytes).unwrap();
            assert!(size >= bytes && size >= last, "{bytes} -> {size}");
            assert!(bytes < 8 || size - bytes <= bytes / 4, "{bytes} -> {size}");
            last = size;
        }
        assert_eq!([64, 65, 80, 81, 97, 113].map(|n| Class::size_for(n).unwrap()), [64, 80, 80, 96, 112, 128]);
        assert_eq!(Class::size_for(u32::MAX), None);
    }
}
