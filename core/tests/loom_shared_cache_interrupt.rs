//! All interleavings of an interrupt beside a few who use a shared cache, by loom.
//!
//! Who waits sleeps until his word has changed and somebody wakes him, as on a futex: an interrupt that forgets him leaves
//! him asleep for good, which loom reports as a deadlock.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]
#![cfg(loom)]

mod interleavings;

use std::sync::OnceLock;

use interleavings::bounded;
use loom::cell::Cell;
use loom::sync::{Condvar, Mutex};
use loom::thread;
use umbra_core::atomic::{AtomicU64, Ordering};
use umbra_core::cache::{Found, Remembering, State};
use umbra_core::shared_cache::{
    AllocError, Cache, Client, FillError, FreeError, Identity, LookError, Reclaimed, Sharing, words_for,
};

/// The word that says that the cache was interrupted.
const INTERRUPTED: usize = 4;

loom::lazy_static! {
    static ref TABLE: Table = Table::new();
    /// Where all who wait sleep.
    static ref BED: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());
}

/// A cache of one slot, and its memory: loom reports a read of it beside a write.
struct Table {
    words: Vec<AtomicU64>,
    content: Cell<u64>,
}

impl Table {
    fn new() -> Table {
        let sharing = Sharing::new(4, 3).unwrap();
        let words: Vec<_> = (0..words_for(1, sharing).unwrap()).map(|_| AtomicU64::new(0)).collect();
        Cache::create(&words, 1, sharing, 1).unwrap();
        Table { words, content: Cell::new(u64::MAX) }
    }

    fn cache(&self) -> Cache<'_> {
        Cache::attach(&self.words).unwrap().waking(|_| {
            let _bed = BED.0.lock().unwrap();
            BED.1.notify_all();
        })
    }
}

/// Sleeps while the lower half of the word is what was seen of it.
fn sleep(word: &AtomicU64, seen: u32) {
    let mut bed = BED.0.lock().unwrap();
    while word.load(Ordering::Relaxed) as u32 == seen {
        bed = BED.1.wait(bed).unwrap();
    }
}

/// The cache was interrupted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Interrupted;

/// A process, and what it has as far as it was told.
struct User {
    client: Client<'static, Remembering>,
    references: u64,
    fills: u64,
}

impl User {
    fn new(who: u32) -> User {
        User { client: TABLE.cache().join(Identity::new(who, 0)).unwrap(), references: 0, fills: 0 }
    }

    fn took(&mut self, found: Found) {
        self.references += 1;
        self.fills += u64::from(found == Found::Empty);
    }

