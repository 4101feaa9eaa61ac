//! A place of the index: data, the word of its slot, and the number of the slot.
//!
//! All three lie in one line of the processor's cache.

use crate::atomic::{AtomicU64, Ordering};

/// Slots of the first two places, head, the words of all three places, and their data.
pub(super) type Line = [AtomicU64; 8];
/// Places of a line.
pub(super) const PLACES: usize = 3;
/// Bits of a mark that say which place of the line it is: as many as tell its words apart.
pub(super) const AT_BITS: u32 = 3;
/// No slot.
pub(super) const NIL: u32 = u32::MAX;

/// In the head: the slot of the third place (32 bits), how many lines further data of this home may be (27), and who has
/// the line to himself: his number and one.
pub(super) const HEAD: usize = 1;
/// Behind the slots and the head.
const WORDS: usize = 2;
pub(super) const FAR: u32 = 32;
const FAR_BITS: u32 = 27;
pub(super) const FAR_MASK: u64 = (1 << FAR_BITS) - 1;
pub(super) const LOCK: u32 = FAR + FAR_BITS;
/// Lines that can be between data and its home, and so lines that there can be.
pub(super) const FARTHEST: usize = FAR_MASK as usize;
// Each place has a mark.
const _: () = assert!(FARTHEST < 1 << (u32::BITS - AT_BITS));

/// One place of a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    line: &'a Line,
    index: usize,
    at: usize,
}

impl<'a> Place<'a> {
    pub(super) fn new(line: &'a Line, index: usize, at: usize) -> Self {
        Place { line, index, at }
    }

    /// Counted over all lines.
    pub(super) fn number(&self) -> u32 {
        (self.index * PLACES + self.at) as u32
    }

    /// Another number, of the line and the place in it, which takes no division to find it by.
    #[inline(always)]
    pub(super) fn mark(&self) -> u32 {
        (self.index << AT_BITS | self.at) as u32
    }

    /// The number of its line.
    pub(super) fn line(&self) -> usize {
        self.index
    }

    /// What its slot is doing.
    #[inline(always)]
    pub(super) fn word(&self) -> &'a AtomicU64 {
        &self.line[WORDS + self.at]
    }

    /// Whose its slot is.
    #[inline(always)]
    pub(super) fn key(&self) -> &'a AtomicU64 {
        &self.line[WORDS + PLACES + self.at]
    }

    /// Whether its slot is that of this data, or was.
    #[inline(always)]
    pub(super) fn has(&self, data: u64) -> bool {
        self.key().load(Ordering::Acquire) == data
    }

    /// The half of a word in which the number of its slot is.
    #[inline(always)]
    fn half(&self) -> (&'a AtomicU64, u32) {
        (&self.line[self.at / 2], (self.at % 2) as u32 * 32)
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
