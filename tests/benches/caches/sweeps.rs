//! Stencils: what a reference costs, and how many loads it takes.

use umbra::stencil::{Groups, Plan, Vectors, optimum};
use umbra_core::stencil::{Action, Future, Grid, Input, Names, Order, Shape, Stencil, Unknown, count};
use umbra_tests::bench::{Clock, Direction, Report, Row, Samples};
use umbra_tests::sweep::{self, cache};

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

/// Takes the first point and the groups, and counts loads.
type Run<'a> = Box<dyn FnMut(u64, &Groups) -> u64 + 'a>;

/// One side: groups go in, loads are counted.
struct Side<'a> {
    name: &'static str,
    run: Run<'a>,
    times: Vec<f64>,
    loads: u64,
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
        let mut before = 0;
        let run = move |first: u64, groups: &Groups| {
            for (point, members) in (first..).zip(groups.iter()) {
                cycle(&mut stencil, point, members);
            }
            let loads = stencil.statistics().loads;
            loads - std::mem::replace(&mut before, loads)
        };
        Side { name: "ours", run: Box::new(run), times: Vec::new(), loads: 0 }
    }

    fn peer<P: Peer + 'a>(slots: u32) -> Self {
        let mut peer = P::new(slots);
        let run = move |_: u64, groups: &Groups| {
            let all = groups.iter().flatten();
            all.map(|&data| u64::from(peer.get_or_add(data))).sum()
        };
        Side { name: P::NAME, run: Box::new(run), times: Vec::new(), loads: 0 }
    }
}

/// A whole sweep in turns: some rows by one side, then the same by the next.
fn cycle_rows(report: &mut Report, case: &str, grid: Grid, sides: Vec<Side<'_>>, goal: Option<f64>, fewest: u64) {
    let mut sides = sides;
    let clock = Clock::new();
    let points = u64::from(grid.len());
    for (turn, first) in (0..points).step_by(AT_ONCE as usize).enumerate() {
        let groups: Groups = (first..points.min(first + AT_ONCE)).map(|point| grid.group(point)).collect();
        let count = sides.len();
        for at in 0..count {
            let side = &mut sides[(at + turn) % count];
            let start = clock.now();
            side.loads += (side.run)(first, &groups);
            let time = clock.nanoseconds(start, clock.now());
            side.times.push(time as f64 / groups.references() as f64);
        }
    }
    let figures: Vec<(&str, f64, f64)> = sides
        .into_iter()
        .filter_map(|side| {
            let times = Samples::new(side.times)?;
            Some((side.name, times.median(), side.loads as f64 / fewest as f64))
        })
        .collect();
    let [(_, ours, our_loads), peers @ ..] = figures.as_slice() else { return };
    for (name, peer, peer_loads) in peers {
        let row = Row::new(case, *ours, *peer, name, "ns/reference", Direction::LowerIsBetter);
        report.row(row).bar(1.0);
        let case = format!("{case}, loads");
        let row = Row::new(&case, *our_loads, *peer_loads, name, "loads/optimum", Direction::LowerIsBetter);
        report.row(row).bar(1.0);
    }
    if let Some(goal) = goal {
        let case = format!("{case}, goal");
        report.row(Row::new(&case, *ours, goal, "the goal", "ns/reference", Direction::LowerIsBetter)).bar(1.0);
        let case = format!("{case}, loads");
        report.row(Row::new(&case, *our_loads, 1.001, "the goal", "loads/optimum", Direction::LowerIsBetter)).bar(1.0);
    }
}

/// Complete cycles of large sweeps, row by row.
pub(crate) fn cycles(report: &mut Report) {
    let space = |extents| Grid::new(extents, 1, Shape::Box);
    // Above the number of slots from which each input is loaded once, and below it. There each missing slot costs a
    // load for each further plane: 2·640² + 2·640 + 3 are needed. The plane is small enough to compute the optimum.
    let plane = space([1, 300, 2000]);
    let fewest = plane.and_then(|grid| optimum::loads(&sweep::rows(&grid), 3000)).unwrap_or_default();
    let cases = [
        ("cycle 3D 6x512x512, 640,000 slots", space([6, 512, 512]), SLOTS, 6 * 512 * 512),
        ("cycle 3D 6x640x640, 640,000 slots", space([6, 640, 640]), SLOTS, 6 * 640 * 640 + (820_483 - 640_000) * 5),
        ("cycle 2D 300x2000, 3000 slots", plane, 3000, fewest),
    ];
    for (case, grid, slots, fewest) in cases {
        let Some(grid) = grid.filter(|_| report.wants(case)) else { continue };
        let sides = vec![
            Side::ours(grid, slots),
            Side::peer::<Quick>(slots),
            Side::peer::<QuickSync>(slots),
            Side::peer::<Hashlink>(slots),
            Side::peer::<Lru>(slots),
        ];
        cycle_rows(report, case, grid, sides, Some(12.0), fewest);
    }
}

/// Loads of one peer for these groups.
fn peer_loads<P: Peer>(groups: &Groups, slots: u32) -> (&'static str, u64) {
    let mut peer = P::new(slots);
    (P::NAME, groups.iter().flatten().map(|&data| u64::from(peer.get_or_add(data))).sum())
}

/// Loads against the optimum, for a plane that is small enough to compute it.
pub(crate) fn loads(report: &mut Report) {
    let Some(grid) = Grid::new([1, 200, 200], 3, Shape::Box) else { return };
    let slots = 1000;
    let window = 7 * 200;
    for (case, goal, groups) in [
        ("loads 200x200, radius 3, 1000 slots, rows", 1.001, sweep::rows(&grid)),
        (
            "loads 200x200, radius 3, 1000 slots, strips",
            1.002,
            sweep::ordered(&grid, [1, 200, 200], Order::Strips { width: 100 }),
        ),
    ] {
        if !report.wants(case) {
            continue;
        }
        let Some(fewest) = optimum::loads(&groups, slots as usize) else { continue };
        let largest = grid.largest_group();
        let mut stencil = cache(slots, largest, sweep::usage(&groups), Unknown, Plan::window(window));
        let ours = sweep::loads(&mut stencil, &groups) as f64 / fewest as f64;
        let row = |peer, name| Row::new(case, ours, peer, name, "loads/optimum", Direction::LowerIsBetter);
        report.row(row(goal, "the goal")).bar(1.0);
        for (name, loads) in [
            peer_loads::<Quick>(&groups, slots),
            peer_loads::<Hashlink>(&groups, slots),
            peer_loads::<Lru>(&groups, slots),
            peer_loads::<Moka>(&groups, slots),
        ] {
            report.row(row(loads as f64 / fewest as f64, name)).bar(1.0);
        }
    }
}
