//! All interleavings of a few who wait for a slot of a shared cache, by loom.
//!
//! Who would go to sleep tells on which value. If the first in line then sleeps although a slot is free, his word has
//! changed meanwhile: so the sleep would end at once, or somebody wakes him.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]
#![cfg(loom)]

mod interleavings;

use std::mem;

use interleavings::bounded;
use loom::thread;
use umbra_core::atomic::{AtomicU64, Ordering};
use umbra_core::cache::{Found, Remembering};
use umbra_core::shared_cache::{AllocError, Cache, Client, Identity, Sharing, Turn, words_for};

struct Table(Vec<AtomicU64>);

impl Table {
    /// One slot.
    fn new() -> Table {
        let sharing = Sharing::new(4, 3).unwrap();
        let words: Vec<_> = (0..words_for(1, sharing).unwrap()).map(|_| AtomicU64::new(0)).collect();
        Cache::create(&words, 1, sharing, 1).unwrap();
        Table(words)
    }

    fn join(&self, who: u32) -> Client<'_, Remembering> {
        Cache::attach(&self.0).unwrap().join(Identity::new(who, 0)).unwrap()
    }
}

/// One who would sleep, and on what.
struct Asleep<'a> {
    turn: Turn<'a>,
    seen: u32,
}

fn check(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut model = bounded(preemptions);
    model.max_branches = 10_000;
    model.check(body);
}

/// Takes the slot, uses it and gives it back; or would go to sleep.
fn wait<'a>(client: Client<'a, Remembering>, data: u64) -> Option<Asleep<'a>> {
    let turn = client.stand(data).unwrap();
    look(client, data, turn)
}

fn look<'a>(client: Client<'a, Remembering>, data: u64, turn: Turn<'a>) -> Option<Asleep<'a>> {
    let mut turn = turn;
    let seen = loop {
        match turn.answer() {
            Some(seen) => break seen,
            // Passed over: behind all the others.
            None => turn = client.stand(data).unwrap(),
        }
    };
    if turn.ahead().is_some() {
        return Some(Asleep { turn, seen });
    }
    match client.alloc_in_turn(data, &turn) {
        Ok(_) => {
            drop(turn);
            client.free(data).unwrap();
            None
        }
        Err(AllocError::Full { .. }) => Some(Asleep { turn, seen }),
        Err(AllocError::Blocked { .. }) => {
            // He looks again after a moment, whoever calls: as if he had been called.
            drop(turn);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// The slot is free, so whoever is first will look.
fn none_is_forgotten(asleep: impl IntoIterator<Item = Option<Asleep<'static>>>) {
    for Asleep { turn, seen } in asleep.into_iter().flatten() {
        let was_called = turn.word().load(Ordering::Relaxed) as u32 != seen;
        assert!(was_called || turn.ahead().is_some(), "the first sleeps beside a free slot");
        // The next one is first, and is called by that.
        mem::forget(turn);
    }
}

#[test]
fn of_two_who_wait_the_first_is_called_when_a_slot_is_free() {
    loom::lazy_static! {
        static ref TABLE: Table = Table::new();
    }
    check(2, || {
        let [holder, first, second] = [1, 2, 3].map(|who| TABLE.join(who));
        holder.alloc(10).unwrap();
        let threads = [(first, 11), (second, 12)].map(|(client, data)| thread::spawn(move || wait(client, data)));
        holder.free(10).unwrap();
        none_is_forgotten(threads.map(|thread| thread.join().unwrap()));
    });
}

#[test]
fn one_who_was_killed_in_line_keeps_nobody_waiting_once_he_is_buried() {
    loom::lazy_static! {
        static ref TABLE: Table = Table::new();
    }
    for answers in [false, true] {
        check(2, move || {
            let [holder, killed, waiter] = [1, 2, 3].map(|who| TABLE.join(who));
            holder.alloc(10).unwrap();
            let turn = killed.stand(11).unwrap();
            if answers {
                let _ = turn.answer();
            }
            // He does not leave.
            mem::forget(turn);
            let waiting = thread::spawn(move || wait(waiter, 12));
            holder.free(10).unwrap();
            holder.reclaim(killed.owner(), Identity::new(2, 0), |_, _| ()).unwrap();
            let asleep = waiting.join().unwrap();
            assert!(asleep.as_ref().is_none_or(|asleep| asleep.turn.ahead().is_none()), "nobody else is in line");
            none_is_forgotten([asleep]);
        });
    }
}

#[test]
fn one_who_is_passed_over_while_he_answers_comes_again() {
    loom::lazy_static! {
        static ref TABLE: Table = Table::new();
    }
    check(2, || {
        let [holder, slow, waiter] = [1, 2, 3].map(|who| TABLE.join(who));
        holder.alloc(10).unwrap();
        let turn = slow.stand(11).unwrap();
        let behind = waiter.stand(12).unwrap();
        let slow_thread = thread::spawn(move || look(slow, 11, turn));
        holder.free(10).unwrap();
        if let Some(first) = behind.ahead() {
            behind.pass_over(first);
        }
        let asleep = look(waiter, 12, behind);
        none_is_forgotten([slow_thread.join().unwrap(), asleep]);
    });
}

/// He is not the first, and behind one who is stopped.
#[test]
fn who_waits_for_the_same_data_is_called_when_it_gets_a_slot() {
    loom::lazy_static! {
        static ref TABLE: Table = Table::new();
    }
    check(3, || {
        let [holder, stopped, waiter] = [1, 2, 3].map(|who| TABLE.join(who));
        holder.alloc(10).unwrap();
        let first = stopped.stand(12).unwrap();
        let waiting = thread::spawn(move || {
            let turn = waiter.stand(11).unwrap();
            let seen = turn.answer().unwrap();
            assert!(turn.ahead().is_some(), "he comes second");
            let found = waiter.alloc_behind(11).map(|grant| grant.found);
            (turn, seen, found)
        });
        holder.free(10).unwrap();
        let mut assigned = holder.alloc(11);
        while let Err(AllocError::Blocked { .. }) = assigned {
            thread::yield_now();
            assigned = holder.alloc(11);
        }
        assert_eq!(assigned.map(|grant| grant.found), Ok(Found::Empty));
        let (turn, seen, found) = waiting.join().unwrap();
        match found {
            Ok(found) => assert_eq!(found, Found::Assigned),
            Err(AllocError::Full { .. }) => {
                let was_called = turn.word().load(Ordering::Relaxed) as u32 != seen;
                assert!(was_called, "he sleeps beside the slot of his data");
            }
            // He looks again after a moment, whoever calls.
            Err(AllocError::Blocked { .. }) => {}
            Err(error) => panic!("{error}"),
        }
        drop((turn, first));
    });
}

#[test]
fn one_who_leaves_beside_the_first_leaves_no_gap() {
    loom::lazy_static! {
        static ref TABLE: Table = Table::new();
    }
    check(2, || {
        let client = TABLE.join(1);
        let [first, second, third] = [(); 3].map(|()| client.stand(11).unwrap());
        let seen = third.answer().unwrap();
        let thread = thread::spawn(move || drop(first));
        drop(second);
        thread.join().unwrap();
        assert!(third.ahead().is_none());
        assert_ne!(third.word().load(Ordering::Relaxed) as u32, seen, "he is the first, and was called");
        assert_eq!(client.cache().waiting(), 1);
    });
}
