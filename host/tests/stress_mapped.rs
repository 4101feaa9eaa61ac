//! Operations of many threads on a cache in a segment, under several names.
//!
//! There are deadlines, fills that are given up, and handles that are dropped with all they hold. ThreadSanitizer runs it as
//! well (step `tsan`): contents are touched without ordering, so that all order comes from the cache.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod stress;

use std::thread;
use std::time::Duration;

use umbra::cache::{Mapped, Passing as _, UnfilledError, UnservedError};
use umbra_core::atomic::{AtomicU64, Ordering};
use umbra_core::cache::{Found, Remembering};
use umbra_core::shared_cache::Sharing;

use stress::{Dice, count};

type Cache = Mapped<Remembering>;

const SLOTS: usize = 3;
const IDS: u64 = 9;
const HANDLES: u64 = 4;
const THREADS: u64 = 3;
/// Longer than any machine takes, so whoever waits so long waits for good.
const PATIENCE: Duration = Duration::from_secs(60);
/// What a slot holds while it is filled.
const MIXED: u64 = u64::MAX;

/// Operations of a thread; a tenth is what ThreadSanitizer has time for.
fn operations() -> u64 {
    if std::env::var_os("TSAN_OPTIONS").is_some() { 1_000 } else { 10_000 }
}

#[derive(Default)]
struct Counts {
    served: AtomicU64,
    expired: AtomicU64,
    abandoned: AtomicU64,
}

/// Takes data, uses it, and gives it back.
fn one(cache: &Cache, contents: &[AtomicU64], counts: &Counts, dice: &mut Dice) {
    let data = dice.throw(IDS);
    let is_short = dice.throw(8) == 0;
    let within = if is_short { Duration::from_micros(dice.throw(60)) } else { PATIENCE };
    let grant = match cache.alloc(data, within) {
        Ok(grant) => grant,
        Err(UnservedError::Expired { .. } | UnservedError::Refused(_)) if is_short => return count(&counts.expired),
        Err(error) => panic!("{error}"),
    };
    count(&counts.served);
    let content = &contents[grant.slot as usize];
    match grant.found {
        Found::Empty => {
            content.store(MIXED, Ordering::Relaxed);
            if dice.throw(16) == 0 {
                cache.within(PATIENCE, |client| client.abandon(data)).unwrap();
                count(&counts.abandoned);
            } else {
                assert_eq!(content.swap(data, Ordering::Relaxed), MIXED, "a slot is filled by two at once");
                cache.within(PATIENCE, |client| client.remember(data)).unwrap();
            }
        }
        Found::Remembered => assert_eq!(content.load(Ordering::Relaxed), data),
        Found::Assigned => match cache.filled(data, PATIENCE) {
            Ok(()) => assert_eq!(content.load(Ordering::Relaxed), data),
            Err(UnfilledError::Abandoned { .. }) => {}
            Err(error) => panic!("{error}, which passes: {}", error.passes()),
        },
    }
    if dice.throw(4) == 0 {
        // Others find all slots in use meanwhile.
        thread::yield_now();
    }
    cache.within(PATIENCE, |client| client.free(data)).unwrap();
}

#[test]
fn nobody_waits_for_good_and_no_slot_is_lost() {
    let first = Cache::create(SLOTS, Sharing::new(HANDLES as u8, 31).unwrap()).unwrap();
    let contents: Vec<_> = (0..SLOTS).map(|_| AtomicU64::new(MIXED)).collect();
    let counts = Counts::default();
    thread::scope(|scope| {
        for handle in 1..HANDLES {
            let (first, contents, counts) = (&first, &contents[..], &counts);
            scope.spawn(move || {
                for life in 0..4 {
                    let cache = Cache::attach(first.share().unwrap()).unwrap();
                    thread::scope(|scope| {
                        for thread in 0..THREADS {
                            let cache = &cache;
                            scope.spawn(move || {
                                let mut dice = Dice(handle << 16 | life << 8 | thread);
                                (0..operations() / 4).for_each(|_| one(cache, contents, counts, &mut dice));
                            });
                        }
                    });
                    // It holds something when it is dropped, which is given back then.
                    cache.alloc(life, PATIENCE).unwrap();
                }
            });
        }
    });
    let [served, expired, abandoned] =
        [&counts.served, &counts.expired, &counts.abandoned].map(|count| count.load(Ordering::Relaxed));
    assert!(served > 0 && expired > 0 && abandoned > 0, "{served} {expired} {abandoned}");
    let client = first.client();
    assert_eq!((client.cache().waiting(), client.cache().members().count()), (0, 1));
    for data in 0..SLOTS as u64 {
        assert_eq!(client.alloc(1000 + data).unwrap().found, Found::Empty);
    }
}
