//! Why an agent ends before it is asked to.

use std::io;
use std::path::PathBuf;

use umbra_core::peer::Sp;
use umbra_core::placement::PlacementError;

use super::machines::MachinesError;

/// Why an agent ended before it was asked to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProcessError {
    /// The system refused something that the agent cannot do without.
    #[error("cannot {what}: {error}")]
    Io {
        /// What was wanted.
        what: &'static str,
        /// What the system said.
        error: io::Error,
    },
    /// An address of the configuration cannot be listened at.
    #[error("cannot bind {address}: {error}; end who has it (does this agent run already?), or name another one")]
    Bind {
        /// Where.
        address: String,
        /// What the system said.
        error: io::Error,
    },
    /// There can be no socket in the directory for them.
    #[error(
        "cannot listen at {}: {error}; --sockets takes a directory that exists, where this user may make files, with a short path", path.display()
    )]
    Socket {
        /// Which one.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// There is no memory for copies of other ranks' regions, or for the tables of what is where.
    #[error("no memory for {bytes} bytes of copies and their tables: give fewer with --stage")]
    Copies {
        /// Bytes of the copies.
        bytes: usize,
    },
    /// Shared memory could not be had.
    #[error("cannot make shared memory: {0}")]
    Segment(#[from] umbra::sys::segment::SegmentError),
    /// A doorbell could not be had.
    #[error(transparent)]
    Bell(#[from] umbra::sys::wait::WaitError),
    /// Rings in shared memory could not be had.
    #[error(transparent)]
    Lane(#[from] umbra::sys::lane::LaneError),
    /// The members of chained calls have no place to meet.
    #[error(transparent)]
    Calls(#[from] super::calls::CallsError),
    /// The job's numbers do not describe a job.
    #[error(transparent)]
    Machines(#[from] MachinesError),
    /// The others took this process for dead and have gone on without it.
    #[error(
        "the other service processes took service process {0} for dead (it was stopped, or cut off, for too long): \
         start it again, then it joins in a new life"
    )]
    Fenced(Sp),
}

impl ProcessError {
    /// Whether an option is invalid for this job, and not the job.
    #[must_use]
    pub const fn is_usage(&self) -> bool {
        matches!(self, ProcessError::Machines(MachinesError::Placement(PlacementError::BadShadows(_))))
    }
}

pub(super) fn cannot_bind(address: impl ToString) -> impl FnOnce(io::Error) -> ProcessError {
    move |error| ProcessError::Bind { address: address.to_string(), error }
}

pub(super) fn cannot(what: &'static str) -> impl FnOnce(io::Error) -> ProcessError {
    move |error| ProcessError::Io { what, error }
}
