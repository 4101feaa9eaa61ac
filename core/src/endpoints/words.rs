//! Table bytes, read eight at a time.
//!
//! A table is read from lent bytes that nobody changes, or from an arena whose words its writer may replace at any
//! time. Either way a read past the end gives `None`, never a fault, and what was read is checked where it is used.

use super::layout::halves;
use crate::atomic::{AtomicU64, Ordering};

/// Little-endian words of a table, at whatever place they lie.
pub trait Words: Copy {
    /// Number of whole words.
    fn count(&self) -> usize;

    /// The word at index `at`; `None` past the end.
    fn word(&self, at: usize) -> Option<u64>;
}

impl Words for &[u8] {
    fn count(&self) -> usize {
        self.len() / 8
    }

    #[inline]
    fn word(&self, at: usize) -> Option<u64> {
        let from = at.checked_mul(8)?;
        self.get(from..from.checked_add(8)?)?.first_chunk().copied().map(u64::from_le_bytes)
    }
}

/// Words of an arena, from where a table starts to the end of the arena.
///
/// What comes from here counts only if the group's slot is unchanged afterwards, which
/// the reader of the arena checks.
#[derive(Clone, Copy, Debug)]
pub struct Live<'a>(pub(super) &'a [AtomicU64]);

impl Words for Live<'_> {
    fn count(&self) -> usize {
        self.0.len()
    }

    #[inline]
    fn word(&self, at: usize) -> Option<u64> {
        // ORDERING: relaxed; the fences around the reading of a slot order these loads against the writer.
        self.0.get(at).map(|word| u64::from_le(word.load(Ordering::Relaxed)))
    }
}

/// The 32-bit field `at` of an array of such fields that starts at word `from`.
#[inline]
pub(super) fn field(words: &impl Words, from: usize, at: usize) -> Option<u32> {
    let (low, high) = halves(words.word(from.checked_add(at / 2)?)?);
    Some(if at.is_multiple_of(2) { low } else { high })
}
