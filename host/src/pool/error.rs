//! Why something is not done with a pool.

use std::path::PathBuf;

use rustix::io::Errno;
use umbra_core::heap::{self, PlanError};

use crate::sys::process::{ProcessError, ProcessId};
use crate::sys::segment::SegmentError;

/// Why something was not done; nothing has changed then.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A name has 1 to 29 bytes, without `/` and without zero.
    #[error("{0:?} is no name of a pool: 1 to {most} bytes without a slash", most = super::NAME_MAX)]
    BadName(String),
    /// Sizes that do not go together.
    #[error("no such pool can be made: {0}")]
    Plan(#[from] PlanError),
    /// A file of the pool: there is one already, there is none, there is no room for it, or it is not ours.
    #[error("{path}: {errno}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        errno: Errno,
    },
    /// A file cannot be mapped.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// The memory is no pool, or one that is not made yet.
    #[error(transparent)]
    NotAPool(#[from] heap::AttachError),
    /// Who uses the pool cannot be told from here.
    #[error("the pool belongs to another space of process numbers: processes of one container share a pool")]
    OtherNamespace,
    /// A process cannot be looked at.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// As many threads use the pool as it was made for; that one leaves or is reclaimed makes a retry worth while.
    #[error("{members} members use the pool, as many as it was made for")]
    Members {
        /// How many.
        members: u16,
    },
    /// There is no such block, now or ever.
    #[error(transparent)]
    Alloc(#[from] heap::AllocError),
    /// The time is over in which the block was wanted.
    #[error("no {len} bytes became free in time: free some, or wait longer")]
    Timeout {
        /// Bytes wanted.
        len: u64,
    },
    /// The allocation was freed, or never was.
    #[error("no such allocation: it was freed")]
    Stale,
    /// The range does not lie inside of the allocation.
    #[error("{len} bytes at {offset} do not lie inside an allocation of {size}")]
    OutOfBounds {
        /// Where the range begins.
        offset: u64,
        /// Bytes of it.
        len: u64,
        /// Bytes of the allocation.
        size: u64,
    },
    /// The pool was destroyed.
    #[error("the pool was destroyed")]
    Destroyed,
    /// Only what a dead process held is freed without its consent.
    #[error("process {} lives, and may use its allocations: end it first", .0.pid)]
    Lives(ProcessId),
    /// Somebody wrote over the pool's words.
    #[error("the pool is damaged: make a new one")]
    Damaged,
}
