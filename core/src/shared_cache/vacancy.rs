//! Hints where slots are free: a bitmap, and bitmaps of its words above it.
//!
//! Hints decide nothing. A wrong one is cleared by whoever stumbles over it; one that is missing, because a process
//! died between emptying a slot and saying so, is restored when that process is buried. A bit above may be set while
//! the word below is zero, never the other way round for good.
//!
//! *Cost*: setting is a read-modify-write a level, three levels for a million slots; finding reads a word or two a
//! level, and at most eight at the top.

use crate::atomic::{AtomicU64, Ordering};

const LEVELS: usize = 5;
/// A level of so few words has none above it.
const TOP: usize = 8;

#[derive(Clone, Copy, Debug)]
pub(super) struct Vacancy<'a> {
    levels: [&'a [AtomicU64]; LEVELS],
    count: usize,
}

/// Words of the levels for so many slots, lowest first.
fn sizes(slots: usize) -> impl Iterator<Item = usize> {
    let below = |&size: &usize| (size > TOP).then(|| size.div_ceil(64));
    core::iter::successors(Some(slots.div_ceil(64).max(1)), below)
}

pub(super) fn words_for(slots: usize) -> usize {
    sizes(slots).sum()
}

impl<'a> Vacancy<'a> {
    /// Over [`words_for`] words; `None` if they are fewer.
    pub(super) fn new(mut words: &'a [AtomicU64], slots: usize) -> Option<Self> {
        let mut levels = [&words[..0]; LEVELS];
        let mut count = 0;
        for size in sizes(slots) {
            let (level, rest) = words.split_at_checked(size)?;
            *levels.get_mut(count)? = level;
            (words, count) = (rest, count + 1);
        }
        Some(Vacancy { levels, count })
    }

    /// Hints at those of so many places that are free, and at no others.
    pub(super) fn fill(&self, places: usize, is_free: impl Fn(usize) -> bool) {
        let mut below: &[AtomicU64] = &[];
        for level in &self.levels[..self.count] {
            let lowest = below.is_empty();
            let is_set = |at: usize| match below.get(at) {
                Some(word) => word.load(Ordering::Relaxed) != 0,
                None => lowest && at < places && is_free(at),
            };
            for (index, word) in level.iter().enumerate() {
                let bits =
                    (0..64).filter(|offset| is_set(index * 64 + offset)).fold(0, |bits, offset| bits | bit(offset));
                word.store(bits, Ordering::Relaxed);
            }
            below = level;
        }
    }

    /// Hints at a slot that became free.
    pub(super) fn set(&self, slot: u32) {
        self.set_from(0, slot as usize);
    }

    fn set_from(&self, level: usize, mut at: usize) {
        for level in &self.levels[level..self.count] {
            let Some(word) = level.get(at / 64) else { return };
            // ORDERING: release, so that whoever clears this bit as wrong sees what is below it; acquire, so that a
            // bit above is set after those below are visible.
            word.fetch_or(bit(at), Ordering::AcqRel);
            at /= 64;
        }
    }

    /// Takes back the hint at a slot, unless it is free after all.
    pub(super) fn clear(&self, slot: u32, is_free: impl Fn() -> bool) {
        let Some(word) = self.levels[0].get(slot as usize / 64) else { return };
        // ORDERING: acquire pairs with `set`. A hint that is cleared here was set after the slot became free, so that
        // is seen; one that is set later stays.
        word.fetch_and(!bit(slot as usize), Ordering::AcqRel);
        if is_free() {
            self.set(slot);
        }
    }

    /// The first hint at `from` or behind it.
    pub(super) fn find(&self, from: u32) -> Option<u32> {
        let mut at = from as usize;
        let mut level = 0;
        // Each pass finds, goes up, or steps over a word; only wrong bits above bring it down again.
        for _ in 0..=(2 * LEVELS + 2 * TOP) * 64 {
            let words = self.levels[level];
            let here = words.get(at / 64)?.load(Ordering::Acquire) >> (at % 64);
            if here != 0 {
                at += here.trailing_zeros() as usize;
                if level == 0 {
                    return u32::try_from(at).ok();
                }
                if self.levels[level - 1].get(at).is_none_or(|below| below.load(Ordering::Acquire) == 0) {
                    self.clear_above(level, at);
                    at += 1;
                } else {
                    (at, level) = (at * 64, level - 1);
                }
                continue;
            }
            // Nothing more in this word: the next one, or what the level above knows of those behind it.
            let next = at / 64 + 1;
            if level + 1 < self.count {
                (at, level) = (next, level + 1);
            } else {
                at = next * 64;
            }
        }
        None
    }

    /// The same as [`Vacancy::clear`], for a word below that is zero.
    fn clear_above(&self, level: usize, at: usize) {
        let Some(word) = self.levels[level].get(at / 64) else { return };
        word.fetch_and(!bit(at), Ordering::AcqRel);
        if self.levels[level - 1].get(at).is_some_and(|below| below.load(Ordering::Acquire) != 0) {
            self.set_from(level, at);
        }
    }
}

const fn bit(at: usize) -> u64 {
    1 << (at % 64)
}
