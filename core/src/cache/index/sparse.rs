//! A table from any id to its number: lines of tags, and the ids by number.
//!
//! A line of the processor's cache has twelve places: a number each, and of its id a *tag*, eight bits of the hash. Other bits
//! name the id's *home*; an id that finds its home full goes on to the next line with a free place, and each line that it
//! passes counts it. So a search ends at the first line that nobody passed, which is nearly always home, and compares only
//! ids with the same tag as a whole, of which there is seldom another one. Who leaves is discounted on the way, and one who
//! passed his line gets his place: so the table does not age, and is never rebuilt.
//!
//! The ids lie in an array by number. So there is little that is touched at random, and who comes for ids in the order of
//! their numbers finds the ids in a row.
//!
//! Four consecutive ids have the same home, so that a sweep over neighbouring ids touches a line once.
//!
//! Source: Bronson and Shi, "Open-sourcing F14 for faster, more memory-efficient hash tables", 2019.

use core::fmt;

use super::line::{Line, PLACES, STRIDE, Tag};
use super::{Glance, Index, NEAR, OutOfRange};
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

/// A table from any id to its number, over lent lines, and ids by number.
#[derive(Clone)]
pub struct Sparse<S, D> {
    lines: S,
    ids: D,
    /// Where the number begins in a word.
    shift: u32,
    seed: u64,
    last: Last,
}

/// Without what was found last, which changes no answer.
impl<S: fmt::Debug, D: fmt::Debug> fmt::Debug for Sparse<S, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("Sparse");
        fields.field("lines", &self.lines).field("ids", &self.ids).field("seed", &self.seed).finish_non_exhaustive()
    }
}

impl<S: AsRef<[Line]> + AsMut<[Line]>, D: AsRef<[u64]> + AsMut<[u64]>> Sparse<S, D> {
    /// An empty index for numbers below the length of `ids`, whatever the lines and the ids held before; [`Line::for_ids`] tells
    /// how many lines. Without ids that others choose any seed will do.
    #[must_use]
    pub fn new(lines: S, ids: D, seed: u64) -> Self {
        let mut index = Sparse { lines, ids, shift: 0, seed, last: Last { data: 0, place: NOWHERE } };
        index.clear();
        index
    }

    /// The home of an id, and its tag.
    #[inline]
    fn hash(&self, data: u64) -> (usize, Tag) {
        // By the golden ratio: consecutive numbers come to lie evenly between each other.
        let product = u128::from((data / TOGETHER) ^ self.seed) * 0x9e37_79b9_7f4a_7c15;
        // Either half alone would be blind to some bits of the id.
        let mixed = product as u64 ^ (product >> 64) as u64;
        let lines = self.lines.as_ref().len();
        // The upper half of a 128-bit product maps a hash evenly onto any number of lines. It hardly depends on the lowest bits,
        // which are told apart here for the ids of one home.
        let home = ((u128::from(mixed) * lines as u128) >> 64) as usize;
        (home, Tag::new((mixed ^ data) as u8))
    }

    /// Whether a word is that of this id.
    #[inline]
    fn is(ids: &D, shift: u32, word: u32, data: u64) -> bool {
        ids.as_ref().get(word.wrapping_shr(shift) as usize) == Some(&data)
    }

    /// The id of a word that is entered; any if it is not.
    #[inline]
    pub(crate) fn id(&self, word: u32) -> Option<u64> {
        self.ids.as_ref().get(word.wrapping_shr(self.shift) as usize).copied()
    }

    /// The word of this id, if it was found or entered last.
    #[inline]
    fn at_last(&self, data: u64) -> Option<u32> {
        let place = self.last.place;
        let line = if self.last.data == data { self.lines.as_ref().get(place / STRIDE) } else { None };
        line.map(|line| line.word(place))
    }

    /// The word at a place, whoever has it.
    #[inline]
    fn word_at(&mut self, place: usize) -> Option<&mut u32> {
        self.lines.as_mut().get_mut(place / STRIDE).map(|line| line.word_mut(place))
    }

