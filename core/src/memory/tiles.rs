//! Cutting free ranges and joining them again: the records that tile the memory.

use super::bins::Bin;
use super::block::State::{self, Free, Used};
use super::{Block, Extent, Memory};

impl<S: AsRef<[Block]> + AsMut<[Block]>> Memory<S> {
    /// Takes `len` granules out of a free range, `gap` granules behind its start; `None` if records lack.
    #[inline]
    pub(super) fn cut(&mut self, found: u32, gap: u32, len: u32) -> Option<Extent> {
        let whole = *self.get(found);
        let (start, rest) = (whole.start + gap, whole.len - gap - len);
        if gap == 0 && rest == 0 {
            self.unlink(found);
            let Some(used) = self.take_home(found, start) else {
                self.mark(found, Used);
                return Some(self.hand_out(found));
            };
            self.insert(used, (whole.before, Used), (whole.after, Used), start, len);
            self.give_record(found);
            return Some(self.hand_out(used));
        }
        let used = self.take_record_at(start)?;
        if gap == 0 {
            self.resize(found, rest);
            self.at(found).start = start + len;
            self.insert(used, (whole.before, Used), (found, Free), start, len);
            return Some(self.hand_out(used));
        }
        let tail = if rest > 0 { self.take_record() } else { None };
        if rest > 0 && tail.is_none() {
            self.give_record(used);
            return None;
        }
        self.resize(found, gap);
        self.insert(used, (found, Free), (whole.after, Used), start, len);
        if let Some(tail) = tail {
            self.insert(tail, (used, Used), (whole.after, Used), start + len, rest);
            self.mark(tail, Free);
            self.link(tail);
        }
        Some(self.hand_out(used))
    }

    #[inline]
    fn hand_out(&mut self, index: u32) -> Extent {
        self.free -= self.get(index).len;
        self.used_ranges += 1;
        self.extent(index)
    }

    /// Makes a range in use free, and one with its free neighbours; gives the record of the whole.
    #[inline]
    pub(super) fn release(&mut self, this: u32) -> u32 {
        let block = self.at(this);
        block.generation = block.generation.next();
        let Block { start, len, before, after, before_free, after_free, .. } = *block;
        self.free += len;
        self.used_ranges -= 1;
        match (before_free, after_free) {
            (false, false) => {
                self.mark(this, Free);
                self.link(this);
                this
            }
            (true, false) => {
                self.resize(before, self.get(before).len + len);
                self.join((before, Free), (after, Used));
                self.give_record(this);
                before
            }
            (false, true) => {
                self.resize(after, self.get(after).len + len);
                self.at(after).start = start;
                self.join((before, Used), (after, Free));
                self.give_record(this);
                after
            }
            (true, true) => {
                let Block { len: more, after: beyond, .. } = *self.get(after);
                self.unlink(after);
                self.resize(before, self.get(before).len + len + more);
                self.join((before, Free), (beyond, Used));
                self.give_record(this);
                self.give_record(after);
                before
            }
        }
    }

    /// Puts a spare record between two others, as a range in use.
    #[inline]
    fn insert(&mut self, index: u32, before: (u32, State), after: (u32, State), start: u32, len: u32) {
        let block = self.at(index);
        (block.start, block.len, block.state) = (start, len, Used);
        self.join(before, (index, Used));
        self.join((index, Used), after);
    }

    /// Makes two records neighbours, and tells each whether the other is free.
    ///
    /// Who calls knows their states, so that neither record is waited for.
    #[inline]
    fn join(&mut self, before: (u32, State), after: (u32, State)) {
        let records = self.blocks.as_mut();
        if let Some(block) = records.get_mut(before.0 as usize) {
            debug_assert!((block.state == Free) == (before.1 == Free));
            (block.after, block.after_free) = (after.0, after.1 == Free);
        } else {
            self.first = after.0;
        }
        if let Some(block) = records.get_mut(after.0 as usize) {
            debug_assert!((block.state == Free) == (after.1 == Free));
            (block.before, block.before_free) = (before.0, before.1 == Free);
        }
    }

    /// Sets the state of a record, and tells its neighbours.
    #[inline]
    fn mark(&mut self, index: u32, state: State) {
        let block = self.at(index);
        block.state = state;
        let (before, after, free) = (block.before, block.after, state == Free);
        let records = self.blocks.as_mut();
        if let Some(before) = records.get_mut(before as usize) {
            before.after_free = free;
        }
        if let Some(after) = records.get_mut(after as usize) {
            after.before_free = free;
        }
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
    pub(super) fn link(&mut self, index: u32) {
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
