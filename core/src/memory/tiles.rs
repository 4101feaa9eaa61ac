//! Cutting free ranges and joining them again: the records that tile the memory.

use super::bins::{Bin, Links};
use super::block::State;
use super::{Block, Extent, Memory};

impl<S: AsRef<[Block]> + AsMut<[Block]>> Memory<S> {
    /// Takes `len` granules out of a free range, `gap` granules behind its start; `None` if records lack.
    #[inline]
    pub(super) fn cut(&mut self, found: u32, gap: u32, len: u32) -> Option<Extent> {
        let whole = *self.get(found);
        let rest = whole.len - gap - len;
        if gap == 0 && rest == 0 {
            self.unlink(found);
            self.at(found).state = State::Used;
            return Some(self.hand_out(found));
        }
        let used = self.take_record()?;
        let (start, mut after) = (whole.start + gap, whole.after);
        if gap > 0 && rest > 0 {
            let Some(tail) = self.take_record() else {
                self.give_record(used);
                return None;
            };
            self.insert(tail, used, after, start + len, rest);
            self.link(tail);
            after = tail;
        }
        // The record found goes on as what is left of it; where its bin stays the same it stays where it is.
        let left = if gap > 0 { gap } else { rest };
        let moves = Bin::of(left) != Bin::of(whole.len);
        if moves {
            self.unlink(found);
        }
        self.at(found).len = left;
        if gap > 0 {
            self.insert(used, found, after, start, len);
        } else {
            self.at(found).start = start + len;
            self.insert(used, whole.before, found, start, len);
        }
        if moves {
            self.link(found);
        }
        Some(self.hand_out(used))
    }

    fn hand_out(&mut self, index: u32) -> Extent {
        self.free -= self.get(index).len;
        self.used_ranges += 1;
        self.extent(index)
    }

    /// Makes a spare record the one of a range between two others.
    #[inline]
    fn insert(&mut self, index: u32, before: u32, after: u32, start: u32, len: u32) {
        let generation = self.get(index).generation;
        *self.at(index) = Block { start, len, generation, state: State::Used, before, after, links: Links::NONE };
        let records = self.blocks.as_mut();
        if let Some(before) = records.get_mut(before as usize) {
            before.after = index;
        }
        if let Some(after) = records.get_mut(after as usize) {
            after.before = index;
        }
    }

    #[inline]
    pub(super) fn release(&mut self, this: u32) {
        let block = self.at(this);
        block.generation = block.generation.next();
        let Block { len, before, after, .. } = *block;
        self.free += len;
        self.used_ranges -= 1;
        let records = self.blocks.as_ref();
        let is_free = |at: u32| records.get(at as usize).is_some_and(|block| block.state == State::Free);
        match (is_free(before), is_free(after)) {
            (false, false) => self.link(this),
            (true, false) => self.lengthen(before, this),
            (false, true) => {
                let block = *self.get(this);
                let whole = block.len + self.get(after).len;
                self.resize(after, whole);
                let kept = self.at(after);
                kept.start = block.start;
                kept.before = block.before;
                if let Some(before) = self.blocks.as_mut().get_mut(block.before as usize) {
                    before.after = after;
                }
                self.give_record(this);
            }
            (true, true) => {
                self.unlink(after);
                self.absorb(this, after);
                self.lengthen(before, this);
            }
        }
    }

    /// Joins a range that is in no bin to the free one in front of it.
    #[inline]
    fn lengthen(&mut self, before: u32, this: u32) {
        let whole = self.get(before).len + self.get(this).len;
        self.resize(before, whole);
        let after = self.get(this).after;
        self.at(before).after = after;
        if let Some(after) = self.blocks.as_mut().get_mut(after as usize) {
            after.before = before;
        }
        self.give_record(this);
    }

    fn absorb(&mut self, into: u32, gone: u32) {
        let Block { len, after, .. } = *self.get(gone);
        let block = self.at(into);
        block.len += len;
        block.after = after;
        if let Some(after) = self.blocks.as_mut().get_mut(after as usize) {
            after.before = into;
        }
        self.give_record(gone);
    }

    /// Gives a free range another length; it keeps its place in its bin where that stays the same.
    #[inline]
    fn resize(&mut self, index: u32, len: u32) {
        if Bin::of(self.get(index).len) == Bin::of(len) {
            self.at(index).len = len;
        } else {
            self.unlink(index);
            self.at(index).len = len;
            self.link(index);
        }
    }

    #[inline]
    pub(super) fn take_record(&mut self) -> Option<u32> {
        let index = self.spare;
        self.spare = self.blocks.as_ref().get(index as usize)?.links.next;
        Some(index)
    }

    #[inline]
    fn give_record(&mut self, index: u32) {
        let next = core::mem::replace(&mut self.spare, index);
        let record = self.at(index);
        record.state = State::Spare;
        record.links.next = next;
    }

    #[inline]
    pub(super) fn link(&mut self, index: u32) {
        self.at(index).state = State::Free;
        self.free_ranges += 1;
        self.bins.link(self.blocks.as_mut(), index);
    }

    #[inline]
    fn unlink(&mut self, index: u32) {
        self.free_ranges -= 1;
        self.bins.unlink(self.blocks.as_mut(), index);
    }

    #[inline]
    pub(super) fn get(&self, index: u32) -> &Block {
        &self.blocks.as_ref()[index as usize]
    }

    #[inline]
    pub(super) fn at(&mut self, index: u32) -> &mut Block {
        &mut self.blocks.as_mut()[index as usize]
    }
}
