//! Pools under contention and to their limits: A02 to A11, A14, A17, A19 and A21.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeSet;
use std::io::{Read as _, Seek as _};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use umbra::channel::{self, Channel};
use umbra::pool::{Attributes, Error, Pool};
use umbra::reference::is_local;
use umbra_core::heap::{AllocError, Block, BlockId};
use umbra_core::reference::Reference;

const MIB: u64 = 1 << 20;
/// Only a hang lasts longer.
const LONG: Duration = Duration::from_secs(60);

fn pool(attributes: Attributes) -> Pool {
    Pool::create(None, &Attributes { bytes: MIB, ..attributes }).unwrap()
}

/// As another process would see it.
fn another(pool: &Pool) -> Pool {
    let [manifest, data] = pool.share().unwrap();
    Pool::attach_shared(manifest, data).unwrap()
}

fn free(pool: &Pool, id: BlockId) {
    pool.allocation(id).unwrap().free().unwrap();
}

#[test]
fn a02_a_pool_is_used_at_two_addresses_and_holds_neither() {
    let pool = pool(Attributes::default());
    let other = another(&pool);
    let (first, second) = (pool.alloc(100, 1).unwrap(), other.alloc(MIB / 4, 2).unwrap());
    first.write(0, b"hello").unwrap();
    let same = other.allocation(first.id()).unwrap();
    let mut seen = [0; 5];
    same.read(0, &mut seen).unwrap();
    assert_eq!(&seen, b"hello");
    let addresses = [first, same, second].map(|one| one.pointer().unwrap().addr().get() as u64);
    assert_ne!(addresses[0], addresses[1], "mapped twice");
    let offset = pool.blocks().find(|block| block.id == first.id()).unwrap().offset;
    let bases = [addresses[0] - offset, addresses[1] - offset];
    for file in pool.share().unwrap() {
        let (mut file, mut image) = (std::fs::File::from(file), Vec::new());
        file.rewind().unwrap();
        file.read_to_end(&mut image).unwrap();
        let mut words = image.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
        assert!(words.all(|word| !bases.contains(&word) && !addresses.contains(&word)));
    }
    same.free().unwrap();
    assert!(!first.exists());
    pool.allocation(second.id()).unwrap().free().unwrap();
    pool.alloc(MIB, 0).unwrap();
}

#[test]
fn a03_a_full_pool_refuses_at_once_or_after_the_time_given() {
    let pool = pool(Attributes::default());
    let _all = pool.alloc(MIB, 0).unwrap();
    for len in [1, 64, MIB] {
        let refused = pool.alloc(len, 0).unwrap_err();
        assert_eq!(refused, Error::Alloc(AllocError::NotAvailable { len }));
        assert_eq!(refused.code(), "DYNHEAP_REQUESTED_SIZE_NOT_AVAILABLE");
    }
    let start = Instant::now();
    let late = pool.alloc_within(64, 0, Duration::from_millis(200)).unwrap_err();
    assert!(start.elapsed() >= Duration::from_millis(200));
    assert_eq!((late.code(), late), ("TIMEOUT", Error::Timeout { len: 64 }));
    for len in [MIB + 1, u64::MAX] {
        let refused = pool.alloc_within(len, 0, Duration::MAX).unwrap_err();
        assert_eq!(refused, Error::Alloc(AllocError::TooLarge { len, longest: MIB }), "at once");
    }
}

#[test]
fn a04_one_free_serves_all_who_find_room_in_it() {
    let pool = pool(Attributes::default());
    let large = pool.alloc(32 << 10, 0).unwrap();
    let rest: Vec<_> =
        std::iter::from_fn(|| [64 << 10, 4096, 512, 32].into_iter().find_map(|len| pool.alloc(len, 1).ok())).collect();
    assert!(pool.alloc(512, 0).is_err() && !rest.is_empty());
    let served = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..10 {
            scope.spawn(|| {
                another(&pool).alloc_within(512, 2, LONG).unwrap();
                served.fetch_add(1, Ordering::Relaxed);
            });
        }
        thread::sleep(Duration::from_millis(30));
        assert_eq!(served.load(Ordering::Relaxed), 0);
        large.free().unwrap();
    });
    assert_eq!(served.load(Ordering::Relaxed), 10);
    let places: BTreeSet<u64> = pool.blocks().filter(|block| block.kind == 2).map(|block| block.offset).collect();
    assert_eq!(places.len(), 10, "each has its own");
}

