//! Exchanges of several ranks over simulated networks, each run chosen by a seed.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]
#![cfg(not(loom))]

mod random;
#[path = "boundary/world.rs"]
mod world;

use proptest::prelude::*;
use umbra_core::boundary::{
    Arrival, BuildError, Config, ExchangeError, HEAD, Head, HeadError, Refused, agree, bitmap_bytes,
};
use umbra_core::time::Time;

use random::Random;
use world::{CONFIG, World, entries, machine, try_machine};

#[test]
fn s10_every_exchange_arrives_as_it_was_sent_in_any_order_of_events() {
    for seed in 0..60 {
        let ranks = 1 + (seed % 5) as usize;
        let mut world = World::new(ranks, seed, [0, 5, 50, 100][(seed % 4) as usize], CONFIG);
        assert!(world.run(40), "seed {seed}: nothing moves any more");
        let counts: Vec<_> = world.ranks.iter().map(|rank| *rank.machine.counts()).collect();
        for counts in counts {
            assert_eq!(counts.messages, 40 * (ranks as u64 - 1), "one message a peer and exchange");
            assert_eq!((counts.duplicates, counts.refused, counts.old), (0, 0, 0));
        }
    }
}

#[test]
fn a_repeated_message_is_dropped_and_counted() {
    for seed in 0..20 {
        let mut world = World::new(3, seed, 30, CONFIG);
        let mut repeated = 0;
        for exchange in 1..=20 {
            assert!(world.run(exchange), "seed {seed}");
            // Some message of this exchange again, before any of the next.
            let Some(parcel) = world.ranks[0].machine.peers().first().map(|peer| peer.rank()) else { continue };
            let mut head = vec![0; HEAD];
            Head { epoch: 1, sequence: exchange, ..Head::default() }.emit(0, &mut head).unwrap();
            assert_eq!(parcel, 1);
            let refused = world.ranks[0].machine.on_message(0, &head).unwrap_err();
            assert_eq!(refused, Refused::Duplicate { came: exchange, seen: exchange });
            repeated += 1;
        }
        assert_eq!(world.ranks[0].machine.counts().duplicates, repeated);
    }
}

#[test]
fn a_lost_message_ends_in_a_deadline_that_names_every_missing_channel() {
    let mut world = World::new(3, 11, 50, CONFIG);
    assert!(world.run(5));
    for rank in 0..3 {
        world.ranks[rank].machine.begin(0, Time(1_000)).unwrap();
        world.pass_local(rank);
    }
    for (rank, peer) in [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)] {
        assert!(world.send(rank, peer));
    }
    // From 1 to 0 nothing arrives.
    world.network[3].clear();
    for (from, to) in [(2, 0), (0, 1), (2, 1), (0, 2), (1, 2)] {
        world.deliver(from, to);
        world.receive(to, from - usize::from(from > to));
    }
    let machine = &world.ranks[0].machine;
    assert_eq!(machine.due(), Time(1_000) + CONFIG.deadline.unwrap());
    let missing: Vec<_> = machine.missing().collect();
    let expected: Vec<_> = entries(3, 11).into_iter().filter(|(from, to, _)| (*from, *to) == (1, 0)).collect();
    assert_eq!(missing.len(), expected.len());
    assert!(missing.iter().zip(&expected).all(|(missing, (_, _, entry))| missing.key == entry.key));
    assert!(missing.iter().all(|missing| missing.rank == 1 && missing.seen == 5));
    assert!(missing[0].to_string().contains("rank 1: block"), "{}", missing[0]);
    assert_eq!(world.ranks[1].machine.missing().count(), 0);
}

#[test]
fn a_peer_is_at_most_as_far_ahead_as_there_are_slots() {
    let mut world = World::new(2, 3, 50, CONFIG);
    assert!(world.run(3));
    world.ranks[0].machine.begin(0, Time(0)).unwrap();
    assert!(world.send(0, 0));
    let error = world.ranks[0].machine.may_pack(0).unwrap_err();
    assert_eq!(error, ExchangeError::Sent { rank: 1 });
    // It cannot even begin the next one: it has not heard of its peer.
    assert!(matches!(world.ranks[0].machine.begin(0, Time(0)), Err(ExchangeError::Open { .. })));
    world.deliver(0, 1);
    // The slower rank has not begun this exchange, so the message stays where it is.
    let head = world.ranks[1].waiting[0][0].head.clone();
    assert_eq!(world.ranks[1].machine.on_message(0, &head), Ok(Arrival::Early));
    assert!(world.run(9));
}

