//! One sender, one receiver, within one process.
//!
//! Each end owns one index, alone on its pair of cache lines, and keeps a copy of the other's, which it
//! reads again only when the copy says full or empty. Indices run freely and wrap with the number range.
//! Both ends borrow the ring, so there can be one of each; they may be sent to different threads.
//!
//! ```
//! use umbra_core::error::Full;
//! use umbra_core::ring::{Place, spsc::Ring};
//! let mut ring = Ring::new([const { Place::new() }; 4])?;
//! let (mut sender, mut receiver) = ring.split();
//! assert_eq!(sender.push(7), Ok(()));
//! assert_eq!(sender.push_all(&[8, 9, 10, 11]), 3);
//! assert_eq!(sender.push(11), Err(Full(11)));
//! let mut items = [0; 8];
//! assert_eq!(receiver.pop_all(&mut items), 4);
//! assert_eq!(items[..4], [7, 8, 9, 10]);
//! assert_eq!(receiver.pop(), None);
//! # Ok::<(), umbra_core::ring::Unfit>(())
//! ```
//!
//! Invariants: `head <= tail <= head + capacity` in wrapping arithmetic; the sender alone writes places
//! `tail..head + capacity`, the receiver alone reads places `head..tail`.
//!
//! *Cost*: one line handed over a message or batch besides the items' own; no read-modify-write. Wait-free.
//!
//! Source: Lamport, "Specifying concurrent program modules", TOPLAS 1983; cached indices after Giacomoni,
//! Moseley, Vachharajani, "FastForward", PPoPP 2008.
#![allow(unsafe_code)]

use core::marker::PhantomData;

use super::ahead::{begins_a_line, items_ahead, items_in_a_line};
use super::place::{Place, read_all, write_all};
use super::{Padded, Unfit};
use crate::atomic::{AtomicUsize, Ordering};
use crate::error::Full;
use crate::fetch::fetch_to_write;

/// The queue; [`split`](Self::split) gives its ends.
#[derive(Debug)]
pub struct Ring<T, S> {
    indices: Indices,
    places: S,
    of: PhantomData<T>,
}

#[derive(Debug, Default)]
struct Indices {
    /// Items ever sent.
    tail: Padded<AtomicUsize>,
    /// Items ever received.
    head: Padded<AtomicUsize>,
}

impl<T: Copy, S: AsMut<[Place<T>]>> Ring<T, S> {
    /// A queue over the lent places.
    ///
    /// # Errors
    /// [`Unfit`] if their number is not a power of two.
    pub fn new(mut places: S) -> Result<Self, Unfit> {
        let len = places.as_mut().len();
        if !len.is_power_of_two() {
            return Err(Unfit(len));
        }
        Ok(Ring { indices: Indices::default(), places, of: PhantomData })
    }

    /// The two ends of an empty queue; items left over from an earlier split are forgotten.
    #[must_use]
    pub fn split(&mut self) -> (Sender<'_, T>, Receiver<'_, T>) {
        self.indices = Indices::default();
        let indices = &self.indices;
        // The exclusive borrow ends here in two shared ones; the storage is asked once, so both ends see
        // the same places whatever `as_mut` does.
        let places: &[Place<T>] = self.places.as_mut();
        // The masks need a power of two even if the storage changed its length since `new`.
        let len = places.len().checked_ilog2().map_or(0, |log| 1 << log);
        let places = places.get(..len).unwrap_or(&[]);
        (Sender { indices, places, tail: 0, head: 0 }, Receiver { indices, places, head: 0, tail: 0 })
    }
}

/// The sending end.
#[derive(Debug)]
pub struct Sender<'a, T> {
    indices: &'a Indices,
    places: &'a [Place<T>],
    /// A copy of `indices.tail`, because the receiver polls that line: to load it back costs a transfer.
    tail: usize,
    /// What `indices.head` was when last looked at; never ahead of it.
    head: usize,
}

// SAFETY: the sender writes only places that `head` says are free, which the receiver does not touch until
// `tail` says otherwise (release/acquire on both); items cross threads, hence T: Send.
unsafe impl<T: Send> Send for Sender<'_, T> {}

