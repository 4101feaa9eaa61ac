//! Operations of threads and of killed processes on a cache in a segment.
//!
//! There are interrupts, deadlines, fills that are given up, and users who die with a slot or while they fill one.
//! ThreadSanitizer runs it as well (step `tsan`): contents are touched without ordering, so that all order comes from the
//! cache.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod another;
mod stress;

use std::fs::File;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::panic::resume_unwind;
use std::thread;
use std::time::Duration;

use another::{Another, until};
use umbra::cache::{Mapped, Passing, UnfilledError, UnservedError};
use umbra::sys::segment::{Mapping, Segment};
use umbra_core::atomic::{AtomicU64, Ordering};
use umbra_core::cache::{Forgetting, Found};
use umbra_core::shared_cache::{
    AllocError, Client, FillError, ForgetError, FreeError, Grant, LookError, Sharing, Statistics,
};

use stress::{Dice, operations};

type Cache = Mapped<Forgetting>;

const SLOTS: usize = 3;
const IDS: u64 = 9;
/// Places at the cache: of those who use it at a time, and of who looks whether it is whole.
const USERS: u8 = 6;
/// Those who use one cache, one after the other; numbered from 1.
const LIVES: u64 = 100;
/// Longer than any machine takes, so whoever waits so long waits for good.
const PATIENCE: Duration = Duration::from_secs(60);
/// What a slot holds while it is filled.
const MIXED: u64 = u64::MAX;
/// Where in the segment it says that the cache was interrupted.
const INTERRUPTED: u64 = 4 * 8;

/// What all users write to, also those in other processes.
#[derive(Clone, Copy)]
struct Tables<'a> {
    contents: &'a [AtomicU64],
    /// Who fills each slot; 0 for nobody.
    fillers: &'a [AtomicU64],
    /// Who has died.
    dead: &'a [AtomicU64],
    counts: &'a [AtomicU64],
}

/// What is counted.
#[derive(Clone, Copy, Debug)]
enum Count {
    Operations,
    Loads,
    Expired,
    Abandoned,
    Interrupted,
    Deaths,
    /// Waits that began, and those that ended.
    Asked,
    Answered,
    /// Processes that have come.
    Came,
    /// Not 0 once all shall stop.
    Stop,
}

const COUNTS: usize = 10;
const WORDS: usize = 2 * SLOTS + LIVES as usize + 1 + COUNTS;

impl<'a> Tables<'a> {
    fn over(words: &'a [AtomicU64]) -> Tables<'a> {
        let (contents, words) = words.split_at(SLOTS);
        let (fillers, words) = words.split_at(SLOTS);
        let (dead, counts) = words.split_at(LIVES as usize + 1);
        Tables { contents, fillers, dead, counts }
    }

    fn count(&self, what: Count) {
        self.counts[what as usize].fetch_add(1, Ordering::Relaxed);
    }

    fn counted(&self, what: Count) -> u64 {
        self.counts[what as usize].load(Ordering::Relaxed)
    }

    /// A wait, and its only answer.
    fn wait<T>(&self, wait: impl FnOnce() -> T) -> T {
        self.count(Count::Asked);
        let answer = wait();
        self.count(Count::Answered);
        answer
    }

    fn note_death(&self, life: u64) {
        self.dead[life as usize].store(1, Ordering::Relaxed);
        self.count(Count::Deaths);
    }
}

/// The cache was interrupted.
struct Interrupted;

/// What an interrupt refuses.
trait Refused: Passing + std::fmt::Debug + Sized {
    const INTERRUPTED: Self;
}
macro_rules! refused {
    ($($error:ident)*) => {$(
        impl Refused for $error {
            const INTERRUPTED: Self = $error::Interrupted;
        }
    )*};
}
refused!(FillError ForgetError FreeError);

/// One who uses a cache.
struct User<'a> {
    cache: &'a Cache,
    tables: Tables<'a>,
    life: u64,
    dice: Dice,
    /// Dies where it can.
    dies: bool,
    mine: Option<u64>,
}

