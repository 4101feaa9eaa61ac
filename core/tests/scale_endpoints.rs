//! Sizes at scale: one job of a million ranks, a hundred thousand groups of two.
//!
//! Sizes are asserted. Times are only told (`--nocapture`), in whatever build this is; the bench measures them.
#![allow(clippy::unwrap_used, missing_docs)]

mod oracle;

use std::time::Instant;

use oracle::{KEY, entry};
use umbra_core::atomic::AtomicU64;
use umbra_core::endpoints::{
    Cursor, Descriptor, Endpoints, Entry, EntryRun, JobKey, LookupError, Shape, Table, TableBuilder,
};
use umbra_core::id::Generation;
use umbra_core::memory::Block;
use umbra_core::peer::{Host, LocalRank, Peer, Rank, Sp, WorldRank};
use umbra_core::placement::Placement;

const RANKS: u32 = 1 << 20;
const HOSTS: u32 = 1 << 14;
const PER_HOST: u32 = RANKS / HOSTS;
const PER_DPU: u32 = 4;

fn job() -> Placement<'static> {
    Placement::one_dpu_a_host(HOSTS, PER_DPU, 1).unwrap()
}

fn timed<R>(what: &str, work: impl FnOnce() -> R) -> R {
    let start = Instant::now();
    let result = work();
    println!("{what}: {:.3} s", start.elapsed().as_secs_f64());
    result
}

/// The world of the large job, where rank `r` of the group runs where world rank `order(r)` does.
fn fill(order: impl Fn(u32) -> u32) -> TableBuilder<Vec<u8>> {
    let job = job();
    let mut bytes = vec![0; Descriptor::bytes_needed(RANKS)];
    let members = (0..RANKS).map(|rank| WorldRank(order(rank)));
    let group = Descriptor::write(1, members, &mut bytes).unwrap();
    let shape = Shape::new(&group, KEY.group(&group), &job);
    assert!(shape.builder_bytes() <= 64 << 20, "{} bytes to build", shape.builder_bytes());
    let mut builder = TableBuilder::new(vec![0; shape.builder_bytes()], shape).unwrap();
    for rank in 0..RANKS {
        let world = order(rank);
        let entry = job.entry(WorldRank(world), Host(world / PER_HOST), LocalRank(world % PER_HOST)).unwrap();
        assert!(builder.set(Rank(rank), &entry).unwrap());
    }
    builder
}

#[test]
fn s52_a_regular_world_of_a_million_ranks_takes_a_few_hundred_bytes() {
    let mut builder = timed("set", || fill(|rank| rank));
    let bytes = timed("finish", || builder.finish(Generation::FIRST).unwrap().to_vec());
    assert!(bytes.len() <= 256, "{} bytes", bytes.len());
    let table = timed("attach", || Table::attach(&bytes).unwrap());
    assert_eq!(table.involved_count(), HOSTS * PER_DPU);
    assert_eq!(table.host_count(), HOSTS);
    let last = table.endpoint(Rank(RANKS - 1)).unwrap();
    assert_eq!((last.peer, last.sp), (Peer::rank(WorldRank(RANKS - 1)).unwrap(), Sp(HOSTS * PER_DPU - 1)));

    // As runs it is one a host.
    let (mut cursor, mut total, mut messages) = (Cursor::default(), 0, 0);
    let mut message = vec![0; 64 << 10];
    timed("runs", || {
        while !cursor.is_done() {
            total += builder.write_runs(&mut cursor, &mut message, |_| true);
            messages += 1;
        }
    });
    assert!(total <= 20 * HOSTS as usize, "{total} bytes in {messages} messages");
}

#[test]
fn s52_a_shuffled_world_of_a_million_ranks_takes_16_bytes_a_rank_and_records() {
    // A permutation without structure that anything here could use: odd multiplier, bits reversed.
    let order = |rank: u32| (rank.wrapping_mul(0x9E37_79B1) & (RANKS - 1)).reverse_bits() >> (32 - 20);
    let mut builder = timed("set", || fill(order));
    let bytes = timed("finish", || builder.finish(Generation::FIRST).unwrap().to_vec());
    let sps = (HOSTS * PER_DPU) as usize;
    // A record a service process and its place by host, a record a host, and less than a line of header.
    let records = sps * 20 + HOSTS as usize * 16 + 128;
    assert!(bytes.len() <= RANKS as usize * 16 + records, "{} bytes", bytes.len());
    assert!(bytes.len() <= 64 << 20);
    let table = timed("attach", || Table::attach(&bytes).unwrap());
    assert!(!table.is_affine());
    for rank in (0..RANKS).step_by(4099) {
        let world = order(rank);
        let (host, local) = (Host(world / PER_HOST), LocalRank(world % PER_HOST));
        assert_eq!(table.entry(Rank(rank)).ok(), job().entry(WorldRank(world), host, local));
        let sp = table.index_of(table.shadow(Rank(rank), 0).unwrap()).unwrap();
        assert_eq!(table.rank_count_of(sp), Ok(PER_HOST / PER_DPU));
        assert!(table.index_within(sp, Rank(rank)).unwrap() < PER_HOST / PER_DPU);
        assert!(table.index_on_host(Rank(rank)).unwrap() < PER_HOST);
    }
}

