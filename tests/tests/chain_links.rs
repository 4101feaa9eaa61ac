//! What links do to messages: bits turned over, resets, everything said again.
//!
//! Numbers are as in the list of scenarios.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use umbra::call::Capacities;
use umbra_core::chain::{Config, Life, Node, REQUEST};
use umbra_core::time::Lapse;
use umbra_tests::chain::check::{each_bit, fifteen};
use umbra_tests::chain::{World, sum_over};

/// Every bit of the request to an inner member is turned over in turn.
#[test]
fn s22_a_damaged_request_is_refused_or_dropped_and_its_sender_ends_in_time() {
    let mut planned = fifteen(false);
    planned.call.header = &[7];
    // 72 bytes of request, three members, one byte of header.
    let bytes = REQUEST + 3 * 4 + 1;
    let (bits, list) = (8 * bytes, 8 * REQUEST);
    let failed = each_bit(planned, bytes, |bit, records| {
        // Of two ids below, whoever is named instead of one of them; else whoever got the request, or is below it.
        let instead = (list + 32..list + 96).contains(&bit).then(|| (bit - list) / 32);
        let wrong = |nth: usize| Node([4, 9, 10][nth] ^ 1 << (bit % 32));
        let expected = instead.map_or(vec![Node(4), Node(9), Node(10)], |nth| vec![wrong(nth)]);
        assert!(records.iter().all(|record| expected.contains(&record.origin)), "bit {bit}: {records:?}");
    });
    assert!(failed > bits / 2, "{failed} of {bits}");
}

/// At every moment of a call, and for every link of it.
#[test]
fn s46_a_link_that_is_reset_and_says_all_again_has_no_function_run_twice() {
    let config = Config { ask: Lapse::from_millis(2), ..Config::new(Node(0), Life(1)) };
    let capacities = Capacities { call_bytes: 4096, ..Capacities::new(7) };
    let parents = [0, 0, 0, 1, 1, 2, 2];
    for (child, moment) in (1..7).flat_map(|child| (0..60).map(move |moment| (child, moment))) {
        let mut world = World::with(1, capacities, config);
        world.spy = true;
        world.network.delay = Lapse::from_micros(3);
        world.network.work = Lapse::from_micros(6);
        world.start_after(Lapse(0), sum_over(0..7));
        world.run(Lapse::from_micros(moment));
        world.reset_link(Node(parents[child]), Node(child as u32));
        world.run(Lapse::from_secs(10));
        world.check().unwrap();
        let (end, _) = world.made[0].end.as_ref().unwrap();
        assert_eq!(end.sum(), Some(21), "link of {child} reset after {moment} us");
    }
}
