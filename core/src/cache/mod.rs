//! Caches of slots: which slot holds which data, who uses it, and what leaves.
//!
//! A slot is a number; what lies in it (a buffer, a block of a file) is the caller's. Three contracts, one
//! implementation:
//!
//! * [`Stack`]: `alloc` gives data a slot, or a further reference to the one it has; with the last `free` the
//!   slot is empty again.
//! * [`Cache`]: who found the slot empty fills it and says `remember`; then the content outlives its references
//!   until the slot is needed for other data. Which content leaves is the [`policy`]'s choice.
//! * [`Forgetful`]: `forget` empties a slot early, and empty slots are used before content leaves.
//!
//! Nothing here waits: an `alloc` that finds every slot in use answers [`AllocError::Full`], and the caller
//! decides whether to wait for a `free`; [`waiting`] has the line in which clients of one cache wait. [`keyed`] has a table of several caches. After [`SlotCache::interrupt`] every call fails.
//!
//! ```
//! use umbra_core::cache::{Cache, Dense, Found, Slot};
//! use umbra_core::cache::policy::Clock;
//! let mut cache = Cache::new([Slot::EMPTY; 2], Dense::new([0; 100]), Clock::new(), 0..2)?;
//! assert_eq!(cache.alloc(42)?.found, Found::Empty); // Load data 42 into the slot, and then:
//! cache.remember(42)?;
//! cache.free(42)?;
//! assert_eq!(cache.alloc(42)?.found, Found::Remembered);
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! Invariants: a slot belongs to one data id at most and data has one slot at most; content is given up only
//! while nobody has a reference to it; the references of a slot are the `alloc`s not yet freed; a refused
//! operation has changed nothing.
//!
//! *Cost*: every operation is O(1), allocates nothing and touches the index's line and the slot's; a further hit,
//! under any policy but [`NextUse`](policy::NextUse), waits only for the index's. A
//! policy's search takes one step more for each content that was used or is in use. 24 bytes a slot, and the
//! [index](Index).

mod batch;
mod contract;
mod counted;
pub(crate) mod error;
mod fill;
mod forget;
mod grant;
mod index;
pub mod keyed;
pub mod policy;
pub(crate) mod pool;
mod references;
pub(crate) mod slot;
pub mod waiting;

pub use contract::{Cache, Forgetful, Forgetting, Plain, Remembering, Remembers, SlotCache, Stack};
pub use error::{AllocError, BuildError, FillError, ForgetError, FreeError, Interrupted, Partial, ResetError};
pub use fill::GetError;
pub use grant::{Found, Grant, Pin, State, Statistics};
pub use index::{Dense, Glance, Index, Line, OutOfRange, Sparse};
pub use slot::Slot;
