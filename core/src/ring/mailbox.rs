//! Messages of 64 bytes in a segment, from many senders to many receivers.
//!
//! Nobody's death or stop blocks the others. A message lies in a slot of a [`SharedSlots`] table; the order of messages
//! is a ring of words that name slots. A sender takes a slot (the compare-and-swap names him in the slot), writes the
//! message, and publishes with *one* compare-and-swap of a cell from "empty in this lap" to "full: slot s". A receiver
//! takes the message with *one* compare-and-swap of the slot's word, which replaces the sender's name by his; then the
//! cell is emptied for the next lap, by him or by whoever meets it first. Only then is the slot given back. Where the
//! next message goes or comes from is a hint; cells tell their lap themselves.
//!
//! Guaranteed, whichever processes are killed or stopped at whatever instruction:
//! * a message is received at most once, and the messages of one sender in the order he sent them;
//! * everyone else goes on: a process that stops holds back its own slots and nothing more;
//! * after [`Mailbox::reclaim`] of a dead owner all slots are usable again. Lost is only what that owner had
//!   not yet published, or had taken; what he had published will be received.
//!
//! ```
//! use umbra_core::cell::BytesMut;
//! use umbra_core::ring::line::Line;
//! use umbra_core::ring::mailbox::{Mailbox, words_for};
//! use umbra_core::shared_slots::Owner;
//! let mut memory = vec![0_u64; words_for(4).ok_or("too large")?];
//! let words = BytesMut::from_words(&mut memory).words(0, words_for(4).unwrap_or(0))?;
//! let mailbox = Mailbox::create(words, 4)?;
//! let (a, b) = (Owner::new(0).ok_or("0")?, Owner::new(1).ok_or("1")?);
//! let line = Line::from_bytes(b"hello").ok_or("byte 5 is taken")?;
//! mailbox.push(a, line)?;
//! mailbox.reclaim(a);
//! assert_eq!(mailbox.pop(b)?, Some(line), "published before its sender died");
//! assert_eq!(mailbox.pop(b)?, None);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Invariants: let `T` be the first position whose cell is not full in its lap nor beyond. Positions below
//! `T` were published, in order, without a gap; the hint `tail <= T`. Messages are taken in the order of
//! positions; `head` is at or below the first one not taken. A slot is named by at most one cell, and only
//! while it is marked (waiting), or taken but not yet given back. A lap number repeats after 2^43 laps.
//!
//! Layout, in words: magic, capacity, 14 zero; hint for senders and 15 zero; hint for receivers and 15 zero;
//! one word a cell (lap, full, slot), filled up to 16; the slot table; 8 words a message.
//!
//! *Cost*: three read-modify-writes and a store to send, four and a store to receive. Lock-free. A queue for
//! one process, such as [`mpmc`](super::mpmc), takes one at either end, because there a ticket may be lost with
//! its holder; so this one takes some three times as long alone, and more when many threads meet at one of
//! its hints (`mailbox` in docs/benchmarks.md). Take it where somebody may be killed, and nowhere else.

use core::fmt;

use super::line::Line;
use super::{AttachError, PushError};
use crate::atomic::{AtomicU64, Ordering};
use crate::id::Id;
use crate::shared_slots::{self, Held, MARKED, Owner, SharedSlots, id_of};

const MAGIC: u64 = u64::from_le_bytes(*b"umbrmbx1");
const TAIL: usize = 16;
const HEAD: usize = 32;
const CELLS: usize = 48;
const LINE: usize = 8;
const SLOT_BITS: u32 = 20;
const FULL: u64 = 1 << SLOT_BITS;
const LAP_SHIFT: u32 = SLOT_BITS + 1;
/// Most messages that a mailbox holds.
pub const CAPACITY_MAX: usize = 1 << SLOT_BITS;

/// The cells of a mailbox contradict each other; no retry helps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Damaged;

impl fmt::Display for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("mailbox is damaged: give it up")
    }
}
impl core::error::Error for Damaged {}

/// Words of memory that a mailbox of `capacity` messages needs; `None` if that is no power of two or more
/// than [`CAPACITY_MAX`].
#[must_use]
pub const fn words_for(capacity: usize) -> Option<usize> {
    if !capacity.is_power_of_two() || capacity > CAPACITY_MAX {
        return None;
    }
    match shared_slots::words_for(capacity) {
        Some(slots) => Some(CELLS + cell_words(capacity) + slots + capacity * LINE),
        None => None,
    }
}

const fn cell_words(capacity: usize) -> usize {
    capacity.next_multiple_of(16)
}

/// A mailbox in a segment; copies of it are cheap.
#[derive(Clone, Copy, Debug)]
pub struct Mailbox<'a> {
    tail: &'a AtomicU64,
    head: &'a AtomicU64,
    cells: &'a [AtomicU64],
    slots: SharedSlots<'a>,
    lines: &'a [AtomicU64],
    shift: u32,
    spare: usize,
}

