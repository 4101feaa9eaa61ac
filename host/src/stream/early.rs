//! What was read, and is kept for the next read because a deadline came.

use std::collections::VecDeque;

use super::receive::{Message, Piece};
use crate::sys::heap;

/// Parts of messages that are read again, each with its 64 bits and whether its message ends with it: a message whose end
/// was forgotten would be taken for one that has none, or for one with the next.
#[derive(Debug, Default)]
pub(crate) struct Early(VecDeque<Part>);

#[derive(Debug)]
struct Part {
    bytes: Vec<u8>,
    /// Bytes of it that were read again.
    read: usize,
    arg: u64,
    is_last: bool,
}

impl Part {
    fn left(&self) -> &[u8] {
        self.bytes.get(self.read..).unwrap_or_default()
    }
}

impl Early {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes that are left of the first part.
    pub(crate) fn len(&self) -> usize {
        self.0.front().map_or(0, |part| part.left().len())
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Takes of the first part as much as fits, if there is one.
    pub(crate) fn read(&mut self, into: &mut [u8]) -> Option<Piece> {
        let part = self.0.front_mut()?;
        let len = part.left().len().min(into.len());
        into[..len].copy_from_slice(&part.left()[..len]);
        part.read += len;
        let is_read = part.left().is_empty();
        let piece = Piece { len, arg: part.arg, is_last: is_read && part.is_last };
        if is_read {
            self.0.pop_front();
        }
        Some(piece)
    }

    /// Takes the first part, if nothing of it was read again and nothing of its message is behind it.
    pub(crate) fn take_whole(&mut self) -> Option<Message> {
        self.0.front().filter(|part| part.is_last && part.read == 0)?;
        self.0.pop_front().map(|Part { bytes, arg, .. }| Message { bytes, arg })
    }

    /// Adds a part behind the others.
    pub(crate) fn push(&mut self, bytes: Vec<u8>, arg: u64, is_last: bool) {
        self.0.push_back(Part { bytes, read: 0, arg, is_last });
    }

    /// Adds a part before the others, which were to be read after it.
    pub(crate) fn put_back(&mut self, bytes: Vec<u8>, arg: u64, is_last: bool) {
        self.0.push_front(Part { bytes, read: 0, arg, is_last });
    }
}

/// What a pad was filled with.
#[derive(Default)]
pub(crate) struct Filled {
    /// All of it, with what the last part of it says.
    pub(crate) all: Piece,
    /// Up to where messages go that end before the last part: few, so that there is seldom anything to allocate.
    whole: Vec<Piece>,
}

impl Filled {
    /// Fills a pad by reads of what comes, until it is full, or until `is_over` with something in it.
    ///
    /// # Errors
    /// What a read says, and what had come.
    pub(crate) fn fill<E>(
        pad: &mut [u8],
        mut read: impl FnMut(&mut [u8]) -> Result<Piece, E>,
        is_over: impl Fn(&E) -> bool,
    ) -> Result<Piece, (Filled, E)> {
        let mut filled = Filled::default();
        while filled.all.len < pad.len() {
            let Some(rest) = pad.get_mut(filled.all.len..) else { break };
            match read(rest) {
                Ok(piece) => filled.add(piece),
                Err(error) if filled.all.len > 0 && is_over(&error) => break,
                Err(error) => return Err((filled, error)),
            }
        }
        Ok(filled.all)
    }

    /// Counts a part that was read behind the others.
    fn add(&mut self, piece: Piece) {
        if self.all.is_last {
            self.whole.push(self.all);
        }
        self.all = Piece { len: self.all.len + piece.len, ..piece };
    }

    /// Has it read again before anything else; or says what is in the pad, if there is no memory to keep it elsewhere.
    pub(crate) fn put_back(mut self, pad: &[u8], early: &mut Early) -> Option<Piece> {
        if self.all.len == 0 {
            return None;
        }
        let behind = early.0.len();
        self.whole.push(self.all);
        while let Some(Piece { len, arg, is_last }) = self.whole.pop() {
            let from = self.whole.last().map_or(0, |before| before.len);
            let (part, mut bytes) = (pad.get(from..len).unwrap_or_default(), Vec::new());
            if heap::more(&mut bytes, part.len()).is_err() {
                early.0.drain(..early.0.len() - behind);
                return Some(self.all);
            }
            bytes.extend_from_slice(part);
            early.put_back(bytes, arg, is_last);
        }
        None
    }
}
