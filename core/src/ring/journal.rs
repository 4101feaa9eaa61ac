//! A byte stream in a segment: one writer that never waits, any number of readers.
//!
//! The writer overwrites the oldest bytes; a reader that is too slow learns how many it lost. That is what a log needs:
//! whoever writes it does not depend on anybody who reads it. Readers write nothing, so they may map the memory
//! read-only, and a reader that dies leaves nothing behind.
//!
//! The writer announces how far it is going to write before it touches a byte, and how far it has written after it; a
//! reader copies bytes out and then looks at the announcement again: what may have been overwritten meanwhile is lost
//! and not returned. If a writer dies in between, its successor goes on behind what was written, and nobody reads what the
//! dead one may have overwritten.
//!
//! ```
//! use umbra_core::cell::BytesMut;
//! use umbra_core::ring::journal::{Journal, words_for};
//! let mut memory = vec![0_u64; words_for(64).ok_or("no power of two")?];
//! let words = BytesMut::from_words(&mut memory).words(0, words_for(64).unwrap_or(0))?;
//! let mut writer = Journal::create(words, 64)?.writer();
//! let mut reader = Journal::attach(words)?.reader();
//! writer.write(b"hello");
//! let mut bytes = [0; 16];
//! let read = reader.read(&mut bytes);
//! assert_eq!((&bytes[..read.len], read.lost), (&b"hello"[..], 0));
//! writer.write(&[7; 100]);
//! assert_eq!(reader.read(&mut bytes).lost, 100 - 64);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Layout, in words: magic, capacity in bytes, 14 zero; bytes announced, bytes written and 14 zero; then the bytes,
//! eight a word, little-endian.
//!
//! *Cost*: a write is a load and a store for each word it touches, and four stores beside. Wait-free.

use super::AttachError;
use crate::atomic::{AtomicU64, Ordering, fence};

const MAGIC: u64 = u64::from_le_bytes(*b"umbrjrn1");
const ANNOUNCED: usize = 16;
const WRITTEN: usize = 17;
const BYTES: usize = 32;
const WORD: usize = 8;

/// Words of memory that a journal of `capacity` bytes needs; `None` if that is no power of two of at least eight.
#[must_use]
pub const fn words_for(capacity: usize) -> Option<usize> {
    if capacity.is_power_of_two() && capacity >= WORD { Some(BYTES + capacity / WORD) } else { None }
}

/// A journal in a segment; copies of it are cheap.
#[derive(Clone, Copy, Debug)]
pub struct Journal<'a> {
    announced: &'a AtomicU64,
    written: &'a AtomicU64,
    /// A power of two of words.
    words: &'a [AtomicU64],
}

impl<'a> Journal<'a> {
    /// Makes an empty journal; nobody may use the memory as a journal meanwhile.
    ///
    /// # Errors
    /// [`AttachError::BadCapacity`] if the capacity is no power of two or does not fit.
    pub fn create(words: &'a [AtomicU64], capacity: usize) -> Result<Self, AttachError> {
        let bad = AttachError::BadCapacity(capacity as u64);
        for word in words.get(..words_for(capacity).ok_or(bad)?).ok_or(bad)? {
            word.store(0, Ordering::Relaxed);
        }
        words[1].store(capacity as u64, Ordering::Relaxed);
        // ORDERING: pairs with the load in `attach`.
        words[0].store(MAGIC, Ordering::Release);
        Self::attach(words)
    }

    /// Looks at a journal that another process created; `words` may be longer than the journal.
    ///
    /// # Errors
    /// [`AttachError`].
    pub fn attach(words: &'a [AtomicU64]) -> Result<Self, AttachError> {
        // ORDERING: pairs with the store in `create`.
        if words.len() < BYTES || words[0].load(Ordering::Acquire) != MAGIC {
            return Err(AttachError::NotRing);
        }
        let stated = words[1].load(Ordering::Relaxed);
        let end = usize::try_from(stated).ok().and_then(words_for).ok_or(AttachError::BadCapacity(stated))?;
        let bytes = words.get(BYTES..end).ok_or(AttachError::BadCapacity(stated))?;
        Ok(Journal { announced: &words[ANNOUNCED], written: &words[WRITTEN], words: bytes })
    }

