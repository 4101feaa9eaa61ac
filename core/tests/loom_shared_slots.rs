//! All interleavings of a few operations on shared slots, by loom.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p umbra-core --release --test loom_shared_slots`.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]
#![cfg(loom)]

mod interleavings;

use interleavings::check;
use loom::cell::Cell;
use loom::sync::Arc;
use loom::thread;
use umbra_core::atomic::AtomicU64;
use umbra_core::id::Id;
use umbra_core::shared_slots::{Held, Owner, SharedSlots, words_for};

/// A table, and beside each slot the memory that its holder has to itself; loom reports any overlap.
struct Table {
    words: Vec<AtomicU64>,
    used: Vec<Cell<u32>>,
}

impl Table {
    fn new(count: usize) -> Arc<Table> {
        let words: Vec<_> = (0..words_for(count).unwrap()).map(|_| AtomicU64::new(0)).collect();
        SharedSlots::create(&words, count).unwrap();
        Arc::new(Table { words, used: (0..count).map(|_| Cell::new(0)).collect() })
    }
    fn slots(&self) -> SharedSlots<'_> {
        SharedSlots::attach(&self.words).unwrap()
    }
    fn write(&self, id: Id<Held>) {
        self.used[id.index() as usize].set(7);
    }
    fn read(&self, id: Id<Held>) -> u32 {
        self.used[id.index() as usize].get()
    }
}

fn owner(number: u8) -> Owner {
    Owner::new(number).unwrap()
}

#[test]
fn a72_no_slot_has_two_takers_and_none_is_lost() {
    check(3, || {
        let table = Table::new(2);
        let threads = [0, 1].map(|n| {
            let table = table.clone();
            thread::spawn(move || {
                let slots = table.slots();
                for _ in 0..2 {
                    let id = slots.take(owner(n)).unwrap();
                    table.write(id);
                    assert_eq!(slots.release(id, owner(n)), Ok(true));
                }
            })
        });
        for thread in threads {
            thread.join().unwrap();
        }
        assert!(table.slots().take(owner(0)).is_ok() && table.slots().take(owner(0)).is_ok(), "hints are whole");
    });
}

#[test]
fn one_slot_among_three_has_one_holder_at_a_time() {
    check(2, || {
        let table = Table::new(1);
        let work = |table: &Table, n: u8| {
            if let Ok(id) = table.slots().take(owner(n)) {
                table.write(id);
                assert_eq!(table.slots().release(id, owner(n)), Ok(true));
            }
        };
        let threads = [0, 1].map(|n| {
            let table = table.clone();
            thread::spawn(move || work(&table, n))
        });
        work(&table, 2);
        for thread in threads {
            thread.join().unwrap();
        }
        assert!(table.slots().take(owner(0)).is_ok(), "the hint is there again");
    });
}

#[test]
fn the_last_holder_frees_and_the_next_taker_comes_after_all_of_them() {
    check(3, || {
        let table = Table::new(1);
        let id = table.slots().take(owner(0)).unwrap();
        table.write(id);
        table.slots().retain(id, owner(1)).unwrap();
        let second = {
            let table = table.clone();
            thread::spawn(move || {
                table.read(id);
                table.slots().release(id, owner(1)).unwrap()
            })
        };
        let third = {
            let table = table.clone();
            thread::spawn(move || table.slots().take(owner(2)).map(|id| table.write(id)).is_ok())
        };
        table.read(id);
        let first = table.slots().release(id, owner(0)).unwrap();
        let second = second.join().unwrap();
        assert!(first != second, "exactly one was the last");
        let taken = third.join().unwrap();
        assert_eq!(table.slots().free(), usize::from(!taken));
        assert!(table.slots().retain(id, owner(0)).is_err());
    });
}

#[test]
fn reclaim_beside_takers_frees_what_the_dead_one_held_and_nothing_else() {
    check(3, || {
        let table = Table::new(2);
        let dead = table.slots().take(owner(0)).unwrap();
        table.write(dead);
        let taker = {
            let table = table.clone();
            thread::spawn(move || {
                let taken: Vec<_> = (0..2).filter_map(|_| table.slots().take(owner(1)).ok()).collect();
                taken.iter().for_each(|&id| table.write(id));
                taken.len()
            })
        };
        let reaper = {
            let table = table.clone();
            thread::spawn(move || table.slots().reclaim(owner(0)))
        };
        let freed = table.slots().reclaim(owner(0)) + reaper.join().unwrap();
        assert_eq!(freed, 1, "both reapers together free it once");
        let taken = taker.join().unwrap();
        assert_eq!((table.slots().held_by(owner(0)), table.slots().held_by(owner(1))), (0, taken));
        let rest = (0..).take_while(|_| table.slots().take(owner(2)).is_ok()).count();
        assert_eq!(taken + rest, 2);
    });
}
