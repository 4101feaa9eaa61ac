//! A table from any id to its number: lines with ids, and the numbers beside them.
//!
//! A line of the processor's cache has five places and a word of marks. The hash of an id names its *home*; an id that
//! finds its home full goes on to the next line with a free place, and each line that it passes counts it. So a search
//! ends at the first line that nobody passed, which is nearly always home, and compares whole ids there, all at once:
//! nothing to guess for the processor, which then waits for several searches together. Who leaves is discounted on the
//! way, and one who passed his line gets his place: so the table does not age, and is never rebuilt.
//!
//! Four consecutive ids have the same home, so that a sweep over neighbouring ids touches a line once.
//!
//! Source: Bronson and Shi, "Open-sourcing F14 for faster, more memory-efficient hash tables", 2019.

use super::{Glance, Index, OutOfRange};
use crate::fetch::fetch_to_read;

/// Places of a line.
const PLACES: usize = 5;
/// What a place is numbered by: its line, and so many for each line.
const STRIDE: usize = 8;
/// Consecutive ids with the same home.
const TOGETHER: u64 = 4;
/// The places that are taken, in the marks of a line.
const TAKEN: u32 = (1 << PLACES) - 1;
/// One that passed, in the marks of a line.
const PASSED: u32 = 1 << PLACES;
/// As many as can be counted; from then on nobody is discounted any more.
const MOST_PASSED: u32 = !TAKEN;

/// Places for five ids of a [`Sparse`] index, which is lent an array of them. 64 bytes, one line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Line {
    ids: [u64; PLACES],
    words: [u32; PLACES],
    /// Which places are taken, and above how many ids have gone on to later lines.
    marks: u32,
}

impl Line {
    /// A line without ids.
    pub const EMPTY: Self = Line { ids: [0; PLACES], words: [0; PLACES], marks: 0 };

    /// As many as make an index of so many ids fast: 61 % are taken then. There would be [room](Index::room) for all of
    /// them in three fifths of that.
    #[must_use]
    pub const fn for_ids(ids: usize) -> usize {
        ids.saturating_mul(21).div_ceil(64)
    }

    /// The place of an id, as a bit; 0 if it is not in this line. Without a branch: which place it is can't be guessed, and
    /// a wrong guess would cost all that the processor has begun behind it.
    #[inline]
    fn here(&self, data: u64) -> u32 {
        let [a, b, c, d, e] = self.ids.map(|id| u32::from(id == data));
        (a | b << 1 | c << 2 | d << 3 | e << 4) & self.marks
    }

    #[inline]
    fn was_passed(&self) -> bool {
        self.marks >= PASSED
    }

    /// Gives the id a free place; if there is none it is counted as passing.
    #[inline]
    fn take(&mut self, data: u64, word: u32) -> bool {
        let place = (!self.marks).trailing_zeros() as usize;
        if place >= PLACES {
            if self.marks < MOST_PASSED {
                self.marks += PASSED;
            }
            return false;
        }
        (self.ids[place], self.words[place]) = (data, word);
        self.marks |= 1 << place;
        true
    }
}

impl Default for Line {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// A table from any id to its number, over lent lines.
#[derive(Clone, Debug)]
pub struct Sparse<S> {
    lines: S,
    seed: u64,
}

impl<S: AsRef<[Line]> + AsMut<[Line]>> Sparse<S> {
    /// An empty index, whatever the lines held before; [`Line::for_ids`] tells how many. Without ids that others choose
    /// any seed will do.
    #[must_use]
    pub fn new(lines: S, seed: u64) -> Self {
        let mut index = Sparse { lines, seed };
        index.clear();
        index
    }

    #[inline]
    fn home(&self, data: u64) -> usize {
        // By the golden ratio: consecutive numbers come to lie evenly between each other.
        let product = u128::from((data / TOGETHER) ^ self.seed) * 0x9e37_79b9_7f4a_7c15;
        // Either half alone would be blind to some bits of the id.
        let mixed = product as u64 ^ (product >> 64) as u64;
        let lines = self.lines.as_ref().len();
        // The upper half of a 128-bit product maps a hash evenly onto any number of lines.
        ((u128::from(mixed) * lines as u128) >> 64) as usize
    }

    /// The line of an id that is not in this one, though some passed it.
    // Not inlined: so a search stays short enough for the processor to overlap it with the next ones.
    #[inline(never)]
    fn behind(&self, mut at: usize, data: u64) -> Option<usize> {
        let lines = self.lines.as_ref();
        for _ in 1..lines.len() {
            at = self.after(at);
            let line = lines.get(at)?;
            if line.here(data) != 0 {
                return Some(at);
            }
            if !line.was_passed() {
                break;
            }
        }
        None
    }

