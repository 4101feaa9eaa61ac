//! The bytes of a group table: a header, then either arithmetic or arrays.
//!
//! Everything is little-endian and counted in 64-bit words; there are no offsets in the bytes, all positions follow
//! from the counts in the header.
//!
//! ```text
//! word 0   magic "UMBT" u32, version u16, kind u8 (0 explicit, 1 block, 2 cyclic), flags u8 (bit 0: world group,
//!          bit 1: explicit, and rank r is world rank r)
//!      1   checksum of all other words
//!      2,3 group key, low and high half
//!      4   size u32, generation u32
//!      5   id u32, involved service processes u32
//!      6   involved hosts u32, shadows of all ranks together u32
//!      7   service processes per DPU u32, most shadows of a rank u32
//! explicit:  ranks             size x first shadow u32 where flags bit 1 says what the world ranks are;
//!                              otherwise size x { world rank u32, first shadow u32 }
//!            further shadows   size x (most - 1) x u32, `u32::MAX` where a rank has fewer
//!            service processes { sp u32, host in group u32 } { first of its ranks u32, index on its host u32 }
//!            hosts             { host u32, zero u32 } { first of its ranks u32, first of its service processes u32 }
//!            service processes by host, u32 each; ranks by service process, u32 each; ranks by host, u32 each
//! affine:    eight words, see `affine`
//! ```

use super::identity::GroupKey;
use super::table::TableError;
use crate::id::Generation;

/// Words of the header.
pub(super) const HEADER_WORDS: usize = 8;
/// The word of the low half of the group's key.
pub(super) const KEY_WORD: usize = 2;
/// Words of the parameters of an affine table.
pub(super) const AFFINE_WORDS: usize = 8;
/// Marks an absent further shadow.
pub(super) const NONE: u32 = u32::MAX;

const MAGIC: u32 = u32::from_le_bytes(*b"UMBT");
pub(super) const VERSION: u16 = 3;
const WORLD: u8 = 1;
const IDENTITY: u8 = 2;

/// How a table holds its ranks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Arrays.
    Explicit = 0,
    /// Consecutive ranks fill one host after the other.
    Block = 1,
    /// Consecutive ranks go to consecutive hosts.
    Cyclic = 2,
}

/// The header, decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Header {
    pub(super) kind: Kind,
    pub(super) world: bool,
    /// World ranks are the ranks, and not stored.
    pub(super) identity: bool,
    pub(super) key: GroupKey,
    pub(super) size: u32,
    pub(super) generation: Generation,
    pub(super) id: u32,
    pub(super) sps: u32,
    pub(super) hosts: u32,
    pub(super) total: u32,
    pub(super) per_dpu: u32,
    pub(super) shadows: u32,
}

/// Two 32-bit fields of a word, the lower first.
pub(super) const fn halves(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

/// The word of two 32-bit fields.
pub(super) const fn pair(low: u32, high: u32) -> u64 {
    (high as u64) << 32 | low as u64
}

impl Header {
    /// The words, with a zero checksum.
    pub(super) fn words(&self) -> [u64; HEADER_WORDS] {
        let flags = if self.world { WORLD } else { 0 } | if self.identity { IDENTITY } else { 0 };
        let kind = (self.kind as u32) << 16 | u32::from(flags) << 24;
        let key = self.key.0;
        [
            pair(MAGIC, u32::from(VERSION) | kind),
            0,
            key as u64,
            (key >> 64) as u64,
            pair(self.size, self.generation.0),
            pair(self.id, self.sps),
            pair(self.hosts, self.total),
            pair(self.per_dpu, self.shadows),
        ]
    }

    /// Reads the words; says nothing about the counts yet.
    pub(super) fn parse(words: &[u64; HEADER_WORDS]) -> Result<Header, TableError> {
        let [first, _, low, high, size, id, hosts, shadows] = *words;
        let (magic, rest) = halves(first);
        if magic != MAGIC {
            return Err(TableError::NotATable);
        }
        let [v0, v1, kind, flags] = rest.to_le_bytes();
        let version = u16::from_le_bytes([v0, v1]);
        if version != VERSION {
            return Err(TableError::UnknownVersion(version));
        }
        let kind = match kind {
            0 => Kind::Explicit,
            1 => Kind::Block,
            2 => Kind::Cyclic,
            _ => return Err(TableError::Malformed("kind")),
        };
        let allowed = if kind == Kind::Explicit { WORLD | IDENTITY } else { WORLD };
        if flags & !allowed != 0 {
            return Err(TableError::Malformed("flags"));
        }
        let ((size, generation), (id, sps), (hosts, total)) = (halves(size), halves(id), halves(hosts));
        let (per_dpu, shadows) = halves(shadows);
        let key = GroupKey(u128::from(high) << 64 | u128::from(low));
        let generation = Generation(generation);
        let (world, identity) = (flags & WORLD != 0, flags & IDENTITY != 0);
        Ok(Header { kind, world, identity, key, size, generation, id, sps, hosts, total, per_dpu, shadows })
    }
}

/// Word positions of the arrays of an explicit table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Sections {
    pub(super) ranks: usize,
    pub(super) extra: usize,
    pub(super) sps: usize,
    pub(super) hosts: usize,
    pub(super) host_sps: usize,
    pub(super) sp_ranks: usize,
    pub(super) host_ranks: usize,
    pub(super) end: usize,
}

impl Sections {
    /// The positions for the counts of a header; `None` if they do not fit the address space.
    pub(super) fn of(head: &Header) -> Option<Sections> {
        Sections::new(head.size, head.identity, head.shadows, head.total, head.sps, head.hosts)
    }

    /// The positions for these counts; `None` if they do not fit the address space.
    pub(super) fn new(size: u32, identity: bool, shadows: u32, total: u32, sps: u32, hosts: u32) -> Option<Sections> {
        let after = |start: usize, words: u64| usize::try_from(words).ok().and_then(|words| start.checked_add(words));
        let half_words = |count: u64| count.div_ceil(2);
        let further = u64::from(size) * u64::from(shadows.saturating_sub(1));
        let ranks = HEADER_WORDS;
        let extra = after(ranks, if identity { half_words(size.into()) } else { size.into() })?;
        let sp = after(extra, half_words(further))?;
        let host = after(sp, u64::from(sps) * 2)?;
        let host_sps = after(host, u64::from(hosts) * 2)?;
        let sp_ranks = after(host_sps, half_words(sps.into()))?;
        let host_ranks = after(sp_ranks, half_words(total.into()))?;
        let end = after(host_ranks, half_words(size.into()))?;
        end.checked_mul(8)?;
        Some(Sections { ranks, extra, sps: sp, hosts: host, host_sps, sp_ranks, host_ranks, end })
    }
}