#[test]
fn s30_and_s31_a_remesh_waits_for_open_exchanges_and_drops_what_is_late() {
    let mut world = World::new(3, 5, 50, CONFIG);
    assert!(world.run(4));
    world.ranks[1].machine.begin(0, Time(0)).unwrap();
    let votes = |world: &World| world.ranks.iter().map(|rank| Some(rank.machine.vote())).collect::<Vec<_>>();
    assert!(agree(&votes(&world)).unwrap_err().to_string().contains("rank 1"));
    // Rank 1 has sent already; the others go along, and all are done.
    assert!(world.send(1, 0));
    let late = world.network[3].front().cloned().unwrap();
    world.pass_local(1);
    assert!(world.run(5));
    assert_eq!(agree(&votes(&world)), Ok(2));
    let rank = &mut world.ranks[0].machine;
    rank.close();
    assert_eq!(rank.begin(0, Time(0)), Err(ExchangeError::Closing));
    let mut next = machine(0, 3, &entries(3, 5), Config { epoch: 2, ..CONFIG });
    next.begin(0, Time(0)).unwrap();
    assert_eq!(next.on_message(0, &late.head), Err(Refused::OldEpoch { came: 1, ours: 2 }));
    assert_eq!(next.counts().old, 1);
    let mut before = machine(0, 3, &entries(3, 5), CONFIG);
    before.begin(0, Time(0)).unwrap();
    let mut head = vec![0; HEAD];
    Head { epoch: 2, sequence: 1, ..Head::default() }.emit(0, &mut head).unwrap();
    assert_eq!(before.on_message(0, &head), Ok(Arrival::Early), "its sender has changed the mesh before us");
}

#[test]
fn s38_a_burst_overflows_once_and_the_next_slot_is_larger() {
    let mut world = World::new(2, 9, 0, CONFIG);
    assert!(world.run(10));
    let small = world.ranks[0].machine.peers()[0].slot_bytes();
    world.live_percent = 100;
    assert!(world.run(12));
    let counts = *world.ranks[1].machine.counts();
    assert!(counts.overflows >= 1, "{counts:?}");
    let large = world.ranks[0].machine.peers()[0].slot_bytes();
    assert!(large > small && large <= world.ranks[0].machine.peers()[0].dense_bytes());
    assert!(world.run(40));
    assert!(world.ranks[1].machine.counts().overflows <= counts.overflows + 1, "the slots have grown");
    world.live_percent = 0;
    assert!(world.run(400));
    assert!(world.ranks[0].machine.peers()[0].slot_bytes() < large, "and shrink in the end");
}

#[test]
fn s38_a_slot_stays_within_its_bound_whatever_comes() {
    const LARGEST: u32 = 512;
    let mut world = World::new(2, 9, 100, Config { largest: LARGEST, ..CONFIG });
    for exchanges in 1..=40 {
        assert!(world.run(exchanges));
        for rank in &world.ranks {
            let peer = &rank.machine.peers()[0];
            assert!(peer.slot_bytes() <= LARGEST && peer.dense_bytes() > LARGEST, "{peer:?}");
        }
    }
    for rank in &world.ranks {
        let (counts, peer) = (rank.machine.counts(), &rank.machine.peers()[0]);
        assert_eq!((counts.overflows, peer.slot_bytes()), (40, LARGEST), "each message was larger");
    }
}

#[test]
fn bounds_of_a_slot_that_no_message_could_keep_are_refused() {
    let all = entries(2, 9);
    let built = |smallest, largest| try_machine(0, 2, &all, Config { smallest, largest, ..CONFIG }).map(drop);
    assert_eq!(built(129, 128), Err(BuildError::Bounds { smallest: 129, largest: 128 }));
    let Err(BuildError::Head { rank: 1, head, largest: 64 }) = built(0, 64) else { panic!("{:?}", built(0, 64)) };
    assert!(head > 64 && built(0, head as u32).is_ok(), "{head}");
    assert_eq!(built(0, head as u32 - 1), Err(BuildError::Head { rank: 1, head, largest: head as u32 - 1 }));
}

#[test]
fn s37_heads_are_as_small_as_their_plans_allow() {
    let mut world = World::new(2, 21, 50, CONFIG);
    assert!(world.run(50));
    for rank in &world.ranks {
        let (counts, peer) = (rank.machine.counts(), &rank.machine.peers()[0]);
        let channels = u64::from(peer.out().end - peer.out().start);
        assert!(counts.head_bytes <= 50 * (64 + channels / 8 + 8));
        assert_eq!(counts.live + counts.null, 50 * channels);
    }
}

