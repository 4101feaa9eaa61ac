//! Ranges in bins by length: one that is long enough is found by counting zeros.
//!
//! Each power of two is cut into 32 bins of equal width; lengths below 32 have a bin of their own. A bin is a
//! list through the records, the most recent first; one bit a bin and one bit a power of two tell which hold
//! something.
//!
//! *Cost*: `link` and `unlink` are O(1) and touch two records beside the one named; `above` is two bit scans.

/// No record.
pub(crate) const NIL: u32 = u32::MAX;

const SECOND_BITS: u32 = 5;
const SECOND: usize = 1 << SECOND_BITS;
const FIRST: usize = 32 - SECOND_BITS as usize + 1;

/// A record that can stand in a bin.
pub(crate) trait Binned {
    /// The length that it is sorted by.
    fn length(&self) -> u32;
    /// Its neighbours in the bin; meaningful only while it stands in one.
    fn links(&mut self) -> &mut Links;
    /// The one behind it in the bin.
    fn next(&self) -> u32;
}

/// Neighbours in a list through records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Links {
    pub(crate) prev: u32,
    pub(crate) next: u32,
}

impl Links {
    pub(crate) const NONE: Self = Links { prev: NIL, next: NIL };
}

/// Where lengths of one kind stand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bin {
    first: u8,
    second: u8,
}

impl Bin {
    /// The bin of a length.
    #[inline]
    pub(crate) const fn of(length: u32) -> Bin {
        if length < SECOND as u32 {
            return Bin { first: 0, second: length as u8 };
        }
        let shift = length.ilog2() - SECOND_BITS;
        Bin { first: (shift + 1) as u8, second: (length >> shift) as u8 & (SECOND as u8 - 1) }
    }
}

/// All bins of one set of records.
#[derive(Clone, Debug)]
pub(crate) struct Bins {
    heads: [[u32; SECOND]; FIRST],
    second: [u32; FIRST],
    first: u32,
}

impl Bins {
    pub(crate) const EMPTY: Self = Bins { heads: [[NIL; SECOND]; FIRST], second: [0; FIRST], first: 0 };

    /// The most recent record of a bin, or [`NIL`].
    #[inline]
    pub(crate) fn head(&self, bin: Bin) -> u32 {
        self.heads[bin.first as usize][bin.second as usize]
    }

    /// The next bin above this one that holds something; all in it are longer than all in this one.
    #[inline]
    pub(crate) fn above(&self, bin: Bin) -> Option<Bin> {
        let row = bin.first as usize;
        let bits = self.second[row] & (u32::MAX << bin.second << 1);
        if bits != 0 {
            return Some(Bin { first: bin.first, second: bits.trailing_zeros() as u8 });
        }
        let rows = self.first & (u32::MAX << bin.first << 1);
        let row = rows.trailing_zeros() as usize;
        let bits = self.second.get(row)?;
        Some(Bin { first: row as u8, second: bits.trailing_zeros() as u8 })
    }

    /// The bin of the greatest lengths that holds something.
    pub(crate) fn top(&self) -> Option<Bin> {
        let row = self.first.checked_ilog2()?;
        let second = self.second[row as usize].checked_ilog2()?;
        Some(Bin { first: row as u8, second: second as u8 })
    }

    /// The first record of at least `length`: of the first `peek` in its own bin, else of any bin above.
    #[inline]
    pub(crate) fn find<T: Binned>(&self, records: &[T], length: u32, peek: usize) -> Option<u32> {
        let own = Bin::of(length);
        self.walk(records, own, peek, |record| record.length() >= length)
            .or_else(|| self.above(own).map(|bin| self.head(bin)))
    }

    /// A record of at least `length`, if there is any: as [`find`](Self::find), and then of all in its own bin.
    pub(crate) fn find_any<T: Binned>(&self, records: &[T], length: u32, peek: usize) -> Option<u32> {
        self.find(records, length, peek)
            .or_else(|| self.walk(records, Bin::of(length), records.len(), |record| record.length() >= length))
    }

    /// The first record of a bin, of at most `most`, that is as wanted.
    #[inline]
    pub(crate) fn walk<T: Binned>(
        &self,
        records: &[T],
        bin: Bin,
        most: usize,
        wanted: impl Fn(&T) -> bool,
    ) -> Option<u32> {
        let mut at = self.head(bin);
        for _ in 0..most {
            let record = records.get(at as usize)?;
            if wanted(record) {
                return Some(at);
            }
            at = record.next();
        }
        None
    }

    /// Puts a record into the bin of its length.
    #[inline]
    pub(crate) fn link<T: Binned>(&mut self, records: &mut [T], index: u32) {
        let bin = Bin::of(records[index as usize].length());
        let head = core::mem::replace(&mut self.heads[bin.first as usize][bin.second as usize], index);
        if let Some(head) = records.get_mut(head as usize) {
            head.links().prev = index;
        }
        *records[index as usize].links() = Links { prev: NIL, next: head };
        self.second[bin.first as usize] |= 1 << bin.second;
        self.first |= 1 << bin.first;
    }

