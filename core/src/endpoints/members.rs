//! Ordered lists of world ranks as arithmetic runs.
//!
//! The members of a group are nearly always a few arithmetic runs: all ranks, a row, a column. A run takes 12 bytes
//! and says from which rank of the group on it holds, its first world rank and its stride. Runs are *greedy*: each is
//! as long as it can be and only the last may hold a single member, so one list has exactly one run form.

use crate::codec::Reader;
use crate::peer::{Rank, WorldRank};

/// Bytes of one run.
pub(super) const RUN_BYTES: usize = 12;

/// An arithmetic run of members: ranks `start..start + count` are `first`, `first + stride`, …
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// Rank of the first member of the run.
    pub start: u32,
    /// Members in the run.
    pub count: u32,
    /// World rank of the first member.
    pub first: u32,
    /// From one member to the next; never zero in a run of two or more, zero in a run of one.
    pub stride: i32,
}

impl Run {
    /// The value at position `at` of the run, which may lie past its end; `None` if it is no world rank.
    pub(super) fn value(&self, at: u32) -> Option<u32> {
        u32::try_from(i64::from(self.first) + i64::from(self.stride) * i64::from(at)).ok()
    }

    fn position(&self, world_rank: WorldRank) -> Option<u32> {
        let distance = i64::from(world_rank.0) - i64::from(self.first);
        let at = match self.stride {
            0 => (distance == 0).then_some(0)?,
            stride => (distance % i64::from(stride) == 0).then_some(distance / i64::from(stride))?,
        };
        u32::try_from(at).ok().filter(|&at| at < self.count)
    }
}

/// The members of a group, in rank order; a view of validated run records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Members<'a> {
    pub(super) size: u32,
    pub(super) records: &'a [u8],
}

impl<'a> Members<'a> {
    /// Number of members.
    #[must_use]
    pub const fn size(&self) -> u32 {
        self.size
    }

    /// Number of runs.
    #[must_use]
    pub const fn run_count(&self) -> usize {
        self.records.len() / RUN_BYTES
    }

    fn record(&self, at: usize) -> Option<(u32, u32, i32)> {
        let from = at.checked_mul(RUN_BYTES)?;
        let mut r = Reader::new(self.records.get(from..from.checked_add(RUN_BYTES)?)?);
        Some((r.u32().ok()?, r.u32().ok()?, r.u32().ok()?.cast_signed()))
    }

    /// The run at index `at`.
    #[must_use]
    pub fn run(&self, at: usize) -> Option<Run> {
        let (start, first, stride) = self.record(at)?;
        let end = self.record(at + 1).map_or(self.size, |(next, ..)| next);
        Some(Run { start, count: end.checked_sub(start)?, first, stride })
    }

    /// The runs, in rank order.
    pub fn runs(&self) -> impl Iterator<Item = Run> + use<'a> {
        let members = *self;
        (0..members.run_count()).map_while(move |at| members.run(at))
    }

    /// The world rank of a member; O(log runs).
    #[must_use]
    pub fn world_rank_of(&self, rank: Rank) -> Option<WorldRank> {
        if rank.0 >= self.size {
            return None;
        }
        let (mut low, mut high) = (0, self.run_count());
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.record(middle)?.0 <= rank.0 { low = middle } else { high = middle }
        }
        let run = self.run(low)?;
        run.value(rank.0.checked_sub(run.start)?).map(WorldRank)
    }

    /// The rank of a member; O(runs).
    #[must_use]
    pub fn rank_of(&self, world_rank: WorldRank) -> Option<Rank> {
        self.runs().find_map(|run| run.position(world_rank).map(|at| Rank(run.start + at)))
    }

    /// Whether a process is a member; O(runs).
    #[must_use]
    pub fn contains(&self, world_rank: WorldRank) -> bool {
        self.rank_of(world_rank).is_some()
    }

    /// The world ranks, in rank order.
    pub fn iter(&self) -> impl Iterator<Item = WorldRank> + use<'a> {
        self.runs().flat_map(|run| (0..run.count).map_while(move |at| run.value(at).map(WorldRank)))
    }
}
