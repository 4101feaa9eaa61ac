//! Records that no range has, and which of them a range gets.
//!
//! Spare records are a list, from which any can be taken. Where ranges are found by their offset, a range in use gets one of
//! two records beside each other that its offset tells, its homes, if one is spare. So its offset alone leads to its record,
//! and nothing else is read.
//!
//! *Cost*: the first record of the list and the one behind it, or a home and its neighbours in the list, which are written.

use super::bins::{Links, NIL};
use super::block::State;
use super::{Block, Memory};

impl<S: AsRef<[Block]> + AsMut<[Block]>> Memory<S> {
    /// Of the two homes of a range that starts at this granule the first that is as wanted, if one is.
    #[inline]
    fn home(&self, start: u32, wanted: impl Fn(&Block) -> bool) -> Option<u32> {
        let first = self.homes?.of(start) as u32;
        let records = self.blocks.as_ref();
        // Without a branch, which would be taken by chance and wait for the record.
        let at = first ^ u32::from(!wanted(records.get(first as usize)?));
        wanted(records.get(at as usize)?).then_some(at)
    }

    /// The record of the range in use that starts at this granule, if it is at home.
    #[inline]
    pub(super) fn at_home(&self, start: u32) -> Option<u32> {
        self.home(start, |record| (record.start == start) & (record.state == State::Used))
    }

    /// Whether a record in use is where its offset tells, so that no table need lead to it.
    #[inline]
    pub(super) fn is_at_home(&self, index: u32, start: u32) -> bool {
        self.homes.is_some_and(|homes| homes.of(start) as u32 ^ index < 2)
    }

    /// Takes a record for a range in use that starts at this granule: a home of it, or else any.
    #[inline]
    pub(super) fn take_record_at(&mut self, start: u32) -> Option<u32> {
        match self.home(start, |record| record.state == State::Spare) {
            Some(home) => Some(self.take_out(home)),
            None => self.take_record(),
        }
    }

    /// Takes a home for a range that starts at this granule and has a record, unless it is there.
    #[inline]
    pub(super) fn take_home(&mut self, has: u32, start: u32) -> Option<u32> {
        if self.is_at_home(has, start) {
            return None;
        }
        let home = self.home(start, |record| record.state == State::Spare)?;
        Some(self.take_out(home))
    }

    /// Takes any record.
    #[inline]
    pub(super) fn take_record(&mut self) -> Option<u32> {
        let index = self.spare;
        self.spare = self.blocks.as_ref().get(index as usize)?.links.next;
        if let Some(next) = self.blocks.as_mut().get_mut(self.spare as usize) {
            next.links.prev = NIL;
        }
        Some(index)
    }

    /// Takes a spare record out of the list.
    #[inline]
    fn take_out(&mut self, index: u32) -> u32 {
        let Links { prev, next } = self.get(index).links;
        let records = self.blocks.as_mut();
        if let Some(next) = records.get_mut(next as usize) {
            next.links.prev = prev;
        }
        match records.get_mut(prev as usize) {
            Some(prev) => prev.links.next = next,
            None => self.spare = next,
        }
        index
    }

    /// Gives a record back that no range has any more.
    #[inline]
    pub(super) fn give_record(&mut self, index: u32) {
        let next = core::mem::replace(&mut self.spare, index);
        let record = self.at(index);
        record.state = State::Spare;
        record.links = Links { prev: NIL, next };
        if let Some(next) = self.blocks.as_mut().get_mut(next as usize) {
            next.links.prev = index;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::vec;

    use crate::memory::{Block, Granule, NotAllocated, Offsets};

    #[test]
    fn a_range_lies_at_home_while_that_is_spare_and_a_word_leads_to_the_others() {
        // Four homes and two records more, so six ranges of which any two may have the same homes.
        let mut memory = Offsets::new(vec![Block::default(); 6], [9], 64, Granule::BYTE);
        let mut home = 0;
        for offset in [0, 1, 2, 3, 4] {
            assert_eq!(memory.alloc(1), Ok(offset));
            let block = memory.look_up(offset).unwrap().block;
            home += u32::from(memory.memory().is_at_home(block.index(), offset as u32));
        }
        assert!((2..5).contains(&home), "{home}");
        for offset in [2, 0, 4, 1, 3] {
            assert_eq!(memory.free(offset), Ok(1));
            assert_eq!(memory.free(offset), Err(NotAllocated { offset }));
        }
        assert_eq!(memory.alloc(64), Ok(0), "all records are spare again");
    }
}
