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
//! and "empty" cost one load and do not disturb the other side's index; either may be told while another
//! end is half through with the cell in question.
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

impl<T: Copy> Core<'_, T> {
    /// The cell of a position; `None` only without cells.
    #[inline]
    fn cell(&self, position: usize) -> Option<&Cell<T>> {
        self.cells.get(position & self.cells.len().wrapping_sub(1))
    }

    /// How many of `count` cells from `position` on have their turn at `position + offset`.
    ///
    /// A cell whose turn has come keeps it until the holder of that ticket turns it, so what is counted
    /// here stays true for whoever then gets the tickets.
    #[inline]
    fn come(&self, position: usize, offset: usize, count: usize) -> usize {
        let mut come = 0;
        while come < count.min(self.cells.len()) {
            let at = position.wrapping_add(come);
            // ORDERING: pairs with the stores in `fill` and `drain`.
            if self.cell(at).is_none_or(|cell| cell.turn.load(Ordering::Acquire) != at.wrapping_add(offset)) {
                break;
            }
            come += 1;
        }
        come
    }

    /// Takes up to `count` tickets from `index` whose cells have their turn; `None` if the first has not.
    #[inline]
    fn tickets(&self, index: &AtomicUsize, offset: usize, count: usize) -> Option<(usize, usize)> {
        let mut backoff = Backoff::new();
        let mut position = index.load(Ordering::Relaxed);
        loop {
            let come = self.come(position, offset, count);
            if come > 0 {
                let next = position.wrapping_add(come);
                match index.compare_exchange_weak(position, next, Ordering::Relaxed, Ordering::Relaxed) {
                    Ok(_) => return Some((position, come)),
                    Err(now) => {
                        backoff.spin();
                        position = now;
                    }
                }
            } else {
                // Either the cell is not ours yet, or the index was stale.
                let now = index.load(Ordering::Relaxed);
                if now == position {
                    return None;
                }
                position = now;
            }
        }
    }

    /// # Safety
    /// The caller holds the sender's ticket of `position`, and its turn has come.
    #[inline]
    unsafe fn fill(&self, position: usize, item: T) {
        let Some(cell) = self.cell(position) else { return };
        // SAFETY: turn = position, so the last reader is done; nobody else has this ticket.
        unsafe { cell.place.write(item) };
        // ORDERING: pairs with the receivers' load in `come`.
        cell.turn.store(position.wrapping_add(1), Ordering::Release);
    }

    /// # Safety
    /// The caller holds the receiver's ticket of `position`, and its turn has come.
    #[inline]
    unsafe fn drain(&self, position: usize) -> Option<T> {
        let cell = self.cell(position)?;
        // SAFETY: turn = position + 1, so the item is there; nobody else has this ticket.
        let item = unsafe { cell.place.read() };
        // ORDERING: pairs with the senders' load in `come`.
        cell.turn.store(position.wrapping_add(self.cells.len()), Ordering::Release);
        Some(item)
    }

    /// # Safety
    /// The caller holds the senders' tickets from `position` on, one an item, and their turns have come.
    #[inline]
    unsafe fn fill_all(&self, position: usize, items: &[T]) {
        for (i, &item) in items.iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { self.fill(position.wrapping_add(i), item) };
        }
    }

    /// # Safety
    /// The caller holds the receivers' tickets from `position` on, one an item, and their turns have come.
    #[inline]
    unsafe fn drain_all(&self, position: usize, items: &mut [T]) {
        for (i, to) in items.iter_mut().enumerate() {
            // SAFETY: the caller's promise.
            if let Some(item) = unsafe { self.drain(position.wrapping_add(i)) } {
                *to = item;
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
        let Some((position, _)) = self.core.tickets(&self.core.indices.tail.0, 0, 1) else { return Err(Full(item)) };
        // SAFETY: `tickets` gave us this one, after its turn had come.
        unsafe { self.core.fill(position, item) };
        Ok(())
    }

    /// Sends as many of the items as fit, in order and without others' in between; returns how many.
    #[inline]
    pub fn push_all(&self, items: &[T]) -> usize {
        let Some((position, count)) = self.core.tickets(&self.core.indices.tail.0, 0, items.len()) else { return 0 };
        // SAFETY: `tickets` gave us `count` of them, after their turns had come.
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
        let (position, _) = self.core.tickets(&self.core.indices.head.0, 1, 1)?;
        // SAFETY: `tickets` gave us this one, after its turn had come.
        unsafe { self.core.drain(position) }
    }

    /// Receives as many items as there are and fit, in order; returns how many.
    #[inline]
    pub fn pop_all(&self, items: &mut [T]) -> usize {
        let Some((position, count)) = self.core.tickets(&self.core.indices.head.0, 1, items.len()) else { return 0 };
        // SAFETY: `tickets` gave us `count` of them, after their turns had come.
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
        if self.push_all(&[item]) == 1 { Ok(()) } else { Err(Full(item)) }
    }

    /// Sends as many of the items as fit, in order; returns how many.
    #[inline]
    pub fn push_all(&mut self, items: &[T]) -> usize {
        let count = self.core.come(self.tail, 0, items.len());
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
        if self.core.come(self.head, 1, 1) == 0 {
            return None;
        }
        let position = self.head;
        self.head = position.wrapping_add(1);
        // SAFETY: this is the only receiving end, so every ticket is its own, and this one has its turn.
        unsafe { self.core.drain(position) }
    }

    /// Receives as many items as there are and fit, in order; returns how many.
    #[inline]
    pub fn pop_all(&mut self, items: &mut [T]) -> usize {
        let count = self.core.come(self.head, 1, items.len());
        // SAFETY: as in `pop`.
        unsafe { self.core.drain_all(self.head, items.split_at_mut(count).0) };
        self.head = self.head.wrapping_add(count);
        count
    }
}
