//! One sender, one receiver, one cache line a message, in a segment.
//!
//! A message is a [`Line`]: 64 bytes of which byte 5 belongs to the ring (a frame has its reserved zero
//! there). The ring keeps the number of the lap in it, so that a message and the news of it are one line:
//! the receiver polls the cell itself and nothing else. The sender looks at the receiver's index only when
//! the ring seems full.
//!
//! Either end may die or be stopped at any instruction. Nothing is ever half sent: a line's mark is stored
//! last. A successor attaches: a new sender continues behind the last message published; a new receiver
//! continues with the first message not known to be received, so one message (or the batch it was taken in)
//! may be seen twice. One sender and one receiver at a time: two would mix up each other's messages, though
//! no memory else.
//!
//! Memory of the peer is hostile: every position is masked, the receiver's index is checked, a message is
//! whatever bytes are there. A damaged header gives an error.
//!
//! ```
//! use umbra_core::cell::BytesMut;
//! use umbra_core::ring::line::{Line, Ring, words_for};
//! let mut memory = vec![0_u64; words_for(4).ok_or("too large")?];
//! let words = BytesMut::from_words(&mut memory).words(0, words_for(4).unwrap_or(0))?;
//! Ring::create(words, 4)?;
//! // Another process attaches to the same memory.
//! let (mut sender, mut receiver) = (Ring::attach(words)?.sender()?, Ring::attach(words)?.receiver()?);
//! let line = Line::from_bytes(b"hello").ok_or("byte 5 is taken")?;
//! sender.push(line)?;
//! assert_eq!(receiver.pop(), Some(line));
//! assert_eq!(receiver.pop(), None);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Layout, in words: magic, capacity, 14 zero; the sender's position and 15 zero; the receiver's position
//! and 15 zero; then 8 words a line.
//!
//! *Cost*: one line a message. Wait-free.

use super::ahead::items_ahead;
use super::{AttachError, PushError};
use crate::atomic::{AtomicU64, Ordering};
use crate::codec::words;
use crate::fetch::fetch_to_write;

const MAGIC: u64 = u64::from_le_bytes(*b"umbrlin1");
const TAIL: usize = 16;
const HEAD: usize = 32;
const CELLS: usize = 48;
const LINE: usize = 8;
const MARK: u64 = 0xff << 40;

/// 64 bytes, of which byte 5 is zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Line([u64; LINE]);

impl Line {
    /// A line from eight little-endian words; `None` if byte 5 (bits 40 to 47 of the first) is not zero.
    #[must_use]
    #[inline]
    pub const fn new(words: [u64; LINE]) -> Option<Line> {
        if words[0] & MARK == 0 { Some(Line(words)) } else { None }
    }

    /// A line from at most 64 bytes, filled with zeros; `None` if there are more, or byte 5 is not zero.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Line> {
        let mut whole = [0; LINE * 8];
        whole.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Line::new(words(&whole))
    }

    /// The bytes.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; LINE * 8] {
        let mut bytes = [0; LINE * 8];
        for (to, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(self.0) {
            *to = word.to_le_bytes();
        }
        bytes
    }

    /// The words.
    #[must_use]
    #[inline]
    pub const fn words(&self) -> &[u64; LINE] {
        &self.0
    }
}

/// Words of memory that a ring of `capacity` lines needs; `None` if that is no power of two or too many.
#[must_use]
pub const fn words_for(capacity: usize) -> Option<usize> {
    if !capacity.is_power_of_two() {
        return None;
    }
    match capacity.checked_mul(LINE) {
        Some(cells) => cells.checked_add(CELLS),
        None => None,
    }
}

/// The mark of a position: never zero, and another one a lap later.
#[inline]
const fn mark(position: u64, shift: u32) -> u64 {
    ((position >> shift) & 0x7f | 0x80) << 40
}

/// A ring in a segment; copies of it are cheap.
#[derive(Clone, Copy, Debug)]
pub struct Ring<'a> {
    tail: &'a AtomicU64,
    head: &'a AtomicU64,
    /// A power of two of lines.
    cells: &'a [AtomicU64],
    shift: u32,
}

