//! Why a thread got no room in a memory, or no memory.

use std::fmt::Display;
use std::time::Duration;

use umbra_core::cache::Interrupted;
use umbra_core::cached_memory::LentTooLittle;
use umbra_core::memory::Granule;

use crate::sys::heap::NoMemory;

/// Why a wish was not met: `E` says what waiting does not help against, `S` how things were when the time was over.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unmet<E: Display, S: Display> {
    /// The memory was interrupted, before the call or while it waited.
    #[error("{}", Interrupted)]
    Interrupted,
    /// The deadline passed while it waited.
    #[error("not within {within:?}: {scene}; free some, or wait longer")]
    Expired {
        /// How long it waited.
        within: Duration,
        /// Who holds what.
        scene: Box<S>,
    },
    /// Waiting would not help.
    #[error("{0}")]
    Refused(E),
}

impl<E: Display + From<Interrupted> + PartialEq, S: Display> Unmet<E, S> {
    /// What a wait has ended with: an answer, or what was known without one.
    pub(super) fn unless(within: Duration, ended: Result<Result<(), E>, S>) -> Result<(), Self> {
        match ended {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) if error == Interrupted.into() => Err(Unmet::Interrupted),
            Ok(Err(error)) => Err(Unmet::Refused(error)),
            Err(scene) => Err(Unmet::Expired { within, scene: Box::new(scene) }),
        }
    }
}

/// Why no memory was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MakeError {
    /// Less than one granule, or nothing that could be in it.
    #[error("{capacity} bytes in granules of {granule} for {ranges} ranges: take one granule and one range at least")]
    Nothing {
        /// Bytes to manage.
        capacity: u64,
        /// Bytes of a granule.
        granule: u64,
        /// Ranges at once.
        ranges: u32,
    },
    /// More granules than can be numbered.
    #[error("{capacity} bytes are more than 2^32 - 2 granules of {granule}: take a larger granule")]
    TooLarge {
        /// Bytes to manage.
        capacity: u64,
        /// Bytes of a granule.
        granule: u64,
    },
    /// The index has no room for so many.
    #[error("{0}")]
    Lent(#[from] LentTooLittle),
    /// No memory for the records.
    #[error("no memory for {bytes} bytes of records: take a larger granule, or fewer ranges or waiters")]
    NoMemory {
        /// Their length.
        bytes: usize,
    },
}

impl MakeError {
    /// The granules of a memory in which something fits, and all of which can be given.
    pub(super) fn granules(capacity: u64, granule: Granule, ranges: u32) -> Result<usize, MakeError> {
        let (granules, granule) = (capacity / granule.bytes(), granule.bytes());
        if granules == 0 || ranges == 0 {
            return Err(MakeError::Nothing { capacity, granule, ranges });
        }
        let counted = u32::try_from(granules).ok().filter(|&granules| granules < u32::MAX);
        counted.map(|granules| granules as usize).ok_or(MakeError::TooLarge { capacity, granule })
    }
}

impl From<NoMemory> for MakeError {
    fn from(NoMemory { bytes }: NoMemory) -> Self {
        MakeError::NoMemory { bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_memory_of_which_a_part_could_not_be_given_is_refused() {
        let most = (u64::from(u32::MAX) - 1) * 64;
        let granules = |capacity| MakeError::granules(capacity, Granule::LINE, 1);
        assert_eq!(Granule::LINE.bytes(), 64);
        assert_eq!(granules(most + 63), Ok(u32::MAX as usize - 1));
        for capacity in [most + 64, 1 << 40, u64::MAX] {
            assert_eq!(granules(capacity), Err(MakeError::TooLarge { capacity, granule: 64 }));
        }
    }
}
