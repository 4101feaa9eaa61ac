//! Why a shared cache refuses.
//!
//! Whatever is refused, nothing has changed, unless the memory is damaged, or others were faster 65,536 times in a row when a
//! reference to other data, or its fill, taken by mistake, was given back: that one stays until its process leaves or is
//! reclaimed.

use core::fmt;

use crate::cache::error::errors;
use crate::shared_slots::Owner;

/// Why an operation did not come through, whatever it was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Blocked {
    /// Another client is in the midst of something here, as a rule for less than a microsecond.
    Busy {
        /// The number of its process; nobody's, if the memory is damaged, or if others were faster each time that this call
        /// tried.
        owner: u8,
    },
    /// The memory holds what no process wrote.
    Damaged {
        /// The place, or the line of the index, where that showed.
        at: usize,
    },
}

impl Blocked {
    /// Others changed what this call was about to change, each time that it tried.
    pub(super) const OVERTAKEN: Blocked = Blocked::Busy { owner: u8::MAX };
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Blocked::Busy { owner } => {
                write!(f, "owner {owner} is changing what this call needs: retry, or reclaim what it held if it died")
            }
            Blocked::Damaged { at } => write!(f, "the shared cache is damaged at place or line {at}: make a new one"),
        }
    }
}
impl core::error::Error for Blocked {}

errors! {
    /// Why no slot was given.
    AllocError {
        /// Every slot is in use; a `free` makes a retry worth while.
        Full {
            /// Slots, all of them with references.
            slots: u32
        } => "all {slots} slots are in use: free one and retry";
        /// This owner has as many references to the data as are counted.
        TooManyReferences {
            /// The data.
            data: u64,
            /// Its references.
            most: u32
        } => "data {data} has {most} references of this process, as many as are counted: free one and retry";
        /// Something is in the way, and nothing was done.
        Blocked {
            /// What.
            why: Blocked
        } => "{why}";
    }

    /// Why a reference was not taken back.
    FreeError {
        /// The data has no slot.
        NotAssigned {
            /// The data.
            data: u64
        } => "data {data} has no slot: it was freed more often than allocated, or never allocated";
        /// The data has a slot, but this owner has no reference to it.
        NotInUse {
            /// The data.
            data: u64
        } => "data {data} is not in use by this process: it was freed more often than allocated";
        /// Something is in the way, and nothing was done.
        Blocked {
            /// What.
            why: Blocked
        } => "{why}";
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
        /// Something is in the way, and nothing was done.
        Blocked {
            /// What.
            why: Blocked
        } => "{why}";
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
        /// Something is in the way, and nothing was done.
        Blocked {
            /// What.
            why: Blocked
        } => "{why}";
    }

    /// Why it was not told what a slot is doing.
    LookError {
        /// Something is in the way, and nothing was done.
        Blocked {
            /// What.
            why: Blocked
        } => "{why}";
    }
}

macro_rules! from_blocked {
    ($($name:ident)*) => {$(
        impl From<Blocked> for $name {
            fn from(why: Blocked) -> Self {
                $name::Blocked { why }
            }
        }
    )*};
}
from_blocked!(AllocError FreeError FillError ForgetError LookError ReclaimError);

/// Why memory is no usable cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum AttachError {
    /// The magic word is missing: another structure, or not created yet.
    NotACache,
    /// It was created for another contract.
    WrongContract,
    /// The numbers of slots, owners or references in the header do not go together, or do not fit the memory.
    BadSize {
        /// Words that there are.
        words: usize,
    },
    /// The range of slots is empty: no allocation could ever succeed.
    NoSlots,
}

impl fmt::Display for AttachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AttachError::NotACache => f.write_str("memory holds no shared cache, or one that is not created yet"),
            AttachError::WrongContract => f.write_str("the shared cache was created for another contract"),
            AttachError::BadSize { words } => {
                write!(f, "a shared cache of the stated size does not fit {words} words: lend more, or it is damaged")
            }
            AttachError::NoSlots => f.write_str("a cache without slots: ask for one at least"),
        }
    }
}
impl core::error::Error for AttachError {}

/// Why a process cannot use a cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum JoinError {
    /// As many processes use it as it was created for; that one leaves or is reclaimed makes a retry worth while. The place
    /// of a dead one can be [taken](super::SlotCache::join_or_succeed).
    Full {
        /// How many.
        owners: u8,
    },
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JoinError::Full { owners } => {
                let remedy = "reclaim the dead ones, or take the place of one";
                write!(f, "{owners} processes use the cache, as many as it was made for: {remedy}")
            }
        }
    }
}
impl core::error::Error for JoinError {}

/// Why nothing, or not everything, was taken back from a process; a further call goes on where it ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum ReclaimError {
    /// No process has this number, or another one than was named.
    Unknown(Owner),
    /// Somebody does it already.
    InProgress {
        /// Who; if he died too, reclaim what he held first.
        by: u8,
    },
    /// Something is in the way; what was done before it stays done, and a further call counts only what it does.
    Blocked {
        /// What.
        why: Blocked,
    },
}

impl fmt::Display for ReclaimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReclaimError::Unknown(owner) => write!(f, "{owner} is not the process that was named: it was reclaimed"),
            ReclaimError::InProgress { by } => {
                write!(f, "owner {by} reclaims it already: wait, or reclaim owner {by} first if it died")
            }
            ReclaimError::Blocked { why } => why.fmt(f),
        }
    }
}
impl core::error::Error for ReclaimError {}