impl<'a> Ring<'a> {
    /// Makes an empty ring; nobody may use the memory as a ring meanwhile.
    ///
    /// # Errors
    /// [`AttachError::BadCapacity`] if the capacity is no power of two or does not fit.
    pub fn create(words: &'a [AtomicU64], capacity: usize) -> Result<Self, AttachError> {
        let needed = words_for(capacity).ok_or(AttachError::BadCapacity(capacity as u64))?;
        for word in words.get(..needed).ok_or(AttachError::BadCapacity(capacity as u64))? {
            word.store(0, Ordering::Relaxed);
        }
        words[1].store(capacity as u64, Ordering::Relaxed);
        // ORDERING: pairs with the load in `attach`.
        words[0].store(MAGIC, Ordering::Release);
        Self::attach(words)
    }

    /// Looks at a ring that another process created; `words` may be longer than the ring.
    ///
    /// # Errors
    /// [`AttachError`].
    pub fn attach(words: &'a [AtomicU64]) -> Result<Self, AttachError> {
        // ORDERING: pairs with the store in `create`.
        if words.len() < CELLS || words[0].load(Ordering::Acquire) != MAGIC {
            return Err(AttachError::NotRing);
        }
        let stated = words[1].load(Ordering::Relaxed);
        let capacity = usize::try_from(stated).ok();
        let end = capacity.and_then(words_for).ok_or(AttachError::BadCapacity(stated))?;
        let cells = words.get(CELLS..end).ok_or(AttachError::BadCapacity(stated))?;
        Ok(Ring { tail: &words[TAIL], head: &words[HEAD], cells, shift: stated.trailing_zeros() })
    }

    /// Lines that fit.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        1 << self.shift
    }

    /// The sending end, continuing behind what an earlier sender published; one at a time.
    ///
    /// # Errors
    /// [`AttachError::BadPositions`] if the memory is damaged.
    pub fn sender(self) -> Result<Sender<'a>, AttachError> {
        let (tail, head) = self.positions()?;
        let mut sender = Sender { ring: self, tail: tail.max(head), head };
        // An earlier sender may have died between a line's mark and its position.
        for _ in 0..self.capacity() {
            let published =
                self.first_word(sender.tail).load(Ordering::Acquire) & MARK == mark(sender.tail, self.shift);
            if sender.room() == 0 || !published {
                break;
            }
            sender.tail += 1;
        }
        self.tail.store(sender.tail, Ordering::Relaxed);
        Ok(sender)
    }

    /// The receiving end, continuing behind what an earlier receiver is known to have received; one at a
    /// time.
    ///
    /// # Errors
    /// [`AttachError::BadPositions`] if the memory is damaged.
    pub fn receiver(self) -> Result<Receiver<'a>, AttachError> {
        self.positions().map(|(_, head)| Receiver { ring: self, head })
    }

    /// The positions of both ends, which can be apart by one capacity at most, in either direction.
    fn positions(&self) -> Result<(u64, u64), AttachError> {
        let (tail, head) = (self.tail.load(Ordering::Acquire), self.head.load(Ordering::Acquire));
        // 2^63 messages take centuries; a position beyond is damage, and sums below cannot overflow.
        if tail.abs_diff(head) > self.capacity() as u64 || tail.max(head) >= 1 << 63 {
            return Err(AttachError::BadPositions { tail, head });
        }
        Ok((tail, head))
    }

    #[inline]
    fn cell(&self, position: u64) -> &'a [AtomicU64; LINE] {
        let (cells, _) = self.cells.as_chunks::<LINE>();
        &cells[position as usize & (cells.len() - 1)]
    }

    #[inline]
    fn first_word(&self, position: u64) -> &'a AtomicU64 {
        &self.cell(position)[0]
    }
}

/// The sending end.
#[derive(Debug)]
pub struct Sender<'a> {
    ring: Ring<'a>,
    tail: u64,
    /// What the receiver's position was when last looked at.
    head: u64,
}

