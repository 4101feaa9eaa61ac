//! Groups of which loads fail, submitted again until they succeed.
//!
//! It is counted what their failures cost.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod random;

use std::collections::VecDeque;

use umbra_core::cache::Slot;
use umbra_core::stencil::{
    Action, ByNumber, Future, Grid, Group, Input, Limits, Order, Reference, Shape, Stencil, Storage, Swept, Unknown,
    count,
};

use random::Random;

/// Groups on a grid, in an order.
struct Sweep {
    extents: [u32; 3],
    radius: u32,
    shape: Shape,
    order: Order,
}

impl Sweep {
    fn grid(&self) -> Grid {
        Grid::new(self.extents, self.radius, self.shape).unwrap()
    }

    fn swept(&self) -> Swept {
        Swept::new(self.grid(), self.order).unwrap()
    }

    fn groups(&self) -> Vec<Vec<u64>> {
        let grid = self.grid();
        let group = |point| grid.group(point).collect();
        self.order.points(self.extents).unwrap().map(group).collect()
    }
}

/// How groups are served.
#[derive(Clone, Copy)]
struct Way {
    slots: u32,
    /// Groups that are submitted and not freed.
    window: u32,
    /// One load in so many fails; none with 0.
    failing: u64,
    counted: bool,
}

/// Loads in all, and those of them that failed. A group that fails is submitted again at once.
fn loads(groups: &[Vec<u64>], future: impl Future, way: Way, seed: u64) -> (u64, u64) {
    let Way { slots, window, failing, counted } = way;
    let most = groups.iter().map(Vec::len).max().unwrap();
    let inputs = groups.iter().flatten().max().unwrap() + 1;
    let mut inputs = vec![if counted { Input::NOT_USED } else { Input::UNBOUNDED }; inputs as usize];
    for group in groups {
        count(&mut inputs, group).unwrap();
    }
    let storage = Storage {
        slots: vec![Slot::EMPTY; slots as usize],
        buckets: vec![0; 256],
        inputs,
        groups: vec![Group::EMPTY; window as usize],
        references: vec![Reference::EMPTY; most * window as usize],
    };
    let limits = Limits { largest_group: most as u32, active: window, horizon: groups.len() as u64 };
    let mut stencil = Stencil::new(storage, ByNumber, future, 0..slots, limits).unwrap();
    let (mut chance, mut failures, mut done) = (Random(seed), 0, 0);
    let (mut new, mut again) = (0..groups.len() as u64, VecDeque::new());
    let (mut loading, mut ready) = (Vec::new(), Vec::new());
    for _ in 0..10_000_000 {
        while let Some(action) = stencil.poll() {
            match action {
                Action::Prepare { data, .. } => loading.push(data),
                Action::Ready { group, .. } => ready.push(group),
                Action::Failed { point, .. } => again.push_back(point),
                Action::Interrupted { .. } => unreachable!("nobody interrupts"),
            }
        }
        let room = stencil.under_way() < window as usize;
        if let Some(point) = room.then(|| again.pop_front().or_else(|| new.next())).flatten() {
            stencil.submit(point, &groups[point as usize]).unwrap();
        } else if !ready.is_empty() && (loading.is_empty() || chance.below(2) == 0) {
            stencil.free_group(ready.swap_remove(chance.below(ready.len() as u64) as usize)).unwrap();
            done += 1;
        } else if !loading.is_empty() {
            let data = loading.swap_remove(chance.below(loading.len() as u64) as usize);
            if failing > 0 && chance.below(failing) == 0 {
                failures += 1;
                stencil.failed(data).unwrap();
            } else {
                stencil.prepared(data).unwrap();
            }
        } else {
            assert_eq!(done, groups.len(), "nothing is to be done, but some groups are left");
            return (stencil.statistics().loads, failures);
        }
    }
    panic!("{done} of {} groups after {failures} failures", groups.len());
}

