//! Threads of several processes' names that share one cache for a while.
//!
//! The test is fit for ThreadSanitizer. What each slot holds is kept beside it: who finds content, finds that of the
//! data that he asked for, and nobody fills a slot that another uses.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::thread;

use umbra_core::atomic::{AtomicU64, Ordering, spin_hint};
use umbra_core::cache::{Forgetting, Found};
use umbra_core::cell::BytesMut;
use umbra_core::shared_cache::{AllocError, Blocked, Client, ForgetError, Forgetful, Identity, Sharing, words_for};

const ROUNDS: u64 = if cfg!(miri) { 50 } else { 100_000 };

/// What lies in each slot, and how many use it.
struct Contents {
    data: Vec<AtomicU64>,
    users: Vec<AtomicU64>,
}

/// The data id that a slot being filled holds.
const MIXED: u64 = u64::MAX;

/// Takes data, uses it, and gives it back; whether it was there, or could be loaded.
fn one(client: Client<'_, Forgetting>, contents: &Contents, data: u64, dice: u64) -> bool {
    let grant = match client.alloc(data) {
        Ok(grant) => grant,
        Err(AllocError::Full { .. } | AllocError::Blocked { why: Blocked::Busy { .. } }) => {
            thread::yield_now();
            return false;
        }
        Err(error) => panic!("{error}"),
    };
    let (content, users) = (&contents.data[grant.slot as usize], &contents.users[grant.slot as usize]);
    match grant.found {
        Found::Empty => {
            assert_eq!(users.load(Ordering::Relaxed), 0, "a slot is filled while others use it");
            content.store(MIXED, Ordering::Relaxed);
            (0..dice % 32).for_each(|_| spin_hint());
            if dice.is_multiple_of(16) {
                assert_eq!(content.load(Ordering::Relaxed), MIXED, "a slot is filled by two at once");
                until(|| client.abandon(data));
            } else {
                assert_eq!(content.swap(data, Ordering::Relaxed), MIXED, "a slot is filled by two at once");
                until(|| client.remember(data));
            }
        }
        Found::Remembered => {
            users.fetch_add(1, Ordering::Relaxed);
            assert_eq!(content.load(Ordering::Relaxed), data, "slot {}", grant.slot);
            users.fetch_sub(1, Ordering::Relaxed);
        }
        Found::Assigned => {}
    }
    until(|| client.free(data));
    if dice % 8 == 1 {
        match client.forget(data) {
            Ok(_)
            | Err(ForgetError::InUse { .. } | ForgetError::NotRemembered { .. } | ForgetError::Blocked { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    true
}

/// Repeats what others were in the way of.
fn until<T, E: std::error::Error>(mut attempt: impl FnMut() -> Result<T, E>) -> T {
    loop {
        match attempt() {
            Ok(done) => return done,
            Err(error) if error.to_string().contains("retry") => thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
}

/// More ids than slots, so that content leaves all the time; few, so that all want the same.
#[test]
fn nobody_finds_foreign_content_and_no_slot_is_lost() {
    share(6, 11, usize::MAX);
}

/// Six ids and more of each home, which has room for three: some are always away from it.
#[test]
fn nor_where_data_is_away_from_its_home() {
    share(6, 12, 2);
}

/// So far that they are not looked for without the line of their home.
#[test]
fn nor_where_data_is_far_away_from_its_home() {
    share(40, 45, 1);
}

/// Threads that use so many ids, which belong into the first lines of the index, so many of them.
fn share(slots: usize, ids: usize, homes: usize) {
    let sharing = Sharing::new(3, 7).unwrap();
    let count = words_for(slots, sharing).unwrap();
    let mut memory = vec![0_u64; count];
    let words = BytesMut::from_words(&mut memory).words(0, count).unwrap();
    let cache = Forgetful::create(words, slots, sharing, 3).unwrap();
    let ids: &Vec<u64> = &(0..).filter(|&data| cache.home(data).0 < homes).take(ids).collect();
    let contents = Contents {
        data: (0..slots).map(|_| AtomicU64::new(MIXED)).collect(),
        users: (0..slots).map(|_| AtomicU64::new(0)).collect(),
    };
    // Two threads are of one process.
    let first = cache.join(Identity::new(1, 0)).unwrap();
    let second = cache.join(Identity::new(2, 0)).unwrap();
    let worked: u64 = thread::scope(|scope| {
        let threads: Vec<_> = (1..)
            .zip([first, first, second])
            .map(|(seed, client)| {
                let contents = &contents;
                scope.spawn(move || {
                    let mut dice: u64 = seed;
                    let mut worked = 0;
                    for _ in 0..ROUNDS {
                        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                        worked += u64::from(one(client, contents, ids[(dice >> 33) as usize % ids.len()], dice >> 50));
                    }
                    worked
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert!(worked > ROUNDS, "most calls get a slot: {worked}");
    for &data in ids {
        assert_eq!(first.references(data), Ok(0));
    }
    let mut taken: Vec<u32> = (0..slots as u64).map(|data| first.alloc(10_000 + data).unwrap().slot).collect();
    taken.sort_unstable();
    assert_eq!(taken, (0..slots as u32).collect::<Vec<_>>());
    assert_eq!(first.alloc(0), Err(AllocError::Full { slots: slots as u32 }));
}
