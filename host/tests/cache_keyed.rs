//! Caches under keys, for threads.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant};

use umbra::cache::{AllocError, Caches, EndKeyError, EndsShared, Stack};
use umbra_core::cache::Dense;
use umbra_core::cache::keyed::{CreateError, EndError, InUse, UnknownKey};
use umbra_core::error::Stale;

/// Longer than any machine takes, so whoever waits so long would wait for good.
const PATIENCE: Duration = Duration::from_secs(60);

type Cache = Stack<Dense<Vec<u32>>>;

fn stack() -> Cache {
    Stack::stack(0..1, Dense::new(vec![0; 100])).unwrap()
}

fn in_use(slots: u32, waiting: u32) -> Result<(), EndKeyError> {
    Err(EndKeyError::Refused { key: 7, error: EndError::InUse { slots, waiting } })
}

#[test]
fn s32_a_cache_that_ends_is_found_no_more_and_fails_for_those_who_have_it() {
    let caches = Caches::new(2).unwrap();
    let first = caches.create(7, stack()).unwrap();
    assert_eq!(caches.create(7, stack()), Err(CreateError::DuplicateKey { key: 7 }));
    caches.create(8, stack()).unwrap();
    assert_eq!(caches.create(9, stack()), Err(CreateError::TableFull { caches: 2 }));
    let cache = caches.find(7).unwrap();
    let held = cache.alloc(1, PATIENCE).unwrap();
    assert_eq!(caches.end(7), in_use(1, 0));
    thread::scope(|scope| {
        let client = scope.spawn(|| cache.alloc(2, PATIENCE).map(drop));
        let begun = Instant::now();
        while cache.waiting() == 0 {
            assert!(begun.elapsed() < PATIENCE);
            thread::yield_now();
        }
        assert_eq!(caches.end(7), in_use(1, 1));
        drop(held);
        assert_eq!(client.join().unwrap(), Ok(()));
    });
    assert_eq!(caches.end(7), Ok(()));
    assert!(matches!(cache.alloc(1, PATIENCE), Err(AllocError::Interrupted)));
    assert!(matches!(caches.get(first), Err(Stale)));
    assert_eq!(caches.end(7), Err(EndKeyError::UnknownKey(UnknownKey { key: 7 })));
    let second = caches.create(7, stack()).unwrap();
    assert!(caches.get(first).is_err() && caches.get(second).is_ok() && caches.len() == 2);
}

#[test]
fn s32_an_interrupt_ends_a_cache_in_use_once_nobody_writes_to_its_slots() {
    let caches = Caches::new(1).unwrap();
    caches.create(7, stack()).unwrap();
    let cache = caches.find(7).unwrap();
    let held = cache.alloc(1, PATIENCE).unwrap();
    thread::scope(|scope| {
        let client = scope.spawn(|| cache.alloc(2, PATIENCE).map(drop));
        assert_eq!(caches.interrupt_and_end(7), in_use(1, 0));
        assert_eq!(client.join().unwrap(), Err(AllocError::Interrupted));
    });
    drop(held);
    assert!(cache.settle(0));
    assert_eq!(caches.interrupt_and_end(7), Ok(()));
    assert!(caches.is_empty());
}

/// A table in which somebody puts another cache under the key while the first one is interrupted.
static SWAPPED: LazyLock<Caches<Swapped>> = LazyLock::new(|| Caches::new(2).unwrap());

struct Swapped {
    first: bool,
}

impl EndsShared for Swapped {
    fn end_unused(&self) -> Result<(), InUse> {
        Ok(())
    }

    fn interrupt(&self) {
        assert!(self.first, "nobody asked to interrupt this one");
        SWAPPED.end(7).unwrap();
        SWAPPED.create(7, Swapped { first: false }).unwrap();
    }
}

#[test]
fn an_interrupt_does_not_end_the_cache_that_came_after() {
    SWAPPED.create(7, Swapped { first: true }).unwrap();
    assert_eq!(SWAPPED.interrupt_and_end(7), Err(EndKeyError::UnknownKey(UnknownKey { key: 7 })));
    assert!(!SWAPPED.find(7).unwrap().first);
}
