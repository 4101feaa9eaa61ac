//! No operation of a slot cache allocates.
#![allow(clippy::unwrap_used, missing_docs)]

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use umbra_core::cache::policy::{Clock, Fifo, Lru, NextUse, Policy, S3Fifo, Sieve};
use umbra_core::cache::{Forgetful, Found, Grant, Index, Line, Slot, Sparse};
use umbra_core::stencil::{
    Action, ByNumber, Grid, Group, Input, Limits, Reference, Shape, Stencil, Storage, Unknown, count,
};

#[global_allocator]
static COUNTED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

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
        // The test harness has a thread of its own, which may allocate at any time; the least of several attempts
        // is the work's own.
        let mut cache = Forgetful::new(&mut slots[..], Sparse::new(&mut lines[..], 1), policy, 0..500).unwrap();
        let attempt = |_| {
            let region = Region::new(COUNTED);
            everything(&mut cache);
            let change = region.change();
            change.allocations + change.reallocations
        };
        assert_eq!((0..5).map(attempt).min(), Some(0));
    }
    let region = Region::new(COUNTED);
    drop(std::hint::black_box(vec![1; 100]));
    assert!(region.change().allocations > 0, "the counter counts");
    run(Fifo::new());
    run(Lru::new());
    run(Clock::new());
    run(Sieve::new());
    run(S3Fifo::new(vec![0; 500]));
    run(NextUse::new(vec![0; 64], 1000));
}

#[test]
fn s24_the_phases_of_many_slots_make_no_allocation() {
    for slots in [640_000_u32, 1 << 20] {
        let mut records = vec![Slot::EMPTY; slots as usize];
        let mut lines = vec![Line::EMPTY; Line::for_ids(slots as usize)];
        let all = 0..u64::from(slots);
        let mut cache =
            Forgetful::new(&mut records[..], Sparse::new(&mut lines[..], 7), Clock::new(), 0..slots).unwrap();
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
