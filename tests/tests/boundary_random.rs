//! Ten thousand random exchanges over the shared memory of one machine.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;
use std::thread;

use umbra::boundary::Fabric;
use umbra_core::boundary::Counts;
use umbra_tests::random_exchanges::Exchanges;

fn all_ranks(exchanges: Exchanges) -> Vec<Counts> {
    let extent = exchanges.extent().unwrap();
    let segment = Arc::new(Fabric::segment(extent).unwrap());
    thread::scope(|scope| {
        let run = |rank| exchanges.run(Fabric::attach(segment.clone(), extent, rank).unwrap()).unwrap();
        let ranks: Vec<_> = (0..exchanges.ranks).map(|rank| scope.spawn(move || run(rank))).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

#[test]
fn s10_ten_thousand_random_exchanges_of_two_ranks_arrive_as_they_were_sent() {
    for counts in all_ranks(Exchanges { ranks: 2, seed: 1, count: 10_000 }) {
        assert!(counts.overflows > 0, "bursts do not fit into the slots: {counts:?}");
        assert!(counts.live > 0 && counts.null > 0);
    }
}

#[test]
fn s10_thousands_of_random_exchanges_of_three_to_eight_ranks_arrive_as_they_were_sent() {
    for (ranks, count) in [(3, 3_000), (5, 1_000), (8, 500)] {
        assert_eq!(all_ranks(Exchanges { ranks, seed: u64::from(ranks), count }).len(), ranks as usize);
    }
}
