//! Groups of entries: given blocks of a class, and emptied again.

use crate::atomic::Ordering;

use super::class::{LARGE, SPAN};
use super::error::AllocError;
use super::layout::{Group, Parts};
use super::runs::Whom;
use super::word::{CLOSING, EMPTY, Entry, FREE, OPEN, OPENING, SEALED, State, TAKEN};

/// The numbers of the bits of a mask, lowest first.
pub(super) fn bits(mut mask: u64) -> impl Iterator<Item = u32> {
    core::iter::from_fn(move || {
        let lowest = (mask != 0).then_some(mask.trailing_zeros());
        mask &= mask.wrapping_sub(1);
        lowest
    })
}

/// A group that was just opened, by whoever has its first block.
pub(super) struct Opened<'a> {
    pub(super) group: Group<'a>,
    pub(super) state: State,
    /// The entry that is taken.
    pub(super) slot: u32,
    pub(super) entry: Entry,
    /// The free ones.
    pub(super) free: u64,
}

impl Opened<'_> {
    /// Gives the first block back, and lets anybody use the span.
    pub(super) fn close_to_nobody(self) {
        self.group.entry(self.slot).store(self.entry.freed().0, Ordering::Release);
        self.group.hints().store(self.free | 1 << self.slot, Ordering::Release);
        self.group.state.store(self.state.with(OPEN).0, Ordering::Release);
    }
}

pub(super) fn load(group: &Group<'_>) -> State {
    // ORDERING: acquire pairs with the store that opens a group: who sees it open sees its span.
    State(group.state.load(Ordering::Acquire))
}

fn entry_of(group: &Group<'_>, slot: u32) -> Entry {
    Entry(group.entry(slot).load(Ordering::Relaxed))
}

/// Gives a group blocks of a class, reserved by `by`, who gets the first of them: so it is not empty, and nobody
/// closes it before it was used.
pub(super) fn open<'a>(parts: &Parts<'a>, class: usize, pinned: bool, by: u16) -> Result<Opened<'a>, AllocError> {
    let not_available = AllocError::NotAvailable { len: if class == LARGE { 0 } else { parts.sizes.size(class) } };
    for group in parts.groups() {
        let state = load(&group);
        if state.state() != EMPTY {
            continue;
        }
        let opening = state.opening(class, pinned, by);
        if group.state.compare_exchange(state.0, opening.0, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            continue;
        }
        if class != LARGE {
            let (order, whom) = (parts.sizes.span_order(class), Whom::span(group.number));
            let Some(first) = parts.runs.take(order, by, whom) else {
                group.state.store(opening.with(EMPTY).0, Ordering::Release);
                return Err(not_available);
            };
            // ORDERING: release pairs with `Heap::describe`: who finds this finds no block of an earlier life allocated.
            group.first().store(first.into(), Ordering::Release);
            parts.runs.hold(first, order, by, whom);
        }
        let mut entries = bits(parts.sizes.slots(class)).map(|slot| (slot, entry_of(&group, slot)));
        let Some((slot, entry)) = entries.find(|(_, entry)| entry.freed().state() == FREE) else {
            // All its entries were used as often as they can be.
            group.state.store(opening.with(OPEN).0, Ordering::Release);
            continue;
        };
        // It must not be free for an instant: somebody who slept since an earlier life might take it.
        let entry = entry.taken(by);
        group.entry(slot).store(entry.0, Ordering::Relaxed);
        let free = unseal(parts, &group, class);
        group.hints().store(0, Ordering::Relaxed);
        let state = opening.with(OPEN).by_number(by);
        // ORDERING: release pairs with `load`.
        group.state.store(state.0, Ordering::Release);
        return Ok(Opened { group, state, slot, entry, free });
    }
    Err(AllocError::OutOfEntries)
}

/// Frees the entries of a group that are sealed; which ones are free now.
fn unseal(parts: &Parts<'_>, group: &Group<'_>, class: usize) -> u64 {
    let mut free = 0;
    for slot in bits(parts.sizes.slots(class)) {
        let entry = entry_of(group, slot);
        if entry.state() == SEALED {
            group.entry(slot).store(entry.freed().0, Ordering::Release);
        }
        let is_free = matches!(entry.state(), SEALED | FREE) && entry.freed().state() == FREE;
        free |= u64::from(is_free) << slot;
    }
    free
}

