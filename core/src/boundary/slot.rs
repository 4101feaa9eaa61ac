//! The word of a slot of a pool, and the handles that it is compared with.

use crate::atomic::{AtomicU32, AtomicU64};

/// No slot.
pub(super) const NIL: u32 = u32::MAX;
pub(super) const LIVE: u64 = 1 << 31;
pub(super) const OWNERS: u64 = LIVE - 1;

/// Generation, life and owners of one slot; a [`Pool`](super::Pool) is lent one a slot.
#[derive(Debug)]
#[repr(C)]
pub struct Header {
    /// generation:32 | live:1 | owners:31
    pub(super) word: AtomicU64,
    pub(super) next: AtomicU32,
    pub(super) class: AtomicU32,
}

impl Header {
    /// A slot that was never used.
    #[cfg(not(loom))]
    #[must_use]
    pub const fn new() -> Header {
        Header { word: AtomicU64::new(0), next: AtomicU32::new(NIL), class: AtomicU32::new(0) }
    }

    /// A slot that was never used.
    #[cfg(loom)]
    #[must_use]
    pub fn new() -> Header {
        Header { word: AtomicU64::new(0), next: AtomicU32::new(NIL), class: AtomicU32::new(0) }
    }
}

impl Default for Header {
    fn default() -> Self {
        Header::new()
    }
}

/// Names an object without keeping it: plain data, valid or not.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(C)]
pub struct Weak {
    /// Which slot.
    pub index: u32,
    /// Which use of it.
    pub generation: u32,
}

impl Weak {
    /// As it goes over a wire: the index, then the generation, both with their lowest byte first.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 8] {
        ((self.generation as u64) << 32 | self.index as u64).to_le_bytes()
    }

    /// The handle in these bytes; all are one, and its pool says whether it names something.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 8]) -> Weak {
        let bits = u64::from_le_bytes(bytes);
        Weak { index: bits as u32, generation: (bits >> 32) as u32 }
    }
}

/// The word of a slot without owners, in its next generation; the last generation is not followed by another.
pub(super) const fn free_word(word: u64) -> u64 {
    (generation(word).saturating_add(1) as u64) << 32
}

pub(super) const fn generation(word: u64) -> u32 {
    (word >> 32) as u32
}

#[inline]
pub(super) const fn names(word: u64, weak: Weak) -> bool {
    generation(word) == weak.generation && word & LIVE != 0
}

/// The link of a slot to the next free one.
pub(super) fn next(headers: &[Header], index: u32) -> Option<&AtomicU32> {
    headers.get(index as usize).map(|header| &header.next)
}
