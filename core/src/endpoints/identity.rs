//! Which group is meant: a descriptor in canonical bytes, and a 128-bit key of it.
//!
//! A group is named by the runtime's communicator id, the world rank of its rank 0 (`lead`), and its ordered members.
//! The id alone is not enough: non-overlapping communicators share ids. Upstream hashed all of it into 32 bits, so
//! live groups collided (spec 0.3); here the key is a SipHash-128 under a key of the job, and whoever holds two
//! descriptors with one key compares the descriptors.
//!
//! Canonical bytes, little-endian: version `u8` = 1, flags `u8` (bit 0: world group), zero `u16`, id `u32`, lead
//! `u32`, size `u32`, runs `u32`, then the runs (start `u32`, first `u32`, stride `i32`). One group has one form, on
//! every machine.
//!
//! ```
//! use umbra_core::endpoints::{Descriptor, JobKey};
//! use umbra_core::peer::{Rank, WorldRank};
//!
//! let mut bytes = [0; 64];
//! let column = Descriptor::write(7, [1, 5, 9, 13].map(WorldRank), &mut bytes)?;
//! assert_eq!(column.members().run_count(), 1);
//! assert_eq!(column.rank_of(WorldRank(9)), Some(Rank(2)));
//! let again = Descriptor::parse(column.bytes())?;
//! let key = JobKey::new([7; 16]);
//! assert_eq!(key.group(&column), key.group(&again));
//! # Ok::<(), umbra_core::endpoints::DescriptorError>(())
//! ```

use core::fmt;
use core::hash::Hasher;

use siphasher::sip128::{Hasher128, SipHasher24};

use super::members::{Members, RUN_BYTES, Run};
use crate::codec::{Reader, Short, Writer};
use crate::peer::{Peer, Rank, WorldRank};

const VERSION: u8 = 1;
const WORLD: u8 = 1;
const HEAD_BYTES: usize = 20;

/// The name of a group: 128 bits of its descriptor under the job's key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(transparent)]
pub struct GroupKey(pub u128);

impl fmt::Display for GroupKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}
impl fmt::Debug for GroupKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The key under which a job hashes its group descriptors; all processes of the job have the same one.
#[derive(Clone, Copy)]
pub struct JobKey([u8; 16]);

impl JobKey {
    /// Uses these 16 bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 16]) -> Self {
        JobKey(bytes)
    }

    /// The key of a group.
    #[must_use]
    pub fn group(&self, descriptor: &Descriptor<'_>) -> GroupKey {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        hasher.write(descriptor.bytes);
        GroupKey(hasher.finish128().as_u128())
    }
}

impl fmt::Debug for JobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JobKey(..)")
    }
}

/// A group as its members describe it: id, lead and ordered members, over canonical bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Descriptor<'a> {
    bytes: &'a [u8],
    world: bool,
    id: u32,
    lead: WorldRank,
    members: Members<'a>,
}

/// Why members or bytes do not describe a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum DescriptorError {
    /// The bytes end early, or the lent buffer is too small.
    Short,
    /// Bytes follow the last run.
    Overlong,
    /// Another version of the format.
    UnknownVersion(u8),
    /// A flag or reserved field holds what no descriptor has.
    NotZero,
    /// The group has no member.
    Empty,
    /// A member lies outside the world ranks that a [`Peer`] can name.
    WorldRankOutOfRange,
    /// The lead is not the world rank of rank 0.
    WrongLead,
    /// The world group's members are not `0..size`.
    NotTheWorld,
    /// The run with this index is not what greedy runs of a list of distinct members look like.
    NotCanonical(u32),
    /// A process is named twice.
    Duplicate(WorldRank),
}

impl fmt::Display for DescriptorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DescriptorError::Short => f.write_str("group descriptor ends early or its buffer is too small"),
            DescriptorError::Overlong => f.write_str("group descriptor is followed by bytes that belong to nothing"),
            DescriptorError::UnknownVersion(v) => write!(f, "group descriptor has version {v}: this is version 1"),
            DescriptorError::NotZero => f.write_str("reserved bits of a group descriptor are set"),
            DescriptorError::Empty => f.write_str("group has no member"),
            DescriptorError::WorldRankOutOfRange => {
                write!(f, "group has a member beyond world rank {}", Peer::CAPACITY - 1)
            }
            DescriptorError::WrongLead => f.write_str("group's lead is not the world rank of its rank 0"),
            DescriptorError::NotTheWorld => f.write_str("world group's members are not 0 to size - 1, in order"),
            DescriptorError::NotCanonical(run) => write!(f, "run {run} of a group descriptor is not canonical"),
            DescriptorError::Duplicate(rank) => write!(f, "world rank {rank} is named twice in a group descriptor"),
        }
    }
}
impl core::error::Error for DescriptorError {}

