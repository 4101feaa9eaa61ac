//! Reaching the memory of other processes on this machine.
//!
//! - [`source`]: what a service process keeps of a rank's memory: a mapping, or the way to ask the kernel.
//! - [`mapped`]: reading a mapped region directly, behind a key check and nothing else.

pub mod mapped;
pub mod source;
