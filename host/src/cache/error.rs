//! Why a thread got no slot, no content, or no cache.

use std::time::Duration;

use umbra_core::cache::waiting::{ContentError, Scene, WaitError};
use umbra_core::cache::{self, Interrupted};

use crate::sys::heap::NoMemory;

/// Why no slot was given.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AllocError {
    /// The cache was interrupted, before the call or while it waited.
    #[error("{}", Interrupted)]
    Interrupted,
    /// The deadline passed while it stood in line.
    #[error("no slot for data {} within {within:?}; {scene}: free some, or wait longer", .scene.data)]
    Expired {
        /// How long it waited.
        within: Duration,
        /// Who holds the slots.
        scene: Box<Scene>,
    },
    /// Waiting would not help.
    #[error("{0}")]
    Refused(WaitError),
}

impl From<WaitError> for AllocError {
    fn from(error: WaitError) -> Self {
        match error {
            WaitError::Refused(cache::AllocError::Interrupted) => AllocError::Interrupted,
            error => AllocError::Refused(error),
        }
    }
}

/// Why content was not waited for any longer.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FilledError {
    /// The cache was interrupted, before the call or while it waited.
    #[error("{}", Interrupted)]
    Interrupted,
    /// The deadline passed and the slot was not filled.
    #[error("no content of data {} within {within:?}; {scene}: ask who found its slot empty, or wait longer", .scene.data)]
    Expired {
        /// How long it waited.
        within: Duration,
        /// What the slot is doing.
        scene: Box<Scene>,
    },
    /// It will not come.
    #[error("{0}")]
    Refused(ContentError),
}

impl From<ContentError> for FilledError {
    fn from(error: ContentError) -> Self {
        match error {
            ContentError::Interrupted => FilledError::Interrupted,
            error => FilledError::Refused(error),
        }
    }
}

/// Why no cache was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The range and the index do not go together.
    #[error("{0}")]
    Slots(#[from] cache::BuildError),
    /// No memory for the records.
    #[error("no memory for {bytes} bytes of records: take fewer slots or waiters")]
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
