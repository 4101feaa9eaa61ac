//! Which data a name means.

use umbra_core::chain::{Edge, Life};
use umbra_core::key::Key;
use umbra_core::peer::{Peer, WorldRank};

use super::super::super::address::header;
use super::super::super::named::tests::answer_about;
use super::super::super::shape::Shape;
use super::*;

const PLACE: u32 = 1;
const THERE: Node = Node(2);
const START: Time = Time(1);

fn fetch() -> Fetch {
    let shape = Shape { offer_bytes: 4096, ..Shape::new(2) }.joined(0, 3);
    let station = Station::create("fetch", shape).unwrap();
    Fetch::new(&station, (Node(1), Life(1))).unwrap()
}

/// What a message from there says of 800 bytes, the first that are laid out there.
fn carried(seq: u64, is_answer: bool) -> Carried {
    let key = Key::new(Peer::rank(WorldRank(THERE.0)).unwrap(), 0, 0);
    Carried {
        is_answer,
        call: CallId { root: Node(0), life: Life(1), seq },
        edge: Edge { index: 0, generation: 0, ordinal: 0 },
        span: Span { key, offset: 0, len: 800 },
        budget: Lapse::from_secs(10),
    }
}

/// A message that says so, an answer.
fn message() -> Vec<u8> {
    answer_about(carried(1, true).span)
}

fn from(sender: Node) -> Header {
    header((sender, Life(0)), (Node(0), Life(0)))
}

fn request(fetch: &mut Fetch, place: u32, carried: &Carried) -> Way {
    fetch.request(place, from(THERE), carried, &message(), START)
}

/// Asks for what is named, and has it come.
fn come(fetch: &mut Fetch, place: u32, carried: &Carried) -> Way {
    assert_eq!(request(fetch, place, carried), Way::Waits);
    assert_eq!(request(fetch, place, carried), Way::WaitsAlready);
    let (_, pull) = fetch.pull().unwrap();
    fetch.data(place, pull.serial, 0, &[pull.serial as u8; 800]).unwrap();
    let (_, message) = fetch.ready().unwrap();
    fetch.copies.give(message);
    request(fetch, place, carried)
}

#[test]
fn a_reply_of_the_same_name_in_another_call_is_another_one() {
    for is_lost in [false, true] {
        let mut fetch = fetch();
        let first = come(&mut fetch, PLACE, &carried(1, true));
        if is_lost {
            fetch.part(PLACE, |node| node == THERE);
        }
        let second = come(&mut fetch, PLACE, &carried(2, true));
        assert!(matches!((first, second), (Way::On(first), Way::On(second)) if first != second));
        // It is given to nobody else.
        assert_eq!(fetch.here(carried(1, true).span), None);
    }
}

#[test]
fn data_of_the_same_name_is_other_data_after_the_way_to_its_maker_was_lost() {
    // It came from its maker, or by way of another place.
    for way in [PLACE, 2] {
        let mut fetch = fetch();
        let first = come(&mut fetch, way, &carried(1, false));
        assert_eq!(request(&mut fetch, way, &carried(2, false)), first);
        let Way::On(here) = first else { panic!("it has come") };
        assert_eq!(fetch.here(carried(1, false).span), Some(here));
        assert_eq!(fetch.origin(here), Some(carried(1, false).span));
        // Somebody beyond another way still uses it.
        assert_eq!(fetch.request(way, from(Node(4)), &carried(3, false), &[], START), first);
        fetch.part(PLACE, |node| node == THERE);
        assert_eq!((fetch.here(carried(1, false).span), fetch.origin(here)), (None, None));
        let second = come(&mut fetch, PLACE, &carried(4, false));
        assert!(matches!(second, Way::On(other) if other != here));
    }
}

#[test]
fn a_reply_whose_answer_is_dropped_leaves_no_memory_taken() {
    let mut fetch = fetch();
    assert!(matches!(come(&mut fetch, PLACE, &carried(1, true)), Way::On(_)));
    // Another call's.
    let mut other = message();
    other[12] ^= 1;
    fetch.unheard(&from(THERE), &other);
    assert!(!fetch.is_empty());
    let mut its = carried(1, true);
    its.call = peek_reply(&message()).unwrap().call;
    assert!(matches!(come(&mut fetch, PLACE, &its), Way::On(_)));
    fetch.unheard(&from(THERE), &message());
    fetch.over(carried(1, true).call, THERE, Node(0));
    assert!(fetch.is_empty());
}

#[test]
fn what_waits_already_is_not_refused_though_no_more_may_wait() {
    let mut fetch = fetch();
    for seq in 0..WAITING as u64 {
        assert_eq!(request(&mut fetch, PLACE, &carried(seq, false)), Way::Waits);
    }
    assert_eq!(request(&mut fetch, PLACE, &carried(WAITING as u64, false)), Way::Refused);
    assert_eq!(request(&mut fetch, PLACE, &carried(0, false)), Way::WaitsAlready);
}