/// Grids, and slots with which much has to be loaded again.
fn sweeps() -> [(Sweep, u32); 3] {
    let tiles = Order::Tiles { edges: [1, 4, 6] };
    [
        (Sweep { extents: [1, 12, 24], radius: 2, shape: Shape::Box, order: Order::Rows }, 60),
        (Sweep { extents: [1, 10, 24], radius: 5, shape: Shape::Box, order: tiles }, 130),
        (Sweep { extents: [4, 12, 24], radius: 1, shape: Shape::Star, order: Order::Strips { width: 8 } }, 90),
    ]
}

#[test]
fn s50_what_was_loaded_stays_for_the_retry_of_a_group_that_failed() {
    let grid = Grid::new([1, 1, 3], 1, Shape::Box).unwrap();
    for input in [Input::UNBOUNDED, Input::used(1).unwrap()] {
        let storage = Storage {
            slots: [Slot::EMPTY; 3],
            buckets: [0; 16],
            inputs: [input; 3],
            groups: [Group::EMPTY; 1],
            references: [Reference::EMPTY; 3],
        };
        let limits = Limits { largest_group: 3, active: 1, horizon: 9 };
        let mut stencil = Stencil::new(storage, ByNumber, grid, 0..3, limits).unwrap();
        // The last load fails until the future has none of these groups any more.
        for attempt in 0..=10 {
            stencil.submit(1, &[0, 1, 2]).unwrap();
            while let Some(action) = stencil.poll() {
                match action {
                    Action::Prepare { data: 2, .. } if attempt < 10 => stencil.failed(2).unwrap(),
                    Action::Prepare { data, .. } => stencil.prepared(data).unwrap(),
                    Action::Ready { group, .. } => stencil.free_group(group).unwrap(),
                    Action::Failed { .. } | Action::Interrupted { .. } => {}
                }
            }
        }
        assert_eq!(stencil.statistics().loads, 13);
    }
}

#[test]
fn s50_one_group_after_the_other_a_failure_costs_the_load_that_failed_and_no_other() {
    for (sweep, slots) in sweeps() {
        let groups = sweep.groups();
        for (counted, seed) in [true, false].into_iter().flat_map(|counted| (0..20).map(move |seed| (counted, seed))) {
            let way = |failing| Way { slots, window: 1, failing, counted };
            let (without, _) = loads(&groups, sweep.swept(), way(0), seed);
            let unknown = loads(&groups, Unknown, way(0), seed).0;
            for failing in [100, 9, 3] {
                let (all, failures) = loads(&groups, sweep.swept(), way(failing), seed);
                assert_eq!(all, without + failures, "seed {seed}, one load in {failing}");
                let (all, failures) = loads(&groups, Unknown, way(failing), seed);
                assert_eq!(all, unknown + failures, "nothing is known, seed {seed}, one load in {failing}");
            }
        }
    }
}

#[test]
fn s50_groups_under_way_at_a_time_load_hardly_more_for_those_that_fail() {
    // With slots for a few groups, the rest of one that failed stays until it has gone through the line.
    let [boxes, _, stars] = sweeps();
    for ((sweep, slots), windows) in [(boxes, &[2, 3][..]), (stars, &[2, 3, 9])] {
        let groups = sweep.groups();
        for (&window, seed) in windows.iter().flat_map(|window| (0..20).map(move |seed| (window, seed))) {
            let way = |failing, counted| Way { slots, window, failing, counted };
            let (without, _) = loads(&groups, sweep.swept(), way(0, false), seed);
            for (failing, counted) in [(100, true), (100, false), (9, true), (9, false)] {
                let (all, failures) = loads(&groups, sweep.swept(), way(failing, counted), seed);
                let most = (without + failures) * 11 / 10;
                assert!(
                    all <= most,
                    "{all} loads, {most} at most; {window} groups, one load in {failing}, seed {seed}"
                );
            }
        }
    }
}