impl<T: Copy> Sender<'_, T> {
    /// Items that fit in all.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.places.len()
    }

    /// Sends one item.
    ///
    /// # Errors
    /// [`Full`] with the item; a receive makes a retry worth while.
    #[inline]
    pub fn push(&mut self, item: T) -> Result<(), Full<T>> {
        if self.room() == 0 && self.room_now() == 0 {
            return Err(Full(item));
        }
        // SAFETY: the mask keeps the index below the length, a power of two (`split`), and there is room.
        let place = unsafe { self.places.get_unchecked(self.tail & self.mask()) };
        // SAFETY: room() > 0, so the receiver is done with this place, and only we write.
        unsafe { place.write(item) };
        if begins_a_line::<T>(self.tail) {
            self.fetch_ahead();
        }
        self.publish(1);
        Ok(())
    }

    /// Sends as many of the items as fit, in order, all published at once; returns how many.
    #[inline]
    pub fn push_all(&mut self, items: &[T]) -> usize {
        let mut room = self.room();
        if room < items.len() {
            room = self.room_now();
        }
        let count = room.min(items.len());
        if (1..=items_ahead::<T>() * 2).contains(&count) {
            self.fetch_beyond(count);
        }
        let (items, _) = items.split_at(count);
        let (low, high) = self.places.split_at(self.tail & self.mask());
        let (first, second) = items.split_at(count.min(high.len()));
        // SAFETY: the places from `tail` on, `room` of them around the end, are free; `first` ends with
        // the storage at the latest.
        unsafe { write_all(high, first) };
        // Seldom, and an empty copy is not free.
        if !second.is_empty() {
            // SAFETY: as above; `second` has at most `room - high.len() <= low.len()` items.
            unsafe { write_all(low, second) };
        }
        if count > 0 {
            self.publish(count);
        }
        count
    }

    #[inline]
    fn mask(&self) -> usize {
        // Without places there is never room, nor anything ready.
        self.places.len().wrapping_sub(1)
    }

    #[inline]
    fn room(&self) -> usize {
        self.places.len() - self.tail.wrapping_sub(self.head)
    }

    #[inline]
    fn room_now(&mut self) -> usize {
        // ORDERING: pairs with the receiver's store: it has read the places before.
        self.head = self.indices.head.0.load(Ordering::Acquire);
        self.room()
    }

    /// Asks for the line of an item that is sent a little later.
    #[inline]
    fn fetch_ahead(&self) {
        let next = self.tail.wrapping_add(items_ahead::<T>()) & self.mask();
        fetch_to_write(self.places.as_ptr().wrapping_add(next));
    }

    /// Asks for the lines that follow a short batch, while that is copied; a long one keeps the lines coming by itself.
    #[inline]
    fn fetch_beyond(&self, count: usize) {
        let from = self.tail.wrapping_add(count);
        for next in (0..items_ahead::<T>()).step_by(items_in_a_line::<T>()) {
            fetch_to_write(self.places.as_ptr().wrapping_add(from.wrapping_add(next) & self.mask()));
        }
    }

    #[inline]
    fn publish(&mut self, count: usize) {
        self.tail = self.tail.wrapping_add(count);
        // ORDERING: pairs with the receiver's load: it sees the items.
        self.indices.tail.0.store(self.tail, Ordering::Release);
    }
}

/// The receiving end.
#[derive(Debug)]
pub struct Receiver<'a, T> {
    indices: &'a Indices,
    places: &'a [Place<T>],
    /// A copy of `indices.head`.
    head: usize,
    /// What `indices.tail` was when last looked at; never ahead of it.
    tail: usize,
}

// SAFETY: as for `Sender`, with the roles of `head` and `tail` exchanged.
unsafe impl<T: Send> Send for Receiver<'_, T> {}

impl<T: Copy> Receiver<'_, T> {
    /// Receives one item, if there is one.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        let head = self.head();
        if self.ready(head) == 0 && self.ready_now(head) == 0 {
            return None;
        }
        // SAFETY: the mask keeps the index below the length, a power of two (`split`): something is ready.
        let place = unsafe { self.places.get_unchecked(head & self.mask()) };
        // SAFETY: ready() > 0, so the sender has put an item here and will not touch it before `head` moves.
        let item = unsafe { place.read() };
        self.retire(head, 1);
        Some(item)
    }

    /// Receives as many items as there are and fit; returns how many.
    #[inline]
    pub fn pop_all(&mut self, items: &mut [T]) -> usize {
        let head = self.head();
        let mut ready = self.ready(head);
        if ready < items.len() {
            ready = self.ready_now(head);
        }
        let count = ready.min(items.len());
        let (items, _) = items.split_at_mut(count);
        let (low, high) = self.places.split_at(head & self.mask());
        let (first, second) = items.split_at_mut(count.min(high.len()));
        // SAFETY: the places from `head` on, `ready` of them around the end, hold items; `first` ends with
        // the storage at the latest.
        unsafe { read_all(high, first) };
        // Seldom, and an empty copy is not free.
        if !second.is_empty() {
            // SAFETY: as above; `second` has at most `ready - high.len() <= low.len()` items.
            unsafe { read_all(low, second) };
        }
        if count > 0 {
            self.retire(head, count);
        }
        count
    }

    /// Whether nothing can be received right now.
    #[must_use]
    pub fn is_empty(&mut self) -> bool {
        let head = self.head();
        self.ready(head) == 0 && self.ready_now(head) == 0
    }

    #[inline]
    fn mask(&self) -> usize {
        // Without places there is never room, nor anything ready.
        self.places.len().wrapping_sub(1)
    }

    #[inline]
    const fn head(&self) -> usize {
        self.head
    }

    #[inline]
    fn ready(&self, head: usize) -> usize {
        self.tail.wrapping_sub(head)
    }

    #[inline]
    fn ready_now(&mut self, head: usize) -> usize {
        // ORDERING: pairs with the sender's store: the items are visible.
        self.tail = self.indices.tail.0.load(Ordering::Acquire);
        self.ready(head)
    }

    #[inline]
    fn retire(&mut self, head: usize, count: usize) {
        // ORDERING: pairs with the sender's load: the places have been read.
        self.head = head.wrapping_add(count);
        self.indices.head.0.store(self.head, Ordering::Release);
    }
}
