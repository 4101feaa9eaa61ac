//! Large data of calls, which is read where its maker has laid it.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use umbra::call::{Member, OfferError, ReadError, Shape, Station};
use umbra_core::chain::{Call, Code, Data, Node, Phase, Plan, Tag, Verdict};
use umbra_core::memory::AllocError;
use umbra_core::time::Lapse;
use umbra_core::tree;
use umbra_tests::call::{Act, GONE, Together, call, header, member, words_of};

const MEMBERS: u16 = 64;
const MIB: usize = 1 << 20;
/// Bytes of a span in a request.
const SPAN: u64 = 24;

fn together(members: u16) -> Together {
    let station = Station::create("offers", Shape { offer_bytes: MIB as u64, ..Shape::new(members) }).unwrap();
    Together((0..u32::from(members)).map(|node| member(&station, Node(node), 4)).collect())
}

/// Bytes of all requests so far.
fn asked(crowd: &Together) -> u64 {
    crowd.0.iter().map(|member| member.figures().request_bytes).sum()
}

/// Bytes that anybody has copied to offer them.
fn copied(crowd: &Together) -> u64 {
    crowd.0.iter().map(Member::offered_bytes).sum()
}

fn all() -> Vec<Node> {
    (0..u32::from(MEMBERS)).map(Node).collect()
}

