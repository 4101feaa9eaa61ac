//! RDMA by verbs: devices, registered memory, queue pairs.
//!
//! libibverbs is bound at run time, so that one program starts everywhere and says plainly what is missing
//! ([`VerbsError::NoLibrary`]); with the feature `rdma-sys` types and calls are those of that crate, and libibverbs is
//! linked. Work is posted and completions are polled through the device's own operations, as
//! the inline functions of `infiniband/verbs.h` do: no lock, no allocation, no system call of ours on that path.
//!
//! Each object keeps alive what it was made from, so they may be dropped in any order. Memory that the card may write is
//! registered from [`Segment`](crate::sys::segment::Segment)s, which nobody holds references into; what it writes can
//! therefore surprise nobody. Bytes of the heap can be registered for reading ([`HeapRegion`]).
//!
//! - [`Device`]: what `umbra devices` shows, and what a [`Port`] is chosen from.
//! - [`Choice`]: a device, port and address by name, as a user tells them.
//! - [`Domain`]: what queue pairs and keys belong to.
//! - [`Region`]: registered memory, with its local and its remote key; taken back by [`Registered::close`].
//! - [`Window`]: a key for a part of a region, for one peer, that is taken back by a request.
//! - [`Call`] and [`Listener`]: connecting by the connection manager (librdmacm), where no control link leads to the peer.
//! - [`Verbs`]: frames and spans over queue pairs, the [`Transport`](umbra_core::transport::Transport).
//! - [`SharedReceives`]: buffers that several queue pairs receive into.
//! - [`Queue`]: a reliably connected queue pair with its completion queue: READ, WRITE, WRITE with immediate data, SEND.
//!
//! Source: ibv_*(3), `infiniband/verbs.h` of rdma-core; the InfiniBand Architecture Specification, volume 1, chapters 9
//! to 11, for states and completion statuses.

mod abi;
mod address;
mod chain;
mod choice;
mod completions;
mod device;
#[cfg(feature = "xgvmi")]
mod devx;
mod error;
mod hello;
mod lane;
mod library;
mod manager;
mod memory;
mod numbers;
mod pool;
mod port;
mod queue;
mod shared;
mod status;
mod transport;
mod window;
mod work;

/// Whether the program was linked with libibverbs (feature `rdma-sys`), without which it does not start then.
pub const LINKED: bool = cfg!(feature = "rdma-sys");

pub use address::{ADDRESS_BYTES, Address};
pub use choice::{Choice, NotADevice};
pub use completions::BATCH;
pub use device::{Device, devices};
#[cfg(feature = "xgvmi")]
pub use devx::{Devx, DevxObject};
pub use error::VerbsError;
pub use hello::Hello;
pub use manager::{Call, Connection, Listener, Request};
pub use memory::{Domain, HeapRegion, Region, Registered, StillRegistered, never_taken_back};
pub use port::{Gid, GidKind, Link, Port, PortInfo, PortState};
pub use queue::{Depths, Queue};
pub use shared::SharedReceives;
pub use status::{WorkKind, WorkStatus};
pub use transport::Verbs;
pub use window::Window;
pub(crate) use work::PIECE_MAX;
pub use work::{Completion, Local, Piece, Remote, Work};
