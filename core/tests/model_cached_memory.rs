//! The cached memory against a map of intervals.
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::BTreeMap;

use proptest::prelude::*;
use umbra_core::cache::{Dense, FillError, ForgetError, Found, FreeError, Slot, State};
use umbra_core::cached_memory::{CachedMemory, Lent, Member, PlaceError, Run, bits_needed, records_needed};
use umbra_core::memory::{Block, Granule};

const GRANULE: u64 = 16;
const DATA: u64 = 24;

type Cached = CachedMemory<Vec<Block>, Vec<Slot>, Vec<Run>, Vec<u32>, Vec<u64>, Dense<Vec<u32>>>;

fn cached(places: usize, granules: u64) -> Cached {
    let (records, unit) = (records_needed(places), Granule::new(GRANULE).unwrap());
    let lent = Lent {
        blocks: vec![Block::default(); records],
        slots: vec![Slot::EMPTY; records],
        runs: vec![Run::EMPTY; records + 1],
        starts: vec![7; granules as usize],
        bits: vec![u64::MAX; bits_needed(granules * GRANULE, unit)],
    };
    CachedMemory::new(lent, Dense::new(vec![0; DATA as usize]), granules * GRANULE, unit).unwrap()
}

#[derive(Clone, Copy, PartialEq, Debug)]
struct Entry {
    offset: u64,
    len: u64,
    references: u32,
    state: State,
    leaving: bool,
}

#[derive(Clone, Debug)]
enum Step {
    Alloc(u64, u64),
    Group(Vec<(u64, u64)>),
    Free(u64),
    FreeWantedIn(u64, u64),
    Remember(u64),
    Abandon(u64),
    Forget(u64),
    ForgetLater(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let data = || 0..DATA;
    // A length belongs to its data as a rule.
    let wish = || (data(), prop_oneof![30 => Just(None), 1 => (0u64..400).prop_map(Some)]);
    let len = |(data, len): (u64, Option<u64>)| (data, len.unwrap_or(data * data + 1));
    prop_oneof![
        6 => wish().prop_map(move |wish| { let (data, len) = len(wish); Step::Alloc(data, len) }),
        3 => prop::collection::vec(wish().prop_map(len), 0..5).prop_map(Step::Group),
        8 => data().prop_map(Step::Free),
        1 => (data(), 0u64..100).prop_map(|(data, frees)| Step::FreeWantedIn(data, frees)),
        5 => data().prop_map(Step::Remember),
        1 => data().prop_map(Step::Abandon),
        1 => data().prop_map(Step::Forget),
        1 => data().prop_map(Step::ForgetLater),
    ]
}

fn rounded(len: u64) -> u64 {
    len.next_multiple_of(GRANULE)
}

/// Stretches that are not covered by the intervals.
fn gaps(intervals: impl Iterator<Item = (u64, u64)>, capacity: u64) -> Vec<u64> {
    let mut sorted: Vec<_> = intervals.collect();
    sorted.sort_unstable();
    let (mut at, mut gaps) = (0, vec![]);
    for (offset, len) in sorted {
        assert!(offset >= at, "places overlap at {offset}");
        gaps.push(offset - at);
        at = offset + len;
    }
    assert!(at <= capacity);
    gaps.push(capacity - at);
    gaps
}

struct Model {
    entries: BTreeMap<u64, Entry>,
    capacity: u64,
    places: usize,
}

impl Model {
    fn longest_run(&self) -> u64 {
        let used = self.entries.values().filter(|entry| entry.references > 0);
        gaps(used.map(|entry| (entry.offset, entry.len)), self.capacity).into_iter().max().unwrap()
    }

    fn longest_hole(&self) -> u64 {
        gaps(self.entries.values().map(|entry| (entry.offset, entry.len)), self.capacity).into_iter().max().unwrap()
    }

    fn idle(&self) -> usize {
        self.entries.values().filter(|entry| entry.references == 0).count()
    }

    /// Takes note of what left; only idle content may.
    fn evict(&mut self, memory: &Cached) {
        self.entries.retain(|&data, entry| {
            let there = memory.state(data).unwrap().is_some();
            assert!(there || entry.references == 0, "data {data} left while in use");
            there
        });
    }

