//! Sparse receivers whose storage is of one pool: how much of it they have at most.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]
#![cfg(not(loom))]

use proptest::prelude::*;
use umbra_core::boundary::{Channel, Class, Header, Owner, Pool, Refusal, Role};

/// Elements of a strip.
const COUNT: u32 = 4;

type Storage<'p> = Owner<'p, Vec<Header>, [Class; 1]>;

fn pool(slots: u32) -> Pool<Vec<Header>, [Class; 1]> {
    Pool::new((0..slots).map(|_| Header::new()).collect(), [Class::new(8 * COUNT, slots)]).unwrap()
}

fn channels<'p>(count: usize) -> Vec<Channel<Storage<'p>>> {
    (0..count).map(|_| Channel::new(Role::SparseReceiver, COUNT)).collect()
}

/// What comes in one exchange: which strips are live, and how the order of the messages is drawn.
type Came = (Vec<bool>, Vec<u32>);

fn exchanges() -> impl Strategy<Value = Vec<Came>> {
    (1usize..12).prop_flat_map(|channels| {
        let live = proptest::collection::vec(proptest::bool::weighted(0.3), channels);
        proptest::collection::vec((live, proptest::collection::vec(any::<u32>(), channels)), 1..30)
    })
}

fn order(drawn: &[u32]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..drawn.len()).collect();
    order.sort_by_key(|&at| (drawn[at], at));
    order
}

fn lives(live: &[bool]) -> usize {
    live.iter().filter(|live| **live).count()
}

/// The most strips that are live in one exchange.
fn largest(exchanges: &[Came]) -> u32 {
    exchanges.iter().map(|(live, _)| lives(live)).max().unwrap_or(0) as u32
}

proptest! {
    /// Storage is kept until a null comes: so it counts for a strip as long as that is what was last heard of it.
    #[test]
    fn s12_the_high_water_is_the_most_strips_that_were_live_by_their_last_messages(exchanges in exchanges()) {
        let count = exchanges[0].0.len();
        let pool = pool(count as u32);
        let mut channels = channels(count);
        let (mut known, mut most, mut bound) = (vec![false; count], 0, 0);
        let mut before = vec![false; count];
        for (live, drawn) in &exchanges {
            for at in order(drawn) {
                let channel = &mut channels[at];
                prop_assert_eq!(channel.try_receive(|| panic!("no message, no storage")), Ok(false));
                channel.on_message(if live[at] { COUNT } else { 0 }).unwrap();
                let received = channel.try_receive(|| {
                    assert!(live[at], "a null takes none");
                    pool.get(8 * COUNT).ok()
                });
                prop_assert_eq!(received, Ok(true));
                prop_assert_eq!((channel.payload().is_ok(), channel.is_active()), (live[at], live[at]));
                channel.stale().unwrap();
                known[at] = live[at];
                most = most.max(lives(&known));
                prop_assert_eq!(pool.statistics().live as usize, lives(&known));
            }
            bound = bound.max((0..count).filter(|&at| before[at] || live[at]).count());
            before.clone_from(live);
        }
        prop_assert_eq!(pool.statistics().high_water as usize, most);
        prop_assert!(most <= bound, "those of two exchanges that follow each other at most");
    }

    /// Whatever the order, strips that find no storage find it when the nulls of the exchange were taken.
    #[test]
    fn s12_a_pool_for_the_largest_live_set_of_an_exchange_is_enough(exchanges in exchanges()) {
        let (count, largest) = (exchanges[0].0.len(), largest(&exchanges));
        let pool = pool(largest);
        let mut channels = channels(count);
        for (live, drawn) in &exchanges {
            let mut waiting = order(drawn);
            for channel in &mut channels {
                prop_assert!(channel.is_safe_to_delete());
            }
            waiting.iter().for_each(|&at| channels[at].on_message(if live[at] { COUNT } else { 0 }).unwrap());
            for last in [false, true] {
                waiting.retain(|&at| match channels[at].try_receive(|| pool.get(8 * COUNT).ok()) {
                    Ok(is_there) => !is_there,
                    Err(refusal) => {
                        assert!(refusal == Refusal::NoStorage && live[at] && !last, "{refusal}");
                        true
                    }
                });
            }
            prop_assert!(waiting.is_empty(), "the second time all have storage");
            for (channel, &live) in channels.iter_mut().zip(live) {
                prop_assert_eq!(channel.payload().is_ok(), live);
                channel.stale().unwrap();
            }
            prop_assert!(pool.statistics().high_water <= largest);
        }
    }

    /// Who takes the nulls of an exchange first needs no more, and never comes back.
    #[test]
    fn s12_nulls_first_and_the_high_water_is_the_largest_live_set(exchanges in exchanges()) {
        let count = exchanges[0].0.len();
        let pool = pool(count as u32);
        let mut channels = channels(count);
        for (live, drawn) in &exchanges {
            let mut order = order(drawn);
            order.sort_by_key(|&at| live[at]);
            for at in order {
                channels[at].on_message(if live[at] { COUNT } else { 0 }).unwrap();
                prop_assert_eq!(channels[at].try_receive(|| pool.get(8 * COUNT).ok()), Ok(true));
                channels[at].stale().unwrap();
            }
        }
        prop_assert_eq!(pool.statistics().high_water, largest(&exchanges));
        drop(channels);
        prop_assert_eq!(pool.statistics().live, 0, "and all of it comes back");
    }
}
