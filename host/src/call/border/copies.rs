//! Copies of messages, in memory that is used again.
//!
//! So nothing is allocated for those that wait.

use super::super::shape::Shape;

/// Pieces of memory that are kept.
pub(super) const MOST: usize = 64;

/// Memory of messages that are done with.
#[derive(Debug)]
pub(super) struct Copies {
    spare: Vec<Vec<u8>>,
    /// Bytes of the longest message.
    longest: usize,
}

impl Copies {
    pub(super) fn new(shape: Shape) -> Copies {
        Copies { spare: Vec::with_capacity(MOST), longest: shape.message_bytes as usize }
    }

    /// A copy, to be given [back](Self::give).
    pub(super) fn take(&mut self, message: &[u8]) -> Vec<u8> {
        let mut copy = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(self.longest));
        copy.clear();
        copy.extend_from_slice(message);
        copy
    }

    /// A copy is done with.
    pub(super) fn give(&mut self, copy: Vec<u8>) {
        if self.spare.len() < MOST {
            self.spare.push(copy);
        }
    }
}
