//! The table that says who may touch which bytes.
//!
//! A [`Key`](crate::key::Key) only names a region. Whether a key still means something, which bytes it covers, what may be
//! done with them and by whom is written here: in the owner's table, and in a copy of the entry at each of
//! the owner's shadow service processes, which serve reads for it. Every access begins with
//! [`Regions::hold`], which checks generation, right, bounds and access list, and ends with
//! [`Regions::release`].
//!
//! Revocation has two phases. [`Regions::revoke`] refuses new holds at once; when the last hold is
//! released the revocation is acknowledged, and only then may the owner reuse the memory. A forced
//! revocation does not wait. The death of an owner revokes everything it exported.
//!
//! ```
//! use umbra_core::endpoints::Shadows;
//! use umbra_core::key::{Access, Span};
//! use umbra_core::peer::{Incarnation, Peer, Sp, WorldRank};
//! use umbra_core::region::{HoldError, Regions, Secret};
//! let rank = Peer::rank(WorldRank(3)).ok_or("rank too large")?;
//! let mut regions = Regions::new([const { umbra_core::region::Entry::VACANT }; 16]);
//! let shadows = Shadows::from_slice(&[Sp(0)])?;
//! let key = regions.export(rank, Incarnation(9), 0x1000, 64, Access::READ, shadows, Secret([7; 32]))?.key;
//!
//! let held = regions.hold(Span { key, offset: 60, len: 4 }, Access::READ, Sp(0))?;
//! assert_eq!(held.address(), 0x1000 + 60);
//! assert_eq!(regions.hold(Span { key, offset: 60, len: 5 }, Access::READ, Sp(0)), Err(HoldError::OutOfBounds));
//!
//! assert_eq!(regions.revoke(key)?.in_flight, 1);
//! assert_eq!(regions.release(held), Some(key), "the last release acknowledges the revocation");
//! assert_eq!(regions.hold(Span { key, offset: 0, len: 1 }, Access::READ, Sp(0)), Err(HoldError::KeyRevoked));
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! Invariants: an entry never moves while it is live; of one (owner, region number) at most one generation
//! is in the table; holds of a generation are counted until released or the revocation is forced.
//!
//! *Cost*: a look-up compares at most [`REACH`] entries, one in a table that holds only its own exports;
//! [`Regions::find`] walks the table. A table that several owners fill should be twice as large as it
//! needs, else an entry may find its reach full before the table is.

mod entry;
mod refusal;
mod revoke;
mod table;

pub use entry::{Entry, Held, Region, Secret};
pub use refusal::{AdmitError, ExportError, HoldError, ImportError, RevokeError};
pub use revoke::{Reaped, Revocation};
pub use table::{REACH, Regions};
