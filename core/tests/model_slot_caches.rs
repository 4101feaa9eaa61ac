//! The slot caches against a map of what is where: every policy, both indices.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod orders;

use std::collections::HashMap;

use orders::{Held, Order};
use proptest::prelude::*;
use umbra_core::cache::policy::{Clock, Fifo, Lru, NextUse, Policy, S3Fifo, Sieve};
use umbra_core::cache::{
    AllocError, Dense, FillError, ForgetError, Forgetful, Found, FreeError, GetError, Glance, Grant, Index, Line, Slot,
    Sparse, State,
};

const IDS: u64 = 40;
/// References of one data id at most.
const MOST: u32 = 4;

#[derive(Clone, Copy, Debug)]
enum Step {
    Alloc(u64),
    Remember(u64),
    /// With the distance to the next use, for the policy that wants to know.
    Free(u64, Option<u64>),
    Forget(u64),
    ForgetLater(u64),
    Abandon(u64),
    /// And whether the load succeeds if there is one.
    Get(u64, bool),
    Interrupt,
}

fn step() -> impl Strategy<Value = Step> {
    let data = || 0..IDS;
    prop_oneof![
        400 => data().prop_map(Step::Alloc),
        250 => data().prop_map(Step::Remember),
        400 => (data(), prop::option::of(0_u64..50)).prop_map(|(data, ahead)| Step::Free(data, ahead)),
        30 => data().prop_map(Step::Forget),
        10 => data().prop_map(Step::ForgetLater),
        20 => data().prop_map(Step::Abandon),
        200 => (data(), prop::bool::weighted(0.8)).prop_map(|(data, loads)| Step::Get(data, loads)),
        1 => Just(Step::Interrupt),
    ]
}

#[derive(Clone, Copy)]
struct Entry {
    slot: u32,
    count: u32,
    valid: bool,
    abandoned: bool,
    leaving: bool,
}

/// What the requirements say, with a map.
struct Model<O> {
    entries: HashMap<u64, Entry>,
    empty: Vec<u32>,
    order: O,
    interrupted: bool,
}

impl<O: Order> Model<O> {
    fn new(slots: u32, order: O) -> Self {
        Model { entries: HashMap::new(), empty: (0..slots).rev().collect(), order, interrupted: false }
    }

    fn held(&self, data: u64) -> Held {
        Held { slot: self.entries[&data].slot, data }
    }

    fn alloc(&mut self, data: u64, slots: u32) -> Result<Grant, AllocError> {
        if self.interrupted {
            return Err(AllocError::Interrupted);
        }
        if let Some(entry) = self.entries.get_mut(&data) {
            if entry.count == MOST {
                return Err(AllocError::TooManyReferences { data, most: MOST });
            }
            entry.count += 1;
            let found = match entry {
                Entry { valid: true, .. } => Found::Remembered,
                Entry { abandoned: true, .. } => Found::Empty,
                _ => Found::Assigned,
            };
            entry.abandoned = false;
            let Entry { slot, count: references, .. } = *entry;
            if found == Found::Remembered {
                self.order.hit(Held { slot, data });
            }
            return Ok(Grant::new(slot, found, references));
        }
        let slot = match self.empty.pop() {
            Some(slot) => slot,
            None => {
                let entries = &self.entries;
                let in_use = |slot| entries.values().any(|entry| entry.slot == slot && entry.count > 0);
                if !entries.values().any(|entry| entry.count == 0) {
                    return Err(AllocError::Full { slots });
                }
                let victim = self.order.victim(&in_use).unwrap();
                self.entries.remove(&victim.data).unwrap().slot
            }
        };
        self.entries.insert(data, Entry { slot, count: 1, valid: false, abandoned: false, leaving: false });
        Ok(Grant::new(slot, Found::Empty, 1))
    }

    fn free(&mut self, data: u64, next: Option<u64>) -> Result<(), FreeError> {
        if self.interrupted {
            return Err(FreeError::Interrupted);
        }
        let entry = self.entries.get_mut(&data).ok_or(FreeError::NotAssigned { data })?;
        entry.count = entry.count.checked_sub(1).ok_or(FreeError::NotInUse { data })?;
        match *entry {
            Entry { count: 0, valid: true, leaving: false, .. } => self.order.idle(self.held(data), next),
            Entry { count: 0, .. } => self.drop(data),
            _ => {}
        }
        Ok(())
    }

