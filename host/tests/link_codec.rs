//! The link protocol against damaged, cut, oversized and foreign bytes (s22, s25).
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop at the first surprise")]

use umbra::link::{Close, Codec, Identity, Input, Party, SendError, Side};
use umbra::secret::Secret;
use umbra_core::peer::{Incarnation, Peer, Sp, WorldRank};
use umbra_core::wire::{BODY_MAX, Frame, Op, Token};

const LIMIT: usize = 1 << 20;

fn service(number: u32) -> Identity {
    let party = Party::Peer(Peer::service(Sp(number)).unwrap());
    Identity { party, incarnation: Incarnation(100 + u64::from(number)) }
}

fn rank(number: u32) -> Identity {
    let party = Party::Peer(Peer::rank(WorldRank(number)).unwrap());
    Identity { party, incarnation: Incarnation(200 + u64::from(number)) }
}

fn pair(left: u8, right: u8) -> (Codec, Codec) {
    (
        Codec::new(Side::Initiator, rank(3), &Secret::from_bytes([left; 32]), [11; 32], LIMIT),
        Codec::new(Side::Acceptor, service(1), &Secret::from_bytes([right; 32]), [22; 32], LIMIT),
    )
}

/// Moves everything that waits at `from` to `to`.
fn carry(from: &mut Codec, to: &mut Codec) -> Result<(), Close> {
    let bytes = from.outgoing().to_vec();
    from.sent(bytes.len());
    to.receive(&bytes)
}

fn connected() -> (Codec, Codec) {
    let (mut a, mut b) = pair(7, 7);
    let mut frame = Vec::new();
    carry(&mut a, &mut b).unwrap();
    assert_eq!(b.take(&mut frame), Ok(None));
    carry(&mut b, &mut a).unwrap();
    assert_eq!(a.take(&mut frame), Ok(None));
    carry(&mut a, &mut b).unwrap();
    assert_eq!(b.take(&mut frame), Ok(Some(Input::Up(rank(3)))));
    carry(&mut b, &mut a).unwrap();
    assert_eq!(a.take(&mut frame), Ok(Some(Input::Up(service(1)))));
    (a, b)
}

fn call(body: &[u8]) -> Frame<'_> {
    Frame::Call { op: Op(0x0101), token: Token(9), body }
}

#[test]
fn frames_arrive_in_order_and_unchanged_however_the_bytes_are_cut() {
    for cut in [1, 7, 64, 1000] {
        let (mut a, mut b) = connected();
        let bodies: Vec<Vec<u8>> = (0..20u8).map(|i| vec![i; usize::from(i) * 97]).collect();
        for body in &bodies {
            a.send(&call(body), 0).unwrap();
        }
        let bytes = a.outgoing().to_vec();
        let (mut frame, mut got) = (Vec::new(), 0);
        for piece in bytes.chunks(cut) {
            b.receive(piece).unwrap();
            while let Some(input) = b.take(&mut frame).unwrap() {
                assert_eq!(input, Input::Frame(0));
                assert_eq!(Frame::parse(&frame).unwrap(), call(&bodies[got]));
                got += 1;
            }
        }
        assert_eq!(got, bodies.len());
    }
}

#[test]
fn the_largest_frame_passes_and_a_larger_one_is_refused_before_it_is_sent() {
    let (mut a, mut b) = connected();
    let body = vec![5; BODY_MAX];
    a.send(&call(&body), 0).unwrap();
    carry(&mut a, &mut b).unwrap();
    let mut frame = Vec::new();
    assert_eq!(b.take(&mut frame), Ok(Some(Input::Frame(0))));
    let body = vec![5; BODY_MAX + 1];
    assert_eq!(a.send(&call(&body), 0), Err(SendError::TooLarge));
    assert!(a.outgoing().is_empty());
}

#[test]
fn a_full_queue_refuses_and_takes_again_after_progress() {
    let (mut a, mut b) = connected();
    let body = vec![1; 60_000];
    let mut queued = 0;
    while a.send(&call(&body), 0).is_ok() {
        queued += 1;
    }
    assert!(queued > 1 && a.outgoing().len() <= LIMIT);
    assert_eq!(a.send(&call(&body), 0), Err(SendError::Full));
    let mut frame = Vec::new();
    let bytes = a.outgoing()[..100_000].to_vec();
    a.sent(bytes.len());
    b.receive(&bytes).unwrap();
    assert_eq!(b.take(&mut frame), Ok(Some(Input::Frame(0))));
    assert!(a.send(&call(&body), 0).is_ok());
}

#[test]
fn s22_every_changed_byte_of_a_record_closes_the_link() {
    let (mut a, _) = connected();
    a.send(&call(b"some bytes"), 0).unwrap();
    let good = a.outgoing().to_vec();
    for at in 0..good.len() {
        for flip in [0x01, 0x80, 0xff] {
            let (_, mut b) = connected();
            let mut bytes = good.clone();
            bytes[at] ^= flip;
            b.receive(&bytes).unwrap();
            let mut frame = Vec::new();
            let result = b.take(&mut frame);
            // A longer announcement waits for more bytes; then its digest is wrong.
            let result = match result {
                Ok(None) => {
                    let more = vec![0; b.room().min(2 * BODY_MAX)];
                    b.receive(&more).unwrap();
                    b.take(&mut frame)
                }
                other => other,
            };
            assert!(matches!(result, Err(Close::BadDigest(0) | Close::TooLarge(_))), "byte {at}: {result:?}");
            assert_eq!(b.take(&mut frame), Ok(None), "a closed link gives nothing");
        }
    }
}

