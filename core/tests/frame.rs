//! A frame in a ring's cell is what a byte stream would carry, and then zeros.

#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use proptest::collection::vec;
use proptest::prelude::*;
use umbra_core::codec::words;
use umbra_core::error::Status;
use umbra_core::key::{Key, Span};
use umbra_core::wire::{Frame, HEAD, INLINE, Op, Token};

proptest! {
    #[test]
    fn words_of_a_cell_are_the_bytes_of_the_frame(
        kind in 0..4,
        op in any::<u16>(),
        token in any::<u64>(),
        code in 0_u16..12,
        body in vec(any::<u8>(), 0..=INLINE + 2),
        [arg, offset, len, key] in any::<[u64; 4]>(),
    ) {
        let (op, token, body) = (Op(op), Token(token), body.as_slice());
        let frame = match kind {
            0 => Frame::Call { op, token, body },
            1 => Frame::Offer { op, token, span: Span { key: Key::from_bits(key), offset, len }, arg },
            2 => Frame::Null { op, token, arg },
            _ => Frame::Done { op, token, status: Status::from_code(code).unwrap(), body },
        };
        let mut cell = [0; HEAD + INLINE];
        match frame.emit(&mut cell) {
            Ok(_) => prop_assert_eq!(frame.to_words(), Ok(words(&cell))),
            Err(short) => prop_assert_eq!(frame.to_words(), Err(short)),
        }
    }
}
