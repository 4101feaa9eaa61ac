//! Which window of a run is cleared, and clearing it.

use super::runs::Run;
use super::{CachedMemory, Index, Lend, SEEDS, VIEW};
use crate::cache::slot::Slot;
use crate::memory::{Block, Tile};

/// Costs are counted in parts of this many.
const FIXED: u32 = 1 << 31;

/// A window that is long enough: its first range, and what it costs to load its content again.
#[derive(Clone, Copy)]
pub(super) struct Window {
    first: u32,
    cost: u64,
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
    /// What giving up a range costs: its length by the time until it is wanted.
    ///
    /// If nobody knows that time, it is taken to be as long as the content has been idle.
    #[inline]
    fn cost(&self, at: u32, len: u32) -> u64 {
        let Run { freed, wanted, .. } = *self.run(at);
        let wait = wanted.checked_sub(self.clock).filter(|wait| *wait > 0).unwrap_or(self.clock - freed + 1);
        // Of the shortest division that there is; the window with the greatest costs has less than 2^32 granules.
        let rate = FIXED / u32::try_from(wait).unwrap_or(FIXED).min(FIXED);
        // A load costs something whatever its length is.
        (u64::from(len) + 1) * u64::from(rate)
    }

    /// Looks at a range: it, and what giving it up costs.
    #[inline]
    fn look(&mut self, at: u32) -> (Tile, u64) {
        self.looks += 1;
        let tile = self.space.tile(at);
        (tile, if tile.free { 0 } else { self.cost(at, tile.len) })
    }

    /// The cheapest window of this length among the ranges from `from` on, [`VIEW`] of them at most.
    fn cheapest(&mut self, from: u32, len: u32) -> Option<Window> {
        let (mut best, mut first, mut end): (Option<Window>, _, _) = (None, from, from);
        let (mut sum, mut cost) = (0_u32, 0_u64);
        for _ in 0..VIEW {
            if !self.is_open(end) {
                break;
            }
            let (tile, more) = self.look(end);
            (sum, cost) = (sum + tile.len, cost + more);
            end = tile.after;
            // Without its first range the window is cheaper, if it is still long enough.
            while sum >= len {
                if best.is_none_or(|best| cost < best.cost) {
                    best = Some(Window { first, cost });
                }
                let tile = self.space.tile(first);
                sum -= tile.len;
                cost -= if tile.free { 0 } else { self.cost(first, tile.len) };
                first = tile.after;
            }
        }
        best
    }

    /// The cheapest window of this length that a range is in, within [`VIEW`] ranges, unless the best one is as cheap.
    ///
    /// It grows upwards until it is long enough, and then range by range downwards, while it is cut above.
    fn around(&mut self, seed: u32, len: u32, mut best: Option<Window>) -> Option<Window> {
        let is_better = |cost, best: Option<Window>| best.is_none_or(|best| cost < best.cost);
        let (tile, cost) = self.look(seed);
        let (mut first, mut below) = (seed, tile.before);
        // What the ranges from the lowest one up to the seed cost: no window that is still to come does without them.
        let mut must = cost;
        let (mut last, mut above) = (seed, tile.after);
        let (mut sum, mut cost) = (tile.len, cost);
        let mut view = 1;
        while sum < len && view < VIEW && is_better(cost, best) && self.is_open(above) {
            let (tile, more) = self.look(above);
            (last, above) = (above, tile.after);
            (sum, cost, view) = (sum + tile.len, cost + more, view + 1);
        }
        loop {
            while last != seed && sum >= len {
                let tile = self.space.tile(last);
                if sum - tile.len < len {
                    break;
                }
                sum -= tile.len;
                cost -= if tile.free { 0 } else { self.cost(last, tile.len) };
                last = tile.before;
            }
            if sum >= len && is_better(cost, best) {
                best = Some(Window { first, cost });
            }
            let done = last == seed && sum >= len;
            if done || view >= VIEW || !is_better(must, best) || !self.is_open(below) {
                return best;
            }
            let (tile, more) = self.look(below);
            (first, below) = (below, tile.before);
            (sum, cost, must, view) = (sum + tile.len, cost + more, must + more, view + 1);
        }
    }

    /// Clears a window of this length in some run that is long enough, of which there is one; gives the free
    /// range.
    pub(super) fn clear(&mut self, len: u32) -> Option<u32> {
        let mut best = None;
        let mut seed = self.idle.last;
        for _ in 0..SEEDS {
            let Some(slot) = self.slots.as_ref().get(seed as usize) else { break };
            let newer = slot.prev;
            if self.is_open(seed) {
                best = self.around(seed, len, best);
            }
            seed = newer;
        }
        match best {
            Some(window) => self.clear_from(window.first, len),
            None => {
                let run = self.run_of(len)?;
                self.clear_run(run, len)
            }
        }
    }

    /// Clears a window of this length in a run that is long enough; gives the free range.
    pub(super) fn clear_run(&mut self, run: u32, len: u32) -> Option<u32> {
        let first = self.first_of(run);
        // If the view is too short for the length, the window is that at the front, however many leave.
        let first = self.cheapest(first, len).map_or(first, |window| window.first);
        self.clear_from(first, len)
    }

    /// Evicts from a range on until so much is free in one piece; gives the free range.
    fn clear_from(&mut self, first: u32, len: u32) -> Option<u32> {
        let mut at = first;
        while self.is_open(at) {
            let free = if self.space.tile(at).free { at } else { self.evict(at) };
            let tile = self.space.tile(free);
            if tile.len >= len {
                return Some(free);
            }
            at = tile.after;
        }
        None
    }

    /// Gives up idle content; gives the free range that it is part of now.
    pub(super) fn evict(&mut self, at: u32) -> u32 {
        self.statistics.cache.evictions += 1;
        self.statistics.evicted_bytes += self.bytes(self.space.tile(at).len);
        self.evictions += 1;
        self.drop_idle(at)
    }

    /// Takes idle content out; gives the free range that it is part of now.
    pub(super) fn drop_idle(&mut self, at: u32) -> u32 {
        self.idle.unlink(self.slots.as_mut(), at);
        self.vacate(at)
    }

    /// Makes a place free that is in no run's way and in no list; gives the free range that it is part of now.
    pub(super) fn vacate(&mut self, at: u32) -> u32 {
        let data = self.slot(at).data;
        self.index.remove(data);
        *self.slot_mut(at) = Slot::EMPTY;
        self.places -= 1;
        self.space.release_at(at)
    }

    /// The idle data used longest ago that is not held for the group under way.
    pub(super) fn oldest(&self) -> Option<u32> {
        let mut at = self.idle.last;
        while let Some(slot) = self.slots.as_ref().get(at as usize) {
            if self.is_open(at) {
                return Some(at);
            }
            at = slot.prev;
        }
        None
    }

    /// Begins to count the work of a request.
    pub(super) fn begin(&mut self) {
        (self.looks, self.evictions) = (0, 0);
    }

    /// Notes the work of a request.
    pub(super) fn end(&mut self) {
        let statistics = &mut self.statistics;
        statistics.most_looks = statistics.most_looks.max(self.looks);
        statistics.most_evictions = statistics.most_evictions.max(self.evictions);
    }
}