/// Steps beyond those that can be accounted for after which a mailbox is called damaged.
const SPARE: usize = 1 << 16;

/// What a cell says.
#[derive(Clone, Copy)]
struct Cell(u64);

impl Cell {
    const fn empty(lap: u64) -> Cell {
        Cell(lap << LAP_SHIFT)
    }

    const fn full(lap: u64, slot: u32) -> Cell {
        Cell(lap << LAP_SHIFT | FULL | slot as u64)
    }

    const fn lap(self) -> u64 {
        self.0 >> LAP_SHIFT
    }

    const fn slot(self) -> Option<usize> {
        if self.0 & FULL == 0 { None } else { Some((self.0 & (FULL - 1)) as usize) }
    }
}

impl<'a> Mailbox<'a> {
    /// Makes an empty mailbox; nobody may use the memory as one meanwhile.
    ///
    /// # Errors
    /// [`AttachError::BadCapacity`] if the capacity is no power of two, too large, or does not fit.
    pub fn create(words: &'a [AtomicU64], capacity: usize) -> Result<Self, AttachError> {
        let bad = AttachError::BadCapacity(capacity as u64);
        let words = words.get(..words_for(capacity).ok_or(bad)?).ok_or(bad)?;
        for word in words {
            word.store(0, Ordering::Relaxed);
        }
        SharedSlots::create(&words[CELLS + cell_words(capacity)..], capacity).map_err(|_| bad)?;
        words[1].store(capacity as u64, Ordering::Relaxed);
        // ORDERING: pairs with the load in `attach`.
        words[0].store(MAGIC, Ordering::Release);
        Self::attach(words)
    }

    /// Looks at a mailbox that another process created; `words` may be longer than it.
    ///
    /// # Errors
    /// [`AttachError`].
    pub fn attach(words: &'a [AtomicU64]) -> Result<Self, AttachError> {
        // ORDERING: pairs with the store in `create`.
        if words.len() < CELLS || words[0].load(Ordering::Acquire) != MAGIC {
            return Err(AttachError::NotRing);
        }
        let stated = words[1].load(Ordering::Relaxed);
        let bad = AttachError::BadCapacity(stated);
        let capacity = usize::try_from(stated).map_err(|_| bad)?;
        let words = words.get(..words_for(capacity).ok_or(bad)?).ok_or(bad)?;
        let (front, lines) = words.split_at(words.len() - capacity * LINE);
        let slots = SharedSlots::attach(&front[CELLS + cell_words(capacity)..]).map_err(|_| bad)?;
        if slots.capacity() != capacity {
            return Err(AttachError::BadCapacity(slots.capacity() as u64));
        }
        let cells = &front[CELLS..CELLS + capacity];
        let (tail, head, shift) = (&words[TAIL], &words[HEAD], stated.trailing_zeros());
        Ok(Mailbox { tail, head, cells, slots, lines, shift, spare: SPARE })
    }

    /// The same mailbox, seen by somebody who calls it damaged after `spare` steps for which only contention could
    /// account, instead of 65536: for who knows that there is little.
    #[must_use]
    pub const fn with_spare(self, spare: usize) -> Self {
        Mailbox { spare, ..self }
    }

