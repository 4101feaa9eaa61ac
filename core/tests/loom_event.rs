//! All interleavings of sleepers and notifiers, by loom.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p umbra-core --release --test loom_event`.
#![cfg(loom)]

mod interleavings;

use interleavings::check;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use umbra_core::atomic::{AtomicU64, Ordering};
use umbra_core::event::{EventCount, Wait};
use umbra_core::time::Time;

/// Sleeps for ever unless it is woken: a wake that is lost is a deadlock, which loom reports.
struct Bed {
    lock: Mutex<()>,
    woken: Condvar,
}

impl Wait for Bed {
    fn now(&self) -> Time {
        Time::ZERO
    }
    fn sleep(&self, word: &AtomicU64, seen: u32, _until: Time) {
        let lock = self.lock.lock().unwrap();
        if word.load(Ordering::Relaxed) as u32 == seen {
            drop(self.woken.wait(lock).unwrap());
        }
    }
    fn wake(&self, _word: &AtomicU64) {
        drop(self.lock.lock().unwrap());
        self.woken.notify_all();
    }
}

struct Table {
    bed: Bed,
    word: AtomicU64,
    items: AtomicU64,
}

impl Table {
    fn new() -> Arc<Table> {
        let bed = Bed { lock: Mutex::new(()), woken: Condvar::new() };
        Arc::new(Table { bed, word: AtomicU64::new(0), items: AtomicU64::new(0) })
    }
    fn event(&self) -> EventCount<'_> {
        EventCount::new(&self.word)
    }
    fn put(&self) {
        self.items.fetch_add(1, Ordering::SeqCst);
        self.event().notify_after_swap(&self.bed);
    }
    fn take(&self) -> Option<u64> {
        let items = self.items.load(Ordering::Relaxed);
        let taken = items.checked_sub(1)?;
        self.items.compare_exchange(items, taken, Ordering::AcqRel, Ordering::Relaxed).ok()
    }
    /// Whether there is one, without taking it.
    fn sees(&self) -> Option<u64> {
        Some(self.items.load(Ordering::Relaxed)).filter(|&items| items != 0)
    }
    fn wait<T>(&self, spins: u32, look: impl FnMut() -> Option<T>) -> Option<T> {
        self.event().wait(&self.bed, spins, Time::NEVER, look)
    }
}

#[test]
fn a72_a_sleeper_sees_every_change() {
    check(3, || {
        let table = Table::new();
        let sleeper = {
            let table = table.clone();
            thread::spawn(move || (0..2).for_each(|_| assert!(table.wait(0, || table.take()).is_some())))
        };
        table.put();
        table.put();
        sleeper.join().unwrap();
    });
}

#[test]
fn a_plain_store_with_a_fence_is_not_slept_through() {
    check(3, || {
        let table = Table::new();
        let sleeper = {
            let table = table.clone();
            thread::spawn(move || assert_eq!(table.wait(0, || table.sees()), Some(1)))
        };
        table.items.store(1, Ordering::Relaxed);
        table.event().notify(&table.bed);
        sleeper.join().unwrap();
    });
}

#[test]
fn one_change_wakes_all_sleepers() {
    check(2, || {
        let table = Table::new();
        let sleepers = [0, 1].map(|spins| {
            let table = table.clone();
            thread::spawn(move || assert!(table.wait(spins, || table.sees()).is_some()))
        });
        table.put();
        for sleeper in sleepers {
            sleeper.join().unwrap();
        }
    });
}

#[test]
fn two_notifiers_and_one_sleeper_lose_nothing() {
    check(2, || {
        let table = Table::new();
        let putters = [0, 1].map(|_| {
            let table = table.clone();
            thread::spawn(move || table.put())
        });
        for _ in 0..2 {
            assert!(table.wait(0, || table.take()).is_some());
        }
        for putter in putters {
            putter.join().unwrap();
        }
    });
}
