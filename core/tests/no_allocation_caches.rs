//! No operation of a slot cache allocates.
#![allow(clippy::unwrap_used, missing_docs)]

use std::alloc::System;
use std::task::{Poll, Waker};

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use umbra_core::atomic::AtomicU64;
use umbra_core::cache::keyed::{Keyed, Place};
use umbra_core::cache::policy::{Clock, Fifo, Lru, NextUse, Policy, S3Fifo, Sieve};
use umbra_core::cache::waiting::{Asked, Waiter, Waiting};
use umbra_core::cache::{Dense, Forgetful, Found, Grant, Index, Line, Slot, Sparse};
use umbra_core::map::Entry;
use umbra_core::memory::{Block, Granule, Offsets, QuickFit};
use umbra_core::room::{self, Range, Ranges, Stand};
use umbra_core::shared_cache::{self, Identity, Sharing, words_for};
use umbra_core::stencil::{
    Action, ByNumber, Grid, Group, Input, Limits, Reference, Shape, Stencil, Storage, Unknown, count,
};

#[global_allocator]
static COUNTED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Allocations that a piece of work makes. The test harness has a thread of its own, which may allocate at any time;
/// the least of several attempts is the work's own.
fn allocations(mut work: impl FnMut()) -> usize {
    let attempt = |_| {
        let region = Region::new(COUNTED);
        work();
        let change = region.change();
        change.allocations + change.reallocations
    };
    (0..5).map(attempt).min().unwrap()
}

/// Everything that a cache can do, more ids than slots.
fn everything<S: AsRef<[Slot]> + AsMut<[Slot]>, I: Index, P: Policy>(cache: &mut Forgetful<S, I, P>) {
    for data in 0..2_000_u64 {
        if cache.alloc(data % 700).is_ok_and(|grant| grant.found == Found::Empty) {
            let _ = if data % 13 == 0 { cache.abandon(data % 700) } else { cache.remember(data % 700) };
        }
        let (pin, _) = cache.pin(data % 700).unwrap();
        cache.free_pin(pin).unwrap();
        cache.free(data % 700).unwrap();
        let _ = (cache.forget(data % 11), cache.forget_later(data % 7), cache.state(data), cache.free(data));
        let batch = [data, data + 1, data + 2];
        let mut grants = [Grant::NONE; 3];
        if cache.alloc_all(&batch, &mut grants).is_ok() {
            cache.free_all_granted(&batch, &grants).unwrap();
        }
        if cache.alloc_all(&batch, &mut grants).is_ok() {
            cache.free_all(&batch).unwrap();
        }
        let _ = cache.get_or_fill(data % 900, |_| if data % 5 == 0 { Err(()) } else { Ok(()) });
    }
    assert!(cache.statistics().evictions > 100);
    cache.interrupt();
    assert!(cache.outstanding_fills().next().is_none());
    cache.reset().unwrap();
}

#[test]
fn s75_slot_caches_make_no_allocation() {
    fn run<P: Policy>(policy: P) {
        let mut slots = vec![Slot::EMPTY; 500];
        let mut lines = vec![Line::EMPTY; Line::for_ids(500)];
        let mut ids = vec![0; 500];
        let index = Sparse::new(&mut lines[..], &mut ids[..], 1);
        let mut cache = Forgetful::new(&mut slots[..], index, policy, 0..500).unwrap();
        assert_eq!(allocations(|| everything(&mut cache)), 0);
    }
    assert!(allocations(|| drop(std::hint::black_box(vec![1; 100]))) > 0, "the counter counts");
    run(Fifo::new());
    run(Lru::new());
    run(Clock::new());
    run(Sieve::new());
    run(S3Fifo::new());
    run(NextUse::new(vec![0; 64], 1000));
}

