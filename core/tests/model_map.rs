//! The map against `HashMap`.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::HashMap;

use proptest::prelude::*;
use umbra_core::error::Full;
use umbra_core::map::{Entry, Key, Map, PROBE_MAX};

#[derive(Clone, Debug)]
enum Step {
    Insert(u64, u32),
    Remove(u64),
    Clear,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        30 => (0u64..60, any::<u32>()).prop_map(|(k, v)| Step::Insert(k, v)),
        30 => (0u64..60).prop_map(Step::Remove),
        1 => Just(Step::Clear),
    ]
}

fn follows<K: Key + std::hash::Hash + std::fmt::Debug>(
    places: usize,
    seed: u64,
    steps: Vec<Step>,
    key: impl Fn(u64) -> K,
) -> Result<(), TestCaseError> {
    let mut map = Map::new(vec![Entry::<K, u32>::EMPTY; places], seed);
    let mut model = HashMap::new();
    for step in steps {
        match step {
            Step::Insert(k, v) => match map.insert(key(k), v) {
                Ok(old) => prop_assert_eq!(old, model.insert(key(k), v)),
                Err(Full(back)) => {
                    prop_assert!(back == v && !model.contains_key(&key(k)) && model.len() == map.capacity());
                }
            },
            Step::Remove(k) => prop_assert_eq!(map.remove(key(k)), model.remove(&key(k))),
            Step::Clear => {
                map.clear();
                model.clear();
            }
        }
        prop_assert_eq!(map.len(), model.len());
        for k in 0..60 {
            prop_assert_eq!(map.get(key(k)), model.get(&key(k)).copied());
        }
        let all: HashMap<K, u32> = map.iter().collect();
        prop_assert_eq!(&all, &model);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn small_keys(places in 0usize..80, seed: u64, steps in prop::collection::vec(step(), 1..200)) {
        follows(places, seed, steps, |k| k)?;
    }

    #[test]
    fn wide_keys_that_differ_in_one_half(places in 0usize..80, seed: u64, steps in prop::collection::vec(step(), 1..200)) {
        follows(places, seed, steps, |k| if k % 2 == 0 { u128::from(k) << 64 } else { u128::from(k) })?;
    }
}

/// A key whose hash is chosen by the test.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Forced(u64, u64);
impl Key for Forced {
    fn fold(self, _seed: u64) -> u64 {
        self.0
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn keys_that_all_want_the_same_few_places(
        places in 1usize..80,
        steps in prop::collection::vec(step(), 1..200),
    ) {
        follows(places, 0, steps, |k| Forced((k % 3) << 62, k))?;
    }
}

#[test]
fn too_many_keys_for_one_place_are_refused_and_nothing_is_lost() {
    let mut map = Map::new(vec![Entry::EMPTY; 4096], 0);
    let stored: Vec<_> = (0..).map(|k| Forced(u64::MAX, k)).take_while(|&k| map.insert(k, k.1).is_ok()).collect();
    assert_eq!(stored.len(), PROBE_MAX as usize + 1);
    let neighbour = |k| Forced(0xffe << 52, k);
    assert!(map.insert(neighbour(0), 0).is_ok());
    assert!(map.insert(neighbour(1), 0).is_err(), "it would push an entry past the bound");
    assert_eq!(map.get(neighbour(1)), None);
    assert!(map.insert(Forced(1 << 62, 0), 9).is_ok(), "another neighbourhood still has room");
    assert!(stored.iter().all(|&k| map.get(k) == Some(k.1)));
    assert_eq!(map.get(Forced(u64::MAX, 1 << 20)), None);
}

#[test]
fn a_full_map_of_many_keys_answers_within_the_probe_bound() {
    const PLACES: usize = 1 << 17;
    for seed in 0..4 {
        let mut map = Map::new(vec![Entry::EMPTY; PLACES], seed);
        // Consecutive, strided and high-bit keys, as group ids, addresses and packed ids are.
        let keys = (0..).map(|k: u64| match k % 3 {
            0 => k,
            1 => k << 12,
            _ => k << 40,
        });
        let full: Vec<u64> = keys.take(map.capacity()).collect();
        assert!(full.iter().all(|&k| map.insert(k, k).is_ok()));
        assert!(map.insert(u64::MAX, 0).is_err());
        assert!(full.iter().all(|&k| map.get(k) == Some(k)));
        assert!(full.iter().all(|&k| map.remove(k) == Some(k)));
        assert!(map.is_empty());
    }
}