    /// Waits in line.
    fn take(&mut self, data: u64) -> Result<Found, Interrupted> {
        loop {
            let turn = self.client.stand(data).unwrap();
            while let Some(seen) = turn.answer() {
                let tried = match turn.ahead() {
                    None => self.client.alloc_in_turn(data, &turn),
                    Some(_) => self.client.alloc_behind(data),
                };
                match tried {
                    Ok(grant) => {
                        self.took(grant.found);
                        return Ok(grant.found);
                    }
                    Err(AllocError::Interrupted) => return Err(Interrupted),
                    Err(AllocError::Full { .. }) => sleep(turn.word(), seen),
                    Err(AllocError::Blocked { .. }) => thread::yield_now(),
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }

    fn fill(&mut self, data: u64) -> Result<(), Interrupted> {
        TABLE.content.set(data);
        match self.client.remember(data) {
            Ok(()) => {
                self.fills -= 1;
                Ok(())
            }
            Err(FillError::Interrupted) => Err(Interrupted),
            Err(error) => panic!("{error}"),
        }
    }

    fn give_back(&mut self, data: u64) -> Result<(), Interrupted> {
        match self.client.free(data) {
            Ok(()) => {
                self.references -= 1;
                Ok(())
            }
            Err(FreeError::Interrupted) => Err(Interrupted),
            Err(error) => panic!("{error}"),
        }
    }

    /// Waits until another has filled the slot.
    fn await_content(&self, data: u64) -> Result<(), Interrupted> {
        let event = self.client.fill_event(data);
        loop {
            let seen = event.announce();
            match self.client.state(data) {
                Ok(Some(State::InUse | State::Idle)) => return Ok(()),
                Ok(Some(State::Filling)) => sleep(event.word(), seen),
                Err(LookError::Interrupted) => return Err(Interrupted),
                other => panic!("{other:?}"),
            }
        }
    }

    /// Waits for a slot, uses it and gives it back.
    fn work(&mut self, data: u64) -> Result<(), Interrupted> {
        match self.take(data)? {
            Found::Empty => self.fill(data)?,
            Found::Remembered => {}
            Found::Assigned => self.await_content(data)?,
        }
        assert_eq!(TABLE.content.get(), data, "the content of the slot");
        self.give_back(data)
    }
}

fn check(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut model = bounded(preemptions);
    model.max_branches = 10_000;
    model.check(body);
}

fn interrupter() -> thread::JoinHandle<()> {
    thread::spawn(|| TABLE.cache().interrupt())
}

/// Each has what it was told, and gives that back by leaving; then nobody waits, and the slot can be had.
fn at_rest(users: impl IntoIterator<Item = User>) {
    for User { client, references, fills } in users {
        assert!(TABLE.cache().is_interrupted() && client.alloc(99) == Err(AllocError::Interrupted));
        let Reclaimed { references: left, fills: unfilled, .. } = client.leave().unwrap();
        assert_eq!((left, unfilled), (references, fills), "what was told is what it has");
    }
    assert_eq!((TABLE.cache().waiting(), TABLE.cache().members().count()), (0, 0));
    TABLE.words[INTERRUPTED].store(0, Ordering::Relaxed);
    let client = User::new(9).client;
    assert_eq!(client.alloc(100).map(|grant| (grant.slot, grant.found)), Ok((0, Found::Empty)));
    assert_eq!(client.alloc(99), Err(AllocError::Full { slots: 1 }));
}

/// Whether each of two ends was met in some order.
struct Seen([OnceLock<()>; 2]);

impl Seen {
    const NONE: Seen = Seen([OnceLock::new(), OnceLock::new()]);

    fn note(&self, ended: Result<(), Interrupted>) {
        self.0[usize::from(ended.is_ok())].get_or_init(|| ());
    }

    fn is_all(&self) -> bool {
        self.0.iter().all(|one| one.get().is_some())
    }
}

#[test]
fn who_waits_for_a_slot_beside_an_interrupt_has_used_it_or_is_told() {
    static SEEN: Seen = Seen::NONE;
    check(3, || {
        let (mut holder, mut waiter) = (User::new(1), User::new(2));
        holder.take(10).unwrap();
        let waiter = thread::spawn(move || {
            let ended = waiter.work(11);
            (waiter, ended)
        });
        let interrupter = interrupter();
        let freed = holder.fill(10).and_then(|()| holder.give_back(10));
        let (waiter, ended) = waiter.join().unwrap();
        assert!(freed.is_ok() || ended.is_err(), "the slot was not free");
        SEEN.note(ended);
        interrupter.join().unwrap();
        at_rest([holder, waiter]);
    });
    assert!(SEEN.is_all(), "one of the ends was never met");
}

#[test]
fn who_waits_for_content_beside_an_interrupt_sees_it_or_is_told() {
    static SEEN: Seen = Seen::NONE;
    check(3, || {
        let (mut filler, mut reader) = (User::new(1), User::new(2));
        assert_eq!((filler.take(10), reader.take(10)), (Ok(Found::Empty), Ok(Found::Assigned)));
        let reader = thread::spawn(move || {
            let ended = reader.await_content(10);
            if ended.is_ok() {
                assert_eq!(TABLE.content.get(), 10);
            }
            (reader, ended)
        });
        let interrupter = interrupter();
        let filled = filler.fill(10);
        let (reader, ended) = reader.join().unwrap();
        assert!(filled.is_ok() || ended.is_err(), "nobody has filled it");
        SEEN.note(ended);
        interrupter.join().unwrap();
        at_rest([filler, reader]);
    });
    assert!(SEEN.is_all(), "one of the ends was never met");
}

/// Also those behind one who is stopped, and calls nobody.
#[test]
fn two_in_line_beside_an_interrupt_are_told_each() {
    check(2, || {
        let (mut holder, stopped) = (User::new(1), User::new(4));
        holder.take(10).unwrap();
        let turn = stopped.client.stand(12).unwrap();
        let threads = [2, 3].map(|who| {
            let mut user = User::new(who);
            thread::spawn(move || {
                let ended = user.take(20 + u64::from(who));
                (user, ended)
            })
        });
        TABLE.cache().interrupt();
        let users = threads.map(|thread| thread.join().unwrap());
        assert!(users.iter().all(|(_, ended)| *ended == Err(Interrupted)), "nobody has freed the slot");
        drop(turn);
        let [(first, _), (second, _)] = users;
        at_rest([holder, stopped, first, second]);
    });
}

/// What a dead one held is taken back also while the cache is interrupted.
#[test]
fn a_reclaim_beside_an_interrupt_takes_back_what_the_dead_one_held() {
    static SEEN: Seen = Seen::NONE;
    check(2, || {
        let (burier, mut dead, mut waiter) = (User::new(1), User::new(2), User::new(3));
        dead.take(10).unwrap();
        std::mem::forget(dead.client.stand(12));
        let waiter = thread::spawn(move || {
            let ended = waiter.work(11);
            (waiter, ended)
        });
        let interrupter = interrupter();
        let mut abandoned = vec![];
        let owner = dead.client.owner();
        let reclaimed = burier.client.reclaim(owner, Identity::new(2, 0), |slot, data| abandoned.push((slot, data)));
        assert_eq!(reclaimed, Ok(Reclaimed { references: 1, fills: 1, emptied: 1 }));
        assert_eq!(abandoned, [(0, 10)]);
        let (waiter, ended) = waiter.join().unwrap();
        SEEN.note(ended);
        interrupter.join().unwrap();
        at_rest([burier, waiter]);
    });
    assert!(SEEN.is_all(), "one of the ends was never met");
}
