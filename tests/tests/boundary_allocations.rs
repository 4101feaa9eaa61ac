//! Boundary exchanges allocate nothing once all fields are in place (scenario 44).
//!
//! Allocations of all threads are counted, the agent's too. So there is no harness, whose own thread may allocate at any
//! time.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::alloc::System;
use std::sync::Arc;
use std::thread;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use umbra::boundary::{Agent, Attended, Fabric};
use umbra_core::atomic::{AtomicU32, Ordering};
use umbra_tests::nodes::Memory;
use umbra_tests::steady::Steady;

#[global_allocator]
static COUNTED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Exchanges whose allocations are counted together. In the first ones fields become present, and messages reach their size;
/// the others are more than 8192, after which the ways to write are tried again.
const WINDOWS: [u32; 4] = [1000, 1000, 4000, 4000];

fn allocations() -> usize {
    let counted = COUNTED.stats();
    counted.allocations + counted.reallocations
}

/// Within a level, and between two, alone, with an agent, and on two nodes.
fn main() {
    for steady in [false, true].map(Steady::new) {
        alone(&steady);
        with_an_agent(&steady);
        on_nodes(&steady);
    }
}

fn on_nodes(steady: &Steady) {
    let memory = Memory::dealt(steady.extent(), 2);
    nothing("on nodes", &steady.run(WINDOWS, allocations, |rank| memory.end(rank)));
}

fn alone(steady: &Steady) {
    let extent = steady.extent();
    let segment = Arc::new(Fabric::segment(extent).unwrap());
    let end = |rank| Fabric::attach(segment.clone(), extent, rank).unwrap();
    let allocated = steady.run(WINDOWS, allocations, end);
    assert!(allocated.iter().all(|(_, found)| *found == 0), "there is no agent");
    nothing("alone", &allocated);
}

fn with_an_agent(steady: &Steady) {
    let extent = steady.extent();
    let segment = Arc::new(Agent::segment(extent).unwrap());
    let mut agent = Agent::attach(segment.clone(), extent).unwrap();
    // It has all ranks before they begin.
    agent.look().unwrap();
    let is_over = AtomicU32::new(0);
    let allocated = thread::scope(|scope| {
        let agent = scope.spawn(|| agent.attend(|| is_over.load(Ordering::Relaxed) == 0));
        let end = |rank| Attended::attach(segment.clone(), extent, rank).unwrap();
        let run = std::panic::AssertUnwindSafe(|| steady.run(WINDOWS, allocations, end));
        let allocated = std::panic::catch_unwind(run);
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
