//! Where everything lies in the lent words, and the checks of whoever attaches.
//!
//! In words: header (magic; contract, owners and bits of a count; slots; seed; interrupted), the hand of the eviction
//! at 16, filled up to 32; 16 words an owner; eight words a line of the index (slots of two places, head, three words,
//! three data); one word a slot (its place), filled up to a line; who waits; hints at which places slots are free.

use crate::atomic::{AtomicU64, Ordering};
use crate::cache::{Forgetting, Plain, Remembering};
use crate::crew::Crew;
use crate::shared_slots::Owner;

use super::error::AttachError;
use super::place::{AT_BITS, FARTHEST, Line, NIL, PLACES, Place};
use super::queue::{self, Queue, Wake};
use super::vacancy::{self, Vacancy};
use super::word::{BARE, COUNT_BITS, EMPTY, Word};

const MAGIC: u64 = u64::from_le_bytes(*b"umbrshc9");
const CONTRACT: usize = 1;
const SLOTS: usize = 2;
const SEED: usize = 3;
const INTERRUPTED: usize = 4;
const HAND: usize = 16;
const HEADER: usize = 32;
/// Lines of a row; so many consecutive ids have one each for their homes, and one that is away from home is in the same line
/// of another row.
const ROW: usize = if cfg!(loom) { 1 } else { 8 };

/// How many processes share a cache, and how many references of each to one slot are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Sharing {
    owners: u8,
    bits: u8,
}

impl Sharing {
    /// For so many processes with so many references each (rounded up to all ones in binary); `None` if the counts
    /// of all of them need more than 40 bits, or if either is 0. 8 processes can have 31, 4 can have 1023.
    #[must_use]
    pub const fn new(owners: u8, references: u32) -> Option<Sharing> {
        let bits = (u32::BITS - references.leading_zeros()) as u8;
        if owners == 0 || owners > Owner::COUNT || bits == 0 || owners as u32 * bits as u32 > COUNT_BITS {
            return None;
        }
        Some(Sharing { owners, bits })
    }

    /// Processes that can use the cache at the same time.
    #[must_use]
    pub const fn owners(self) -> u8 {
        self.owners
    }

    /// References that a process can have to one slot.
    #[must_use]
    pub const fn references(self) -> u32 {
        ((1_u64 << self.bits) - 1) as u32
    }

    pub(super) const fn bits(self) -> u32 {
        self.bits as u32
    }
}

/// Contracts, with the number that the header names them by.
pub trait Contract: sealed::Numbered {}
impl Contract for Plain {}
impl Contract for Remembering {}
impl Contract for Forgetting {}
mod sealed {
    pub trait Numbered {
        const NUMBER: u8;
        /// Whether anybody waits for content.
        const REMEMBERS: bool = true;
    }
    impl Numbered for super::Plain {
        const NUMBER: u8 = 1;
        const REMEMBERS: bool = false;
    }
    impl Numbered for super::Remembering {
        const NUMBER: u8 = 2;
    }
    impl Numbered for super::Forgetting {
        const NUMBER: u8 = 3;
    }
}

/// Words of memory that a cache of `slots` slots needs; `None` if that is too many (2^27).
#[must_use]
pub fn words_for(slots: usize, sharing: Sharing) -> Option<usize> {
    if slots > FARTHEST {
        return None;
    }
    let fixed = HEADER + Crew::words_for(sharing.owners as u16);
    let lines = lines(slots);
    Some(fixed + 8 * lines + seats(slots) + queue::WORDS + vacancy::words_for(PLACES * lines))
}

/// Where data belongs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Home {
    pub(super) line: usize,
    /// The place of the line where whoever looks for it begins. That it is nearly always there lets the processor foretell so,
    /// and begin with what comes next before the line has come.
    pub(super) at: usize,
}

/// Three in five places have a slot: then one in ten is away from home, and three in ten where all data left for other.
const fn lines(slots: usize) -> usize {
    (9 * slots).div_ceil(16).next_multiple_of(ROW)
}

const fn seats(slots: usize) -> usize {
    slots.next_multiple_of(8)
}