fn megabyte() -> (Vec<u8>, u64) {
    let words = (0..MIB as u64 / 8).map(|word| word.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    (words.clone().flat_map(u64::to_le_bytes).collect(), words.fold(0, u64::wrapping_add))
}

#[test]
fn s57_a_mebibyte_reaches_64_members_by_one_copy_whatever_the_tree() {
    let mut crowd = together(MEMBERS);
    let ((data, sum), all) = (megabyte(), all());
    let shapes = [tree::Shape::BINARY, tree::Shape::BINOMIAL, tree::Shape::FLAT, tree::Shape::CHAIN];
    for (copies, shape) in (1..).zip(shapes) {
        let before = asked(&crowd);
        crowd.run(&Call { plan: Plan::Shape(shape), ..call(&all, &[]) }).unwrap();
        let bare = asked(&crowd) - before;
        let offer = crowd.0[0].offer(&data).unwrap();
        let before = asked(&crowd);
        let reply = crowd.run(&Call { plan: Plan::Shape(shape), ..words_of(offer.data(), &all, &[]) }).unwrap();
        assert_eq!(reply.data, sum.wrapping_mul(u64::from(MEMBERS)).to_le_bytes(), "{shape:?}");
        // 63 requests are longer by a span each, and that is all that moves.
        assert_eq!(asked(&crowd) - before - bare, 63 * SPAN, "{shape:?}");
        assert_eq!(copied(&crowd), copies * MIB as u64, "{shape:?}");
        crowd.0[0].take_back(offer);
    }
}

#[test]
fn s57_memory_comes_back_once_though_a_member_fails() {
    let mut crowd = together(MEMBERS);
    let ((data, sum), all) = (megabyte(), all());
    for round in 0..40 {
        // There is room for one of them.
        let offer = crowd.0[0].offer(&data).unwrap();
        let full = crowd.0[0].offer(&[1]).unwrap_err();
        assert!(matches!(full, OfferError::Memory(AllocError::OutOfMemory { len: 1, free: 0 })), "{full}");
        let fault = header(Node(round % 64), Act::Fault);
        let failure = crowd.run(&words_of(offer.data(), &all, &fault)).unwrap_err();
        assert_eq!((failure.records[0].origin, failure.records[0].code), (Node(round % 64), Code::Fault));
        assert_eq!(crowd.run(&words_of(offer.data(), &all, &[])).unwrap().data, (sum << 6).to_le_bytes());
        crowd.0[0].take_back(offer);
    }
}

/// At every moment of a call its maker takes the data back and offers other data, which lies there instead.
#[test]
fn data_that_is_taken_back_in_mid_call_was_read_by_everybody_or_is_named_as_gone() {
    let mut crowd = together(7);
    let members: Vec<Node> = (0..7).map(Node).collect();
    let (mut done, mut gone) = (0, 0);
    for moment in 0..60 {
        let offer = crowd.0[0].offer(&[7; 64]).unwrap();
        let handle = crowd.0[0].start(&words_of(offer.data(), &members, &[])).unwrap();
        (0..moment).for_each(|step| _ = crowd.0[step % 7].turn());
        crowd.0[0].take_back(offer);
        let other = crowd.0[0].offer(&[8; 64]).unwrap();
        match crowd.end(0, handle) {
            Ok(reply) => {
                assert_eq!(reply.data, (0x3838_3838_3838_3838_u64.wrapping_mul(7)).to_le_bytes(), "{moment} turns");
                done += 1;
            }
            Err(failure) => {
                assert_eq!((failure.records[0].code, failure.records[0].aux), (Code::Fault, GONE), "{moment} turns");
                assert_eq!(failure.tallies.total(), 7);
                gone += 1;
            }
        }
        crowd.0[0].take_back(other);
    }
    assert!(done > 10 && gone > 1, "{done} were done, {gone} were not");
}

#[test]
fn data_that_was_taken_back_is_read_by_nobody_and_neither_is_what_lies_there_next() {
    let mut crowd = together(3);
    let members = [0, 1, 2].map(Node);
    let offer = crowd.0[0].offer(&[7; 64]).unwrap();
    let data = offer.data();
    assert_eq!(crowd.run(&words_of(data, &members, &[])).unwrap().data, (0x3838_3838_3838_3838_u64 * 3).to_le_bytes());
    crowd.0[0].take_back(offer);
    for next in [false, true] {
        let next = next.then(|| crowd.0[0].offer(&[8; 64]).unwrap());
        let failure = crowd.run(&words_of(data, &members, &[])).unwrap_err();
        assert_eq!((failure.records[0].code, failure.records[0].aux), (Code::Fault, GONE));
        if let Some(next) = next {
            crowd.0[0].take_back(next);
        }
    }
    // Its maker has left, and somebody else has its seat.
    let offer = crowd.0[1].offer(&[9; 64]).unwrap();
    let data = offer.data();
    assert!(crowd.run(&words_of(data, &members, &[])).is_ok());
    let station = crowd.0[1].station().clone();
    drop(crowd.0.remove(1));
    crowd.0.insert(1, member(&station, Node(1), 4));
    let failure = crowd.run(&words_of(data, &[Node(2)], &[])).unwrap_err();
    assert_eq!((failure.records[0].code, failure.records[0].aux), (Code::Fault, GONE));
}

#[test]
fn data_that_is_taken_back_while_it_is_read_does_not_count() {
    let mut crowd = together(1);
    let offer = std::sync::Mutex::new(Some(crowd.0[0].offer(&[7; 64]).unwrap()));
    let data = offer.lock().unwrap().as_ref().unwrap().data();
    let station = crowd.0[0].station().clone();
    let seen = umbra::call::offer::look(&station, data, |bytes| {
        crowd.0[0].take_back(offer.lock().unwrap().take().unwrap());
        bytes.word(0).unwrap()
    });
    assert_eq!(seen, Err(ReadError::Gone));
}

#[test]
fn offers_are_bounded_and_parts_of_them_lie_inside() {
    let mut crowd = together(1);
    crowd.0[0]
        .register_local("parts", |work, local| {
            let mut bytes = [0; 4];
            match work.phase {
                Phase::Wait(_) => Verdict::Done,
                _ => match (local.read(work.data, 0, &mut bytes), work.data) {
                    (Ok(()), Data::Span(_)) if bytes == *work.header => Verdict::Done,
                    (Err(ReadError::Range(_)), Data::Span(_)) => Verdict::Fault(1),
                    (Err(ReadError::NotOffered), Data::Bytes(_)) => Verdict::Fault(2),
                    (Err(ReadError::Gone), _) => Verdict::Fault(3),
                    _ => Verdict::Fault(4),
                },
            }
        })
        .unwrap();
    let parts = Call { budget: Lapse::from_secs(30), ..Call::new(Tag::of("parts"), &[]) };
    let offer = crowd.0[0].offer(b"aaaabbbbcc").unwrap();
    assert_eq!(offer.part(9, 2), None);
    let part = |offset, len| offer.part(offset, len).unwrap();
    assert!(crowd.run(&Call { data: part(4, 4), header: b"bbbb", ..parts }).is_ok());
    let Data::Span(span) = offer.data() else { panic!("it is offered") };
    let wrong = |data| Call { data, ..parts };
    for (data, fault) in [
        (part(8, 2), 1),
        (Data::Bytes(b"aaaa"), 2),
        (Data::Span(umbra_core::key::Span { offset: 7, len: 4, ..span }), 1),
        (Data::Span(umbra_core::key::Span { offset: u64::MAX, len: 4, ..span }), 1),
        (Data::Span(umbra_core::key::Span { key: umbra_core::key::Key::from_bits(span.key.to_bits() + 1), ..span }), 3),
        (
            Data::Span(umbra_core::key::Span {
                key: umbra_core::key::Key::from_bits(span.key.to_bits() | 99 << 20),
                ..span
            }),
            3,
        ),
        (Data::Span(umbra_core::key::Span { key: umbra_core::key::Key::from_bits(u64::MAX << 40), ..span }), 4),
    ] {
        assert_eq!(crowd.run(&wrong(data)).unwrap_err().records[0].aux, fault, "{data:?}");
    }
    crowd.0[0].take_back(offer);
    let offers: Vec<_> = (0..32).map(|_| crowd.0[0].offer(&[1]).unwrap()).collect();
    assert_eq!(crowd.0[0].offer(&[1]).unwrap_err(), OfferError::TooMany);
    for offer in offers {
        crowd.0[0].take_back(offer);
    }
    assert!(matches!(crowd.0[0].offer(&[]), Err(OfferError::Memory(AllocError::ZeroSize))));
}
