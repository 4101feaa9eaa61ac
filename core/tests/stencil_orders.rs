//! Orders visit each point once, and strips cost what they say.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use proptest::prelude::{Just, Strategy, any, prop_assert_eq, prop_oneof, proptest};
use umbra_core::stencil::{Order, Shape, Strips};

fn orders() -> impl Strategy<Value = Order> {
    let edge = || prop_oneof![0..5_u32, 0..40_u32, Just(u32::MAX)];
    prop_oneof![
        Just(Order::Rows),
        Just(Order::Hilbert),
        edge().prop_map(|width| Order::Strips { width }),
        [edge(), edge(), edge()].prop_map(|edges| Order::Tiles { edges }),
    ]
}

fn extents() -> impl Strategy<Value = [u32; 3]> {
    prop_oneof![
        [1..9_u32, 1..9_u32, 1..9_u32],
        [1..2_u32, 1..40_u32, 1..40_u32],
        [1..2_u32, 1..2_u32, 1..200_u32],
        [0..3_u32, 0..3_u32, 0..3_u32],
        [1..30_u32, 1..4_u32, 1..30_u32],
    ]
}

proptest! {
    #[test]
    fn every_order_visits_each_point_exactly_once(extents in extents(), order in orders(), skip in any::<u8>()) {
        let points = order.points(extents).unwrap();
        let count = extents.iter().product::<u32>() as usize;
        prop_assert_eq!(points.size_hint(), (count, Some(count)));
        let skip = usize::from(skip).min(count);
        let later = points.clone().skip(skip).count();
        prop_assert_eq!(later, count - skip);
        let mut seen: Vec<u64> = points.collect();
        seen.sort_unstable();
        prop_assert_eq!(seen, (0..count as u64).collect::<Vec<u64>>());
    }

    #[test]
    fn rows_are_in_order(extents in extents()) {
        let count = extents.iter().product::<u32>();
        prop_assert_eq!(Order::Rows.points(extents).unwrap().collect::<Vec<u64>>(), (0..u64::from(count)).collect::<Vec<u64>>());
    }

    #[test]
    fn the_curve_goes_to_a_neighbour_if_extents_are_even(halves in extents()) {
        let extents = halves.map(|half| if half > 1 { 2 * half } else { half });
        let [_, rows, columns] = extents.map(u64::from);
        let mut before: Option<[u64; 3]> = None;
        for point in Order::Hilbert.points(extents).unwrap() {
            let here = [point / columns / rows, point / columns % rows, point % columns];
            if let Some(before) = before {
                let steps: u64 = (0..3).map(|axis| here[axis].abs_diff(before[axis])).sum();
                prop_assert_eq!(steps, 1, "{:?} to {:?} in {:?}", before, here, extents);
            }
            before = Some(here);
        }
    }
}

#[test]
fn grids_that_cannot_be_numbered_have_no_order() {
    assert!(Order::Rows.points([u32::MAX; 3]).is_none());
    assert_eq!(Order::Hilbert.points([0, u32::MAX, u32::MAX]).unwrap().count(), 0);
    let mut far = Order::Hilbert.points([1, u32::MAX, u32::MAX]).unwrap();
    assert_eq!(far.next(), Some(0));
    assert!(far.nth(10_000).is_some_and(|point| point < u64::from(u32::MAX) * u64::from(u32::MAX)));
}

#[test]
fn strips_that_do_not_fit_are_refused_and_wide_ones_are_whole() {
    let plane = [1, 200, 200];
    assert_eq!(Strips::fit(plane, 3, Shape::Box, 1207, 1), Some(Strips { edges: plane, loads: 40_000 }));
    assert_eq!(Strips::fit(plane, 3, Shape::Box, 1207, 2).unwrap().edges, [1, 200, 100]);
    // 6 (99 + 6) + 7 slots.
    let halves = |shape, slots, active| Strips::fit([1, 200, 198], 3, shape, slots, active).unwrap().edges;
    assert_eq!([(637, 1), (638, 2)].map(|(slots, active)| halves(Shape::Box, slots, active)), [[1, 200, 99]; 2]);
    assert_eq!([(636, 1), (637, 2)].map(|(slots, active)| halves(Shape::Box, slots, active)), [[1, 200, 66]; 2]);
    assert_eq!(Strips::fit(plane, 3, Shape::Box, 40, 1), None);
    assert_eq!(Strips::fit(plane, 3, Shape::Box, 0, 1), None);
    assert_eq!(Strips::fit([1, 0, 3], 1, Shape::Box, 100, 1), None);
    assert_eq!(Strips::fit(plane, 0, Shape::Box, 1, 1).unwrap().loads, 40_000);
    // 2·640² + 2·640 + 3 slots.
    let space = [6, 640, 640];
    assert_eq!(Strips::fit(space, 1, Shape::Box, 820_483, 1).unwrap(), Strips { edges: space, loads: 6 * 640 * 640 });
    let cut = Strips::fit(space, 1, Shape::Box, 640_000, 1).unwrap();
    assert!(cut.edges != space && (cut.loads as f64) < 1.01 * f64::from(6 * 640 * 640), "{cut:?}");
    // A star needs 2R of each row, one more, and where it is cut R of the rim.
    let star = |slots, active| Strips::fit(plane, 3, Shape::Star, slots, active);
    assert_eq!(star(1201, 1), Some(Strips { edges: plane, loads: 40_000 }));
    assert_eq!([star(1200, 1), star(1201, 2)].map(|strips| strips.unwrap().edges), [[1, 200, 100]; 2]);
    assert_eq!([(598, 1), (599, 2)].map(|(slots, active)| halves(Shape::Star, slots, active)), [[1, 200, 99]; 2]);
    assert_eq!([(597, 1), (598, 2)].map(|(slots, active)| halves(Shape::Star, slots, active)), [[1, 200, 66]; 2]);
    assert_eq!(Strips::fit(plane, 0, Shape::Star, 1, 1).unwrap().loads, 40_000);
    assert_eq!(Strips::fit(space, 1, Shape::Star, 819_201, 1).unwrap(), Strips { edges: space, loads: 6 * 640 * 640 });
    assert_ne!(Strips::fit(space, 1, Shape::Star, 819_200, 1).unwrap().edges, space);
}

#[test]
fn strips_of_extents_and_radii_without_bounds_are_counted_or_refused() {
    for shape in [Shape::Box, Shape::Star] {
        let large = |radius, slots| Strips::fit([u32::MAX, 40, u32::MAX], radius, shape, slots, 1);
        assert_eq!([large(u32::MAX, u32::MAX), large(1 << 20, u32::MAX), large(1, 2)], [None; 3], "{shape:?}");
        assert_eq!(large(1, u32::MAX), None, "{shape:?}: more loads than a number holds");
        let wide = Strips::fit([1, 40, u32::MAX], 1, shape, u32::MAX, 1).unwrap();
        // Two of the widest are a little too narrow.
        assert!(wide.edges == [1, 40, u32::MAX / 3] && wide.loads > 40 * u64::from(u32::MAX), "{wide:?}");
    }
}
