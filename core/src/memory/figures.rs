//! How full a memory is, and how scattered.

use super::{Block, Memory, WALK};

/// What [`Memory::figures`] tells, in bytes where not said otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct Figures {
    /// Managed.
    pub capacity: u64,
    /// Free, in all ranges together.
    pub free: u64,
    /// The longest free range; with ranges that are [kept whole](super::QuickFit) not one that joining them would give.
    ///
    /// Exact unless more than [`WALK`] ranges share its bin; then the longest of these, which is at most one part in
    /// 32 shorter.
    pub largest: u64,
    /// Number of ranges in use.
    pub used_ranges: u32,
    /// Number of free ranges; no two of them touch, unless they are [kept whole](super::QuickFit).
    pub free_ranges: u32,
}

impl Figures {
    /// The part of the free memory that is not in the longest free range, in 1/1000: 0 is one piece, 1000 dust.
    #[must_use]
    pub fn fragmentation_permille(&self) -> u32 {
        let rest = u128::from(self.free - self.largest.min(self.free));
        (rest * 1000).checked_div(u128::from(self.free)).map_or(0, |part| part as u32)
    }
}

impl<S: AsRef<[Block]> + AsMut<[Block]>> Memory<S> {
    /// How full the memory is, and how scattered; looks at [`WALK`] records at most.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let records = self.blocks.as_ref();
        let mut longest = 0;
        let mut at = self.bins.top().map_or(super::NIL, |bin| self.bins.head(bin));
        for _ in 0..WALK {
            let Some(block) = records.get(at as usize) else { break };
            longest = longest.max(block.len);
            at = block.links.next;
        }
        Figures {
            capacity: self.capacity_bytes(),
            free: self.free_bytes(),
            largest: self.granule.of(longest),
            used_ranges: self.used_ranges,
            free_ranges: self.free_ranges,
        }
    }
}
