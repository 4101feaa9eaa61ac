//! The shared cache against a map of what is where, one operation after the other.
//!
//! It is tried on damaged memory too.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use umbra_core::atomic::{AtomicU64, Ordering};
use umbra_core::cache::{Found, Partial, State};
use umbra_core::cell::BytesMut;
use umbra_core::shared_cache::{
    AllocError, AttachError, Cache, Client, FillError, ForgetError, Forgetful, FreeError, Identity, Reclaimed, Sharing,
    Stack, words_for,
};
use umbra_core::shared_slots::Owner;

const IDS: usize = 40;
const OWNERS: u8 = 3;
/// References of one owner to one data id at most.
const MOST: u32 = 3;

#[derive(Clone, Copy, Debug)]
enum Step {
    Alloc(usize, u64),
    Free(usize, u64),
    Remember(usize, u64),
    Abandon(usize, u64),
    Forget(usize, u64),
    ForgetLater(usize, u64),
    Die(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let who = || 0..usize::from(OWNERS);
    let data = || 0..IDS as u64;
    prop_oneof![
        40 => (who(), data()).prop_map(|(who, data)| Step::Alloc(who, data)),
        40 => (who(), data()).prop_map(|(who, data)| Step::Free(who, data)),
        25 => (who(), data()).prop_map(|(who, data)| Step::Remember(who, data)),
        3 => (who(), data()).prop_map(|(who, data)| Step::Abandon(who, data)),
        5 => (who(), data()).prop_map(|(who, data)| Step::Forget(who, data)),
        2 => (who(), data()).prop_map(|(who, data)| Step::ForgetLater(who, data)),
        1 => who().prop_map(Step::Die),
    ]
}

impl Step {
    /// With the id of this number.
    fn of(self, ids: &[u64]) -> Step {
        let id = |number: u64| ids[number as usize];
        match self {
            Step::Alloc(who, data) => Step::Alloc(who, id(data)),
            Step::Free(who, data) => Step::Free(who, id(data)),
            Step::Remember(who, data) => Step::Remember(who, id(data)),
            Step::Abandon(who, data) => Step::Abandon(who, id(data)),
            Step::Forget(who, data) => Step::Forget(who, id(data)),
            Step::ForgetLater(who, data) => Step::ForgetLater(who, id(data)),
            Step::Die(who) => Step::Die(who),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    slot: u32,
    counts: [u32; OWNERS as usize],
    state: State,
    filler: usize,
    leaving: bool,
}

impl Entry {
    fn references(&self) -> u32 {
        self.counts.iter().sum()
    }
    fn valid(&self) -> bool {
        matches!(self.state, State::InUse | State::Idle)
    }
}

/// What the requirements say, with a map. Which slot is taken, and which content leaves, is the cache's choice.
#[derive(Default)]
struct Model {
    entries: BTreeMap<u64, Entry>,
}

impl Model {
    /// Checks that the slot is one that the cache may give away, and who left.
    fn assign(&mut self, who: usize, data: u64, slot: u32, slots: u32) {
        let taken: BTreeSet<u32> = self.entries.values().map(|entry| entry.slot).collect();
        if let Some((&left, entry)) = self.entries.iter().find(|(_, entry)| entry.slot == slot) {
            assert_eq!(entry.references(), 0, "content in use left");
            assert_eq!(taken.len(), slots as usize, "content left although there were empty slots");
            self.entries.remove(&left);
        }
        let mut counts = [0; OWNERS as usize];
        counts[who] = 1;
        self.entries.insert(data, Entry { slot, counts, state: State::Filling, filler: who, leaving: false });
    }

    /// After references were given back: what nobody keeps is gone.
    fn settle(&mut self) {
        self.entries.retain(|_, entry| entry.references() > 0 || entry.valid() && !entry.leaving);
        for entry in self.entries.values_mut().filter(|entry| entry.valid()) {
            entry.state = if entry.references() == 0 { State::Idle } else { State::InUse };
        }
    }

    fn alloc(
        &mut self,
        client: &Client<'_, impl umbra_core::shared_cache::Contract>,
        who: usize,
        data: u64,
        slots: u32,
    ) {
        let result = client.alloc(data);
        let Some(entry) = self.entries.get_mut(&data) else {
            match result {
                Ok(grant) => {
                    assert_eq!((grant.found, grant.mine), (Found::Empty, 1));
                    assert!(grant.slot < slots);
                    self.assign(who, data, grant.slot, slots);
                }
                Err(error) => {
                    assert_eq!(error, AllocError::Full { slots });
                    assert_eq!(self.entries.values().filter(|entry| entry.references() > 0).count(), slots as usize);
                }
            }
            return;
        };
        if entry.counts[who] == MOST {
            assert_eq!(result, Err(AllocError::TooManyReferences { data, most: MOST }));
            return;
        }
        entry.counts[who] += 1;
        let found = match entry.state {
            State::Filling => Found::Assigned,
            State::Abandoned => Found::Empty,
            State::InUse | State::Idle => Found::Remembered,
        };
        if found == Found::Empty {
            (entry.state, entry.filler) = (State::Filling, who);
        }
        let grant = result.unwrap();
        assert_eq!((grant.slot, grant.found, grant.mine), (entry.slot, found, entry.counts[who]));
        self.settle();
    }

    fn free(&mut self, who: usize, data: u64) -> Result<(), FreeError> {
        let entry = self.entries.get_mut(&data).ok_or(FreeError::NotAssigned { data })?;
        entry.counts[who] = entry.counts[who].checked_sub(1).ok_or(FreeError::NotInUse { data })?;
        self.settle();
        Ok(())
    }

    fn end_fill(&mut self, data: u64, state: State) -> Result<(), FillError> {
        let entry = self.entries.get_mut(&data).ok_or(FillError::NotAssigned { data })?;
        if entry.valid() {
            return Err(FillError::AlreadyRemembered { data });
        }
        entry.state = state;
        Ok(())
    }

    fn forget(&mut self, data: u64, later: bool) -> Result<bool, ForgetError> {
        let Some(entry) = self.entries.get_mut(&data) else { return Ok(false) };
        if !entry.valid() {
            return Err(ForgetError::NotRemembered { data });
        }
        if entry.references() > 0 && !later {
            return Err(ForgetError::InUse { data, references: entry.references() });
        }
        entry.leaving = true;
        self.settle();
        Ok(true)
    }

    /// References, fills, and the data that nobody fills any more.
    fn die(&mut self, who: usize) -> (u64, BTreeSet<(u32, u64)>) {
        let references = self.entries.values().map(|entry| u64::from(entry.counts[who])).sum();
        let mut abandoned = BTreeSet::new();
        for (&data, entry) in &mut self.entries {
            entry.counts[who] = 0;
            if entry.state == State::Filling && entry.filler == who {
                entry.state = State::Abandoned;
                abandoned.insert((entry.slot, data));
            }
        }
        self.settle();
        (references, abandoned)
    }
}

fn sharing() -> Sharing {
    Sharing::new(OWNERS, MOST).unwrap()
}

fn with_words<R>(slots: usize, body: impl FnOnce(&[AtomicU64]) -> R) -> R {
    let mut memory = vec![u64::MAX; words_for(slots, sharing()).unwrap()];
    let count = memory.len();
    body(BytesMut::from_words(&mut memory).words(0, count).unwrap())
}

fn identity(life: u32) -> Identity {
    Identity::new(life + 1, u64::from(life))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn the_forgetful_cache_does_what_the_model_does(
        slots in prop_oneof![1_u32..20, 20_u32..34],
        // How many lines the ids belong into: all, as many as have six ids each, or one.
        homes in prop_oneof![Just(usize::MAX), Just(7), Just(1)],
        steps in prop::collection::vec(step(), 1..600),
    ) {
        with_words(slots as usize, |words| {
            let cache = Forgetful::create(words, slots as usize, sharing(), 7).unwrap();
            let mut model = Model::default();
            let ids: Vec<u64> = (0..).filter(|&data| cache.home(data).0 < homes).take(IDS).collect();
            let mut lives = 0..;
            let mut join = || {
                let identity = identity(lives.next().unwrap());
                (Forgetful::attach(words).unwrap().join(identity).unwrap(), identity)
            };
            let mut clients = [join(), join(), join()];
            for step in steps {
                match step.of(&ids) {
                    Step::Alloc(who, data) => model.alloc(&clients[who].0, who, data, slots),
                    Step::Free(who, data) => assert_eq!(clients[who].0.free(data), model.free(who, data)),
                    Step::Remember(who, data) => {
                        assert_eq!(clients[who].0.remember(data), model.end_fill(data, State::InUse));
                    }
                    Step::Abandon(who, data) => {
                        assert_eq!(clients[who].0.abandon(data), model.end_fill(data, State::Abandoned));
                    }
                    Step::Forget(who, data) => assert_eq!(clients[who].0.forget(data), model.forget(data, false)),
                    Step::ForgetLater(who, data) => {
                        assert_eq!(clients[who].0.forget_later(data), model.forget(data, true));
                    }
                    Step::Die(who) => {
                        let (dead, identity) = clients[who];
                        let mut abandoned = BTreeSet::new();
                        let other = clients[(who + 1) % 3].0;
                        let told = |slot, data| assert!(abandoned.insert((slot, data)));
                        let Reclaimed { references, fills, .. } = other.reclaim(dead.owner(), identity, told).unwrap();
                        assert_eq!(fills, abandoned.len() as u64);
                        assert_eq!((references, abandoned), model.die(who));
                        clients[who] = join();
                        assert_eq!(clients[who].0.owner(), dead.owner());
                    }
                }
                for &data in &ids {
                    let entry = model.entries.get(&data);
                    assert_eq!(clients[0].0.state(data), Ok(entry.map(|entry| entry.state)));
                    assert_eq!(clients[0].0.references(data), Ok(entry.map_or(0, Entry::references)));
                }
                assert_eq!(cache.empty() as usize, slots as usize - model.entries.len());
            }
            // Nothing is lost: once all have left, each slot can be taken.
            for (client, _) in clients {
                client.leave().unwrap();
            }
            assert_eq!(cache.members().count(), 0);
            let last = cache.join(identity(0)).unwrap();
            let taken: BTreeSet<u32> = (0..u64::from(slots)).map(|data| last.alloc(100_000 + data).unwrap().slot).collect();
            assert_eq!(taken, (0..slots).collect());
            assert_eq!(last.alloc(0), Err(AllocError::Full { slots }));
        });
    }

    #[test]
    fn a_batch_does_what_single_operations_do_and_says_where_it_ended(
        slots in 1_usize..20,
        batches in prop::collection::vec((0..4, prop::collection::vec(0..IDS as u64, 0..70)), 1..30),
    ) {
        /// What single operations give up to the first refusal, and that.
        fn each<I: Copy, T, E>(all: &[I], act: impl Fn(I) -> Result<T, E>) -> (Vec<T>, Result<(), Partial<E>>) {
            let mut given = Vec::new();
            for &one in all {
                match act(one) {
                    Ok(value) => given.push(value),
                    Err(error) => {
                        let done = given.len();
                        return (given, Err(Partial { done, error }));
                    }
                }
            }
            (given, Ok(()))
        }
        with_words(slots, |words| with_words(slots, |others| {
            let join = |words| Stack::create(words, slots, sharing(), 7).unwrap().join(identity(1)).unwrap();
            let (single, batched) = (join(words), join(others));
            // A mark of each, of references that are held, or were.
            let mut marks = [0; IDS];
            for (what, ids) in batches {
                match what {
                    0 => assert_eq!(batched.free_all(&ids), each(&ids, |data| single.free(data)).1),
                    1 => {
                        let marked: Vec<_> = ids.iter().map(|&data| (data, marks[data as usize])).collect();
                        let result = each(&marked, |(data, mark)| single.free_marked(data, mark)).1;
                        assert_eq!(batched.free_all_marked(&marked), result);
                    }
                    _ => {
                        let mut grants = vec![None; ids.len()];
                        let (given, result) = each(&ids, |data| single.alloc(data));
                        assert_eq!(batched.alloc_all(&ids, &mut grants), result);
                        assert_eq!(grants.into_iter().flatten().collect::<Vec<_>>(), given);
                        for (&data, grant) in ids.iter().zip(given).filter(|_| what == 3) {
                            marks[data as usize] = grant.mark();
                        }
                    }
                }
            }
        }));
    }

    #[test]
    fn damaged_memory_gives_errors_and_no_more(
        damage in prop::collection::vec((any::<prop::sample::Index>(), prop_oneof![any::<u64>(), 0_u64..70]), 1..60),
    ) {
        with_words(20, |words| {
            let cache = Forgetful::create(words, 20, sharing(), 7).unwrap();
            let client = cache.join(identity(0)).unwrap();
            for (at, value) in damage {
                words[at.index(words.len())].store(value, Ordering::Relaxed);
                for data in [value % 4, value] {
                    let _ = (client.alloc(data), client.remember(data), client.state(data), client.references(data));
                    let _ = (client.forget_later(data), client.free(data), client.abandon(data), client.forget(data));
                }
                let told = |slot, _| assert!(slot < cache.capacity());
                let _ = (client.reclaim(Owner::new(2).unwrap(), identity(5), told), cache.statistics());
                if let Ok(again) = Forgetful::attach(words) {
                    assert!((again.capacity() as usize) < words.len());
                    let _ = (again.empty(), again.members().count());
                    if let Ok(other) = again.join(identity(1)) {
                        let _ = (other.alloc(value), other.free(value));
                        let told = |slot, _| assert!(slot < again.capacity());
                        let _ = client.reclaim(other.owner(), identity(1), told);
                    }
                }
            }
        });
    }
}

#[test]
fn a_stack_forgets_with_the_last_reference() {
    with_words(1, |words| {
        let client = Stack::create(words, 1, sharing(), 1).unwrap().join(identity(0)).unwrap();
        let found = || client.alloc(7).map(|grant| (grant.slot, grant.found, grant.mine));
        assert_eq!(found(), Ok((0, Found::Empty, 1)));
        assert_eq!(found(), Ok((0, Found::Assigned, 2)));
        assert_eq!(client.alloc(8), Err(AllocError::Full { slots: 1 }));
        assert_eq!(
            (client.free(7), client.free(7), client.free(7)),
            (Ok(()), Ok(()), Err(FreeError::NotAssigned { data: 7 }))
        );
        assert_eq!(client.alloc(8).map(|grant| grant.found), Ok(Found::Empty));
    });
}

#[test]
fn content_that_was_used_stays_longer() {
    with_words(4, |words| {
        let client = Cache::create(words, 4, sharing(), 1).unwrap().join(identity(0)).unwrap();
        for data in 0..4 {
            client.alloc(data).unwrap();
            client.remember(data).unwrap();
            client.free(data).unwrap();
        }
        client.alloc(0).unwrap();
        client.free(0).unwrap();
        for data in 10..13 {
            client.alloc(data).unwrap();
        }
        assert_eq!(client.state(0), Ok(Some(State::Idle)), "the others left before it");
        assert_eq!(client.cache().statistics().evictions, 3);
    });
}

#[test]
fn content_that_nobody_used_again_leaves_in_the_order_in_which_it_came() {
    const SLOTS: u64 = 64;
    with_words(SLOTS as usize, |words| {
        let client = Cache::create(words, SLOTS as usize, sharing(), 1).unwrap().join(identity(0)).unwrap();
        let came: Vec<u64> = (1..=5 * SLOTS).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        for (n, &data) in came.iter().enumerate() {
            client.alloc(data).unwrap();
            client.remember(data).unwrap();
            client.free(data).unwrap();
            // The first go into slots in any order, and leave in the order of the slots.
            if n as u64 >= 3 * SLOTS {
                let (left, next) = (came[n - SLOTS as usize], came[n + 1 - SLOTS as usize]);
                assert_eq!((client.state(left), client.state(next)), (Ok(None), Ok(Some(State::Idle))));
            }
        }
    });
}

#[test]
fn a_pin_is_given_back_once() {
    with_words(2, |words| {
        let client = Cache::create(words, 2, sharing(), 1).unwrap().join(identity(0)).unwrap();
        let (first, second) = (client.pin(5).unwrap(), client.pin(5).unwrap());
        assert_eq!((first.data(), second.grant().mine), (5, 2));
        client.free_pin(first).unwrap();
        assert_eq!(client.references(5), Ok(1));
        client.free(5).unwrap();
        assert_eq!(client.free_pin(second), Err(FreeError::NotAssigned { data: 5 }));
    });
}

#[test]
fn content_that_leaves_can_still_be_pinned_and_goes_with_the_last_pin() {
    with_words(2, |words| {
        let client = Forgetful::create(words, 2, sharing(), 1).unwrap().join(identity(0)).unwrap();
        let first = client.pin(5).unwrap();
        client.remember(5).unwrap();
        assert_eq!(client.forget_later(5), Ok(true));
        let second = client.pin(5).unwrap();
        assert_eq!((second.grant().found, second.grant().mine), (Found::Remembered, 2));
        assert_eq!((client.free_pin(first), client.state(5)), (Ok(()), Ok(Some(State::InUse))));
        assert_eq!((client.free_pin(second), client.state(5)), (Ok(()), Ok(None)));
    });
}

#[test]
fn who_attaches_learns_what_does_not_fit() {
    with_words(3, |words| {
        assert_eq!(Cache::create(words, 0, sharing(), 1).err(), Some(AttachError::NoSlots));
        assert_eq!(Cache::create(words, 4000, sharing(), 1).err(), Some(AttachError::BadSize { words: words.len() }));
        assert_eq!(Cache::attach(words).err(), Some(AttachError::NotACache));
        Cache::create(words, 3, sharing(), 1).unwrap();
        assert_eq!(Stack::attach(words).err(), Some(AttachError::WrongContract));
        let short = &words[..words.len() - 1];
        assert_eq!(Cache::attach(short).err(), Some(AttachError::BadSize { words: short.len() }));
        assert!(Cache::attach(words).is_ok());
    });
    assert!(Sharing::new(8, 31).is_some() && Sharing::new(8, 32).is_none() && Sharing::new(0, 1).is_none());
    assert!(Sharing::new(31, 1).is_none() && Sharing::new(1, u32::MAX).is_some() && Sharing::new(2, 0).is_none());
}

#[test]
fn the_living_are_not_reclaimed_by_mistake_and_the_interrupted_do_nothing() {
    with_words(3, |words| {
        let cache = Cache::create(words, 3, sharing(), 1).unwrap();
        let (a, b) = (cache.join(identity(0)).unwrap(), cache.join(identity(1)).unwrap());
        b.alloc(1).unwrap();
        assert!(a.reclaim(b.owner(), identity(2), |_, _| ()).is_err(), "another life had the number");
        assert_eq!(a.references(1), Ok(1));
        cache.interrupt();
        assert_eq!(a.alloc(1), Err(AllocError::Interrupted));
        assert_eq!((b.free(1), b.remember(1)), (Err(FreeError::Interrupted), Err(FillError::Interrupted)));
        assert_eq!(a.reclaim(b.owner(), identity(1), |_, _| ()).map(|all| all.references), Ok(1));
        assert_eq!(cache.empty(), 3);
    });
}
