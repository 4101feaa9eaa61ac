//! The scenarios of memories whose clients are threads.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use umbra::cache::{CachedMemory, ContentUnmet, MakeError, Memory, PlaceUnmet, RangeUnmet, Unmet};
use umbra_core::cache::waiting::ContentError;
use umbra_core::cache::{Dense, FillError, ForgetError, Found, FreeError};
use umbra_core::cached_memory::{LentTooLittle, Member, PlaceError};
use umbra_core::memory::{AllocError, Granule, NotAllocated};
use umbra_core::room::{RangeError, WaitError};

type Places = CachedMemory<Dense<Vec<u32>>>;

/// Longer than any machine takes, so whoever waits so long would wait for good.
const PATIENCE: Duration = Duration::from_secs(60);
const BRIEF: Duration = Duration::from_millis(20);

fn places() -> Places {
    CachedMemory::new(100, Granule::BYTE, 10, Dense::new(vec![0; 1000])).unwrap()
}

fn memory() -> Memory {
    Memory::new(100, Granule::BYTE, 10).unwrap()
}

/// Returns when so many are waiting.
fn until_waiting(waiting: impl Fn() -> u32, count: u32) {
    let begun = Instant::now();
    while waiting() != count {
        assert!(begun.elapsed() < PATIENCE, "{} wait instead of {count}", waiting());
        thread::yield_now();
    }
}

#[test]
fn a_group_waits_until_all_of_it_has_room_and_holds_nothing_meanwhile() {
    let memory = places();
    let left = memory.alloc(1, 50, PATIENCE).unwrap();
    let right = memory.alloc(2, 50, PATIENCE).unwrap();
    thread::scope(|scope| {
        let client = scope.spawn(|| {
            let mut group = [Member::new(3, 40), Member::new(4, 40)];
            let held = memory.alloc_group(&mut group, PATIENCE).unwrap();
            (held.offset(0).unwrap(), held.offset(1).unwrap())
        });
        until_waiting(|| memory.waiting(), 1);
        drop(left);
        // There is room for one of the two, which nobody took.
        assert_eq!(memory.look(|places| places.in_use()), (1, 50));
        drop(right);
        let (a, b) = client.join().unwrap();
        assert!(a.abs_diff(b) >= 40 && a.max(b) <= 60);
    });
    assert_eq!(memory.look(|places| places.in_use()), (0, 0));
}

#[test]
fn who_came_first_is_served_first_also_if_a_smaller_one_would_fit() {
    let memory = places();
    let all = [memory.alloc(0, 60, PATIENCE).unwrap(), memory.alloc(1, 40, PATIENCE).unwrap()];
    let (sender, served) = channel();
    thread::scope(|scope| {
        for (at, len) in (2..10).zip([80, 60, 90, 70, 100, 51, 99, 52]) {
            let (memory, sender) = (&memory, sender.clone());
            scope.spawn(move || {
                let held = memory.alloc(at, len, PATIENCE).unwrap();
                sender.send(at).unwrap();
                drop(held);
            });
            until_waiting(|| memory.waiting(), at as u32 - 1);
        }
        let [big, small] = all;
        drop(small);
        assert_eq!(memory.take_now(&mut [Member::new(20, 10)]), Err(PlaceError::OthersWait));
        drop(big);
        drop(sender);
        assert!(served.iter().eq(2..10));
    });
}

#[test]
fn what_is_there_is_not_waited_for() {
    let memory = places();
    let mut held = memory.alloc(1, 100, PATIENCE).unwrap();
    held.remember().unwrap();
    thread::scope(|scope| {
        let client = scope.spawn(|| memory.alloc(2, 1, PATIENCE).map(drop));
        until_waiting(|| memory.waiting(), 1);
        let again = memory.alloc(1, 100, PATIENCE).unwrap();
        assert_eq!(again.place(0).map(|place| (place.found, place.references)), Some((Found::Remembered, 2)));
        drop((again, held));
        assert_eq!(client.join().unwrap(), Ok(()));
    });
}

