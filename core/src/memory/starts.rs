//! The way from an offset to a record that is not where the offset tells.
//!
//! A lent word leads to the records of the ranges in use that share it, which are a list, the most recent first. These
//! are the ranges whose [homes](super::spare) were taken. Ranges of one length may all have the same few homes, so words are
//! found in another way: by the highest bits of a product (Knuth, The Art of Computer Programming, volume 3, section 6.4), by which
//! no step from one range to the next brings many to one word.
//!
//! *Cost*: one line of the words, and the records in front of the one that is looked for.

use super::Block;
use super::bins::NIL;

/// The lent words, each with the most recent range of its list.
#[derive(Clone, Debug)]
pub(super) struct Starts<T> {
    words: T,
    /// So many of the words are of use, as a power of two.
    bits: u32,
}

/// Two to the power of 32, divided by the golden ratio, and odd.
const FACTOR: u32 = 0x9e37_79b9;

impl<T: AsRef<[u32]> + AsMut<[u32]>> Starts<T> {
    /// Whatever the words held before, none of them leads to a record.
    pub(super) fn new(mut words: T) -> Self {
        words.as_mut().fill(NIL);
        let bits = words.as_ref().len().checked_ilog2().unwrap_or(0).min(u32::BITS);
        Starts { words, bits }
    }

    /// The word of a range.
    #[inline]
    fn word(&self, start: u32) -> usize {
        (u64::from(start.wrapping_mul(FACTOR)) >> (u32::BITS - self.bits)) as usize
    }

    /// The record of the range that starts at this granule, if it is in a list.
    #[inline]
    pub(super) fn find(&self, records: &[Block], start: u32) -> Option<u32> {
        let mut at = *self.words.as_ref().get(self.word(start))?;
        loop {
            let record = records.get(at as usize)?;
            if record.start == start {
                return Some(at);
            }
            at = record.links.next;
        }
    }

    /// Puts a range into a list; nothing else needs the links of its record while it is in use.
    #[inline]
    pub(super) fn enter(&mut self, records: &mut [Block], index: u32) {
        let Some(record) = records.get_mut(index as usize) else { return };
        let word = self.word(record.start);
        if let Some(first) = self.words.as_mut().get_mut(word) {
            record.links.next = core::mem::replace(first, index);
        }
    }

    /// Takes the range that starts at this granule out of its list, if it is in one; gives its record.
    #[inline]
    pub(super) fn leave(&mut self, records: &mut [Block], start: u32) -> Option<u32> {
        let word = self.word(start);
        let first = self.words.as_mut().get_mut(word)?;
        let found = *first;
        let record = records.get(found as usize)?;
        if record.start == start {
            *first = record.links.next;
            return Some(found);
        }
        let mut before = found;
        loop {
            let at = records.get(before as usize)?.links.next;
            let record = records.get(at as usize)?;
            if record.start == start {
                records[before as usize].links.next = record.links.next;
                return Some(at);
            }
            before = at;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::vec;

    use crate::memory::{Block, Granule, Offsets};

    use super::*;

    impl<T: AsRef<[u32]>> Starts<T> {
        /// Ranges in the longest list.
        pub(in crate::memory) fn longest(&self, records: &[Block]) -> usize {
            let next = |&at: &u32| records.get(at as usize).map(|record| record.links.next);
            let list = |&first: &u32| core::iter::successors(Some(first), next).count() - 1;
            self.words.as_ref().iter().map(list).max().unwrap_or_default()
        }
    }

    #[test]
    fn ranges_of_one_length_around_a_power_of_two_make_no_long_list() {
        for ranges in [1023_usize, 4095] {
            for len in (3..13).flat_map(|bit| (1 << bit) - 1..(1 << bit) + 5_u64) {
                let granules = ranges * len as usize;
                let words = vec![0; Offsets::words_for(granules, ranges)];
                let blocks = vec![Block::default(); 2 * ranges + 1];
                let mut memory = Offsets::new(blocks, words, granules as u64, Granule::BYTE);
                assert!((0..ranges).all(|_| memory.alloc(len).is_ok()));
                let longest = memory.longest();
                assert!(longest <= 8, "{ranges} ranges of {len} granules: {longest}");
            }
        }
    }

    #[test]
    fn one_word_leads_to_everything_and_so_do_more_than_are_of_use() {
        let ends = |words| {
            let mut starts = Starts::new(vec![0; words]);
            let mut records = vec![Block::default(); 3];
            for (index, start) in [0, 7, u32::MAX - 1].into_iter().enumerate() {
                records[index].start = start;
                starts.enter(&mut records, index as u32);
                assert_eq!(starts.find(&records, start), Some(index as u32));
            }
            assert_eq!(starts.leave(&mut records, 7), Some(1));
            assert_eq!((starts.find(&records, 7), starts.leave(&mut records, 7)), (None, None));
            assert_eq!(starts.find(&records, 0), Some(0));
        };
        [1, 2, 3, 1000].into_iter().for_each(ends);
    }
}
