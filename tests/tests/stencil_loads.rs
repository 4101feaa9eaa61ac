//! How many loads the stencil cache needs, against the fewest that are possible.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use umbra::sim::Random;
use umbra::stencil::{Groups, Known, Plan, optimum};
use umbra_core::stencil::{Action, Grid, Input, Order, Shape, Strips, Swept, Unknown};
use umbra_tests::sweep::{cache, fewest, loads, ordered, rows, usage};

/// The numbers of slots that were published for the plane of 200 x 200 points and boxes of radius 3.
const PLANE: [u32; 7] = [100, 250, 500, 750, 1000, 1206, 1207];

fn plane(rows: u32, columns: u32, radius: u32, shape: Shape) -> Grid {
    Grid::new([1, rows, columns], radius, shape).unwrap()
}

/// Loads with the future in closed form, and without a usage map.
fn foreseen(grid: &Grid, groups: &Groups, slots: u32) -> u64 {
    let inputs = vec![Input::UNBOUNDED; groups.inputs()];
    let horizon = 2 * u64::from(grid.len());
    loads(&mut cache(slots, grid.largest_group(), inputs, *grid, Plan::one(horizon)), groups)
}

/// The same in an order that is known in closed form.
fn foreseen_in(order: Order, grid: &Grid, groups: &Groups, slots: u32) -> u64 {
    let (inputs, future) = (vec![Input::UNBOUNDED; groups.inputs()], Swept::new(*grid, order).unwrap());
    loads(&mut cache(slots, grid.largest_group(), inputs, future, Plan::one(groups.len() as u64)), groups)
}

