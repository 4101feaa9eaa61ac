//! The order of messages: a ring of cells that name slots.

use super::error::{Damaged, ReceiveError, SendError};
use super::layout::{DESTROYED, Plan, Shape, lap};
use super::slots::Claim;
use super::word::{Cell, Slot, State};
use crate::atomic::{AtomicU64, Ordering};
use crate::event::EventCount;

/// Steps beyond those that can be accounted for after which the words are called damaged: others are never that fast.
pub(super) const SPARE: usize = 1 << 16;
/// Looks for one moment in which nobody receives, before a count is what it is.
const PASSES: u32 = 8;

/// The queue of a channel, over memory that processes share; copies are cheap.
#[derive(Clone, Copy, Debug)]
pub struct Queue<'a> {
    pub(super) header: &'a [AtomicU64],
    pub(super) tail: &'a AtomicU64,
    pub(super) published: &'a AtomicU64,
    /// Every message before this position was taken, as a sender has seen.
    pub(super) taken_before: &'a AtomicU64,
    pub(super) head: &'a AtomicU64,
    pub(super) taken: &'a AtomicU64,
    pub(super) hints: &'a [AtomicU64],
    pub(super) cells: &'a [AtomicU64],
    pub(super) slots: &'a [AtomicU64],
    pub(super) plan: Plan,
    pub(super) shift: u32,
    pub(super) spare: usize,
}

/// Where a message stands in the order of all messages of its channel.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Position(pub u64);

/// A received message, whose slot is the receiver's until he [releases](Queue::release) it.
#[derive(PartialEq, Eq, Debug)]
#[must_use = "a message that is not released keeps its slot"]
pub struct Take {
    pub(super) slot: usize,
    word: Slot,
    /// Where it stood.
    pub position: Position,
}

impl Take {
    /// Which slot it is.
    #[must_use]
    pub const fn slot(&self) -> usize {
        self.slot
    }
}

/// The first message, which somebody else may receive at any moment.
#[derive(Clone, Copy, Debug)]
pub struct Glimpse {
    pub(super) slot: usize,
    word: Slot,
    cell: Cell,
    pub(super) position: u64,
}

impl Glimpse {
    /// Which slot it is in.
    #[must_use]
    pub const fn slot(&self) -> usize {
        self.slot
    }
}

/// What is at a position.
enum Found {
    /// Nothing yet.
    Nothing,
    /// A message that waits.
    Waiting(Glimpse),
    /// Nothing any more; the next position that may be different.
    Past(u64),
    /// It changed meanwhile.
    Moved,
}

impl<'a> Queue<'a> {
    /// What its creator chose.
    #[must_use]
    pub fn shape(&self) -> Shape {
        let Plan { capacity, slots, block, .. } = self.plan;
        Shape { capacity: capacity as u32, spares: (slots - capacity) as u32, block: block as u32 }
    }