impl User<'_> {
    /// Operations until the interrupt, its death, or the end.
    fn live(mut self, most: u64, interrupts: bool, dies: bool) {
        let last = self.dice.throw(most);
        for at in 0..most {
            if self.tables.counted(Count::Stop) != 0 {
                return;
            }
            self.tables.count(Count::Operations);
            if interrupts && at == last {
                self.cache.client().cache().interrupt();
            }
            self.dies = dies && at >= last;
            if self.operation().is_err() {
                return self.tables.count(Count::Interrupted);
            }
            if self.dies && self.mine.is_some() {
                self.die();
            }
        }
        // What it holds is given back when its handle is dropped.
    }

    fn die(&self) {
        self.tables.note_death(self.life);
        resume_unwind(Box::new("dies with a slot"));
    }

    fn operation(&mut self) -> Result<(), Interrupted> {
        let data = self.dice.throw(IDS);
        match self.dice.throw(16) {
            0..9 => {
                self.give_back()?;
                if self.get(data, PATIENCE)? {
                    self.mine = Some(data);
                }
                if self.dice.throw(2) == 0 {
                    self.give_back()?;
                }
            }
            // Several who hold a slot while they wait for one can only be parted by a deadline.
            choice @ 9..12 => {
                let within = if choice == 11 { Duration::ZERO } else { self.dice.brief() };
                if self.get(data, within)? {
                    self.give_back()?;
                    self.mine = Some(data);
                }
            }
            choice @ 12..14 => {
                let act = |client: Client<'_, Forgetting>| match choice {
                    12 => client.forget(data),
                    _ => client.forget_later(data),
                };
                match self.act(act)? {
                    Ok(_) | Err(ForgetError::InUse { .. } | ForgetError::NotRemembered { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            14 => assert_eq!(self.act(|client| client.free(IDS))?, Err(FreeError::NotAssigned { data: IDS })),
            _ => self.give_back()?,
        }
        Ok(())
    }

    /// Does this, whoever is in the way.
    fn act<T, E: Refused + PartialEq>(
        &self,
        act: impl FnMut(Client<'_, Forgetting>) -> Result<T, E>,
    ) -> Result<Result<T, E>, Interrupted> {
        match self.cache.within(PATIENCE, act) {
            Err(error) if error == E::INTERRUPTED => Err(Interrupted),
            done => Ok(done),
        }
    }

    fn give_back(&mut self) -> Result<(), Interrupted> {
        match self.mine.take() {
            Some(data) => self.free(data),
            None => Ok(()),
        }
    }

    fn free(&self, data: u64) -> Result<(), Interrupted> {
        self.act(|client| client.free(data))?.unwrap();
        Ok(())
    }

    /// Gets a reference to content; whether there was time enough.
    fn get(&mut self, data: u64, within: Duration) -> Result<bool, Interrupted> {
        loop {
            match self.tables.wait(|| self.cache.alloc(data, within)) {
                Ok(grant) => {
                    if self.has(data, grant)? {
                        return Ok(true);
                    }
                    self.free(data)?;
                }
                Err(UnservedError::Refused(AllocError::Interrupted)) => return Err(Interrupted),
                Err(error) => {
                    assert!(within < PATIENCE && error.passes(), "forgotten: {error}");
                    self.tables.count(Count::Expired);
                    return Ok(false);
                }
            }
        }
    }

    /// Whether the slot that was given has its content; `false` if the fill was given up.
    fn has(&mut self, data: u64, grant: Grant) -> Result<bool, Interrupted> {
        let slot = grant.slot as usize;
        match grant.found {
            Found::Empty => return self.fill(data, slot),
            Found::Remembered => {}
            Found::Assigned => match self.tables.wait(|| self.cache.filled(data, PATIENCE)) {
                Ok(()) => {}
                Err(UnfilledError::Abandoned { .. }) => return Ok(false),
                Err(UnfilledError::Look(LookError::Interrupted)) => return Err(Interrupted),
                Err(error) => panic!("{error}"),
            },
        }
        assert_eq!(self.tables.contents[slot].load(Ordering::Relaxed), data, "slot {slot}");
        Ok(true)
    }

    /// Fills a slot that nobody else may touch, or gives it up.
    fn fill(&mut self, data: u64, slot: usize) -> Result<bool, Interrupted> {
        let Tables { contents, fillers, dead, .. } = self.tables;
        self.tables.count(Count::Loads);
        let before = fillers[slot].swap(self.life, Ordering::Relaxed);
        let is_free = before == 0 || dead[before as usize].load(Ordering::Relaxed) != 0;
        assert!(is_free, "slot {slot} has two owners");
        contents[slot].store(MIXED, Ordering::Relaxed);
        if self.dice.throw(64) == 0 {
            thread::yield_now();
        }
        if self.dies && self.dice.throw(2) == 0 {
            self.die();
        }
        let gives_up = self.dice.throw(16) == 0;
        if !gives_up {
            assert_eq!(contents[slot].swap(data, Ordering::Relaxed), MIXED, "slot {slot} has two owners");
        }
        assert_eq!(fillers[slot].swap(0, Ordering::Relaxed), self.life, "slot {slot} has two owners");
        if gives_up {
            self.tables.count(Count::Abandoned);
            self.act(|client| client.abandon(data))?.unwrap();
        } else {
            self.act(|client| client.remember(data))?.unwrap();
        }
        Ok(!gives_up)
    }
}

/// After all users have gone: nobody waits, and every slot can be had.
fn is_whole(cache: &Cache, slots: usize) {
    let client = cache.client();
    assert_eq!((client.cache().waiting(), client.cache().members().count()), (0, 1));
    // An interrupt is for good, and nobody but this one is left.
    File::from(cache.share().unwrap()).write_all_at(&[0; 8], INTERRUPTED).unwrap();
    let mut all: Vec<_> = (0..slots as u64).map(|data| client.alloc(1000 + data).unwrap()).collect();
    assert!(all.iter().all(|grant| grant.found == Found::Empty), "of data that was never filled");
    all.sort_by_key(|grant| grant.slot);
    all.dedup_by_key(|grant| grant.slot);
    assert_eq!((all.len(), client.alloc(1)), (slots, Err(AllocError::Full { slots: slots as u32 })));
}

fn make() -> Cache {
    Mapped::create(SLOTS, Sharing::new(USERS, 31).unwrap()).unwrap()
}

/// What happened at several caches.
#[derive(Default, Debug)]
struct Sums([u64; COUNTS]);

impl Sums {
    fn add(&mut self, tables: Tables<'_>) {
        self.0.iter_mut().zip(tables.counts).for_each(|(sum, count)| *sum += count.load(Ordering::Relaxed));
    }

    fn of(&self, what: Count) -> u64 {
        self.0[what as usize]
    }

    fn saw_all(&self) -> bool {
        use Count::{Abandoned, Deaths, Expired, Loads};
        [Loads, Expired, Abandoned, Count::Interrupted, Deaths].into_iter().all(|what| self.of(what) > 0)
    }
}

#[test]
fn no_slot_is_lost_or_has_two_owners_and_everybody_is_answered() {
    let (mut dice, mut sums, mut rounds) = (Dice(7), Sums::default(), 0);
    let goal = operations(4_000_000, 30_000);
    while sums.of(Count::Operations) < goal || !sums.saw_all() && rounds < 200 {
        rounds += 1;
        let first = make();
        let words: Vec<_> = (0..WORDS).map(|_| AtomicU64::new(0)).collect();
        let tables = Tables::over(&words);
        let users = u64::from(USERS) - 1;
        let interrupter = dice.throw(2 * users) + 1;
        thread::scope(|scope| {
            let threads: Vec<_> = (1..=users)
                .map(|life| {
                    let (first, own, dies) = (&first, Dice(dice.throw(1 << 31)), dice.throw(4) == 0);
                    scope.spawn(move || {
                        // It has a handle of its own, which is gone with it.
                        let cache = Cache::attach(first.share().unwrap()).unwrap();
                        let user = User { cache: &cache, tables, life, dice: own, dies: false, mine: None };
                        user.live(5_000, life == interrupter, dies);
                    })
                })
                .collect();
            for thread in threads {
                if let Err(payload) = thread.join() {
                    assert_eq!(payload.downcast_ref(), Some(&"dies with a slot"));
                }
            }
        });
        let Statistics { loads, .. } = first.client().cache().statistics();
        assert_eq!(loads, tables.counted(Count::Loads), "each fill was one's to do");
        assert_eq!(tables.counted(Count::Asked), tables.counted(Count::Answered));
        is_whole(&first, SLOTS);
        sums.add(tables);
    }
    println!("{} operations: {rounds} rounds, {sums:?}", sums.of(Count::Operations));
    assert!(sums.saw_all());
}

#[test]
fn another_process() {
    let Some(role) = another::role() else { return };
    let mut words = role.split(' ');
    let [life, seed] = [(); 2].map(|()| words.next().unwrap().parse().unwrap());
    let [cache, tables] = [(); 2].map(|()| File::options().read(true).write(true).open(words.next().unwrap()).unwrap());
    let cache = Cache::attach(OwnedFd::from(cache)).unwrap();
    let tables = Segment::attach(OwnedFd::from(tables), Mapping::ReadWrite, WORDS * 8).unwrap();
    let tables = Tables::over(tables.words(0, WORDS).unwrap());
    tables.count(Count::Came);
    let user = User { cache: &cache, tables, life, dice: Dice(seed), dies: false, mine: None };
    user.live(u64::MAX, false, false);
}

/// The same with users that are killed at any moment, of whom the others are told by this one.
#[test]
fn no_slot_is_lost_though_processes_are_killed() {
    let (mut dice, mut sums, mut rounds) = (Dice(7), Sums::default(), 0);
    let goal = operations(1_000_000, 20_000);
    while sums.of(Count::Operations) < goal || !sums.saw_all() && rounds < 20 {
        rounds += 1;
        let first = make();
        let segment = Segment::create("umbra-stress", WORDS * 8).unwrap();
        let tables = Tables::over(segment.words(0, WORDS).unwrap());
        let (shared, words) = (first.share().unwrap(), segment.share().unwrap());
        let start = |life: u64, seed: u64| {
            let [cache, words] =
                [&shared, &words].map(|fd| format!("/proc/{}/fd/{}", std::process::id(), fd.as_raw_fd()));
            let process = Another::start(&format!("{life} {seed} {cache} {words}"));
            until("one more process", || tables.counted(Count::Came) == life);
            (life, process)
        };
        let users = u64::from(USERS) - 2;
        let mut all: Vec<_> = (1..=users).map(|life| start(life, dice.throw(1 << 31))).collect();
        for life in users + 1..=LIVES {
            thread::sleep(Duration::from_micros(dice.throw(20_000)));
            let (killed, mut process) = all.swap_remove(dice.throw(users) as usize);
            process.kill();
            tables.note_death(killed);
            first.reclaim(PATIENCE, |_, _| ()).unwrap();
            all.push(start(life, dice.throw(1 << 31)));
        }
        if rounds % 2 == 1 {
            first.client().cache().interrupt();
        }
        tables.count(Count::Stop);
        all.into_iter().for_each(|(_, process)| process.finish());
        let Statistics { loads: given, .. } = first.client().cache().statistics();
        let [loads, deaths, asked, answered] =
            [Count::Loads, Count::Deaths, Count::Asked, Count::Answered].map(|what| tables.counted(what));
        assert!(loads <= given && given - loads <= deaths, "{loads} of {given} loads");
        assert!(answered <= asked && asked - answered <= deaths, "{answered} of {asked} waits");
        is_whole(&first, SLOTS);
        sums.add(tables);
    }
    println!("{} operations: {rounds} rounds, {sums:?}", sums.of(Count::Operations));
    assert!(sums.saw_all());
}
