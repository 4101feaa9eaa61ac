//! Chained calls on a host.

mod storage;

pub use storage::{Capacities, Heap};