    /// Takes a record out of its bin; its length must be that with which it was put in.
    #[inline]
    pub(crate) fn unlink<T: Binned>(&mut self, records: &mut [T], index: u32) {
        let bin = Bin::of(records[index as usize].length());
        self.unlink_from(records, index, bin);
    }

    /// Takes a record out of the bin that it was put in, whatever length it has now.
    #[inline]
    pub(crate) fn unlink_from<T: Binned>(&mut self, records: &mut [T], index: u32, bin: Bin) {
        let Links { prev, next } = *records[index as usize].links();
        if let Some(next) = records.get_mut(next as usize) {
            next.links().prev = prev;
        }
        if let Some(prev) = records.get_mut(prev as usize) {
            prev.links().next = next;
            return;
        }
        self.heads[bin.first as usize][bin.second as usize] = next;
        if next == NIL {
            self.second[bin.first as usize] &= !(1 << bin.second);
            if self.second[bin.first as usize] == 0 {
                self.first &= !(1 << bin.first);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{vec, vec::Vec};

    use super::*;

    /// Of so many cases Miri, which takes a thousand times as long, looks at one.
    const STEP: usize = if cfg!(miri) { 499 } else { 1 };

    /// Every bin, with the least and the greatest length that stand in it, worked out by adding up widths.
    fn every_bin() -> Vec<(Bin, u32, u32)> {
        let mut bins = vec![];
        let mut least = 0_u64;
        for first in 0..FIRST {
            let width = 1_u64 << first.saturating_sub(1);
            for second in 0..SECOND {
                let bin = Bin { first: first as u8, second: second as u8 };
                bins.push((bin, least as u32, (least + width - 1) as u32));
                least += width;
            }
        }
        assert_eq!(least, 1 << 32, "all lengths, and each once");
        bins
    }

    #[test]
    fn s76_every_length_has_the_bin_that_it_lies_in_and_bins_are_a_thirty_second_wide() {
        for (bin, least, greatest) in every_bin() {
            assert!(least < SECOND as u32 || (greatest - least + 1) * SECOND as u32 <= least, "{bin:?}");
            // What is between them has the same bin, because neither the power of two nor the shifted bits change.
            assert_eq!((Bin::of(least), Bin::of(greatest)), (bin, bin));
            assert_eq!(least ^ greatest, greatest - least, "the lowest bits run from all zeros to all ones");
        }
        let every = every_bin();
        // Nothing rests on that: all of the short ones, and some of the others.
        for length in (0..1 << 18).chain((0..=u32::MAX).step_by(65_521)).step_by(STEP) {
            let found = Bin::of(length);
            let (bin, least, greatest) = every[usize::from(found.first) * SECOND + usize::from(found.second)];
            assert!(bin == found && (least..=greatest).contains(&length), "{length}");
        }
    }

    struct Length(u32, Links);
    impl Binned for Length {
        fn length(&self) -> u32 {
            self.0
        }
        fn links(&mut self) -> &mut Links {
            &mut self.1
        }
        fn next(&self) -> u32 {
            self.1.next
        }
    }

    #[test]
    fn behind_many_that_are_too_short_a_longer_bin_comes_first_and_the_rest_of_the_own_one_at_last() {
        // 64 and 65 have one bin, and the last that was put in is looked at first.
        let mut records: Vec<_> = [65, 100, 64, 64, 64].map(|of| Length(of, Links::NONE)).into();
        let mut bins = Bins::EMPTY;
        (0..5).for_each(|index| bins.link(&mut records, index));
        assert_eq!(bins.find_any(&records, 65, 4), Some(0));
        assert_eq!(bins.find_any(&records, 65, 3), Some(1));
        bins.unlink(&mut records, 1);
        assert_eq!(bins.find_any(&records, 65, 3), Some(0));
        bins.unlink(&mut records, 0);
        assert_eq!(bins.find_any(&records, 65, 3), None);
    }

    #[test]
    fn s76_the_next_bin_above_and_the_top_are_those_that_counting_finds() {
        let all = every_bin();
        // Every bin alone, and beside one far above, asked for from every other.
        for held in (0..all.len()).step_by(STEP) {
            let mut records: Vec<_> =
                [all[held].1, all[all.len() - 1 - held / 2].2].map(|of| Length(of, Links::NONE)).into();
            for count in 1..=2 {
                let mut bins = Bins::EMPTY;
                (0..count).for_each(|index| bins.link(&mut records, index));
                let taken: Vec<Bin> = records[..count as usize].iter().map(|record| Bin::of(record.0)).collect();
                let order = |bin: &Bin| (bin.first, bin.second);
                assert_eq!(bins.top(), taken.iter().copied().max_by_key(order));
                for (bin, ..) in &all {
                    let above = taken.iter().copied().filter(|held| order(held) > order(bin)).min_by_key(order);
                    assert_eq!(bins.above(*bin), above, "above {bin:?} of {taken:?}");
                }
                (0..count).for_each(|index| bins.unlink(&mut records, index));
                assert_eq!((bins.top(), bins.first, bins.second), (None, 0, [0; FIRST]));
            }
        }
    }
}
