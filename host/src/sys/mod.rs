//! The operating system, each service once; all unsafe code of this package is here.
//!
//! - [`clock`]: the monotonic time.
//! - [`futex`]: sleeping on a word in shared memory.
//! - [`segment`]: shared memory as a sealed memfd and its mapping.
//! - [`shared_heap`]: a heap in a segment.
//! - [`lane`]: two rings of lines in one segment.
//! - [`peer_memory`]: reading and writing another process's memory by `process_vm_readv`.
//! - [`process`]: who a process is (pid and start time), and whether it still lives.
//! - [`wait`]: spin, then yield, then sleep until a doorbell rings.

pub mod clock;
pub mod futex;
pub mod lane;
pub mod peer_memory;
pub mod process;
pub mod segment;
pub mod shared_heap;
pub mod wait;
