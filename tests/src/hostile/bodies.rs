//! What processes of a job tell each other beside the protocols.
//!
//! These are orders and figures, and how to reach their queue pairs.
//!
//! The first byte of an input chooses the reader; the rest is what was told.

use umbra::admin::{
    Body, Calls, Exported, Failure, Figures, Mark, PathTotals, Progress, ReadOrder, ReadResult, ReadTotals, Slice,
};
use umbra::boundary::Greeting;
use umbra::call::Segment;
use umbra::verbs::{Address, Hello, Remote};
use umbra_core::error::Status;
use umbra_core::peer::{Peer, Sp, WorldRank};
use umbra_core::time::Time;

/// One for every reader.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    let address = Address { number: 77, first_packet: 5, mtu: 1024, lid: 9, reads: 16, gid: [3; 16] };
    let spans = Address { number: 78, ..address };
    let place = Remote { address: 0x7f00_1234_5678, rkey: 99 };
    let result =
        ReadResult { rank: WorldRank(3), reads: 2, bytes: 99, failed: 1, status: Status::Full, digest: [7; 32] };
    let failure = Failure { status: Status::Timeout, culprit: Peer::service(Sp(2)), text: "it hangs: ü".to_owned() };
    let bodies = [
        Slice { rank: WorldRank(3), address: 4096, len: 10 }.to_body(),
        ReadOrder { size: 4096, reads: 3, seed: 9, patience: 1 << 40 }.to_body(),
        Progress { reads: 7, bytes: 1 << 33 }.to_body(),
        Exported { key: 9, address: 4096, len: 10, wakeups: 2 }.to_body(),
        ReadTotals { lookups: 3, contradictions: 0 }.to_body(),
        PathTotals { path: 2, own_rank: true, reads: 9, bytes: 900, busy: 10_000, pairs: 1 }.to_body(),
        ReadResult::list_to_body(&[result, result]),
        Calls { residents: 3, seats: 9 }.to_body(),
        Mark { at: Time(9), step: 3, group: Some((4, 2)), value: 1 }.to_body(),
        failure.to_body(),
        Figures { reads: 9, ..Figures::default() }.to_body(),
        address.to_bytes().to_vec(),
        Hello { frames: address, spans, count: place }.to_bytes().to_vec(),
        Greeting { address, board: place, outbox: place }.to_bytes().to_vec(),
        [[9, 0, 0, 0, 0, 0, 0, 0], [7; 8], [8; 8]].concat(),
    ];
    (0_u8..).zip(bodies).map(|(choice, body)| [vec![choice], body].concat()).collect()
}

/// What is read is told again in words that are read as the same.
pub(super) fn feed(bytes: &[u8]) {
    let Some((&choice, body)) = bytes.split_first() else { return };
    match choice % 15 {
        0 => of_body::<Slice>(body),
        1 => of_body::<ReadOrder>(body),
        2 => of_body::<Progress>(body),
        3 => of_body::<Exported>(body),
        4 => of_body::<ReadTotals>(body),
        5 => of_body::<PathTotals>(body),
        6 => of_body::<ReadResult>(body),
        7 => of_body::<Calls>(body),
        8 => of_body::<Mark>(body),
        9 => of_body::<Failure>(body),
        10 => of_body::<Figures>(body),
        11 => of_place(body, |bytes| Address::from_bytes(bytes).map(|address| address.to_bytes())),
        12 => of_place(body, |bytes| Hello::from_bytes(bytes).map(|hello| hello.to_bytes())),
        13 => of_place(body, |bytes| Greeting::from_bytes(bytes).map(|greeting| greeting.to_bytes())),
        _ => of_segment(body),
    }
}

/// What stands in front of the header of a call for a part of its data.
fn of_segment(header: &[u8]) {
    let Some((Segment { offset, len, total }, rest)) = Segment::parse(header) else {
        return assert!(header.len() < Segment::BYTES);
    };
    let told = [offset, len, total].map(u64::to_le_bytes);
    assert_eq!([told.as_flattened(), rest].concat(), header);
}

fn of_body<B: Body>(body: &[u8]) {
    let Ok(list) = B::list_from_body(body) else { return };
    assert!(list.len() <= body.len());
    // Numbers that stand for a truth, and bytes that are no text, are told in one way only.
    let told = B::list_to_body(&list);
    let again = B::list_from_body(&told).expect("what is told is read");
    assert!(again.len() == list.len() && B::list_to_body(&again) == told);
    assert_eq!(B::from_body(body).is_ok(), list.len() == 1);
}

fn of_place<const BYTES: usize>(body: &[u8], again: impl Fn(&[u8; BYTES]) -> Option<[u8; BYTES]>) {
    if let Some(bytes) = body.first_chunk()
        && let Some(told) = again(bytes)
    {
        assert_eq!(&told, bytes);
    }
}
