//! The bytes of one conversation: records in a ring, from sender to receiver.
//!
//! A record is its length, kind and argument (16 bytes), then its bytes, filled up to 16. The sender's position says
//! what was written, the receiver's what was read; each is written by one side only, so no record is ever seen in part.

use super::error::{ReadError, WriteError};
use super::layout::RECORD;
use crate::atomic::{AtomicU64, Ordering};
use crate::cell::BytesMut;
use crate::event::EventCount;

/// Words of a place: the sender's position, and what the receiver sleeps on.
const TAIL: usize = 0;
const WRITTEN: usize = 1;
/// The receiver's position, and what the sender sleeps on.
const HEAD: usize = 16;
const READ: usize = 17;

/// In which order an emptied ring loses its positions. Who dies between the two is buried, and the ring emptied again: a
/// tail before its head is no record, but a head before its tail would be all that was read, memory that others own too.
const EMPTIED: [usize; 2] = [TAIL, HEAD];

/// The message goes on in the next record.
const MORE: u64 = 1 << 32;
/// The bytes are a [`Reference`].
const REFERENCE: u64 = 1 << 33;
/// Words of a reference.
const WORDS: usize = 5;

/// Memory that a message is about, instead of its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Reference {
    /// Which pool it is of, by its id.
    pub pool: u64,
    /// Which block.
    pub block: u64,
    /// Where it begins in the block.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
    /// Bits of the layer above.
    pub flags: u64,
}

/// What the next record is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Front {
    /// Bytes of it that were not read yet.
    pub len: usize,
    /// The 64 bits that came with it.
    pub arg: u64,
    /// Whether the message goes on after it.
    pub more: bool,
    /// The memory that it is about, if it is.
    pub reference: Option<Reference>,
}

/// A ring, as both ends see it; copies are cheap.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pipe<'a> {
    pub(super) control: &'a [AtomicU64],
    pub(super) ring: BytesMut<'a>,
}

const fn padded(len: usize) -> usize {
    RECORD + len.next_multiple_of(RECORD)
}

impl<'a> Pipe<'a> {
    /// Changes with each record that was written.
    pub(super) fn written(&self) -> EventCount<'a> {
        EventCount::new(&self.control[WRITTEN])
    }

    /// Changes with each record that was read.
    pub(super) fn read(&self) -> EventCount<'a> {
        EventCount::new(&self.control[READ])
    }

    fn position(&self, which: usize) -> u64 {
        // ORDERING: pairs with the store of the other side.
        self.control[which].load(Ordering::Acquire)
    }

    fn set(&self, which: usize, position: u64) {
        // ORDERING: release: what was written is there, what was read is read. The caller's notification fences.
        self.control[which].store(position, Ordering::Release);
    }

    const fn size(&self) -> usize {
        self.ring.len()
    }

    /// Bytes between two positions, if they can be.
    fn between(&self, head: u64, tail: u64) -> Option<usize> {
        let used = usize::try_from(tail.wrapping_sub(head)).ok()?;
        (used <= self.size() && head.is_multiple_of(RECORD as u64) && tail.is_multiple_of(RECORD as u64))
            .then_some(used)
    }

    /// Bytes that were written and not read, with their records, if that can be.
    pub(super) fn under_way(&self) -> Option<usize> {
        self.between(self.position(HEAD), self.position(TAIL))
    }

    /// Bytes that were written since it was emptied, with their records.
    pub(super) fn so_far(&self) -> u64 {
        self.position(TAIL)
    }

    /// Splits a range of positions where the ring begins anew.
    const fn split(&self, position: u64, len: usize) -> (usize, usize) {
        let at = position as usize & (self.size() - 1);
        let first = self.size() - at;
        (at, if len < first { len } else { first })
    }

    fn put(&self, position: u64, bytes: &[u8]) -> Option<()> {
        let (at, first) = self.split(position, bytes.len());
        let (front, back) = bytes.split_at_checked(first)?;
        self.ring.write(at, front).ok()?;
        if back.is_empty() { Some(()) } else { self.ring.write(0, back).ok() }
    }

    fn get(&self, position: u64, into: &mut [u8]) -> Option<()> {
        let (at, first) = self.split(position, into.len());
        let (front, back) = into.split_at_mut_checked(first)?;
        self.ring.read_only().read(at, front).ok()?;
        if back.is_empty() { Some(()) } else { self.ring.read_only().read(0, back).ok() }
    }

    fn put_words<const N: usize>(&self, position: u64, words: [u64; N]) -> Option<()> {
        (0..).step_by(8).zip(words).try_for_each(|(at, word)| self.put(position.wrapping_add(at), &word.to_le_bytes()))
    }

    fn get_words<const N: usize>(&self, position: u64) -> Option<[u64; N]> {
        let mut words = [0; N];
        // Whoever damages the memory may have positions end anywhere.
        for (at, word) in (0..).step_by(8).zip(&mut words) {
            let mut bytes = [0; 8];
            self.get(position.wrapping_add(at), &mut bytes)?;
            *word = u64::from_le_bytes(bytes);
        }
        Some(words)
    }

    /// Empties the ring for the next conversation; nobody else is at it. `dropped` is told what nobody read.
    pub(super) fn scrub(&self, mut dropped: impl FnMut(Reference)) {
        let mut pull = Pull::at(self);
        // Each record is at least so long, so there are not more.
        for _ in 0..=self.size() / RECORD {
            let Ok(front) = pull.front(self) else { break };
            if let Some(reference) = front.reference {
                dropped(reference);
            }
            pull.skip(self, front.len);
        }
        // Also of a ring that somebody wrote nonsense into.
        EMPTIED.into_iter().for_each(|position| self.set(position, 0));
    }
}

