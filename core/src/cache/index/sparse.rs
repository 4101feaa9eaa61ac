//! A table from any id to its number: lines with ids, and the numbers beside them.
//!
//! A line of the processor's cache has five places and a word of marks. The hash of an id names its *home*; an id that
//! finds its home full goes on to the next line with a free place, and each line that it passes counts it. So a search
//! ends at the first line that nobody passed, which is nearly always home, and compares whole ids there. Who leaves is
//! discounted on the way, and one who passed his line gets his place: so the table does not age, and is never rebuilt.
//!
//! Four consecutive ids have the same home, so that a sweep over neighbouring ids touches a line once.
//!
//! Source: Bronson and Shi, "Open-sourcing F14 for faster, more memory-efficient hash tables", 2019.

use core::fmt;

use super::line::{Line, PLACES, STRIDE};
use super::{Glance, Index, OutOfRange};
use crate::fetch::fetch_to_read;

/// Consecutive ids with the same home.
const TOGETHER: u64 = 4;

/// Where an id stands that was found or entered: who takes a reference often gives it back next.
#[derive(Clone, Copy, Debug)]
struct Last {
    data: u64,
    /// [`NOWHERE`] once it may have moved.
    place: usize,
}

/// No place.
const NOWHERE: usize = usize::MAX;

/// A table from any id to its number, over lent lines.
#[derive(Clone)]
pub struct Sparse<S> {
    lines: S,
    seed: u64,
    last: Last,
    moves: u32,
}

/// Without what was found last, which changes no answer.
impl<S: fmt::Debug> fmt::Debug for Sparse<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sparse").field("lines", &self.lines).field("seed", &self.seed).finish_non_exhaustive()
    }
}

impl<S: AsRef<[Line]> + AsMut<[Line]>> Sparse<S> {
    /// An empty index, whatever the lines held before; [`Line::for_ids`] tells how many. Without ids that others choose
    /// any seed will do.
    #[must_use]
    pub fn new(lines: S, seed: u64) -> Self {
        let mut index = Sparse { lines, seed, last: Last { data: 0, place: NOWHERE }, moves: 0 };
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

    /// The word of this id, if it was found or entered last.
    #[inline]
    fn at_last(&self, data: u64) -> Option<u32> {
        let place = self.last.place;
        let line = if self.last.data == data { self.lines.as_ref().get(place / STRIDE) } else { None };
        line?.words.get(place % STRIDE).copied()
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

    /// Somebody who passed this line: his place, his id, and whether this line is his home; the nearest.
    fn passer(&self, hole: usize) -> Option<(usize, u64, bool)> {
        let lines = self.lines.as_ref();
        let mut at = hole;
        for distance in 1..lines.len() {
            if !lines.get(at)?.was_passed() || lines[hole].lost_count() {
                return None;
            }
            at = self.after(at);
            let passed = |(place, data)| {
                let home = self.home(data);
                let way = if at >= home { at - home } else { at + lines.len() - home };
                (way >= distance).then_some((at * STRIDE + place, data, way == distance))
            };
            if let Some(passer) = lines.get(at)?.away().find_map(passed) {
                return Some(passer);
            }
        }
        None
    }

    /// Somebody who passed all lines from this one up to the other will not have passed them.
    #[inline]
    fn discount(&mut self, mut at: usize, end: usize) {
        while at != end {
            self.lines.as_mut()[at].discount();
            at = self.after(at);
        }
    }

    /// Takes out one who passed his home, or whose line somebody passed.
    #[inline(never)]
    fn remove_from_row(&mut self, place: usize, data: u64) {
        self.discount(self.home(data), place / STRIDE);
        let mut hole = self.take_out(place);
        // Each turn moves somebody nearer to his home.
        while let Some((place, data, is_home)) = self.passer(hole) {
            let from = place / STRIDE;
            let word = self.lines.as_ref()[from].words[place % STRIDE];
            self.discount(hole, from);
            self.lines.as_mut()[hole].take(data, word, !is_home);
            hole = self.take_out(place);
        }
    }

    /// Makes a place free; gives its line.
    #[inline]
    fn take_out(&mut self, place: usize) -> usize {
        self.lines.as_mut()[place / STRIDE].free(place % STRIDE);
        place / STRIDE
    }

    /// What was seen of places is not true any more.
    #[inline]
    fn moving(&mut self) {
        self.last.place = NOWHERE;
        self.moves = self.moves.wrapping_add(1);
    }

    #[inline]
    fn after(&self, line: usize) -> usize {
        if line + 1 == self.lines.as_ref().len() { 0 } else { line + 1 }
    }
}

impl<S: AsRef<[Line]> + AsMut<[Line]>> Index for Sparse<S> {
    #[inline]
    fn look(&self, data: u64) -> Option<(usize, u32)> {
        if let Some(word) = self.at_last(data) {
            return Some((self.last.place, word));
        }
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
    fn seek(&mut self, data: u64) -> Option<(usize, u32)> {
        let found = self.look(data);
        if let Some((place, _)) = found {
            self.last = Last { data, place };
        }
        found
    }

    #[inline]
    fn glance(&mut self, data: u64) -> Glance<'_> {
        if self.last.data == data {
            // Nowhere is beyond the last line, so that one has to look further.
            return self.at(self.last.place);
        }
        let home = self.home(data);
        let Some(line) = self.lines.as_mut().get_mut(home) else { return Glance::Absent };
        let found = line.glance(home, data);
        if let Glance::Here(place, _) = found {
            self.last = Last { data, place };
        }
        found
    }

    #[inline]
    fn glance_once(&mut self, data: u64) -> Glance<'_> {
        let home = self.home(data);
        self.lines.as_mut().get_mut(home).map_or(Glance::Absent, |line| line.glance(home, data))
    }

    #[inline]
    fn fetch(&self, data: u64) -> usize {
        let home = self.home(data);
        if let Some(line) = self.lines.as_ref().get(home) {
            fetch_to_read(line);
        }
        home
    }

    #[inline]
    fn spot(&self, home: usize, data: u64) -> usize {
        let Some(line) = self.lines.as_ref().get(home) else { return usize::MAX };
        let here = line.here(data);
        if here == 0 {
            if line.was_passed() {
                fetch_to_read(self.lines.as_ref().as_ptr().wrapping_add(self.after(home)));
            }
            return usize::MAX;
        }
        home * STRIDE + here.trailing_zeros() as usize
    }

    #[inline]
    fn at(&mut self, place: usize) -> Glance<'_> {
        let line = self.lines.as_mut().get_mut(place / STRIDE);
        let word = line.and_then(|line| line.words.get_mut(place % STRIDE));
        word.map_or(Glance::Further, |word| Glance::Here(place, word))
    }

