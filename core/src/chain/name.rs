//! Names: members of calls, calls, places in a parent's table, functions.

use core::fmt;

/// A member of chained calls: a process, an agent, or a thread; a small number on which all members agree.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(transparent)]
pub struct Node(pub u32);

impl Node {
    /// The number as an array index.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Which life of a member; a later life has a larger number, in wrapping order. Zero is no life.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(transparent)]
pub struct Life(pub u32);

impl Life {
    /// Whether this life began after the other.
    #[must_use]
    pub const fn is_after(self, other: Life) -> bool {
        (self.0.wrapping_sub(other.0) as i32) > 0
    }
}

/// One call, for all members, until as many more are made in this life as there are numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct CallId {
    /// Who made it.
    pub root: Node,
    /// In which life.
    pub life: Life,
    /// The how-manieth of that life, in 40 bits.
    pub seq: u64,
}

impl CallId {
    /// Bits of a number.
    const BITS: u32 = 40;

    /// The number after this one.
    pub(super) const fn after(seq: u64) -> u64 {
        seq.wrapping_add(1) & (u64::MAX >> (u64::BITS - CallId::BITS))
    }

    /// Whether two calls of one life are in this order, as far as numbers that wrap tell.
    pub(super) const fn is_after(seq: u64, other: u64) -> bool {
        ((seq.wrapping_sub(other) << (u64::BITS - CallId::BITS)) as i64) > 0
    }

    /// The call at one of its members, of which there are fewer than 2^28.
    pub(super) const fn key(self, at: Node) -> u128 {
        let members = (at.0 as u128) << 28 | (self.root.0 & 0x0fff_ffff) as u128;
        members << 72 | (self.life.0 as u128) << CallId::BITS | self.seq as u128
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "call {} of member {}", self.seq, self.root)
    }
}

/// A place in the parent's table of calls, and which child of it the sender is; whoever answers repeats it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Edge {
    /// Index in the parent's table.
    pub index: u16,
    /// The lower half of that place's generation.
    pub generation: u16,
    /// Which child.
    pub ordinal: u16,
}

/// The name of a function, the same in every program: 32 bits of a hash of its text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(transparent)]
pub struct Tag(pub u32);

impl Tag {
    /// In place of a function where there is none.
    pub const NONE: Tag = Tag(0);

    /// The tag of a name: FNV-1a, never [`NONE`](Self::NONE).
    #[must_use]
    pub const fn of(name: &str) -> Tag {
        let bytes = name.as_bytes();
        let (mut hash, mut at) = (0x811c_9dc5_u32, 0);
        while at < bytes.len() {
            hash = (hash ^ bytes[at] as u32).wrapping_mul(0x0100_0193);
            at += 1;
        }
        if hash == 0 { Tag(1) } else { Tag(hash) }
    }
}
