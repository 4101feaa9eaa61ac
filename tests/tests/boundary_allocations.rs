//! Boundary exchanges allocate nothing once all fields are in place (scenario 44).
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::alloc::System;
use std::sync::{Arc, Barrier};
use std::thread;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use umbra::boundary::{
    Boundary, Extent, Fabric, Field, Fields as _, Mesh as _, Scope, Settings, Store, Tree, largest_message,
};
use umbra_core::boundary::{Shape, Sparse};

#[global_allocator]
static COUNTED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const RANKS: u32 = 3;
const FIELDS: u16 = 8;

/// What a field holds on a block in an exchange: often nothing, so that messages grow, shrink and overflow.
fn holds(turn: u32, block: u32, field: u16) -> bool {
    let burst = (turn / 16).is_multiple_of(3);
    burst || (turn + block + u32::from(field)).is_multiple_of(5)
}

/// Within a level, and between two; one after the other, as allocations of all threads are counted.
#[test]
fn s44_a_thousand_exchanges_of_three_ranks_make_no_allocation() {
    for refined in [false, true] {
        let shape = Shape::new([4, 4, 1], [2, 2, 0]).unwrap();
        thousand(&Tree::new(shape, [4, 2, 1], [true; 3], RANKS, 1, |_, at| refined && at[0] == 1));
    }
}

fn thousand(mesh: &Tree) {
    let fields = [Field::sparse(Sparse::new(1e-3, 1e-4, 0.0).unwrap()); FIELDS as usize];
    let extent = Extent { ranks: RANKS, slots: 2, message: largest_message(mesh, &fields, RANKS) };
    let segment = Arc::new(Fabric::segment(extent).unwrap());
    let (fields, segment, together) = (&fields, &segment, &Barrier::new(RANKS as usize));
    let rank = |rank: u32| {
        let fabric = Fabric::attach(segment.clone(), extent, rank).unwrap();
        let settings = Settings { smallest_slot: 256, ..Settings::default() };
        let mut boundary = Boundary::build(mesh, fields, fabric, settings).unwrap();
        let mut store = Store::new(mesh.blocks(), mesh.shape().len(), fields, 1);
        let mut turn = 0;
        // The first attempt makes the fields present. The harness has a thread of its own, which may allocate at any time.
        let attempts = [0; 5].map(|_| {
            together.wait();
            let region = Region::new(COUNTED);
            for _ in 0..1000 {
                turn += 1;
                for block in mesh.owned_by(rank) {
                    for field in 0..FIELDS {
                        store.allocate(block, field).unwrap();
                        let value = if holds(turn, block, field) { f64::from(turn) } else { 0.0 };
                        store.stage(0).values_mut(block, field).unwrap().fill(value);
                    }
                }
                if turn.is_multiple_of(2) {
                    boundary.exchange(&mut store.stage(0)).unwrap();
                    continue;
                }
                for scope in [Scope::Local, Scope::Nonlocal] {
                    while boundary.send(&store.stage(0), scope).unwrap().is_pending() {
                        let _ = boundary.receive(&mut store.stage(0), scope).unwrap();
                        thread::yield_now();
                    }
                    boundary.wait(&mut store.stage(0), scope).unwrap();
                    boundary.set(&mut store.stage(0), scope).unwrap();
                }
            }
            together.wait();
            let change = region.change();
            change.allocations + change.reallocations
        });
        assert!(boundary.counts().overflows > 0, "bursts do not fit into the slots");
        attempts.into_iter().min()
    };
    let least: Vec<_> = thread::scope(|scope| {
        let rank = &rank;
        let ranks: Vec<_> = (0..RANKS).map(|number| scope.spawn(move || rank(number))).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    });
    assert_eq!(least, [Some(0); RANKS as usize]);
}
