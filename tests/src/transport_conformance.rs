//! What every transport must do, once, for all of them.
//!
//! A [`Rig`] is two peers, the transport of each, and registered memory of the second that the first may
//! read and write. [`transport_suite!`](crate::transport_suite) makes one test of each promise.

use umbra_core::error::Status;
use umbra_core::key::{Key, Span};
use umbra_core::peer::{Peer, Sp};
use umbra_core::transport::{Event, PostError, Transport, Work};
use umbra_core::wire::{Frame, Op, Token};

/// Bytes of each peer's memory.
pub const MEMORY: u64 = 4096;

/// The first peer, or the second.
#[must_use]
pub fn peer(n: u32) -> Peer {
    match Peer::service(Sp(n)) {
        Some(peer) => peer,
        None => panic!("there are two peers"),
    }
}

/// The memory of peer `n`, which the other may read and write.
#[must_use]
pub fn open(n: u32) -> Key {
    Key::new(peer(n), 1, 1)
}

/// The memory of the second peer that the first may only read.
#[must_use]
pub fn read_only() -> Key {
    Key::new(peer(1), 2, 1)
}

/// Two peers.
pub trait Rig {
    /// The transport of peer `n`, polled or posted to by `with`.
    fn with<T>(&mut self, n: u32, with: impl FnOnce(&mut dyn Transport) -> T) -> T;
    /// Peer `n` writes its own memory.
    fn poke(&mut self, key: Key, offset: u64, bytes: &[u8]);
    /// Peer `n` reads its own memory.
    fn peek(&mut self, key: Key, offset: u64, len: usize) -> Vec<u8>;
    /// The second peer dies without a word.
    fn kill_second(&mut self);
}

/// What an event was, for keeps.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Told {
    /// A frame: from whom, its token.
    Frame(Peer, u64),
    /// A completion.
    Done(u64, Status),
    /// A damaged cell.
    Damaged,
    /// A death.
    Gone(Peer),
}

fn poll<R: Rig>(rig: &mut R, n: u32) -> Vec<Told> {
    let mut told = Vec::new();
    rig.with(n, |transport| {
        transport.poll(&mut |event| {
            told.push(match event {
                Event::Frame { from, frame } => Told::Frame(from, frame.token().0),
                Event::Done { token, status } => Told::Done(token.0, status),
                Event::Damaged { .. } => Told::Damaged,
                Event::Gone { peer } => Told::Gone(peer),
            });
        })
    });
    told
}

/// Polls until something is told, or long enough.
fn hear<R: Rig>(rig: &mut R, n: u32) -> Vec<Told> {
    for _ in 0..1_000_000 {
        let told = poll(rig, n);
        if !told.is_empty() {
            return told;
        }
        std::thread::yield_now();
    }
    Vec::new()
}

fn send<R: Rig>(rig: &mut R, from: u32, to: u32, token: u64) -> Result<(), PostError> {
    let frame = Frame::Null { op: Op(0x0f01), token: Token(token), arg: token };
    rig.with(from, |transport| transport.post(peer(to), Work::Send(frame), Token(0)))
}