impl From<Short> for DescriptorError {
    fn from(Short: Short) -> Self {
        DescriptorError::Short
    }
}

impl<'a> Descriptor<'a> {
    /// Bytes that always suffice for a group of `size` members.
    #[must_use]
    pub const fn bytes_needed(size: u32) -> usize {
        HEAD_BYTES.saturating_add((size as usize).div_ceil(2).saturating_mul(RUN_BYTES))
    }

    /// Bytes that suffice for the world group.
    pub const WORLD_BYTES: usize = HEAD_BYTES + RUN_BYTES;

    /// Describes the group with these members, in rank order; its lead is the first of them.
    ///
    /// # Errors
    /// [`DescriptorError`] if there is no member, one cannot be named, neighbours are equal, or the buffer is too
    /// small. That distant members differ is checked by [`check_distinct`](Self::check_distinct).
    pub fn write(
        id: u32,
        members: impl IntoIterator<Item = WorldRank>,
        buffer: &'a mut [u8],
    ) -> Result<Self, DescriptorError> {
        Self::write_with(id, 0, members, buffer)
    }

    /// Describes the world group of `size` processes.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn write_world(id: u32, size: u32, buffer: &'a mut [u8]) -> Result<Self, DescriptorError> {
        Self::write_with(id, WORLD, (0..size).map(WorldRank), buffer)
    }

    fn write_with(
        id: u32,
        flags: u8,
        members: impl IntoIterator<Item = WorldRank>,
        buffer: &'a mut [u8],
    ) -> Result<Self, DescriptorError> {
        let (head, mut w) = {
            let (head, rest) = buffer.split_at_mut_checked(HEAD_BYTES).ok_or(DescriptorError::Short)?;
            (head, Writer::new(rest))
        };
        let mut run: Option<Run> = None;
        let (mut lead, mut runs, mut size) = (WorldRank(0), 0, 0);
        for member in members {
            if member.0 >= Peer::CAPACITY {
                return Err(DescriptorError::WorldRankOutOfRange);
            }
            run = Some(match run {
                None => {
                    lead = member;
                    Run { start: 0, count: 1, first: member.0, stride: 0 }
                }
                // World ranks are below 2^23: differences fit.
                Some(Run { count: 1, first, .. }) if first == member.0 => {
                    return Err(DescriptorError::Duplicate(member));
                }
                Some(r @ Run { count: 1, .. }) => {
                    Run { count: 2, stride: member.0.cast_signed() - r.first.cast_signed(), ..r }
                }
                Some(r) if r.value(r.count) == Some(member.0) => Run { count: r.count + 1, ..r },
                Some(r) => {
                    put_run(&mut w, &r)?;
                    runs += 1;
                    Run { start: size, count: 1, first: member.0, stride: 0 }
                }
            });
            size += 1;
        }
        put_run(&mut w, &run.ok_or(DescriptorError::Empty)?)?;
        runs += 1;
        let len = HEAD_BYTES + w.len();
        let mut h = Writer::new(head);
        h.u8(VERSION)?;
        h.u8(flags)?;
        h.u16(0)?;
        h.u32(id)?;
        h.u32(lead.0)?;
        h.u32(size)?;
        h.u32(runs)?;
        let bytes = buffer.get(..len).ok_or(DescriptorError::Short)?;
        let members = Members { size, records: bytes.get(HEAD_BYTES..).ok_or(DescriptorError::Short)? };
        Ok(Descriptor { bytes, world: flags & WORLD != 0, id, lead, members })
    }

    /// Reads canonical bytes; anything but the one form that [`write`](Self::write) gives is refused.
    ///
    /// Costs O(runs), and there are at most `bytes.len() / 12` of them.
    ///
    /// # Errors
    /// [`DescriptorError`], saying what is wrong.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, DescriptorError> {
        let mut r = Reader::new(bytes);
        match r.u8()? {
            VERSION => {}
            other => return Err(DescriptorError::UnknownVersion(other)),
        }
        let flags = r.u8()?;
        if flags & !WORLD != 0 || r.u16()? != 0 {
            return Err(DescriptorError::NotZero);
        }
        let (id, lead, size, runs) = (r.u32()?, WorldRank(r.u32()?), r.u32()?, r.u32()?);
        let records = r.rest();
        let needed = (runs as usize).checked_mul(RUN_BYTES).ok_or(DescriptorError::Short)?;
        match records.len() {
            len if len < needed => return Err(DescriptorError::Short),
            len if len > needed => return Err(DescriptorError::Overlong),
            _ => {}
        }
        if size == 0 || runs == 0 {
            return Err(DescriptorError::Empty);
        }
        let members = Members { size, records };
        check_runs(&members)?;
        let world = flags & WORLD != 0;
        if members.run(0).is_none_or(|first| first.first != lead.0) {
            return Err(DescriptorError::WrongLead);
        }
        if world && (runs != 1 || lead.0 != 0 || (size > 1 && members.run(0).is_none_or(|run| run.stride != 1))) {
            return Err(DescriptorError::NotTheWorld);
        }
        Ok(Descriptor { bytes, world, id, lead, members })
    }

    /// Checks that no process is named twice, with a lent bitmap of one bit per process of the job.
    ///
    /// Costs O(size); what the bitmap held is overwritten.
    ///
    /// # Errors
    /// [`DescriptorError::Duplicate`], or [`DescriptorError::WorldRankOutOfRange`] if the bitmap has no bit for a
    /// member.
    pub fn check_distinct(&self, seen: &mut [u64]) -> Result<(), DescriptorError> {
        seen.fill(0);
        for member in self.members.iter() {
            let word = seen.get_mut(member.index() / 64).ok_or(DescriptorError::WorldRankOutOfRange)?;
            let bit = 1 << (member.0 % 64);
            if *word & bit != 0 {
                return Err(DescriptorError::Duplicate(member));
            }
            *word |= bit;
        }
        Ok(())
    }

    /// The canonical bytes.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Whether this is the job's world group.
    #[must_use]
    pub const fn is_world(&self) -> bool {
        self.world
    }

    /// The runtime's number for the group, such as a communicator's context id.
    #[must_use]
    pub const fn id(&self) -> u32 {
        self.id
    }

    /// The world rank of rank 0.
    #[must_use]
    pub const fn lead(&self) -> WorldRank {
        self.lead
    }

    /// Number of members.
    #[must_use]
    pub const fn size(&self) -> u32 {
        self.members.size
    }

    /// The members, in rank order.
    #[must_use]
    pub const fn members(&self) -> Members<'a> {
        self.members
    }

    /// The world rank of a member; O(log runs).
    #[must_use]
    pub fn world_rank_of(&self, rank: Rank) -> Option<WorldRank> {
        self.members.world_rank_of(rank)
    }

    /// The rank of a member; O(runs).
    #[must_use]
    pub fn rank_of(&self, world_rank: WorldRank) -> Option<Rank> {
        self.members.rank_of(world_rank)
    }

    /// Whether a process is a member; O(runs).
    #[must_use]
    pub fn contains(&self, world_rank: WorldRank) -> bool {
        self.members.contains(world_rank)
    }
}

