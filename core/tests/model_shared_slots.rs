//! The shared slot table against plain sets of holders, one operation at a time.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use umbra_core::atomic::Ordering;
use umbra_core::cell::BytesMut;
use umbra_core::error::Stale;
use umbra_core::id::Id;
use umbra_core::shared_slots::{Held, Owner, SharedSlots, words_for};

#[derive(Clone, Debug)]
enum Step {
    Take(u8),
    Retain(usize, u8),
    Release(usize, u8),
    Transfer(usize, u8, u8),
    Reclaim(u8),
}

fn step() -> impl Strategy<Value = Step> {
    let owner = 0u8..4;
    prop_oneof![
        5 => owner.clone().prop_map(Step::Take),
        2 => (any::<usize>(), owner.clone()).prop_map(|(i, o)| Step::Retain(i, o)),
        5 => (any::<usize>(), owner.clone()).prop_map(|(i, o)| Step::Release(i, o)),
        1 => (any::<usize>(), owner.clone(), owner.clone()).prop_map(|(i, a, b)| Step::Transfer(i, a, b)),
        1 => owner.prop_map(Step::Reclaim),
    ]
}

fn owner(number: u8) -> Owner {
    Owner::new(number).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_slot_has_exactly_the_holders_of_the_model(
        capacity in 0usize..140,
        steps in prop::collection::vec(step(), 1..400),
    ) {
        let mut memory = vec![0_u64; words_for(capacity).unwrap()];
        let count = memory.len();
        let words = BytesMut::from_words(&mut memory).words(0, count).unwrap();
        let slots = SharedSlots::create(words, capacity).unwrap();
        let mut held: BTreeMap<u64, BTreeSet<u8>> = BTreeMap::new();
        let mut all: Vec<Id<Held>> = vec![];
        for step in steps {
            match step {
                Step::Take(o) => match slots.take(owner(o)) {
                    Ok(id) => {
                        prop_assert!(!all.contains(&id), "an id is handed out once");
                        prop_assert!(held.keys().all(|&bits| Id::<Held>::from_bits(bits).index() != id.index()));
                        held.insert(id.to_bits(), [o].into());
                        all.push(id);
                    }
                    Err(_) => prop_assert_eq!(held.len(), capacity),
                },
                Step::Retain(i, o) if !all.is_empty() => {
                    let id = all[i % all.len()];
                    let expected = held.get_mut(&id.to_bits()).map(|holders| holders.insert(o)).ok_or(Stale);
                    prop_assert_eq!(slots.retain(id, owner(o)), expected);
                }
                Step::Release(i, o) if !all.is_empty() => {
                    let id = all[i % all.len()];
                    let holders = held.get_mut(&id.to_bits()).and_then(|h| h.remove(&o).then_some(h));
                    let expected = holders.map(|holders| holders.is_empty()).ok_or(Stale);
                    prop_assert_eq!(slots.release(id, owner(o)), expected);
                }
                Step::Transfer(i, a, b) if !all.is_empty() => {
                    let id = all[i % all.len()];
                    let holders = held.get_mut(&id.to_bits()).and_then(|h| h.remove(&a).then_some(h));
                    let expected = holders.map(|holders| holders.extend([b])).ok_or(Stale);
                    prop_assert_eq!(slots.transfer(id, owner(a), owner(b)), expected);
                }
                Step::Reclaim(o) => {
                    let freed = held.values_mut().filter_map(|h| h.remove(&o).then_some(h.is_empty())).filter(|&e| e);
                    prop_assert_eq!(slots.reclaim(owner(o)), freed.count());
                }
                _ => {}
            }
            held.retain(|_, holders| !holders.is_empty());
            prop_assert_eq!(slots.free(), capacity - held.len());
            for o in 0..4 {
                prop_assert_eq!(slots.held_by(owner(o)), held.values().filter(|h| h.contains(&o)).count());
            }
            for &id in &all {
                let holders = held.get(&id.to_bits());
                for o in 0..4 {
                    prop_assert_eq!(slots.holds(id, owner(o)), holders.is_some_and(|h| h.contains(&o)));
                }
            }
        }
    }

    #[test]
    fn wrong_hints_are_corrected_and_lost_ones_restored(
        capacity in 1usize..140,
        takes in 0usize..140,
        hints in prop::collection::vec(any::<u64>(), 3),
    ) {
        let mut memory = vec![0_u64; words_for(capacity).unwrap()];
        let count = memory.len();
        let words = BytesMut::from_words(&mut memory).words(0, count).unwrap();
        let slots = SharedSlots::create(words, capacity).unwrap();
        let taken = takes.min(capacity);
        (0..taken).for_each(|_| assert!(slots.take(owner(0)).is_ok()));
        for (word, hint) in words[16..].iter().zip(&hints) {
            word.store(*hint, Ordering::Relaxed);
        }
        // Wrong hints lead to no slot twice ...
        let mut more: Vec<_> = std::iter::from_fn(|| slots.take(owner(1)).ok()).collect();
        prop_assert!(more.len() <= capacity - taken);
        // ... and after the death of anybody no free slot is hidden any more.
        slots.reclaim(owner(7));
        more.extend(std::iter::from_fn(|| slots.take(owner(1)).ok()));
        prop_assert_eq!(more.len(), capacity - taken);
        let different: BTreeSet<u32> = more.iter().map(|id| id.index()).collect();
        prop_assert_eq!(different.len(), more.len());
    }

    #[test]
    fn damaged_memory_gives_errors_and_no_more(
        damage in prop::collection::vec((any::<prop::sample::Index>(), prop_oneof![any::<u64>(), 0u64..70]), 1..60),
    ) {
        let mut memory = vec![0_u64; words_for(70).unwrap()];
        let count = memory.len();
        let words = BytesMut::from_words(&mut memory).words(0, count).unwrap();
        let slots = SharedSlots::create(words, 70).unwrap();
        for (at, value) in damage {
            words[at.index(count)].store(value, Ordering::Relaxed);
            let (a, b) = (owner(0), owner(29));
            if let Ok(id) = slots.take(a) {
                let _ = (slots.retain(id, b), slots.transfer(id, a, b), slots.release(id, b));
            }
            let _ = (slots.release(Id::from_bits(value), a), slots.reclaim(b));
            if let Ok(again) = SharedSlots::attach(words) {
                prop_assert!(again.capacity() <= count);
            }
        }
    }
}

