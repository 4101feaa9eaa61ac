//! A process dies before every single operation on the words of a shared cache.
//!
//! So does then whoever takes back what the first one held, while the others go on. Whoever is left has the references that it
//! knows of, finds whole content or none, and does not sleep beside a slot that it could have; and after that every slot can
//! be taken once, and none has to be emptied for it as long as there are empty ones.
//!
//! Run with `RUSTFLAGS="--cfg crash" cargo test -p umbra-core --test crash_points_shared_cache`.
#![cfg(crash)]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod deaths;
mod random;

use std::collections::{BTreeMap, BTreeSet};
use std::mem;

use deaths::{before_each, before_some, scripts, words};
use random::Random;
use umbra_core::atomic::{Ordering, crash};
use umbra_core::cache::{Forgetting, Found, State};
use umbra_core::shared_cache::{
    AllocError, Blocked, Client, FillError, ForgetError, Forgetful, FreeError, Grant, Identity, ReclaimError, Sharing,
    Turn, words_for,
};

/// Who uses the cache, by their numbers there.
const SURVIVOR: usize = 0;
const BURIER: usize = 1;
const DYING: usize = 2;
const OTHER: usize = 3;
/// What lies in a slot that was not filled wholly.
const MIXED: u64 = u64::MAX;

/// What whoever finds a slot empty does with it.
#[derive(Clone, Copy, Debug)]
enum Fill {
    Remembers,
    Abandons,
    GoesOn,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Alloc(usize, Fill),
    AllocBehind(usize, Fill),
    Free(usize),
    Remember(usize),
    Abandon(usize),
    Forget(usize),
    ForgetLater(usize),
    Stand(usize),
    /// Those who stand in line look for their slots.
    Look,
    GoAway,
}

fn steps(random: &mut Random, most: u64, ids: usize) -> Vec<Step> {
    let step = |random: &mut Random| {
        let id = random.index(ids);
        let fill = [Fill::Remembers, Fill::Remembers, Fill::Abandons, Fill::GoesOn][random.index(4)];
        match random.below(24) {
            0..8 => Step::Alloc(id, fill),
            8 => Step::AllocBehind(id, fill),
            9..15 => Step::Free(id),
            15..17 => Step::Remember(id),
            17 => Step::Abandon(id),
            18..20 => Step::Forget(id),
            20 => Step::ForgetLater(id),
            21 => Step::Stand(id),
            22 => Step::Look,
            _ => Step::GoAway,
        }
    };
    (0..random.below(most + 1)).map(|_| step(random)).collect()
}

#[derive(Debug)]
struct Script {
    slots: usize,
    /// How many lines the ids belong into.
    homes: usize,
    ids: usize,
    before: Vec<(usize, Step)>,
    dying: Vec<Step>,
    survivor: Vec<Step>,
    others: Vec<Step>,
}

impl Script {
    fn new(random: &mut Random) -> Script {
        let slots = [1, 2, 3, 4, 5, 9, 20][random.index(7)];
        let (homes, ids) = ([usize::MAX, 2, 1][random.index(3)], 1 + random.index(slots + 4));
        let before = steps(random, 16 + 2 * slots as u64, ids);
        let who = [SURVIVOR, SURVIVOR, DYING, DYING, BURIER, OTHER];
        let before = before.into_iter().map(|step| (who[random.index(6)], step)).collect();
        let mut few = |most| steps(random, most, ids);
        Script { slots, homes, ids, before, dying: few(3), survivor: few(5), others: few(5) }
    }
}

struct Waiter<'a> {
    turn: Turn<'a>,
    data: u64,
    /// What it sleeps on; `None` if it was passed over.
    seen: Option<u32>,
}

/// A process, and what it knows that it has.
struct Process<'a> {
    client: Client<'a, Forgetting>,
    lives: bool,
    /// References to data, and its slot.
    held: BTreeMap<u64, (u32, u32)>,
    fills: BTreeSet<u64>,
    waiting: Vec<Waiter<'a>>,
}

struct Scene<'a> {
    cache: Forgetful<'a>,
    ids: Vec<u64>,
    processes: Vec<Process<'a>>,
    /// The data that lies in each slot.
    contents: Vec<u64>,
}

fn identity(number: usize) -> Identity {
    Identity::new(number as u32 + 1, 5)
}

/// Whether it was done; it may be that somebody has the line who is dead.
fn is_done<T, E: Copy + std::fmt::Debug>(result: Result<T, E>, why: impl Fn(E) -> Option<Blocked>) -> bool {
    let error = match result {
        Ok(_) => return true,
        Err(error) => error,
    };
    assert!(matches!(why(error), Some(Blocked::Busy { .. })), "{error:?}");
    false
}

impl<'a> Scene<'a> {
    fn new(cache: Forgetful<'a>, ids: &[u64]) -> Self {
        let process = |number| Process {
            client: cache.join(identity(number)).unwrap(),
            lives: true,
            held: BTreeMap::new(),
            fills: BTreeSet::new(),
            waiting: vec![],
        };
        let processes = (0..4).map(process).collect();
        Scene { cache, ids: ids.to_vec(), processes, contents: vec![MIXED; cache.capacity() as usize] }
    }

