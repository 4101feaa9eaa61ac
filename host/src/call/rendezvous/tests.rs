//! What a member holds of long replies.

use std::time::Duration;

use umbra_core::chain::Tag;
use umbra_core::time::Lapse;

use super::*;

const BYTES: u32 = 60_000;

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
        let offer = second.offer(&[1; BYTES as usize]).unwrap();
        let handle = first.start(&wanted(Mode::COLLECT)).unwrap();
        second.turn();
        assert_eq!(second.replies.held.len(), held, "{verdict:?}");
        assert!(second.replies.held.iter().all(|held| held.reply.memory.len() == bytes));
        second.take_back(offer);
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
    let offer = second.offer(&[1; BYTES as usize]).unwrap();
    for round in 0..20 {
        let handle = first.start(&wanted(Mode::empty())).unwrap();
        second.turn();
        assert_eq!(second.replies.unlaid.len(), 1, "round {round}");
        first.cancel(handle).unwrap();
        assert!(matches!(first.wait(handle, Duration::ZERO), Err(super::super::WaitError::Failed(_))));
        (0..3).for_each(|_| _ = second.turn());
        assert_eq!((second.replies.unlaid.len(), second.replies.held.len()), (0, 0), "round {round}");
    }
    second.take_back(offer);
}
