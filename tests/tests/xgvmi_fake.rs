//! A queue pair that is connected to itself, of a device that does no more.
//!
//! A library stands in for libibverbs.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

#[path = "../../host/tests/fake/mod.rs"]
mod fake;

use std::sync::Arc;

use umbra::sys::segment::Segment;
use umbra::verbs::{Choice, Domain, Piece, Region};
use umbra::xgvmi::{Loopback, Mover as _};
use umbra_core::access::device::Moved;
use umbra_core::error::Status;
use umbra_core::key::Access;
use umbra_core::peer::{Peer, WorldRank};

use fake::{is_child, over_fake};

#[test]
fn a_queue_pair_to_itself_that_does_nothing_more_goes_before_its_work_ends() {
    if !is_child() {
        let test = "a_queue_pair_to_itself_that_does_nothing_more_goes_before_its_work_ends";
        over_fake(test, "FAULT", "stuck");
        return;
    }
    let port = Choice::open(None).unwrap();
    let domain = Domain::new(&port.device).unwrap();
    let segment = || Arc::new(Segment::create("memory", 4096).unwrap());
    let memory = Region::register(&domain, segment(), Access::empty()).unwrap();
    let mut loopback = Loopback::new(&domain, &port, 4, segment()).unwrap();
    let owner = Peer::rank(WorldRank(1)).unwrap();
    let theirs = Piece { region: &memory, offset: 0, len: 64 };
    assert_eq!(loopback.begin(Access::WRITE, owner, theirs, 0, 5), Ok(Moved::Begun));
    assert_eq!((loopback.ended(), loopback.ended()), (Some((5, Status::QueueBroken)), None));
    memory.segment().write(0, &[1; 64]).unwrap();
    assert_eq!(loopback.begin(Access::WRITE, owner, theirs, 0, 6), Err(Status::QueueBroken));
    drop(loopback);
    let mut bytes = [0; 64];
    memory.segment().read(0, &mut bytes).unwrap();
    assert_eq!(bytes, [1; 64], "the card wrote after the end");
}
