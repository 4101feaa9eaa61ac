//! Why a cache refuses; whatever is refused, nothing has changed.

use core::fmt;

use super::index::OutOfRange;

/// The cache was interrupted: nothing has an effect any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the cache was interrupted: stop, or reset it once all fills have ended")
    }
}
impl core::error::Error for Interrupted {}

/// Enums of errors beside `Interrupted`: a line of documentation, fields and a sentence for each.
macro_rules! errors {
    ($($(#[$meta:meta])* $name:ident {
        $($(#[doc = $doc:literal])* $variant:ident { $($(#[doc = $field_doc:literal])* $field:ident: $type:ty),* } => $text:literal;)*
    })*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[cfg_attr(feature = "defmt", derive(defmt::Format))]
        #[non_exhaustive]
        pub enum $name {
            /// The cache was interrupted; every operation fails from now on.
            Interrupted,
            $($(#[doc = $doc])* $variant { $($(#[doc = $field_doc])* $field: $type),* },)*
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $name::Interrupted => $crate::cache::Interrupted.fmt(f),
                    $($name::$variant { $($field),* } => write!(f, $text),)*
                }
            }
        }
        impl ::core::error::Error for $name {}
        impl From<$crate::cache::Interrupted> for $name {
            fn from(_: $crate::cache::Interrupted) -> Self {
                $name::Interrupted
            }
        }
    )*};
}
pub(crate) use errors;

errors! {
    /// Why no slot was given.
    AllocError {
        /// Every slot is in use; a `free` makes a retry worth while.
        Full {
            /// Slots, all of them with references.
            slots: u32
        } => "all {slots} slots are in use: free one and retry";
        /// The data has as many references as can be counted.
        TooManyReferences {
            /// The data.
            data: u64,
            /// Its references.
            most: u32
        } => "data {data} has {most} references, as many as are counted: free one and retry";
        /// The id is too large for the dense index; see [`OutOfRange`].
        OutOfRange {
            /// The data.
            data: u64,
            /// Ids are below this.
            ids: u64
        } => "data {data} is not below {ids}: lend a longer dense index, or use a sparse one";
    }

    /// Why a reference was not taken back.
    FreeError {
        /// The data has no slot.
        NotAssigned {
            /// The data.
            data: u64
        } => "data {data} has no slot: it was freed more often than allocated, or never allocated";
        /// The data has a slot, but nobody has a reference to it.
        NotInUse {
            /// The data.
            data: u64
        } => "data {data} is in the cache but not in use: it was freed more often than allocated";
    }

    /// Why a fill was not ended.
    FillError {
        /// The data has no slot (any more).
        NotAssigned {
            /// The data.
            data: u64
        } => "data {data} has no slot: allocate it before its fill ends, and free it afterwards";
        /// The content was there already: two clients filled one slot.
        AlreadyRemembered {
            /// The data.
            data: u64
        } => "data {data} is remembered already: only the client that found its slot empty fills it";
    }

    /// Why content was not forgotten.
    ForgetError {
        /// The slot is being filled.
        NotRemembered {
            /// The data.
            data: u64
        } => "data {data} is being filled: it can be forgotten once it is remembered and free";
        /// References to the content are held.
        InUse {
            /// The data.
            data: u64,
            /// How many.
            references: u32
        } => "data {data} is in use, with {references} references: free them, or forget it later";
    }
}

impl From<OutOfRange> for AllocError {
    fn from(OutOfRange { data, ids }: OutOfRange) -> Self {
        AllocError::OutOfRange { data, ids }
    }
}

/// Why a batch ended early.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Partial<E> {
    /// Elements at the front of the batch that were done, and stay done.
    pub done: usize,
    /// Why the next one was refused.
    pub error: E,
}

impl<E: fmt::Display> fmt::Display for Partial<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "after {} of the batch: {}", self.done, self.error)
    }
}
impl<E: fmt::Debug + fmt::Display> core::error::Error for Partial<E> {}

/// Why no cache was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum BuildError {
    /// The range of slots is empty: no allocation could ever succeed.
    NoSlots {
        /// Where it starts.
        start: u32,
        /// Where it ends.
        end: u32,
    },
    /// Fewer records were lent than the range has slots.
    TooFewRecords {
        /// Slots.
        need: usize,
        /// Records.
        have: usize,
    },
    /// The index has no room for all slots.
    IndexTooSmall {
        /// Slots.
        need: usize,
        /// Numbers that the index has room for.
        have: usize,
    },
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::NoSlots { start, end } => {
                write!(f, "no slots in {start}..{end}: give a range with one at least")
            }
            BuildError::TooFewRecords { need, have } => write!(f, "{have} records for {need} slots: lend one a slot"),
            BuildError::IndexTooSmall { need, have } => {
                write!(f, "an index with room for {have} of {need} slots: lend more words, 3 for 2 slots make it fast")
            }
        }
    }
}
impl core::error::Error for BuildError {}

/// Why an interrupted cache was not made ready again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum ResetError {
    /// The cache works; interrupt it first.
    NotInterrupted,
    /// Slots are still being filled; their memory may be written to.
    Filling {
        /// One of them.
        slot: u32,
        /// The data that it is filled with.
        data: u64,
    },
}

impl fmt::Display for ResetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ResetError::NotInterrupted => f.write_str("the cache was not interrupted: interrupt it before a reset"),
            ResetError::Filling { slot, data } => {
                write!(f, "slot {slot} is still being filled with data {data}: wait for the fill, then settle it")
            }
        }
    }
}
impl core::error::Error for ResetError {}
