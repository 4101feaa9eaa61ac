//! Chained calls between places over any transport, here over shared memory.
//!
//! `verbs_calls` does the same over queue pairs.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::sync::Arc;

use umbra::call::ferry::{Ferry, FerryError, Hold, Lost, SLOTS};
use umbra::shm::Shm;
use umbra::sys::segment::Segment;
use umbra_core::key::Access;
use umbra_core::transport::{Transport as _, Work};
use umbra_core::wire::{Frame, Op, Token};
use umbra_tests::ferry::{End, Joined, key, place, shape};
use umbra_tests::shm::{Life, pair, window};
use umbra_tests::transport_conformance::peer;

/// Two ends over shared memory.
fn shared() -> ([End<Shm>; 2], Life) {
    let (mut ends, life) = pair(64, 64);
    let bytes = Ferry::<Shm>::bytes(shape(0));
    let mut hold = |n, is_landing| {
        let key = key(n, is_landing);
        Hold { key, memory: window(&mut ends, key, bytes, Access::READ | Access::WRITE) }
    };
    let [one, two] = [0, 1].map(|n| [hold(n, false), hold(n, true)]);
    let end = |transport, [outgoing, landing]: [Hold; 2]| End { transport, outgoing, landing };
    let [first, second] = ends;
    ([end(first, one), end(second, two)], life)
}

#[test]
fn calls_are_carried() {
    let (ends, _life) = shared();
    Joined::new(ends).calls_are_carried();
}

#[test]
fn offered_data_is_carried() {
    let (ends, _life) = shared();
    Joined::new(ends).offered_data_is_carried();
}

#[test]
fn a_place_that_dies_is_named() {
    let (ends, life) = shared();
    Joined::new(ends).a_place_that_dies_is_named(|| drop(life));
}

/// What a place says of another one that sends these frames.
fn told_of(frames: &[Frame<'_>]) -> Option<FerryError> {
    let ([first, mut second], _life) = shared();
    let (_members, mut ferry) = place(0, first);
    for frame in frames {
        second.transport.post(peer(0), Work::Send(*frame), Token(0)).unwrap();
    }
    (0..100).find_map(|_| ferry.turn().err())
}

#[test]
fn a_place_that_speaks_of_what_there_is_not_is_lost() {
    let [landed, taken] = [Op(0x0606), Op(0x0607)];
    let bytes = Ferry::<Shm>::bytes(shape(0)) as u64 / u64::from(SLOTS);
    let frame = |op, token, arg| Frame::Null { op, token: Token(token), arg };
    let malformed = Some(FerryError { place: 1, why: Lost::Malformed });
    for (frames, expected) in [
        (vec![frame(landed, 1, 0)], malformed),
        (vec![frame(landed, u64::MAX, 0)], malformed),
        (vec![frame(landed, 0, bytes + 1)], malformed),
        (vec![frame(landed, 0, 0), frame(landed, 0, 0)], malformed),
        // More than was announced to it, which is a greeting at most.
        (vec![frame(taken, 2, 0)], malformed),
        (vec![frame(taken, u64::MAX, 0)], malformed),
        (vec![frame(Op(7), 0, 0)], malformed),
        (vec![Frame::Call { op: landed, token: Token(0), body: &[1; 40] }], malformed),
        // Bodies of operations that it does not know are not for it.
        (vec![frame(landed, 0, 7 << 32 | 8), frame(landed, 1, bytes)], None),
    ] {
        assert_eq!(told_of(&frames), expected, "{frames:?}");
    }
}

#[test]
fn a_greeting_that_is_none_loses_the_place() {
    let error = told_of(&[Frame::Null { op: Op(0x0606), token: Token(0), arg: 0x0601 << 32 | 3 }]).unwrap();
    assert!(matches!(error, FerryError { place: 1, why: Lost::Border(_) }), "{error}");
}

#[test]
fn memory_that_is_too_short_is_refused() {
    let ([mut first, second], _life) = shared();
    let (_members, mut ferry) = place(1, second);
    first.landing.memory = Arc::new(Segment::create("short", 4096).unwrap());
    let least = Ferry::<Shm>::bytes(shape(0));
    let refused = ferry.join((0, peer(0)), first.outgoing, first.landing, key(0, true));
    assert_eq!(refused, Err(FerryError { place: 0, why: Lost::Short { least } }));
}
