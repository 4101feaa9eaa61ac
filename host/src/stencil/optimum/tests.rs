//! The fewest loads against other ways to find them.

use std::collections::{BinaryHeap, HashMap, HashSet};

use super::*;

/// Gives up what is used farthest ahead, but no input of the group at hand.
fn farthest_first(groups: &Groups, slots: usize) -> Option<u64> {
    let next = |after: usize, data: u64| {
        (after + 1..groups.len()).find(|&group| groups.get(group).contains(&data)).unwrap_or(usize::MAX)
    };
    let (mut resident, mut loads) = (HashSet::new(), 0);
    for (number, group) in groups.iter().enumerate() {
        loads += group.iter().filter(|&&data| resident.insert(data)).count() as u64;
        let others = resident.iter().filter(|data| !group.contains(data));
        let mut others: BinaryHeap<_> = others.map(|&data| (next(number, data), data)).collect();
        while resident.len() > slots {
            resident.remove(&others.pop()?.1);
        }
    }
    Some(loads)
}

/// All choices: the sets of what may be in the slots, each with the fewest loads that lead to it.
fn brute_force(groups: &Groups, slots: u32) -> Option<u64> {
    let mut best = HashMap::from([(0_u64, 0)]);
    for group in groups.iter() {
        let needed = group.iter().fold(0, |set, data| set | 1_u64 << data);
        let mut after = HashMap::new();
        for (set, loads) in best {
            let loads = loads + u64::from((needed & !set).count_ones());
            let others = set & !needed;
            // All subsets of what need not stay.
            let mut kept = others;
            loop {
                if (kept | needed).count_ones() <= slots {
                    let least = after.entry(kept | needed).or_insert(loads);
                    *least = loads.min(*least);
                }
                if kept == 0 {
                    break;
                }
                kept = (kept - 1) & others;
            }
        }
        best = after;
    }
    best.values().min().copied()
}

#[test]
fn who_wants_it_no_more_is_not_kept_waiting() {
    let groups: Groups = (0..10_u64).map(|data| [data]).collect();
    let stop = Stop::default();
    assert_eq!(loads_unless(&groups, 1, &stop), Some(10));
    stop.set();
    assert_eq!(loads_unless(&groups, 1, &stop), None);
}

#[test]
fn s65_the_optimum_is_what_trying_all_choices_finds() {
    let mut state = 1_u64;
    let mut below = |end: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % end
    };
    for _ in 0..3000 {
        let (ids, slots) = (1 + below(6), 1 + below(4));
        let groups: Groups = (0..below(12)).map(|_| (0..below(4)).map(|_| below(ids)).collect::<Vec<u64>>()).collect();
        assert_eq!(loads(&groups, slots as usize), brute_force(&groups, slots as u32), "{groups:?} {slots}");
    }
}
#[test]
fn s65_the_optimum_is_what_giving_up_the_farthest_finds() {
    let mut state = 3_u64;
    let mut below = |end: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % end
    };
    for _ in 0..1000 {
        let (ids, slots, largest) = (1 + below(40), 4 + below(20), 1 + below(6));
        let groups: Groups =
            (0..below(120)).map(|_| (0..below(largest)).map(|_| below(ids)).collect::<Vec<u64>>()).collect();
        let fewest = loads(&groups, slots as usize);
        assert_eq!(fewest, farthest_first(&groups, slots as usize), "{groups:?} {slots}");
    }
}

#[test]
fn a_group_that_is_refused_is_not_counted() {
    let mut fewest = Fewest::new(2, 4, 3).unwrap();
    assert_eq!(fewest.serve(&[0, 1, 0]), Ok(()));
    let refused = fewest.serve(&[2, 1, 3]).unwrap_err();
    assert_eq!(refused, FewestError::GroupTooLarge { group: 1, need: 3, have: 2 });
    assert_eq!(refused.to_string(), "group 1 has 3 inputs, and there are 2 slots; take more slots");
    assert_eq!(fewest.serve(&[2, 4]), Err(FewestError::UnknownInput { group: 1, data: 4, inputs: 4 }));
    assert_eq!((fewest.serve(&[2]), fewest.serve(&[0, 1]), fewest.loads()), (Ok(()), Ok(()), 4));
    assert_eq!(fewest.serve(&[0]), Err(FewestError::TooManyGroups { most: 3 }));
    assert_eq!(fewest.loads(), 4);
    let most = u32::MAX as usize - 1;
    assert_eq!(Fewest::new(1, 1, usize::MAX).unwrap_err(), FewestError::TooManyGroups { most });
    assert!(matches!(Fewest::new(1, usize::MAX, 1).unwrap_err(), FewestError::NoMemory { .. }));
}
