//! The two kinds of words that decide: of a cell, and of a slot.

use crate::atomic::{AtomicU64, Ordering};
use crate::barrier::PARTIES_MAX;

const SLOT_BITS: u32 = 14;
/// Most slots of a channel.
pub(super) const SLOTS_MAX: usize = 1 << SLOT_BITS;
// A channel that is a barrier is one for as many parties as messages have room in it.
const _: () = assert!(SLOTS_MAX - 1 <= PARTIES_MAX as usize);
const FULL: u64 = 1 << SLOT_BITS;
const LAP: u32 = SLOT_BITS + 1;
/// A lap, as far as a cell can say it; a lap number repeats after 2^49 laps.
pub(super) const LAP_MASK: u64 = (1 << (u64::BITS - LAP)) - 1;

/// What a cell says: in which lap it is, and which slot's message lies there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Cell(u64);

impl Cell {
    pub(super) const fn empty(lap: u64) -> Cell {
        Cell(lap << LAP)
    }
    pub(super) const fn full(lap: u64, slot: usize) -> Cell {
        Cell(lap << LAP | FULL | slot as u64)
    }
    pub(super) const fn lap(self) -> u64 {
        self.0 >> LAP
    }
    pub(super) const fn slot(self) -> Option<usize> {
        if self.0 & FULL == 0 { None } else { Some((self.0 & (FULL - 1)) as usize) }
    }

    #[inline]
    pub(super) fn load(cell: &AtomicU64) -> Cell {
        // ORDERING: pairs with the release in `swap`.
        Cell(cell.load(Ordering::Acquire))
    }

    /// Sets a cell that nobody else looks at yet.
    pub(super) fn store(self, cell: &AtomicU64) {
        cell.store(self.0, Ordering::Relaxed);
    }

    /// Replaces exactly this word.
    #[inline]
    pub(super) fn swap(self, cell: &AtomicU64, new: Cell) -> bool {
        // ORDERING: release: whoever sees the message named here sees all of it, and whoever sees the cell emptied comes
        // after the taking. Sequentially consistent, so that a notification may follow without a fence.
        cell.compare_exchange(self.0, new.0, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }
}

const OWNER: u64 = 0xffff;
const STATE: u32 = 16;
const GENERATION: u32 = 32;
/// Owner of a message that waits although its sender is dead; no process has this number.
pub(super) const NOBODY: u16 = u16::MAX;

/// What a slot is in use for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// Anybody may take it to send.
    Free,
    /// Its owner fills it; or it waits in the ring, if a cell names it.
    Held,
    /// Its owner received it.
    Taken,
}

/// The word of a slot: owner (16 bits), state, and a generation (32 bits) that moves on when the slot becomes free.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Slot(u64);

impl Slot {
    /// Free, in the first generation: zero, as in memory that nobody has written to.
    pub(super) const FIRST: Slot = Slot(0);

    pub(super) const fn state(self) -> State {
        match (self.0 >> STATE) as u16 {
            0 => State::Free,
            1 => State::Held,
            // Damage may say more than that; as taken, it is left to its owner.
            _ => State::Taken,
        }
    }
    pub(super) const fn owner(self) -> u16 {
        (self.0 & OWNER) as u16
    }
    const fn with(self, state: u64, owner: u16) -> Slot {
        Slot(self.0 >> GENERATION << GENERATION | state << STATE | owner as u64)
    }
    pub(super) const fn held(self, by: u16) -> Slot {
        self.with(1, by)
    }
    pub(super) const fn taken(self, by: u16) -> Slot {
        self.with(2, by)
    }
    /// Free, in the next generation.
    pub(super) const fn freed(self) -> Slot {
        Slot((self.0 >> GENERATION).wrapping_add(1) << GENERATION)
    }

    #[inline]
    pub(super) fn load(word: &AtomicU64) -> Slot {
        // ORDERING: acquire, because a cell that was read before is read again after.
        Slot(word.load(Ordering::Acquire))
    }

    /// Replaces exactly this word.
    #[inline]
    pub(super) fn swap(self, word: &AtomicU64, new: Slot) -> bool {
        // ORDERING: acquire: who takes comes after who freed or filled. Sequentially consistent, as for cells.
        word.compare_exchange(self.0, new.0, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    /// The word, by a load that comes after the caller's last read-modify-write of another word.
    #[inline]
    pub(super) fn load_after_swap(word: &AtomicU64) -> Slot {
        // ORDERING: sequentially consistent, as the read-modify-write has to be.
        Slot(word.load(Ordering::SeqCst))
    }

    /// Sets the word of a slot that is the caller's alone.
    #[inline]
    pub(super) fn put(self, word: &AtomicU64) {
        // ORDERING: release: the next one comes after all that was done with the slot. Sequentially consistent, so that
        // a look at the bit of the slot, and a notification, may follow without a fence.
        word.swap(self.0, Ordering::SeqCst);
    }

    /// Sets the word of a slot that nobody else looks at yet.
    pub(super) fn store(self, word: &AtomicU64) {
        word.store(self.0, Ordering::Relaxed);
    }
}
