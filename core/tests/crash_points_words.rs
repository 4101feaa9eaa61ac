//! A process dies where a test wants, and leaves words as a killed one does.
//!
//! Run with `RUSTFLAGS="--cfg crash" cargo test -p umbra-core --test crash_points_words`.
#![cfg(crash)]

use std::panic::catch_unwind;

use umbra_core::atomic::{AtomicU64, Ordering, crash};

const RELAXED: Ordering = Ordering::Relaxed;

/// Four operations.
fn four(word: &AtomicU64) -> u64 {
    word.store(1, RELAXED);
    word.fetch_add(1, RELAXED) + word.fetch_or(4, RELAXED) + word.swap(9, RELAXED)
}

#[test]
fn a_process_does_all_operations_before_its_death_and_none_after_it() {
    for (operation, left) in (0..).zip([0, 1, 2, 6]) {
        let word = AtomicU64::new(0);
        assert_eq!(crash::before(operation, || four(&word)), None);
        assert_eq!(word.load(RELAXED), left, "dead before operation {operation}");
    }
    let word = AtomicU64::new(0);
    assert_eq!(crash::before(4, || four(&word)), Some(1 + 2 + 6));
    assert_eq!(four(&word), 1 + 2 + 6, "whoever is left lives on");
}

#[test]
fn an_update_is_a_load_and_a_swap() {
    let update = |word: &AtomicU64| word.fetch_update(RELAXED, RELAXED, |now| now.checked_sub(1));
    let word = AtomicU64::new(1);
    assert_eq!(crash::before(1, || update(&word)), None);
    assert_eq!(crash::before(2, || update(&word)), Some(Ok(1)));
    assert_eq!(crash::before(1, || update(&word)), Some(Err(0)), "nothing to swap");
}

#[test]
fn a_panic_of_a_process_is_the_tests_own() {
    let failed = catch_unwind(|| crash::before(7, || panic!("a failed assertion")));
    assert_eq!(failed.err().and_then(|why| why.downcast_ref().copied()), Some("a failed assertion"));
    let word = AtomicU64::new(3);
    assert_eq!((0..10).map(|_| word.load(RELAXED)).sum::<u64>(), 30, "the next one lives on");
}

#[test]
fn the_word_lies_in_mapped_memory_as_any_other() {
    assert_eq!((size_of::<AtomicU64>(), align_of::<AtomicU64>()), (8, 8));
}

#[test]
fn the_destructors_of_a_dead_process_change_nothing() {
    /// Gives back as long as that fails, and marks itself.
    struct Lock<'a>(&'a AtomicU64);
    impl Drop for Lock<'_> {
        fn drop(&mut self) {
            let seen = self.0.load(RELAXED);
            while self.0.compare_exchange(seen, 0, RELAXED, RELAXED).is_err() {}
            self.0.store(7, RELAXED);
            assert_eq!(self.0.swap(8, RELAXED) + self.0.fetch_add(9, RELAXED), 2 * seen, "it is what it was");
        }
    }
    let word = AtomicU64::new(0);
    let process = || {
        let lock = Lock(&word);
        lock.0.store(1, RELAXED);
        four(&AtomicU64::new(0));
    };
    assert_eq!(crash::before(3, process), None);
    assert_eq!(word.load(RELAXED), 1, "nobody gives a lock back after his death");
}