    #[inline]
    fn glance_at(&mut self, place: usize, data: u64) -> Glance<'_> {
        let line = self.lines.as_mut().get_mut(place / STRIDE);
        let word = line.and_then(|line| line.word_at(place % STRIDE, data));
        word.map_or(Glance::Further, |word| Glance::Here(place, word))
    }

    #[inline]
    fn moves(&self) -> u32 {
        self.moves
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

    fn enter(&mut self, data: u64, word: u32) -> usize {
        let home = self.home(data);
        let mut at = home;
        for _ in 0..self.lines.as_ref().len() {
            if let Some(place) = self.lines.as_mut()[at].take(data, word, at != home) {
                let place = at * STRIDE + place;
                self.last = Last { data, place };
                return place;
            }
            at = self.after(at);
        }
        usize::MAX
    }

    #[inline]
    fn remove_at(&mut self, place: usize, data: u64) {
        self.moving();
        let line = self.lines.as_mut().get_mut(place / STRIDE);
        if !line.is_some_and(|line| line.free_alone(1 << (place % STRIDE))) {
            self.remove_from_row(place, data);
        }
    }

    #[inline]
    fn pick(&mut self, data: u64, goes: impl FnOnce(u32) -> bool) -> Option<u32> {
        let home = self.home(data);
        let line = self.lines.as_mut().get_mut(home)?;
        let here = line.here(data);
        let word = line.word(here)?;
        if !goes(word) || !line.free_alone(here) {
            return None;
        }
        self.moving();
        Some(word)
    }

    fn clear(&mut self) {
        self.moving();
        self.lines.as_mut().fill(Line::EMPTY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: usize = 7;

    /// What lines note of those who are away from home follows from where all stand.
    fn check(index: &Sparse<[Line; LINES]>) {
        let mut passed = [0; LINES];
        for (at, line) in index.lines.iter().enumerate() {
            let homes = (0..PLACES).filter_map(|place| line.id(place).map(|data| (place, data, index.home(data))));
            let away = homes.filter(|&(_, _, home)| home != at).inspect(|&(_, _, home)| {
                (0..(at + LINES - home) % LINES).for_each(|way| passed[(home + way) % LINES] += 1);
            });
            assert!(line.away().eq(away.map(|(place, data, _)| (place, data))), "line {at} of {index:?}");
        }
        assert!(index.lines.iter().map(Line::passed).eq(passed), "{passed:?} passed in {index:?}");
    }

    #[test]
    fn lines_note_who_is_away_and_who_passed_however_ids_come_and_go() {
        let mut index = Sparse::new([Line::EMPTY; LINES], 5);
        let mut entered = [0_u64; LINES * PLACES];
        let mut random = 1_u64;
        for step in 0..4000 {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let at = (random >> 33) as usize % entered.len();
            if entered[at] == 0 {
                entered[at] = random;
                index.enter(random, at as u32);
            } else {
                let data = core::mem::take(&mut entered[at]);
                let picked = index.pick(data, |_| step % 2 == 0).is_some();
                if !picked {
                    index.remove(data);
                }
                assert_eq!(index.find(data), None);
            }
            // Now and then all leave: nothing is left of them.
            if step % 1000 == 999 {
                entered.iter_mut().filter(|data| **data != 0).for_each(|data| index.remove(core::mem::take(data)));
            }
            check(&index);
        }
    }
}
