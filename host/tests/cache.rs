//! The scenarios of slot caches whose clients are threads.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use umbra::cache::{AllocError, BuildError, Cache, FilledError, Forgetful, Given, Stack};
use umbra_core::cache::policy::{Clock, Fifo, Lru};
use umbra_core::cache::waiting::{ContentError, WaitError};
use umbra_core::cache::{Dense, FreeError, Grant, Line, ResetError, Sparse};

type Words = Dense<Vec<u32>>;

/// Longer than any machine takes, so whoever waits so long would wait for good.
const PATIENCE: Duration = Duration::from_secs(60);
const BRIEF: Duration = Duration::from_millis(20);

fn cache(slots: u32) -> Forgetful<Words, Lru> {
    Forgetful::new(0..slots, Dense::new(vec![0; 1000]), Lru::new()).unwrap()
}

/// Returns when so many are waiting.
fn until_waiting(cache: &Forgetful<Words, Lru>, count: u32) {
    let begun = Instant::now();
    while cache.waiting() != count {
        assert!(begun.elapsed() < PATIENCE, "{} wait instead of {count}", cache.waiting());
        thread::yield_now();
    }
}

#[test]
fn s25_alloc_waits_for_a_free_and_gets_exactly_the_slot_that_was_freed() {
    let cache = cache(3);
    let mut held: Vec<_> = (0..3).map(|data| cache.try_alloc(data).unwrap()).collect();
    thread::scope(|scope| {
        let client = scope.spawn(|| cache.alloc(7, PATIENCE).map(|given| given.slot()));
        until_waiting(&cache, 1);
        drop(held.remove(1));
        assert_eq!(client.join().unwrap(), Ok(1));
    });
}

#[test]
fn s26_two_who_wait_for_the_same_data_share_one_slot() {
    let cache = cache(2);
    let held: Vec<_> = (0..2).map(|data| cache.try_alloc(data).unwrap()).collect();
    thread::scope(|scope| {
        let clients = [0; 2].map(|_| {
            scope.spawn(|| match cache.alloc(7, PATIENCE).unwrap() {
                Given::Empty(fill) => {
                    let slot = fill.slot();
                    drop(fill.remember().unwrap());
                    (true, slot)
                }
                Given::Assigned(held) => {
                    cache.filled(7, PATIENCE).unwrap();
                    (false, held.slot())
                }
                Given::Remembered(held) => (false, held.slot()),
            })
        });
        until_waiting(&cache, 2);
        drop(held);
        let told = clients.map(|client| client.join().unwrap());
        assert_ne!(told[0].0, told[1].0, "one of them fills");
        assert_eq!(told[0].1, told[1].1);
    });
    let taken = [10, 11].map(|data| cache.try_alloc(data).unwrap());
    assert_ne!(taken[0].slot(), taken[1].slot(), "no slot is lost");
}

#[test]
fn s27_who_came_first_is_served_first() {
    let cache = cache(1);
    let first = cache.try_alloc(0).unwrap();
    let (sender, served) = channel();
    thread::scope(|scope| {
        for data in 1..9 {
            let (cache, sender) = (&cache, sender.clone());
            scope.spawn(move || {
                let given = cache.alloc(data, PATIENCE).unwrap();
                // The next one cannot be served before this one has gone.
                sender.send(data).unwrap();
                drop(given);
            });
            until_waiting(cache, data as u32);
        }
        drop(first);
        drop(sender);
        assert!(served.iter().eq(1..9));
    });
}

#[test]
fn s30_an_interrupt_ends_the_wait_of_every_thread() {
    for threads in [1, 64] {
        let cache = cache(1);
        let held = cache.try_alloc(0).unwrap();
        thread::scope(|scope| {
            let clients: Vec<_> = (0..threads)
                .map(|n| {
                    let cache = &cache;
                    scope.spawn(move || match n % 3 {
                        0 => cache.filled(0, PATIENCE) == Err(FilledError::Interrupted),
                        _ => matches!(cache.alloc(n % 5 + 1, PATIENCE), Err(AllocError::Interrupted)),
                    })
                })
                .collect();
            until_waiting(&cache, threads as u32);
            cache.interrupt();
            assert!(clients.into_iter().all(|client| client.join().unwrap()));
        });
        assert!(matches!(cache.alloc(0, PATIENCE), Err(AllocError::Interrupted)), "also those to come");
        drop(held);
        assert!(matches!(cache.reset(), Err(ResetError::Filling { slot: 0, data: 0 })), "its fill was not ended");
        assert!(cache.settle(0));
        assert_eq!(cache.reset(), Ok(()));
        assert!(matches!(cache.alloc(0, PATIENCE), Ok(Given::Empty(_))));
    }
}

#[test]
fn s32_references_that_are_dropped_after_an_interrupt_or_a_reset_do_nothing() {
    let cache = cache(1);
    let Given::Empty(fill) = cache.try_alloc(1).unwrap() else { panic!("not empty") };
    let Given::Assigned(held) = cache.try_alloc(1).unwrap() else { panic!("not assigned") };
    cache.interrupt();
    drop(held);
    assert!(cache.settle(0));
    assert_eq!(cache.reset(), Ok(()));
    let Given::Empty(again) = cache.try_alloc(1).unwrap() else { panic!("not empty") };
    drop(fill);
    assert_eq!(cache.look(|cache| cache.outstanding_fills().collect::<Vec<_>>()), [(0, 1)], "of the new life");
    drop(again.remember().unwrap());
    assert!(matches!(cache.try_alloc(1), Ok(Given::Remembered(_))));
}

