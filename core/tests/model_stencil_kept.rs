//! What a group hands on, beside a cache in which all of it is given back.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod random;

use std::collections::VecDeque;

use proptest::prelude::*;
use umbra_core::cache::Slot;
use umbra_core::id::Id;
use umbra_core::stencil::{
    Action, Future, Group, Input, Limits, Member, Names, Reference, Runs, Stencil, Storage, Use, count,
};

use random::Random;

type Vectors = Storage<Vec<Slot>, Vec<u32>, Vec<Input>, Vec<Group>, Vec<Reference>>;
type Cache<'a> = Stencil<Vectors, Turned, Listed<'a>>;

/// Inputs that groups choose from.
const INPUTS: u64 = 24;
/// Members of a group at most.
const MEMBERS: usize = 16;

/// Rows begin so far from each other.
const ROW: u64 = 8;

/// Ids whose numbers go on by one for a while, and then elsewhere.
#[derive(Clone, Copy)]
struct Turned(u64);

impl Names for Turned {
    fn number(&self, data: u64) -> Option<u32> {
        u32::try_from(data ^ self.0).ok()
    }

    fn data(&self, number: u32) -> Option<u64> {
        Some(u64::from(number) ^ self.0)
    }
}

/// Knows all groups, and says beforehand what the next one uses, or does not.
struct Listed<'a> {
    groups: &'a [Vec<u64>],
    says: bool,
}

impl Listed<'_> {
    fn group(&self, number: u64) -> &[u64] {
        self.groups.get(number as usize).map_or(&[], Vec::as_slice)
    }
}

impl Future for Listed<'_> {
    type Present = u64;

    fn present(&self, group: u64) -> u64 {
        group
    }

    fn next_use(&self, data: u64, present: u64) -> Use {
        let mut later = present + 1..self.groups.len() as u64;
        later.find(|&group| self.group(group).contains(&data)).map_or(Use::Never, Use::At)
    }

    fn is_next(&self, data: u64, present: u64) -> bool {
        self.group(present + 1).contains(&data)
    }

    fn next_runs(&self, present: u64) -> Runs {
        let next = self.group(present + 1);
        let Some(&first) = next.first().filter(|_| self.says) else { return Runs::NONE };
        let length = (first..).take_while(|data| next.contains(data)).count() as u64;
        // The same again, as far as it is right.
        let right = |row: &u64| (0..length).all(|at| next.contains(&(first + row * ROW + at)));
        let more = (1..3).take_while(right).count() as u32;
        Runs::new(first, length, [more, 0], [ROW, 0])
    }
}

/// Groups as boxes that move on, with gaps, jumps, and members named twice or in any order.
fn groups(chance: &mut Random) -> Vec<Vec<u64>> {
    let (mut at, mut width, mut rows) = (0, 6, 2);
    (0..30)
        .map(|_| {
            at = (at + 1) % 12;
            if chance.below(5) == 0 {
                (at, width, rows) = (chance.below(12), 1 + chance.below(6), 1 + chance.below(2));
            }
            let mut members: Vec<u64> = (0..rows)
                .flat_map(|row| (at + ROW * row..at + ROW * row + width).filter(|&data| data < INPUTS))
                .collect();
            if chance.below(4) == 0 {
                members.retain(|_| chance.below(10) > 0);
            }
            if chance.below(8) == 0 {
                members.extend(members.first().copied());
            }
            if chance.below(8) == 0 {
                members.reverse();
            }
            members
        })
        .collect()
}

fn cache(
    groups: &[Vec<u64>],
    names: Turned,
    says: bool,
    slots: u32,
    [active, records]: [u32; 2],
    unbounded: bool,
) -> Cache<'_> {
    let records = records as usize;
    let mut inputs = vec![if unbounded { Input::UNBOUNDED } else { Input::NOT_USED }; INPUTS as usize];
    for group in groups {
        let numbers: Vec<u64> = group.iter().map(|data| data ^ names.0).collect();
        count(&mut inputs, &numbers).unwrap();
    }
    let storage = Storage {
        slots: vec![Slot::EMPTY; slots as usize],
        buckets: vec![0; 64],
        inputs,
        groups: vec![Group::EMPTY; records],
        references: vec![Reference::EMPTY; MEMBERS * records],
    };
    let limits = Limits { largest_group: 12, active, horizon: 60 };
    Stencil::new(storage, names, Listed { groups, says }, 0..slots, limits).unwrap()
}

/// Does the same to both caches, and compares all that they tell.
fn both<T: PartialEq + std::fmt::Debug>(caches: &mut [Cache<'_>; 2], mut what: impl FnMut(&mut Cache<'_>) -> T) -> T {
    let [one, other] = caches;
    let (told, by_other) = (what(one), what(other));
    assert_eq!(told, by_other);
    let state = |cache: &Cache<'_>| {
        let slots: Vec<bool> = (0..INPUTS).map(|data| cache.has_slot(data)).collect();
        let left: Vec<(u64, u32)> = cache.unclaimed().collect();
        (cache.idle(), cache.len(), cache.statistics(), slots, left, cache.under_way())
    };
    assert_eq!(state(one), state(other));
    told
}

/// What is to be answered.
#[derive(Default)]
struct Open {
    loads: VecDeque<u64>,
    ready: VecDeque<(Id<Group>, u64)>,
    /// Inputs of which references were handed over.
    held: Vec<u64>,
}

