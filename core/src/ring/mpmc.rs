//! Many senders and receivers within one process.
//!
//! Every cell carries a turn number beside its item, so a message is one line when item and turn fit into
//! one. A sender takes the ticket `p` by moving `tail` from `p` to `p + 1` while cell `p` is free, fills the
//! cell and turns it; receivers do the same with `head`. An end that exists once needs no compare-and-swap:
//! [`SoleSender`], [`SoleReceiver`].
//!
//! Not between processes that can die or be stopped one by one: whoever stops between ticket and turn blocks
//! the others behind its cell. [`mailbox`](super::mailbox) is made for that.
//!
//! ```
//! use umbra_core::ring::mpmc::{Cell, Ring};
//! let mut ring = Ring::new([const { Cell::new() }; 4])?;
//! let (sender, receiver) = ring.split();
//! let second = sender;
//! assert!(sender.push(1).is_ok() && second.push(2).is_ok());
//! assert_eq!(sender.push_all(&[3, 4, 5]), 2);
//! assert!(sender.push(5).is_err());
//! assert_eq!((receiver.pop(), receiver.pop()), (Some(1), Some(2)));
//! # Ok::<(), umbra_core::ring::Unfit>(())
//! ```
//!
//! Invariants, for the cell of position `p`: turn `p` means free for ticket `p`; `p + 1` means it holds
//! message `p`; `p + capacity` means that message `p` was received. Only the holder of a ticket turns its
//! cell. All numbers wrap.
//!
//! *Cost*: one compare-and-swap and one line a message at either end, one compare-and-swap a batch. "Full"
//! and "empty" cost two loads and do not disturb the other side's index; either may be told while another
//! end is half through with the cell in question. An end that meets others of its kind pauses, longer each
//! time, up to some microseconds: together they do most when one of them has the lines for a while.
//!
//! Source: Vyukov, "Bounded MPMC queue", 1024cores.net.
#![allow(unsafe_code)]

use core::marker::PhantomData;

use super::place::Place;
use super::{Backoff, Padded, Unfit};
use crate::atomic::{AtomicUsize, Ordering};
use crate::error::Full;

/// Room for one item and its turn; a [`Ring`] is lent an array of them.
#[derive(Debug)]
#[repr(C)]
pub struct Cell<T> {
    turn: AtomicUsize,
    place: Place<T>,
}

impl<T> Cell<T> {
    /// Room without an item.
    #[cfg(not(loom))]
    #[must_use]
    pub const fn new() -> Self {
        Cell { turn: AtomicUsize::new(0), place: Place::new() }
    }

    /// Room without an item.
    #[cfg(loom)]
    #[must_use]
    pub fn new() -> Self {
        Cell { turn: AtomicUsize::new(0), place: Place::new() }
    }
}
impl<T> Default for Cell<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// The queue; [`split`](Self::split) and its sisters give ends.
#[derive(Debug)]
pub struct Ring<T, S> {
    indices: Indices,
    cells: S,
    of: PhantomData<T>,
}

#[derive(Debug, Default)]
struct Indices {
    tail: Padded<AtomicUsize>,
    head: Padded<AtomicUsize>,
}

impl<T: Copy, S: AsMut<[Cell<T>]>> Ring<T, S> {
    /// A queue over the lent cells.
    ///
    /// # Errors
    /// [`Unfit`] if their number is not a power of two, or below two.
    pub fn new(mut cells: S) -> Result<Self, Unfit> {
        let len = cells.as_mut().len();
        if len < 2 || !len.is_power_of_two() {
            return Err(Unfit(len));
        }
        Ok(Ring { indices: Indices::default(), cells, of: PhantomData })
    }

    /// Ends that may be copied, of an empty queue; items left over from an earlier split are forgotten.
    #[must_use]
    pub fn split(&mut self) -> (Sender<'_, T>, Receiver<'_, T>) {
        let core = self.core();
        (Sender { core }, Receiver { core })
    }

    /// Many senders, one receiver.
    #[must_use]
    pub fn many_to_one(&mut self) -> (Sender<'_, T>, SoleReceiver<'_, T>) {
        let core = self.core();
        (Sender { core }, SoleReceiver { core, head: 0 })
    }

    /// One sender, many receivers.
    #[must_use]
    pub fn one_to_many(&mut self) -> (SoleSender<'_, T>, Receiver<'_, T>) {
        let core = self.core();
        (SoleSender { core, tail: 0 }, Receiver { core })
    }

    fn core(&mut self) -> Core<'_, T> {
        self.indices = Indices::default();
        // The storage is asked once, so all ends see the same cells whatever `as_mut` does; without two
        // cells there is none.
        let cells = self.cells.as_mut();
        let len = cells.len().checked_ilog2().filter(|&log| log > 0).map_or(0, |log| 1 << log);
        let (cells, _) = cells.split_at_mut(len);
        for (turn, cell) in cells.iter_mut().enumerate() {
            cell.turn = AtomicUsize::new(turn);
        }
        Core { indices: &self.indices, cells }
    }
}

