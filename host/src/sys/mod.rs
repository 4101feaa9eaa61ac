//! The operating system, each service once, and all unsafe code of this package.
//!
//! - [`clock`]: the monotonic time.
//! - [`fork`]: whether this process was forked off from the one that made a handle.
//! - [`futex`]: sleeping on a word in shared memory.
//! - [`segment`]: shared memory as a sealed memfd and its mapping.
//! - [`shared_heap`]: a heap in a segment.
//! - [`mapped_cache`]: a slot cache in a segment.
//! - [`heap`]: memory of a length that somebody else chose.
//! - [`host`]: which boot of which machine this is.
//! - [`large_pages`]: pages of 2 MiB for tables that are touched at random.
//! - [`lane`]: two rings of lines in one segment.
//! - [`peer_memory`]: reading and writing another process's memory by `process_vm_readv`.
//! - [`process`]: who a process is (pid and start time), and whether it still lives.
//! - [`slices`]: how long the scheduler lets a thread run in one piece.
//! - [`wait`]: spin, then yield, then sleep until a doorbell rings.

mod boottime;
pub mod clock;
pub mod fork;
pub mod futex;
pub mod heap;
pub mod host;
pub mod lane;
pub mod large_pages;
pub mod mapped_cache;
pub mod peer_memory;
pub mod process;
pub mod segment;
pub mod shared_heap;
pub(crate) mod signals;
pub mod slices;
pub mod wait;