/// Frames arrive in order, each once, in both directions, and more than fit at once.
pub fn frames_arrive_in_order_once<R: Rig>(mut rig: R) {
    let (mut next, mut expected, mut full) = (0, 0, 0);
    while expected < 5_000 {
        match send(&mut rig, 0, 1, next) {
            Ok(()) => next += 1,
            Err(PostError::Full) => {
                full += 1;
                let heard = hear(&mut rig, 1);
                assert!(!heard.is_empty(), "full, and nothing arrives: {expected} of {next} came");
                for told in heard {
                    assert_eq!(told, Told::Frame(peer(0), expected));
                    expected += 1;
                }
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert!(full > 1, "the transport is bounded");
    while expected < next {
        let heard = hear(&mut rig, 1);
        assert!(!heard.is_empty(), "nothing more arrives: {expected} of {next} came");
        for told in heard {
            assert_eq!(told, Told::Frame(peer(0), expected));
            expected += 1;
        }
    }
    assert_eq!(send(&mut rig, 1, 0, 7), Ok(()));
    assert_eq!(hear(&mut rig, 0), [Told::Frame(peer(1), 7)]);
    assert_eq!(poll(&mut rig, 0), []);
}

/// A frame of more than a cell is refused, one of a whole cell is carried.
pub fn a_frame_is_one_cell<R: Rig>(mut rig: R) {
    let body = [7; 4096];
    let most = rig.with(0, |transport| transport.caps().frame_max);
    let call = |len: usize| Frame::Call { op: Op(0x0f02), token: Token(1), body: &body[..len] };
    let fits = call(most - 16);
    assert_eq!(rig.with(0, |t| t.post(peer(1), Work::Send(fits), Token(0))), Ok(()));
    assert_eq!(rig.with(0, |t| t.post(peer(1), Work::Send(call(most - 15)), Token(0))), Err(PostError::TooLong));
    assert_eq!(hear(&mut rig, 1), [Told::Frame(peer(0), 1)]);
}

/// Reads and writes move the bytes and end once each.
pub fn spans_are_copied_once<R: Rig>(mut rig: R) {
    let whole = |key, offset, len| Span { key, offset, len };
    rig.poke(open(1), 100, b"theirs");
    let work = Work::Read { from: whole(open(1), 100, 6), to: whole(open(0), 8, 6) };
    assert_eq!(rig.with(0, |t| t.post(peer(1), work, Token(11))), Ok(()));
    assert_eq!(hear(&mut rig, 0), [Told::Done(11, Status::Ok)]);
    assert_eq!(rig.peek(open(0), 8, 6), b"theirs");
    rig.poke(open(0), 0, b"ours");
    let work = Work::Write { from: whole(open(0), 0, 4), to: whole(open(1), MEMORY - 4, 4) };
    assert_eq!(rig.with(0, |t| t.post(peer(1), work, Token(12))), Ok(()));
    assert_eq!(hear(&mut rig, 0), [Told::Done(12, Status::Ok)]);
    assert_eq!(rig.peek(open(1), MEMORY - 4, 4), b"ours");
    assert_eq!(poll(&mut rig, 0), []);
    assert_eq!(poll(&mut rig, 1), [], "the other side need not know");
}

/// What may not be touched is refused before it is posted, and the transport stays usable.
pub fn refusals_come_at_once<R: Rig>(mut rig: R) {
    let span = |key, offset, len| Span { key, offset, len };
    let unknown = Key::new(peer(1), 1, 2);
    let cases = [
        (Work::Read { from: span(open(1), MEMORY - 1, 2), to: span(open(0), 0, 2) }, Status::OutOfBounds),
        (Work::Read { from: span(open(1), u64::MAX, 2), to: span(open(0), 0, 2) }, Status::OutOfBounds),
        (Work::Read { from: span(open(1), 0, 2), to: span(open(0), MEMORY, 2) }, Status::OutOfBounds),
        (Work::Read { from: span(unknown, 0, 2), to: span(open(0), 0, 2) }, Status::UnknownRegion),
        (Work::Write { from: span(open(0), 0, 2), to: span(read_only(), 0, 2) }, Status::PermissionDenied),
    ];
    for (work, status) in cases {
        assert_eq!(rig.with(0, |t| t.post(peer(1), work, Token(1))), Err(PostError::Refused(status)), "{work:?}");
    }
    let uneven = Work::Read { from: span(open(1), 0, 2), to: span(open(0), 0, 3) };
    assert_eq!(rig.with(0, |t| t.post(peer(1), uneven, Token(1))), Err(PostError::Unsupported));
    let allowed = Work::Read { from: span(read_only(), 0, 2), to: span(open(0), 0, 2) };
    assert_eq!(rig.with(0, |t| t.post(peer(1), allowed, Token(2))), Ok(()));
    assert_eq!(hear(&mut rig, 0), [Told::Done(2, Status::Ok)]);
}

/// A death is told once, and then nothing goes to that peer.
pub fn a_death_is_told<R: Rig>(mut rig: R) {
    assert_eq!(send(&mut rig, 0, 9, 1), Err(PostError::Gone), "nobody by that name");
    rig.kill_second();
    assert_eq!(hear(&mut rig, 0), [Told::Gone(peer(1))]);
    assert_eq!(send(&mut rig, 0, 1, 1), Err(PostError::Gone));
    (0..3000).for_each(|_| assert_eq!(poll(&mut rig, 0), []));
}

/// Makes one test of each promise for a [`Rig`].
#[macro_export]
macro_rules! transport_suite {
    ($module:ident, $rig:expr) => {
        mod $module {
            use super::*;

            #[test]
            fn frames_arrive_in_order_once() {
                $crate::transport_conformance::frames_arrive_in_order_once($rig);
            }
            #[test]
            fn a_frame_is_one_cell() {
                $crate::transport_conformance::a_frame_is_one_cell($rig);
            }
            #[test]
            fn spans_are_copied_once() {
                $crate::transport_conformance::spans_are_copied_once($rig);
            }
            #[test]
            fn refusals_come_at_once() {
                $crate::transport_conformance::refusals_come_at_once($rig);
            }
            #[test]
            fn a_death_is_told() {
                $crate::transport_conformance::a_death_is_told($rig);
            }
        }
    };
}