    fn drop(&mut self, data: u64) {
        self.order.leave(self.held(data));
        let entry = self.entries.remove(&data).unwrap();
        self.empty.push(entry.slot);
    }

    fn fill(&mut self, data: u64, abandon: bool) -> Result<(), FillError> {
        if self.interrupted {
            return Err(FillError::Interrupted);
        }
        let entry = self.entries.get_mut(&data).ok_or(FillError::NotAssigned { data })?;
        if entry.valid {
            return Err(FillError::AlreadyRemembered { data });
        }
        (entry.valid, entry.abandoned) = (!abandon, abandon);
        Ok(())
    }

    fn forget(&mut self, data: u64, later: bool) -> Result<bool, ForgetError> {
        if self.interrupted {
            return Err(ForgetError::Interrupted);
        }
        match self.entries.get_mut(&data) {
            None => return Ok(false),
            Some(Entry { valid: false, .. }) => return Err(ForgetError::NotRemembered { data }),
            Some(Entry { count: 0, .. }) => self.drop(data),
            Some(entry) if later => entry.leaving = true,
            Some(&mut Entry { count: references, .. }) => return Err(ForgetError::InUse { data, references }),
        }
        Ok(true)
    }

    /// One call after the other; what was given to be filled.
    fn get(&mut self, data: u64, loads: bool, slots: u32) -> (Option<u32>, Result<u32, GetError<u64>>) {
        let Grant { slot, found, .. } = match self.alloc(data, slots) {
            Ok(grant) => grant,
            Err(error) => return (None, Err(GetError::Alloc(error))),
        };
        let told = (found == Found::Empty).then_some(slot);
        if told.is_some() {
            self.fill(data, !loads).unwrap();
        }
        self.free(data, None).unwrap();
        let got = match found {
            Found::Assigned => Err(GetError::Filling { data }),
            Found::Empty if !loads => Err(GetError::Fill(data)),
            _ => Ok(slot),
        };
        (told, got)
    }

    fn state(&self, data: u64) -> Option<State> {
        self.entries.get(&data).map(|entry| match entry {
            Entry { count: 0, .. } => State::Idle,
            Entry { valid: true, .. } => State::InUse,
            Entry { abandoned: true, .. } => State::Abandoned,
            _ => State::Filling,
        })
    }
}

type Owned<I, P> = Forgetful<Vec<Slot>, I, P>;

/// Frees with the next use, where a policy takes it.
type FreeUntil<I, P> = fn(&mut Owned<I, P>, now: u64, data: u64, next: Option<u64>) -> Result<(), FreeError>;

fn plainly<I: Index, P: Policy>(cache: &mut Owned<I, P>, _: u64, data: u64, _: Option<u64>) -> Result<(), FreeError> {
    cache.free(data)
}

fn knowing<I: Index>(
    cache: &mut Owned<I, NextUse<Vec<u32>>>,
    now: u64,
    data: u64,
    next: Option<u64>,
) -> Result<(), FreeError> {
    cache.now(now);
    match next {
        Some(point) => cache.free_until_used_at(data, point),
        None => cache.free(data),
    }
}