fn first_message(seed: u64) -> (World, Vec<u8>) {
    let mut world = World::new(2, seed, 50, CONFIG);
    for rank in 0..2 {
        world.ranks[rank].machine.begin(0, Time(0)).unwrap();
        assert!(world.send(rank, 0));
    }
    let head = world.network[2].front().unwrap().head.clone();
    (world, head)
}

#[test]
fn hostile_numbers_in_a_head_are_refused_and_change_nothing() {
    let (mut world, good) = first_message(1);
    let machine = &mut world.ranks[0].machine;
    let (head, live) = Head::parse(&good).unwrap();
    let count = (0..head.channels as usize).filter(|&at| live.is(at)).count();
    let (ours, expected) = (head.fingerprint, head.payload);
    let payload = |came| Refused::Payload { came, expected };
    let room = machine.peers()[0].slot_bytes();
    let whole = (HEAD + bitmap_bytes(head.channels)) as u64 + head.payload;
    let cases: [(&str, Head, Refused); 10] = [
        ("fingerprint", Head { fingerprint: ours ^ 1, ..head }, Refused::Plan { came: ours ^ 1, ours }),
        ("kind", Head { kind: 3, ..head }, Refused::Plan { came: ours, ours }),
        ("payload", Head { payload: expected + 8, ..head }, payload(expected + 8)),
        ("less payload", Head { payload: expected - 8, overflow: head.overflow - 8, ..head }, payload(expected - 8)),
        (
            "less payload than overflow",
            Head { payload: u64::from(head.overflow) - 8, ..head },
            Refused::Head(HeadError::Impossible),
        ),
        ("huge payload", Head { payload: u64::MAX, ..head }, payload(u64::MAX)),
        ("overflow within a strip", Head { overflow: head.overflow - 1, overflow_at: 1, ..head }, Refused::Split),
        ("credit", Head { credit: 17, ..head }, Refused::Credit { came: 17, sent: 1 }),
        ("sequence", Head { sequence: 9, ..head }, Refused::Gap { came: 9, seen: 0 }),
        (
            "all in the slot",
            Head { overflow: 0, overflow_at: 0, overflow_key: 0, ..head },
            Refused::TooLong { came: whole, room },
        ),
    ];
    for (what, case, why) in cases {
        let mut bytes = good.clone();
        case.emit(count, &mut bytes).unwrap();
        let before = format!("{:?}", machine.peers());
        assert_eq!(machine.on_message(0, &bytes), Err(why), "{what}");
        assert_eq!(format!("{:?}", machine.peers()), before, "{what}");
    }
    assert_eq!(machine.counts().refused, 10);
    assert_eq!(machine.on_message(5, &good), Err(Refused::Stranger), "no such peer");
    assert!(machine.on_message(0, &good).is_ok(), "and the true one is still taken");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn s45_arbitrary_bytes_do_no_harm(seed in 0u64..50, bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let (mut world, good) = first_message(seed);
        let _ = Head::parse(&bytes);
        let _ = world.ranks[0].machine.on_message(0, &bytes);
        let mut mixed = good.clone();
        for (at, byte) in bytes.iter().enumerate().take(mixed.len()) {
            mixed[at] ^= byte;
        }
        if mixed != good {
            prop_assert!(world.ranks[0].machine.on_message(0, &mixed).is_err());
        }
        prop_assert!(world.ranks[0].machine.on_message(0, &good).is_ok());
    }

    #[test]
    fn s10_random_worlds_deliver(seed in 1000u64..1_000_000, ranks in 2usize..6, live in 0u64..=100, smallest in 0u32..2000, more in 500u32..3000) {
        let largest = smallest + more;
        let mut world = World::new(ranks, seed, live, Config { smallest, largest, ..CONFIG });
        prop_assert!(world.run(8));
    }
}

#[test]
fn a_head_with_an_absurd_number_of_channels_is_short() {
    assert_eq!(bitmap_bytes(u32::MAX), (1 << 26) * 8);
    let mut random = Random(1);
    for _ in 0..1000 {
        let mut bytes = [0; 128];
        bytes.iter_mut().for_each(|byte| *byte = random.bits() as u8);
        bytes[..4].copy_from_slice(b"uB\x01\x00");
        assert!(Head::parse(&bytes).is_err());
    }
}
