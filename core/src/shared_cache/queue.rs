//! Those who wait for a slot, in the order in which they came.
//!
//! A ring of records, each of which says who waits, with his ticket, and is what he sleeps on. Who comes takes the record
//! behind the last one by a compare-and-swap that also says whose it is; that the ring is longer now anybody can note. Who
//! goes says so in his record, and anybody takes those who have gone off the front. So nobody waits for somebody who is
//! stopped or was killed halfway.
//!
//! Only the first takes a slot. Whoever frees one *calls* him, and wakes him. Who was called *answers* before he looks for a
//! slot, so a slot that is freed while he looks calls him again. Who goes calls the next, so that no call is lost with him.
//! Killed or stopped in the midst of this, a process leaves a call that nobody hears: all who wait have to look again now
//! and then, and those behind one who does not answer can [pass over](super::Turn::pass_over) him.
//!
//! Data may get a slot while others wait for the same, of whom only the first would be called. So whoever assigns a slot
//! calls all of them: they need none any more. A record has a few bits of the data to find them by.
//!
//! How many wait is in one word, in a line of the processor's cache that only those change who come and go: that is all that
//! a `free` looks at if nobody waits.
//!
//! In words: the ticket of the first, and how many there are; what the caller notes of his patrols; filled up to eight; an
//! event for every eighth home line, of fills that ended; the records.

use crate::atomic::{AtomicU64, Ordering, fence};
use crate::event::{EventCount, Wait};
use crate::shared_slots::Owner;
use crate::time::Time;

use super::take::ATTEMPTS;
pub(super) use record::Record;
use record::{CALLED, GONE, WAITS};

mod record;

/// Those who can stand in line at once; a power of two, so that tickets can begin anew.
pub(super) const RECORDS: usize = if cfg!(loom) { 4 } else { 256 };
const PATROLLED: usize = 1;
const FRONT: usize = 8;
/// Loom would try when each of them is looked at.
const FILLS: usize = if cfg!(loom) { 1 } else { 8 };
const FIRST: usize = FRONT + FILLS;
pub(super) const WORDS: usize = FIRST + RECORDS;

/// Wakes whoever sleeps on this word, in all processes.
pub type Wake = fn(&AtomicU64);

/// Nobody sleeps where nothing can wake him.
pub(super) const NOBODY: Wake = |_| ();

/// For events: only wakes.
struct Waker(Wake);

impl Wait for Waker {
    fn now(&self) -> Time {
        Time::ZERO
    }
    fn sleep(&self, _: &AtomicU64, _: u32, _: Time) {}
    fn wake(&self, word: &AtomicU64) {
        (self.0)(word);
    }
}

/// The ticket of the first, and how many there are.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Ends(u64);

impl Ends {
    const fn first(self) -> u32 {
        (self.0 >> 32) as u32
    }
    const fn count(self) -> u32 {
        self.0 as u32
    }
    /// The ticket of who comes next.
    const fn next(self) -> u32 {
        self.first().wrapping_add(self.count())
    }
    const fn longer(self) -> Ends {
        Ends((self.first() as u64) << 32 | self.count().wrapping_add(1) as u64)
    }
    /// The caller knows that there is one.
    const fn without_first(self) -> Ends {
        Ends((self.first().wrapping_add(1) as u64) << 32 | self.count().wrapping_sub(1) as u64)
    }
}

/// The words, as one process looks at them, and how it wakes others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queue<'a> {
    ends: &'a AtomicU64,
    patrolled: &'a AtomicU64,
    fills: &'a [AtomicU64; FILLS],
    records: &'a [AtomicU64; RECORDS],
    wake: Wake,
}

impl<'a> Queue<'a> {
    /// Over [`WORDS`] words; `None` if they are fewer.
    pub(super) fn new(words: &'a [AtomicU64]) -> Option<Self> {
        let (front, words) = words.split_first_chunk::<FRONT>()?;
        let (fills, records) = words.split_first_chunk()?;
        Some(Queue {
            ends: &front[0],
            patrolled: &front[PATROLLED],
            fills,
            records: records.first_chunk()?,
            wake: NOBODY,
        })
    }

