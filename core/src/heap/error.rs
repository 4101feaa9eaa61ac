//! Why something is not done with a heap.

use core::fmt;

/// Why memory is no usable heap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum AttachError {
    /// The magic word is missing: another structure, or not created yet. A retry is worth while in the second case.
    NotAHeap,
    /// It has another layout version.
    WrongVersion(u32),
    /// It does not manage as many bytes as there are.
    WrongBytes {
        /// Bytes that it manages.
        managed: u64,
        /// Bytes that there are.
        bytes: u64,
    },
    /// The numbers in the header do not go together, or do not fit the memory.
    BadSize {
        /// Words that there are.
        words: usize,
    },
    /// Blocks that were to be reserved in a new heap cannot be.
    NotReserved(NotReserved),
}

/// Which blocks cannot be reserved in a new heap, and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct NotReserved {
    /// The place of the entry that asks for them.
    pub entry: usize,
    /// Bytes of a block.
    pub len: u64,
    /// How many blocks.
    pub count: u32,
    /// Why.
    pub why: Unreserved,
}

/// Why blocks cannot be reserved in a new heap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Unreserved {
    /// They have no bytes.
    Nothing,
    /// They are longer than blocks that lie in spans.
    TooLong {
        /// Bytes of the longest block that can be reserved in such a heap; 0 if none can.
        longest: u64,
    },
    /// There is not so much memory, or there are not so many entries.
    TooMany {
        /// For how many blocks there is room, beside the entries before.
        room: u32,
    },
}

impl fmt::Display for NotReserved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NotReserved { entry, len, count, why } = self;
        write!(f, "{count} blocks of {len} bytes (entry {entry}) cannot be reserved: ")?;
        match why {
            Unreserved::Nothing => f.write_str("ask for one byte at least"),
            Unreserved::TooLong { longest: 0 } => f.write_str("in this heap none can be"),
            Unreserved::TooLong { longest } => write!(f, "blocks of at most {longest} bytes can be, in this heap"),
            Unreserved::TooMany { room } => {
                write!(f, "there is room for {room}: reserve fewer, or make it for more bytes or blocks")
            }
        }
    }
}
impl core::error::Error for NotReserved {}

impl fmt::Display for AttachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AttachError::NotAHeap => f.write_str("memory holds no heap, or one that is not created yet"),
            AttachError::WrongVersion(version) => {
                write!(f, "heap has layout version {version}, this program knows {}", super::VERSION)
            }
            AttachError::WrongBytes { managed, bytes } => write!(f, "heap manages {managed} bytes, not {bytes}"),
            AttachError::BadSize { words } => {
                write!(f, "a heap of the stated size does not fit {words} words: lend more, or it is damaged")
            }
            AttachError::NotReserved(why) => why.fmt(f),
        }
    }
}
impl core::error::Error for AttachError {}

/// Why a plan for a heap is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum PlanError {
    /// Fewer than five of the smallest blocks.
    TooSmall {
        /// Bytes of the heap.
        bytes: u64,
        /// Bytes that it needs.
        needed: u64,
    },
    /// More bytes than a heap can manage, or more blocks than it can count.
    TooLarge,
    /// No members, or more than there can be.
    Members(u16),
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanError::TooSmall { bytes, needed } => {
                write!(f, "{bytes} bytes are too few for five of the smallest blocks: {needed} are needed")
            }
            PlanError::TooLarge => {
                f.write_str("more bytes or blocks than a heap can have: ask for less than 2^40 bytes")
            }
            PlanError::Members(members) => {
                write!(f, "{members} members: ask for 1 to {}", crate::crew::MOST)
            }
        }
    }
}
impl core::error::Error for PlanError {}

/// Why there is no block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum AllocError {
    /// No block was asked for: a length of zero has none.
    Nothing,
    /// No such block is free now; that others free some makes a retry worth while.
    NotAvailable {
        /// Bytes asked for.
        len: u64,
    },
    /// The heap has no block as long as that, even if it is empty.
    TooLarge {
        /// Bytes asked for.
        len: u64,
        /// Bytes of the longest block.
        longest: u64,
    },
    /// As many blocks are allocated as the heap can count; that others free some makes a retry worth while.
    OutOfEntries,
    /// The kind is not below 2^24, or is the last one, which pools keep for channels.
    BadKind(u32),
    /// The words say what cannot be: somebody wrote over them.
    Damaged,
}

/// Why a block is not said to be for something else.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum KindError {
    /// It was freed.
    Stale,
    /// The kind is not below 2^24.
    BadKind(u32),
}

impl fmt::Display for KindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KindError::Stale => f.write_str("block was freed: its id names nothing"),
            KindError::BadKind(kind) => write!(f, "kind {kind} is not below 2^24"),
        }
    }
}
impl core::error::Error for KindError {}

impl AllocError {
    /// Whether a free by somebody can make a retry succeed.
    #[must_use]
    pub const fn is_passing(&self) -> bool {
        matches!(self, AllocError::NotAvailable { .. } | AllocError::OutOfEntries)
    }
}

impl fmt::Display for AllocError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AllocError::Nothing => f.write_str("a block of no bytes: ask for one at least"),
            AllocError::NotAvailable { len } => write!(f, "no {len} bytes in one piece are free: free some, or wait"),
            AllocError::TooLarge { len, longest } => {
                write!(f, "{len} bytes are more than the heap's longest block of {longest}")
            }
            AllocError::OutOfEntries => {
                f.write_str("as many blocks as the heap can count: free some, or make it for more")
            }
            AllocError::BadKind(kind) => write!(f, "kind {kind} is not below 2^24 - 1"),
            AllocError::Damaged => f.write_str("the words of the heap are damaged: make a new one"),
        }
    }
}
impl core::error::Error for AllocError {}