#[derive(Debug)]
struct Core<'a, T> {
    indices: &'a Indices,
    cells: &'a [Cell<T>],
}
impl<T> Clone for Core<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Core<'_, T> {}

// SAFETY: an item is written only by the holder of its ticket and read only by the holder of the matching
// one, ordered by the cell's turn (release/acquire); items cross threads, hence T: Send.
unsafe impl<T: Send> Send for Core<'_, T> {}
// SAFETY: as for Send; every method takes a ticket by compare-and-swap or belongs to a sole end.
unsafe impl<T: Send> Sync for Core<'_, T> {}

impl<'a, T: Copy> Core<'a, T> {
    /// The cell of a position; `None` only without cells.
    #[inline]
    fn cell(&self, position: usize) -> Option<&'a Cell<T>> {
        self.cells.get(position & self.cells.len().wrapping_sub(1))
    }

    /// The cell of a position if its turn has come.
    ///
    /// It keeps that turn until the holder of the ticket turns it, so whoever then gets the ticket may rely on it.
    #[inline]
    fn come(&self, position: usize, offset: usize) -> Option<&'a Cell<T>> {
        let cell = self.cell(position)?;
        // ORDERING: pairs with the stores in `fill` and `drain`.
        (cell.turn.load(Ordering::Acquire) == position.wrapping_add(offset)).then_some(cell)
    }

    /// How many of `count` cells from `position` on have their turn.
    #[inline]
    fn all_come(&self, position: usize, offset: usize, count: usize) -> usize {
        let count = count.min(self.cells.len());
        (0..count).find(|&n| self.come(position.wrapping_add(n), offset).is_none()).unwrap_or(count)
    }

    /// Takes tickets from `index` on: as many as `come` says have their turn; `None` if the first has not.
    #[inline]
    fn tickets<C>(&self, index: &AtomicUsize, come: impl Fn(usize) -> Option<(usize, C)>) -> Option<(usize, C)> {
        let mut position = index.load(Ordering::Relaxed);
        let mut backoff = Backoff::new();
        loop {
            if let Some((count, cells)) = come(position) {
                let next = position.wrapping_add(count);
                if index.compare_exchange(position, next, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                    return Some((position, cells));
                }
            } else if index.load(Ordering::Relaxed) == position {
                return None;
            }
            // Others are at work here; what the index was before the pause is of no use after it.
            backoff.retreat();
            position = index.load(Ordering::Relaxed);
        }
    }

    #[inline]
    fn ticket(&self, index: &AtomicUsize, offset: usize) -> Option<(usize, &'a Cell<T>)> {
        self.tickets(index, |position| Some((1, self.come(position, offset)?)))
    }

    #[inline]
    fn ticket_range(&self, index: &AtomicUsize, offset: usize, count: usize) -> Option<(usize, usize)> {
        self.tickets(index, |position| {
            let count = self.all_come(position, offset, count);
            (count > 0).then_some((count, count))
        })
    }

    /// # Safety
    /// The caller holds the sender's ticket of `position`, whose cell this is, and its turn has come.
    #[inline]
    unsafe fn fill(&self, position: usize, cell: &Cell<T>, item: T) {
        // SAFETY: turn = position, so the last reader is done; nobody else has this ticket.
        unsafe { cell.place.write(item) };
        // ORDERING: pairs with the receivers' load in `come`.
        cell.turn.store(position.wrapping_add(1), Ordering::Release);
    }

    /// # Safety
    /// The caller holds the receiver's ticket of `position`, whose cell this is, and its turn has come.
    #[inline]
    unsafe fn drain(&self, position: usize, cell: &Cell<T>) -> T {
        // SAFETY: turn = position + 1, so the item is there; nobody else has this ticket.
        let item = unsafe { cell.place.read() };
        // ORDERING: pairs with the senders' load in `come`.
        cell.turn.store(position.wrapping_add(self.cells.len()), Ordering::Release);
        item
    }

    /// Fills cells from the last to the first: who waits for the first finds all of them.
    ///
    /// # Safety
    /// The caller holds the senders' tickets from `position` on, one an item, and their turns have come.
    #[inline]
    unsafe fn fill_all(&self, position: usize, items: &[T]) {
        for (n, &item) in items.iter().enumerate().rev() {
            let position = position.wrapping_add(n);
            if let Some(cell) = self.cell(position) {
                // SAFETY: the caller's promise.
                unsafe { self.fill(position, cell, item) };
            }
        }
    }

    /// Empties cells from the last to the first: who waits for the first finds all of them.
    ///
    /// # Safety
    /// The caller holds the receivers' tickets from `position` on, one an item, and their turns have come.
    #[inline]
    unsafe fn drain_all(&self, position: usize, items: &mut [T]) {
        for (n, to) in items.iter_mut().enumerate().rev() {
            let position = position.wrapping_add(n);
            if let Some(cell) = self.cell(position) {
                // SAFETY: the caller's promise.
                *to = unsafe { self.drain(position, cell) };
            }
        }
    }
}

