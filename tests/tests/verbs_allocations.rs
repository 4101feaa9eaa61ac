//! Boundary exchanges over queue pairs allocate nothing (scenario 44).
//!
//! That is so while their slots keep their sizes, on a real device. Allocations of all threads are counted, so there is
//! no harness, whose own thread may allocate at any time.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::alloc::System;
use std::sync::{Mutex, PoisonError};

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use umbra_tests::steady::Steady;
use umbra_tests::verbs::{device, rings};

#[global_allocator]
static COUNTED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Exchanges whose allocations are counted together. In the first ones fields become present, and memory is registered for what
/// does not fit.
const WINDOWS: [u32; 3] = [100, 200, 200];

fn allocations() -> usize {
    let counted = COUNTED.stats();
    counted.allocations + counted.reallocations
}

/// Slots that hold every message, and such as hold none of them.
fn main() {
    let Some(device) = device() else { return };
    let port = device.active_port(1, None).unwrap();
    for (bytes, overflows) in [(1 << 16, false), (128, true)] {
        let steady = Steady::new(false).with_slots(bytes, overflows);
        let ends = rings(&port, steady.extent()).into_iter().map(|end| Mutex::new(Some(end))).collect::<Vec<_>>();
        let end = |rank: u32| ends[rank as usize].lock().unwrap_or_else(PoisonError::into_inner).take().unwrap();
        for (windows, _) in steady.run(WINDOWS, allocations, end) {
            assert!(windows[0] > 0, "slots of {bytes}: allocations are counted");
            assert_eq!(windows[1..], [0; 2], "slots of {bytes}: allocations of all threads, after the first exchanges");
        }
    }
}
