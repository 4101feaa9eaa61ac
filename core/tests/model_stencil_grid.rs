//! The next uses that a grid tells in closed form, against a search.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use proptest::prelude::*;
use umbra_core::stencil::{Future, Grid, Shape, Use};

/// Compares the next use of each input at each point with a search in the list of groups.
fn is_what_a_search_finds(extents: [u32; 3], radius: u32, shape: Shape) {
    let grid = Grid::new(extents, radius, shape).unwrap();
    let groups: Vec<Vec<u64>> = (0..u64::from(grid.len())).map(|point| grid.group(point).collect()).collect();
    assert_eq!(groups.iter().map(Vec::len).max(), Some(grid.largest_group()), "{grid:?}");
    for now in 0..groups.len() {
        let present = grid.present(now as u64);
        // Also ids beyond the last input, as outputs have that the same cache manages.
        for data in (0..2 * u64::from(grid.len()) + 9).chain([u64::from(u32::MAX), u64::MAX]) {
            let next = (now + 1..groups.len()).find(|&later| groups[later].contains(&data));
            let found = grid.next_use(data, present);
            assert_eq!(found, next.map_or(Use::Never, |next| Use::At(next as u64)), "{grid:?} {now} {data}");
            let certain = shape == Shape::Box && next == Some(now + 1);
            assert_eq!(grid.is_next(data, present), certain, "{grid:?} {now} {data}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn s69_the_closed_form_of_any_grid_is_what_a_search_finds(
        extents in [1_u32..6, 1_u32..7, 1_u32..8],
        radius in 0_u32..6,
        star: bool,
    ) {
        is_what_a_search_finds(extents, radius, if star { Shape::Star } else { Shape::Box });
    }
}

#[test]
fn s69_the_closed_form_is_what_a_search_finds() {
    for (extents, radius, shape) in [
        ([1, 7, 9], 1, Shape::Box),
        ([1, 7, 9], 2, Shape::Star),
        ([1, 1, 12], 3, Shape::Box),
        ([5, 4, 6], 1, Shape::Star),
        ([5, 4, 6], 2, Shape::Box),
        ([3, 3, 3], 9, Shape::Box),
        ([4, 5, 1], 0, Shape::Star),
    ] {
        is_what_a_search_finds(extents, radius, shape);
    }
    for (extents, radius) in [([0, 1, 1], 1), ([1, 0, 1], 1), ([1, 1, 0], 1), ([1, 1 << 16, 1 << 16], 1)] {
        assert!(Grid::new(extents, radius, Shape::Box).is_none());
    }
    assert_eq!(Grid::new([1, 3, 3], 1, Shape::Box).unwrap().group(9).count(), 0);
}
