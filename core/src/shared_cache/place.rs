//! A place of the index: data, the word of its slot, and the number of the slot.
//!
//! All three lie in one line of the processor's cache.

use crate::atomic::{AtomicU64, Ordering};

/// Head, word and data of each place, tail.
pub(super) type Line = [AtomicU64; 8];
/// Places of a line.
pub(super) const PLACES: usize = 3;
/// No slot.
pub(super) const NIL: u32 = u32::MAX;

/// In the head: the slot of the first place (32 bits), how many lines further data of this home may be (27), and who has
/// the line to himself: his number and one. The tail: the slots of the second and the third place.
pub(super) const HEAD: usize = 0;
const TAIL: usize = 7;
pub(super) const FAR: u32 = 32;
const FAR_BITS: u32 = 27;
pub(super) const FAR_MASK: u64 = (1 << FAR_BITS) - 1;
pub(super) const LOCK: u32 = FAR + FAR_BITS;
/// Lines that can be between data and its home, and so lines that there can be.
pub(super) const FARTHEST: usize = FAR_MASK as usize;

/// One place of a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    line: &'a Line,
    at: usize,
    /// Counted over all lines.
    pub(super) number: u32,
}

impl<'a> Place<'a> {
    pub(super) fn new(line: &'a Line, index: usize, at: usize) -> Self {
        Place { line, at, number: (index * PLACES + at) as u32 }
    }

    /// The number of its line.
    pub(super) fn line(&self) -> usize {
        self.number as usize / PLACES
    }

    /// What its slot is doing.
    #[inline(always)]
    pub(super) fn word(&self) -> &'a AtomicU64 {
        &self.line[1 + 2 * self.at]
    }

    /// Whose its slot is.
    #[inline(always)]
    pub(super) fn key(&self) -> &'a AtomicU64 {
        &self.line[2 + 2 * self.at]
    }

    /// Whether its slot is that of this data, or was.
    #[inline(always)]
    pub(super) fn has(&self, data: u64) -> bool {
        self.key().load(Ordering::Acquire) == data
    }

    /// The half of a word in which the number of its slot is.
    #[inline(always)]
    fn half(&self) -> (&'a AtomicU64, u32) {
        let word = if self.at == 0 { HEAD } else { TAIL };
        (&self.line[word], if self.at == 2 { 32 } else { 0 })
    }

    /// Its slot, or no slot. Only whoever claimed the place changes it.
    #[inline(always)]
    pub(super) fn slot(&self) -> u32 {
        let (word, shift) = self.half();
        // Whoever sees the word of the place sees what was stored before that.
        (word.load(Ordering::Relaxed) >> shift) as u32
    }

    /// Gives it a slot, or none; the caller has claimed it.
    pub(super) fn set_slot(&self, slot: u32) {
        let (word, shift) = self.half();
        let change = u64::from(self.slot() ^ slot) << shift;
        // ORDERING: release, so that of two changes in a row nobody sees the second without the first. Others change the rest
        // of the word meanwhile.
        word.fetch_xor(change, Ordering::Release);
    }
}