    /// The place of an id, and its word, wherever it is from its home on.
    // Not inlined: so a search stays short enough for the processor to overlap it with the next ones.
    #[inline(never)]
    fn search(&self, home: usize, tag: Tag, data: u64) -> Option<(usize, u32)> {
        let lines = self.lines.as_ref();
        let mut at = home;
        for _ in 0..lines.len() {
            let line = lines.get(at)?;
            let mut tagged = line.tagged(tag);
            while tagged != 0 {
                let place = tagged.trailing_zeros() as usize;
                let word = line.word(place);
                if self.id(word) == Some(data) {
                    return Some((at * STRIDE + place, word));
                }
                tagged &= tagged - 1;
            }
            if line.passed() == 0 {
                return None;
            }
            at = self.after(at);
        }
        None
    }

    /// Where an id stands, if a look at the first place with its tag in its home tells.
    #[inline(always)]
    fn glance_home<'a>(lines: &'a mut S, ids: &D, shift: u32, (home, tag): (usize, Tag), data: u64) -> Glance<'a> {
        let Some(line) = lines.as_mut().get_mut(home) else { return Glance::Absent };
        match line.first_tagged(tag) {
            Some(place) if Self::is(ids, shift, line.word(place), data) => {
                Glance::Here(home * STRIDE + place, line.word_mut(place))
            }
            None if line.passed() == 0 => Glance::Absent,
            _ => Glance::Further,
        }
    }

    /// Somebody who passed this line: his place, his id, and his word; the nearest.
    fn passer(&self, hole: usize) -> Option<(usize, u64, u32)> {
        let lines = self.lines.as_ref();
        let mut at = hole;
        for distance in 1..lines.len() {
            if lines.get(at)?.passed() == 0 {
                return None;
            }
            at = self.after(at);
            let passed = |(place, word)| {
                let data = self.id(word)?;
                let (home, _) = self.hash(data);
                let way = if at >= home { at - home } else { at + lines.len() - home };
                (way >= distance).then_some((at * STRIDE + place, data, word))
            };
            if let Some(passer) = lines.get(at)?.taken().find_map(passed) {
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
        self.discount(self.hash(data).0, place / STRIDE);
        let mut hole = self.take_out(place);
        // Each turn moves somebody nearer to his home.
        while let Some((place, data, word)) = self.passer(hole) {
            let from = place / STRIDE;
            let (_, tag) = self.hash(data);
            self.discount(hole, from);
            self.lines.as_mut()[hole].take(tag, word);
            hole = self.take_out(place);
        }
    }

    /// Makes a place free; gives its line.
    #[inline]
    fn take_out(&mut self, place: usize) -> usize {
        self.lines.as_mut()[place / STRIDE].free(place);
        place / STRIDE
    }

    #[inline]
    fn after(&self, line: usize) -> usize {
        if line + 1 == self.lines.as_ref().len() { 0 } else { line + 1 }
    }
}

impl<S: AsRef<[Line]> + AsMut<[Line]>, D: AsRef<[u64]> + AsMut<[u64]>> Index for Sparse<S, D> {
    fn numbers_from(&mut self, shift: u32) {
        self.shift = shift;
    }

    #[inline]
    fn shift(&self) -> u32 {
        self.shift
    }

    #[inline]
    fn look(&self, data: u64) -> Option<(usize, u32)> {
        if let Some(word) = self.at_last(data) {
            return Some((self.last.place, word));
        }
        let (home, tag) = self.hash(data);
        let line = self.lines.as_ref().get(home)?;
        match line.first_tagged(tag) {
            Some(place) if Self::is(&self.ids, self.shift, line.word(place), data) => {
                Some((home * STRIDE + place, line.word(place)))
            }
            None if line.passed() == 0 => None,
            _ => self.search(home, tag, data),
        }
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
        let begin = self.hash(data);
        Self::glance_home(&mut self.lines, &self.ids, self.shift, begin, data)
    }

    #[inline]
    fn glance_first(&mut self, data: u64) -> Glance<'_> {
        let begin = self.hash(data);
        let found = Self::glance_home(&mut self.lines, &self.ids, self.shift, begin, data);
        if let Glance::Here(place, _) = found {
            self.last = Last { data, place };
        }
        found
    }

    #[inline]
    fn glance_again(&mut self, data: u64) -> Glance<'_> {
        if self.last.data != data {
            return self.glance(data);
        }
        // Nowhere is beyond the last line, so that one has to look further.
        let place = self.last.place;
        self.word_at(place).map_or(Glance::Further, |word| Glance::Here(place, word))
    }

    #[inline]
    fn is_near(&self) -> bool {
        size_of_val(self.lines.as_ref()) + size_of_val(self.ids.as_ref()) <= NEAR
    }

    #[inline]
    fn fetch(&self, data: u64) -> usize {
        let (home, tag) = self.hash(data);
        if let Some(line) = self.lines.as_ref().get(home) {
            fetch_to_read(line);
        }
        home << u8::BITS | usize::from(tag.bits())
    }

    #[inline]
    fn spot(&self, begin: usize) -> usize {
        let home = begin >> u8::BITS;
        let Some(line) = self.lines.as_ref().get(home) else { return NOWHERE };
        let Some(place) = line.first_tagged(Tag::new(begin as u8)) else { return NOWHERE };
        fetch_to_read(self.ids.as_ref().as_ptr().wrapping_add(self.number(line.word(place)) as usize));
        home * STRIDE + place
    }

    #[inline]
    fn glance_at(&mut self, place: usize, data: u64) -> Glance<'_> {
        match self.lines.as_mut().get_mut(place / STRIDE) {
            Some(line) if line.is_taken(place) && Self::is(&self.ids, self.shift, line.word(place), data) => {
                Glance::Here(place, line.word_mut(place))
            }
            _ => Glance::Further,
        }
    }

    #[inline]
    fn put(&mut self, place: usize, word: u32) {
        if let Some(here) = self.word_at(place) {
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

    fn numbers(&self) -> usize {
        self.ids.as_ref().len()
    }

    fn enter(&mut self, data: u64, word: u32) -> usize {
        let number = self.number(word);
        if let Some(id) = self.ids.as_mut().get_mut(number as usize) {
            *id = data;
        }
        let (home, tag) = self.hash(data);
        let mut at = home;
        for _ in 0..self.lines.as_ref().len() {
            if let Some(place) = self.lines.as_mut()[at].take(tag, word) {
                let place = at * STRIDE + place;
                self.last = Last { data, place };
                return place;
            }
            at = self.after(at);
        }
        NOWHERE
    }

    #[inline]
    fn remove_at(&mut self, place: usize, data: u64) {
        self.last.place = NOWHERE;
        let (home, _) = self.hash(data);
        match self.lines.as_mut().get_mut(place / STRIDE) {
            Some(line) if home == place / STRIDE && line.passed() == 0 => line.free(place),
            _ => self.remove_from_row(place, data),
        }
    }

    #[inline]
    fn pick(&mut self, data: u64, goes: impl FnOnce(u32) -> bool) -> Option<u32> {
        let (home, tag) = self.hash(data);
        let line = self.lines.as_mut().get_mut(home)?;
        let place = line.first_tagged(tag)?;
        let word = line.word(place);
        if line.passed() > 0 || !Self::is(&self.ids, self.shift, word, data) || !goes(word) {
            return None;
        }
        line.free(place);
        self.last.place = NOWHERE;
        Some(word)
    }

    fn clear(&mut self) {
        self.last.place = NOWHERE;
        self.lines.as_mut().fill(Line::EMPTY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: usize = 7;
    const IDS: usize = LINES * PLACES;

    /// What lines note of those who passed follows from where all stand.
    fn check(index: &Sparse<[Line; LINES], [u64; IDS]>) {
        let mut passed = [0; LINES];
        for (at, line) in index.lines.iter().enumerate() {
            for (_, word) in line.taken() {
                let data = index.id(word).unwrap();
                let (home, tag) = index.hash(data);
                (0..(at + LINES - home) % LINES).for_each(|way| passed[(home + way) % LINES] += 1);
                assert_eq!(index.search(home, tag, data).map(|(_, word)| word), Some(word), "{data} in {index:?}");
            }
        }
        assert!(index.lines.iter().map(Line::passed).eq(passed), "{passed:?} passed in {index:?}");
    }

    #[test]
    fn lines_note_who_passed_however_ids_come_and_go() {
        let mut index = Sparse::new([Line::EMPTY; LINES], [0; IDS], 5);
        let mut entered = [0_u64; IDS];
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
