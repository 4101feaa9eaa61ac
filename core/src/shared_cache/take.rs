//! Slots for new data: an empty one, else one whose content leaves.
//!
//! CLOCK, because it needs no list: a hand goes around over all slots, takes the mark of use from idle content that has
//! one, and evicts idle content that has none. Source: Corbató, "A paging experiment with the Multics system", 1968.
//!
//! The slot then moves to the place where its new data is looked for first, if that is bare, else to a bare one nearer
//! home. While it moves, the new place names the old one, and the old one has the slot until it has none: so whoever
//! buries the claimant of both knows which of them has it.

use super::error::Blocked;
use super::layout::{Home, Parts};
use super::line::Held;
use super::place::{NIL, Place};
use super::word::{BARE, Word};
use crate::shared_slots::Owner;

/// Hints that may be wrong or in others' hands before the hand looks at the slots themselves.
const HINTS: u32 = if cfg!(loom) { 4 } else { 256 };

/// Compare-and-swaps of one slot that may fail before an operation gives up: others are never that fast, but memory
/// may be damaged on purpose. Fewer for Miri, which is slow and learns nothing from more.
pub(super) const ATTEMPTS: u32 = if cfg!(miri) { 1 << 6 } else { 1 << 16 };

/// A place with a slot that this client has to itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken<'a> {
    pub(super) place: Place<'a>,
    pub(super) word: Word,
    pub(super) evicted: bool,
}

/// Why there was no slot.
pub(super) enum Failed {
    Full,
    Blocked(Blocked),
}

impl From<Blocked> for Failed {
    fn from(why: Blocked) -> Self {
        Failed::Blocked(why)
    }
}

impl<'a> Parts<'a> {
    /// A place for data whose home is held, with a slot, for this client alone.
    pub(super) fn take(&self, owner: Owner, held: &Held<'_, 'a>) -> Result<Taken<'a>, Failed> {
        let taken = match self.take_empty(owner, held.home()) {
            Some(taken) => taken,
            None => self.take_idle(owner).ok_or(Failed::Full)?,
        };
        let slot = taken.place.slot();
        if slot >= self.slots {
            let _ = taken.word.replace(taken.place.word(), taken.word.bared());
            return Err(Failed::Blocked(Blocked::Damaged { at: taken.place.number() as usize }));
        }
        if !taken.evicted {
            self.unhint(taken.place);
        }
        Ok(self.seat(taken, slot, owner, held))
    }

    /// Takes back the hint that a slot is free here, unless it is after all.
    pub(super) fn unhint(&self, place: Place<'_>) {
        self.vacancy.clear(place.number(), || Word::of_slot(place.word()).is_free());
    }

    fn take_empty(&self, owner: Owner, home: Home) -> Option<Taken<'a>> {
        // At home the slot need not move far, and nearby others seldom meet this client.
        if let Some(taken) = self.places_at(home).find_map(|place| claim(place, owner, Word::is_free)) {
            return Some(taken);
        }
        let start = self.places_of(home.line).next().map_or(0, |place| place.number());
        let (mut from, mut around) = (start, start == 0);
        for _ in 0..HINTS {
            let Some(place) = self.vacancy.find(from).and_then(|number| self.place(number)) else {
                if around {
                    break;
                }
                (from, around) = (0, true);
                continue;
            };
            if let Some(taken) = claim(place, owner, Word::is_free) {
                return Some(taken);
            }
            self.unhint(place);
            from = place.number() + 1;
        }
        None
    }

    /// By the hand once around for what was not used, and once more for what lost its mark. Others move the hand too,
    /// so it may pass by slots that this client never sees, and slots move: the last time around, for anything idle, is its own.
    fn take_idle(&self, owner: Owner) -> Option<Taken<'a>> {
        let slots = self.slots as usize;
        let mut idle = false;
        for step in 0..2 * slots {
            if step == slots && !idle {
                break;
            }
            let Some(place) = self.advance() else { continue };
            let word = Word::of_slot(place.word());
            idle |= word.is_idle();
            if word.is_idle() && word.is_used() {
                let _ = word.replace(place.word(), word.unused());
            } else if let Some(taken) = claim(place, owner, |word| word.is_idle() || word.is_free()) {
                return Some(taken);
            }
        }
        self.places().find_map(|place| claim(place, owner, |word| word.is_idle() || word.is_free()))
    }

    /// Has the slot where its data will be found: where it is, if there is no bare place that is looked at before.
    fn seat(&self, taken: Taken<'a>, slot: u32, owner: Owner, held: &Held<'_, 'a>) -> Taken<'a> {
        let home = held.home();
        let here = self.steps(home.line, taken.place.line());
        let to = |place: Place<'a>| self.move_to(place, taken, slot, owner);
        let nearer = self.places_at(home).next().and_then(to).map(|seated| (0, seated)).or_else(|| {
            (0..here).find_map(|step| Some((step, self.places_of(self.beyond(home.line, step)).find_map(to)?)))
        });
        let (step, seated) = nearer.unwrap_or((here, taken));
        self.note_seat(slot, seated.place);
        held.reach(step);
        seated
    }

    /// Moves the slot, if this place is bare. Whichever step is the last, [`Parts::unclaim`] knows where the slot is.
    fn move_to(&self, place: Place<'a>, taken: Taken<'a>, slot: u32, owner: Owner) -> Option<Taken<'a>> {
        let bare = Word::of_slot(place.word());
        if bare.state() != BARE {
            return None;
        }
        let moving = bare.moving(owner, taken.place.number());
        bare.replace(place.word(), moving).ok()?;
        place.set_slot(slot);
        taken.place.set_slot(NIL);
        let moved = moving.moved();
        moving.replace(place.word(), moved).ok()?;
        self.forget(taken.place);
        taken.word.replace(taken.place.word(), taken.word.bared()).ok()?;
        Some(Taken { place, word: moved, ..taken })
    }
}

/// Claims the place, if its word is one of which `may` holds.
fn claim<'a>(place: Place<'a>, owner: Owner, may: impl Fn(Word) -> bool) -> Option<Taken<'a>> {
    let word = Word::of_slot(place.word());
    if !may(word) {
        return None;
    }
    let claimed = word.claimed(owner);
    word.replace(place.word(), claimed).ok()?;
    Some(Taken { place, word: claimed, evicted: word.is_idle() })
}