    fn living(&self) -> impl Iterator<Item = &Process<'a>> {
        self.processes.iter().filter(|process| process.lives)
    }

    fn play(&mut self, who: usize, steps: &[Step]) {
        for &step in steps {
            self.step(who, step);
        }
    }

    fn step(&mut self, who: usize, step: Step) {
        let data = |id: usize| self.ids[id];
        let client = self.processes[who].client;
        match step {
            Step::Alloc(id, fill) => self.take(who, data(id), client.alloc(data(id)), fill),
            Step::AllocBehind(id, fill) => self.take(who, data(id), client.alloc_behind(data(id)), fill),
            Step::Free(id) => self.free(who, data(id)),
            Step::Remember(id) => self.end_fill(who, data(id), true),
            Step::Abandon(id) => self.end_fill(who, data(id), false),
            Step::Forget(id) | Step::ForgetLater(id) => {
                let is_later = matches!(step, Step::ForgetLater(_));
                match if is_later { client.forget_later(data(id)) } else { client.forget(data(id)) } {
                    Err(ForgetError::Blocked { why: Blocked::Busy { .. } } | ForgetError::NotRemembered { .. }) => {}
                    Err(ForgetError::InUse { .. }) => assert!(!is_later),
                    done => assert!(done.is_ok(), "{done:?}"),
                }
            }
            Step::Stand(id) => {
                let data = data(id);
                let waiter = client.stand(data).map(|turn| Waiter { turn, data, seen: None });
                self.processes[who].waiting.extend(waiter);
                self.look(who);
            }
            Step::Look => self.look(who),
            Step::GoAway => drop(self.processes[who].waiting.pop()),
        }
    }

    fn take(&mut self, who: usize, data: u64, result: Result<Grant, AllocError>, fill: Fill) {
        let grant = match result {
            Ok(grant) => grant,
            Err(AllocError::Full { .. } | AllocError::TooManyReferences { .. }) => return,
            Err(error) => {
                let why = |error| if let AllocError::Blocked { why } = error { Some(why) } else { None };
                is_done(Err::<(), _>(error), why);
                return;
            }
        };
        for (&other, &(_, slot)) in self.living().flat_map(|process| &process.held) {
            assert_eq!(other == data, slot == grant.slot, "{other} is in slot {slot}, and {data} in {}", grant.slot);
        }
        let (references, _) = self.processes[who].held.entry(data).or_insert((0, grant.slot));
        *references += 1;
        assert_eq!(*references, grant.mine);
        let content = &mut self.contents[grant.slot as usize];
        match grant.found {
            Found::Assigned => {}
            Found::Remembered => assert_eq!(*content, data, "content of other data, or in part"),
            Found::Empty => {
                *content = MIXED;
                assert!(self.living().all(|process| !process.fills.contains(&data)), "two fill a slot");
                self.processes[who].fills.insert(data);
                if !matches!(fill, Fill::GoesOn) {
                    self.end_fill(who, data, matches!(fill, Fill::Remembers));
                }
            }
        }
    }

    fn end_fill(&mut self, who: usize, data: u64, is_whole: bool) {
        let process = &mut self.processes[who];
        // Before it says so: then others may find it, or fill it.
        if !process.fills.remove(&data) {
            return;
        }
        let result = if is_whole {
            self.contents[process.held[&data].1 as usize] = data;
            process.client.remember(data)
        } else {
            process.client.abandon(data)
        };
        let why = |error| if let FillError::Blocked { why } = error { Some(why) } else { None };
        if !is_done(result, why) {
            process.fills.insert(data);
        }
    }

    fn free(&mut self, who: usize, data: u64) {
        let Some(&(references, slot)) = self.processes[who].held.get(&data) else { return };
        if references == 1 {
            self.end_fill(who, data, false);
        }
        let process = &mut self.processes[who];
        if references > 1 {
            process.held.insert(data, (references - 1, slot));
        } else {
            process.held.remove(&data);
        }
        let why = |error| if let FreeError::Blocked { why } = error { Some(why) } else { None };
        if !is_done(process.client.free(data), why) {
            process.held.insert(data, (references, slot));
        }
    }

    fn look(&mut self, who: usize) {
        for mut waiter in mem::take(&mut self.processes[who].waiting) {
            waiter.seen = waiter.turn.answer();
            if waiter.seen.is_some() && waiter.turn.ahead().is_none() {
                let result = self.processes[who].client.alloc_in_turn(waiter.data, &waiter.turn);
                if !matches!(result, Err(AllocError::Full { .. })) {
                    self.take(who, waiter.data, result, Fill::Remembers);
                    continue;
                }
            }
            self.processes[who].waiting.push(waiter);
        }
    }

    /// It will not run again, and knows nothing any more.
    fn end(&mut self, who: usize) {
        let process = &mut self.processes[who];
        process.lives = false;
        (process.held, process.fills) = (BTreeMap::new(), BTreeSet::new());
        mem::forget(mem::take(&mut process.waiting));
    }

    fn bury(&self, who: usize, by: usize) -> Result<(), ReclaimError> {
        let dead = self.processes[who].client.owner();
        self.processes[by].client.reclaim(dead, identity(who), |_, _| ()).map(|_| ())
    }

    /// The survivor buries the dead, of whom one may have buried the other, or was about to.
    fn bury_all(&self) {
        for who in [DYING, BURIER, DYING] {
            if !self.processes[who].lives {
                let buried = self.bury(who, SURVIVOR);
                assert!(
                    matches!(buried, Ok(()) | Err(ReclaimError::Unknown(_) | ReclaimError::InProgress { .. })),
                    "{buried:?}"
                );
            }
        }
        assert_eq!(self.cache.members().count(), self.living().count());
    }

    /// What those who live have is what they know of.
    fn check_held(&self) {
        for (holding, process) in self.cache.holdings().zip(self.living()) {
            assert_eq!(holding.owner, process.client.owner());
            assert_eq!((holding.slots, holding.fills), (process.held.len() as u32, process.fills.len() as u32));
            assert_eq!(holding.waiting as usize, process.waiting.len());
        }
        let survivor = self.processes[SURVIVOR].client;
        for &data in &self.ids {
            let known = self.living().filter_map(|process| process.held.get(&data)).map(|&(references, _)| references);
            assert_eq!(survivor.references(data), Ok(known.sum()));
            let is_filled = self.living().any(|process| process.fills.contains(&data));
            assert_eq!(survivor.state(data).unwrap() == Some(State::Filling), is_filled);
        }
    }

    /// Who is first in line and was not called would find no slot.
    fn check_waiting(&mut self) {
        for process in self.processes.iter().filter(|process| process.lives) {
            for Waiter { turn, data, seen } in &process.waiting {
                let sleeps = seen.is_some_and(|seen| turn.word().load(Ordering::Relaxed) as u32 == seen);
                if sleeps && turn.ahead().is_none() {
                    let result = process.client.alloc_in_turn(*data, turn);
                    assert!(matches!(result, Err(AllocError::Full { .. })), "sleeps beside {result:?}");
                }
            }
        }
        self.processes.iter_mut().for_each(|process| process.waiting.clear());
        assert_eq!(self.cache.waiting(), 0);
    }

    /// All slots can be used as ever, once nobody refers to them.
    fn check_slots(&mut self) {
        for who in 0..self.processes.len() {
            for data in self.ids.clone() {
                while self.processes[who].held.contains_key(&data) {
                    self.free(who, data);
                }
            }
        }
        let survivor = self.processes[SURVIVOR].client;
        let (empty, evictions) = (self.cache.empty(), self.cache.statistics().evictions);
        for data in 0..u64::from(empty) {
            assert_eq!(survivor.alloc(100_000 + data).map(|grant| grant.found), Ok(Found::Empty));
        }
        assert_eq!((self.cache.empty(), self.cache.statistics().evictions), (0, evictions), "content left for nothing");
        survivor.free_all(&(0..u64::from(empty)).map(|data| 100_000 + data).collect::<Vec<_>>()).unwrap();
        for &data in &self.ids {
            if survivor.state(data).unwrap().is_some() {
                let grant = survivor.alloc(data).unwrap();
                assert_eq!((grant.found, self.contents[grant.slot as usize]), (Found::Remembered, data));
                survivor.free(data).unwrap();
            }
        }
        let slots = self.cache.capacity();
        let taken: BTreeSet<_> =
            (0..u64::from(slots)).map(|data| survivor.alloc(200_000 + data).unwrap().slot).collect();
        assert_eq!(taken, (0..slots).collect());
        assert_eq!(survivor.alloc(300_000), Err(AllocError::Full { slots }));
    }
}