    /// Bytes that are kept.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.words.len() * WORD
    }

    /// The writing end, continuing behind what an earlier writer wrote; one at a time. Of a write that the earlier one
    /// did not end nothing is read.
    #[must_use]
    pub fn writer(self) -> Writer<'a> {
        let (announced, position) = (self.announced.load(Ordering::Relaxed), self.written.load(Ordering::Relaxed));
        // Beyond that there is no byte left that could be told from those that were overwritten.
        let most = position.saturating_add(self.capacity() as u64);
        Writer { journal: self, position, announced: announced.clamp(position, most) }
    }

    /// A reader that begins with the oldest byte kept.
    #[must_use]
    pub fn reader(self) -> Reader<'a> {
        let written = self.written.load(Ordering::Acquire);
        Reader { journal: self, position: written.saturating_sub(self.capacity() as u64) }
    }

    fn word(&self, position: u64) -> &'a AtomicU64 {
        &self.words[(position / WORD as u64) as usize & (self.words.len() - 1)]
    }
}

/// The writing end.
#[derive(Debug)]
pub struct Writer<'a> {
    journal: Journal<'a>,
    position: u64,
    /// How far an earlier writer may have written.
    announced: u64,
}

impl Writer<'_> {
    /// Appends bytes; the oldest ones make room.
    pub fn write(&mut self, bytes: &[u8]) {
        let end = self.position.wrapping_add(bytes.len() as u64);
        // Not less than before, as long as bytes are kept that were overwritten for what was announced.
        self.journal.announced.store(end.max(self.announced), Ordering::Relaxed);
        // ORDERING: whoever sees a byte written below sees the announcement; pairs with the fence in `Reader::read`.
        fence(Ordering::Release);
        let mut rest = bytes;
        while !rest.is_empty() {
            let at = (self.position % WORD as u64) as usize;
            let (now, later) = rest.split_at(rest.len().min(WORD - at));
            let word = self.journal.word(self.position);
            let mut whole = word.load(Ordering::Relaxed).to_le_bytes();
            whole[at..at + now.len()].copy_from_slice(now);
            word.store(u64::from_le_bytes(whole), Ordering::Relaxed);
            self.position = self.position.wrapping_add(now.len() as u64);
            rest = later;
        }
        // ORDERING: pairs with the load in `Reader::read`: the bytes are there.
        self.journal.written.store(self.position, Ordering::Release);
    }
}

/// What a read gave.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Read {
    /// Bytes at the front of the buffer.
    pub len: usize,
    /// Bytes before them that were overwritten before this reader came to them.
    pub lost: u64,
}

/// A reading end.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    journal: Journal<'a>,
    position: u64,
}

impl Reader<'_> {
    /// Copies bytes that were not read yet, as many as there are and fit.
    ///
    /// A writer that announces nonsense makes this reader lose bytes, and nothing worse.
    pub fn read(&mut self, into: &mut [u8]) -> Read {
        let capacity = self.journal.capacity() as u64;
        // ORDERING: pairs with the store in `Writer::write`.
        let written = self.journal.written.load(Ordering::Acquire);
        if written < self.position {
            // The writer began anew.
            self.position = 0;
        }
        let oldest = written.saturating_sub(capacity).max(self.position);
        let mut lost = oldest - self.position;
        let len = into.len().min((written - oldest) as usize);
        // In this order the range is asked for no position behind the last one, which may be the largest there is.
        for (to, position) in into.iter_mut().take(len).zip(oldest..) {
            let word = self.journal.word(position).load(Ordering::Relaxed).to_le_bytes();
            *to = word[(position % WORD as u64) as usize];
        }
        // ORDERING: pairs with the fence in `Writer::write`.
        fence(Ordering::Acquire);
        let announced = self.journal.announced.load(Ordering::Relaxed);
        // Bytes below this position may have been overwritten while they were copied.
        let safe = announced.saturating_sub(capacity);
        let torn = (safe.saturating_sub(oldest)).min(len as u64);
        into.copy_within(torn as usize..len, 0);
        lost += torn;
        self.position = oldest + len as u64;
        Read { len: len - torn as usize, lost }
    }

    /// Bytes ever written before the next one that this reader reads.
    #[must_use]
    pub const fn position(&self) -> u64 {
        self.position
    }
}
