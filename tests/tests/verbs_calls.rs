//! Chained calls between places over queue pairs of a real device (driver *verbs*).
//!
//! Without a device each test says `skipped: ` and why.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::sync::Arc;

use umbra::call::ferry::{Ferry, Hold};
use umbra::sys::segment::Segment;
use umbra::verbs::{Region, Remote, Verbs};
use umbra_core::key::Access;
use umbra_tests::ferry::{End, Joined, key, shape};
use umbra_tests::verbs::{device, ends_on};

/// Two ends in this process, on one port. `None` where there is no device, which is told.
fn ends() -> Option<[End<Verbs>; 2]> {
    let port = device()?.active_port(1, None).unwrap();
    let mut ends = ends_on(&port, 64);
    let bytes = Ferry::<Verbs>::bytes(shape(0));
    let mut hold = |n: usize, is_landing: bool| {
        let key = key(n as u32, is_landing);
        let (memory, access) = (Arc::new(Segment::create("hold", bytes).unwrap()), Access::READ | Access::WRITE);
        let region = Arc::new(Region::register(ends[n].domain(), memory.clone(), access).unwrap());
        ends[n].window(key, region.clone(), 0, bytes as u64).unwrap();
        if is_landing {
            let first = Remote { address: region.address(0), rkey: region.rkey() };
            ends[1 - n].remote_window(key, first, bytes as u64, Access::WRITE);
        }
        Hold { key, memory }
    };
    let holds = [0, 1].map(|n| [hold(n, false), hold(n, true)]);
    let mut ends =
        ends.into_iter().zip(holds).map(|(transport, [outgoing, landing])| End { transport, outgoing, landing });
    Some([ends.next().unwrap(), ends.next().unwrap()])
}

#[test]
fn calls_are_carried_over_queue_pairs() {
    if let Some(ends) = ends() {
        Joined::new(ends).calls_are_carried();
    }
}

#[test]
fn offered_data_is_carried_over_queue_pairs() {
    if let Some(ends) = ends() {
        Joined::new(ends).offered_data_is_carried();
    }
}

#[test]
fn a_place_whose_queue_pairs_end_is_named() {
    if let Some(ends) = ends() {
        Joined::new(ends).a_place_that_dies_is_named(|| ());
    }
}
