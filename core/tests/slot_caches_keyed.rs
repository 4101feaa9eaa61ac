//! Several caches under keys: the scenarios, and the same by a plain map.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeMap;
use std::task::Waker;

use proptest::prelude::*;
use umbra_core::cache::keyed::{CreateError, EndError, Keyed, Named, Place, UnknownKey};
use umbra_core::cache::waiting::{Asked, Waiter, Waiting};
use umbra_core::cache::{AllocError, Dense, Plain, Slot, Stack, policy::Never};
use umbra_core::error::Stale;
use umbra_core::id::Id;
use umbra_core::map::Entry;

type Small = Stack<[Slot; 2], Dense<[u32; 9]>>;
type Line = Waiting<[Slot; 2], Dense<[u32; 9]>, Never, Plain, [Waiter; 2]>;
type Table<C> = Keyed<Vec<Place<C>>, Vec<Entry<u64, Id<Named<C>>>>>;

fn stack() -> Small {
    Stack::stack([Slot::EMPTY; 2], Dense::new([0; 9]), 0..2).unwrap()
}

fn table<C>(caches: usize) -> Table<C> {
    let entries = (0..16).map(|_| Entry::EMPTY).collect();
    Keyed::new((0..caches).map(|_| Place::EMPTY).collect(), entries, 7)
}

#[test]
fn s32_a_key_that_is_taken_and_a_full_table_are_refused_and_the_cache_comes_back() {
    let mut caches = table(2);
    let first = caches.create(5, stack()).unwrap();
    let refused = caches.create(5, stack()).unwrap_err();
    assert_eq!((refused.why, refused.cache.len()), (CreateError::DuplicateKey { key: 5 }, Ok(0)));
    caches.create(u64::MAX, stack()).unwrap();
    assert_eq!(caches.create(6, stack()).unwrap_err().why, CreateError::TableFull { caches: 2 });
    assert_eq!((caches.find(5), caches.find(6)), (Ok(first), Err(UnknownKey { key: 6 })));
    assert_eq!(caches.len(), 2);
}

#[test]
fn s32_a_cache_in_use_does_not_end_and_one_that_ended_is_stale() {
    let mut caches = table(2);
    let id = caches.create(1, stack()).unwrap();
    caches.get_mut(id).unwrap().alloc(3).unwrap();
    assert_eq!(caches.end(id).map(drop), Err(EndError::InUse { slots: 1, waiting: 0 }));
    assert!(caches.get_mut(id).unwrap().alloc(4).is_ok(), "it works on");
    caches.get_mut(id).unwrap().free(3).unwrap();
    caches.get_mut(id).unwrap().free(4).unwrap();
    let mut ended = caches.end(id).unwrap();
    assert_eq!(ended.alloc(3), Err(AllocError::Interrupted), "whoever still sees it");
    let next = caches.create(1, stack()).unwrap();
    assert_eq!(caches.get(id).map(drop), Err(Stale), "also with its key and its place in use again");
    assert_eq!(caches.end(id).map(drop), Err(EndError::Stale));
    assert_eq!(caches.find(1), Ok(next));
}

#[test]
fn s32_a_cache_with_somebody_in_line_does_not_end_and_an_interrupted_one_waits_for_its_fills() {
    let mut caches: Table<Line> = table(1);
    let id = caches.create(1, Waiting::new(stack(), [const { Waiter::EMPTY }; 2])).unwrap();
    let line = caches.get_mut(id).unwrap();
    for data in [1, 2] {
        assert!(matches!(line.alloc(data, Waker::noop()), Ok(Asked::Now(_))));
    }
    assert!(matches!(line.alloc(3, Waker::noop()), Ok(Asked::Later(_))));
    assert_eq!(caches.end(id).map(drop), Err(EndError::InUse { slots: 2, waiting: 1 }));
    caches.get_mut(id).unwrap().interrupt();
    assert_eq!(caches.end(id).map(drop), Err(EndError::InUse { slots: 2, waiting: 0 }), "they may be written to");
    assert!(caches.get_mut(id).unwrap().settle(0) && caches.get_mut(id).unwrap().settle(1));
    assert!(caches.end(id).is_ok() && caches.is_empty());
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Create(u64),
    End(u64),
    EndStale(usize),
    Alloc(u64),
    Free(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let key = || 0..6_u64;
    prop_oneof![
        key().prop_map(Step::Create),
        key().prop_map(Step::End),
        (0..9_usize).prop_map(Step::EndStale),
        key().prop_map(Step::Alloc),
        key().prop_map(Step::Free),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn s32_a_table_of_caches_does_what_a_map_does(places in 1_usize..5, steps in prop::collection::vec(step(), 1..200)) {
        let mut caches = table(places);
        let mut model: BTreeMap<u64, (Id<Named<Small>>, u32)> = BTreeMap::new();
        let mut ended = Vec::new();
        for step in steps {
            match step {
                Step::Create(key) => match caches.create(key, stack()).map_err(|refused| refused.why) {
                    Ok(id) => prop_assert!(model.len() < places && model.insert(key, (id, 0)).is_none()),
                    Err(CreateError::DuplicateKey { key }) => prop_assert!(model.contains_key(&key)),
                    Err(error) => {
                        prop_assert_eq!(error, CreateError::TableFull { caches: places });
                        prop_assert!(model.len() == places && !model.contains_key(&key));
                    }
                },
                Step::End(key) => {
                    let id = caches.find(key);
                    prop_assert_eq!(id.ok(), model.get(&key).map(|&(id, _)| id));
                    let Ok(id) = id else { continue };
                    match caches.end(id) {
                        Ok(_) => {
                            prop_assert_eq!(model.remove(&key), Some((id, 0)));
                            ended.push(id);
                        }
                        Err(error) => {
                            prop_assert_eq!(error, EndError::InUse { slots: 1, waiting: 0 });
                            prop_assert!(model[&key].1 > 0);
                        }
                    }
                }
                Step::EndStale(nth) => {
                    if let Some(&id) = ended.get(nth) {
                        prop_assert_eq!(caches.end(id).map(drop), Err(EndError::Stale));
                    }
                }
                Step::Alloc(key) => {
                    if let Some((id, held)) = model.get_mut(&key) {
                        prop_assert!(caches.get_mut(*id).unwrap().alloc(3).is_ok());
                        *held += 1;
                    }
                }
                Step::Free(key) => {
                    if let Some((id, held)) = model.get_mut(&key) {
                        let freed = caches.get_mut(*id).unwrap().free(3);
                        prop_assert_eq!(freed.is_ok(), *held > 0);
                        *held = held.saturating_sub(1);
                    }
                }
            }
            prop_assert_eq!(caches.len(), model.len());
            prop_assert!(caches.iter().all(|(id, named)| model.get(&named.key()).is_some_and(|&(known, _)| known == id)));
        }
    }
}