    fn agree(&self, memory: &Cached) {
        for data in 0..DATA {
            assert_eq!(memory.state(data).unwrap(), self.entries.get(&data).map(|entry| entry.state), "{data}");
        }
        let all: u64 = self.entries.values().map(|entry| entry.len).sum();
        assert_eq!(memory.figures().free, self.capacity - all, "bytes are conserved");
        assert_eq!(memory.figures().largest, self.longest_hole());
        assert_eq!(memory.idle() as usize, self.idle());
        let used = self.entries.values().filter(|entry| entry.references > 0);
        let in_use = used.fold((0, 0), |(count, bytes), entry| (count + 1, bytes + entry.len));
        assert_eq!(memory.in_use(), in_use);
        // As it is, and with all that is in use in runs: who waits is told by these.
        let mut waited = memory.clone();
        let turn = waited.line_up(&[]).unwrap();
        assert!(waited.leave_line(turn));
        for (run, longest) in [memory, &waited].map(|memory| (memory.longest_run(), self.longest_run())) {
            assert!(run <= longest && run >= longest - longest / 32);
        }
        let filling = self.entries.iter().filter(|(_, entry)| entry.state == State::Filling);
        let mut filling: Vec<_> = filling.map(|(&data, entry)| (data, entry.offset)).collect();
        let mut fills: Vec<_> = memory.outstanding_fills().collect();
        filling.sort_unstable();
        fills.sort_unstable();
        assert_eq!(fills, filling);
    }

    fn join(&mut self, data: u64) -> (Found, Entry) {
        let entry = self.entries.get_mut(&data).unwrap();
        entry.references += 1;
        let found = match entry.state {
            State::Idle | State::InUse => {
                entry.state = State::InUse;
                Found::Remembered
            }
            State::Abandoned => {
                entry.state = State::Filling;
                Found::Empty
            }
            State::Filling => Found::Assigned,
        };
        (found, *entry)
    }

    fn enter(&mut self, data: u64, offset: u64, len: u64) {
        let entry = Entry { offset, len: rounded(len), references: 1, state: State::Filling, leaving: false };
        self.entries.insert(data, entry);
    }

    fn alloc(&mut self, memory: &mut Cached, data: u64, len: u64) {
        let result = memory.alloc(data, len);
        let whole = rounded(len);
        if len == 0 {
            assert_eq!(result, Err(PlaceError::ZeroSize { data }));
        } else if whole > self.capacity {
            assert_eq!(result, Err(PlaceError::TooLarge { need: len, capacity: self.capacity }));
        } else if let Some(entry) = self.entries.get(&data) {
            if entry.len != whole {
                assert_eq!(result, Err(PlaceError::SizeMismatch { data, len, have: entry.len }));
                return;
            }
            let (found, entry) = self.join(data);
            let place = result.unwrap();
            assert_eq!((place.offset, place.found, place.references), (entry.offset, found, entry.references));
        } else if self.entries.len() == self.places && self.idle() == 0 {
            assert_eq!(result, Err(PlaceError::NoPlace { places: self.places as u32 }));
        } else if self.longest_run() < whole {
            assert!(matches!(result, Err(PlaceError::Blocked { need, .. }) if need == whole), "{result:?}");
        } else {
            let place = result.unwrap();
            assert_eq!((place.found, place.references), (Found::Empty, 1));
            let needed = self.longest_hole() < whole || self.entries.len() == self.places;
            let before = self.entries.len();
            self.evict(memory);
            // The new data is there already.
            assert!(needed || self.entries.len() == before, "evicted though there was room");
            self.enter(data, place.offset, len);
        }
    }