    /// Somebody who passed this line; the nearest.
    #[inline]
    fn passer(&self, hole: usize) -> Option<usize> {
        let lines = self.lines.as_ref();
        let mut at = hole;
        for distance in 1..lines.len() {
            if !lines.get(at)?.was_passed() || lines[hole].marks >= MOST_PASSED {
                return None;
            }
            at = self.after(at);
            let line = lines.get(at)?;
            let passed = |&place: &usize| {
                let home = self.home(line.ids[place]);
                let way = if at >= home { at - home } else { at + lines.len() - home };
                line.marks & 1 << place != 0 && way >= distance
            };
            if let Some(place) = (0..PLACES).find(passed) {
                return Some(at * STRIDE + place);
            }
        }
        None
    }

    /// Somebody who passed all lines from this one up to the other will not have passed them.
    #[inline]
    fn discount(&mut self, mut at: usize, end: usize) {
        while at != end {
            let line = &mut self.lines.as_mut()[at];
            if line.marks < MOST_PASSED {
                line.marks -= PASSED;
            }
            at = self.after(at);
        }
    }

    /// Makes a place free; gives its line.
    #[inline]
    fn take_out(&mut self, place: usize) -> usize {
        self.lines.as_mut()[place / STRIDE].marks &= !(1 << (place % STRIDE));
        place / STRIDE
    }

    #[inline]
    fn after(&self, line: usize) -> usize {
        if line + 1 == self.lines.as_ref().len() { 0 } else { line + 1 }
    }
}

impl<S: AsRef<[Line]> + AsMut<[Line]>> Index for Sparse<S> {
    #[inline]
    fn look(&self, data: u64) -> Option<(usize, u32)> {
        let mut at = self.home(data);
        let mut line = self.lines.as_ref().get(at)?;
        let mut here = line.here(data);
        if here == 0 {
            if !line.was_passed() {
                return None;
            }
            at = self.behind(at, data)?;
            line = self.lines.as_ref().get(at)?;
            here = line.here(data);
        }
        let place = here.trailing_zeros() as usize;
        Some((at * STRIDE + place, *line.words.get(place)?))
    }

    #[inline]
    fn glance(&mut self, data: u64) -> Glance<'_> {
        let at = self.home(data);
        let Some(line) = self.lines.as_mut().get_mut(at) else { return Glance::Absent };
        let (here, was_passed) = (line.here(data), line.was_passed());
        let place = here.trailing_zeros() as usize;
        match line.words.get_mut(place) {
            Some(word) => Glance::Here(at * STRIDE + place, word),
            None if was_passed => Glance::Further,
            None => Glance::Absent,
        }
    }

    #[inline]
    fn fetch(&self, data: u64) {
        if let Some(line) = self.lines.as_ref().get(self.home(data)) {
            fetch_to_read(line);
        }
    }

    #[inline]
    fn put(&mut self, place: usize, word: u32) {
        let line = self.lines.as_mut().get_mut(place / STRIDE);
        if let Some(here) = line.and_then(|line| line.words.get_mut(place % STRIDE)) {
            *here = word;
        }
    }

    #[inline]
    fn admits(&self, _: u64) -> Result<(), OutOfRange> {
        Ok(())
    }

    fn room(&self) -> usize {
        self.lines.as_ref().len().saturating_mul(PLACES)
    }

    fn enter(&mut self, data: u64, word: u32) {
        let mut at = self.home(data);
        for _ in 0..self.lines.as_ref().len() {
            if self.lines.as_mut()[at].take(data, word) {
                return;
            }
            at = self.after(at);
        }
    }

    fn remove_at(&mut self, place: usize, data: u64) {
        self.discount(self.home(data), place / STRIDE);
        let mut hole = self.take_out(place);
        // Each turn moves somebody nearer to his home.
        while let Some(place) = self.passer(hole) {
            let (from, place) = (place / STRIDE, place % STRIDE);
            let Line { ids, words, .. } = self.lines.as_ref()[from];
            self.discount(hole, from);
            self.lines.as_mut()[hole].take(ids[place], words[place]);
            hole = self.take_out(from * STRIDE + place);
        }
    }

    fn clear(&mut self) {
        self.lines.as_mut().fill(Line::EMPTY);
    }
}
