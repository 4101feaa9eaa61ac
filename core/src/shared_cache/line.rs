//! The index: lines of the processor's cache, each with three places for data.
//!
//! A place has all that a hit needs: the data, the word that says what its slot is doing and who refers to it, and the
//! number of the slot. Data belongs into its *home* line, and there into the place that its hash names, unless that is
//! taken; if the line is full, into the same line of the next row that has room there, and the home line says how far one
//! may have to look. There are more places than slots: a place without a slot is *bare*.
//!
//! Anybody reads a line at any time. Data is put into a place only by whoever has its home line to himself; the head of the
//! line names him. Places are claimed one by one, whoever has which line, and nothing is moved that somebody refers to: so
//! nobody needs two lines, and if a process dies, whoever buries it takes its mark off a line, and no more.

use crate::atomic::{AtomicU64, Ordering, spin_hint};
use crate::shared_slots::Owner;

use super::error::Blocked;
use super::layout::{Home, Parts};
use super::place::{FAR, FAR_MASK, HEAD, LOCK, Line, Place};
use super::word::Word;
use crate::fetch::fetch_to_read;

/// Lines beyond the home that are looked at without having it.
const HOPS: usize = 8;
/// Looks at a line that another has before the caller is told.
const SPINS: u32 = if cfg!(loom) { 2 } else { 1 << 7 };

/// A line that this client has to himself: nobody else puts data into a place whose home it is.
#[derive(Debug)]
#[must_use = "a line that is not given back stops others"]
pub(super) struct Held<'p, 'a> {
    parts: &'p Parts<'a>,
    head: &'a AtomicU64,
    home: Home,
}

impl<'a> Parts<'a> {
    /// What is found at a place in the home line, for which `found` looks itself whether it has this data. If two places
    /// say so, because one of them is being changed, one is tried.
    #[inline(always)]
    pub(super) fn at_home<T>(&self, data: u64, found: impl Fn(Place<'a>) -> Option<T>) -> Option<T> {
        let home = self.home(data);
        let line = self.lines.get(home.line)?;
        let first = Place::new(line, home.line, home.at);
        if let Some(found) = found(first) {
            return Some(found);
        }
        in_line(line, home.line, data, found)
    }

    /// The same beyond the home line, as far as one goes without having it.
    #[inline]
    pub(super) fn beyond_home<T>(&self, data: u64, found: impl Fn(Place<'a>) -> Option<T>) -> Option<T> {
        let home = self.home(data).line;
        let far = far(self.lines.get(home)?[HEAD].load(Ordering::Acquire)).min(HOPS);
        // The processor waits for all of them together.
        for line in (2..=far).filter_map(|step| self.lines.get(self.beyond(home, step))) {
            fetch_to_read(line);
        }
        for step in 1..=far {
            let index = self.beyond(home, step);
            if let Some(found) = in_line(self.lines.get(index)?, index, data, &found) {
                return Some(found);
            }
        }
        None
    }

    /// The place of data, if it is met on the way.
    pub(super) fn glance(&self, data: u64) -> Option<Place<'a>> {
        let home = self.home(data).line;
        let far = far(self.lines.get(home)?[HEAD].load(Ordering::Acquire));
        (0..=far.min(HOPS)).find_map(|step| self.look(home, step, data))
    }

    /// The place that has this data assigned to it, so many lines beyond its home.
    fn look(&self, home: usize, step: usize, data: u64) -> Option<Place<'a>> {
        let mut places = self.places_of(self.beyond(home, step));
        // The word first: if it is replaced later, the data was still that.
        places.find(|place| Word::of_slot(place.word()).is_assigned() && place.has(data))
    }

    /// Has the line to itself, once nobody else has.
    pub(super) fn hold(&self, home: Home, owner: Owner) -> Result<Held<'_, 'a>, Blocked> {
        let head = self.lines.get(home.line).map(|line| &line[HEAD]).ok_or(Blocked::Damaged { at: home.line })?;
        let mark = u64::from(owner.number() + 1) << LOCK;
        let mut word = head.load(Ordering::Relaxed);
        for _ in 0..=SPINS {
            if word >> LOCK == 0 {
                // ORDERING: acquire pairs with the release of whoever had the line before.
                match head.compare_exchange(word, word | mark, Ordering::Acquire, Ordering::Relaxed) {
                    Ok(_) => return Ok(Held { parts: self, head, home }),
                    Err(now) => word = now,
                }
            } else {
                spin_hint();
                word = head.load(Ordering::Relaxed);
            }
        }
        Err(Blocked::Busy { owner: (word >> LOCK).wrapping_sub(1) as u8 })
    }

    /// Takes the mark of an owner that does not run any more off all lines.
    pub(super) fn release_all(&self, owner: Owner) {
        let mark = u64::from(owner.number() + 1);
        for [_, head, ..] in self.lines {
            if head.load(Ordering::Relaxed) >> LOCK == mark {
                // ORDERING: acquire and release, so that what the dead one stored before is seen by the next.
                head.fetch_and((1 << LOCK) - 1, Ordering::AcqRel);
            }
        }
    }
}

/// What is found at the place of a line that has this data.
// Which place it is nobody can foretell, so the processor waits here for the line, but once for all of them.
#[inline(always)]
fn in_line<'a, T>(line: &'a Line, index: usize, data: u64, found: impl Fn(Place<'a>) -> Option<T>) -> Option<T> {
    let [second, third] = [1, 2].map(|at| Place::new(line, index, at).has(data));
    found(Place::new(line, index, if third { 2 } else { usize::from(second) }))
}

fn far(head: u64) -> usize {
    (head >> FAR & FAR_MASK) as usize
}

impl<'a> Held<'_, 'a> {
    pub(super) fn home(&self) -> Home {
        self.home
    }

    /// The place of `data`, certainly: `None` if it has none, or just lost it.
    pub(super) fn find(&self, data: u64) -> Result<Option<Place<'a>>, Blocked> {
        let reach = far(self.head.load(Ordering::Relaxed));
        if reach >= self.parts.lines.len() {
            return Err(Blocked::Damaged { at: self.home.line });
        }
        let mut farthest = 0;
        for step in 0..=reach {
            if let Some(place) = self.parts.look(self.home.line, step, data) {
                return Ok(Some(place));
            }
            if step > 0 && self.is_used(step) {
                farthest = step;
            }
        }
        if farthest < reach {
            self.set_reach(reach, farthest);
        }
        Ok(None)
    }

    /// Whether so many lines beyond there is data whose home this is.
    fn is_used(&self, step: usize) -> bool {
        let places = self.parts.places_of(self.parts.beyond(self.home.line, step));
        let mut assigned = places.filter(|place| Word::of_slot(place.word()).is_assigned());
        assigned.any(|place| self.parts.home(place.key().load(Ordering::Acquire)).line == self.home.line)
    }

    fn set_reach(&self, old: usize, new: usize) {
        // ORDERING: release, for those who look for data where it says; others change the rest of the word meanwhile.
        self.head.fetch_xor(((old ^ new) as u64) << FAR, Ordering::Release);
    }

    /// Has others look as far as this for data whose home this is.
    pub(super) fn reach(&self, step: usize) {
        let old = far(self.head.load(Ordering::Relaxed));
        if old < step {
            self.set_reach(old, step);
        }
    }
}

impl Drop for Held<'_, '_> {
    fn drop(&mut self) {
        // ORDERING: release pairs with the acquire of whoever has the line next.
        self.head.fetch_and((1 << LOCK) - 1, Ordering::Release);
    }
}
