//! Why a range was not handed out, or not taken back.

use core::fmt;

/// Why no range could be handed out; nothing has changed then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum AllocError {
    /// A range of no bytes was asked for; a retry is of no use.
    ZeroSize,
    /// More was asked for than is managed at all; a retry is of no use.
    TooLarge {
        /// Bytes asked for.
        len: u64,
        /// Bytes managed.
        capacity: u64,
    },
    /// The alignment is no power of two; a retry is of no use.
    BadAlign {
        /// The alignment asked for, in bytes.
        align: u64,
    },
    /// Fewer bytes are free than were asked for; freeing ranges makes a retry worth while.
    OutOfMemory {
        /// Bytes asked for.
        len: u64,
        /// Bytes free in all ranges together.
        free: u64,
    },
    /// Enough bytes are free, but not side by side (or not at such an address); freeing ranges makes a retry
    /// worth while.
    Fragmented {
        /// Bytes asked for.
        len: u64,
        /// Bytes free in all ranges together.
        free: u64,
        /// Bytes of the longest free range, as [`Figures::largest`](super::Figures::largest) has it.
        largest: u64,
    },
    /// All records are in use; freeing any range makes a retry worth while.
    NoRecord,
}

impl fmt::Display for AllocError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AllocError::ZeroSize => f.write_str("a range of no bytes was asked for: ask for one at least"),
            AllocError::TooLarge { len, capacity } => {
                write!(f, "{len} bytes were asked for, {capacity} are managed in all: ask for less or lend more")
            }
            AllocError::BadAlign { align } => write!(f, "alignment {align} is no power of two: ask for one that is"),
            AllocError::OutOfMemory { len, free } => {
                write!(f, "{len} bytes were asked for, {free} are free in all: free ranges or lend more")
            }
            AllocError::Fragmented { len, free, largest } => write!(
                f,
                "no free range of {len} bytes ({free} bytes are free in all, {largest} side by side): free ranges"
            ),
            AllocError::NoRecord => f.write_str("all records of ranges are in use: free a range or lend more records"),
        }
    }
}
impl core::error::Error for AllocError {}

/// No range that is in use starts at this offset: it was freed already, or never handed out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct NotAllocated {
    /// The offset, in bytes.
    pub offset: u64,
}

impl fmt::Display for NotAllocated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no range in use starts at offset {}: it was freed already, or never handed out", self.offset)
    }
}
impl core::error::Error for NotAllocated {}
