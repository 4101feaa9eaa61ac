//! Words that groups borrow while they are being filled.
//!
//! A group needs sets and lists only until it is full; what it needs depends on its size, so it is cut from one
//! lent array of words and given back. Bookkeeping is [`Memory`]; this file adds the words themselves.

use zerocopy::{FromBytes, IntoBytes};

use crate::memory::{Block, Extent, Memory};

/// A piece of the heap; nothing unless taken.
pub(crate) type Piece = Option<Extent>;

/// Lent words with an allocator over them.
#[derive(Debug)]
pub(crate) struct Heap<W, B> {
    words: W,
    memory: Memory<B>,
}

impl<W: AsRef<[u64]> + AsMut<[u64]>, B: AsRef<[Block]> + AsMut<[Block]>> Heap<W, B> {
    pub(crate) fn new(words: W, blocks: B) -> Self {
        let bytes = words.as_ref().len() as u64 * 8;
        Heap { words, memory: Memory::new(blocks, bytes) }
    }

    pub(crate) fn used_bytes(&self) -> u64 {
        self.memory.capacity_bytes() - self.memory.free_bytes()
    }

    /// Takes at least `words` words, and at least one, all zero; `None` if there is no room.
    pub(crate) fn take(&mut self, words: usize) -> Piece {
        let extent = self.memory.alloc((words.max(1) as u64).checked_mul(8)?).ok()?;
        self.words_mut(&Some(extent)).fill(0);
        Some(extent)
    }

    /// Gives a piece back, if there is one.
    pub(crate) fn give(&mut self, piece: &mut Piece) {
        if let Some(extent) = piece.take() {
            let given = self.memory.free(extent);
            debug_assert!(given.is_ok(), "a piece of the heap was given back twice");
        }
    }

    /// The words of a piece; none if it is not taken.
    pub(crate) fn words(&self, piece: &Piece) -> &[u64] {
        piece.and_then(|e| self.words.as_ref().get(range(&e))).unwrap_or(&[])
    }

    /// The words of a piece, to be changed.
    pub(crate) fn words_mut(&mut self, piece: &Piece) -> &mut [u64] {
        piece.and_then(|e| self.words.as_mut().get_mut(range(&e))).unwrap_or(&mut [])
    }

    /// The first `len` bytes of a piece; fewer if it is shorter.
    pub(crate) fn bytes(&self, piece: &Piece, len: usize) -> &[u8] {
        let bytes = self.words(piece).as_bytes();
        bytes.get(..len).unwrap_or(bytes)
    }

    /// The bytes of a piece, to be changed.
    pub(crate) fn bytes_mut(&mut self, piece: &Piece) -> &mut [u8] {
        <[u8]>::mut_from_bytes(self.words_mut(piece).as_mut_bytes()).unwrap_or(&mut [])
    }

    /// The words of one piece beside the bytes of another, which may be changed; nothing if they are the same.
    pub(crate) fn beside(&mut self, read: &Piece, write: &Piece) -> (&[u64], &mut [u8]) {
        let (Some(read), Some(write)) = (read.map(|e| range(&e)), write.map(|e| range(&e))) else {
            return (&[], &mut []);
        };
        let words = self.words.as_mut();
        let (from, to) = if read.end <= write.start {
            match words.split_at_mut_checked(write.start) {
                Some((low, high)) => (low.get(read), high.get_mut(..write.len())),
                None => (None, None),
            }
        } else {
            match words.split_at_mut_checked(read.start) {
                Some((low, high)) => (high.get(..read.len()), low.get_mut(write)),
                None => (None, None),
            }
        };
        let to = to.and_then(|words| <[u8]>::mut_from_bytes(words.as_mut_bytes()).ok());
        (from.unwrap_or(&[]), to.unwrap_or(&mut []))
    }

    /// A second, larger piece with the content of the first, which is given back; `false` if there is no room.
    pub(crate) fn grow(&mut self, piece: &mut Piece, words: usize) -> bool {
        let Some(larger) = self.take(words) else { return false };
        if let Some(old) = *piece {
            let (from, to) = (range(&old), range(&larger));
            let len = from.len().min(to.len());
            self.words.as_mut().copy_within(from.start..from.start + len, to.start);
        }
        self.give(piece);
        *piece = Some(larger);
        true
    }
}

fn range(extent: &Extent) -> core::ops::Range<usize> {
    let start = (extent.offset / 8) as usize;
    start..start + (extent.len / 8) as usize
}