    /// Messages that fit.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.cells.len()
    }

    /// The table of slots: who holds how many.
    #[must_use]
    pub const fn slots(&self) -> &SharedSlots<'a> {
        &self.slots
    }

    /// Sends one message as `owner`.
    ///
    /// # Errors
    /// [`PushError`] with the message.
    pub fn push(&self, owner: Owner, line: Line) -> Result<(), PushError> {
        let Ok(id) = self.slots.take_as(owner, MARKED) else { return Err(PushError::Full(line)) };
        for (to, &word) in self.line(id.index() as usize).iter().zip(line.words()) {
            to.store(word, Ordering::Relaxed);
        }
        self.publish(id).map_err(|Damaged| {
            // Nobody can have received what no cell names.
            let _ = self.slots.release(id, owner);
            PushError::Damaged(line)
        })
    }

    /// Receives one message as `owner`, if there is one.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn pop(&self, owner: Owner) -> Result<Option<Line>, Damaged> {
        // ORDERING: pairs with the store below: whoever starts here sees every cell before it emptied.
        let mut position = self.head.load(Ordering::Acquire);
        for _ in 0..self.patience() {
            let (cell, lap) = (self.cell(position), position >> self.shift);
            let now = load(cell);
            if now.lap() < lap {
                // The hint is beyond what was ever sent.
                return Err(Damaged);
            }
            if now.lap() == lap && now.slot().is_none() {
                return Ok(None);
            }
            if now.lap() > lap {
                position = self.after(now, position);
                continue;
            }
            let Some((slot, word)) = self.named(cell, now)? else { continue };
            if word & MARKED != 0 {
                let taken = word & !MARKED & !(MARKED - 1) | owner.bit();
                // The message is ours with this, or somebody else's.
                if !self.slots.swap(slot, word, taken) {
                    continue;
                }
                self.clear(cell, now);
                self.head.store(position + 1, Ordering::Release);
                let line = self.copy(slot);
                // Nobody else gives it back, unless he took us for dead.
                let _ = self.slots.release(id_of(slot, word), owner);
                return Ok(Some(line));
            }
            self.clear(cell, now);
            position += 1;
        }
        Err(Damaged)
    }

    /// Gives back what an owner that will not run again had not yet published, or had taken; returns how
    /// many slots became free. May run beside everything else; if it is cut off, run it again.
    pub fn reclaim(&self, owner: Owner) -> usize {
        for cell in self.cells {
            let now = load(cell);
            let Ok(Some((slot, word))) = self.named(cell, now) else { continue };
            if word & MARKED == 0 {
                // Taken, perhaps by the dead one: the cell must not name a slot that is given back.
                self.clear(cell, now);
            } else if word & owner.bit() != 0 {
                // Published by the dead one: from now on nobody's, but still to be received. If it is
                // received at this moment, this fails, as it should.
                self.slots.swap(slot, word, word & !owner.bit() | Owner::ORPHANAGE.bit());
            }
        }
        self.slots.reclaim(owner)
    }

    fn publish(&self, id: Id<Held>) -> Result<(), Damaged> {
        // ORDERING: pairs with the store below: whoever starts here sees every cell before it filled.
        let mut position = self.tail.load(Ordering::Acquire);
        for _ in 0..self.patience() {
            let (cell, lap) = (self.cell(position), position >> self.shift);
            let now = load(cell);
            if now.lap() > lap || (now.lap() == lap && now.slot().is_some()) {
                position = self.after(now, position);
            } else if now.lap() == lap {
                let full = Cell::full(lap, id.index());
                // ORDERING: release pairs with the load in `pop`: the receiver sees the message.
                if cell.compare_exchange(now.0, full.0, Ordering::Release, Ordering::Relaxed).is_ok() {
                    self.tail.store(position + 1, Ordering::Release);
                    return Ok(());
                }
            } else if let Some((_, word)) = self.named(cell, now)?
                && word & MARKED == 0
            {
                // A message of the lap before, taken by somebody who has not emptied the cell yet.
                self.clear(cell, now);
            }
        }
        Err(Damaged)
    }

    /// The first position that can be what `position` was meant to be, given that its cell is further.
    ///
    /// A cell in lap `l` says that everything up to its position in lap `l - 1` was published and taken.
    fn after(&self, cell: Cell, position: u64) -> u64 {
        let here = position & (self.cells.len() as u64 - 1);
        let seen = cell.lap().saturating_sub(1) << self.shift | here;
        seen.max(position) + 1
    }

    /// The slot that a cell names and the slot's word while it did; `None` if the cell has changed.
    fn named(&self, cell: &AtomicU64, now: Cell) -> Result<Option<(usize, u64)>, Damaged> {
        let Some(slot) = now.slot() else { return Ok(None) };
        let word = self.slots.word(slot).ok_or(Damaged)?;
        // ORDERING: the word was loaded with acquire, so this load comes after it. A full cell never
        // returns to the same value (its lap moves on), so it named the slot all the time between.
        Ok((load(cell).0 == now.0).then_some((slot, word)))
    }

    /// Empties a cell for the next lap, unless somebody else did.
    fn clear(&self, cell: &AtomicU64, now: Cell) {
        // ORDERING: release, so that whoever publishes here next comes after the taking that we saw.
        let _ = cell.compare_exchange(now.0, Cell::empty(now.lap() + 1).0, Ordering::Release, Ordering::Relaxed);
    }

    fn copy(&self, slot: usize) -> Line {
        let mut words = [0; LINE];
        for (to, word) in words.iter_mut().zip(self.line(slot)) {
            *to = word.load(Ordering::Relaxed);
        }
        // A hostile sender may have filled byte 5; it is cut out as in `line`.
        words[0] &= !(0xff << 40);
        Line::new(words).unwrap_or_default()
    }

    fn line(&self, slot: usize) -> &'a [AtomicU64; LINE] {
        // Slots come from `named` or `take`, both of which checked them against the same capacity.
        &self.lines.as_chunks::<LINE>().0[slot]
    }

    fn cell(&self, position: u64) -> &'a AtomicU64 {
        &self.cells[position as usize & (self.cells.len() - 1)]
    }

    /// Cells that are looked at before the mailbox is called damaged: a hint may lag by as many messages as
    /// were published while its writer slept, a cell at a time within a lap; contention may cost the rest.
    fn patience(&self) -> usize {
        (4 * self.cells.len()).saturating_add(self.spare)
    }
}

fn load(cell: &AtomicU64) -> Cell {
    // ORDERING: pairs with the release in `publish` and `clear`.
    Cell(cell.load(Ordering::Acquire))
}