/// The parts, as one process looks at them; where they lie was checked and is not read again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts<'a> {
    header: &'a [AtomicU64; HEADER],
    pub(super) crew: Crew<'a>,
    pub(super) lines: &'a [Line],
    rows: usize,
    /// The number of the place in which a slot is, or was before it was moved: for the hand.
    pub(super) seats: &'a [AtomicU64],
    pub(super) slots: u32,
    pub(super) queue: Queue<'a>,
    pub(super) vacancy: Vacancy<'a>,
    pub(super) sharing: Sharing,
    seed: u64,
}

impl<'a> Parts<'a> {
    pub(super) fn create<C: Contract>(
        words: &'a [AtomicU64],
        slots: usize,
        sharing: Sharing,
        seed: u64,
    ) -> Result<Self, AttachError> {
        if slots == 0 {
            return Err(AttachError::NoSlots);
        }
        let parts = Self::cut(words, slots, sharing, seed)?;
        // Nobody attaches meanwhile.
        parts.header[0].store(0, Ordering::Release);
        parts.crew.disband();
        let zeroed = parts.header[1..].iter().chain(parts.lines.as_flattened());
        zeroed.for_each(|word| word.store(0, Ordering::Relaxed));
        for place in parts.places() {
            let slot = parts.first_slot(place.number());
            place.set_slot(slot);
            parts.note_seat(slot, place);
            parts.forget(place);
            place.word().store(if slot == NIL { BARE } else { EMPTY }, Ordering::Relaxed);
        }
        parts.queue.clear();
        parts.vacancy.fill(PLACES * parts.lines.len(), |number| parts.first_slot(number as u32) != NIL);
        let kind = u64::from(C::NUMBER) | u64::from(sharing.owners) << 8 | u64::from(sharing.bits) << 16;
        parts.header[CONTRACT].store(kind, Ordering::Relaxed);
        parts.header[SLOTS].store(slots as u64, Ordering::Relaxed);
        parts.header[SEED].store(seed, Ordering::Relaxed);
        // ORDERING: pairs with the load in `attach`.
        parts.header[0].store(MAGIC, Ordering::Release);
        Ok(parts)
    }

    pub(super) fn attach<C: Contract>(words: &'a [AtomicU64]) -> Result<Self, AttachError> {
        // ORDERING: pairs with the store in `create`.
        if words.len() < HEADER || words[0].load(Ordering::Acquire) != MAGIC {
            return Err(AttachError::NotACache);
        }
        let [contract, owners, bits, rest @ ..] = words[CONTRACT].load(Ordering::Relaxed).to_le_bytes();
        if contract != C::NUMBER {
            return Err(AttachError::WrongContract);
        }
        let bad = AttachError::BadSize { words: words.len() };
        let most = 1_u64.checked_shl(u32::from(bits)).and_then(|all| u32::try_from(all - 1).ok()).ok_or(bad)?;
        let sharing = Sharing::new(owners, most).filter(|_| rest == [0; 5]).ok_or(bad)?;
        let slots = usize::try_from(words[SLOTS].load(Ordering::Relaxed)).ok().filter(|&slots| slots > 0).ok_or(bad)?;
        Self::cut(words, slots, sharing, words[SEED].load(Ordering::Relaxed))
    }

    fn cut(words: &'a [AtomicU64], slots: usize, sharing: Sharing, seed: u64) -> Result<Self, AttachError> {
        let bad = AttachError::BadSize { words: words.len() };
        let words = words.get(..words_for(slots, sharing).ok_or(bad)?).ok_or(bad)?;
        let (header, words) = words.split_first_chunk().ok_or(bad)?;
        let (crew, words) = words.split_at(Crew::words_for(sharing.owners as u16));
        let (lines, words) = words.split_at(8 * lines(slots));
        let (lines, _) = lines.as_chunks();
        let (seats, words) = words.split_at(seats(slots));
        let (queue, words) = words.split_at(queue::WORDS);
        let queue = Queue::new(queue).ok_or(bad)?;
        let vacancy = Vacancy::new(words, PLACES * lines.len()).ok_or(bad)?;
        let crew = Crew::attach(crew);
        let rows = (lines.len() / ROW).max(1);
        let seats = &seats[..slots];
        Ok(Parts { header, crew, lines, rows, seats, slots: slots as u32, queue, vacancy, sharing, seed })
    }

