//! What devices do only when something is wrong.
//!
//! A library stands in for libibverbs and does it.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod fake;

use std::sync::Arc;

use umbra::access::rdma::Rdma;
use umbra::boundary::{Extent, VerbsRing};
use umbra::sys::segment::Segment;
use umbra::verbs::{Address, Choice, VerbsError, devices};
use umbra_core::access::device::{Device, Moved, Piece};
use umbra_core::access::message::Export;
use umbra_core::error::Status;
use umbra_core::key::{Access, Key};
use umbra_core::peer::{Peer, Sp, WorldRank};
use umbra_core::region::Secret;
use umbra_core::ticket::{Locator, Ticket};

use fake::{file, is_child, over_fake};

#[test]
fn pages_are_kept_at_forks_once_unless_the_kernel_does_so() {
    if is_child() {
        assert_eq!([devices().unwrap(), devices().unwrap()], [["fake0", "fake1"]; 2]);
        return;
    }
    // Not done yet, done by somebody else, and not needed.
    for (status, times) in [("0", 1), ("1", 1), ("2", 0)] {
        let test = "pages_are_kept_at_forks_once_unless_the_kernel_does_so";
        let Some(said) = over_fake(test, "FORK_STATUS", status) else { return };
        let told: Vec<_> = said.lines().filter(|line| line.starts_with("told")).collect();
        let each = format!("told {times} times");
        assert_eq!(told, [&each, &each]);
    }
}

/// A reader with the landing area, and an export of some owner.
fn reader() -> (Rdma, Arc<Segment>, Export) {
    let landing = Arc::new(Segment::create("landing", 4096).unwrap());
    let rdma = Rdma::new(&Choice::open(None).unwrap(), 2, 4, landing.clone()).unwrap();
    let key = Key::new(Peer::rank(WorldRank(1)).unwrap(), 0, 1);
    let locator = Locator::Verbs { rkey: 7, direct: true };
    let ticket = Ticket { key, base: 0, len: 64, access: Access::READ, locator };
    (rdma, landing, Export { ticket, secret: Secret([0; 32]), shadows: [Sp(0)].into_iter().collect() })
}

const PIECE: Piece = Piece { place: 0, offset: 0, address: 0, landing: 0, len: 64 };

/// A reader whose queue pair to the owner is connected.
fn connected() -> (Rdma, Arc<Segment>, Export, Peer, Address) {
    let (mut rdma, landing, export) = reader();
    rdma.attach(0, &export).unwrap();
    let (owner, address) = rdma.greet().unwrap();
    rdma.welcome(owner, &address).unwrap();
    (rdma, landing, export, owner, address)
}

#[test]
fn a_queue_pair_that_cannot_be_reset_is_destroyed_before_its_work_ends_and_another_is_made() {
    if !is_child() {
        let test = "a_queue_pair_that_cannot_be_reset_is_destroyed_before_its_work_ends_and_another_is_made";
        over_fake(test, "FAULT", "reset");
        return;
    }
    let (mut rdma, landing, _, owner, address) = connected();
    assert_eq!(rdma.copy(Access::READ, &PIECE, 5), Ok(Moved::Begun));
    assert_eq!(rdma.ended(), None);
    rdma.rebuild(owner);
    assert_eq!(rdma.ended(), Some((5, Status::QueueBroken)));
    // The place belongs to somebody else from here on.
    landing.write(0, &[1; 64]).unwrap();
    let (greeted, another) = rdma.greet().unwrap();
    assert!(greeted == owner && another.number != address.number);
    assert!(rdma.is_greeting(owner) && rdma.lines() == 1);
    drop(rdma);
    let mut bytes = [0; 64];
    landing.read(0, &mut bytes).unwrap();
    assert_eq!(bytes, [1; 64], "the card wrote after the end");
}

#[test]
fn what_is_lacking_for_a_queue_pair_is_told_once() {
    if !is_child() {
        over_fake("what_is_lacking_for_a_queue_pair_is_told_once", "FAULT", "queue");
        return;
    }
    let (mut rdma, _, export) = reader();
    assert_eq!(rdma.attach(0, &export), Err(Status::Unreachable));
    let why = rdma.trouble().unwrap().to_string();
    assert!(why.contains("making a queue pair"), "{why}");
    assert!(rdma.trouble().is_none());
}

#[test]
fn where_completions_cannot_be_polled_the_queue_pair_goes_before_its_work_ends() {
    if !is_child() {
        let test = "where_completions_cannot_be_polled_the_queue_pair_goes_before_its_work_ends";
        over_fake(test, "FAULT", "poll");
        return;
    }
    let (mut rdma, landing, _, owner, address) = connected();
    assert_eq!(rdma.copy(Access::READ, &PIECE, 5), Ok(Moved::Begun));
    assert_eq!(rdma.ended(), Some((5, Status::QueueBroken)));
    landing.write(0, &[1; 64]).unwrap();
    assert_eq!((rdma.copy(Access::READ, &PIECE, 6), rdma.lines()), (Err(Status::QueueBroken), 0));
    // It says nothing of the device, of which there is another queue pair.
    assert!(rdma.gone().is_none() && !rdma.is_usable(owner));
    rdma.rebuild(owner);
    let (greeted, another) = rdma.greet().unwrap();
    assert!(greeted == owner && another.number != address.number);
    drop(rdma);
    let mut bytes = [0; 64];
    landing.read(0, &mut bytes).unwrap();
    assert_eq!(bytes, [1; 64], "the card wrote after the end");
}