    pub(super) const fn waking(self, wake: Wake) -> Self {
        Queue { wake, ..self }
    }

    /// Empties it; nobody uses it meanwhile.
    pub(super) fn clear(&self) {
        for word in [self.ends, self.patrolled].into_iter().chain(self.fills) {
            word.store(0, Ordering::Relaxed);
        }
        for (ticket, record) in (0..).zip(self.records) {
            record.store(Record::before(ticket).0, Ordering::Relaxed);
        }
    }

    fn ends(&self) -> Ends {
        Ends(self.ends.load(Ordering::Acquire))
    }

    fn change(&self, ends: Ends, next: Ends) -> bool {
        self.ends.compare_exchange(ends.0, next.0, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    pub(super) fn record(&self, ticket: u32) -> &'a AtomicU64 {
        &self.records[ticket as usize % RECORDS]
    }

    /// Whether somebody waits, as far as one has to know who has just freed a slot by a read-modify-write of order `SeqCst`.
    #[inline(always)]
    pub(super) fn is_awaited(&self) -> bool {
        // Loom does not know sequentially consistent accesses, only fences.
        if cfg!(loom) {
            fence(Ordering::SeqCst);
        }
        // ORDERING: sequentially consistent, like the change before: either this sees who came, or he, behind the fence of
        // `answer`, sees the slot. Free of charge where loads are ordered.
        self.ends.load(Ordering::SeqCst) as u32 != 0
    }

    /// How many wait, just then.
    pub(super) fn count(&self) -> u32 {
        self.ends().count()
    }

    /// When somebody last looked after the dead; for the caller.
    pub(super) fn patrolled(&self) -> &'a AtomicU64 {
        self.patrolled
    }

    /// Stands in line for the slot of `data`; `None` if there is no room.
    pub(super) fn stand(&self, owner: Owner, data: u64) -> Option<u32> {
        for _ in 0..ATTEMPTS {
            let mut ends = self.ends();
            if ends.count() as usize >= RECORDS {
                // Somebody at the front may have gone without taking himself off.
                self.first();
                ends = self.ends();
                if ends.count() as usize >= RECORDS {
                    return None;
                }
            }
            let ticket = ends.next();
            let (record, word) = (self.record(ticket), Record::of(self.record(ticket)));
            if word.ticket() == ticket {
                // Somebody came who did not yet note it.
                self.change(ends, ends.longer());
                continue;
            }
            // As long as a record has the ticket before this one, nobody has it, and the ring ends here.
            let is_free = word.ticket() == Record::before(ticket).ticket() && !word.is_in_line();
            if is_free && word.replace(record, word.taken(ticket, owner, data)) {
                self.note(ticket);
                return Some(ticket);
            }
        }
        None
    }

    /// Notes that the ring goes as far as this ticket.
    fn note(&self, ticket: u32) {
        for _ in 0..ATTEMPTS {
            let ends = self.ends();
            if ends.next() != ticket || self.change(ends, ends.longer()) {
                return;
            }
        }
    }

    /// Who is first, after those were taken off the front who have gone.
    pub(super) fn first(&self) -> Option<Record> {
        for _ in 0..ATTEMPTS {
            let ends = self.ends();
            if ends.count() == 0 {
                return None;
            }
            let word = Record::of(self.record(ends.first()));
            if word.ticket() == ends.first() && word.is_in_line() {
                return Some(word);
            }
            self.change(ends, ends.without_first());
        }
        None
    }

    /// Has the first look for a slot, unless he is about to.
    #[cold]
    #[inline(never)]
    pub(super) fn call_first(&self) {
        // ORDERING: between what was done before and the look at who is called already: pairs with `answer`.
        fence(Ordering::SeqCst);
        for _ in 0..ATTEMPTS {
            let Some(word) = self.first() else { return };
            let record = self.record(word.ticket());
            if word.is_called() {
                return;
            }
            if word.replace(record, word.doing(CALLED)) {
                return (self.wake)(record);
            }
        }
    }

