//! Stretches in which nothing is in use, by length.

use super::{CachedMemory, Index, Lend, PEEK};
use crate::cache::slot::Slot;
use crate::memory::Block;
use crate::memory::bins::{Bin, Binned, Links, NIL};

/// Below a place that has cut no run yet.
pub(super) const NO_CUT: u32 = NIL - 1;

/// The record of one place: the run behind it, and the past and future of its content. A cached memory is lent an
/// array of them.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Granules up to the next data in use; 0 unless this place is in use.
    len: u32,
    /// Granules that the plan for a group wants of it: it stands in the bin of what is left.
    pub(super) planned: u32,
    /// [`NIL`] unless this place is in use; then the place in use below this one, or [`NO_CUT`].
    below: u32,
    /// The place in use above this one; if this one has cut no run, where it stands among those.
    above: u32,
    links: Links,
    /// When the last reference to the content was given back.
    pub(super) freed: u64,
    /// When the content is wanted again; 0 if nobody knows.
    pub(super) wanted: u64,
}

impl Run {
    /// A record that no memory has used yet.
    pub const EMPTY: Self = Run { len: 0, planned: 0, below: NIL, above: NIL, links: Links::NONE, freed: 0, wanted: 0 };

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

    #[inline]
    fn change_run(&mut self, at: u32, change: impl FnOnce(&mut Run)) {
        let run = self.run_mut(at);
        let old = *run;
        change(run);
        let (old, new) = (old.left(), run.left());
        if old > 0 && new > 0 && Bin::of(old) == Bin::of(new) {
            return;
        }
        if old > 0 {
            self.bins.unlink_from(self.runs.as_mut(), at, Bin::of(old));
        }
        if new > 0 {
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
    pub(super) fn run_of(&mut self, len: u32) -> Option<u32> {
        self.cut_all();
        self.run_if_all_cut(len)
    }

    /// The same if all places in use have cut their runs.
    pub(super) fn run_if_all_cut(&self, len: u32) -> Option<u32> {
        debug_assert!(self.uncut.is_empty());
        self.bins.find_any(self.runs.as_ref(), len, PEEK)
    }

    /// The length of the longest run, or of one in the same bin; looks at all ranges unless all places in use have cut
    /// their runs.
    pub(super) fn longest(&self) -> u32 {
        if self.uncut.is_empty() {
            let head = self.bins.top().map(|bin| self.bins.head(bin));
            return head.and_then(|at| self.runs.as_ref().get(at as usize)).map_or(0, |run| run.len);
        }
        let (mut at, mut len, mut longest) = (self.space.first(), 0, 0);
        while at != NIL {
            let tile = self.space.tile(at);
            len = if self.is_open(at) { len + tile.len } else { 0 };
            longest = longest.max(len);
            at = tile.after;
        }
        longest
    }

    /// A range of a run is in use now.
    pub(super) fn pin(&mut self, at: u32) {
        self.in_use += 1;
        self.in_use_len += self.space.tile(at).len;
        // Those who wait are told by the runs whether to try again.
        if !self.line.may_go(None) {
            return self.cut(at);
        }
        let (place, old) = self.uncut.put(at);
        let run = self.run_mut(at);
        (run.below, run.above) = (NO_CUT, place);
        if let Some(old) = old {
            self.cut(old);
        }
    }

    /// All places in use cut their runs.
    pub(super) fn cut_all(&mut self) {
        while let Some(at) = self.uncut.pop() {
            self.cut(at);
        }
    }

    /// A range in use ends the run that it is in, and another begins behind it.
    fn cut(&mut self, at: u32) {
        let tile = self.space.tile(at);
        let below = self.run_at(tile.start);
        let Run { len, above, .. } = *self.run(below);
        let front = tile.start - self.run_start(below);
        self.set_run(below, front);
        self.set_run(at, len - front - tile.len);
        self.tie(below, at);
        self.tie(at, above);
        self.pinned.insert(tile.start);
    }

    /// A range is not in use any more: the runs in front and behind become one.
    pub(super) fn unpin(&mut self, at: u32) {
        let tile = self.space.tile(at);
        self.in_use -= 1;
        self.in_use_len -= tile.len;
        let Run { len, below, above, .. } = *self.run(at);
        self.run_mut(at).below = NIL;
        if below == NO_CUT {
            if let Some(moved) = self.uncut.remove(above) {
                self.run_mut(moved).above = above;
            }
            return;
        }
        self.pinned.remove(tile.start);
        self.set_run(at, 0);
        self.set_run(below, self.run(below).len + tile.len + len);
        self.tie(below, above);
    }

    /// Makes two places in use neighbours.
    fn tie(&mut self, below: u32, above: u32) {
        self.run_mut(below).above = above;
        if let Some(run) = self.runs.as_mut().get_mut(above as usize) {
            run.below = below;
        }
    }

    /// Whether a range belongs to a run.
    #[inline]
    pub(super) fn is_open(&self, at: u32) -> bool {
        self.runs.as_ref().get(at as usize).is_some_and(|run| run.below == NIL)
    }
}
