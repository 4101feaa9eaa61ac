//! Why a pool was not made, and why it hands nothing out.

use core::fmt;

/// No object was handed out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum GetError {
    /// All slots that are large enough are in use; an owner that is dropped makes a retry worth while.
    Exhausted {
        /// Bytes that were asked for.
        bytes: u32,
    },
    /// No class has slots of that size.
    TooLarge {
        /// Bytes that were asked for.
        bytes: u32,
        /// Bytes of the largest slots.
        largest: u32,
    },
}

impl fmt::Display for GetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GetError::Exhausted { bytes } => write!(f, "all slots for {bytes} bytes are in use: drop one and retry"),
            GetError::TooLarge { bytes, largest } => {
                write!(f, "{bytes} bytes do not fit into the largest slots, of {largest}: make a pool with larger ones")
            }
        }
    }
}
impl core::error::Error for GetError {}

/// Why no pool was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum PoolError {
    /// Fewer headers were lent than the classes have slots.
    TooFewHeaders {
        /// Slots of all classes.
        need: u64,
        /// Headers.
        have: usize,
    },
    /// Classes must have growing sizes, the first at least one byte.
    Unsorted {
        /// Which class is not larger than the one before.
        class: usize,
    },
}

impl fmt::Display for PoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PoolError::TooFewHeaders { need, have } => write!(f, "{have} headers for {need} slots: lend one a slot"),
            PoolError::Unsorted { class } => write!(f, "class {class} is not larger than the one before: sort them"),
        }
    }
}
impl core::error::Error for PoolError {}
