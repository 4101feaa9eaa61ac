//! What is said to gateways of channels and streams, and what they answer.

use umbra_core::gateway::{Answer, End, Matter, Patience, PoolRequest, Request, Take};
use umbra_core::heap::BlockId;
use umbra_core::time::Lapse;

/// One of each, from either side.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    let (patience, bytes, reference) = (Patience::After(Lapse(7)), &b"bytes"[..], &b"a reference"[..]);
    let id = BlockId::from_bits(1 << 24 | 3);
    let asked = [
        Request::Open { on_receipt: true, client: 1, handle: [2, 3], reference },
        Request::Send { patience, hints: 4, bytes },
        Request::Receive { patience: Patience::Never, take: Take::Pop, room: 64 },
        Request::Poll { patience: Patience::Now, event: -1 },
        Request::Converse {
            end: End::Receiver,
            is_one_message: true,
            may_be_cut: true,
            patience,
            deposit_after: 2,
            reference,
        },
        Request::Write { patience, arg: 5, is_kept: true, bytes },
        Request::Read { patience, room: 64 },
        Request::Close { patience },
        Request::Ask { patience, matter: Matter::JoinTasks },
        Request::Barrier { patience },
        Request::Cut { life: 8 },
        Request::Pool(PoolRequest::Open { reference }),
        Request::Pool(PoolRequest::Alloc { patience, len: 6, kind: 7 }),
        Request::Pool(PoolRequest::Look { id }),
        Request::Pool(PoolRequest::Get { id, at: 8, len: 9 }),
        Request::Pool(PoolRequest::Put { id, at: 10, bytes }),
        Request::Pool(PoolRequest::Free { id }),
        Request::Pool(PoolRequest::Leave { id }),
        Request::Pool(PoolRequest::Figures),
    ];
    let answered = [
        Answer::Opened { capacity: 1, block: 2, uid: 3 },
        Answer::Done(4),
        Answer::Message { hints: 5, client: 6, handle: [7, 8], len: 9, bytes },
        Answer::Refused { why: 10, numbers: [11, 12] },
        Answer::Begun { mode: 4, uid: 13 },
        Answer::Piece { arg: 14, is_last: true, bytes },
        Answer::Counts([1, 2, 3, 4, 5]),
        Answer::Lent { bytes: 15, uid: 16 },
        Answer::Block { id, len: 17, kind: 18 },
        Answer::Bytes(bytes),
        Answer::Used([1, 2, 3, 4, 5]),
        Answer::Counted { is_last: true, round: 19 },
    ];
    let asked = asked.iter().map(|request| written(|buffer| request.write(buffer)));
    asked.chain(answered.iter().map(|answer| written(|buffer| answer.write(buffer)))).collect()
}

fn written<E: core::fmt::Debug>(write: impl FnOnce(&mut [u8]) -> Result<usize, E>) -> Vec<u8> {
    let mut buffer = vec![0; 8192];
    let len = write(&mut buffer).expect("what parses, and what seeds say, fits");
    buffer.truncate(len);
    buffer
}

/// What parses as either, emits the same bytes.
pub(super) fn feed(bytes: &[u8]) {
    match Request::parse(bytes) {
        Ok(request) => assert_eq!(written(|buffer| request.write(buffer)), bytes),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    match Answer::parse(bytes) {
        Ok(answer) => assert_eq!(written(|buffer| answer.write(buffer)), bytes),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
