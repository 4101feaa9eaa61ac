//! The endpoint cache: from group and rank to process and shadow service processes.
//!
//! A *group* is an ordered list of application processes (an MPI communicator or the like). For each of its ranks
//! the cache knows the process, its host, and its *shadow service processes*: the service processes on that host
//! to which the rank is connected, in order. All answers about one group live in one relocatable *table*: the same
//! bytes are the snapshot on the wire, the dump in a file, and the mapping that all ranks of a host share.
//!
//! ```text
//! identity   Descriptor, GroupKey      which group is meant: canonical bytes, 128-bit key
//! build      TableBuilder              idempotent union of entries, then one canonical table
//! runs       encode, decode            entries as arithmetic runs, for the exchange between service processes
//! table      Table                     validated view of table bytes, every look-up by name
//! ```
//!
//! Three lists are easily confused and have three names: the *shadows* of a rank; the *service processes on a host*,
//! which [`Placement`](crate::placement::Placement) knows; and those of a host that are *involved in a group*.

mod build;
mod identity;
mod layout;
mod members;
mod run;
mod shape;
mod table;
mod union;

pub use crate::entry::{Entry, MAX_SHADOWS, Shadows};
pub use build::{BuildError, SetError, TableBuilder};
pub use identity::{Descriptor, DescriptorError, GroupKey, JobKey};
pub use members::{Members, Run};
pub use run::{EntryRun, RunError};
pub use shape::Shape;
pub use table::TableError;
pub use union::{Cursor, MergeError};

/// Marks ids of groups: `Id<Group>` is the handle of a look-up.
#[derive(Clone, Copy, Debug)]
pub enum Group {}