impl Sender<'_> {
    /// Sends one line.
    ///
    /// # Errors
    /// [`PushError`] with the line.
    #[inline]
    pub fn push(&mut self, line: Line) -> Result<(), PushError> {
        if self.room() == 0 {
            if self.look_at_receiver().is_err() {
                return Err(PushError::Damaged(line));
            }
            if self.room() == 0 {
                return Err(PushError::Full(line));
            }
        }
        self.put(&line);
        // As in `push_all`.
        self.ring.tail.store(self.tail, Ordering::Relaxed);
        Ok(())
    }

    /// Sends as many of the lines as fit, in order; returns how many.
    ///
    /// # Errors
    /// [`AttachError::BadPositions`] if the receiver states an impossible position: no retry helps.
    #[inline]
    pub fn push_all(&mut self, lines: &[Line]) -> Result<usize, AttachError> {
        if self.room() < lines.len() as u64 {
            self.look_at_receiver()?;
        }
        let mut count = 0;
        for line in lines.iter().take(usize::try_from(self.room()).unwrap_or(usize::MAX)) {
            self.put(line);
            count += 1;
        }
        if count > 0 {
            // Only a successor reads this; it finds lines published behind it by their marks.
            self.ring.tail.store(self.tail, Ordering::Relaxed);
        }
        Ok(count)
    }

    /// Learns how far the receiver has come.
    fn look_at_receiver(&mut self) -> Result<(), AttachError> {
        // ORDERING: pairs with the receiver's store: it has read these cells.
        let head = self.ring.head.load(Ordering::Acquire);
        if head < self.head || head > self.tail {
            return Err(AttachError::BadPositions { tail: self.tail, head });
        }
        self.head = head;
        Ok(())
    }

    /// Writes one line into the cell at the tail, which is free.
    #[inline]
    fn put(&mut self, line: &Line) {
        let cell = self.ring.cell(self.tail);
        for (to, &word) in cell.iter().zip(&line.0).skip(1) {
            to.store(word, Ordering::Relaxed);
        }
        // ORDERING: pairs with the receiver's load of this word: it sees the others.
        cell[0].store(line.0[0] | mark(self.tail, self.ring.shift), Ordering::Release);
        fetch_to_write(self.ring.cell(self.tail + items_ahead::<Line>() as u64));
        self.tail += 1;
    }

    /// Messages ever sent through this ring, by earlier senders too: what a successor continues with.
    #[must_use]
    pub const fn position(&self) -> u64 {
        self.tail
    }

    #[inline]
    fn room(&self) -> u64 {
        (self.ring.capacity() as u64).saturating_sub(self.tail - self.head)
    }
}

/// The receiving end.
#[derive(Debug)]
pub struct Receiver<'a> {
    ring: Ring<'a>,
    head: u64,
}

impl Receiver<'_> {
    /// Receives one line, if there is one.
    #[inline]
    pub fn pop(&mut self) -> Option<Line> {
        let line = self.look(self.head)?;
        self.retire(1);
        Some(line)
    }

    /// Receives as many lines as there are and fit, in order; returns how many.
    #[inline]
    pub fn pop_all(&mut self, lines: &mut [Line]) -> usize {
        let mut count = 0;
        for to in lines.iter_mut().take(self.ring.capacity()) {
            let Some(line) = self.look(self.head + count as u64) else { break };
            *to = line;
            count += 1;
        }
        if count > 0 {
            self.retire(count as u64);
        }
        count
    }

    /// Messages ever received from this ring, by earlier receivers too.
    #[must_use]
    pub const fn position(&self) -> u64 {
        self.head
    }

    #[inline]
    fn look(&self, position: u64) -> Option<Line> {
        let cell = self.ring.cell(position);
        // ORDERING: pairs with the sender's store of this word, which comes after the others.
        let first = cell[0].load(Ordering::Acquire);
        if first & MARK != mark(position, self.ring.shift) {
            return None;
        }
        let mut line = [first & !MARK; LINE];
        for (to, word) in line.iter_mut().zip(cell).skip(1) {
            *to = word.load(Ordering::Relaxed);
        }
        Some(Line(line))
    }

    #[inline]
    fn retire(&mut self, count: u64) {
        self.head += count;
        // ORDERING: pairs with the sender's load: the cells have been read.
        self.ring.head.store(self.head, Ordering::Release);
    }
}