/// The sender's side.
#[derive(Debug)]
pub(super) struct Push {
    tail: u64,
    /// What was last seen of the receiver's.
    head: u64,
}

impl Push {
    pub(super) fn at(pipe: &Pipe<'_>) -> Push {
        Push { tail: pipe.position(TAIL), head: pipe.position(HEAD) }
    }

    /// Bytes that a record may have, if it needs at least so many.
    fn room(&mut self, pipe: &Pipe<'_>, least: usize) -> Result<usize, WriteError> {
        let room = |head| pipe.between(head, self.tail).map(|used| pipe.size() - used).ok_or(WriteError::Damaged);
        let mut free = room(self.head)?;
        if free < padded(least) {
            self.head = pipe.position(HEAD);
            free = room(self.head)?;
        }
        if free < padded(least) { Err(WriteError::Full) } else { Ok(free - RECORD) }
    }

    /// Writes a record of the first of these bytes, all if there is room; how many. Messages of up to a quarter of the
    /// ring are never divided.
    pub(super) fn bytes(&mut self, pipe: &Pipe<'_>, bytes: &[u8], arg: u64, more: bool) -> Result<usize, WriteError> {
        let whole = bytes.len().min((pipe.size() / 4).max(2 * RECORD) - RECORD);
        let len = self.room(pipe, whole)?.min(bytes.len());
        let part = bytes.get(..len).ok_or(WriteError::Damaged)?;
        let more = if more || len < bytes.len() { MORE } else { 0 };
        pipe.put_words(self.tail, [len as u64 | more, arg]).ok_or(WriteError::Damaged)?;
        pipe.put(self.tail.wrapping_add(RECORD as u64), part).ok_or(WriteError::Damaged)?;
        self.publish(pipe, len);
        Ok(len)
    }

    /// Writes a record about memory.
    pub(super) fn reference(&mut self, pipe: &Pipe<'_>, of: Reference, arg: u64) -> Result<(), WriteError> {
        let len = WORDS * 8;
        if padded(len) > pipe.size() {
            return Err(WriteError::TooLarge { len, most: pipe.size() - RECORD });
        }
        self.room(pipe, len)?;
        pipe.put_words(self.tail, [len as u64 | REFERENCE, arg]).ok_or(WriteError::Damaged)?;
        let words = [of.pool, of.block, of.offset, of.len, of.flags];
        pipe.put_words(self.tail.wrapping_add(RECORD as u64), words).ok_or(WriteError::Damaged)?;
        self.publish(pipe, len);
        Ok(())
    }

    fn publish(&mut self, pipe: &Pipe<'_>, len: usize) {
        self.tail = self.tail.wrapping_add(padded(len) as u64);
        pipe.set(TAIL, self.tail);
    }
}

/// The receiver's side.
#[derive(Debug)]
pub(super) struct Pull {
    head: u64,
    /// What was last seen of the sender's.
    tail: u64,
    /// Bytes of the first record that were read.
    done: usize,
}

impl Pull {
    pub(super) fn at(pipe: &Pipe<'_>) -> Pull {
        Pull { head: pipe.position(HEAD), tail: pipe.position(TAIL), done: 0 }
    }

    pub(super) const fn is_in_part(&self) -> bool {
        self.done > 0
    }