#[test]
fn a_process_that_dies_at_a_shared_cache_takes_no_slot_and_no_content_of_others_with_it() {
    let sharing = Sharing::new(4, 3).unwrap();
    scripts(120, |seed, random| {
        let script = Script::new(random);
        let memory = words(words_for(script.slots, sharing).unwrap());
        let make = || Forgetful::create(&memory, script.slots, sharing, 7).unwrap();
        let is_near = |data: &u64| make().home(*data).0 < script.homes;
        let ids: Vec<u64> = (0..).filter(is_near).take(script.ids).collect();
        let mut deaths = 0;
        let random = Random(random.bits());
        before_each(seed, &script, |death| {
            let mut is_over = false;
            deaths += before_some(seed, &"the burial", Random(random.0 ^ death), |buriers_death| {
                let mut scene = Scene::new(make(), &ids);
                script.before.iter().for_each(|&(who, step)| scene.step(who, step));
                is_over = crash::before(death, || scene.play(DYING, &script.dying)).is_some();
                scene.end(DYING);
                scene.play(SURVIVOR, &script.survivor);
                let is_buried = crash::before(buriers_death, || scene.bury(DYING, BURIER).unwrap()).is_some();
                scene.end(BURIER);
                scene.play(OTHER, &script.others);
                scene.bury_all();
                scene.play(SURVIVOR, &script.others);
                scene.check_held();
                scene.check_waiting();
                scene.check_slots();
                is_buried
            });
            is_over
        });
        deaths
    });
}
