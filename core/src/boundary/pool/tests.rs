//! Owners and handles of pools, one after the other.

use super::*;

#[test]
fn s13_the_last_owner_frees_and_no_handle_revives() {
    let headers = [const { Header::new() }; 1];
    let mut classes = [Class::new(64, 1)];
    let pool = Pool::new(&headers, &mut classes).unwrap();
    let first = pool.get(64).unwrap();
    let old = first.weak();
    let second = first.share().unwrap();
    drop(first);
    assert!(pool.is_valid(old), "one owner is left");
    drop(second);
    assert!(!pool.is_valid(old));
    let again = pool.get(1).unwrap();
    assert_eq!(again.weak().index, old.index);
    assert_ne!(again.weak().generation, old.generation);
    assert!(!pool.is_valid(old) && pool.upgrade(old).is_err());
    assert!(!pool.is_valid(Weak { index: 9, generation: 1 }));
}

#[test]
fn s15_a_handle_that_went_over_a_wire_names_what_it_named_and_no_other_bytes_do() {
    let headers = [const { Header::new() }; 3];
    let mut classes = [Class::new(64, 3)];
    let pool = Pool::new(&headers, &mut classes).unwrap();
    drop([pool.get(1).unwrap(), pool.get(1).unwrap()]);
    let owners = [pool.get(1).unwrap(), pool.get(1).unwrap()];
    for owner in &owners {
        let bytes = owner.weak().to_bytes();
        let came = pool.upgrade(Weak::from_bytes(bytes)).unwrap();
        assert_eq!((came.weak(), came.offset()), (owner.weak(), owner.offset()));
        let others = owners.each_ref().map(|owner| owner.weak());
        for bit in 0..64 {
            let mut changed = bytes;
            changed[bit / 8] ^= 1 << (bit % 8);
            let changed = Weak::from_bytes(changed);
            assert_eq!(pool.is_valid(changed), others.contains(&changed), "{changed:?}");
        }
    }
    assert_eq!(Weak { index: 0x0403_0201, generation: 0x0807_0605 }.to_bytes(), [1, 2, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn s14_exhaustion_is_told_and_ends_with_a_drop() {
    let headers = [const { Header::new() }; 3];
    let mut classes = [Class::new(8, 2), Class::new(32, 1)];
    let pool = Pool::new(&headers, &mut classes).unwrap();
    let all = [pool.get(8).unwrap(), pool.get(8).unwrap(), pool.get(8).unwrap()];
    assert_eq!(all.each_ref().map(|o| (o.offset(), o.len())), [(0, 8), (8, 8), (16, 32)], "larger ones help out");
    assert_eq!(pool.get(1).unwrap_err(), GetError::Exhausted { bytes: 1 });
    assert_eq!(pool.get(33).unwrap_err(), GetError::TooLarge { bytes: 33, largest: 32 });
    assert_eq!(pool.statistics().bytes, 48);
    drop(all);
    assert!(pool.get(20).is_ok());
    let statistics = pool.statistics();
    assert_eq!((statistics.live, statistics.free, statistics.high_water, statistics.failures), (0, 3, 3, 2));
    assert_eq!((statistics.bytes, pool.arena_bytes()), (0, 48));
}

#[test]
fn s14_a_slot_that_would_wrap_is_retired() {
    let headers = [const { Header::new() }; 2];
    headers[0].word.store((u64::from(u32::MAX) - 1) << 32, Ordering::Relaxed);
    let mut classes = [Class::new(8, 2)];
    let mut pool = Pool::new(&headers, &mut classes).unwrap();
    let last = pool.get(8).unwrap();
    let weak = last.weak();
    assert_eq!(weak, Weak { index: 0, generation: u32::MAX });
    drop(last);
    assert!(!pool.is_valid(weak), "retired is not live");
    assert_eq!(pool.statistics().retired, 1);
    assert_eq!(pool.get(8).unwrap().weak().index, 1);
    pool.reset();
    assert_eq!((pool.statistics().retired, pool.statistics().free), (1, 1), "also after a reset");
}

#[test]
fn s16_a_reset_pool_knows_no_handle_from_before() {
    let headers = [const { Header::new() }; 2];
    let mut classes = [Class::new(8, 2)];
    let mut pool = Pool::new(&headers, &mut classes).unwrap();
    let weak = pool.get(8).unwrap().weak();
    // An owner that was leaked is no reason to keep the object.
    let leaked = core::mem::ManuallyDrop::new(pool.get(8).unwrap()).weak();
    pool.reset();
    let _both = [pool.get(8).unwrap(), pool.get(8).unwrap()];
    assert!(!pool.is_valid(weak) && !pool.is_valid(leaked));
}

#[test]
fn s15_an_owner_kept_as_plain_data_counts_until_it_is_released() {
    let pool = Pool::new([const { Header::new() }; 1], [Class::new(8, 1)]).unwrap();
    let kept = pool.get(8).unwrap().keep();
    let owner = pool.upgrade(kept).unwrap();
    assert_eq!((pool.release(kept), pool.is_valid(kept)), (Ok(false), true), "the other one is left");
    assert_eq!(pool.release(kept), Ok(true), "once too often");
    drop(owner);
    assert_eq!((pool.release(kept), pool.statistics().live), (Err(Stale), 0));
    let next = pool.get(8).unwrap();
    assert_eq!(pool.release(kept), Err(Stale), "the place is another object's");
    assert!(pool.is_valid(next.weak()) && pool.get(8).is_err(), "freed once");
    for made_up in [Weak { index: 1, generation: 1 }, Weak { index: u32::MAX, generation: u32::MAX }] {
        assert_eq!(pool.release(made_up), Err(Stale));
    }
}

#[test]
fn only_free_slots_are_trimmed() {
    let headers = [const { Header::new() }; 3];
    let mut classes = [Class::new(8, 3)];
    let mut pool = Pool::new(&headers, &mut classes).unwrap();
    let _kept = core::mem::ManuallyDrop::new(pool.get(8).unwrap());
    let mut given = std::vec::Vec::new();
    assert_eq!(pool.trim(|offset, len| given.push((offset, len))), 16);
    assert_eq!(given, [(8, 8), (16, 8)]);
}

#[test]
fn lent_memory_is_checked() {
    let headers = [const { Header::new() }; 2];
    let error = PoolError::TooFewHeaders { need: 3, have: 2 };
    assert_eq!(Pool::new(&headers, &mut [Class::new(8, 3)]).unwrap_err(), error);
    let error = Pool::new(&headers, &mut [Class::new(8, 1), Class::new(8, 1)]).unwrap_err();
    assert_eq!(error, PoolError::Unsorted { class: 1 });
}
