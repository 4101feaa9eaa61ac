//! All interleavings of a few operations on a pool of objects, by loom.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p umbra-core --release --test loom_boundary_pool`.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]
#![cfg(loom)]

mod interleavings;

use interleavings::check;
use loom::cell::Cell;
use loom::sync::{Arc, RwLock};
use loom::thread;
use umbra_core::boundary::{Class, Header, Pool, Weak};

/// Beside each slot lies what its owner has to himself.
struct Table {
    pool: Pool<Vec<Header>, [Class; 1]>,
    used: Vec<Cell<u32>>,
}

impl Table {
    fn new(slots: usize) -> Arc<Table> {
        let headers: Vec<Header> = (0..slots).map(|_| Header::new()).collect();
        let pool = Pool::new(headers, [Class::new(8, slots as u32)]).unwrap();
        Arc::new(Table { pool, used: (0..slots).map(|_| Cell::new(0)).collect() })
    }
}

#[test]
fn s15_no_object_has_two_first_owners_and_none_is_lost() {
    check(2, || {
        let table = Table::new(2);
        let threads = [1, 2].map(|n| {
            let table = table.clone();
            thread::spawn(move || {
                for _ in 0..2 {
                    let owner = table.pool.get(8).unwrap();
                    table.used[owner.weak().index as usize].set(n);
                }
            })
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let both = [table.pool.get(8).unwrap(), table.pool.get(8).unwrap()];
        assert_ne!(both[0].weak().index, both[1].weak().index);
        assert_eq!(table.pool.statistics().live, 2);
    });
}

#[test]
fn s15_an_upgrade_gets_the_object_or_nothing_while_its_last_owner_leaves() {
    check(3, || {
        let table = Table::new(1);
        let owner = table.pool.get(8).unwrap();
        let weak = owner.weak();
        table.used[0].set(7);
        let upgrader = {
            let table = table.clone();
            thread::spawn(move || {
                if let Ok(_owner) = table.pool.upgrade(weak) {
                    assert!(table.pool.is_valid(weak));
                    assert_eq!(table.used[0].get(), 7);
                }
            })
        };
        let taker = {
            let table = table.clone();
            thread::spawn(move || {
                if let Ok(owner) = table.pool.get(8) {
                    // Its object is another one, although it lies at the same place.
                    assert!(owner.weak().generation > weak.generation && !table.pool.is_valid(weak));
                    table.used[0].set(9);
                }
            })
        };
        drop(owner);
        upgrader.join().unwrap();
        taker.join().unwrap();
        assert!(!table.pool.is_valid(weak));
        assert_eq!(table.pool.statistics().live, 0);
        let last = table.pool.get(8).unwrap();
        assert!(table.pool.get(8).is_err(), "freed once, not twice");
        let copied = Weak { ..last.weak() };
        assert!(table.pool.is_valid(copied));
    });
}

#[test]
fn s15_a_clone_is_an_owner_of_its_own_while_others_upgrade_drop_and_get() {
    check(3, || {
        let table = Table::new(1);
        let owner = table.pool.get(8).unwrap();
        let weak = owner.weak();
        table.used[0].set(7);
        let kept = owner.share().unwrap().keep();
        let sharer = {
            let table = table.clone();
            thread::spawn(move || {
                let first = table.pool.upgrade(kept).unwrap();
                let second = first.share().unwrap();
                assert_eq!(table.pool.release(kept), Ok(false), "two are left");
                drop(first);
                assert_eq!(table.used[0].get(), 7);
                assert!(table.pool.is_valid(second.weak()));
            })
        };
        let upgrader = {
            let table = table.clone();
            thread::spawn(move || {
                let Ok(first) = table.pool.upgrade(weak) else { return };
                let second = first.share().unwrap();
                drop(first);
                assert_eq!(table.used[0].get(), 7);
                drop(second);
            })
        };
        drop(owner);
        if let Ok(next) = table.pool.get(8) {
            assert!(next.weak().generation > weak.generation && !table.pool.is_valid(weak));
            table.used[0].set(9);
        }
        sharer.join().unwrap();
        upgrader.join().unwrap();
        assert!(!table.pool.is_valid(weak) && table.pool.upgrade(weak).is_err());
        assert_eq!(table.pool.statistics().live, 0);
        let _last = table.pool.get(8).unwrap();
        assert!(table.pool.get(8).is_err(), "freed once, not twice");
    });
}

/// Whoever resets a pool has it alone; what it may not rely on is that nobody has kept a handle, or an owner as plain data.
#[test]
fn s16_no_handle_from_before_a_reset_names_anything_whenever_that_comes() {
    check(3, || {
        let table = Arc::new((RwLock::new(Pool::new([Header::new()], [Class::new(8, 1)]).unwrap()), Cell::new(0)));
        let kept = table.0.read().unwrap().get(8).unwrap().keep();
        table.1.set(7);
        let owner = {
            let table = table.clone();
            thread::spawn(move || {
                let pool = table.0.read().unwrap();
                if let Ok(also) = pool.upgrade(kept) {
                    assert_eq!(table.1.get(), 7, "nobody else has the object");
                    drop(also);
                }
                // The object is another's after a reset, which this takes nothing from.
                pool.release(kept).is_ok()
            })
        };
        let taker = {
            let table = table.clone();
            thread::spawn(move || {
                let pool = table.0.read().unwrap();
                pool.get(8).is_ok_and(|next| {
                    assert!(next.weak().generation > kept.generation && !pool.is_valid(kept));
                    table.1.set(9);
                    pool.is_valid(next.weak())
                })
            })
        };
        table.0.write().unwrap().reset();
        let was_released = owner.join().unwrap();
        let was_taken = taker.join().unwrap();
        let pool = table.0.read().unwrap();
        assert!(!pool.is_valid(kept) && pool.upgrade(kept).is_err() && pool.release(kept).is_err());
        assert_eq!((pool.statistics().live, pool.statistics().free), (0, 1));
        let last = pool.get(8).unwrap();
        let uses = 1 + u32::from(was_released) + u32::from(was_taken);
        assert_eq!(last.weak().generation, kept.generation + uses, "the reset is one, too");
        assert!(pool.get(8).is_err(), "its place is there once");
    });
}
