//! Reaching the memory of other processes on this machine.
//!
//! - [`device`]: the ways to memory on this machine, for [`Queues`](umbra_core::access::queues::Queues).
//! - [`source`]: what a service process keeps of a rank's memory: a mapping, or the way to ask the kernel.
//! - [`mapped`]: reading a mapped region directly, behind a key check and nothing else.

pub mod device;
pub mod mapped;
pub mod source;
