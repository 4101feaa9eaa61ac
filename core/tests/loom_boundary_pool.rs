//! All interleavings of a few operations on a pool of objects, by loom.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p umbra-core --release --test loom_boundary_pool`.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]
#![cfg(loom)]

mod interleavings;

use interleavings::check;
use loom::cell::Cell;
use loom::sync::Arc;
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
