//! A set of granules that finds the next lower member in a few words.
//!
//! One bit a granule in the lowest level; a bit of a higher level says that a word of the level below holds something.
//!
//! *Cost*: one word a level; a level holds 64 times fewer bits than the one below, so six suffice for 2^32.

use core::ops::Range;

/// Levels that 2^32 granules need.
const LEVELS: usize = 6;

/// The set, over lent words.
#[derive(Clone, Debug)]
pub(super) struct Pinned<W> {
    words: W,
    /// Where each level begins, the lowest first; one past the last level follows.
    levels: [usize; LEVELS + 1],
    height: usize,
}

/// Words that the levels over so many granules take, and where each begins.
fn plan(granules: u32) -> ([usize; LEVELS + 1], usize) {
    let mut levels = [0; LEVELS + 1];
    let (mut bits, mut height) = (granules.max(1) as usize, 0);
    while height < LEVELS {
        let words = bits.div_ceil(64);
        levels[height + 1] = levels[height] + words;
        height += 1;
        if words == 1 {
            break;
        }
        bits = words;
    }
    (levels, height)
}

/// Words that a set over so many granules needs.
pub(super) fn words_needed(granules: u32) -> usize {
    let (levels, height) = plan(granules);
    levels[height]
}

impl<W: AsRef<[u64]> + AsMut<[u64]>> Pinned<W> {
    /// An empty set over granules below `granules`; there are [`words_needed`] words.
    pub(super) fn new(mut words: W, granules: u32) -> Self {
        words.as_mut().fill(0);
        let (levels, height) = plan(granules);
        Pinned { words, levels, height }
    }

    fn level(&self, level: usize) -> Range<usize> {
        self.levels[level]..self.levels[level + 1]
    }

    pub(super) fn insert(&mut self, granule: u32) {
        let mut at = granule as usize;
        for level in 0..self.height {
            let range = self.level(level);
            let word = &mut self.words.as_mut()[range][at / 64];
            let present = *word != 0;
            *word |= 1 << (at % 64);
            if present {
                return;
            }
            at /= 64;
        }
    }

    pub(super) fn remove(&mut self, granule: u32) {
        let mut at = granule as usize;
        for level in 0..self.height {
            let range = self.level(level);
            let word = &mut self.words.as_mut()[range][at / 64];
            *word &= !(1 << (at % 64));
            if *word != 0 {
                return;
            }
            at /= 64;
        }
    }

    /// The greatest member below `granule`.
    pub(super) fn below(&self, granule: u32) -> Option<u32> {
        let mut at = granule as usize;
        for level in 0..self.height {
            let words = &self.words.as_ref()[self.level(level)];
            let under = words.get(at / 64).map_or(0, |word| word & ((1 << (at % 64)) - 1));
            if let Some(bit) = under.checked_ilog2() {
                let mut found = at / 64 * 64 + bit as usize;
                for level in (0..level).rev() {
                    let word = *self.words.as_ref()[self.level(level)].get(found)?;
                    found = found * 64 + word.checked_ilog2()? as usize;
                }
                return u32::try_from(found).ok();
            }
            at /= 64;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::vec;

    use super::*;

    #[test]
    fn members_below_are_those_of_a_plain_set() {
        for granules in [1_u32, 63, 64, 65, 4096, 4097, 300_000] {
            let mut pinned = Pinned::new(vec![u64::MAX; words_needed(granules)], granules);
            let mut model = BTreeSet::new();
            let mut state = 1_u64;
            for _ in 0..2000 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let granule = ((state >> 33) % u64::from(granules)) as u32;
                if state >> 32 & 1 == 0 {
                    pinned.insert(granule);
                    model.insert(granule);
                } else {
                    pinned.remove(granule);
                    model.remove(&granule);
                }
                let asked = ((state >> 11) % u64::from(granules)) as u32;
                assert_eq!(pinned.below(asked), model.range(..asked).next_back().copied());
            }
        }
    }
}
