//! The fewest loads with which groups can be served in a given order.
//!
//! A group needs all of its inputs in slots at the same time; the next one comes when it is done. Then giving up what
//! is used farthest ahead, but no input of the group at hand, is optimal (Belady's rule on the sequence in which each
//! group comes twice: the second time nothing may be missing).
//!
//! *Cost*: O(references · log references) time, 20 bytes a reference and 4 a possible input ([`bytes`]).

use std::collections::BinaryHeap;

use super::{Groups, Stop};
use crate::sys::heap::reserved;

/// Never used again, or not in a slot.
const NEVER: u32 = u32::MAX;

/// Bytes of memory that it takes to find the fewest loads for these groups.
#[must_use]
pub fn bytes(groups: &Groups) -> u64 {
    let of_reference = size_of::<u32>() + size_of::<(u32, u64)>();
    let references = groups.references().saturating_mul(of_reference);
    references.saturating_add(groups.inputs().saturating_mul(size_of::<u32>())) as u64
}

/// The fewest loads for these groups with so many slots; `None` if a group has more inputs than there are slots, or
/// without memory to find them.
#[must_use]
pub fn loads(groups: &Groups, slots: usize) -> Option<u64> {
    loads_unless(groups, slots, &Stop::default())
}

/// As [`loads`]; also `None` soon after `stop` is set.
#[must_use]
pub fn loads_unless(groups: &Groups, slots: usize, stop: &Stop) -> Option<u64> {
    let mut next = reserved(groups.inputs(), || NEVER).ok()?;
    // Of each reference, the group that uses its input next.
    let mut uses = reserved(groups.references(), || NEVER).ok()?;
    let mut at = groups.references();
    for number in (0..groups.len()).rev() {
        if stop.is_set() {
            return None;
        }
        let group = groups.get(number);
        at -= group.len();
        for (reference, &data) in group.iter().enumerate() {
            uses[at + reference] = next[data as usize];
        }
        for &data in group {
            next[data as usize] = number as u32;
        }
    }
    next.fill(NEVER);
    // Pairs that are not true any more are left in the heap and passed over.
    let mut farthest = BinaryHeap::new();
    let (mut resident, mut loads) = (0, 0);
    let mut new = Vec::new();
    for (number, group) in groups.iter().enumerate() {
        if stop.is_set() {
            return None;
        }
        new.clear();
        new.extend(group.iter().copied().filter(|&data| next[data as usize] == NEVER));
        new.sort_unstable();
        new.dedup();
        loads += new.len() as u64;
        resident += new.len();
        while resident > slots {
            let (when, data) = farthest.pop()?;
            // What is used by this very group comes last in the heap.
            if when == number as u32 {
                return None;
            }
            if next[data as usize] == when {
                next[data as usize] = NEVER;
                resident -= 1;
            }
        }
        for (reference, &data) in group.iter().enumerate() {
            next[data as usize] = uses[at + reference];
        }
        at += group.len();
        farthest.try_reserve(group.len()).ok()?;
        for &data in group {
            match next[data as usize] {
                // An input that is named twice is counted once.
                NEVER if !new.contains(&(data | GONE)) => {
                    new.push(data | GONE);
                    resident -= 1;
                }
                NEVER => {}
                when => farthest.push((when, data)),
            }
        }
    }
    Some(loads)
}

/// Marks data of the group at hand that left.
const GONE: u64 = 1 << 63;

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

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
            let groups: Groups =
                (0..below(12)).map(|_| (0..below(4)).map(|_| below(ids)).collect::<Vec<u64>>()).collect();
            assert_eq!(loads(&groups, slots as usize), brute_force(&groups, slots as u32), "{groups:?} {slots}");
        }
    }
}