#[test]
fn a05_who_waits_for_much_is_served_as_soon_as_there_is_so_much() {
    let pool = pool(Attributes { blocks: 1 << 15, ..Attributes::default() });
    let small: Vec<BlockId> = std::iter::from_fn(|| pool.alloc(64, 0).ok().map(|one| one.id())).collect();
    let (is_over, small_served) = (AtomicBool::new(false), AtomicUsize::new(0));
    let early = thread::scope(|scope| {
        let much = scope.spawn(|| another(&pool).alloc_within(MIB / 8, 9, LONG).map(|all| all.len()));
        // Others take what is freed, again and again, and give it back.
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    if let Ok(one) = pool.alloc_within(64, 1, Duration::from_millis(20)) {
                        small_served.fetch_add(1, Ordering::Relaxed);
                        one.free().unwrap();
                    }
                }
            });
        }
        let (few, most) = small.split_at(100);
        few.iter().for_each(|&id| free(&pool, id));
        let begun = Instant::now();
        while small_served.load(Ordering::Relaxed) == 0 && begun.elapsed() < LONG {
            thread::sleep(Duration::from_millis(10));
        }
        thread::sleep(Duration::from_millis(300));
        let early = (much.is_finished(), small_served.load(Ordering::Relaxed) > 0);
        most.iter().for_each(|&id| free(&pool, id));
        // While the others go on, of whom each keeps a span of small blocks somewhere.
        let much = much.join();
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(much.unwrap(), Ok(MIB / 8));
        early
    });
    assert_eq!(early, (false, true), "before there was so much only the others were served");
}

#[test]
fn a06_a_limit_of_blocks_is_kept_and_one_who_waits_has_the_next_place() {
    let pool = pool(Attributes { blocks: 10, ..Attributes::default() });
    let blocks: Vec<_> = (0..10).map(|n| pool.alloc(1 + n * 5000, 0).unwrap()).collect();
    let refused = pool.alloc(1, 0).unwrap_err();
    assert_eq!((refused.code(), refused), ("OUT_OF_SPACE", Error::Alloc(AllocError::OutOfEntries)));
    thread::scope(|scope| {
        let waits = scope.spawn(|| pool.alloc_within(1, 0, LONG).is_ok());
        thread::sleep(Duration::from_millis(20));
        blocks[3].free().unwrap();
        assert!(waits.join().unwrap());
    });
}

#[test]
fn a07_reserved_blocks_are_there_after_any_churn() {
    // How long the pool is, what is reserved, and what else is allocated: the longest that can be reserved, too.
    let cases: [(u64, &[u64], &[u64]); 2] =
        [(MIB, &[32, 64, 128, 256], &[700, 3000, 40_000, 9000]), (64 * MIB, &[65_536], &[50_000, 45_000, 9000, 700])];
    for (bytes, sizes, lens) in cases {
        let reserved = sizes.iter().map(|&size| (size, 100)).collect();
        let pool = Pool::create(None, &Attributes { bytes, reserved, ..Attributes::default() }).unwrap();
        for round in 0..20 {
            // Everything else is taken, in other sizes, and given back.
            let take = || lens.iter().find_map(|&len| pool.alloc(len + round, 1).ok());
            let taken: Vec<_> = std::iter::from_fn(take).collect();
            assert!(pool.alloc(700, 1).is_err() && !taken.is_empty());
            let reserved = sizes.iter().flat_map(|&size| (0..100).map(move |_| size));
            let reserved: Vec<_> = reserved.map(|size| pool.alloc(size, 2).unwrap()).collect();
            taken.into_iter().chain(reserved).for_each(|one| one.free().unwrap());
        }
    }
}

