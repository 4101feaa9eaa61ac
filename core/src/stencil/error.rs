//! Why a stencil cache refuses; whatever is refused, nothing has changed.

use core::fmt;

use crate::cache;
use crate::cache::error::errors;

errors! {
    /// Why a group was not accepted.
    SubmitError {
        /// Every record of a group is taken; a group that ends makes a retry worth while.
        GroupsFull {
            /// Groups that are submitted and not freed.
            groups: usize
        } => "every group is taken, of {groups} in all: free one that is ready, then retry";
        /// More members than there are references for a group, duplicates counted.
        TooManyMembers {
            /// Members that a group has at most.
            have: usize
        } => "the group has more members than {have}: lend more references for each group";
        /// More different inputs than slots; the group could never be ready.
        GroupTooLarge {
            /// Different inputs.
            need: u32,
            /// Slots.
            have: u32
        } => "the group needs {need} slots at once, and there are {have}: give the cache more slots";
        /// The input has no record, or is not in the usage map.
        UnknownData {
            /// The input.
            data: u64
        } => "data {data} is not in the usage map: count its uses before, or mark it as unbounded";
        /// The input was claimed as often as the usage map says.
        UsageExhausted {
            /// The input.
            data: u64
        } => "data {data} was named as often as the usage map says: count all of its uses";
        /// The group names the same id as an input and as a [scratch](super::Member::Scratch).
        LoadOfScratch {
            /// The id.
            data: u64
        } => "the group names {data} as an input and as a place for an output: give the output an id of its own";
    }

    /// Why the end of a load was not accepted.
    PreparedError {
        /// The input is not being loaded, as far as a client was told.
        NotFilling {
            /// The input.
            data: u64
        } => "data {data} is not being loaded: each action to prepare is answered exactly once";
    }

    /// Why a reference was not taken back.
    FreeError {
        /// The input has no slot.
        NotAssigned {
            /// The input.
            data: u64
        } => "data {data} has no slot: it was freed more often than handed over";
        /// Groups hold the input, but none of them has handed it over.
        NotReady {
            /// The input.
            data: u64
        } => "data {data} was not handed over to anybody: free it after its group is ready";
        /// The input is in the cache, but nobody holds it.
        NotInUse {
            /// The input.
            data: u64
        } => "data {data} is not in use: it was freed more often than handed over";
    }

    /// Why nothing was done with a group.
    GroupError {
        /// The id names a group that has ended.
        Stale {
        } => "the group has ended: it was freed, handed over, or its load failed";
        /// No action has said yet that the group is ready.
        NotReady {
        } => "the group is not ready: wait for the action that says so";
        /// The place for the slots is too short.
        TooShort {
            /// Members of the group.
            need: usize
        } => "the group's members number {need}: give a place for as many slots";
        /// References to an input are not given back; no further ones can be counted.
        TooManyReferences {
            /// The number of the input's record.
            input: u32
        } => "2^31 references to the input with record {input} are handed over: give each back by a free of its data";
    }
}

/// Why a usage map was not made, or nothing added to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum UsageError {
    /// The cache was interrupted; every operation fails from now on.
    Interrupted,
    /// There is no record for this input.
    NoRecord {
        /// The input.
        data: u64,
        /// Records.
        have: usize,
    },
    /// More uses than can be counted.
    TooMany,
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UsageError::Interrupted => cache::Interrupted.fmt(f),
            UsageError::NoRecord { data, have } => {
                write!(f, "no record for data {data} among {have}: lend one for each input")
            }
            UsageError::TooMany => f.write_str("more uses than 2^32 - 3: mark the input as unbounded"),
        }
    }
}
impl core::error::Error for UsageError {}
impl From<cache::Interrupted> for UsageError {
    fn from(_: cache::Interrupted) -> Self {
        UsageError::Interrupted
    }
}

/// Why no stencil cache was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum BuildError {
    /// No slots, or not enough records of slots.
    Slots(cache::BuildError),
    /// A group has more different inputs than there are slots.
    NotEnoughSlots {
        /// Inputs of the largest group.
        need: u32,
        /// Slots.
        have: u32,
    },
    /// No record of a group, or more than 2^31, or no group may hold its slots.
    NoGroups,
    /// Fewer references a group than the largest group has inputs.
    TooFewReferences {
        /// Inputs of the largest group.
        need: u32,
        /// References for each group.
        have: usize,
    },
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::Slots(error) => error.fmt(f),
            BuildError::NotEnoughSlots { need, have } => {
                write!(f, "{have} slots for groups of {need} inputs: give as many as the largest group needs")
            }
            BuildError::NoGroups => f.write_str("no group could be served: lend a record and let one be active"),
            BuildError::TooFewReferences { need, have } => {
                write!(f, "{have} references for each group of up to {need} inputs: lend more")
            }
        }
    }
}
impl core::error::Error for BuildError {}

impl From<cache::BuildError> for BuildError {
    fn from(error: cache::BuildError) -> Self {
        BuildError::Slots(error)
    }
}
