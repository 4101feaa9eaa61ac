//! Ten million operations of threads on a slot cache, and as many on several.
//!
//! Those are under keys, and come and end. There are interrupts, deadlines, and threads that die with a slot.
//! ThreadSanitizer runs it as well (step `tsan`): the memory of the slots is touched without ordering, so that all order
//! comes from the cache.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod stress;

use std::panic::resume_unwind;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use umbra::cache::{AllocError, Caches, EndKeyError, EndsShared, Fill, FilledError, Forgetful, Given, Held};
use umbra_core::atomic::{AtomicU64, Ordering};
use umbra_core::cache::keyed::{CreateError, EndError, InUse};
use umbra_core::cache::policy::Clock;
use umbra_core::cache::waiting::ContentError;
use umbra_core::cache::{self, FillError, ForgetError, Forgetting, FreeError, Line, Sparse};

use stress::{Counts, Dice, count, operations};

type Lines = Sparse<Vec<Line>, Vec<u64>>;
type Reference<'a> = Held<'a, Lines, Clock, Forgetting>;
type Duty<'a> = Fill<'a, Lines, Clock, Forgetting>;

const SLOTS: u32 = 4;
const IDS: u64 = 14;
const THREADS: u64 = 6;
/// Longer than any machine takes, so whoever waits so long waits for good.
const PATIENCE: Duration = Duration::from_secs(60);
/// Nobody's content.
const NOTHING: u64 = u64::MAX;

struct World {
    cache: Forgetful<Lines, Clock>,
    /// Those who may do something at the cache.
    users: AtomicU64,
    /// Who fills the slot; 0 for nobody.
    fillers: [AtomicU64; SLOTS as usize],
    memory: [AtomicU64; SLOTS as usize],
    counts: Counts,
}

/// The cache was interrupted.
struct Interrupted;

impl World {
    fn new() -> World {
        World {
            cache: Forgetful::with_waiters(
                0..SLOTS,
                Sparse::new(vec![Line::EMPTY; 2], vec![0; SLOTS as usize], 5),
                Clock::new(),
                16,
            )
            .unwrap(),
            users: AtomicU64::new(0),
            fillers: [const { AtomicU64::new(0) }; SLOTS as usize],
            memory: [const { AtomicU64::new(NOTHING) }; SLOTS as usize],
            counts: Counts::default(),
        }
    }

    /// One thread: operations until the interrupt, its death, or the end.
    fn client(&self, number: u64, mut dice: Dice, operations: u64, interrupts: bool, dies: bool) {
        let last = dice.throw(operations);
        let mut mine = None;
        for at in 0..operations {
            count(&self.counts.operations);
            if interrupts && at == last {
                self.cache.interrupt();
            }
            if self.operation(number, &mut dice, &mut mine).is_err() {
                return count(&self.counts.interrupted);
            }
            if dies && at >= last && mine.is_some() {
                count(&self.counts.deaths);
                resume_unwind(Box::new("dies with a slot"));
            }
        }
    }