#[test]
fn s34_a_deadline_ends_a_wait_and_says_who_holds_the_slots() {
    let cache = cache(2);
    let held = [1, 2].map(|data| cache.try_alloc(data).unwrap());
    let error = cache.alloc(7, BRIEF).map(drop).unwrap_err();
    let text = error.to_string();
    let AllocError::Expired { scene, .. } = error else { panic!("{text}") };
    assert_eq!((scene.data, scene.slots, scene.waiting), (7, 2, 0));
    assert!(text.starts_with("no slot for data 7 within 20ms; held of 2 slots: slot 0 for data 1 (1 ref"), "{text}");
    let text = cache.filled(2, BRIEF).unwrap_err().to_string();
    assert!(text.starts_with("no content of data 2 within 20ms; held of 2 slots: slot 1 for data 2 (1 ref"), "{text}");
    assert!(matches!(cache.alloc(7, Duration::ZERO), Err(AllocError::Expired { .. })));
    assert_eq!(cache.waiting(), 0);
    drop(held);
    assert!(matches!(cache.alloc(7, Duration::ZERO), Ok(Given::Empty(_))), "what is there needs no time");
}

#[test]
fn s18_s19_a_fill_that_is_given_up_is_taken_over_by_one_other() {
    let cache = cache(1);
    let Given::Empty(fill) = cache.try_alloc(1).unwrap() else { panic!("not empty") };
    thread::scope(|scope| {
        let client = scope.spawn(|| {
            let Given::Assigned(held) = cache.alloc(1, PATIENCE).unwrap() else { panic!("not assigned") };
            let told = cache.filled(1, PATIENCE);
            assert_eq!(told, Err(FilledError::Refused(ContentError::Abandoned { data: 1 })));
            let Given::Empty(fill) = cache.alloc(1, PATIENCE).unwrap() else { panic!("not empty") };
            assert!(matches!(cache.try_alloc(1), Ok(Given::Assigned(_))), "there is one filler");
            drop(fill.remember().unwrap());
            held.slot()
        });
        until_waiting(&cache, 1);
        drop(fill);
        assert_eq!(client.join().unwrap(), 0);
    });
    assert!(matches!(cache.try_alloc(1), Ok(Given::Remembered(_))));
}

#[test]
fn a_thread_that_panics_gives_back_what_it_holds() {
    let cache = cache(1);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| cache.alloc(2, PATIENCE).map(|given| matches!(given, Given::Empty(_))));
        let dying = scope.spawn(|| {
            let _fill = cache.alloc(1, PATIENCE).unwrap();
            std::panic::resume_unwind(Box::new("dies with a slot"));
        });
        assert!(dying.join().is_err());
        assert_eq!(waiting.join().unwrap(), Ok(true));
    });
}

#[test]
fn s63_a_cache_ends_while_somebody_stands_in_line() {
    let cache = cache(2);
    let held: Vec<_> = (0..2).map(|data| cache.try_alloc(data).unwrap()).collect();
    thread::scope(|scope| {
        let client = scope.spawn(|| cache.alloc(2, PATIENCE).map(drop));
        until_waiting(&cache, 1);
        cache.interrupt();
        assert_eq!(client.join().unwrap(), Err(AllocError::Interrupted));
    });
    drop(held);
    drop(cache);
}

#[test]
fn s05_what_cannot_be_built_or_waited_for_is_refused() {
    let none = Stack::stack(5..5, Dense::new(vec![0; 1])).map(drop);
    assert!(matches!(none, Err(BuildError::Slots(_))), "{none:?}");
    let many = Cache::with_waiters(0..1, Dense::new(vec![0; 1]), Clock::new(), usize::MAX).map(drop);
    assert!(matches!(many, Err(BuildError::NoMemory { .. })), "{many:?}");
    let cache = Cache::with_waiters(0..1, Dense::new(vec![0; 3]), Fifo::new(), 0).unwrap();
    assert!(matches!(cache.alloc(3, PATIENCE), Err(AllocError::Refused(WaitError::Refused(_)))), "out of range");
    let _held = cache.alloc(1, PATIENCE).unwrap();
    assert!(matches!(cache.alloc(2, PATIENCE), Err(AllocError::Refused(WaitError::TooManyWaiters { waiters: 0 }))));
    let stack = Stack::stack(3..4, Sparse::new(vec![Line::EMPTY; 1], vec![0; 1], 1)).unwrap();
    assert_eq!(stack.alloc(u64::MAX, PATIENCE).unwrap().slot(), 3);
}

#[test]
fn references_that_are_given_back_together_wake_all_who_wait_for_their_slots() {
    let cache = cache(3);
    let mut grants = [Grant::NONE; 2];
    cache.try_alloc_all(&[1, 2], &mut grants).unwrap();
    // One that was waited for joins the batch.
    let Given::Empty(fill) = cache.alloc(3, PATIENCE).unwrap() else { panic!("not empty") };
    let held = fill.remember().unwrap();
    let granted = [grants[0], held.grant(), grants[1]];
    let _ = held.into_pin();
    thread::scope(|scope| {
        let clients = [5, 6, 7].map(|data| {
            let cache = &cache;
            scope.spawn(move || cache.alloc(data, PATIENCE).map(|given| given.slot()))
        });
        until_waiting(&cache, 3);
        cache.free_all_granted(&[1, 3, 2], &granted).unwrap();
        for client in clients {
            assert!(client.join().unwrap().is_ok());
        }
    });
    let ended = cache.free_all_granted(&[3, 1], &granted).unwrap_err();
    assert_eq!(ended.done, 0);
    assert!(matches!(ended.error, FreeError::NotAssigned { data: 3 } | FreeError::NotInUse { data: 3 }));
}
