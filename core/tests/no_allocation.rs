//! Look-ups, memories and caches allocate nothing.
#![allow(clippy::unwrap_used, missing_docs)]

mod oracle;

use std::alloc::System;
use std::hint::black_box;

use oracle::{table_bytes, world};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use umbra_core::atomic::AtomicU64;
use umbra_core::cache::{Dense, Slot};
use umbra_core::cached_memory::{CachedMemory, Lent, Member, Run};
use umbra_core::endpoints::{Endpoint, Endpoints, Reader, Table};
use umbra_core::memory::{Block, Granule, Memory};
use umbra_core::peer::{HostInGroup, Rank, SpInGroup};
use umbra_core::placement::Placement;

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

#[test]
fn s55_look_ups_publishing_and_retiring_make_no_allocation() {
    assert!(allocations(|| drop(black_box(vec![1; 100]))) > 0, "the counter counts");
    let job = Placement::one_dpu_a_host(4, 2, 2).unwrap();
    let block = world(&job, &[8; 4], false);
    let sparse: Vec<_> = [31, 24, 30, 7, 2, 26, 25, 0].into_iter().map(|rank: usize| block[rank].clone()).collect();
    let tables = [table_bytes(&block, 2, 1), table_bytes(&sparse, 2, 2)];
    let tables = tables.each_ref().map(|bytes| Table::attach(bytes).unwrap());
    let words: Vec<_> =
        (0..Endpoints::<&[AtomicU64], [Block; 5]>::words_needed(2, 4096)).map(|_| AtomicU64::new(0)).collect();
    let mut endpoints = Endpoints::create(&words[..], [Block::default(); 5], 2).unwrap();
    let handles = tables.each_ref().map(|table| endpoints.publish(table, None).unwrap());
    let reader = Reader::attach(&words).unwrap();

    let look_up = || {
        for (handle, table) in handles.into_iter().zip(&tables) {
            for rank in (0..table.size() + 1).map(Rank) {
                let _ = black_box(reader.lookup(handle, rank));
                let _ = black_box(reader.ask(handle, |table| table.entry(rank)));
                let _ = black_box(reader.ask(handle, |table| table.index_on_host(rank)));
            }
            let mut found = [Endpoint::default(); 3];
            let _ = black_box(reader.lookup_all(handle, &[Rank(0), Rank(1), Rank(0)], &mut found));
            let all = reader.read(handle, |table| {
                let of = (0..table.involved_count()).map(|sp| table.ranks_of(SpInGroup(sp)).unwrap().count());
                let on = (0..table.host_count()).map(|host| table.ranks_on(HostInGroup(host)).unwrap().count());
                of.chain(on).sum::<usize>()
            });
            assert_eq!(all, Ok(table.size() as usize * 3));
            assert_eq!(reader.find(table.key()), Ok(handle));
        }
        black_box(reader.groups().count());
    };
    assert_eq!(allocations(look_up), 0);

    let mut handles = handles;
    let publish = || {
        for (handle, table) in handles.iter_mut().zip(&tables) {
            endpoints.retire(*handle).unwrap();
            *handle = endpoints.publish(table, None).unwrap();
        }
    };
    assert_eq!(allocations(publish), 0);
}

#[test]
fn t75_memories_allocate_nothing() {
    let mut memory = Memory::new([Block::default(); 64], 1 << 20);
    let churn = || {
        let ranges: [_; 16] =
            std::array::from_fn(|at| memory.alloc_aligned(100 * at as u64 + 1, 64 << (at % 4)).unwrap());
        ranges.into_iter().for_each(|range| memory.free(range).unwrap());
    };
    assert_eq!(allocations(churn), 0);

    let (blocks, slots, runs) = ([Block::default(); 65], [Slot::EMPTY; 65], [Run::EMPTY; 66]);
    let lent = Lent { blocks, slots, runs, starts: [0; 1024], bits: [0; 17] };
    let mut memory = CachedMemory::new(lent, Dense::new([0; 100]), 1024, Granule::BYTE).unwrap();
    let sweep = || {
        for first in 0..96 {
            let mut members: [_; 4] =
                std::array::from_fn(|at| Member::new(first + at as u64, 40 + 2 * first + 2 * at as u64));
            memory.alloc_group(None, &mut members).unwrap();
            for member in &members {
                let _ = black_box(memory.remember(member.data()));
                memory.free(member.data()).unwrap();
            }
        }
    };
    assert_eq!(allocations(sweep), 0);
    assert!(memory.statistics().cache.evictions > 0);
}