    fn operation<'a>(
        &'a self,
        number: u64,
        dice: &mut Dice,
        mine: &mut Option<Reference<'a>>,
    ) -> Result<(), Interrupted> {
        let data = dice.throw(IDS);
        match dice.throw(16) {
            0..10 => {
                *mine = None;
                *mine = self.get(number, dice, data, PATIENCE)?.filter(|_| dice.throw(2) == 0);
            }
            // Several who hold a slot while they wait for one can only be parted by a deadline.
            10 => {
                let within = dice.brief();
                *mine = self.get(number, dice, data, within)?;
            }
            11 => match self.cache.try_alloc(data) {
                Ok(given) => *mine = self.take(number, dice, data, given)?.or(mine.take()),
                Err(cache::AllocError::Interrupted) => return Err(Interrupted),
                Err(error) => assert_eq!(error, cache::AllocError::Full { slots: SLOTS }),
            },
            at @ 12..14 => {
                let told = if at == 12 { self.cache.forget(data) } else { self.cache.forget_later(data) };
                if told == Err(ForgetError::Interrupted) {
                    return Err(Interrupted);
                }
            }
            14 => match self.cache.free(IDS) {
                Err(FreeError::Interrupted) => return Err(Interrupted),
                other => assert_eq!(other, Err(FreeError::NotAssigned { data: IDS })),
            },
            _ => *mine = None,
        }
        Ok(())
    }

    /// A reference to content; `None` if the deadline was too short.
    fn get<'a>(
        &'a self,
        number: u64,
        dice: &mut Dice,
        data: u64,
        within: Duration,
    ) -> Result<Option<Reference<'a>>, Interrupted> {
        loop {
            match self.cache.alloc(data, within) {
                Ok(given) => {
                    if let Some(held) = self.take(number, dice, data, given)? {
                        return Ok(Some(held));
                    }
                }
                Err(AllocError::Interrupted) => return Err(Interrupted),
                Err(AllocError::Expired { scene, .. }) => {
                    assert!(within < PATIENCE, "forgotten: {scene}");
                    count(&self.counts.expired);
                    return Ok(None);
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Content in a slot that was given; `None` if its fill was given up.
    fn take<'a>(
        &'a self,
        number: u64,
        dice: &mut Dice,
        data: u64,
        given: Given<'a, Lines, Clock, Forgetting>,
    ) -> Result<Option<Reference<'a>>, Interrupted> {
        let held = match given {
            Given::Empty(fill) => match self.fill(number, dice, fill)? {
                Some(held) => held,
                None => return Ok(None),
            },
            Given::Remembered(held) => held,
            Given::Assigned(held) => match self.cache.filled(data, PATIENCE) {
                Ok(()) => held,
                Err(FilledError::Interrupted) => return Err(Interrupted),
                Err(FilledError::Refused(ContentError::Abandoned { .. })) => return Ok(None),
                Err(error) => panic!("{error}"),
            },
        };
        let content = self.memory[held.slot() as usize].load(Ordering::Relaxed);
        assert_eq!(content, data, "slot {}", held.slot());
        Ok(Some(held))
    }

    /// Fills a slot that nobody else may touch, or gives it up.
    fn fill<'a>(&'a self, number: u64, dice: &mut Dice, fill: Duty<'a>) -> Result<Option<Reference<'a>>, Interrupted> {
        let slot = fill.slot() as usize;
        let before = self.fillers[slot].swap(number + 1, Ordering::Relaxed);
        assert_eq!(before, 0, "slot {slot} has two owners");
        self.memory[slot].store(NOTHING, Ordering::Relaxed);
        count(&self.counts.loads);
        if dice.throw(64) == 0 {
            thread::yield_now();
        }
        let gives_up = dice.throw(16) == 0;
        if !gives_up {
            self.memory[slot].store(fill.data(), Ordering::Relaxed);
        }
        assert_eq!(self.fillers[slot].swap(0, Ordering::Relaxed), number + 1, "slot {slot} has two owners");
        if gives_up {
            return Ok(None);
        }
        match fill.remember() {
            Ok(held) => Ok(Some(held)),
            Err(FillError::Interrupted) => Err(Interrupted),
            Err(error) => panic!("{error}"),
        }
    }

    /// After all threads have gone: nobody waits, no reference is left, and every slot can be had.
    fn is_whole(&self) {
        assert_eq!(self.cache.waiting(), 0);
        if self.cache.look(|cache| cache.is_interrupted()) {
            for slot in 0..SLOTS {
                self.cache.settle(slot);
            }
            assert_eq!(self.cache.reset(), Ok(()));
        }
        assert!(self.cache.look(|cache| cache.len() == cache.idle()), "somebody holds a slot");
        let all: Vec<_> = (0..SLOTS).map(|n| self.cache.try_alloc(IDS + u64::from(n)).unwrap()).collect();
        assert!(all.iter().all(|given| matches!(given, Given::Empty(_))), "of data that was never filled");
        let full = self.cache.try_alloc(IDS + 100).map(drop);
        assert_eq!(full, Err(cache::AllocError::Full { slots: SLOTS }));
    }
}

#[test]
fn no_slot_is_lost_or_has_two_owners_and_everybody_is_answered() {
    let world = World::new();
    let counts = &world.counts;
    let mut dice = Dice(7);
    let mut rounds = 0;
    while counts.go_on(counts.saw_all(), operations(10_000_000, 300_000), rounds) {
        rounds += 1;
        let interrupter = dice.throw(2 * THREADS);
        thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|number| {
                    let (world, mut own) = (&world, Dice(dice.throw(1 << 31)));
                    let dies = own.throw(4) == 0;
                    scope.spawn(move || world.client(number, own, 20_000, number == interrupter, dies))
                })
                .collect();
            for thread in threads {
                if let Err(payload) = thread.join() {
                    assert_eq!(payload.downcast_ref(), Some(&"dies with a slot"));
                }
            }
        });
        world.is_whole();
    }
    println!("{} operations: {rounds} rounds, {counts:?}", counts.operations.load(Ordering::Relaxed));
    let [loads, interrupted] = [&counts.loads, &counts.interrupted].map(|counter| counter.load(Ordering::Relaxed));
    // Some were given to threads that were interrupted before they knew.
    let given = world.cache.look(|cache| cache.statistics().loads) - u64::from(SLOTS) * rounds;
    assert!(loads <= given && given - loads <= interrupted, "{loads} of {given} loads");
    assert!(counts.saw_all());
}

