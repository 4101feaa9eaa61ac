//! The slot table against a plain vector of holders.

use proptest::prelude::*;
use umbra_core::error::{Full, Stale};
use umbra_core::id::{Generation, Id};
use umbra_core::slots::{Slot, Slots};

#[derive(Clone, Debug)]
enum Step {
    Take,
    Retain(usize),
    Release(usize),
    Remove(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Take),
        2 => any::<usize>().prop_map(Step::Retain),
        5 => any::<usize>().prop_map(Step::Release),
        1 => any::<usize>().prop_map(Step::Remove),
    ]
}

struct Held {
    id: Id<u64>,
    value: u64,
    count: u32,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn every_value_is_found_by_its_id_until_its_last_holder_leaves(
        capacity in 0usize..16,
        steps in prop::collection::vec(step(), 1..300),
    ) {
        let mut slots = Slots::new(vec![Slot::EMPTY; capacity]);
        let mut live: Vec<Held> = vec![];
        let mut gone: Vec<Id<u64>> = vec![];
        let mut free: Vec<u32> = (0..capacity as u32).rev().collect();
        for (value, step) in (0u64..).zip(steps) {
            match step {
                Step::Take => match (slots.next(), slots.take(value)) {
                    (next, Ok(id)) => {
                        prop_assert_eq!(next, Some(id));
                        prop_assert_eq!(Some(id.index()), free.pop(), "the last freed slot is taken first");
                        live.push(Held { id, value, count: 1 });
                    }
                    (next, Err(Full(back))) => {
                        prop_assert!(back == value && live.len() == capacity && next.is_none());
                    }
                },
                Step::Retain(i) if !live.is_empty() => {
                    let i = i % live.len();
                    live[i].count += 1;
                    prop_assert_eq!(slots.retain(live[i].id), Ok(live[i].count));
                }
                Step::Release(i) if !live.is_empty() => {
                    let i = i % live.len();
                    live[i].count -= 1;
                    let last = live[i].count == 0;
                    prop_assert_eq!(slots.release(live[i].id), Ok(last.then_some(live[i].value)));
                    if last {
                        let held = live.swap_remove(i);
                        free.push(held.id.index());
                        gone.push(held.id);
                    }
                }
                Step::Remove(i) if !live.is_empty() => {
                    let held = live.swap_remove(i % live.len());
                    prop_assert_eq!(slots.remove(held.id), Ok(held.value));
                    free.push(held.id.index());
                    gone.push(held.id);
                }
                _ => {}
            }
            prop_assert_eq!(slots.len(), live.len());
            for held in &live {
                prop_assert_eq!(slots.get(held.id), Ok(&held.value));
                prop_assert_eq!(slots.at(held.id.index()), Some((held.id, &held.value)));
            }
            for &id in &gone {
                prop_assert_eq!(slots.get(id), Err(Stale));
                prop_assert_eq!(slots.release(id), Err(Stale));
                prop_assert_eq!(slots.retain(id), Err(Stale));
            }
            prop_assert_eq!(slots.iter().count(), live.len());
        }
    }
}

#[test]
fn an_id_outside_of_the_table_or_never_handed_out_is_stale() {
    let mut slots = Slots::new([const { Slot::<u8>::EMPTY }; 2]);
    for bits in [0, 1, 2, u64::MAX, 1 << 32, 7 << 32 | 1] {
        assert_eq!(slots.get(Id::from_bits(bits)), Err(Stale));
        assert_eq!(slots.release(Id::from_bits(bits)), Err(Stale));
    }
    assert!(slots.take(1).is_ok());
    assert_eq!(slots.get(Id::new(1, Generation::FIRST)), Err(Stale));
}

#[test]
fn a_second_table_over_the_same_slots_refuses_the_ids_of_the_first() {
    let mut lent = [const { Slot::EMPTY }; 2];
    let old = Slots::new(&mut lent[..]).take('a').unwrap();
    let mut slots = Slots::new(&mut lent[..]);
    let new = slots.take('b').unwrap();
    assert_eq!(new.index(), old.index());
    assert_eq!((slots.get(old), slots.get(new)), (Err(Stale), Ok(&'b')));
}