#[test]
fn an_answer_to_an_older_greeting_is_none_to_the_next_one() {
    if !is_child() {
        over_fake("an_answer_to_an_older_greeting_is_none_to_the_next_one", "FAULT", "gone");
        return;
    }
    let (mut rdma, _, export) = reader();
    rdma.attach(0, &export).unwrap();
    let (owner, older) = rdma.greet().unwrap();
    rdma.rebuild(owner);
    // The owner has connected to an address that is no more, or could not.
    rdma.welcome(owner, &older).unwrap();
    rdma.refuse(owner, Status::Unreachable);
    assert!(rdma.is_greeting(owner));
    let (_, address) = rdma.greet().unwrap();
    rdma.welcome(owner, &address).unwrap();
    assert!(rdma.is_usable(owner) && !rdma.is_greeting(owner) && rdma.greet().is_none());
}

#[test]
fn an_exchange_of_messages_that_devices_may_not_take_is_not_made() {
    if !is_child() {
        over_fake("an_exchange_of_messages_that_devices_may_not_take_is_not_made", "FAULT", "none");
        return;
    }
    let port = Choice::open(None).unwrap();
    let made = |message| VerbsRing::new(&port, Extent { ranks: 1, slots: 2, message }, 0);
    assert!(made(1 << 30).is_ok());
    assert!(matches!(made((1 << 30) + 8), Err(VerbsError::TooLong { len: 0x4000_0008, most: 0x4000_0000 })));
}

#[test]
fn what_ends_is_found_where_the_device_makes_no_events() {
    if !is_child() {
        over_fake("what_ends_is_found_where_the_device_makes_no_events", "FAULT", "arm");
        return;
    }
    let (mut rdma, landing, ..) = connected();
    let theirs = [3_u8; 64];
    for name in [5, 6] {
        let piece = Piece { address: theirs.as_ptr() as u64, ..PIECE };
        assert_eq!(rdma.copy(Access::READ, &piece, name), Ok(Moved::Begun));
        assert!(rdma.arm(), "its user must not sleep");
        assert_eq!((rdma.ended(), rdma.ended()), (Some((name, Status::Ok)), None));
    }
    let mut bytes = [0; 64];
    landing.read(0, &mut bytes).unwrap();
    assert_eq!(bytes, theirs);
}

#[test]
fn an_event_that_another_look_may_take_costs_nothing() {
    if !is_child() {
        over_fake("an_event_that_another_look_may_take_costs_nothing", "FAULT", "early");
        return;
    }
    let (mut rdma, ..) = connected();
    assert_eq!(rdma.copy(Access::READ, &PIECE, 5), Ok(Moved::Begun));
    assert!(!rdma.arm());
    rdma.quiet();
    assert_eq!((rdma.ended(), rdma.lines(), rdma.gone().is_none()), (None, 1, true));
}

#[test]
fn an_event_that_cannot_be_taken_says_that_the_device_is_gone() {
    if !is_child() {
        over_fake("an_event_that_cannot_be_taken_says_that_the_device_is_gone", "FAULT", "event");
        return;
    }
    let (mut rdma, ..) = connected();
    assert_eq!(rdma.copy(Access::READ, &PIECE, 5), Ok(Moved::Begun));
    assert!(!rdma.arm() && rdma.gone().is_none());
    rdma.quiet();
    assert_eq!((rdma.ended(), rdma.lines()), (Some((5, Status::QueueBroken)), 0));
    let why = rdma.gone().unwrap();
    assert!(matches!(&why, VerbsError::Gone { device, .. } if device == "fake0"), "{why}");
    // The bell has forgotten it.
    rdma.quiet();
}

#[test]
fn a_device_that_was_gone_is_opened_again_and_not_gone_on_with() {
    if !is_child() {
        over_fake("a_device_that_was_gone_is_opened_again_and_not_gone_on_with", "FAULT", "gone");
        return;
    }
    let (mut rdma, _, export, owner, _) = connected();
    std::fs::write(file("away"), []).unwrap();
    assert_eq!(devices().unwrap(), ["fake1"]);
    assert_eq!(rdma.copy(Access::READ, &PIECE, 5), Ok(Moved::Begun));
    assert!(rdma.ended().is_none() && rdma.gone().is_none(), "it is silent");
    rdma.rebuild(owner);
    assert_eq!((rdma.ended(), rdma.lines()), (Some((5, Status::QueueBroken)), 0));
    let why = rdma.gone().unwrap().to_string();
    assert!(why.starts_with("fake0 is gone"), "{why}");
    std::fs::remove_file(file("away")).unwrap();
    assert_eq!(rdma.attach(0, &export), Err(Status::Unreachable));
    let (mut rdma, ..) = connected();
    let theirs = [3_u8; 64];
    assert_eq!(rdma.copy(Access::READ, &Piece { address: theirs.as_ptr() as u64, ..PIECE }, 6), Ok(Moved::Begun));
    assert_eq!((rdma.ended(), rdma.gone().is_none()), (Some((6, Status::Ok)), true));
}