fn put_run(w: &mut Writer<'_>, run: &Run) -> Result<(), Short> {
    w.u32(run.start)?;
    w.u32(run.first)?;
    w.u32(run.stride.cast_unsigned())
}

/// Checks that runs are what the greedy division of a list gives, and that every value is a world rank.
fn check_runs(members: &Members<'_>) -> Result<(), DescriptorError> {
    let runs = members.run_count();
    let mut continuation = None;
    let mut expected_start = 0;
    for at in 0..runs {
        let not_canonical = DescriptorError::NotCanonical(u32::try_from(at).unwrap_or(u32::MAX));
        let run = members.run(at).filter(|run| run.start == expected_start && run.count > 0).ok_or(not_canonical)?;
        let last = at + 1 == runs;
        let single = run.count == 1;
        if (single && (!last || run.stride != 0)) || (!single && run.stride == 0) || continuation == Some(run.first) {
            return Err(not_canonical);
        }
        let ends = [Some(run.first), run.value(run.count - 1)];
        if ends.iter().any(|end| end.is_none_or(|rank| rank >= Peer::CAPACITY)) {
            return Err(DescriptorError::WorldRankOutOfRange);
        }
        continuation = run.value(run.count);
        expected_start = run.start + run.count;
    }
    Ok(())
}
