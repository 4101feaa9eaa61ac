//! The next uses of a grid in strips and tiles, in closed form and by a search.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use proptest::prelude::*;
use umbra_core::stencil::{Future, Grid, Order, Shape, Swept, Use};

/// Compares what is told of each input at each group with a search in the list of groups.
fn is_what_a_search_finds(extents: [u32; 3], radius: u32, shape: Shape, order: Order) {
    let grid = Grid::new(extents, radius, shape).unwrap();
    let swept = Swept::new(grid, order).unwrap();
    let groups: Vec<Vec<u64>> = order.points(extents).unwrap().map(|point| grid.group(point).collect()).collect();
    let case = format!("{extents:?}, radius {radius}, {shape:?}, {order:?}");
    let mut advanced = swept.present(0);
    // Uses of each input after the present, the next one last; none of ids beyond, as outputs have that the same cache manages.
    let mut uses: Vec<Vec<u64>> = vec![Vec::new(); 2 * grid.len() as usize + 9];
    for (number, group) in groups.iter().enumerate().rev() {
        group.iter().for_each(|&data| uses[data as usize].push(number as u64));
    }
    for now in 0..groups.len() as u64 {
        let present = swept.present(now);
        swept.advance(&mut advanced, now);
        assert_eq!(advanced, present, "{case}, after {now}");
        let mut runs = swept.next_runs(present);
        for (data, uses) in (0..).zip(&mut uses) {
            uses.pop_if(|next| *next <= now);
            let next = uses.last().copied();
            assert_eq!(swept.next_use(data, present), next.map_or(Use::Never, Use::At), "{case}, {now} {data}");
            let certain = shape == Shape::Box && next == Some(now + 1);
            assert_eq!(swept.is_next(data, present), certain, "{case}, {now} {data}");
            assert_eq!(runs.contains(data) || runs.reaches(data), certain, "{case}, {now} {data}");
        }
        assert_eq!(swept.next_use(u64::from(grid.len()) << 32, present), Use::Never, "{case}");
    }
    let over = swept.present(groups.len() as u64);
    assert!((0..u64::from(grid.len())).all(|data| swept.next_use(data, over) == Use::Never), "{case}");
}

fn orders() -> impl Strategy<Value = Order> {
    let edge = || prop_oneof![0..9_u32, Just(u32::MAX)];
    prop_oneof![
        Just(Order::Rows),
        edge().prop_map(|width| Order::Strips { width }),
        [edge(), edge(), edge()].prop_map(|edges| Order::Tiles { edges }),
    ]
}

fn extents() -> impl Strategy<Value = [u32; 3]> {
    prop_oneof![[1..6_u32, 1..7_u32, 1..8_u32], [1..2_u32, 1..12_u32, 1..24_u32], [1..2_u32, 1..2_u32, 1..60_u32]]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn s69_the_closed_form_of_any_strips_is_what_a_search_finds(
        extents in extents(),
        radius in prop_oneof![0..7_u32, Just(u32::MAX)],
        star: bool,
        order in orders(),
    ) {
        is_what_a_search_finds(extents, radius, if star { Shape::Star } else { Shape::Box }, order);
    }
}

#[test]
fn s69_the_closed_form_of_strips_is_what_a_search_finds() {
    for shape in [Shape::Box, Shape::Star] {
        for radius in [0, 1, 3] {
            for width in [1, 2, 7, 8, 20, 21] {
                is_what_a_search_finds([1, 9, 20], radius, shape, Order::Strips { width });
                is_what_a_search_finds([3, 4, 9], radius, shape, Order::Strips { width });
                is_what_a_search_finds([3, 6, 7], radius, shape, Order::Tiles { edges: [2, width, 3] });
            }
        }
    }
    let grid = Grid::new([1, 3, 3], 1, Shape::Box).unwrap();
    assert!(Swept::new(grid, Order::Hilbert).is_none());
}
