//! What a rank says that it will read next.

use crate::access::message::Malformed;
use crate::access::serve::INLINE_MAX;
use crate::codec::{Reader, filled};
use crate::key::{Key, Span};
use crate::wire::Op;

/// A rank tells its service process which span it will read.
pub const HINT: Op = Op(0x0406);
/// Bytes that one hint names at most.
pub const HINT_MAX: u64 = 32 * INLINE_MAX;

/// A span of a constant region, to be read in pieces of one answer each, from its beginning on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hint(pub Span);

impl Hint {
    /// Bytes of the body.
    pub const LEN: usize = 24;

    /// The body.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::LEN] {
        filled(|w| [self.0.key.to_bits(), self.0.offset, self.0.len].into_iter().try_for_each(|word| w.u64(word)))
    }

    /// Reads a body.
    ///
    /// # Errors
    /// [`Malformed`], also for a span of no bytes, of more than [`HINT_MAX`], or past the end of the numbers.
    pub fn parse(body: &[u8]) -> Result<Hint, Malformed> {
        let mut r = Reader::new(body);
        let (key, offset, len) = (Key::from_bits(r.u64()?), r.u64()?, r.u64()?);
        if !r.rest().is_empty() || !(1..=HINT_MAX).contains(&len) || offset.checked_add(len).is_none() {
            return Err(Malformed);
        }
        Ok(Hint(Span { key, offset, len }))
    }

    /// The spans that a rank asks for one by one when it reads this one.
    pub fn pieces(self) -> impl Iterator<Item = Span> {
        let Span { key, offset, len } = self.0;
        let starts = (0..len).step_by(INLINE_MAX as usize);
        starts.map(move |at| Span { key, offset: offset + at, len: (len - at).min(INLINE_MAX) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_is_read_as_it_was_written_and_its_pieces_are_what_a_read_asks_for() {
        let span = |offset, len| Span { key: Key::from_bits(7), offset, len };
        for (offset, len) in [(0, 1), (5, INLINE_MAX), (5, INLINE_MAX + 1), (u64::MAX - HINT_MAX, HINT_MAX)] {
            let hint = Hint(span(offset, len));
            assert_eq!(Hint::parse(&hint.to_bytes()), Ok(hint));
            let mut next = offset;
            for piece in hint.pieces() {
                assert!(piece.offset == next && (1..=INLINE_MAX).contains(&piece.len));
                next += piece.len;
            }
            assert_eq!(next, offset + len);
        }
        for (offset, len) in [(0, 0), (0, HINT_MAX + 1), (0, u64::MAX), (u64::MAX, 1)] {
            assert_eq!(Hint::parse(&Hint(span(offset, len)).to_bytes()), Err(Malformed), "{offset} {len}");
        }
        let whole = Hint(span(3, 4)).to_bytes();
        assert_eq!(Hint::parse(&whole[..23]), Err(Malformed));
        assert_eq!(Hint::parse(&[&whole[..], &[0]].concat()), Err(Malformed));
    }
}