fn follows<I: Index + std::fmt::Debug + Clone, P: Policy + std::fmt::Debug + Clone, O: Order>(
    (slots, index, id): World<I>,
    (policy, order): (P, O),
    free: FreeUntil<I, P>,
    steps: impl IntoIterator<Item = Step>,
    closely: bool,
) -> Result<(), TestCaseError> {
    let records = vec![Slot::EMPTY; slots as usize];
    let mut cache = Forgetful::new(records, index, policy, 0..slots).unwrap().with_most_references(MOST);
    let mut model = Model::new(slots, order);
    for (now, step) in (0..).zip(steps) {
        let before = closely.then(|| format!("{cache:?}"));
        let refused = match step {
            Step::Alloc(data) => {
                let got = cache.alloc(id(data));
                prop_assert_eq!(got, model.alloc(id(data), slots), "{} {:?}", now, step);
                // That one was refused is counted.
                got.is_err_and(|error| !matches!(error, AllocError::Full { .. }))
            }
            Step::Remember(data) => {
                let got = cache.remember(id(data));
                prop_assert_eq!(got, model.fill(id(data), false));
                got.is_err()
            }
            Step::Free(data, ahead) => {
                let next = ahead.map(|ahead| now + ahead);
                // Between frees time stands still for both.
                model.order.now(now);
                prop_assert_eq!(free(&mut cache, now, id(data), next), model.free(id(data), next));
                false
            }
            Step::Forget(data) => {
                let got = cache.forget(id(data));
                prop_assert_eq!(got, model.forget(id(data), false));
                got.is_err()
            }
            Step::ForgetLater(data) => {
                let got = cache.forget_later(id(data));
                prop_assert_eq!(got, model.forget(id(data), true));
                got.is_err()
            }
            Step::Abandon(data) => {
                let got = cache.abandon(id(data));
                prop_assert_eq!(got, model.fill(id(data), true));
                got.is_err()
            }
            Step::Get(data, loads) => {
                let mut told = None;
                let got = cache.get_or_fill(id(data), |slot| {
                    told = Some(slot);
                    if loads { Ok(()) } else { Err(id(data)) }
                });
                prop_assert_eq!((told, got), model.get(id(data), loads, slots), "{} {:?}", now, step);
                false
            }
            Step::Interrupt => {
                cache.interrupt();
                model.interrupted = true;
                false
            }
        };
        let Some(before) = before else { continue };
        if refused {
            prop_assert_eq!(before, format!("{cache:?}"), "a refusal changes nothing");
        }
        if model.interrupted {
            prop_assert!(cache.len().is_err());
            continue;
        }
        for data in 0..IDS {
            prop_assert_eq!(cache.state(id(data)).unwrap(), model.state(id(data)));
        }
        prop_assert_eq!(cache.len().unwrap() as usize, model.entries.len());
        prop_assert_eq!(cache.idle().unwrap() as usize, model.entries.values().filter(|e| e.count == 0).count());
        prop_assert_eq!(cache.has_room().unwrap(), !model.empty.is_empty() || cache.idle().unwrap() > 0);
    }
    Ok(())
}

/// How many slots, the index, and what becomes of small numbers to be ids.
type World<I> = (u32, I, fn(u64) -> u64);

fn dense(slots: u32) -> World<Dense<Vec<u32>>> {
    (slots, Dense::new(vec![7; IDS as usize]), |data| data)
}

/// A small index, and ids of which some lie side by side and some nowhere near.
fn sparse(slots: u32) -> World<Sparse<Vec<Line>, Vec<u64>>> {
    let lines = (slots as usize).div_ceil(12);
    (slots, Sparse::new(vec![Line::EMPTY; lines], vec![0; slots as usize], 0), |data| {
        if data % 3 == 0 { data << 57 | 1 } else { data }
    })
}

fn calendar() -> NextUse<Vec<u32>> {
    NextUse::new(vec![0; 130], 60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn s72_a_cache_does_what_a_map_does(slots in 1_u32..14, steps in prop::collection::vec(step(), 1..300)) {
        let steps = || steps.iter().copied();
        follows(dense(slots), (Fifo::new(), orders::Fifo::default()), plainly, steps(), true)?;
        follows(sparse(slots), (Lru::new(), orders::Lru::default()), plainly, steps(), true)?;
        follows(dense(slots), (Clock::new(), orders::Clock::default()), plainly, steps(), true)?;
        follows(sparse(slots), (Sieve::new(), orders::Sieve::default()), plainly, steps(), true)?;
        follows(sparse(slots), (S3Fifo::new(), orders::S3Fifo::new(slots)), plainly, steps(), false)?;
        follows(dense(slots), (calendar(), orders::NextUse::default()), knowing, steps(), true)?;
        follows(sparse(slots), (calendar(), orders::NextUse::default()), knowing, steps(), true)?;
    }
}

/// Ids after Zipf's law, each taken, remembered and freed, as in a plain cache.
fn zipf(count: u64) -> impl Iterator<Item = Step> {
    // Where the share of each id ends: the n-th has 1/n of what the first one has.
    let ends = (1..=IDS).scan(0, |end, n| {
        *end += (1 << 24) / n;
        Some(*end)
    });
    let ends: Vec<u64> = ends.collect();
    let mut seed = 3_u64;
    (0..count).flat_map(move |_| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let draw = ((seed >> 32) * ends[ends.len() - 1]) >> 32;
        let data = ends.partition_point(|&end| end <= draw) as u64;
        let ahead = ((seed >> 20) & 7 != 0).then_some((seed >> 24) & 31);
        // Both ways to look something up lead to the same victims.
        let one = [Step::Get(data, true), Step::Get(data, true), Step::Get(data, true)];
        if seed & 1 << 40 == 0 { one } else { [Step::Alloc(data), Step::Remember(data), Step::Free(data, ahead)] }
    })
}

