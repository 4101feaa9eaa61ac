//! What a member holds of long replies.

use std::time::Duration;

use umbra_core::chain::{Code, Tag};
use umbra_core::time::Lapse;

use super::super::offer::look_as;
use super::*;

const BYTES: u32 = 60_000;

/// All the memory for replies of a member is taken, or given back.
fn fill(member: &mut Member) -> Offer {
    member.replies.shelf.offer(&member.station, &[1; BYTES as usize], None).unwrap()
}

fn empty(member: &mut Member, full: &Offer) {
    member.replies.shelf.take_back(&member.station, full);
}

/// Two members with memory for one reply each; the second writes so many bytes.
fn two(station: &Station, bytes: usize, verdict: Verdict) -> [Member; 2] {
    [0, 1].map(|node| {
        let mut member = Member::join(station, Node(node)).unwrap();
        let write = move |work: &mut Work<'_>| {
            let set = work.reply.set_data(&vec![7; bytes]);
            if set.is_err() { Verdict::Fault(9) } else { verdict }
        };
        member.register("write", write).unwrap();
        member
    })
}

fn station() -> Station {
    Station::create("rendezvous", Shape { offer_bytes: BYTES.into(), ..Shape::new(2) }).unwrap()
}

fn wanted(mode: Mode) -> Call<'static> {
    let (write, caps) = (Tag::of("write"), Caps { header: 0, data: BYTES });
    let mode = mode | Mode::RENDEZVOUS;
    Call { callback: write, caps, mode, budget: Lapse::from_secs(60), ..Call::new(write, &[Node(1)]) }
}

#[test]
fn a_member_that_fails_or_writes_nothing_holds_nothing() {
    for (bytes, verdict, held) in [(10, Verdict::Done, 1), (0, Verdict::Done, 0), (10, Verdict::Fault(1), 0)] {
        let station = station();
        let [mut first, mut second] = two(&station, bytes, verdict);
        // It has no room to answer in.
        let full = fill(&mut second);
        let handle = first.start(&wanted(Mode::COLLECT)).unwrap();
        second.turn();
        assert_eq!(second.replies.held.len(), held, "{verdict:?}");
        assert!(second.replies.held.iter().all(|held| held.reply.memory.len() == bytes));
        empty(&mut second, &full);
        while !first.test(handle).unwrap() {
            second.turn();
        }
        let _ = first.wait(handle, Duration::ZERO);
    }
}

#[test]
fn an_answer_that_waits_for_room_is_dropped_with_its_call() {
    let station = station();
    let [mut first, mut second] = two(&station, 10, Verdict::Done);
    let full = fill(&mut second);
    for round in 0..20 {
        let handle = first.start(&wanted(Mode::empty())).unwrap();
        second.turn();
        assert_eq!(second.replies.unlaid.len(), 1, "round {round}");
        first.cancel(handle).unwrap();
        assert!(matches!(first.wait(handle, Duration::ZERO), Err(super::super::WaitError::Failed(_))));
        (0..3).for_each(|_| _ = second.turn());
        assert_eq!((second.replies.unlaid.len(), second.replies.held.len()), (0, 0), "round {round}");
    }
    empty(&mut second, &full);
}

#[test]
fn what_a_member_offers_takes_no_memory_from_its_replies_nor_they_from_that() {
    let station = station();
    let [mut first, mut second] = two(&station, BYTES as usize, Verdict::Done);
    let data = [1; BYTES as usize];
    let offer = second.offer(&data).unwrap();
    let handle = first.start(&wanted(Mode::empty())).unwrap();
    second.turn();
    assert_eq!((second.replies.laid.len(), second.replies.unlaid.len()), (1, 0));
    // It lies there still.
    second.take_back(offer);
    let offer = second.offer(&data).unwrap();
    assert_eq!(first.wait(handle, Duration::from_secs(30)).unwrap().data, [7; BYTES as usize]);
    second.turn();
    assert!(second.replies.laid.is_empty());
    second.take_back(offer);
}

#[test]
fn whoever_takes_the_seat_of_another_one_has_all_of_its_memory_and_nobody_reads_what_lay_there() {
    let station = station();
    let [mut first, mut second] = two(&station, BYTES as usize, Verdict::Done);
    let offer = second.offer(&[1; BYTES as usize]).unwrap();
    let handle = first.start(&wanted(Mode::empty())).unwrap();
    second.turn();
    let Data::Span(reply) = second.replies.laid[0].offer.data() else { panic!("it is laid out") };
    let (offered, is_there) =
        (offer.data(), |span, reader| look_as(&station, span, |one| one == reader, |_| ()).is_ok());
    let Data::Span(offered) = offered else { panic!("it is offered") };
    assert!(is_there(offered, None) && is_there(reply, Some(Node(0))));
    drop(second);
    let mut third = Member::join(&station, Node(1)).unwrap();
    assert!(!is_there(offered, None) && !is_there(reply, Some(Node(0))));
    let (full, offer) = (fill(&mut third), third.offer(&[1; BYTES as usize]).unwrap());
    third.take_back(offer);
    empty(&mut third, &full);
    // Its answer was sent, and came.
    let Err(super::super::WaitError::Failed(failure)) = first.wait(handle, Duration::from_secs(30)) else {
        panic!("the reply is gone")
    };
    assert_eq!((failure.records[0].origin, failure.records[0].code), (Node(0), Code::ReplyGone), "{failure}");
}
