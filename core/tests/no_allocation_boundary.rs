//! No operation of a boundary exchange or of its pool allocates (scenario 44).
//!
//! That is so from the first one on.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use umbra_core::boundary::{
    Channel, Class, Config, Element, Entry, Exchange, Header, Key, Kind, Peer, Pool, Step, Storage,
};
use umbra_core::time::Time;

#[global_allocator]
static COUNTED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

type Rank<'a> = Exchange<[Peer; 1], &'a [Entry], Vec<Channel<()>>, [u64; 4]>;

/// One exchange of two ranks: every third strip is live.
fn exchange(ranks: &mut [Rank<'_>; 2], heads: &mut [[u8; 128]; 2], turn: u32) {
    for (rank, head) in ranks.iter_mut().zip(heads.iter_mut()) {
        rank.begin(0, Time(u64::from(turn))).unwrap();
        let mut pack = rank.pack(0, head).unwrap();
        while let Some(entry) = pack.channel() {
            if (u32::from(entry.key.field) + turn).is_multiple_of(3) {
                pack.live().unwrap();
            } else {
                pack.null().unwrap();
            }
        }
        let _ = pack.commit(0, 0).unwrap();
        rank.on_sent(0);
    }
    for (at, rank) in ranks.iter_mut().enumerate() {
        rank.on_message(0, &heads[1 - at]).unwrap();
        rank.on_fetched(0).unwrap();
        assert!(rank.is_received(0));
        assert_eq!(
            rank.strips(0).unwrap().filter(|(_, _, place)| place.is_some()).count(),
            33 + usize::from(turn.is_multiple_of(3))
        );
        rank.release(0).unwrap();
    }
}

fn main() {
    a_thousand_exchanges();
    a_pool();
}

/// How often this allocates.
fn allocations(of: impl FnOnce()) -> usize {
    let region = Region::new(COUNTED);
    of();
    let change = region.change();
    change.allocations + change.reallocations
}

fn a_thousand_exchanges() {
    let element = Element::new(1, 0, 0).unwrap();
    let key = |sender, receiver, field| Key { sender, receiver, field, element, kind: Kind::GHOST };
    let plan =
        |a, b| (0..100).map(move |field| Entry { key: key(a, b, field), count: 5, always: false, step: Step::Same });
    let config = Config { epoch: 1, kind: Kind::GHOST, slots: 2, smallest: 128, largest: u32::MAX, deadline: None };
    let entries = [(0, 1), (1, 0)].map(|(a, b)| plan(a, b).chain(plan(b, a)).collect::<Vec<_>>());
    let mut ranks = [0, 1].map(|me: usize| {
        let storage = Storage {
            peers: [Peer::new(1 - me as u32, 0..100, 100..200)],
            entries: &entries[me][..],
            channels: Vec::new(),
            live: [0; 4],
            local: 0..0,
        };
        Exchange::new(storage, config).unwrap()
    });
    let mut heads = [[0; 128]; 2];
    let exchanges = || (1..=1000).for_each(|turn| exchange(&mut ranks, &mut heads, turn));
    assert_eq!(allocations(exchanges), 0, "exchanges");
}

fn a_pool() {
    let headers = [const { Header::new() }; 8];
    let mut classes = [Class::new(8, 4), Class::new(64, 4)];
    let pool = Pool::new(&headers, &mut classes).unwrap();
    let objects = || {
        for bytes in 0..1000 {
            let owner = pool.get(bytes % 64).unwrap();
            let weak = owner.weak();
            assert!(pool.upgrade(weak).is_ok() && owner.share().is_ok());
            drop(owner);
            assert!(!pool.is_valid(weak));
        }
    };
    assert_eq!(allocations(objects), 0, "a pool");
    assert!(allocations(|| drop(vec![0_u64; 8])) > 0, "allocations are counted");
}