    /// The slot that a place has in the beginning: each line gets one before any gets a second.
    fn first_slot(&self, place: u32) -> u32 {
        let (line, at) = (place as usize / PLACES, place as usize % PLACES);
        let slot = at * self.lines.len() + line;
        if slot < self.slots as usize { slot as u32 } else { NIL }
    }

    /// The place of this number.
    #[inline]
    pub(super) fn place(&self, number: u32) -> Option<Place<'a>> {
        let (index, at) = (number as usize / PLACES, number as usize % PLACES);
        self.lines.get(index).map(|line| Place::new(line, index, at))
    }

    /// The place of this mark.
    #[inline(always)]
    pub(super) fn marked(&self, mark: u32) -> Option<Place<'a>> {
        let (index, at) = (mark as usize >> AT_BITS, mark as usize & ((1 << AT_BITS) - 1));
        let line = self.lines.get(index)?;
        if at < PLACES { Some(Place::new(line, index, at)) } else { None }
    }

    /// The places of a line.
    pub(super) fn places_of(&self, line: usize) -> impl Iterator<Item = Place<'a>> + use<'a> {
        self.places_at(Home { line, at: 0 })
    }

    /// The places of a home line, with the one first where data is looked for first.
    pub(super) fn places_at(&self, home: Home) -> impl Iterator<Item = Place<'a>> + use<'a> {
        let line = self.lines.get(home.line).into_iter();
        line.flat_map(move |line| (0..PLACES).map(move |n| Place::new(line, home.line, (home.at + n) % PLACES)))
    }

    /// All places.
    pub(super) fn places(&self) -> impl Iterator<Item = Place<'a>> + use<'a> {
        let lines = self.lines.iter().enumerate();
        lines.flat_map(|(index, line)| (0..PLACES).map(move |at| Place::new(line, index, at)))
    }

    #[inline]
    pub(super) fn is_interrupted(&self) -> bool {
        self.header[INTERRUPTED].load(Ordering::Relaxed) != 0
    }

    pub(super) fn interrupt(&self) {
        self.header[INTERRUPTED].store(1, Ordering::Relaxed);
        self.queue.call_all();
    }

    /// The same, with a way to wake those who wait.
    pub(super) fn waking(self, wake: Wake) -> Self {
        Parts { queue: self.queue.waking(wake), ..self }
    }

    /// Tells the first in line that a slot may be free, if a word was replaced by this one.
    #[inline(always)]
    pub(super) fn freed(&self, next: Word) {
        if self.queue.is_awaited() && !next.is_referred() {
            self.queue.call_first();
        }
    }

    /// Moves the hand of the eviction by a slot, and tells where that is; `None` if it moves just now.
    pub(super) fn advance(&self) -> Option<Place<'a>> {
        let slot = self.header[HAND].fetch_add(1, Ordering::Relaxed) % u64::from(self.slots);
        let seat = self.seats.get(slot as usize)?.load(Ordering::Relaxed);
        self.place(seat as u32).filter(|place| u64::from(place.slot()) == slot)
    }

    /// Notes where a slot is; the caller has claimed the place.
    pub(super) fn note_seat(&self, slot: u32, place: Place<'_>) {
        if let Some(seat) = self.seats.get(slot as usize) {
            seat.store(u64::from(place.number()), Ordering::Relaxed);
        }
    }

    /// The home of a data id; the lines of a row of consecutive ids lie side by side.
    #[inline(always)]
    pub(super) fn home(&self, data: u64) -> Home {
        // By the golden ratio, of which the upper bits tell: consecutive rows of ids come to lie evenly between each other.
        let mixed = ((data / ROW as u64) ^ self.seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // Which line of its row an id has by these bits as well: ids that are all multiples of eight would have one of each.
        let spread = u128::from(mixed) * self.lines.len() as u128;
        let line = (spread >> 64) as usize ^ (data as usize % ROW);
        // How far the row lies beyond the one before says where in the line: so two that share a line seldom share the place.
        let at = (usize::from((spread as u64).to_be_bytes()[0]) * PLACES) >> 8;
        Home { line, at }
    }

    /// The line that is so many steps beyond a home: in the next rows, and after all of them in the next line of each.
    #[inline]
    pub(super) fn beyond(&self, home: usize, step: usize) -> usize {
        let row = home / ROW + step;
        if row < self.rows {
            return home + step * ROW;
        }
        row % self.rows * ROW + (home + row / self.rows) % ROW
    }

    /// How many steps a line is beyond a home: `beyond` the other way round.
    pub(super) fn steps(&self, home: usize, line: usize) -> usize {
        let turns = (line % ROW + ROW - home % ROW) % ROW;
        (turns * self.rows + line / ROW + self.lines.len() - home / ROW) % self.lines.len()
    }

    /// Has nobody stop at this place who looks for data at home; the caller has claimed it. A second call changes nothing.
    pub(super) fn forget(&self, place: Place<'_>) {
        // Of two ids side by side one at least belongs elsewhere.
        place.key().store(u64::from(self.home(0).line == place.line()), Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
pub(super) mod tests {
    use std::vec::Vec;

    use super::*;
    use crate::shared_cache::{Cache, Identity};

    /// Memory for a cache.
    pub(in super::super) fn memory(slots: usize, sharing: Sharing) -> Vec<AtomicU64> {
        (0..words_for(slots, sharing).unwrap_or(0)).map(|_| AtomicU64::new(0)).collect()
    }

    /// Steps between each id's home and where it lies, in a cache that they fill, and whether it is where one looks first.
    fn steps(slots: usize, seed: u64, ids: impl Iterator<Item = u64>) -> Vec<(usize, bool)> {
        let Some(sharing) = Sharing::new(8, 31) else { unreachable!("40 bits") };
        let words = memory(slots, sharing);
        let Ok(cache) = Cache::create(&words, slots, sharing, seed) else { unreachable!("it fits") };
        let Ok(client) = cache.join(Identity::new(1, 1)) else { unreachable!("the first") };
        assert!(ids.take(slots).all(|data| client.alloc(data).is_ok()), "there is a slot for each");
        let parts = cache.parts;
        let seated = parts.places().filter(|place| place.slot() != NIL);
        let lies = |place: Place<'_>| {
            let home = parts.home(place.key().load(Ordering::Relaxed));
            let first = parts.places_at(home).next().is_some_and(|first| first.number() == place.number());
            (parts.steps(home.line, place.line()), first)
        };
        seated.map(lies).collect()
    }

    #[test]
    #[cfg_attr(miri, ignore = "so many slots take Miri minutes, and fewer are not spread as evenly")]
    fn ids_that_count_up_in_steps_are_spread_over_all_lines() {
        for (slots, seed) in [1000, 4000, 16_000].into_iter().zip(1..) {
            for stride in [1, 2, 4, 8, 16, 64, 640, 4096, 1 << 16, 1 << 20, 1 << 32, 1 << 38, 1 << 48] {
                let steps = steps(slots, seed, (0..).map(|n| n * stride));
                let away = steps.iter().filter(|&&(steps, _)| steps > 0).count();
                let farthest = steps.iter().map(|&(steps, _)| steps).max();
                let first = steps.iter().filter(|&&(_, first)| first).count();
                assert_eq!(steps.len(), slots);
                assert!(8 * away <= slots, "{away} of {slots} are away from home at stride {stride}");
                assert!(farthest <= Some(8), "{farthest:?} lines away at stride {stride}, {slots} slots");
                // Ids that are spread at random would be there in seven of ten cases.
                let (part, of) = if stride == 1 { (3, 4) } else { (2, 5) };
                assert!(of * first >= part * slots, "{first} of {slots} are found first at stride {stride}");
            }
        }
    }

    #[test]
    fn each_line_is_met_once_on_the_way_from_each_home() {
        for slots in [1, 14, 15, 40] {
            let Some(sharing) = Sharing::new(1, 1) else { unreachable!("one bit") };
            let words = memory(slots, sharing);
            let Ok(parts) = Parts::create::<Plain>(&words, slots, sharing, 1) else { unreachable!("it fits") };
            for home in 0..parts.lines.len() {
                for step in 0..parts.lines.len() {
                    assert_eq!(parts.steps(home, parts.beyond(home, step)), step, "from {home}, {slots} slots");
                }
            }
            // Nobody stops at a place that has no data, however often that is said.
            for place in parts.places() {
                for _ in 0..2 {
                    assert_ne!(parts.home(place.key().load(Ordering::Relaxed)).line, place.line());
                    parts.forget(place);
                }
            }
        }
    }
}