#[test]
fn a08_nothing_can_be_allocated_freed_and_named() {
    let pool = pool(Attributes::default());
    let all = pool.alloc(MIB, 0).unwrap();
    // Also of a pool that is full, and without waiting.
    let nothing = pool.alloc_within(0, 7, Duration::MAX).unwrap();
    assert!(nothing.is_empty() && nothing.exists() && pool.blocks().count() == 1);
    nothing.write(0, &[]).unwrap();
    nothing.read(0, &mut []).unwrap();
    assert_eq!(nothing.write(0, &[1]).unwrap_err(), Error::OutOfBounds { offset: 0, len: 1, size: 0 });
    assert!(nothing.part(0, 0).unwrap().equals(&nothing).unwrap() && nothing.part(0, 1).is_err());
    assert!(nothing.copy_to(&all).is_ok() && nothing.own().is_ok() && nothing.clear(0, 0).is_ok());
    // It has a name like all others, in every process.
    let bytes = nothing.reference().unwrap();
    assert!(is_local(&Reference::parse(&bytes).unwrap()));
    let theirs = Pool::attach_reference(&bytes).unwrap();
    assert!(theirs.allocation_of(&bytes).unwrap().is_empty());
    assert!(theirs.allocation(nothing.id()).unwrap().is_same(&nothing) && !nothing.is_same(&all));
    nothing.free().unwrap();
    all.free().unwrap();
    pool.destroy().unwrap();
    assert_eq!((pool.alloc(0, 0).map(drop), nothing.free()), (Err(Error::Destroyed), Err(Error::Destroyed)));
    assert!(!nothing.exists());
}

#[test]
fn a09_a_stale_handle_never_reaches_what_is_in_its_place() {
    let pool = pool(Attributes::default());
    let (second, third) = (another(&pool), another(&pool));
    let ours = pool.alloc(1000, 0).unwrap();
    let (theirs, bytes) = (second.allocation(ours.id()).unwrap(), ours.reference().unwrap());
    let offset = pool.blocks().next().unwrap().offset;
    ours.free().unwrap();
    // Until the same place is used again.
    let again = std::iter::from_fn(|| third.alloc(1000, 0).ok())
        .find(|one| third.blocks().any(|block| block.id == one.id() && block.offset == offset));
    let again = again.unwrap();
    again.write(0, b"mine").unwrap();
    let refused = theirs.free().unwrap_err();
    assert_eq!((refused.code(), refused), ("INVALID_ARGUMENT", Error::Stale));
    assert_eq!((theirs.write(0, b"bad!"), theirs.own()), (Err(Error::Stale), Err(Error::Stale)));
    assert_eq!(second.allocation_of(&bytes).unwrap_err(), Error::Stale);
    let mut seen = [0; 4];
    again.read(0, &mut seen).unwrap();
    assert_eq!(&seen, b"mine");
}

