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
//! arena      Endpoints, Reader         many tables, one writer, readers that never wait; handles with generations
//! ```
//!
//! Three lists are easily confused and have three names: the *shadows* of a rank; the *service processes on a host*,
//! which [`Placement`](crate::placement::Placement) knows; and those of a host that are *involved in a group*.

mod affine;
mod arena;
mod arrays;
mod build;
mod checksum;
mod explicit;
mod finish;
mod fit;
mod identity;
mod index;
mod lanes;
mod layout;
mod lookup;
mod members;
mod publish;
mod reader;
mod reciprocal;
mod run;
mod shape;
mod table;
mod text;
mod union;
mod validate;
mod words;

pub use crate::entry::{Entry, MAX_SHADOWS, Shadows};
pub use arena::ArenaError;
pub use build::{BuildError, SetError, TableBuilder};
pub use identity::{Descriptor, DescriptorError, GroupKey, JobKey};
pub use lookup::{Endpoint, LookupError};
pub use members::{Members, Run};
pub use publish::{Endpoints, PublishError};
pub use reader::{Listed, Reader};
pub use run::{EntryRun, RunError};
pub use shape::Shape;
pub use table::{Table, TableError};
pub use text::{Difference, Dump};
pub use union::{Cursor, MergeError};
pub use words::{Live, Words};

/// Marks ids of groups: `Id<Group>` is the handle of a look-up.
#[derive(Clone, Copy, Debug)]
pub enum Group {}