#[test]
fn s70_every_policy_names_the_victims_that_a_plain_list_names() {
    let steps = || zipf(1_000_000);
    for slots in [3, 11, 25] {
        follows(sparse(slots), (Fifo::new(), orders::Fifo::default()), plainly, steps(), false).unwrap();
        follows(sparse(slots), (Lru::new(), orders::Lru::default()), plainly, steps(), false).unwrap();
        follows(sparse(slots), (Clock::new(), orders::Clock::default()), plainly, steps(), false).unwrap();
        follows(sparse(slots), (Sieve::new(), orders::Sieve::default()), plainly, steps(), false).unwrap();
        follows(dense(slots), (Clock::new(), orders::Clock::default()), plainly, steps(), false).unwrap();
        follows(dense(slots), (Sieve::new(), orders::Sieve::default()), plainly, steps(), false).unwrap();
        let s3fifo = (S3Fifo::new(), orders::S3Fifo::new(slots));
        follows(sparse(slots), s3fifo, plainly, steps(), false).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_sparse_index_finds_what_was_entered(
        lines in 1_usize..13,
        seed: u64,
        shift in 0_u32..20,
        steps in prop::collection::vec((any::<bool>(), 0_u64..256, any::<bool>()), 1..400),
    ) {
        let mut index = Sparse::new(vec![Line::EMPTY; lines], vec![0; lines * 12], seed);
        // A number is what is left of a word above these bits, which are for others to use.
        index.numbers_from(shift);
        let beside = |number: usize| (number as u32) << shift | (number as u32 * 7) & ((1 << shift) - 1);
        // What was entered: a number is a place in here.
        let mut ids: Vec<Option<u64>> = vec![None; index.room()];
        for (enter, small, far) in steps {
            let data = if far { small << 55 | 5 } else { small };
            let found = index.find(data);
            let expected = ids.iter().position(|&id| id == Some(data)).map(beside);
            prop_assert_eq!(found, expected);
            match (found, ids.iter().position(Option::is_none)) {
                (None, Some(free)) if enter => {
                    index.enter(data, beside(free));
                    ids[free] = Some(data);
                }
                (Some(number), _) if !enter => {
                    prop_assert_eq!(index.pick(data, |_| false), None);
                    prop_assert_eq!(index.find(data), Some(number));
                    let picked = index.pick(data, |found| found == number);
                    prop_assert!(picked == Some(number) || picked.is_none() && index.find(data) == Some(number));
                    index.remove(data);
                    ids[(number >> shift) as usize] = None;
                }
                _ => {}
            }
            // Every search that there is, by turns: none may be misled by what another one found before.
            for (number, id) in ids.iter().enumerate() {
                let number = beside(number);
                let Some(id) = *id else { continue };
                let seen = |glance: Glance<'_>| match glance {
                    Glance::Here(_, number) => Ok(Some(*number)),
                    Glance::Absent => Ok(None),
                    Glance::Further => Err(()),
                };
                prop_assert_eq!(index.find(id), Some(number));
                let place = index.spot(index.fetch(id));
                let glances = [
                    seen(index.glance_at(place, id)),
                    seen(index.glance(id)),
                    seen(index.glance_again(id)),
                    seen(index.glance_first(id)),
                ];
                prop_assert!(glances.iter().all(|by| [Ok(Some(number)), Err(())].contains(by)));
                prop_assert_eq!(index.seek(id).map(|(_, number)| number), Some(number));
                prop_assert_eq!(seen(index.glance_again(id)), Ok(Some(number)));
            }
        }
    }
}