#[test]
fn a10_of_several_who_free_a_block_exactly_one_succeeds() {
    let pool = pool(Attributes::default());
    let other = another(&pool);
    for round in 0..2000_u64 {
        let one = pool.alloc(1 + round * 37 % 9000, 0).unwrap();
        let copies = [one, one.part(0, 1).unwrap(), other.allocation(one.id()).unwrap()];
        let freed: usize = thread::scope(|scope| {
            let threads = copies.map(|copy| scope.spawn(move || usize::from(copy.free().is_ok())));
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!((freed, one.free()), (1, Err(Error::Stale)), "round {round}");
    }
    assert_eq!(pool.blocks().count(), 0);
}

#[test]
fn a11_views_of_views_add_up_and_stay_inside() {
    let pool = pool(Attributes::default());
    let all = pool.alloc(100, 0).unwrap();
    let numbers: Vec<u8> = (0..100).collect();
    all.write(0, &numbers).unwrap();
    let edges = [0, 1, 50, 99, 100, 101, u64::MAX - 1, u64::MAX];
    for (offset, len) in edges.into_iter().flat_map(|offset| edges.map(|len| (offset, len))) {
        let fits = offset.checked_add(len).is_some_and(|end| end <= 100);
        assert_eq!(all.part(offset, len).is_ok(), fits, "{offset} {len}");
    }
    let inner = all.part(10, 80).unwrap().part(5, 20).unwrap().part(2, 3).unwrap();
    // In another process too.
    let theirs = Pool::attach_reference(&inner.reference().unwrap()).unwrap();
    let same = theirs.allocation_of(&inner.reference().unwrap()).unwrap();
    for view in [inner, same] {
        let mut bytes = [0; 3];
        view.read(0, &mut bytes).unwrap();
        assert_eq!((bytes, view.len(), view.read(1, &mut bytes).is_err()), ([17, 18, 19], 3, true));
    }
    assert!(same.whole().unwrap().len() == 100);
}

#[test]
fn a14_a_listing_during_churn_shows_only_what_was_allocated() {
    let pool = pool(Attributes::default());
    let other = another(&pool);
    let kinds = [0, 1, 2, 3, 9001];
    let kept: Vec<_> = kinds.iter().map(|&kind| pool.alloc(100 + u64::from(kind), kind).unwrap()).collect();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0.. {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                other.alloc(5000 + round % 3000, 77).unwrap().free().unwrap();
            }
        });
        let is_known = |block: &Block| {
            let is_churn = block.kind == 77 && (5000..8000).contains(&block.len);
            is_churn || kinds.contains(&block.kind) && block.len == 100 + u64::from(block.kind)
        };
        let strange = (0..2000).find_map(|_| pool.blocks().find(|block| !is_known(block)));
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(strange, None);
    });
    for (kind, one) in kinds.into_iter().zip(&kept) {
        let listed: Vec<_> = pool.blocks().filter(|block| block.kind == kind).map(|block| block.id).collect();
        assert_eq!(listed, [one.id()]);
        assert!(one.exists());
        free(&other, one.id());
        assert!(!one.exists() && pool.blocks().all(|block| block.kind != kind));
    }
    assert!(pool.alloc(1, 1 << 24).is_err(), "no such kind");
}

#[test]
fn a19_who_waits_for_memory_of_a_pool_that_is_destroyed_returns() {
    let pool = pool(Attributes::default());
    let all = pool.alloc(MIB, 0).unwrap();
    thread::scope(|scope| {
        let waiting: Vec<_> = (0..5)
            .map(|_| scope.spawn(|| another(&pool).alloc_within(64, 0, LONG).map(|one| one.len()).unwrap_err()))
            .collect();
        thread::sleep(Duration::from_millis(30));
        pool.destroy().unwrap();
        for thread in waiting {
            let error = thread.join().unwrap();
            assert_eq!((error.code(), error), ("OBJECT_DESTROYED", Error::Destroyed));
        }
    });
    // The memory stays mapped: a late access is no signal.
    let mut byte = [0];
    let _ = (all.read(0, &mut byte), all.write(0, &byte));
    assert_eq!((all.free(), pool.alloc(1, 0).map(drop)), (Err(Error::Destroyed), Err(Error::Destroyed)));
}

#[test]
fn a21_a_pool_and_ten_channels_fit_where_containers_have_64_mib() {
    let pool = Pool::create(None, &Attributes { bytes: 4 << 20, ..Attributes::default() }).unwrap();
    let channels: Vec<_> = (0..10).map(|_| Channel::create(&channel::Attributes::default()).unwrap()).collect();
    let descriptors = pool.share().unwrap().into_iter().chain(channels.iter().map(|one| one.share().unwrap()));
    let bytes: u64 = descriptors.map(|file| std::fs::File::from(file).metadata().unwrap().len()).sum();
    assert!((4 << 20..16 << 20).contains(&bytes), "{bytes} bytes");
    pool.alloc(4 << 20, 0).unwrap().write((4 << 20) - 1, &[1]).unwrap();
}