#[test]
fn the_part_of_one_service_process_is_one_run_of_at_most_24_bytes() {
    let job = job();
    let host = HOSTS - 1;
    let ranks = || (1..PER_HOST).step_by(PER_DPU as usize);
    let entries: Vec<(Rank, Entry)> = ranks()
        .map(|local| {
            let rank = host * PER_HOST + local;
            (Rank(rank), job.entry(WorldRank(rank), Host(host), LocalRank(local)).unwrap())
        })
        .collect();
    let mut run = EntryRun::one(entries[0].0, &entries[0].1);
    assert!(entries[1..].iter().all(|(rank, entry)| run.extend(*rank, entry, PER_DPU)));
    let mut bytes = [0; 24];
    let mut w = umbra_core::codec::Writer::new(&mut bytes);
    run.emit(&mut w).unwrap();
    assert_eq!(run.count, PER_HOST / PER_DPU);
}

#[test]
fn s56_a_hundred_thousand_groups_of_two_take_memory_in_proportion() {
    const GROUPS: u32 = 100_000;
    // Every other pair is on one host, the others are not regular.
    let pair = |group: u32| {
        let (first, second) = (group, (group + 1 + group % 7919) % RANKS);
        [entry(first, first / 64, &[first / 16]), entry(second, second / 64, &[second / 16])]
    };
    let key = JobKey::new([3; 16]);
    let shape_of = |group: u32| {
        let mut bytes = [0; 64];
        let group = Descriptor::write(group, pair(group).map(|entry| entry.world_rank), &mut bytes).unwrap();
        Shape::new(&group, key.group(&group), &job())
    };
    let mut storage = vec![0; shape_of(0).builder_bytes()];
    let mut tables = Vec::new();
    timed("build", || {
        for group in 0..GROUPS {
            let mut builder = TableBuilder::new(&mut storage[..], shape_of(group)).unwrap();
            for (rank, entry) in (0..).map(Rank).zip(pair(group)) {
                builder.set(rank, &entry).unwrap();
            }
            tables.push(builder.finish(Generation::FIRST).unwrap().to_vec());
        }
    });
    let room: usize = tables.iter().map(|bytes| bytes.len().next_multiple_of(64)).sum();
    type Arena = Endpoints<Vec<AtomicU64>, Vec<Block>>;
    let words = Arena::words_needed(GROUPS, room);
    let private = (GROUPS as usize * 2 + 1) * size_of::<Block>();
    // All of it: directory, index, tables, bookkeeping.
    let each = (words * 8 + private) / GROUPS as usize;
    assert!(each <= 384, "{each} bytes a group");
    let words = (0..words).map(|_| AtomicU64::new(0)).collect();
    let mut endpoints = Arena::create(words, vec![Block::default(); GROUPS as usize * 2 + 1], GROUPS).unwrap();
    let mut handles = Vec::new();
    timed("attach and publish", || {
        for (group, bytes) in (0..).zip(&tables) {
            handles.push(endpoints.publish(&Table::attach(bytes).unwrap(), Some(group)).unwrap());
        }
    });
    assert_eq!(endpoints.live(), GROUPS);
    let reader = endpoints.reader().unwrap();
    for (group, handle) in (0..).zip(&handles) {
        assert_eq!(handle.index(), group);
        for (rank, entry) in (0..).map(Rank).zip(pair(group)) {
            let found = reader.lookup(*handle, rank).unwrap();
            assert_eq!((Some(found.peer), found.sp), (Peer::rank(entry.world_rank), entry.shadows[0]));
        }
    }
    let free = endpoints.free_bytes();
    for handle in handles.iter().step_by(2) {
        endpoints.retire(*handle).unwrap();
    }
    assert!(endpoints.free_bytes() > free);
    let reader = endpoints.reader().unwrap();
    assert_eq!(reader.lookup(handles[0], Rank(0)), Err(LookupError::StaleGeneration));
    assert_eq!(reader.groups().count(), GROUPS as usize / 2);
}
