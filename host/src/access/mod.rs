//! Reaching the memory of other processes.
//!
//! - [`device`]: the ways to memory on this machine, for [`Queues`](umbra_core::access::queues::Queues).
//! - [`source`]: what a service process keeps of a rank's memory: a mapping, or the way to ask the kernel.
//! - [`rdma`]: the way to memory of any machine that an RDMA device reaches, likewise.
//! - [`exposure`]: the other end of that: what an owner keeps while others may reach its memory.
//! - [`mapped`]: reading a mapped region directly, behind a key check and nothing else.

pub mod device;
pub mod exposure;
pub(crate) mod landing;
mod line;
pub mod mapped;
pub mod rdma;
pub mod source;