impl EndsShared for World {
    fn end_unused(&self) -> Result<(), InUse> {
        self.cache.end_unused()
    }
    fn interrupt(&self) {
        self.cache.interrupt();
    }
}

/// Caches under keys, which threads make and end while others use them.
struct Town {
    caches: Caches<World>,
    /// All that were made in this round.
    worlds: Mutex<Vec<Arc<World>>>,
    ended: AtomicU64,
    refused: AtomicU64,
}

const KEYS: u64 = 3;
/// Operations between two looks at the table.
const BURST: u64 = 100;

impl Town {
    fn new() -> Town {
        let (caches, worlds) = (Caches::new(KEYS as usize).unwrap(), Mutex::default());
        Town { caches, worlds, ended: AtomicU64::new(0), refused: AtomicU64::new(0) }
    }

    fn client(&self, number: u64, mut dice: Dice) {
        let bursts = 200;
        let death = dice.throw(4 * bursts);
        for burst in 0..bursts {
            let key = dice.throw(KEYS);
            match dice.throw(16) {
                0 => self.note(self.caches.end(key)),
                1 => self.note(self.caches.interrupt_and_end(key)),
                _ => self.visit(key, number, &mut dice, burst == death),
            }
        }
    }

    /// Uses the cache with this key; makes one if there is none.
    fn visit(&self, key: u64, number: u64, dice: &mut Dice, dies: bool) {
        let Ok(world) = self.caches.find(key) else {
            match self.caches.create(key, World::new()) {
                // Another may have ended it by now.
                Ok(handle) => self.worlds.lock().unwrap().extend(self.caches.get(handle)),
                Err(error) => assert_eq!(error, CreateError::DuplicateKey { key }),
            }
            return;
        };
        // ORDERING: the last who goes has seen all that the others did.
        world.users.fetch_add(1, Ordering::AcqRel);
        let user = User(&world);
        let own = Dice(dice.throw(1 << 31));
        world.client(number, own, BURST, false, dies);
        let others = world.users.load(Ordering::Acquire) > 1;
        if !others && world.cache.look(|cache| cache.is_interrupted()) {
            // Whoever comes now is refused, so nobody writes any more.
            (0..SLOTS).for_each(|slot| _ = world.cache.settle(slot));
            self.note(self.caches.interrupt_and_end(key));
        }
        drop(user);
    }

    fn note(&self, ended: Result<(), EndKeyError>) {
        match ended {
            Ok(()) => count(&self.ended),
            Err(EndKeyError::UnknownKey(_)) => {}
            Err(EndKeyError::Refused { error: EndError::InUse { .. }, .. }) => count(&self.refused),
            Err(error) => panic!("{error}"),
        }
    }
}

/// One who may do something at a cache, until he drops this.
struct User<'a>(&'a World);

impl Drop for User<'_> {
    fn drop(&mut self) {
        self.0.users.fetch_sub(1, Ordering::AcqRel);
    }
}

#[test]
fn no_slot_of_a_cache_under_a_key_is_lost_while_others_come_and_end() {
    let (counts, mut dice) = (Counts::default(), Dice(7));
    let (mut rounds, mut ended, mut refused) = (0, 0, 0);
    while counts.go_on(counts.saw_all(), operations(10_000_000, 300_000), rounds) {
        rounds += 1;
        let town = Town::new();
        thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|number| {
                    let (town, own) = (&town, Dice(dice.throw(1 << 31)));
                    scope.spawn(move || town.client(number, own))
                })
                .collect();
            for thread in threads {
                if let Err(payload) = thread.join() {
                    assert_eq!(payload.downcast_ref(), Some(&"dies with a slot"));
                }
            }
        });
        for world in town.worlds.into_inner().unwrap() {
            world.is_whole();
            let given = world.cache.look(|cache| cache.statistics().loads) - u64::from(SLOTS);
            let [loads, interrupted] =
                [&world.counts.loads, &world.counts.interrupted].map(|counter| counter.load(Ordering::Relaxed));
            assert!(loads <= given && given - loads <= interrupted, "{loads} of {given} loads");
            counts.add(&world.counts);
        }
        ended += town.ended.into_inner();
        refused += town.refused.into_inner();
    }
    let all = counts.operations.load(Ordering::Relaxed);
    println!("{all} operations: {rounds} rounds, {counts:?}, {ended} caches ended, {refused} in use");
    assert!(counts.saw_all() && ended > 0 && refused > 0);
}