#[test]
fn a_deadline_names_who_holds_what_and_the_next_in_line_is_served() {
    let memory = places();
    let held = memory.alloc(7, 60, PATIENCE).unwrap();
    let error = memory.alloc_group(&mut [Member::new(8, 30), Member::new(9, 30)], BRIEF).map(drop).unwrap_err();
    assert!(matches!(&error, Unmet::Expired { within: BRIEF, scene } if scene.data == 8 && scene.bytes == 60));
    let text = error.to_string();
    assert!(text.contains("60 bytes are in use for 1 data") && text.contains("data 7 at 0 (1 reference)"), "{text}");
    thread::scope(|scope| {
        let first = scope.spawn(|| memory.alloc(8, 100, Duration::from_secs(4)).map(drop));
        until_waiting(|| memory.waiting(), 1);
        let second = scope.spawn(|| memory.alloc(9, 40, PATIENCE).map(drop));
        assert!(matches!(first.join().unwrap(), Err(Unmet::Expired { .. })));
        assert_eq!(second.join().unwrap(), Ok(()), "there is room for it, and nobody before it any more");
    });
    drop(held);
    let memory = self::memory();
    let held = memory.alloc(60, 1, PATIENCE).unwrap();
    let text = memory.alloc(41, 1, BRIEF).map(drop).unwrap_err().to_string();
    assert!(text.contains("40 of 100 bytes are free") && text.contains("1 ranges in use"), "{text}");
    drop(held);
}

#[test]
fn an_interrupt_ends_the_wait_of_every_thread() {
    let (memory, ranges) = (places(), self::memory());
    let held = memory.alloc(0, 100, PATIENCE).unwrap();
    let range = ranges.alloc(100, 1, PATIENCE).unwrap();
    thread::scope(|scope| {
        let clients: Vec<_> = (0..24)
            .map(|n| {
                let (memory, ranges) = (&memory, &ranges);
                scope.spawn(move || match n % 3 {
                    0 => memory.filled(0, PATIENCE) == Err(ContentUnmet::Interrupted),
                    1 => memory.alloc(n, 10, PATIENCE).map(drop) == Err(PlaceUnmet::Interrupted),
                    _ => ranges.alloc(n, 1, PATIENCE).map(drop) == Err(RangeUnmet::Interrupted),
                })
            })
            .collect();
        until_waiting(|| memory.waiting() + memory.waiting_for_content() + ranges.waiting(), 24);
        memory.interrupt();
        ranges.interrupt();
        assert!(clients.into_iter().all(|client| client.join().unwrap()));
    });
    assert_eq!(memory.alloc(1, 1, PATIENCE).map(drop), Err(Unmet::Interrupted), "also those to come");
    assert_eq!(memory.free(0), Err(FreeError::Interrupted));
    assert_eq!(memory.look(|places| places.outstanding_fills().collect::<Vec<_>>()), [(0, 0)]);
    assert_eq!(ranges.free_range(0), Err(RangeError::Interrupted));
    drop((held, range));
}

#[test]
fn who_gives_up_tells_those_who_wait_for_the_content() {
    let memory = places();
    let fill = memory.alloc(5, 10, PATIENCE).unwrap();
    thread::scope(|scope| {
        let client = scope.spawn(|| {
            let held = memory.alloc(5, 10, PATIENCE).unwrap();
            let told = memory.filled(5, PATIENCE);
            drop(held);
            told
        });
        until_waiting(|| memory.waiting_for_content(), 1);
        assert!(matches!(memory.filled(5, BRIEF), Err(Unmet::Expired { scene, .. }) if scene.held[0].is_some()));
        drop(fill);
        assert_eq!(client.join().unwrap(), Err(Unmet::Refused(ContentError::Abandoned { data: 5 })));
    });
    assert_eq!(memory.filled(5, PATIENCE), Err(Unmet::Refused(ContentError::NotAssigned { data: 5 })));
}