#[test]
fn s22_a_repeated_or_missing_or_swapped_record_closes_the_link() {
    let record = |a: &mut Codec, body: &[u8]| {
        a.send(&call(body), 0).unwrap();
        let bytes = a.outgoing().to_vec();
        a.sent(bytes.len());
        bytes
    };
    let mut frame = Vec::new();
    let (mut a, mut b) = connected();
    let first = record(&mut a, b"1");
    let second = record(&mut a, b"2");
    b.receive(&second).unwrap();
    assert_eq!(b.take(&mut frame), Err(Close::BadDigest(0)));
    let (_, mut b) = connected();
    b.receive(&first).unwrap();
    b.receive(&first).unwrap();
    assert_eq!(b.take(&mut frame), Ok(Some(Input::Frame(0))));
    assert_eq!(b.take(&mut frame), Err(Close::BadDigest(1)));
}

#[test]
fn s22_a_record_sent_back_to_its_sender_is_refused() {
    let (mut a, mut b) = connected();
    a.send(&call(b"mirror"), 0).unwrap();
    let bytes = a.outgoing().to_vec();
    a.receive(&bytes).unwrap();
    assert_eq!(a.take(&mut Vec::new()), Err(Close::BadDigest(0)));
    b.receive(&bytes).unwrap();
    assert_eq!(b.take(&mut Vec::new()), Ok(Some(Input::Frame(0))));
}

#[test]
fn s22_random_bytes_never_panic_nor_grow_memory_and_end_with_a_reason() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut closed = 0;
    for round in 0..20_000 {
        let mut b = match round % 3 {
            0 => pair(7, 7).1,
            1 => pair(7, 7).0,
            _ => connected().1,
        };
        let mut frame = Vec::new();
        for _ in 0..8 {
            let len = (random() % 300) as usize;
            let mut bytes: Vec<u8> = (0..len).map(|_| random() as u8).collect();
            // Half of them begin like something real.
            if random() % 2 == 0 && len > 5 {
                bytes[..5].copy_from_slice(b"\x01UMBL");
            }
            let bytes = &bytes[..len.min(b.room())];
            if b.receive(bytes).is_err() {
                break;
            }
            assert!(b.room() <= Codec::INBOUND_MAX);
            match b.take(&mut frame) {
                Ok(None) => {}
                Ok(Some(input)) => panic!("random bytes were believed: {input:?}"),
                Err(_) => {
                    closed += 1;
                    break;
                }
            }
        }
    }
    assert!(closed > 15_000, "only {closed} links were closed");
}

#[test]
fn s22_an_absurd_length_is_refused_at_once() {
    let (mut a, mut b) = connected();
    a.send(&call(b""), 0).unwrap();
    b.receive(&[0xff, 0xff, 0xff, 0]).unwrap();
    assert_eq!(b.take(&mut Vec::new()), Err(Close::TooLarge(0x00ff_ffff)));
}

#[test]
fn s22_another_version_is_told_so() {
    let (mut a, mut b) = pair(7, 7);
    let mut hello = a.outgoing().to_vec();
    hello[5] = 9;
    b.receive(&hello).unwrap();
    assert_eq!(b.take(&mut Vec::new()), Err(Close::WrongVersion(9)));
    carry(&mut b, &mut a).unwrap();
    let refused = a.take(&mut Vec::new());
    assert!(matches!(refused, Err(Close::Refused(umbra_core::error::Status::WrongVersion))), "{refused:?}");
}

#[test]
fn s25_a_wrong_secret_is_refused_on_both_sides_before_anything_else() {
    let (mut a, mut b) = pair(7, 8);
    let mut frame = Vec::new();
    carry(&mut a, &mut b).unwrap();
    assert_eq!(b.take(&mut frame), Ok(None));
    carry(&mut b, &mut a).unwrap();
    assert_eq!(a.take(&mut frame), Ok(None));
    carry(&mut a, &mut b).unwrap();
    assert_eq!(b.take(&mut frame), Err(Close::Unauthenticated));
    assert!(!b.is_up());
    carry(&mut b, &mut a).unwrap();
    assert_eq!(a.take(&mut frame), Err(Close::Unauthenticated));
    assert!(!a.is_up());
    assert_eq!(a.send(&call(b""), 0), Err(SendError::NotUp));
}

#[test]
fn s25_an_old_conversation_proves_nothing() {
    let (mut a, mut b) = pair(7, 7);
    let hello = a.outgoing().to_vec();
    carry(&mut a, &mut b).unwrap();
    b.take(&mut Vec::new()).unwrap();
    carry(&mut b, &mut a).unwrap();
    a.take(&mut Vec::new()).unwrap();
    let proof = a.outgoing().to_vec();
    let mut later = Codec::new(Side::Acceptor, service(1), &Secret::from_bytes([7; 32]), [23; 32], LIMIT);
    later.receive(&hello).unwrap();
    later.receive(&proof).unwrap();
    assert_eq!(later.take(&mut Vec::new()), Err(Close::Unauthenticated));
}

#[test]
fn s25_a_mirror_does_not_authenticate() {
    // A man in the middle sends our own messages back to us.
    let mut a = Codec::new(Side::Initiator, rank(3), &Secret::from_bytes([7; 32]), [11; 32], LIMIT);
    let hello = a.outgoing().to_vec();
    a.sent(hello.len());
    a.receive(&hello).unwrap();
    assert_eq!(a.take(&mut Vec::new()), Ok(None));
    let proof = a.outgoing().to_vec();
    a.receive(&proof).unwrap();
    assert_eq!(a.take(&mut Vec::new()), Err(Close::Unauthenticated));
}