    fn group(&mut self, memory: &mut Cached, wishes: &[(u64, u64)]) {
        let mut members: Vec<_> = wishes.iter().map(|&(data, len)| Member::new(data, len)).collect();
        let flushes = memory.statistics().flushes;
        let result = memory.alloc_group(None, &mut members);
        assert!(members.iter().map(|member| (member.data(), member.len())).eq(wishes.iter().copied()), "order");
        let distinct: BTreeMap<u64, u64> = wishes.iter().copied().collect();
        let total: u64 = distinct.values().map(|&len| rounded(len)).sum();
        let ill = wishes.iter().any(|&(data, len)| {
            let other = |have: u64| have != rounded(len);
            len == 0 || other(rounded(distinct[&data])) || self.entries.get(&data).is_some_and(|entry| other(entry.len))
        });
        let new: Vec<_> = distinct.iter().filter(|(data, _)| !self.entries.contains_key(data)).collect();
        match result {
            Ok(()) => {
                assert!(!ill && total <= self.capacity);
                if memory.statistics().flushes > flushes {
                    assert!(self.entries.values().all(|entry| entry.references == 0));
                    self.entries.clear();
                } else {
                    self.evict(memory);
                }
                for (member, &(data, len)) in members.iter().zip(wishes) {
                    let place = member.place().unwrap();
                    let found = if self.entries.contains_key(&data) {
                        let (found, entry) = self.join(data);
                        assert_eq!((place.offset, place.references), (entry.offset, entry.references));
                        found
                    } else {
                        self.enter(data, place.offset, len);
                        Found::Empty
                    };
                    assert_eq!(place.found, found);
                }
            }
            Err(PlaceError::Blocked { .. } | PlaceError::NoPlace { .. }) => {
                assert!(!ill && total <= self.capacity && !new.is_empty());
                assert!(self.entries.values().any(|entry| entry.references > 0), "refused though nothing is in use");
                assert!(members.iter().all(|member| member.place().is_none()));
            }
            Err(PlaceError::ZeroSize { .. } | PlaceError::SizeMismatch { .. }) => assert!(ill),
            Err(PlaceError::TooLarge { .. }) => {
                assert!(total > self.capacity || wishes.iter().any(|&(_, len)| rounded(len) > self.capacity));
            }
            Err(PlaceError::TooMany { .. }) => assert!(distinct.len() > self.places),
            Err(error) => panic!("{error}"),
        }
    }

    fn free(&mut self, data: u64) -> Result<(), FreeError> {
        let entry = self.entries.get_mut(&data).ok_or(FreeError::NotAssigned { data })?;
        entry.references = entry.references.checked_sub(1).ok_or(FreeError::NotInUse { data })?;
        if entry.references == 0 {
            if entry.state == State::InUse && !entry.leaving {
                entry.state = State::Idle;
            } else {
                self.entries.remove(&data);
            }
        }
        Ok(())
    }

    fn fill(&mut self, data: u64, state: State) -> Result<(), FillError> {
        let entry = self.entries.get_mut(&data).ok_or(FillError::NotAssigned { data })?;
        if matches!(entry.state, State::InUse | State::Idle) {
            return Err(FillError::AlreadyRemembered { data });
        }
        entry.state = state;
        Ok(())
    }

    fn forget(&mut self, data: u64, later: bool) -> Result<bool, ForgetError> {
        let Some(entry) = self.entries.get_mut(&data) else { return Ok(false) };
        match entry.state {
            State::Idle => {
                self.entries.remove(&data);
                Ok(true)
            }
            State::InUse if later => {
                entry.leaving = true;
                Ok(true)
            }
            State::InUse => Err(ForgetError::InUse { data, references: entry.references }),
            _ => Err(ForgetError::NotRemembered { data }),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn t72_t74_every_answer_is_that_of_the_model_and_refusals_change_nothing(
        places in 1usize..12,
        granules in 1u64..80,
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let mut memory = cached(places, granules);
        let mut model = Model { entries: BTreeMap::new(), capacity: granules * GRANULE, places };
        for step in steps {
            match step {
                Step::Alloc(data, len) => model.alloc(&mut memory, data, len),
                Step::Group(wishes) => model.group(&mut memory, &wishes),
                Step::Free(data) => prop_assert_eq!(memory.free(data), model.free(data)),
                Step::FreeWantedIn(data, frees) => {
                    prop_assert_eq!(memory.free_wanted_in(data, frees), model.free(data));
                }
                Step::Remember(data) => prop_assert_eq!(memory.remember(data), model.fill(data, State::InUse)),
                Step::Abandon(data) => prop_assert_eq!(memory.abandon(data), model.fill(data, State::Abandoned)),
                Step::Forget(data) => prop_assert_eq!(memory.forget(data), model.forget(data, false)),
                Step::ForgetLater(data) => prop_assert_eq!(memory.forget_later(data), model.forget(data, true)),
            }
            model.agree(&memory);
        }
    }
}