/// A sending end; copies may be used by any number of threads.
#[derive(Debug)]
pub struct Sender<'a, T> {
    core: Core<'a, T>,
}
impl<T> Clone for Sender<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Sender<'_, T> {}

impl<T: Copy> Sender<'_, T> {
    /// Sends one item.
    ///
    /// # Errors
    /// [`Full`] with the item; a receive makes a retry worth while.
    #[inline]
    pub fn push(&self, item: T) -> Result<(), Full<T>> {
        let Some((position, cell)) = self.core.ticket(&self.core.indices.tail.0, 0) else { return Err(Full(item)) };
        // SAFETY: `ticket` gave us this one, after its turn had come.
        unsafe { self.core.fill(position, cell, item) };
        Ok(())
    }

    /// Sends as many of the items as fit, in order and without others' in between; returns how many.
    #[inline]
    pub fn push_all(&self, items: &[T]) -> usize {
        let Some((position, count)) = self.core.ticket_range(&self.core.indices.tail.0, 0, items.len()) else {
            return 0;
        };
        // SAFETY: `ticket_range` gave us `count` of them, after their turns had come.
        unsafe { self.core.fill_all(position, items.split_at(count).0) };
        count
    }
}

/// A receiving end; copies may be used by any number of threads.
#[derive(Debug)]
pub struct Receiver<'a, T> {
    core: Core<'a, T>,
}
impl<T> Clone for Receiver<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Receiver<'_, T> {}

impl<T: Copy> Receiver<'_, T> {
    /// Receives one item, if there is one.
    #[inline]
    pub fn pop(&self) -> Option<T> {
        let (position, cell) = self.core.ticket(&self.core.indices.head.0, 1)?;
        // SAFETY: `ticket` gave us this one, after its turn had come.
        Some(unsafe { self.core.drain(position, cell) })
    }

    /// Receives as many items as there are and fit, in order; returns how many.
    #[inline]
    pub fn pop_all(&self, items: &mut [T]) -> usize {
        let Some((position, count)) = self.core.ticket_range(&self.core.indices.head.0, 1, items.len()) else {
            return 0;
        };
        // SAFETY: `ticket_range` gave us `count` of them, after their turns had come.
        unsafe { self.core.drain_all(position, items.split_at_mut(count).0) };
        count
    }
}

/// The only sending end: no compare-and-swap.
#[derive(Debug)]
pub struct SoleSender<'a, T> {
    core: Core<'a, T>,
    tail: usize,
}

impl<T: Copy> SoleSender<'_, T> {
    /// Sends one item.
    ///
    /// # Errors
    /// [`Full`] with the item; a receive makes a retry worth while.
    #[inline]
    pub fn push(&mut self, item: T) -> Result<(), Full<T>> {
        let position = self.tail;
        let Some(cell) = self.core.come(position, 0) else { return Err(Full(item)) };
        self.tail = position.wrapping_add(1);
        // SAFETY: this is the only sending end, so every ticket is its own, and this one has its turn.
        unsafe { self.core.fill(position, cell, item) };
        Ok(())
    }

    /// Sends as many of the items as fit, in order; returns how many.
    #[inline]
    pub fn push_all(&mut self, items: &[T]) -> usize {
        let count = self.core.all_come(self.tail, 0, items.len());
        // SAFETY: this is the only sending end, so every ticket is its own, and these have their turn.
        unsafe { self.core.fill_all(self.tail, items.split_at(count).0) };
        self.tail = self.tail.wrapping_add(count);
        count
    }
}

/// The only receiving end: no compare-and-swap.
#[derive(Debug)]
pub struct SoleReceiver<'a, T> {
    core: Core<'a, T>,
    head: usize,
}

impl<T: Copy> SoleReceiver<'_, T> {
    /// Receives one item, if there is one.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        let position = self.head;
        let cell = self.core.come(position, 1)?;
        self.head = position.wrapping_add(1);
        // SAFETY: this is the only receiving end, so every ticket is its own, and this one has its turn.
        Some(unsafe { self.core.drain(position, cell) })
    }

    /// Receives as many items as there are and fit, in order; returns how many.
    #[inline]
    pub fn pop_all(&mut self, items: &mut [T]) -> usize {
        let count = self.core.all_come(self.head, 1, items.len());
        // SAFETY: as in `pop`.
        unsafe { self.core.drain_all(self.head, items.split_at_mut(count).0) };
        self.head = self.head.wrapping_add(count);
        count
    }
}
