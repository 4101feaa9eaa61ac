//! Boundary exchanges allocate nothing once all fields are in place (scenario 44).
//!
//! Allocations of all threads are counted, the agent's too. So there is no harness, whose own thread may allocate at any
//! time.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::alloc::System;
use std::sync::Arc;
use std::thread;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use umbra::boundary::{
    Agent, Attended, Boundary, Extent, Fabric, Field, Fields as _, Mesh as _, Scope, Settings, Store, Transport, Tree,
    largest_message,
};
use umbra_core::atomic::{AtomicU32, Ordering};
use umbra_core::boundary::{Shape, Sparse};
use umbra_tests::meeting::Meeting;

#[global_allocator]
static COUNTED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const RANKS: u32 = 3;
const FIELDS: u16 = 8;
/// Exchanges whose allocations are counted together. In the first ones fields become present, and messages reach their size;
/// the others are more than 8192, after which the ways to write are tried again.
const WINDOWS: [u32; 4] = [1000, 1000, 4000, 4000];

/// What a field holds on a block in an exchange: often nothing, so that messages grow, shrink and overflow.
fn holds(turn: u32, block: u32, field: u16) -> bool {
    let burst = (turn / 16).is_multiple_of(3);
    burst || (turn + block + u32::from(field)).is_multiple_of(5)
}

/// Within a level, and between two, alone and with an agent.
fn main() {
    for refined in [false, true] {
        let shape = Shape::new([4, 4, 1], [2, 2, 0]).unwrap();
        let mesh = Tree::new(shape, [4, 2, 1], [true; 3], RANKS, 1, |_, at| refined && at[0] == 1);
        let fields = [Field::sparse(Sparse::new(1e-3, 1e-4, 0.0).unwrap()); FIELDS as usize];
        let extent = Extent { ranks: RANKS, slots: 2, message: largest_message(&mesh, &fields, RANKS) };
        alone(&mesh, &fields, extent);
        with_an_agent(&mesh, &fields, extent);
    }
}

fn alone(mesh: &Tree, fields: &[Field], extent: Extent) {
    let segment = Arc::new(Fabric::segment(extent).unwrap());
    let allocated = allocated(mesh, fields, |rank| Fabric::attach(segment.clone(), extent, rank).unwrap());
    assert!(allocated.iter().all(|(_, found)| *found == 0), "there is no agent");
    nothing("alone", &allocated);
}

fn with_an_agent(mesh: &Tree, fields: &[Field], extent: Extent) {
    let segment = Arc::new(Agent::segment(extent).unwrap());
    let mut agent = Agent::attach(segment.clone(), extent).unwrap();
    // It has all ranks before they begin.
    agent.look().unwrap();
    let is_over = AtomicU32::new(0);
    let allocated = thread::scope(|scope| {
        let agent = scope.spawn(|| agent.attend(|| is_over.load(Ordering::Relaxed) == 0));
        let end = |rank| Attended::attach(segment.clone(), extent, rank).unwrap();
        let allocated = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| allocated(mesh, fields, end)));
        is_over.store(1, Ordering::Relaxed);
        agent.join().unwrap().unwrap();
        allocated.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    let least = u64::from(WINDOWS.iter().sum::<u32>());
    assert!(allocated.iter().all(|(_, found)| *found >= least), "the agent has found the messages: {allocated:?}");
    nothing("with an agent", &allocated);
}

/// The first exchanges have made the fields present, and the others nothing.
fn nothing(name: &str, allocated: &[([usize; WINDOWS.len()], u64)]) {
    for (windows, _) in allocated {
        assert!(windows[0] > 0, "{name}: allocations are counted");
        assert_eq!(
            windows[1..],
            [0; WINDOWS.len() - 1],
            "{name}: allocations of all threads, after the first exchanges"
        );
    }
}

/// For each rank the allocations of all threads in each window, and what an agent has found for it.
fn allocated<T: Transport>(
    mesh: &Tree,
    fields: &[Field],
    end: impl Fn(u32) -> T + Sync,
) -> Vec<([usize; WINDOWS.len()], u64)> {
    let together = &Meeting::of(0..RANKS);
    let rank = |rank: u32| {
        let settings = Settings { smallest_slot: 256, ..Settings::default() };
        let mut boundary = Boundary::build(mesh, fields, end(rank), settings).unwrap();
        let mut store = Store::new(mesh.blocks(), mesh.shape().len(), fields, 1);
        let mut turn = 0;
        let windows = WINDOWS.map(|exchanges| {
            together.wait(rank);
            let region = Region::new(COUNTED);
            // Nobody allocates before all count.
            together.wait(rank);
            for _ in 0..exchanges {
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
            together.wait(rank);
            let change = region.change();
            // Nobody ends before all have counted.
            together.wait(rank);
            change.allocations + change.reallocations
        });
        assert!(boundary.counts().overflows > 0, "bursts do not fit into the slots");
        (windows, boundary.attended())
    };
    thread::scope(|scope| {
        let rank = &rank;
        let ranks: Vec<_> = (0..RANKS).map(|number| scope.spawn(move || rank(number))).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}