#[test]
fn wrong_use_is_refused_and_changes_nothing() {
    let memory = places();
    let mut held = memory.alloc(1, 10, PATIENCE).unwrap();
    held.remember().unwrap();
    let figures = memory.look(|places| (places.figures(), places.in_use()));
    let refused = |error| Err(Unmet::Refused(WaitError::Refused(error)));
    let alloc = |data, len| memory.alloc(data, len, PATIENCE).map(drop);
    assert_eq!(alloc(2, 0), refused(PlaceError::ZeroSize { data: 2 }));
    assert_eq!(alloc(2, 101), refused(PlaceError::TooLarge { need: 101, capacity: 100 }));
    assert_eq!(alloc(1, 11), refused(PlaceError::SizeMismatch { data: 1, len: 11, have: 10 }));
    assert_eq!(alloc(1000, 1), refused(PlaceError::OutOfRange { data: 1000, ids: 1000 }));
    let mut many: Vec<_> = (2..14).map(|data| Member::new(data, 1)).collect();
    let group = memory.alloc_group(&mut many, PATIENCE).map(drop);
    assert_eq!(group, refused(PlaceError::TooMany { need: 12, places: 10 }));
    let group = memory.alloc_group(&mut [Member::new(2, 60), Member::new(3, 60)], PATIENCE).map(drop);
    assert_eq!(group, refused(PlaceError::TooLarge { need: 120, capacity: 100 }));
    assert_eq!(memory.free(2), Err(FreeError::NotAssigned { data: 2 }));
    assert_eq!(memory.remember(1), Err(FillError::AlreadyRemembered { data: 1 }));
    assert_eq!(memory.abandon(2), Err(FillError::NotAssigned { data: 2 }));
    assert_eq!(memory.forget(1), Err(ForgetError::InUse { data: 1, references: 1 }));
    assert_eq!(memory.look(|places| (places.figures(), places.in_use())), figures);
    drop(held);
    assert_eq!(memory.free(1), Err(FreeError::NotInUse { data: 1 }));

    let ranges = self::memory();
    let refused = |error| Err(Unmet::Refused(WaitError::Refused(RangeError::Refused(error))));
    let alloc = |len, align| ranges.alloc(len, align, PATIENCE).map(drop);
    assert_eq!(alloc(0, 1), refused(AllocError::ZeroSize));
    assert_eq!(alloc(1, 3), refused(AllocError::BadAlign { align: 3 }));
    assert_eq!(alloc(101, 1), refused(AllocError::TooLarge { len: 101, capacity: 100 }));
    assert_eq!(ranges.free_range(7), Err(RangeError::NotAllocated(NotAllocated { offset: 7 })));
    let kept = ranges.try_alloc(10, 1).unwrap().into_offset();
    assert_eq!((ranges.free_range(kept), ranges.free_range(kept).is_err()), (Ok(10), true));
}

#[test]
fn what_cannot_be_built_or_waited_for_is_refused() {
    let nothing = |capacity, ranges| Memory::new(capacity, Granule::LINE, ranges).map(drop);
    assert_eq!(nothing(63, 1), Err(MakeError::Nothing { capacity: 63, granule: 64, ranges: 1 }));
    assert_eq!(nothing(64, 0), Err(MakeError::Nothing { capacity: 64, granule: 64, ranges: 0 }));
    let sparse = umbra_core::cache::Sparse::new(Vec::new(), vec![0; 3], 1);
    let lent = CachedMemory::new(64, Granule::LINE, 1, sparse).map(drop);
    assert_eq!(lent, Err(MakeError::Lent(LentTooLittle::Index { need: 1, have: 0 })));
    let memory = CachedMemory::with_waiters(8, Granule::BYTE, 1, Dense::new(vec![0; 4]), 0).unwrap();
    let held = memory.alloc(1, 8, PATIENCE).unwrap();
    let crowd = Err(Unmet::Refused(WaitError::TooManyWaiters { waiters: 0 }));
    assert_eq!(memory.alloc(2, 1, PATIENCE).map(drop), crowd);
    assert_eq!(memory.filled(1, PATIENCE), Err(Unmet::Refused(ContentError::TooManyWaiters { waiters: 0 })));
    drop(held);
    assert_eq!(memory.alloc(2, 8, PATIENCE).map(drop), Ok(()), "nobody is left in line");
}

#[test]
fn threads_with_groups_in_any_order_all_get_through() {
    let memory = places();
    let bytes: [AtomicU64; 100] = [const { AtomicU64::new(0) }; 100];
    thread::scope(|scope| {
        for thread in 0..8_u64 {
            let (memory, bytes) = (&memory, &bytes);
            scope.spawn(move || {
                let mut dice = thread + 1;
                for _ in 0..500 {
                    dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let len = |data: u64| 5 + data % 7 * 5;
                    let mut group =
                        [dice >> 60, dice >> 56 & 15, dice >> 52 & 15].map(|data| Member::new(data, len(data)));
                    if dice >> 32 & 15 == 0 {
                        let _ = memory.alloc_group(&mut group, Duration::from_micros(50)).map(drop);
                        continue;
                    }
                    let mut held = memory.alloc_group(&mut group, PATIENCE).unwrap();
                    for member in held.members() {
                        let place = member.place().unwrap();
                        if place.found == Found::Empty {
                            let at = place.offset as usize;
                            bytes[at..at + member.len() as usize]
                                .iter()
                                .for_each(|byte| byte.store(member.data(), Ordering::Relaxed));
                        }
                    }
                    held.remember().unwrap();
                    for member in held.members() {
                        if memory.filled(member.data(), PATIENCE).is_ok() {
                            let at = member.place().unwrap().offset as usize;
                            assert!(
                                bytes[at..at + member.len() as usize]
                                    .iter()
                                    .all(|byte| byte.load(Ordering::Relaxed) == member.data())
                            );
                        }
                    }
                }
            });
        }
    });
    assert_eq!(memory.look(|places| places.in_use()), (0, 0));
    assert_eq!(memory.waiting() + memory.waiting_for_content(), 0);
}