    /// The first record.
    pub(super) fn front(&mut self, pipe: &Pipe<'_>) -> Result<Front, ReadError> {
        if self.head == self.tail {
            self.tail = pipe.position(TAIL);
        }
        let used = pipe.between(self.head, self.tail).ok_or(ReadError::Damaged)?;
        if used == 0 {
            return Err(ReadError::Empty);
        }
        let [about, arg] = pipe.get_words(self.head).ok_or(ReadError::Damaged)?;
        let len = about as u32 as usize;
        if used < RECORD || padded(len) > used || len < self.done {
            return Err(ReadError::Damaged);
        }
        let mut reference = None;
        if about & REFERENCE != 0 {
            let at = self.head.wrapping_add(RECORD as u64);
            let words = pipe.get_words(at).filter(|_| len == WORDS * 8).ok_or(ReadError::Damaged)?;
            let [pool, block, offset, len, flags] = words;
            reference = Some(Reference { pool, block, offset, len, flags });
        }
        Ok(Front { len: len - self.done, arg, more: about & MORE != 0, reference })
    }

    /// Copies the next bytes of the first record out, of which there are as many; the receiver has read them.
    pub(super) fn read(&mut self, pipe: &Pipe<'_>, front: Front, into: &mut [u8]) -> Result<(), ReadError> {
        let at = self.head.wrapping_add((RECORD + self.done) as u64);
        if into.len() > front.len {
            return Err(ReadError::Damaged);
        }
        pipe.get(at, into).ok_or(ReadError::Damaged)?;
        self.skip_of(pipe, front, into.len());
        Ok(())
    }

    fn skip_of(&mut self, pipe: &Pipe<'_>, front: Front, len: usize) {
        if len < front.len {
            self.done += len;
        } else {
            self.skip(pipe, front.len);
        }
    }

    /// Passes over the rest of the first record, of which there are so many bytes.
    pub(super) fn skip(&mut self, pipe: &Pipe<'_>, len: usize) {
        self.head = self.head.wrapping_add(padded(self.done + len) as u64);
        self.done = 0;
        pipe.set(HEAD, self.head);
    }
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;

    use super::super::{Class, End, Mode, Outcome, Shape, Streams};
    use super::*;

    /// They do not come so far, but whoever damages the memory may say so.
    #[test]
    fn positions_go_on_at_zero() {
        let shape = Shape { mode: Mode::Nominal, streams: 1, ring: 256, messages: 0, block: 0 };
        let mut memory = std::vec![0_u64; shape.words().unwrap()];
        let streams = Streams::create(BytesMut::from_words(&mut memory), shape).unwrap();
        let begun = streams.table().claim(0, Class::Stream, false).unwrap();
        let pipe = streams.pipe(begun.place()).unwrap();
        EMPTIED.iter().for_each(|&which| pipe.set(which, (RECORD as u64).wrapping_neg()));
        let mut outlet = streams.outlet(begun, 0).unwrap();
        outlet.refer(Reference { block: 7, ..Reference::default() }, 5).unwrap();
        let front = Pull::at(&pipe).front(&pipe).unwrap();
        assert_eq!((front.arg, front.reference.unwrap().block), (5, 7));
        assert!(pipe.position(TAIL) < 256);
        let dropped = Cell::new(0);
        pipe.scrub(|_| dropped.set(dropped.get() + 1));
        assert_eq!((dropped.get(), pipe.under_way()), (1, Some(0)));
    }

    #[test]
    fn memory_that_was_read_is_not_dropped_when_its_reader_dies_while_he_empties_the_ring() {
        let shape = Shape { mode: Mode::Nominal, streams: 1, ring: 256, messages: 0, block: 0 };
        let mut memory = std::vec![0_u64; shape.words().unwrap()];
        let streams = Streams::create(BytesMut::from_words(&mut memory), shape).unwrap();
        let (sender, receiver) = (0, 1);
        for is_read in [true, false] {
            let begun = streams.table().claim(sender, Class::Stream, false).unwrap();
            let mut outlet = streams.outlet(begun, sender).unwrap();
            assert!(outlet.deposit());
            outlet.refer(Reference { block: 7, ..Reference::default() }, 0).unwrap();
            assert_eq!(outlet.end(End::Complete, |_| ()), Outcome::Open);
            let mut inlet = streams.inlet(streams.table().meet(receiver).unwrap(), receiver).unwrap();
            let front = inlet.front().unwrap();
            if is_read {
                inlet.skip(&front);
                // He leaves, and is killed after the first store.
                let pipe = streams.pipe(begun.place()).unwrap();
                pipe.set(EMPTIED[0], 0);
            }
            let dropped = Cell::new(0);
            assert_eq!(streams.reclaim(receiver, |_| dropped.set(dropped.get() + 1)).received, 1);
            assert_eq!(dropped.get(), u32::from(!is_read));
            let pipe = streams.pipe(begun.place()).unwrap();
            assert_eq!((pipe.position(HEAD), pipe.position(TAIL), streams.table().counts().idle), (0, 0, 1));
        }
    }
}
