//! Requests to gateways and their answers: what is written is read, nothing else.

use proptest::collection::vec;
use proptest::prelude::*;
use umbra_core::gateway::{Answer, End, Matter, ParseError, Patience, PoolRequest, Request, Take, VERSION};
use umbra_core::heap::BlockId;
use umbra_core::time::Lapse;

fn patience() -> impl Strategy<Value = Patience> {
    prop_oneof![
        Just(Patience::Now),
        Just(Patience::Never),
        (1..u64::MAX).prop_map(|nanos| Patience::After(Lapse(nanos))),
    ]
}

fn take() -> impl Strategy<Value = Take> {
    prop_oneof![Just(Take::Receive), Just(Take::Peek), Just(Take::Pop)]
}

proptest! {
    #[test]
    fn requests_come_back_as_they_were(
        patience in patience(), take in take(), (on_receipt, event) in any::<(bool, i32)>(),
        (hints, client, first, second, room) in any::<(u64, u64, u64, u64, u32)>(), bytes in vec(any::<u8>(), 0..100),
    ) {
        let handle = [first, second];
        let id = BlockId::from_bits(first);
        let fixed = [
            Request::Receive { patience, take, room },
            Request::Poll { patience, event },
            Request::Barrier { patience },
            Request::Cut { life: first },
            Request::Pool(PoolRequest::Alloc { patience, len: second, kind: room }),
            Request::Pool(PoolRequest::Get { id, at: second, len: room }),
            Request::Pool(PoolRequest::Free { id }),
        ];
        let open = [
            Request::Open { on_receipt, client, handle, reference: &bytes },
            Request::Send { patience, hints, bytes: &bytes },
            Request::Pool(PoolRequest::Open { reference: &bytes }),
            Request::Pool(PoolRequest::Put { id, at: second, bytes: &bytes }),
        ];
        let mut buffer = [0; 200];
        for request in fixed.into_iter().chain(open) {
            let len = request.write(&mut buffer).unwrap();
            prop_assert_eq!(Request::parse(&buffer[..len]), Ok(request));
            prop_assert!(request.write(&mut buffer[..len - 1]).is_err());
        }
        for request in fixed {
            let len = request.write(&mut buffer).unwrap();
            for cut in 0..len {
                prop_assert_eq!(Request::parse(&buffer[..cut]), Err(ParseError::Length));
            }
            prop_assert_eq!(Request::parse(&buffer[..=len]), Err(ParseError::Length));
        }
    }

    #[test]
    fn a_request_that_is_late_waits_for_what_is_left(
        (given, left) in (1..u64::MAX, 0..u64::MAX), (bytes, reference) in (vec(any::<u8>(), 0..9), vec(any::<u8>(), 0..9)),
    ) {
        let (bytes, reference) = (&bytes[..], &reference[..]);
        let with = |patience| [
            Request::Send { patience, hints: 1, bytes },
            Request::Receive { patience, take: Take::Peek, room: 2 },
            Request::Poll { patience, event: 3 },
            Request::Converse {
                end: End::Sender, is_one_message: true, may_be_cut: false, patience, deposit_after: 4, reference,
            },
            Request::Write { patience, arg: 5, is_kept: false, bytes },
            Request::Read { patience, room: 6 },
            Request::Close { patience },
            Request::Ask { patience, matter: Matter::JoinTasks },
            Request::Barrier { patience },
            Request::Pool(PoolRequest::Alloc { patience, len: 7, kind: 8 }),
        ];
        let late = |patience| with(patience).map(|request| request.within(Lapse(left)));
        prop_assert_eq!(late(Patience::After(Lapse(given))), with(Patience::After(Lapse(given.min(left)))));
        for patience in [Patience::Now, Patience::Never] {
            prop_assert_eq!(late(patience), with(patience));
        }
    }

    #[test]
    fn answers_come_back_as_they_were(
        (capacity, block, len, why) in any::<(u32, u32, u32, u16)>(), words in any::<[u64; 4]>(),
        bytes in vec(any::<u8>(), 0..100),
    ) {
        let [hints, client, first, second] = words;
        let len = len.max(100);
        let fixed = [
            Answer::Opened { capacity, block, uid: first },
            Answer::Done(first),
            Answer::Refused { why, numbers: [first, second] },
            Answer::Lent { bytes: first, uid: second },
            Answer::Block { id: BlockId::from_bits(first), len: second, kind: block },
            Answer::Used([first, second, hints, client, 0]),
            Answer::Counted { is_last: why % 2 == 1, round: block },
        ];
        let message = Answer::Message { hints, client, handle: [first, second], len, bytes: &bytes };
        let mut buffer = [0; 200];
        for answer in fixed.into_iter().chain([message, Answer::Bytes(&bytes)]) {
            let written = answer.write(&mut buffer).unwrap();
            prop_assert_eq!(Answer::parse(&buffer[..written]), Ok(answer));
        }
        for answer in fixed {
            let written = answer.write(&mut buffer).unwrap();
            for cut in 0..written {
                prop_assert_eq!(Answer::parse(&buffer[..cut]), Err(ParseError::Length));
            }
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in vec(any::<u8>(), 0..64)) {
        let mut buffer = [0; 64];
        if let Ok(request) = Request::parse(&bytes) {
            let len = request.write(&mut buffer).unwrap();
            prop_assert_eq!(&buffer[..len], &bytes[..]);
        }
        if let Ok(answer) = Answer::parse(&bytes) {
            let len = answer.write(&mut buffer).unwrap();
            prop_assert_eq!(&buffer[..len], &bytes[..]);
        }
    }
}

#[test]
fn another_version_and_more_bytes_than_a_message_has_are_refused() {
    let mut buffer = [0; 100];
    let open = Request::Open { on_receipt: false, client: 0, handle: [0; 2], reference: b"here" };
    let len = open.write(&mut buffer).unwrap();
    buffer[1] = VERSION + 1;
    assert_eq!(Request::parse(&buffer[..len]), Err(ParseError::Version(VERSION + 1)));
    let message = Answer::Message { hints: 0, client: 0, handle: [0; 2], len: 3, bytes: b"four" };
    let len = message.write(&mut buffer).unwrap();
    assert_eq!(Answer::parse(&buffer[..len]), Err(ParseError::Length));
}
