//! The way from an offset to a record that is not where the offset tells.
//!
//! A lent word leads to the records of the ranges in use that share it, which are a list, the most recent first. These
//! are the ranges whose [homes](super::spare) were taken, so a word for every few records is enough.
//!
//! *Cost*: one line of the words, and the records in front of the one that is looked for.

use super::Block;
use super::bins::NIL;
use super::fold::Fold;

/// The lent words, each with the most recent range of its list.
#[derive(Clone, Debug)]
pub(super) struct Starts<T> {
    words: T,
    fold: Fold,
}

impl<T: AsRef<[u32]> + AsMut<[u32]>> Starts<T> {
    /// For so many granules, whatever the words held before; none of them leads to a record.
    pub(super) fn new(mut words: T, granules: u32) -> Self {
        words.as_mut().fill(NIL);
        let fold = Fold::new(granules, words.as_ref().len());
        Starts { words, fold }
    }

    /// The record of the range that starts at this granule, if it is in a list.
    #[inline]
    pub(super) fn find(&self, records: &[Block], start: u32) -> Option<u32> {
        let mut at = *self.words.as_ref().get(self.fold.of(start))?;
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
        let word = self.fold.of(record.start);
        if let Some(first) = self.words.as_mut().get_mut(word) {
            record.links.next = core::mem::replace(first, index);
        }
    }

    /// Takes the range that starts at this granule out of its list, if it is in one; gives its record.
    #[inline]
    pub(super) fn leave(&mut self, records: &mut [Block], start: u32) -> Option<u32> {
        let word = self.fold.of(start);
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