#[test]
fn s75_waiting_in_line_makes_no_allocation() {
    let cache = Forgetful::new(vec![Slot::EMPTY; 2], Dense::new(vec![0; 100]), Clock::new(), 0..2).unwrap();
    let mut line = Waiting::new(cache, [const { Waiter::EMPTY }; 8]);
    let waker = Waker::noop();
    let scenes = || {
        for data in 0..90 {
            let Ok((first, _)) = line.try_alloc(data) else { panic!("somebody has it") };
            let Ok((second, _)) = line.try_alloc(data + 1) else { panic!("somebody has it") };
            let waiters = [data + 2, data + 2, data + 3, data + 4].map(|data| match line.alloc(data, waker).unwrap() {
                Asked::Later(waiter) => waiter,
                Asked::Now(_) => panic!("passes the others"),
            });
            let Ok(Asked::Later(content)) = line.content(data, waker) else { panic!("nobody fills it") };
            line.remember_pin(&first).unwrap();
            assert!(line.poll(content, waker).is_some() && line.poll(waiters[0], waker).is_none());
            line.free_pin(first).unwrap();
            line.give_up(second).unwrap();
            while line.next_waker().is_some() {}
            assert!(waiters[..3].iter().all(|&waiter| line.poll(waiter, waker).is_some()));
            assert_eq!(line.end(waiters[3]), None);
            for data in [data + 2, data + 2, data + 3] {
                line.free(data).unwrap();
            }
        }
        line.interrupt();
        (0..2).for_each(|slot| _ = line.settle(slot));
        line.reset().unwrap();
    };
    assert_eq!(allocations(scenes), 0);
}

#[test]
fn s75_caches_under_keys_make_no_allocation_while_they_are_used() {
    let places: Vec<_> = (0..4).map(|_| Place::EMPTY).collect();
    let mut caches = Keyed::new(places, [const { Entry::EMPTY }; 16], 7);
    let lives = || {
        for key in 0..100 {
            let id = caches.create(key, cache()).unwrap();
            assert_eq!(caches.find(key), Ok(id));
            let cache = caches.get_mut(id).unwrap();
            cache.alloc(3).unwrap();
            cache.free(3).unwrap();
            assert!(caches.create(key, self::cache()).is_err(), "the key is taken");
            assert!(caches.end(id).is_ok());
        }
    };
    assert_eq!(allocations(lives), 0);
}

/// A cache in arrays.
fn cache() -> Forgetful<[Slot; 2], Dense<[u32; 9]>, Clock> {
    Forgetful::new([Slot::EMPTY; 2], Dense::new([0; 9]), Clock::new(), 0..2).unwrap()
}

#[test]
fn s75_a_shared_cache_makes_no_allocation() {
    let sharing = Sharing::new(4, 31).unwrap();
    let words: Vec<_> = (0..words_for(100, sharing).unwrap()).map(|_| AtomicU64::new(0)).collect();
    let cache = shared_cache::Forgetful::create(&words, 100, sharing, 1).unwrap();
    let (a, b) = (cache.join(Identity::new(1, 0)).unwrap(), cache.join(Identity::new(2, 0)).unwrap());
    let sweep = || {
        for data in 0..2_000_u64 {
            let id = data % 300;
            if a.alloc(id).unwrap().found == Found::Empty {
                if data % 13 == 0 { a.abandon(id).unwrap() } else { a.remember(id).unwrap() }
            }
            let _ = (b.alloc(id).map(drop), b.free(id), b.state(id), b.references(id));
            a.free(id).unwrap();
            let _ = (a.forget(data % 11), b.forget_later(data % 7));
            let batch = [id, id + 1, id + 2];
            let mut grants = [None; 3];
            a.alloc_all(&batch, &mut grants).unwrap();
            a.free_all(&batch).unwrap();
        }
        b.alloc(1000).unwrap();
        a.reclaim(b.owner(), Identity::new(2, 0), |_, _| {}).unwrap();
        cache.join(Identity::new(2, 0)).unwrap();
    };
    assert_eq!(allocations(sweep), 0);
}

