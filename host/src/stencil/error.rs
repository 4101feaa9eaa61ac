//! Why a run ended before its last point.

use std::error::Error;
use std::io;
use std::time::Duration;

use umbra_core::stencil::{self, GroupError, PreparedError, SubmitError, UsageError};

use super::LoadError;
use crate::quantity::counted;
use crate::sys::heap::NoMemory;

/// What went wrong while points were computed.
pub type ComputeError = Box<dyn Error + Send + Sync>;

/// Why no cache of groups was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Some group could not be served.
    #[error("{0}")]
    Refused(#[from] stencil::BuildError),
    /// The usage map cannot be made.
    #[error(transparent)]
    Usage(#[from] UsageError),
    /// No memory for the records.
    #[error("no memory for {bytes} bytes of records: take fewer slots, inputs, groups or waiters")]
    NoMemory {
        /// Their length.
        bytes: usize,
    },
}

impl From<NoMemory> for BuildError {
    fn from(NoMemory { bytes }: NoMemory) -> Self {
        BuildError::NoMemory { bytes }
    }
}

/// Why a run ended before its last point.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The cache cannot be made with these slots.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// Something that must be at least one is zero.
    #[error("{0} must be at least 1")]
    Zero(&'static str),
    /// The memory holds fewer slots than the cache hands out.
    #[error("the cache may hand out {need} slots, and the memory holds {have}: lend more memory")]
    Memory {
        /// Slots of the cache.
        need: usize,
        /// Slots in the memory.
        have: usize,
    },
    /// Groups of an earlier run that failed are still in the cache, or somebody holds slots of it.
    #[error("a run that ended early left {} in the cache, and others hold {}: take a new cache",
        counted(*groups as u64, "group", "groups"), counted(*slots, "slot", "slots"))]
    InUse {
        /// Groups that have not ended.
        groups: usize,
        /// Slots that are held.
        slots: u32,
    },
    /// The cache does not take a group.
    #[error("group {number}: {error}")]
    Submit {
        /// Its number.
        number: u64,
        /// Why.
        error: SubmitError,
    },
    /// An input could not be loaded.
    #[error("input {data} was not loaded: {error}")]
    Load {
        /// The input.
        data: u64,
        /// Why.
        error: LoadError,
    },
    /// A point could not be computed.
    #[error("point {number} was not computed: {error}")]
    Compute {
        /// The number of its group.
        number: u64,
        /// Why.
        error: ComputeError,
    },
    /// The cache lets more groups have their slots at the same time than the run was told.
    #[error(
        "more groups than {active} have all their slots: tell the run of as many as the cache lets have them (`active`)"
    )]
    Active {
        /// What the run was told, as far as there are groups.
        active: usize,
    },
    /// Nothing happened for too long.
    #[error("nothing happened for {waited:?} with {} and {} under way{}: see what keeps them, or wait longer",
        counted(*loading as u64, "load", "loads"), counted(*computing as u64, "point", "points"),
        .input.map(|data| format!(", among them the load of input {data}")).unwrap_or_default())]
    Late {
        /// How long.
        waited: Duration,
        /// Loads that were not answered.
        loading: usize,
        /// One of them.
        input: Option<u64>,
        /// Points that were not answered.
        computing: usize,
    },
    /// Whoever took the ready points stopped to take them.
    #[error("nobody takes the points that are ready; {done} of {groups} are done")]
    Abandoned {
        /// Points that are done.
        done: u64,
        /// All points.
        groups: u64,
    },
    /// The run was told to stop.
    #[error("interrupted; {done} of {groups} points are done")]
    Stopped {
        /// Points that are done.
        done: u64,
        /// All points.
        groups: u64,
    },
    /// A thread could not be started.
    #[error("a thread could not be started: {0}")]
    Thread(io::Error),
    /// The cache refuses an answer that it asked for: a defect.
    #[error("the cache contradicts itself: {0}")]
    Cache(Box<dyn Error + Send + Sync>),
}

impl From<PreparedError> for RunError {
    fn from(error: PreparedError) -> Self {
        RunError::Cache(error.into())
    }
}

impl From<GroupError> for RunError {
    fn from(error: GroupError) -> Self {
        RunError::Cache(error.into())
    }
}
