//! Where inputs come from.

use std::error::Error;
use std::io;
use std::path::PathBuf;
use std::time::Instant;

/// Loads inputs into slots; called by as many threads at the same time as loads may be in flight.
///
/// Any closure of this shape is a source.
pub trait Source: Sync {
    /// Fills the bytes of a slot with an input. It returns at `until` at the latest, unless the system cannot be
    /// stopped; and not before nobody writes to the bytes any more.
    ///
    /// # Errors
    /// [`LoadError`]; it ends the run.
    fn load(&self, data: u64, into: &mut [u8], until: Instant) -> Result<(), LoadError>;

    /// How many inputs it wants to be told of before they are loaded; none unless it says so.
    fn ahead(&self) -> usize {
        0
    }

    /// This input will be loaded soon, unless the run ends. It must not wait.
    fn expect(&self, _data: u64) {}
}

impl<F: Fn(u64, &mut [u8], Instant) -> Result<(), LoadError> + Sync> Source for F {
    fn load(&self, data: u64, into: &mut [u8], until: Instant) -> Result<(), LoadError> {
        self(data, into, until)
    }
}

/// Why an input was not loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A file could not be read.
    #[error("{} at byte {offset}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Where the part begins that could not be read.
        offset: u64,
        /// What the system said.
        error: io::Error,
    },
    /// The input does not fit into a slot, or is none.
    #[error("the input takes {need} bytes, and a slot has {have}")]
    Size {
        /// Bytes of the input.
        need: usize,
        /// Bytes of a slot.
        have: usize,
    },
    /// The slot is in use by somebody else, or the load was given up without a word.
    #[error("the load was given up: the slot is in use, or the source panicked")]
    GivenUp,
    /// A source of another kind failed.
    #[error(transparent)]
    Other(Box<dyn Error + Send + Sync>),
}
