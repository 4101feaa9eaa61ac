//! Whoever waits is served in the order of arrival: a million times.
//!
//! The lock of a slot cache, or of a memory, counts who has it, so each client knows when it came. Whoever has the only
//! slot, or all the room, compares that with when its predecessor came.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod random;

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};
use std::thread;

use random::Random;
use umbra_core::atomic::{AtomicU64, Ordering};
use umbra_core::cache::waiting::{self, Lock};
use umbra_core::cache::{AllocError, Dense, Slot, Stack};
use umbra_core::memory::{Block, Granule, Offsets};
use umbra_core::room::{self, Range, RangeError, Ranges};

const THREADS: usize = 3;
/// Clients that a thread asks for in turn.
const CLIENTS: usize = 16;

/// Slots that are given; a tenth of the speed is what ThreadSanitizer leaves.
fn gifts() -> u64 {
    if std::env::var_os("TSAN_OPTIONS").is_some() { 100_000 } else { 1_000_000 }
}

thread_local! {
    /// The number of the section in which this thread had a lock.
    static SECTION: Cell<u64> = const { Cell::new(0) };
}

/// A lock that numbers the sections in which somebody has it.
struct Counting<T>(Mutex<(u64, T)>);

impl<T> Lock for Counting<T> {
    type Value = T;

    fn with<R>(&self, act: impl FnOnce(&mut T) -> R) -> R {
        let mut guarded = self.0.lock().unwrap();
        guarded.0 += 1;
        SECTION.set(guarded.0);
        act(&mut guarded.1)
    }
}

fn locked<T>(value: T) -> Counting<T> {
    Counting(Mutex::new((0, value)))
}

/// When the last one came who had the only slot, and how many had it.
#[derive(Default)]
struct Order {
    came: AtomicU64,
    given: AtomicU64,
}

impl Order {
    /// To be called by the one who has the slot.
    fn serves(&self, came: u64) {
        let before = self.came.swap(came, Ordering::Relaxed);
        assert!(before < came, "who came at {came} was passed by who came at {before}");
        self.given.fetch_add(1, Ordering::Relaxed);
    }

    fn is_complete(&self) -> bool {
        self.given.load(Ordering::Relaxed) >= gifts()
    }
}

/// Asks; whether it is served, and when it was the last to have the lock.
fn ask<F: Future + Unpin>(future: &mut F) -> (Option<F::Output>, u64) {
    match Pin::new(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(given) => (Some(given), SECTION.get()),
        Poll::Pending => (None, SECTION.get()),
    }
}

#[test]
fn s29_a_slot_that_is_freed_goes_to_who_came_first() {
    let ids = THREADS * CLIENTS + THREADS;
    let cache = Stack::stack([Slot::EMPTY; 1], Dense::new(vec![0; ids]), 0..1).unwrap();
    let waiters: Vec<_> = (0..ids).map(|_| waiting::Waiter::EMPTY).collect();
    let cache = waiting::Shared::new(locked(waiting::Waiting::new(cache, waiters)));
    let (order, passed, left) = (Order::default(), AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (cache, order, passed, left) = (&cache, &order, &passed, &left);
            scope.spawn(move || {
                let mut random = Random(number as u64);
                let mut kept = None;
                let mut line: [Option<(waiting::Slotted<'_, _>, u64)>; CLIENTS] = [const { None }; CLIENTS];
                while !order.is_complete() {
                    for (nth, place) in line.iter_mut().enumerate() {
                        let data = (number * CLIENTS + nth) as u64;
                        let (mut slot, came) = place.take().unwrap_or_else(|| (cache.slot(data), 0));
                        let (given, now) = ask(&mut slot);
                        let came = if came == 0 { now } else { came };
                        match given {
                            Some(given) => {
                                let given = given.unwrap();
                                order.serves(came);
                                // The next ones find it in use, whatever other threads do.
                                kept = Some(given).filter(|_| random.below(64) == 0);
                                continue;
                            }
                            // Who leaves passes on what it may have been given meanwhile.
                            None if random.below(16) == 0 => {
                                left.fetch_add(1, Ordering::Relaxed);
                            }
                            None => *place = Some((slot, came)),
                        }
                        if random.below(CLIENTS as u64) == 0 {
                            drop(kept.take());
                        }
                    }
                    // The slot may belong to a client of a thread that has no processor.
                    thread::yield_now();
                    match cache.try_alloc((THREADS * CLIENTS + number) as u64) {
                        Ok(_given) => order.serves(SECTION.get()),
                        Err(AllocError::Full { .. }) => {
                            passed.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(error) => panic!("{error}"),
                    }
                    drop(kept.take());
                }
            });
        }
    });
    assert_eq!(cache.waiting(), 0);
    assert!(passed.into_inner() > 0 && left.into_inner() > 0);
}

#[test]
fn room_that_becomes_free_goes_to_who_came_first() {
    let memory = Offsets::new([Block::default(); 9], [0; 1], 1, Granule::BYTE);
    let waiters: Vec<_> = (0..THREADS * CLIENTS).map(|_| room::Waiter::EMPTY).collect();
    let memory = room::Shared::new(locked(room::Waiting::new(Ranges::new(memory), waiters)));
    let (order, passed) = (Order::default(), AtomicU64::new(0));
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (memory, order, passed) = (&memory, &order, &passed);
            scope.spawn(move || {
                let mut random = Random(number as u64);
                while !order.is_complete() {
                    let mut wishes = [const { Range::new(1) }; CLIENTS];
                    let mut line: Vec<_> = wishes.iter_mut().map(|wish| Some((memory.room(wish), 0))).collect();
                    while line.iter().any(Option::is_some) {
                        for place in &mut line {
                            let Some((mut wait, came)) = place.take() else { continue };
                            let (given, now) = ask(&mut wait);
                            let came = if came == 0 { now } else { came };
                            match given {
                                Some(given) => {
                                    given.unwrap();
                                    order.serves(came);
                                    assert_eq!(memory.free_range(0), Ok(1));
                                }
                                None => *place = Some((wait, came)),
                            }
                        }
                        // The room may belong to a client of a thread that has no processor.
                        thread::yield_now();
                    }
                    match memory.take_now(&mut Range::new(1)) {
                        Ok(()) => {
                            order.serves(SECTION.get());
                            // The next one finds it in use, whatever other threads do.
                            if random.below(64) == 0 {
                                assert!(memory.take_now(&mut Range::new(1)).is_err());
                                passed.fetch_add(1, Ordering::Relaxed);
                            }
                            assert_eq!(memory.free_range(0), Ok(1));
                        }
                        Err(RangeError::OthersWait | RangeError::Refused(_)) => {
                            passed.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
    });
    assert_eq!(memory.waiting(), 0);
    assert!(passed.into_inner() > 0);
}
