//! Stencils: what a reference costs.

use std::hint::black_box;

use umbra::stencil::{Groups, Plan, Vectors};
use umbra_core::stencil::{Action, Future, Grid, Input, Names, Shape, Stencil, count};
use umbra_tests::bench::{Clock, Direction, Report, Row, Samples};
use umbra_tests::sweep::cache;

use crate::SLOTS;
use crate::peers::{Hashlink, Lru, Moka, Peer, Quick, QuickSync};

/// Points whose groups are made at once, before the clock runs.
const AT_ONCE: u64 = 1 << 14;

/// Runs one group through all that there is, with a load that takes no time.
#[inline]
fn cycle<N: Names, F: Future>(stencil: &mut Stencil<Vectors, N, F>, point: u64, members: &[u64]) {
    stencil.submit(point, members).unwrap_or_else(|error| panic!("{error}"));
    while let Some(action) = stencil.poll() {
        match action {
            Action::Prepare { data, .. } => stencil.prepared(data).unwrap_or_else(|error| panic!("{error}")),
            Action::Ready { group, .. } => stencil.free_group(group).unwrap_or_else(|error| panic!("{error}")),
            other => panic!("{other:?}"),
        }
    }
}

/// Takes the first point and the groups.
type Run<'a> = Box<dyn FnMut(u64, &Groups) + 'a>;

/// One side: groups go in.
struct Side<'a> {
    name: &'static str,
    run: Run<'a>,
    times: Vec<f64>,
}

impl<'a> Side<'a> {
    fn ours(grid: Grid, slots: u32) -> Self {
        let mut inputs = vec![Input::NOT_USED; grid.len() as usize];
        let mut members = Vec::new();
        for point in 0..u64::from(grid.len()) {
            members.clear();
            members.extend(grid.group(point));
            count(&mut inputs, &members).unwrap_or_else(|error| panic!("{error}"));
        }
        let plan = Plan::one(2 * u64::from(grid.len()));
        let mut stencil = cache(slots, grid.largest_group(), inputs, grid, plan);
        let run = move |first: u64, groups: &Groups| {
            for (point, members) in (first..).zip(groups.iter()) {
                cycle(&mut stencil, point, members);
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

/// A whole sweep in turns: some rows by one side, then the same by the next.
fn cycle_rows(report: &mut Report, case: &str, grid: Grid, mut sides: Vec<Side<'_>>, goal: f64) {
    let clock = Clock::new();
    let points = u64::from(grid.len());
    for (turn, first) in (0..points).step_by(AT_ONCE as usize).enumerate() {
        let groups: Groups = (first..points.min(first + AT_ONCE)).map(|point| grid.group(point)).collect();
        let count = sides.len();
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
    report.row(Row::new(&case, *ours, goal, "the goal", "ns/reference", Direction::LowerIsBetter)).bar(1.0);
}

/// Complete cycles of large sweeps, row by row.
pub(crate) fn cycles(report: &mut Report) {
    let space = |extents| Grid::new(extents, 1, Shape::Box);
    // Above the number of slots from which each input is loaded once, and below it.
    let cases = [
        ("cycle 3D 6x512x512, 640,000 slots", space([6, 512, 512]), SLOTS),
        ("cycle 3D 6x640x640, 640,000 slots", space([6, 640, 640]), SLOTS),
        ("cycle 2D 300x2000, 3000 slots", space([1, 300, 2000]), 3000),
        ("cycle 2D 200x200 R=3, 1000 slots", Grid::new([1, 200, 200], 3, Shape::Box), 1000),
    ];
    for (case, grid, slots) in cases {
        let Some(grid) = grid.filter(|_| report.wants(case)) else { continue };
        let mut sides = vec![
            Side::ours(grid, slots),
            Side::peer::<Quick>(slots),
            Side::peer::<QuickSync>(slots),
            Side::peer::<Hashlink>(slots),
            Side::peer::<Lru>(slots),
        ];
        if slots < SLOTS {
            // In space it would take minutes.
            sides.push(Side::peer::<Moka>(slots));
        }
        cycle_rows(report, case, grid, sides, 12.0);
    }
}
