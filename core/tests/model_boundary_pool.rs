//! A pool of objects against a plain map of what must be live.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]
#![cfg(not(loom))]

use std::collections::HashMap;

use proptest::prelude::*;
use umbra_core::boundary::{Class, Header, Owner, Pool, Weak};

#[derive(Clone, Debug)]
enum Step {
    Get(u32),
    Share(usize),
    Drop(usize),
    Upgrade(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0u32..140).prop_map(Step::Get),
        any::<usize>().prop_map(Step::Share),
        any::<usize>().prop_map(Step::Drop),
        any::<usize>().prop_map(Step::Upgrade),
    ]
}

proptest! {
    #[test]
    fn s13_a_pool_is_a_map_from_handles_to_counts(steps in proptest::collection::vec(step(), 1..400)) {
        let headers = [const { Header::new() }; 9];
        let mut classes = [Class::new(16, 4), Class::new(64, 3), Class::new(128, 2)];
        let pool = Pool::new(&headers, &mut classes).unwrap();
        let mut owners: Vec<Owner<'_, _, _>> = Vec::new();
        let mut counts: HashMap<Weak, usize> = HashMap::new();
        let mut known: Vec<Weak> = Vec::new();
        for step in steps {
            let some = |at: usize, len: usize| (len > 0).then(|| at % len);
            match step {
                Step::Get(bytes) => {
                    let large = |size: u32, count| if size >= bytes { count } else { 0 };
                    let slots = large(16, 4) + large(64, 3) + large(128, 2);
                    let used = counts.keys().filter(|weak| pool.place(weak.index).unwrap().1 >= bytes).count();
                    match pool.get(bytes) {
                        Ok(owner) => {
                            prop_assert!(owner.len() >= bytes);
                            prop_assert!(counts.insert(owner.weak(), 1).is_none(), "a handle twice");
                            known.push(owner.weak());
                            owners.push(owner);
                        }
                        Err(_) => prop_assert_eq!(used, slots, "refused although there was room"),
                    }
                }
                Step::Share(at) => if let Some(at) = some(at, owners.len()) {
                    let owner = owners[at].share().unwrap();
                    *counts.get_mut(&owner.weak()).unwrap() += 1;
                    owners.push(owner);
                },
                Step::Drop(at) => if let Some(at) = some(at, owners.len()) {
                    let weak = owners.swap_remove(at).weak();
                    let count = counts.get_mut(&weak).unwrap();
                    *count -= 1;
                    if *count == 0 {
                        counts.remove(&weak);
                    }
                },
                Step::Upgrade(at) => if let Some(at) = some(at, known.len()) {
                    // As bytes it was somewhere else meanwhile.
                    let upgraded = pool.upgrade(Weak::from_bytes(known[at].to_bytes()));
                    prop_assert_eq!(upgraded.is_ok(), counts.contains_key(&known[at]));
                },
            }
            let mut places: Vec<_> = counts.keys().map(|weak| pool.place(weak.index).unwrap()).collect();
            places.sort_unstable();
            prop_assert!(places.windows(2).all(|pair| pair[0].0 + u64::from(pair[0].1) <= pair[1].0), "objects overlap");
            prop_assert!(known.iter().all(|weak| pool.is_valid(*weak) == counts.contains_key(weak)));
            prop_assert_eq!(pool.statistics().live as usize, counts.len());
        }
    }
}