    /// Changes whenever a message was published.
    #[must_use]
    pub const fn published(&self) -> EventCount<'a> {
        EventCount::new(self.published)
    }

    /// Changes whenever a message was taken, or a slot became free.
    #[must_use]
    pub const fn taken(&self) -> EventCount<'a> {
        EventCount::new(self.taken)
    }

    /// Whether [`destroy`](Self::destroy) was called.
    #[inline]
    #[must_use]
    pub fn is_destroyed(&self) -> bool {
        self.header[DESTROYED].load(Ordering::Relaxed) != 0
    }

    /// Says that nobody shall use it any more; true for the first who says so. Wake all waiters afterwards.
    pub fn destroy(&self) -> bool {
        self.header[DESTROYED].swap(1, Ordering::SeqCst) == 0
    }

    #[inline]
    fn cell(&self, position: u64) -> &'a AtomicU64 {
        // The number of cells is a power of two, and they are not empty.
        &self.cells[position as usize & (self.cells.len() - 1)]
    }

    const fn patience(&self) -> usize {
        (4 * self.plan.cells).saturating_add(self.spare)
    }

    /// The position to go on from, given that the cell at `position` is in a later lap: in the lap before that one, what
    /// stood there was published and taken.
    fn after(&self, cell: Cell, position: u64) -> u64 {
        let here = position & (self.plan.cells as u64 - 1);
        let seen = cell.lap().saturating_sub(1) << self.shift | here;
        seen.max(position).wrapping_add(1)
    }

    /// The word of the slot that a cell names, while it names it; `None` if the cell has changed.
    #[inline]
    pub(super) fn named(&self, cell: &AtomicU64, now: Cell, slot: usize) -> Result<Option<Slot>, Damaged> {
        let word = Slot::load(self.slot_word(slot).ok_or(Damaged)?);
        // ORDERING: the word was loaded with acquire, so this load comes after it. A full cell never returns to the same
        // value (its lap moves on), so it named the slot all the time between.
        Ok((Cell::load(cell) == now).then_some(word))
    }

    /// Empties a cell whose message was taken, for the next lap, unless somebody else did.
    #[inline]
    pub(super) fn clear(&self, cell: &AtomicU64, now: Cell) {
        let _ = now.swap(cell, Cell::empty(now.lap() + 1));
    }

    /// What is at a position; a cell that names a message that was taken is emptied in passing.
    #[inline]
    fn look(&self, position: u64) -> Result<Found, Damaged> {
        let (cell, lap) = (self.cell(position), lap(position, self.shift));
        let now = Cell::load(cell);
        if now.lap() > lap {
            return Ok(Found::Past(self.after(now, position)));
        }
        let Some(slot) = now.slot() else {
            // What is not even free for this lap was passed over by nobody: the hint is damaged.
            return if now.lap() == lap { Ok(Found::Nothing) } else { Err(Damaged) };
        };
        self.fetch_to_take(slot);
        let Some(word) = self.named(cell, now, slot)? else { return Ok(Found::Moved) };
        if word.state() == State::Held {
            let full = now.lap() < lap;
            return Ok(if full { Found::Nothing } else { Found::Waiting(Glimpse { slot, word, cell: now, position }) });
        }
        self.clear(cell, now);
        Ok(if now.lap() == lap { Found::Past(position.wrapping_add(1)) } else { Found::Moved })
    }

    /// Sends a claimed slot: with this it is the last message. Where it stands.
    ///
    /// # Errors
    /// [`SendError::Full`], [`SendError::Destroyed`] or [`SendError::Damaged`]; the slot is given up then.
    #[inline]
    pub fn publish(&self, claim: Claim) -> Result<Position, SendError> {
        let result = self.append(&claim);
        if result.is_err() {
            self.give_up(claim);
        }
        result
    }

    /// The same; on an error the slot stays its holder's.
    #[inline]
    pub(super) fn append(&self, claim: &Claim) -> Result<Position, SendError> {
        // ORDERING: pairs with the store below: whoever starts here sees every cell before it filled.
        let mut position = self.tail.load(Ordering::Acquire);
        for _ in 0..self.patience() {
            let (cell, lap) = (self.cell(position), lap(position, self.shift));
            let now = Cell::load(cell);
            if now.lap() > lap {
                position = self.after(now, position);
            } else if now.lap() == lap && now.slot().is_some() {
                position = position.wrapping_add(1);
            } else if !self.has_room(position)? {
                return Err(SendError::Full);
            } else if now.lap() == lap {
                // ORDERING: that there is room was seen with acquire. So if it is there because somebody emptied what he
                // had destroyed, that it is destroyed is seen as well.
                if self.is_destroyed() {
                    return Err(SendError::Destroyed);
                }
                if now.swap(cell, Cell::full(lap, claim.slot)) {
                    self.tail.store(position.wrapping_add(1), Ordering::Release);
                    return Ok(Position(position));
                }
            } else if let Some(slot) = now.slot() {
                // Of the lap before: taken, or else it would be among the messages that wait.
                match self.named(cell, now, slot)?.map(Slot::state) {
                    Some(State::Held) => return Err(SendError::Full),
                    Some(State::Free | State::Taken) => self.clear(cell, now),
                    None => {}
                }
            } else {
                return Err(SendError::Damaged);
            }
        }
        Err(SendError::Damaged)
    }

    /// Whether fewer messages wait before this position than there is capacity for.
    ///
    /// What receivers write lies in their caches. So a sender looks now and then how far they are, and elsewhere only if
    /// that does not tell: in a channel that is nearly full, or damaged. It is never told "no" but by what decides.
    #[inline]
    fn has_room(&self, position: u64) -> Result<bool, Damaged> {
        let capacity = self.plan.capacity as u64;
        if position & (self.plan.glance - 1) == 0 {
            // ORDERING: as in `front`.
            let head = self.head.load(Ordering::Acquire);
            self.taken_before.store(head, Ordering::Release);
        }
        // ORDERING: pairs with the store above: whoever finds room here sees what the sender saw who looked.
        if position.wrapping_sub(self.taken_before.load(Ordering::Acquire)) < capacity {
            return Ok(true);
        }
        self.is_past(position.wrapping_sub(capacity))
    }

    /// Whether the message at this position was taken. One that was not sent yet was not.
    #[inline]
    pub(super) fn is_past(&self, position: u64) -> Result<bool, Damaged> {
        let (cell, lap) = (self.cell(position), lap(position, self.shift));
        for _ in 0..self.spare {
            let now = Cell::load(cell);
            if now.lap() != lap {
                return Ok(now.lap() > lap);
            }
            let Some(slot) = now.slot() else { return Ok(false) };
            if let Some(word) = self.named(cell, now, slot)? {
                return Ok(word.state() != State::Held);
            }
        }
        Err(Damaged)
    }

    /// The message that is the next to be received.
    ///
    /// # Errors
    /// [`ReceiveError::Empty`] or [`ReceiveError::Damaged`].
    #[inline]
    pub fn first(&self) -> Result<Glimpse, ReceiveError> {
        match self.front()? {
            (_, Some(glimpse)) => Ok(glimpse),
            (_, None) => Err(ReceiveError::Empty),
        }
    }

    /// The first position that is not past, and the message that waits there.
    #[inline]
    fn front(&self) -> Result<(u64, Option<Glimpse>), Damaged> {
        // ORDERING: pairs with the store in `take`: whoever starts here sees every cell before it taken.
        let mut position = self.head.load(Ordering::Acquire);
        for _ in 0..self.patience() {
            match self.look(position)? {
                Found::Nothing => return Ok((position, None)),
                Found::Waiting(glimpse) => return Ok((position, Some(glimpse))),
                Found::Past(next) => position = next,
                Found::Moved => {}
            }
        }
        Err(Damaged)
    }

    /// The first position that nothing was sent to.
    fn end(&self) -> Result<u64, Damaged> {
        // ORDERING: as in `append`.
        let mut position = self.tail.load(Ordering::Acquire);
        for _ in 0..self.patience() {
            let (now, lap) = (Cell::load(self.cell(position)), lap(position, self.shift));
            if now.lap() > lap {
                position = self.after(now, position);
            } else if now.lap() == lap && now.slot().is_some() {
                position = position.wrapping_add(1);
            } else {
                return Ok(position);
            }
        }
        Err(Damaged)
    }

    /// Whether the message still waits: then what was read of it since [`first`](Self::first) is whole.
    #[must_use]
    pub fn still(&self, glimpse: &Glimpse) -> bool {
        // ORDERING: the bytes are read before the word is: an acquire fence keeps the loads in their order.
        crate::atomic::fence(Ordering::Acquire);
        self.slot_word(glimpse.slot).is_some_and(|word| Slot::load(word) == glimpse.word)
    }

    /// Receives exactly the message that was seen; `None` if somebody else did.
    #[inline]
    pub fn take(&self, glimpse: &Glimpse, by: u16) -> Option<Take> {
        let Glimpse { slot, word, cell, position } = *glimpse;
        // The message is ours with this, or somebody else's.
        if !word.swap(self.slot_word(slot)?, word.taken(by)) {
            return None;
        }
        // The cell must not name a slot that is given back.
        self.clear(self.cell(position), cell);
        self.head.store(position.wrapping_add(1), Ordering::Release);
        Some(Take { slot, word: word.taken(by), position: Position(position) })
    }

    /// Has the message brought near that comes after this one, if there is one already.
    #[inline]
    pub(super) fn fetch_next(&self, Position(position): Position) {
        if cfg!(loom) {
            return;
        }
        let next = position.wrapping_add(1);
        let cell = Cell::load(self.cell(next));
        if let Some(slot) = cell.slot().filter(|_| cell.lap() == lap(next, self.shift)) {
            self.fetch_to_take(slot);
        }
    }

    /// Gives the slot of a received message back.
    #[inline]
    pub fn release(&self, take: Take) {
        self.free(take.slot, take.word);
    }

    /// How many messages wait; while others send and receive, how many did at some moment.
    #[must_use]
    pub fn len(&self) -> usize {
        let front = || self.front().map(|(position, _)| position);
        let count = || {
            let mut from = front()?;
            // Positions are without a gap, so their difference counts, if it is that of one moment.
            for _ in 0..PASSES {
                let (to, now) = (self.end()?, front()?);
                if now == from {
                    return Ok(to.saturating_sub(from));
                }
                from = now;
            }
            Ok::<_, Damaged>(self.end()?.saturating_sub(from))
        };
        count().map_or(0, |waiting| (waiting as usize).min(self.plan.capacity))
    }

    /// How many messages were sent since it was made, and how many of them were received or removed; `None` if its words
    /// contradict each other. Beside others the two may be of different moments.
    #[must_use]
    pub fn passed(&self) -> Option<(u64, u64)> {
        let (taken, _) = self.front().ok()?;
        let first = self.plan.cells as u64;
        Some((self.end().ok()?.wrapping_sub(first), taken.wrapping_sub(first)))
    }

    /// Whether no message waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        matches!(self.front(), Ok((_, None)))
    }

    /// Whether a send would find no room.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.len() >= self.plan.capacity
    }

    /// Slots that nobody holds, and in which no message waits.
    #[must_use]
    pub fn free_slots(&self) -> usize {
        let free = |slot: &usize| self.slot_word(*slot).is_some_and(|word| Slot::load(word).state() == State::Free);
        (0..self.plan.slots).filter(free).count()
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