#[test]
fn s75_offsets_that_are_kept_and_waited_for_make_no_allocation() {
    let (blocks, starts) = (vec![Block::default(); 65], vec![0; 1024]);
    let lists = vec![QuickFit::NO_RANGE; 64];
    let memory = Offsets::with_lists(blocks, starts, 1024, Granule::BYTE, lists, 16);
    let mut line = room::Waiting::new(Ranges::new(memory), [const { room::Waiter::EMPTY }; 4]);
    let churn = || {
        for round in 1..100 {
            let mut ranges: [Range; 12] = std::array::from_fn(|at| Range::aligned(round % 40 + 1, 1 << (at % 3)));
            ranges.iter_mut().for_each(|range| line.take_now(range).unwrap());
            let (mut all, mut stand) = (Range::new(1024), Stand::default());
            assert!(line.ask(&mut stand, &mut all, Waker::noop()).is_pending());
            assert!(line.take_now(&mut Range::new(1)).is_err());
            ranges.iter().for_each(|range| assert!(line.free(range.offset().unwrap()).is_ok()));
            while line.next_waker().is_some() {}
            assert_eq!(line.ask(&mut stand, &mut all, Waker::noop()), Poll::Ready(Ok(())));
            line.free(0).unwrap();
        }
    };
    assert_eq!(allocations(churn), 0);
}

#[test]
fn s24_the_phases_of_many_slots_make_no_allocation() {
    for slots in [640_000_u32, 1 << 20] {
        let mut records = vec![Slot::EMPTY; slots as usize];
        let mut lines = vec![Line::EMPTY; Line::for_ids(slots as usize)];
        let mut ids = vec![0; slots as usize];
        let all = 0..u64::from(slots);
        let index = Sparse::new(&mut lines[..], &mut ids[..], 7);
        let mut cache = Forgetful::new(&mut records[..], index, Clock::new(), 0..slots).unwrap();
        let attempt = |_| {
            let region = Region::new(COUNTED);
            (0..3).for_each(|_| assert!(all.clone().all(|data| cache.alloc(data).is_ok())));
            assert!(all.clone().all(|data| cache.remember(data).is_ok()));
            (0..3).for_each(|_| assert!(all.clone().all(|data| cache.free(data).is_ok())));
            assert!(all.clone().all(|data| cache.forget(data) == Ok(true)));
            let change = region.change();
            change.allocations + change.reallocations
        };
        assert_eq!((0..3).map(attempt).min(), Some(0));
    }
}

#[test]
fn s75_a_stencil_cache_makes_no_allocation() {
    let grid = Grid::new([1, 20, 20], 1, Shape::Box).unwrap();
    let groups: Vec<Vec<u64>> = (0..400).map(|point| grid.group(point).collect()).collect();
    let mut inputs = vec![Input::NOT_USED; 400];
    groups.iter().for_each(|group| count(&mut inputs, group).unwrap());
    let storage = Storage {
        slots: vec![Slot::EMPTY; 30],
        buckets: vec![0; 512],
        inputs,
        groups: vec![Group::EMPTY; 8],
        references: vec![Reference::EMPTY; 8 * 9],
    };
    let limits = Limits { largest_group: 9, active: 3, horizon: 400 };
    let mut stencil = Stencil::new(storage, ByNumber, Unknown, 0..30, limits).unwrap();
    let mut attempt = || {
        let region = Region::new(COUNTED);
        let (mut submitted, mut done) = (0, 0);
        while done < groups.len() {
            while submitted < groups.len() && stencil.submit(submitted as u64, &groups[submitted]).is_ok() {
                submitted += 1;
            }
            match stencil.poll().unwrap() {
                Action::Prepare { data, .. } if data % 50 == 0 => stencil.failed(data).unwrap(),
                Action::Prepare { data, .. } => stencil.prepared(data).unwrap(),
                Action::Ready { group, .. } => {
                    stencil.free_group(group).unwrap();
                    done += 1;
                }
                _ => done += 1,
            }
        }
        let change = region.change();
        // Once more.
        groups.iter().flatten().for_each(|&data| stencil.expect(data, 1).unwrap());
        change.allocations + change.reallocations
    };
    assert_eq!((0..5).map(|_| attempt()).min(), Some(0));
}