/// Takes the blocks of a group away, if all of them are free.
pub(super) fn close(parts: &Parts<'_>, group: &Group<'_>, by: u16) -> bool {
    let state = load(group);
    if state.state() != OPEN || state.is_pinned() || state.class() > LARGE {
        return false;
    }
    let slots = parts.sizes.slots(state.class());
    if bits(slots).any(|slot| entry_of(group, slot).is_busy()) {
        return false;
    }
    let closing = state.with(CLOSING).by_number(by);
    if group.state.compare_exchange(state.0, closing.0, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        return false;
    }
    let seal = |slot| {
        let word = group.entry(slot);
        let entry = Entry(word.load(Ordering::Relaxed));
        // ORDERING: acquire pairs with whoever freed the block.
        let sealed = || word.compare_exchange(entry.0, entry.sealed().0, Ordering::AcqRel, Ordering::Relaxed);
        entry.state() == SEALED || entry.state() == FREE && sealed().is_ok()
    };
    if !bits(slots).all(seal) {
        reopen(parts, group, closing);
        return false;
    }
    if state.class() != LARGE {
        parts.runs.release(group.first().load(Ordering::Relaxed) as u32, by, Whom::span(group.number));
    }
    group.state.store(closing.with(EMPTY).0, Ordering::Release);
    true
}

/// Makes a group that was being opened or closed one that anybody may use.
fn reopen(parts: &Parts<'_>, group: &Group<'_>, state: State) {
    let free = unseal(parts, group, state.class());
    group.hints().fetch_or(free, Ordering::AcqRel);
    group.state.store(state.with(OPEN).0, Ordering::Release);
}

/// Ends what a dead one was doing to a group, after his runs were recovered; whether there was anything.
pub(super) fn recover(parts: &Parts<'_>, group: &Group<'_>, dead: u16) -> bool {
    let state = load(group);
    if !state.is_by(dead) || state.class() > LARGE {
        return false;
    }
    match state.state() {
        OPENING | CLOSING => {
            let first = group.first().load(Ordering::Relaxed) as u32;
            // With its span it may as well be used; a group that was being closed has given it back last.
            if state.class() == LARGE || parts.runs.held(first, Whom::span(group.number)).is_some() {
                reopen(parts, group, state);
            } else {
                group.state.store(state.with(EMPTY).0, Ordering::Release);
            }
        }
        OPEN => {
            // What the dead one knew to be free nobody else does.
            let is_free = |slot: &u32| entry_of(group, *slot).state() == FREE;
            let free = (0..SPAN as u32).filter(is_free).fold(0, |free, slot| free | 1 << slot);
            group.hints().fetch_or(free, Ordering::AcqRel);
            let _ = group.state.compare_exchange(state.0, state.with(OPEN).0, Ordering::AcqRel, Ordering::Relaxed);
        }
        _ => return false,
    }
    true
}

/// How a claim of an entry ended.
pub(super) enum Claim {
    Taken(Entry),
    /// Somebody else has it.
    Lost,
    /// The group has a new life.
    Gone,
}

/// Takes a block if it is free, in this life of the group.
#[inline]
pub(super) fn claim(group: &Group<'_>, slot: u32, life: u64, by: u16) -> Claim {
    let word = group.entry(slot);
    let entry = Entry(word.load(Ordering::Relaxed));
    if entry.state() != FREE {
        return Claim::Lost;
    }
    let taken = entry.taken(by);
    debug_assert_eq!(taken.state(), TAKEN);
    // ORDERING: acquire pairs with whoever freed the block, and with whoever opened the group.
    if word.compare_exchange(entry.0, taken.0, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        return Claim::Lost;
    }
    // As long as it is taken the group is not closed. But it may have been before.
    if load(group).life() == life {
        return Claim::Taken(taken);
    }
    give_back(group, slot, taken);
    Claim::Gone
}

/// Frees an entry that the caller took, or whose run it released.
pub(super) fn give_back(group: &Group<'_>, slot: u32, entry: Entry) {
    group.entry(slot).store(entry.freed().0, Ordering::Release);
    group.hints().fetch_or(1 << slot, Ordering::AcqRel);
}
