//! Why a cached memory gives no place; whatever is refused, nothing has changed.

use core::fmt;

use crate::cache::{Interrupted, OutOfRange};

/// Why no place was given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum PlaceError {
    /// The cache was interrupted; every operation fails from now on.
    Interrupted,
    /// No bytes were asked for; a retry is of no use.
    ZeroSize {
        /// The data.
        data: u64,
    },
    /// The data has a place of another length; a retry is of no use before it has left.
    SizeMismatch {
        /// The data.
        data: u64,
        /// Bytes asked for.
        len: u64,
        /// Bytes of the place that it has.
        have: u64,
    },
    /// What was asked for at once is more than there is; a retry is of no use.
    TooLarge {
        /// Bytes asked for, in whole granules and each data once.
        need: u64,
        /// Bytes managed.
        capacity: u64,
    },
    /// The group has more distinct data than there can be places; a retry is of no use.
    TooMany {
        /// Distinct data asked for.
        need: u32,
        /// Places at most.
        places: u32,
    },
    /// The data has as many references as can be counted; a `free` of it makes a retry worth while.
    TooManyReferences {
        /// The data.
        data: u64,
    },
    /// The id is too large for the dense index; see [`OutOfRange`].
    OutOfRange {
        /// The data.
        data: u64,
        /// Ids are below this.
        ids: u64,
    },
    /// No eviction can make room, because what is in use lies in between; a `free` makes a retry worth while.
    Blocked {
        /// Bytes asked for.
        need: u64,
        /// Bytes of the longest stretch in which nothing is in use, one part in 32 shorter at times.
        longest: u64,
    },
    /// All places are taken by data in use; a `free` makes a retry worth while.
    NoPlace {
        /// Places.
        places: u32,
    },
    /// Others were refused before and wait for room.
    OthersWait,
    /// The turn was used already, or left the line.
    NoTurn,
}

impl fmt::Display for PlaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            PlaceError::Interrupted => Interrupted.fmt(f),
            PlaceError::ZeroSize { data } => write!(f, "no bytes were asked for data {data}: ask for one at least"),
            PlaceError::SizeMismatch { data, len, have } => {
                write!(f, "data {data} has {have} bytes, not {len}: ask for the same length each time")
            }
            PlaceError::TooLarge { need, capacity } => {
                write!(f, "{need} bytes are needed at once, {capacity} are managed in all: ask for less or lend more")
            }
            PlaceError::TooMany { need, places } => {
                write!(
                    f,
                    "{need} data are needed at once, there are {places} places: ask for less or lend more records"
                )
            }
            PlaceError::TooManyReferences { data } => {
                write!(f, "data {data} has as many references as are counted: free one and retry")
            }
            PlaceError::OutOfRange { data, ids } => OutOfRange { data, ids }.fmt(f),
            PlaceError::Blocked { need, longest } => {
                write!(f, "{need} bytes are needed, {longest} lie side by side between data in use: retry after a free")
            }
            PlaceError::NoPlace { places } => {
                write!(f, "all {places} places hold data in use: free one and retry, or lend more records")
            }
            PlaceError::OthersWait => f.write_str("others wait for room: take a turn behind them"),
            PlaceError::NoTurn => f.write_str("the turn was used already or left the line: take another"),
        }
    }
}
impl core::error::Error for PlaceError {}

impl From<Interrupted> for PlaceError {
    fn from(_: Interrupted) -> Self {
        PlaceError::Interrupted
    }
}

impl From<OutOfRange> for PlaceError {
    fn from(OutOfRange { data, ids }: OutOfRange) -> Self {
        PlaceError::OutOfRange { data, ids }
    }
}

/// Why no cached memory was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum LentTooLittle {
    /// The capacity is less than one granule.
    Bytes,
    /// Less than three records of blocks, slots or runs: no place can be described.
    Records,
    /// One word a granule leads from offsets to records.
    Starts {
        /// Words needed.
        need: usize,
        /// Words lent.
        have: usize,
    },
    /// A bit a granule, and a 63rd part more, tell what is in use.
    Bits {
        /// Words needed.
        need: usize,
        /// Words lent.
        have: usize,
    },
    /// The index has no room for all places.
    Index {
        /// Places.
        need: usize,
        /// Places that the index has room for.
        have: usize,
    },
    /// The index knows no numbers as large as those of records.
    Numbers {
        /// Records.
        need: usize,
        /// Numbers of the index.
        have: usize,
    },
}

impl fmt::Display for LentTooLittle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LentTooLittle::Bytes => f.write_str("less than one granule to manage: give a larger capacity"),
            LentTooLittle::Records => {
                f.write_str("too few records: lend 2n + 1 blocks and slots and 2n + 2 runs for n places")
            }
            LentTooLittle::Starts { need, have } => {
                write!(f, "{have} words of starts for {need} granules: lend one each")
            }
            LentTooLittle::Bits { need, have } => write!(f, "{have} words of bits, {need} are needed: lend more"),
            LentTooLittle::Index { need, have } => {
                write!(f, "an index with room for {have} of {need} places: lend more words, or fewer records")
            }
            LentTooLittle::Numbers { need, have } => {
                write!(
                    f,
                    "an index of numbers below {have} for {need} records: lend it an id for each record, or fewer records"
                )
            }
        }
    }
}
impl core::error::Error for LentTooLittle {}
