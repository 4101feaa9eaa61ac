//! Names of memory: a key, and a span of bytes under it.
//!
//! A [`Key`] is one `u64`: 24 bits of owner, 20 of region, 20 of generation. It names, it does not
//! authorise: rights, bounds and the access list live in the owner's table of regions.

use core::fmt;

use crate::peer::Peer;

bitflags::bitflags! {
    /// What an importer may do with a region.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
    pub struct Access: u8 {
        /// Remote reads.
        const READ = 1;
        /// Remote writes.
        const WRITE = 2;
        /// The bytes stay as they are until the owner takes the region back: who reads may keep copies until then.
        const CONSTANT = 4;
    }
}
#[cfg(feature = "defmt")]
impl defmt::Format for Access {
    fn format(&self, f: defmt::Formatter<'_>) {
        defmt::write!(f, "Access({=u8:b})", self.bits());
    }
}

/// One region of one owner in one generation, in 64 bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(transparent)]
pub struct Key(u64);

impl Key {
    /// How many of the lowest bits are the generation.
    pub const GENERATION_BITS: u32 = 20;
    const FIELD: u32 = (1 << Self::GENERATION_BITS) - 1;
    /// How many regions an owner can have at once, and how many generations a region index has before
    /// they repeat.
    pub const REGIONS: u32 = Self::FIELD + 1;

    /// Names region `region` of `owner` in `generation`; both numbers are taken modulo 2^20.
    #[must_use]
    pub const fn new(owner: Peer, region: u32, generation: u32) -> Key {
        Key((owner.to_bits() as u64) << 40 | ((region & Self::FIELD) as u64) << 20 | (generation & Self::FIELD) as u64)
    }

    /// The process that owns the region.
    #[must_use]
    pub const fn owner(self) -> Peer {
        Peer::from_low_bits((self.0 >> 40) as u32)
    }

    /// The index of the region in its owner's table.
    #[must_use]
    pub const fn region(self) -> u32 {
        (self.0 >> 20) as u32 & Self::FIELD
    }

    /// The generation of that index, modulo 2^20.
    #[must_use]
    pub const fn generation(self) -> u32 {
        self.0 as u32 & Self::FIELD
    }

    /// The wire form.
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// Reads the wire form; every value is a key, whether it opens anything is the owner's business.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Key {
        Key(bits)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/region {}v{}", self.owner(), self.region(), self.generation())
    }
}

/// `len` bytes at `offset` of the region named by `key`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Span {
    /// The region.
    pub key: Key,
    /// Bytes from the region's start.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
}
