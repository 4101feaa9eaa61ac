//! Numbers of granules, folded over a table that may be shorter.
//!
//! The parts of a number's bits are laid over each other. So as many numbers in a row as the table has places have a place
//! each, and so have as many multiples of a power of two that is less than the square of that. No place is that of more numbers
//! than there are for each; but multiples of some other numbers have few places among them.

/// How numbers are folded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fold {
    /// The table is two to the power of that long.
    bits: u32,
}

impl Fold {
    /// Numbers below `granules`, over a table of `len` places, of which a power of two is of use unless there is one for each
    /// number.
    pub(super) fn new(granules: u32, len: usize) -> Self {
        let all = granules.saturating_sub(1).checked_ilog2().map_or(0, |last| last + 1);
        let bits = if len >= granules as usize { all } else { len.checked_ilog2().unwrap_or(0) };
        Fold { bits }
    }

    /// The place of a number.
    #[inline]
    pub(super) fn of(self, granule: u32) -> usize {
        let number = u64::from(granule);
        let folded = number ^ (number >> self.bits) ^ number.unbounded_shr(2 * self.bits);
        (folded & ((1 << self.bits) - 1)) as usize
    }
}

#[cfg(test)]
mod tests {
    use std::{vec, vec::Vec};

    use super::*;

    /// How often the most frequent place is that of one of these numbers.
    fn most(fold: Fold, len: usize, numbers: impl Iterator<Item = u32>) -> usize {
        let mut times = vec![0; len];
        numbers.for_each(|number| times[fold.of(number)] += 1);
        times.into_iter().max().unwrap_or_default()
    }

    #[test]
    fn numbers_in_a_row_and_multiples_of_a_power_of_two_have_a_place_each() {
        let (granules, len) = (1 << 16, 1 << 10);
        let fold = Fold::new(granules, len);
        for shift in 0..=6 {
            let numbers = (0..1024).map(|at| at << shift);
            assert_eq!(most(fold, len, numbers), 1, "multiples of {}", 1 << shift);
        }
        assert_eq!(most(fold, len, 0..granules), 64, "as many as there are for each");
    }

    #[test]
    fn a_table_with_a_place_for_each_number_has_one_and_another_is_not_left() {
        for granules in [0, 1, 2, 45, 64, 1000] {
            for len in [1, 2, 45, 63, 64, 1000, 1001] {
                let places: Vec<usize> = (0..granules).map(|number| Fold::new(granules, len).of(number)).collect();
                assert!(places.iter().all(|&place| place < len));
                assert!(len < granules as usize || places.iter().copied().eq(0..granules as usize));
            }
        }
        let last = Fold::new(u32::MAX, usize::MAX).of(u32::MAX - 1);
        assert_eq!(last, u32::MAX as usize - 1);
        assert_eq!(Fold::new(u32::MAX, 1).of(u32::MAX - 1), 0);
    }
}
