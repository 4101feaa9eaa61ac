//! Stretches in which nothing is in use, by length.

use super::{CachedMemory, Index, Lend, PEEK};
use crate::cache::slot::Slot;
use crate::memory::Block;
use crate::memory::bins::{Binned, Links, NIL};

/// The record of one place: the run behind it, and the past and future of its content. A cached memory is lent an
/// array of them.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Granules up to the next data in use; 0 unless this place is in use.
    len: u32,
    /// Granules that the plan for a group wants of it: it stands in the bin of what is left.
    pub(super) planned: u32,
    /// The next run of the plan.
    pub(super) chain: u32,
    links: Links,
    /// When the last reference to the content was given back.
    pub(super) freed: u64,
    /// When the content is wanted again; 0 if nobody knows.
    pub(super) wanted: u64,
}

impl Run {
    /// A record that no memory has used yet.
    pub const EMPTY: Self = Run { len: 0, planned: 0, chain: NIL, links: Links::NONE, freed: 0, wanted: 0 };

    /// Granules that no plan wants.
    const fn left(&self) -> u32 {
        self.len - self.planned
    }
}

impl Default for Run {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl Binned for Run {
    fn length(&self) -> u32 {
        self.left()
    }
    fn links(&mut self) -> &mut Links {
        &mut self.links
    }
    fn next(&self) -> u32 {
        self.links.next
    }
}

impl<B, S, R, T, W, I> CachedMemory<B, S, R, T, W, I>
where
    B: Lend<Block>,
    S: Lend<Slot>,
    R: Lend<Run>,
    T: Lend<u32>,
    W: Lend<u64>,
    I: Index,
{
    pub(super) fn run(&self, at: u32) -> &Run {
        &self.runs.as_ref()[at as usize]
    }

    pub(super) fn run_mut(&mut self, at: u32) -> &mut Run {
        &mut self.runs.as_mut()[at as usize]
    }

    /// Gives the run behind a place another length; an empty one stands in no bin.
    pub(super) fn set_run(&mut self, at: u32, len: u32) {
        self.change_run(at, |run| run.len = len);
    }

    /// A plan wants so much of a run.
    pub(super) fn plan(&mut self, at: u32, granules: u32) {
        self.change_run(at, |run| run.planned = granules);
    }

    fn change_run(&mut self, at: u32, change: impl FnOnce(&mut Run)) {
        if self.run(at).left() > 0 {
            self.bins.unlink(self.runs.as_mut(), at);
        }
        change(self.run_mut(at));
        if self.run(at).left() > 0 {
            self.bins.link(self.runs.as_mut(), at);
        }
    }

    /// The run that a granule lies in, or that ends there.
    fn run_at(&self, granule: u32) -> u32 {
        self.pinned.below(granule).and_then(|start| self.space.starting_at(start)).unwrap_or(self.bottom)
    }

    /// The granule at which a run starts.
    fn run_start(&self, run: u32) -> u32 {
        if run == self.bottom {
            return 0;
        }
        let tile = self.space.tile(run);
        tile.start + tile.len
    }

    /// The first range of a run, if that is not empty.
    pub(super) fn first_of(&self, run: u32) -> u32 {
        if run == self.bottom { self.space.first() } else { self.space.tile(run).after }
    }

    /// A run of which so much is left at least: if there is one it is found. Only if none is longer by a bin, all are looked at
    /// that are about as long.
    pub(super) fn run_of(&self, len: u32) -> Option<u32> {
        self.bins.find_any(self.runs.as_ref(), len, PEEK)
    }

    /// The length of the longest run, or of one in the same bin.
    pub(super) fn longest(&self) -> u32 {
        let head = self.bins.top().map(|bin| self.bins.head(bin));
        head.and_then(|at| self.runs.as_ref().get(at as usize)).map_or(0, |run| run.len)
    }

    /// A range of a run is in use now: it ends the run, and another begins behind it.
    pub(super) fn pin(&mut self, at: u32) {
        let tile = self.space.tile(at);
        let run = self.run_at(tile.start);
        let front = tile.start - self.run_start(run);
        let back = self.run(run).len - front - tile.len;
        self.set_run(run, front);
        self.set_run(at, back);
        self.pinned.insert(tile.start);
        self.in_use += 1;
        self.in_use_len += tile.len;
    }

    /// A range is not in use any more: the runs in front and behind become one.
    pub(super) fn unpin(&mut self, at: u32) {
        let tile = self.space.tile(at);
        self.pinned.remove(tile.start);
        let run = self.run_at(tile.start);
        let back = self.run(at).len;
        self.set_run(at, 0);
        self.set_run(run, self.run(run).len + tile.len + back);
        self.in_use -= 1;
        self.in_use_len -= tile.len;
    }

    /// Whether a range belongs to a run.
    pub(super) fn is_open(&self, at: u32) -> bool {
        at != NIL && !self.pinned.contains(self.space.tile(at).start)
    }
}
