//! Why something is not done with a pool.

use std::path::PathBuf;

use rustix::io::Errno;
use umbra_core::heap::{self, AllocError, AttachError, NotReserved, PlanError};

use super::Memory;
use crate::reference;
use crate::sys::process::{ProcessError, ProcessId};
use crate::sys::segment::SegmentError;

/// Why something was not done; nothing has changed then.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A name has 1 to 29 bytes, without `/` and without zero.
    #[error("{0:?} is no name of a pool: 1 to {most} bytes without a slash", most = super::NAME_MAX)]
    BadName(String),
    /// Files have a name, and memory that is no file has none.
    #[error("a pool in files has a name, and one on huge pages or in private memory has none: {0:?}")]
    Unnamed(Memory),
    /// The system has no such pages, or too few of them free.
    #[error("no {len} bytes on huge pages: {reason}; set some aside (vm.nr_hugepages), or use other memory")]
    HugePages {
        /// Bytes wanted.
        len: usize,
        /// What the system says.
        reason: SegmentError,
    },
    /// A pool that this process made, and that lives, has the number already.
    #[error("pool {0} of this process lives: destroy it first, or take another uid")]
    UidTaken(u64),
    /// No random number, by which the pool is told from others.
    #[error("no random number: {0}")]
    Random(Errno),
    /// A reference cannot be used.
    #[error(transparent)]
    Reference(#[from] reference::Error),
    /// The environment variable that was to hold a reference.
    #[error("the environment variable {0} holds no reference: hand it on from whoever made the pool")]
    Variable(String),
    /// This process was forked off while threads that did not come along were at work in the pool.
    #[error("the pool was busy when this process was forked off: attach it anew")]
    Forked,
    /// Sizes that do not go together.
    #[error("no such pool can be made: {0}")]
    Plan(#[from] PlanError),
    /// Blocks that were to be reserved cannot be.
    #[error("no such pool can be made: {0}")]
    NotReserved(NotReserved),
    /// Another pool has the name.
    #[error(
        "a pool {name:?} exists in {folder}: attach to it, choose another name, or end the processes that \
         `umbra pool stat {name} --folder {folder}` lists",
        folder = folder.display()
    )]
    Exists {
        /// The name.
        name: String,
        /// Where it is.
        folder: PathBuf,
    },
    /// No pool has the name: it was never made, or it has ended.
    #[error(
        "there is no pool {name:?} in {folder}: `umbra pool ls --folder {folder}` lists those that are there",
        folder = folder.display()
    )]
    Missing {
        /// The name.
        name: String,
        /// Where it was looked for.
        folder: PathBuf,
    },
    /// A file of the pool: there is no room for it, or it is not ours; or its folder is not there.
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
    NotAPool(AttachError),
    /// Who uses the pool cannot be told from here.
    #[error("the pool belongs to another space of process numbers: processes of one container share a pool")]
    OtherNamespace,
    /// A process cannot be looked at.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// As many threads use the pool as it was made for; that one leaves or is reclaimed makes a retry worth while.
    #[error("as many members use the pool as it was made for, {members}: wait until one leaves")]
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
    /// The allocation is a channel, which others may use.
    #[error("the allocation is a channel: destroy that, and it is freed with its last user")]
    IsChannel,
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

impl From<AttachError> for Error {
    fn from(error: AttachError) -> Self {
        match error {
            AttachError::NotReserved(why) => Error::NotReserved(why),
            error => Error::NotAPool(error),
        }
    }
}

impl Error {
    /// The name of its code in the C interface.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Error::BadName(_)
            | Error::Unnamed(_)
            | Error::UidTaken(_)
            | Error::Plan(_)
            | Error::NotReserved(_)
            | Error::Variable(_)
            | Error::OutOfBounds { .. }
            | Error::Stale
            | Error::NotAPool(_) => "INVALID_ARGUMENT",
            Error::Exists { .. }
            | Error::Missing { .. }
            | Error::File { .. }
            | Error::Segment(_)
            | Error::HugePages { .. } => "MEMORY_ERRNO",
            Error::Alloc(AllocError::NotAvailable { .. }) => "DYNHEAP_REQUESTED_SIZE_NOT_AVAILABLE",
            Error::Alloc(AllocError::TooLarge { .. }) => "DYNHEAP_REQUESTED_SIZE_TOO_LARGE",
            Error::Alloc(AllocError::Damaged) | Error::Damaged => "DYNHEAP_INVALID_HEAP",
            Error::Alloc(AllocError::OutOfEntries) | Error::Members { .. } => "OUT_OF_SPACE",
            Error::Alloc(_) => "INVALID_ARGUMENT",
            Error::Timeout { .. } => "TIMEOUT",
            Error::Destroyed => "OBJECT_DESTROYED",
            Error::Lives(_) | Error::OtherNamespace | Error::Forked | Error::IsChannel => "INVALID_OPERATION",
            Error::Reference(error) => error.code(),
            Error::Random(_) | Error::Process(_) => "FAILURE",
        }
    }
}
