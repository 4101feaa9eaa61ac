//! Stencils: what a reference costs.

use std::hint::black_box;

use umbra::stencil::{Groups, Plan};
use umbra_core::stencil::{Future, Grid, Input, Order, Shape, Swept, count};
use umbra_tests::bench::{Clock, Direction, Report, Row, Samples};
use umbra_tests::sweep::{cache, in_strips, serve};

use crate::SLOTS;
use crate::peers::{Hashlink, Lru, Moka, Peer, Quick, QuickSync};

/// Points whose groups are made at once, before the clock runs, and the least turns of each side.
const AT_ONCE: usize = 1 << 14;
const TURNS: usize = 16;
/// Nanoseconds that were fixed beforehand for what needs no list of all groups.
const GOAL: f64 = 12.0;

/// Takes the first point and the groups.
type Run<'a> = Box<dyn FnMut(u64, &Groups) + 'a>;

/// One side: groups go in.
struct Side<'a> {
    name: &'static str,
    run: Run<'a>,
    times: Vec<f64>,
}

impl<'a> Side<'a> {
    /// Row by row the grid itself knows what comes, and in strips what it is swept in.
    fn ours(grid: Grid, slots: u32, order: Order) -> Self {
        if order == Order::Rows {
            return Side::knowing(grid, slots, grid);
        }
        let swept = Swept::new(grid, order).unwrap_or_else(|| panic!("{order:?} is not known in closed form"));
        Side::knowing(grid, slots, swept)
    }

    fn knowing<F: Future + 'a>(grid: Grid, slots: u32, future: F) -> Self {
        let mut inputs = vec![Input::NOT_USED; grid.len() as usize];
        let mut members = Vec::new();
        for point in 0..u64::from(grid.len()) {
            members.clear();
            members.extend(grid.group(point));
            count(&mut inputs, &members).unwrap_or_else(|error| panic!("{error}"));
        }
        let plan = Plan::one(2 * u64::from(grid.len()));
        let mut stencil = cache(slots, grid.largest_group(), inputs, future, plan);
        let run = move |first: u64, groups: &Groups| {
            for (point, members) in (first..).zip(groups.iter()) {
                serve(&mut stencil, point, members);
            }
        };
        Side { name: "ours", run: Box::new(run), times: Vec::new() }
    }

    fn peer<P: Peer + 'a>(slots: u32) -> Self {
        let mut peer = P::new(slots);
        let run = move |_: u64, groups: &Groups| {
            for &data in groups.iter().flatten() {
                black_box(peer.get_or_add(data));
            }
        };
        Side { name: P::NAME, run: Box::new(run), times: Vec::new() }
    }
}

/// A whole sweep in turns: some points by one side, then the same by the next.
fn cycle_rows(report: &mut Report, case: &str, grid: Grid, points: &[u64], mut sides: Vec<Side<'_>>) {
    let clock = Clock::new();
    let at_once = AT_ONCE.min(points.len().div_ceil(TURNS));
    for (turn, points) in points.chunks(at_once).enumerate() {
        let groups: Groups = points.iter().map(|&point| grid.group(point)).collect();
        let (first, count) = ((turn * at_once) as u64, sides.len());
        for at in 0..count {
            let side = &mut sides[(at + turn) % count];
            let start = clock.now();
            (side.run)(first, &groups);
            let time = clock.nanoseconds(start, clock.now());
            side.times.push(time as f64 / groups.references() as f64);
        }
    }
    let figures: Vec<(&str, f64)> =
        sides.into_iter().filter_map(|side| Some((side.name, Samples::new(side.times)?.median()))).collect();
    let [(_, ours), peers @ ..] = figures.as_slice() else { return };
    for (name, peer) in peers {
        report.row(Row::new(case, *ours, *peer, name, "ns/reference", Direction::LowerIsBetter)).bar(1.0);
    }
    let case = format!("{case}, goal");
    report.row(Row::new(&case, *ours, GOAL, "the goal", "ns/reference", Direction::LowerIsBetter)).bar(1.0);
}

/// Complete cycles of sweeps in planes and in space.
pub(crate) fn cycles(report: &mut Report) {
    // Above the number of slots from which each input is loaded once, and below it.
    for (name, extents) in [("3D 6x512x512", [6, 512, 512]), ("3D 6x640x640", [6, 640, 640])] {
        cycle_of(report, &format!("cycle {name}, 640,000 slots"), extents, 1, SLOTS, Order::Rows);
    }
    cycle_of(report, "cycle 2D 300x2000, 3000 slots", [1, 300, 2000], 1, 3000, Order::Rows);
    for slots in [3000, 4003, 6010] {
        cycle_of(report, &format!("cycle 2D 2000x2000, {slots} slots"), [1, 2000, 2000], 1, slots, Order::Rows);
    }
    for slots in [100, 250, 500, 750, 1000, 1206, 1207] {
        let (case, plane) = (format!("cycle 2D 200x200 R=3, {slots} slots"), [1, 200, 200]);
        cycle_of(report, &case, plane, 3, slots, Order::Rows);
        cycle_of(report, &format!("{case}, strips"), plane, 3, slots, in_strips(plane, 3, slots));
    }
}

fn cycle_of(report: &mut Report, case: &str, extents: [u32; 3], radius: u32, slots: u32, order: Order) {
    let Some(grid) = Grid::new(extents, radius, Shape::Box).filter(|_| report.wants(case)) else { return };
    let Some(points) = order.points(extents) else { return };
    let points: Vec<u64> = points.collect();
    let sides = vec![
        Side::ours(grid, slots, order),
        Side::peer::<Quick>(slots),
        Side::peer::<QuickSync>(slots),
        Side::peer::<Hashlink>(slots),
        Side::peer::<Lru>(slots),
        Side::peer::<Moka>(slots),
    ];
    cycle_rows(report, case, grid, &points, sides);
}