#[test]
fn there_are_thirty_owners() {
    assert!(Owner::new(29).is_some() && Owner::new(30).is_none());
}

#[test]
fn a_take_goes_on_where_the_last_one_was_found() {
    const CAPACITY: usize = 64 * 40;
    let mut memory = vec![0_u64; words_for(CAPACITY).unwrap()];
    let count = memory.len();
    let words = BytesMut::from_words(&mut memory).words(0, count).unwrap();
    let slots = SharedSlots::create(words, CAPACITY).unwrap();
    let taken: Vec<_> = (0..65).map(|_| slots.take(owner(0)).unwrap()).collect();
    assert_eq!((taken[3].index(), taken[64].index()), (3, 64));
    assert_eq!(slots.release(taken[3], owner(0)), Ok(true));
    assert_eq!(slots.take(owner(0)).unwrap().index(), 65, "without a look at the words before");
    // What was freed just now is still in the caches.
    assert_eq!(slots.release(taken[64], owner(0)), Ok(true));
    assert_eq!(slots.take(owner(0)).unwrap().index(), 64);
    // Another owner has his own place, and everybody finds all there is.
    assert!(slots.take(owner(1)).unwrap().index() >= 64);
    assert_eq!(std::iter::from_fn(|| slots.take(owner(0)).ok()).count(), CAPACITY - 66);
    // A place that damage put behind the end is none.
    for place in &words[2..16] {
        place.store(41, Ordering::Relaxed);
    }
    assert_eq!(slots.release(taken[0], owner(0)), Ok(true));
    assert_eq!(slots.take(owner(0)).unwrap().index(), 0);
}
