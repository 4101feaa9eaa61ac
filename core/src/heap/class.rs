//! Sizes of blocks: four classes a power of two, how many of each a span holds.

/// Most classes of small blocks that a heap can have.
pub(super) const CLASSES: usize = 63;
/// The class of entries whose blocks are runs of their own.
pub(super) const LARGE: usize = CLASSES;
/// Blocks of a span, and entries of a group: one word of hints.
pub(super) const SPAN: usize = 64;
/// A class is small if so many of its blocks fit into the longest span.
const FEWEST: u64 = 4;
/// No small block is longer.
const SMALL: u64 = 64 << 10;
/// No span is longer.
const LONGEST: u64 = 4 << 20;

/// The sizes of a heap's blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    /// Bytes that every block's size and place is a multiple of; a power of two.
    pub(super) granule: u64,
    /// Bytes of the smallest run; a power of two, at most 64 granules.
    pub(super) unit: u64,
    /// Bytes of the longest span; a power of two.
    longest: u64,
    /// Classes of small blocks.
    small: usize,
}

/// Of that many granules each.
const fn granules(class: usize) -> u64 {
    if class < 4 {
        return class as u64 + 1;
    }
    let (power, step) = (class / 4 + 1, class as u64 % 4 + 1);
    (1 << power) + (step << (power - 2))
}

/// The smallest class with so many granules.
const fn class_of(granules: u64) -> usize {
    if granules <= 4 {
        return (granules as usize).saturating_sub(1);
    }
    let power = (granules - 1).ilog2();
    let step = (granules - (1 << power)).div_ceil(1 << (power - 2));
    4 * (power as usize - 1) + step as usize - 1
}

impl Sizes {
    /// For a heap of so many bytes; both others are powers of two.
    pub(super) fn new(bytes: u64, granule: u64, unit: u64) -> Sizes {
        // A few spans take a small heap whole.
        let share = if bytes < 64 << 10 { 4 } else { 16 };
        let longest = (1_u64 << (bytes / share).max(1).ilog2()).clamp(unit, LONGEST.max(unit));
        let mut sizes = Sizes { granule, unit, longest, small: 0 };
        let is_small = |class: usize| {
            let size = granules(class) * granule;
            size <= SMALL && size * FEWEST <= longest
        };
        sizes.small = (0..CLASSES).take_while(|&class| is_small(class)).count();
        sizes
    }

    /// Classes of small blocks.
    pub(super) const fn small(&self) -> usize {
        self.small
    }

    /// The class for blocks of so many bytes.
    #[inline]
    pub(super) const fn class(&self, len: u64) -> usize {
        let class = class_of(len.div_ceil(self.granule));
        if class < self.small { class } else { LARGE }
    }

    /// Bytes of a block of a small class.
    #[inline]
    pub(super) const fn size(&self, class: usize) -> u64 {
        granules(class) * self.granule
    }

    /// Bytes of a span of a small class.
    pub(super) fn span(&self, class: usize) -> u64 {
        let whole = (SPAN as u64) << self.size(class).ilog2();
        whole.clamp(self.unit, self.longest)
    }

    /// The order of the run that a span of a small class is.
    pub(super) fn span_order(&self, class: usize) -> u32 {
        self.order(self.span(class))
    }

    /// The order of the smallest run of at least so many bytes.
    pub(super) const fn order(&self, len: u64) -> u32 {
        let units = len.div_ceil(self.unit);
        if units <= 1 { 0 } else { (units - 1).ilog2() + 1 }
    }

    /// Groups that have entries for so many blocks of any one size, of which a heap of so many bytes has spans.
    pub(super) fn groups(&self, bytes: u64, blocks: u64) -> u64 {
        let entries = |class| u64::from(self.slots(class).count_ones());
        let of = |class| blocks.div_ceil(entries(class)).min(bytes / self.span(class));
        (0..self.small).map(of).max().unwrap_or(0).max(blocks.div_ceil(entries(LARGE)))
    }

    /// The entries that a group of this class uses, one bit each.
    pub(super) fn slots(&self, class: usize) -> u64 {
        // The other half of the details says where the runs of the large ones begin.
        if class == LARGE {
            return u64::MAX / 3;
        }
        let blocks = (self.span(class) / self.size(class)).min(SPAN as u64) as u32;
        u64::MAX >> (SPAN as u32 - blocks.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_length_has_the_smallest_class_that_holds_it() {
        for wanted in 1..=40_000 {
            let class = class_of(wanted);
            assert!(granules(class) >= wanted);
            assert!(class == 0 || granules(class - 1) < wanted, "{wanted}");
            assert!(wanted <= 4 || granules(class) * 4 <= wanted * 5 + 4, "a quarter is wasted at most: {wanted}");
        }
    }

    #[test]
    fn blocks_lie_inside_their_span() {
        for (bytes, granule, unit) in
            [(160, 32, 32), (1 << 20, 32, 2048), (64 << 20, 32, 2048), (1 << 40, 4096, 262_144)]
        {
            let sizes = Sizes::new(bytes, granule, unit);
            for class in 0..sizes.small() {
                let blocks = u64::from(sizes.slots(class).count_ones());
                assert!(blocks >= FEWEST && blocks * sizes.size(class) <= sizes.span(class));
                assert_eq!(unit << sizes.span_order(class), sizes.span(class));
                assert_eq!(sizes.class(sizes.size(class)), class);
            }
        }
    }
}
