//! Frames, as one cell or as a piece of a stream.

use umbra_core::error::Status;
use umbra_core::key::{Key, Span};
use umbra_core::wire::{BODY_MAX, Frame, HEAD, Op, Token};

/// One frame of every kind.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    let (op, token) = (Op(0x0201), Token(7));
    let span = Span { key: Key::from_bits(0x0123_4567_89ab_cdef), offset: 64, len: 4096 };
    let frames = [
        Frame::Call { op, token, body: b"arguments" },
        Frame::Call { op, token, body: &[] },
        Frame::Offer { op, token, span, arg: 9 },
        Frame::Null { op, token, arg: 9 },
        Frame::Done { op, token, status: Status::Ok, body: b"results" },
    ];
    frames.iter().map(bytes_of).collect()
}

/// What parses, emits the same bytes; the head alone announces the same length.
pub(super) fn feed(bytes: &[u8]) {
    let announced = bytes.first_chunk::<HEAD>().map(Frame::announced_len);
    match Frame::parse(bytes) {
        Ok(frame) => {
            assert_eq!(bytes_of(&frame), bytes);
            assert_eq!(announced, Some(Ok(bytes.len())));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    if let Some(Ok(length)) = announced {
        assert!((HEAD..=HEAD + BODY_MAX).contains(&length));
    }
}

fn bytes_of(frame: &Frame<'_>) -> Vec<u8> {
    let mut bytes = vec![0; frame.len_bytes()];
    let length = frame.emit(&mut bytes).expect("the buffer has the length that the frame asked for");
    assert_eq!(length, bytes.len());
    bytes
}