/// The same without a list of the groups, for large grids.
fn swept(grid: &Grid, slots: u32) -> u64 {
    let inputs = vec![Input::UNBOUNDED; grid.len() as usize];
    let mut stencil = cache(slots, grid.largest_group(), inputs, *grid, Plan::one(2 * u64::from(grid.len())));
    let mut group = Vec::with_capacity(grid.largest_group());
    for point in 0..u64::from(grid.len()) {
        group.clear();
        group.extend(grid.group(point));
        stencil.submit(point, &group).unwrap();
        while let Some(action) = stencil.poll() {
            match action {
                Action::Prepare { data, .. } => stencil.prepared(data).unwrap(),
                Action::Ready { group, .. } => stencil.free_group(group).unwrap(),
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(stencil.idle(), stencil.len(), "all groups are over");
    stencil.statistics().loads
}

/// Loads where so many groups are known ahead, and this of how often each input is used.
fn ahead(groups: &Groups, slots: u32, inputs: Vec<Input>, window: usize) -> u64 {
    loads(&mut cache(slots, groups.largest(), inputs, Unknown, Plan::window(window)), groups)
}

/// Loads with the usage map.
fn windowed(groups: &Groups, slots: u32, window: usize) -> u64 {
    ahead(groups, slots, usage(groups), window)
}

/// The same without the map.
fn without_map(groups: &Groups, slots: u32, window: usize) -> u64 {
    ahead(groups, slots, vec![Input::UNBOUNDED; groups.inputs()], window)
}

#[test]
fn s66_from_the_closed_form_number_of_slots_on_each_input_is_loaded_once() {
    let grids = [
        (plane(30, 20, 1, Shape::Box), 2 * 20 + 3),
        (plane(30, 40, 2, Shape::Box), 4 * 40 + 5),
        (plane(40, 31, 3, Shape::Box), 6 * 31 + 7),
        (plane(30, 20, 1, Shape::Star), 2 * 20 + 1),
        (plane(30, 40, 2, Shape::Star), 4 * 40 + 1),
        (plane(40, 31, 3, Shape::Star), 6 * 31 + 1),
        (Grid::new([9, 8, 7], 1, Shape::Box).unwrap(), 2 * 56 + 2 * 7 + 3),
        (Grid::new([9, 12, 10], 2, Shape::Box).unwrap(), 4 * 120 + 4 * 10 + 5),
        (Grid::new([20, 20, 20], 1, Shape::Box).unwrap(), 2 * 400 + 2 * 20 + 3),
        (Grid::new([9, 8, 7], 1, Shape::Star).unwrap(), 2 * 56 + 1),
        (Grid::new([9, 12, 10], 2, Shape::Star).unwrap(), 4 * 120 + 1),
        (Grid::new([20, 20, 20], 1, Shape::Star).unwrap(), 2 * 400 + 1),
    ];
    for (grid, slots) in grids {
        let groups = rows(&grid);
        let compulsory = u64::from(grid.len());
        for (slots, enough) in [(slots, true), (slots - 1, false)] {
            let fewest = optimum::loads(&groups, slots as usize).unwrap();
            assert_eq!(fewest == compulsory, enough, "{grid:?}");
            assert_eq!(foreseen(&grid, &groups, slots), fewest, "{grid:?}");
            // The usage map lets the dead leave at once; that alone reaches the bound.
            let blind = windowed(&groups, slots, 1);
            assert!(blind >= fewest && (blind == compulsory) == enough, "{grid:?}: {blind}");
        }
    }
}

#[test]
fn s66_on_the_published_plane_one_slot_less_costs_a_load_a_row_and_a_space_needs_the_slots_that_are_published() {
    let plane = plane(200, 200, 3, Shape::Box);
    let groups = rows(&plane);
    for (slots, published) in [(1207, 40_000), (1206, 40_201)] {
        assert_eq!(optimum::loads(&groups, slots as usize), Some(published));
        assert_eq!(foreseen(&plane, &groups, slots), published, "{slots} slots");
    }
    let space = Grid::new([100; 3], 1, Shape::Box).unwrap();
    for (slots, enough) in [(20_203, true), (20_202, false)] {
        assert_eq!(swept(&space, slots) == u64::from(space.len()), enough, "{slots} slots");
    }
}

#[test]
fn s67_each_missing_slot_costs_a_load_a_row() {
    let space = |extents, radius, shape| Grid::new(extents, radius, shape).unwrap();
    for (grid, enough, outer) in [
        (plane(60, 50, 1, Shape::Box), 2 * 50 + 3, 60),
        (plane(60, 50, 2, Shape::Box), 4 * 50 + 5, 60),
        (plane(50, 60, 3, Shape::Box), 6 * 60 + 7, 50),
        (plane(60, 80, 1, Shape::Star), 2 * 80 + 1, 60),
        (plane(60, 50, 2, Shape::Star), 4 * 50 + 1, 60),
        (plane(50, 60, 3, Shape::Star), 6 * 60 + 1, 50),
        (space([12, 20, 20], 1, Shape::Box), 2 * 400 + 43, 12),
        (space([10, 16, 24], 2, Shape::Box), 4 * 384 + 4 * 24 + 5, 10),
        (space([12, 20, 20], 1, Shape::Star), 2 * 400 + 1, 12),
        (space([10, 16, 24], 2, Shape::Star), 4 * 384 + 1, 10),
    ] {
        for missing in [1, 10, 20] {
            let groups = rows(&grid);
            let fewest = optimum::loads(&groups, enough - missing).unwrap() as f64;
            let formula = (u64::from(grid.len()) + missing as u64 * (outer - 1)) as f64;
            assert!((fewest / formula - 1.0).abs() < 0.025, "{grid:?} {missing}: {fewest} {formula}");
        }
    }
}

#[test]
fn s68_a_known_future_needs_the_fewest_loads_and_a_window_of_rows_as_well() {
    let grid = plane(200, 200, 3, Shape::Box);
    let groups = rows(&grid);
    for slots in PLANE {
        let fewest = optimum::loads(&groups, slots as usize).unwrap();
        assert_eq!(foreseen(&grid, &groups, slots), fewest, "{slots} slots");
        assert_eq!(windowed(&groups, slots, 7 * 200), fewest, "{slots} slots, window");
    }
    let fewest = optimum::loads(&groups, 1000).unwrap();
    assert_eq!(fewest, 81_810, "as published");
    assert_eq!(without_map(&groups, 1000, 7 * 200), fewest, "a window of rows needs no map");
    // Without such a window, and without a map: what is lost.
    let with_map = [1, 100].map(|window| windowed(&groups, 1000, window));
    let without = [1, 100].map(|window| without_map(&groups, 1000, window));
    assert_eq!((with_map, without), ([274_980, 120_860], [275_958, 157_540]));

    let strips = Order::Strips { width: 100 };
    let groups = ordered(&grid, [1, 200, 200], strips);
    let fewest = optimum::loads(&groups, 1000).unwrap();
    assert_eq!(fewest, 40_783, "as published");
    for slots in PLANE {
        let fewest = optimum::loads(&groups, slots as usize).unwrap();
        let (inputs, plan) = (vec![Input::UNBOUNDED; groups.inputs()], Plan::one(groups.len() as u64));
        let taken = loads(&mut cache(slots, groups.largest(), inputs, Known::new(&groups).unwrap(), plan), &groups);
        assert!(taken as f64 <= fewest as f64 * 1.001, "{slots} slots in strips: {taken} {fewest}");
        assert_eq!(foreseen_in(strips, &grid, &groups, slots), taken, "{slots} slots in strips, in closed form");
    }
    // The inputs that the next strip uses again are beyond the window: only the map knows that they are.
    let taken = [windowed(&groups, 1000, 7 * 100), windowed(&groups, 1000, 1)];
    let without = [without_map(&groups, 1000, 7 * 100), without_map(&groups, 1000, 1)];
    assert_eq!((taken, without), ([40_825, 40_825], [41_200, 41_200]));
}

#[test]
fn s68_buckets_that_are_many_groups_wide_cost_next_to_nothing() {
    let grid = Grid::new([6, 60, 60], 1, Shape::Box).unwrap();
    let groups = rows(&grid);
    for slots in [3000, 5000, 6000] {
        let inputs = vec![Input::UNBOUNDED; groups.inputs()];
        let plan = Plan::one(1 << 20);
        let taken = loads(&mut cache(slots, 27, inputs, grid, plan), &groups) as f64;
        let fewest = optimum::loads(&groups, slots as usize).unwrap() as f64;
        assert!(taken <= fewest * 1.001, "{slots}: {taken} {fewest}");
    }
}

#[test]
fn s69_a_listed_future_of_any_strips_needs_the_fewest_loads_and_the_closed_form_as_well() {
    let mut random = Random::new(69);
    for case in 0..60 {
        let mut within = |most: u64| random.below(most) as u32;
        let extents = [4, 7, 8].map(|most| 1 + within(most));
        let (radius, width, more) = (within(4), 1 + within(8), within(40));
        let grid = Grid::new(extents, radius, if within(2) == 0 { Shape::Star } else { Shape::Box }).unwrap();
        let order = Order::Strips { width };
        let groups = ordered(&grid, extents, order);
        let (slots, inputs) = (groups.largest() as u32 + more, vec![Input::UNBOUNDED; groups.inputs()]);
        let plan = Plan::one(groups.len() as u64);
        let taken = loads(&mut cache(slots, groups.largest(), inputs, Known::new(&groups).unwrap(), plan), &groups);
        assert_eq!(Some(taken), optimum::loads(&groups, slots as usize), "case {case}: {grid:?} {width} {slots}");
        assert_eq!(
            taken,
            foreseen_in(order, &grid, &groups, slots),
            "case {case}, in closed form: {grid:?} {width} {slots}"
        );
    }
}

#[test]
fn s71_a_space_of_640_squared_planes_takes_the_published_loads() {
    let (grid, slots) = (Grid::new([6, 640, 640], 1, Shape::Box).unwrap(), 640_000);
    assert_eq!(fewest(&grid, slots), 3_360_015, "as published");
    // The closed form: a load a point, and one more a plane for each slot that is missing.
    assert_eq!(u64::from(grid.len()) + (820_483 - u64::from(slots)) * 5, 3_360_015);
    assert_eq!(swept(&grid, slots), 3_360_015);
}

#[test]
fn s68_large_planes_and_spaces_take_the_fewest_loads() {
    let space = Grid::new([6, 512, 512], 1, Shape::Box).unwrap();
    assert_eq!(swept(&space, 640_000), u64::from(space.len()), "all of it fits");
    let plane = plane(2000, 2000, 1, Shape::Box);
    assert_eq!(swept(&plane, 2 * 2000 + 3), 4_000_000, "as many as the closed form says");
    let (taken, fewest) = (swept(&plane, 3000), fewest(&plane, 3000));
    assert!(taken as f64 <= fewest as f64 * 1.001, "{taken} {fewest}");
    // Each missing slot costs a load a row.
    let formula = 4_000_000.0 + 1003.0 * 1999.0;
    assert!((fewest as f64 / formula - 1.0).abs() < 0.025, "{fewest} {formula}");
}

#[test]
fn in_any_order_a_listed_future_needs_the_fewest_loads() {
    let cases = [
        (plane(60, 50, 1, Shape::Box), [1, 60, 50], 60),
        (plane(40, 61, 2, Shape::Star), [1, 40, 61], 50),
        (Grid::new([7, 12, 10], 1, Shape::Box).unwrap(), [7, 12, 10], 90),
    ];
    let orders = [Order::Rows, Order::Strips { width: 9 }, Order::Tiles { edges: [3, 7, 6] }, Order::Hilbert];
    for (grid, extents, slots) in cases {
        for order in orders {
            let groups = ordered(&grid, extents, order);
            let inputs = vec![Input::UNBOUNDED; groups.inputs()];
            let plan = Plan::one(groups.len() as u64);
            let taken = loads(&mut cache(slots, groups.largest(), inputs, Known::new(&groups).unwrap(), plan), &groups);
            assert_eq!(Some(taken), optimum::loads(&groups, slots as usize), "{grid:?} {order:?}");
            if order != Order::Hilbert {
                assert_eq!(foreseen_in(order, &grid, &groups, slots), taken, "{grid:?} {order:?}, in closed form");
            }
        }
    }
}

/// Loads of a sweep in the strips that fit, as said before and in truth, and by rows.
fn in_strips(extents: [u32; 3], radius: u32, shape: Shape, slots: u32) -> [u64; 3] {
    let grid = Grid::new(extents, radius, shape).unwrap();
    let strips = Strips::fit(extents, radius, shape, slots, 1).unwrap();
    for active in [4, 9] {
        let more = Strips::fit(extents, radius, shape, slots + active - 1, active);
        assert_eq!(more, Some(strips), "each group under way costs a slot");
    }
    let fewest = |groups| optimum::loads(&groups, slots as usize).unwrap();
    [strips.loads, fewest(ordered(&grid, extents, strips.order())), fewest(rows(&grid))]
}

#[test]
fn strips_cost_what_was_said_before() {
    for (extents, radius, slots, shape) in [
        ([1, 200, 200], 3, 1000, Shape::Box),
        ([1, 200, 200], 1, 60, Shape::Box),
        ([1, 200, 200], 1, 120, Shape::Box),
        ([1, 200, 200], 1, 240, Shape::Box),
        ([1, 100, 300], 2, 240, Shape::Box),
        ([20, 30, 40], 1, 500, Shape::Box),
        ([1, 200, 200], 1, 60, Shape::Star),
        ([1, 200, 200], 1, 120, Shape::Star),
        ([1, 200, 200], 1, 240, Shape::Star),
        ([1, 200, 200], 3, 1000, Shape::Star),
        ([1, 100, 300], 2, 240, Shape::Star),
        ([20, 30, 40], 1, 500, Shape::Star),
        ([20, 30, 40], 2, 900, Shape::Star),
    ] {
        let [said, fewest, by_rows] = in_strips(extents, radius, shape, slots);
        let case = format!("{extents:?} {radius} {slots} {shape:?}: {said}, but {fewest}");
        assert!(fewest <= said && said as f64 <= 1.03 * fewest as f64, "{case}");
        assert!(fewest <= by_rows, "{case} in strips, {by_rows} in rows");
    }
}

#[test]
fn strips_are_even_or_narrow_enough_to_keep_their_rims() {
    // Two of 100, not 158 and what is left: 41,137 loads.
    let published = Strips::fit([1, 200, 200], 3, Shape::Box, 1000, 1).unwrap();
    assert_eq!((published.edges, published.loads), ([1, 200, 100], 41_200));
    assert_eq!(in_strips([1, 200, 200], 3, Shape::Box, 1000)[1], 40_783);
    // The widest are two of 56 and 44, of which the second would load a part of its rim again: 2862 loads.
    assert_eq!(in_strips([1, 28, 100], 3, Shape::Star, 379)[1], 2800, "each input once");
    assert_eq!(Strips::fit([6, 640, 640], 1, Shape::Box, 640_000, 1).unwrap().edges, [6, 320, 640]);
}

#[test]
fn strips_never_cost_more_than_was_said_before() {
    // A few planes leave many slots without work, which keep rims for the next strip.
    let [said, fewest, by_rows] = in_strips([9, 60, 20], 2, Shape::Box, 2000);
    assert_eq!((said, fewest), (12_960, 10_800));
    assert!(fewest <= by_rows, "{fewest} in strips, {by_rows} in rows");
    let mut random = Random::new(63);
    for case in 0..600 {
        let mut within = |most: u64| random.below(most) as u32;
        let extents = [5, 9, 12].map(|most| 1 + within(most));
        let (radius, shape) = (within(4), if within(2) == 0 { Shape::Star } else { Shape::Box });
        let grid = Grid::new(extents, radius, shape).unwrap();
        let Some(least) = (1..).find(|&slots| Strips::fit(extents, radius, shape, slots, 1).is_some()) else {
            continue;
        };
        let slots = least + within(40);
        let strips = Strips::fit(extents, radius, shape, slots, 1).unwrap();
        let groups = ordered(&grid, extents, strips.order());
        let fewest = optimum::loads(&groups, slots as usize);
        assert!(
            fewest.is_some_and(|fewest| fewest <= strips.loads),
            "case {case}: {grid:?} {slots}: {strips:?} {fewest:?}"
        );
    }
}