    /// Has those look who wait for this data, but the one with the ticket who has just assigned its slot.
    #[cold]
    #[inline(never)]
    pub(super) fn call_for(&self, data: u64, own: Option<u32>) {
        // ORDERING: between the assignment and the look at who waits: pairs with `answer`.
        fence(Ordering::SeqCst);
        let ends = self.ends();
        for offset in 0..ends.count().min(RECORDS as u32) {
            let record = self.record(ends.first().wrapping_add(offset));
            for _ in 0..ATTEMPTS {
                let word = Record::of(record);
                if word.does() != WAITS || !word.may_want(data) || Some(word.ticket()) == own {
                    break;
                }
                if word.replace(record, word.doing(CALLED)) {
                    (self.wake)(record);
                    break;
                }
            }
        }
    }

    /// Has all look, and those who wait for content.
    pub(super) fn call_all(&self) {
        fence(Ordering::SeqCst);
        for record in self.records {
            for _ in 0..ATTEMPTS {
                let word = Record::of(record);
                if !word.is_in_line() || word.replace(record, word.doing(CALLED)) {
                    break;
                }
            }
            (self.wake)(record);
        }
        self.tell_all();
    }

    /// Tells all who wait for content to look.
    pub(super) fn tell_all(&self) {
        for word in self.fills {
            EventCount::new(word).notify(&Waker(self.wake));
        }
    }

    /// Tells those who wait for content whose home this is, after a read-modify-write of order `SeqCst`.
    pub(super) fn tell(&self, home: usize) {
        self.event(home).notify_after_swap(&Waker(self.wake));
    }

    /// What those wait for who wait for content of this home.
    pub(super) fn event(&self, home: usize) -> EventCount<'a> {
        EventCount::new(&self.fills[home % FILLS])
    }

    /// The answer to a call, if there was one: what to sleep on unless there is a slot; `None` for who was passed over.
    pub(super) fn answer(&self, ticket: u32) -> Option<u32> {
        let record = self.record(ticket);
        for _ in 0..ATTEMPTS {
            let word = Record::of(record);
            if word.ticket() != ticket || !word.is_in_line() {
                return None;
            }
            let next = if word.is_called() { word.answered() } else { word };
            if next == word || word.replace(record, next) {
                // ORDERING: between this, and what is looked for behind it: pairs with `is_awaited` and `call_first`.
                fence(Ordering::SeqCst);
                return Some(next.0 as u32);
            }
        }
        None
    }

    /// Leaves the line, if this ticket is in it.
    pub(super) fn leave(&self, ticket: u32) {
        let record = self.record(ticket);
        for _ in 0..ATTEMPTS {
            let word = Record::of(record);
            if word.ticket() != ticket || !word.is_in_line() || word.replace(record, word.doing(GONE)) {
                break;
            }
        }
        self.call_first();
    }

    /// Takes one out of the line who has done nothing since he was seen.
    pub(super) fn take_out(&self, word: Record) {
        word.replace(self.record(word.ticket()), word.doing(GONE));
        self.call_first();
    }

    /// Takes those of a dead owner out of the line.
    pub(super) fn forsake(&self, dead: Owner) {
        for record in self.records {
            for _ in 0..ATTEMPTS {
                let word = Record::of(record);
                let is_his = word.is_in_line() && word.owner() == dead.number();
                if !is_his || word.replace(record, word.doing(GONE)) {
                    break;
                }
            }
        }
    }

    /// Places of an owner in the line, just then.
    pub(super) fn places_of(&self, owner: Owner) -> u32 {
        let words = self.records.iter().map(Record::of);
        words.filter(|word| word.is_in_line() && word.owner() == owner.number()).count() as u32
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
