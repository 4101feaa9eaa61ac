//! Several groups under way at a time, in one thread.
//!
//! Their loads are compared with the fewest for so many together.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::VecDeque;

use umbra::stencil::{Groups, Plan, Stop, optimum};
use umbra_core::stencil::{Action, Future, Grid, Input, Order, Shape, Swept};
use umbra_tests::sweep::{cache, ordered, rows};

/// Loads with so many groups under way, of which the oldest is done next.
fn loads(groups: &Groups, future: impl Future, slots: u32, active: u32) -> u64 {
    let inputs = vec![Input::UNBOUNDED; groups.inputs()];
    let plan = Plan { active, window: active as usize, horizon: groups.len() as u64 };
    let mut stencil = cache(slots, groups.largest(), inputs, future, plan);
    let (mut points, mut ready) = (0..groups.len(), VecDeque::new());
    let mut coming = points.next();
    loop {
        while let Some(action) = stencil.poll() {
            match action {
                Action::Prepare { data, .. } => stencil.prepared(data).unwrap(),
                Action::Ready { group, .. } => ready.push_back(group),
                other => panic!("{other:?}"),
            }
        }
        if let Some(point) = coming.filter(|_| stencil.under_way() < active as usize) {
            stencil.submit(point as u64, groups.get(point)).unwrap();
            coming = points.next();
        } else if let Some(oldest) = ready.pop_front() {
            stencil.free_group(oldest).unwrap();
        } else {
            assert_eq!((coming, stencil.under_way()), (None, 0), "all groups were ready");
            return stencil.statistics().loads;
        }
    }
}

#[test]
fn s55_on_every_plane_with_any_slots_as_many_as_are_under_way_take_the_fewest_loads() {
    for (rows_, columns) in [50, 100, 150, 200].into_iter().flat_map(|n| [50, 100, 150, 200].map(|m| (n, m))) {
        for radius in [2, 3] {
            let grid = Grid::new([1, rows_, columns], radius, Shape::Box).unwrap();
            let groups = rows(&grid);
            for active in [1, 4, 9] {
                let enough = 2 * radius * columns + 2 * radius + 1 + active - 1;
                let taken = |slots| loads(&groups, grid, slots, active);
                let all = u64::from(grid.len());
                assert_eq!([enough, enough + 17, 2 * enough].map(taken), [all; 3], "{grid:?} {active}");
                for slots in [enough - 1, enough - 30, enough / 2] {
                    let fewest = optimum::loads_together(&groups, slots as usize, active as usize, &Stop::default());
                    let (fewest, taken) = (fewest.unwrap(), taken(slots));
                    let case = format!("{grid:?}, {slots} slots, {active} under way: {taken}, {fewest}");
                    // Up to 4094 groups each has a bucket of its own.
                    let most = if all <= 4094 { fewest } else { fewest + fewest / 200 };
                    assert!(all < fewest && (fewest..=most).contains(&taken), "{case}");
                }
            }
        }
    }
}

#[test]
fn s69_in_strips_as_many_as_are_under_way_take_the_fewest_loads() {
    for (extents, shape, width, slots) in
        [([1, 60, 50], Shape::Box, 13, 90), ([1, 60, 50], Shape::Star, 9, 60), ([5, 12, 10], Shape::Box, 4, 250)]
    {
        let (grid, order) = (Grid::new(extents, 2, shape).unwrap(), Order::Strips { width });
        let groups = ordered(&grid, extents, order);
        for active in [1, 2, 3, 7] {
            let fewest = optimum::loads_together(&groups, slots as usize, active as usize, &Stop::default());
            let taken = loads(&groups, Swept::new(grid, order).unwrap(), slots, active);
            assert_eq!(Some(taken), fewest, "{grid:?}, {slots} slots, {active} under way");
        }
    }
}