/// Answers one question of both caches, if they have any; whether they had.
fn answer(
    caches: &mut [Cache<'_>; 2],
    groups: &[Vec<u64>],
    chance: &mut Random,
    open: &mut Open,
    failing: bool,
) -> bool {
    let Open { loads, ready, held } = open;
    while let Some(action) = both(caches, |cache| cache.poll()) {
        match action {
            Action::Prepare { data, .. } => loads.push_back(data),
            Action::Ready { group, point } => ready.push_back((group, point)),
            Action::Failed { .. } | Action::Interrupted { .. } => {}
        }
    }
    if let Some(data) = loads.pop_front() {
        if failing && chance.below(8) == 0 {
            both(caches, |cache| cache.failed(data)).unwrap();
        } else {
            both(caches, |cache| cache.prepared(data)).unwrap();
        }
        return true;
    }
    let Some((group, point)) = ready.pop_front() else {
        let Some(data) = held.pop() else { return false };
        both(caches, |cache| cache.free(data)).unwrap();
        return true;
    };
    if chance.below(12) == 0 {
        both(caches, |cache| cache.hand_over(group, &mut [0; MEMBERS])).unwrap();
        held.extend(&groups[point as usize]);
    } else {
        both(caches, |cache| cache.free_group(group)).unwrap();
    }
    true
}

/// Serves a group to its end.
fn serve(cache: &mut Cache<'_>, point: u64, group: &[u64]) {
    let mut served = false;
    cache.submit(point, group).unwrap();
    while let Some(action) = cache.poll() {
        match action {
            Action::Prepare { data, .. } => cache.prepared(data).unwrap(),
            Action::Ready { group, .. } => {
                cache.free_group(group).unwrap();
                served = true;
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(served, "{group:?} waits for ever");
}

/// Submits what is refused behind these members in another order: an input that there is not, or one more than there are slots.
fn refuse(cache: &mut Cache<'_>, chance: &mut Random, group: &[u64], slots: u32) {
    let mut members = group.to_vec();
    members.reverse();
    let first = chance.below(1 + members.len() as u64);
    members.rotate_left(first as usize);
    if chance.below(2) == 0 {
        members.push(INPUTS + 1);
    } else {
        let others: Vec<u64> = (0..INPUTS).filter(|data| !group.contains(data)).collect();
        let different = INPUTS as usize - others.len();
        members.extend(&others[..slots as usize + 1 - different]);
    }
    let before = (cache.idle(), cache.len(), cache.statistics());
    assert!(cache.submit(99, &members).is_err(), "{members:?}");
    assert_eq!((cache.idle(), cache.len(), cache.statistics()), before);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn what_is_kept_is_as_if_it_had_been_given_back(
        seed: u64,
        active in 1_u32..3,
        records in 1_u32..4,
        turned in 0_u64..8,
        unbounded: bool,
        failing: bool,
    ) {
        let mut chance = Random(seed);
        let groups = groups(&mut chance);
        // Slots for all: which of two inputs leaves that are used next by the same group is not said.
        let mut caches = [true, false].map(|says| {
            cache(&groups, Turned(turned), says, INPUTS as u32, [active, records], unbounded)
        });
        let (mut open, mut next) = (Open::default(), 0);
        while next < groups.len() {
            match chance.below(9) {
                0 => {
                    // Refused behind some members: nothing has changed.
                    let members: Vec<u64> = groups[next].iter().copied().chain([INPUTS + 1]).collect();
                    prop_assert!(both(&mut caches, |cache| cache.submit(99, &members)).is_err());
                }
                1 => {
                    let scratch = chance.below(2) == 0;
                    let kind = |&data: &u64| if scratch { Member::Scratch(data) } else { Member::Load(data) };
                    let members: Vec<Member> = groups[next].iter().map(kind).collect();
                    let accepted = both(&mut caches, |cache| cache.submit_members(next as u64, members.iter().copied()));
                    next += usize::from(accepted.is_ok());
                }
                2..4 => {
                    let accepted = both(&mut caches, |cache| cache.submit(next as u64, &groups[next]));
                    next += usize::from(accepted.is_ok());
                }
                _ => {
                    answer(&mut caches, &groups, &mut chance, &mut open, failing);
                }
            }
            if !failing && caches[0].under_way() == records as usize {
                answer(&mut caches, &groups, &mut chance, &mut open, failing);
            }
        }
        while answer(&mut caches, &groups, &mut chance, &mut open, false) {}
        prop_assert_eq!(caches[0].idle(), caches[0].len(), "nothing is held any more");
    }

    #[test]
    fn with_few_slots_what_is_kept_costs_no_load(seed: u64, slots in 12_u32..17, turned in 0_u64..8) {
        let mut chance = Random(seed);
        let groups = groups(&mut chance);
        let loads = [true, false].map(|says| {
            let mut cache = cache(&groups, Turned(turned), says, slots, [1, 1], true);
            let mut chance = Random(seed ^ 1);
            let count = 1 + chance.below(groups.len() as u64 - 1);
            for (number, group) in (0..count).zip(&groups) {
                if chance.below(3) == 0 {
                    refuse(&mut cache, &mut chance, group, slots);
                }
                serve(&mut cache, number, group);
            }
            assert_eq!(cache.idle(), cache.len());
            let loads = cache.statistics().loads;
            // Each slot is found for another input.
            refuse(&mut cache, &mut chance, &groups[count as usize], slots);
            let others: Vec<u64> = (INPUTS - u64::from(slots)..INPUTS).collect();
            serve(&mut cache, count, &others);
            loads
        });
        prop_assert_eq!(loads[0], loads[1]);
    }
}
