//! Loads of stencils beside the fewest possible, and beside published caches.
//!
//! A load of what a stencil works on takes far longer than all that a cache does, so what counts is how often something
//! is loaded. The optimum serves the groups one by one in the given order; peers are asked for one input after the
//! other, and given those that they have not.

#![forbid(unsafe_code)]

#[path = "../caches/peers.rs"]
mod peers;

use std::process::ExitCode;

use umbra::stencil::{Groups, Known, Plan, optimum};
use umbra_core::stencil::{Action, Grid, Input, Order, Shape, Strips, Unknown};
use umbra_tests::bench::{Direction, Report, Row};
use umbra_tests::sweep::{self, cache};

use peers::{Hashlink, Lru, Moka, Peer, Quick, QuickSync};

/// Slots of the large case: 50 GiB on each of 50 machines, in blocks of 4 MiB.
const SLOTS: u32 = 640_000;
/// Groups that are known ahead in a plane: seven rows of it.
const AHEAD: usize = 7 * 200;
const UNIT: &str = "loads/optimum";

fn main() -> ExitCode {
    let mut report = Report::from_args();
    bytes(&mut report);
    plane(&mut report);
    space(&mut report);
    report.finish()
}

/// Adds a row of loads against the fewest.
fn row(report: &mut Report, case: &str, ours: f64, theirs: f64, name: &str) {
    report.row(Row::new(case, ours, theirs, name, UNIT, Direction::LowerIsBetter)).bar(1.0);
}

/// Bytes of memory that this process has.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = status.split(' ').nth(1).and_then(|pages| pages.parse::<f64>().ok());
    pages.unwrap_or(f64::NAN) * 4096.0
}

/// Bytes a slot of the large case, of both sides as they are in memory. A peer knows neither inputs without a slot nor groups.
fn bytes(report: &mut Report) {
    let case = "bytes a slot 3D 6x640x640, radius 1, 640,000 slots";
    let Some(grid) = Grid::new([6, 640, 640], 1, Shape::Box).filter(|_| report.wants(case)) else { return };
    let inputs = grid.len() as usize;
    let before = resident();
    let stencil = cache(SLOTS, grid.largest_group(), vec![Input::UNBOUNDED; inputs], grid, Plan::one(1));
    let ours = (resident() - before) / f64::from(SLOTS);
    drop(std::hint::black_box(stencil));
    let before = resident();
    let mut peer = Hashlink::new(SLOTS);
    (0..u64::from(SLOTS)).for_each(|data| peer.add(data));
    let theirs = (resident() - before) / f64::from(SLOTS);
    report.row(Row::new(case, ours, theirs, Hashlink::NAME, "B", Direction::LowerIsBetter));
}

/// Loads of one peer for these groups.
fn peer<P: Peer>(groups: &Groups, slots: u32) -> (&'static str, u64) {
    let mut peer = P::new(slots);
    (P::NAME, groups.iter().flatten().map(|&data| u64::from(peer.get_or_add(data))).sum())
}

/// A plane that is small enough to compute the optimum, in two orders, with several kinds of knowledge.
fn plane(report: &mut Report) {
    let extents = [1, 200, 200];
    let Some(grid) = Grid::new(extents, 3, Shape::Box) else { return };
    let (slots, largest) = (1000, grid.largest_group());
    let in_strips = Order::Strips { width: 100 };
    for (case, goal, order) in [
        ("loads 200x200, radius 3, 1000 slots, rows", 1.001, Order::Rows),
        ("loads 200x200, radius 3, 1000 slots, strips", 1.002, in_strips),
    ] {
        if !report.wants(case) {
            continue;
        }
        let groups = sweep::ordered(&grid, extents, order);
        let Some(fewest) = optimum::loads(&groups, slots as usize) else { continue };
        let ratio = |loads: u64| loads as f64 / fewest as f64;
        let (usage, unbounded) = (sweep::usage(&groups), vec![Input::UNBOUNDED; groups.inputs()]);
        let window = |inputs: &[Input], groups: usize| (inputs.to_vec(), Plan::window(groups));
        let [ours, rest @ ..] =
            [window(&usage, AHEAD), window(&unbounded, AHEAD), window(&usage, 1), window(&unbounded, 1)]
                .map(|(inputs, plan)| ratio(sweep::loads(&mut cache(slots, largest, inputs, Unknown, plan), &groups)));
        row(report, case, ours, goal, "the goal");
        for (known, ratio) in ["seven rows known, no usage map", "a usage map alone", "nothing known"].iter().zip(rest)
        {
            let name = format!("{case}, {known}");
            let row = Row::new(
                &name,
                ratio,
                goal,
                "the goal, with a usage map and seven rows",
                UNIT,
                Direction::LowerIsBetter,
            );
            report.row(row);
        }
        let plan = Plan::one(groups.len() as u64);
        let future = Known::new(&groups).unwrap_or_else(|error| panic!("{error}"));
        let mut known = cache(slots, largest, unbounded, future, plan);
        let case_known = format!("{case}, all groups known");
        row(report, &case_known, ratio(sweep::loads(&mut known, &groups)), goal, "the goal");
        for (name, loads) in [
            peer::<Quick>(&groups, slots),
            peer::<Hashlink>(&groups, slots),
            peer::<Lru>(&groups, slots),
            peer::<Moka>(&groups, slots),
        ] {
            row(report, case, ours, ratio(loads), name);
        }
    }
    // What the order alone is worth: the fewest loads of each order, for all loads that there must be.
    let case = "fewest loads 200x200, radius 3, 1000 slots, strips that fit";
    let fit = Strips::fit(extents, 3, Shape::Box, slots, 1).filter(|_| report.wants(case));
    let fewest = |order| optimum::loads(&sweep::ordered(&grid, extents, order), slots as usize);
    if let Some((strips, rows)) = fit.and_then(|fit| Some((fewest(fit.order())?, fewest(Order::Rows)?))) {
        let compulsory = f64::from(grid.len());
        let (strips, rows) = (strips as f64 / compulsory, rows as f64 / compulsory);
        report.row(Row::new(case, strips, rows, "rows", "loads/compulsory", Direction::LowerIsBetter)).bar(1.0);
    }
}

/// A large space with fewer slots than two of its planes have inputs.
fn space(report: &mut Report) {
    let case = "loads 3D 6x640x640, radius 1, 640,000 slots, rows";
    let Some(grid) = Grid::new([6, 640, 640], 1, Shape::Box).filter(|_| report.wants(case)) else { return };
    let fewest = sweep::fewest(&grid, SLOTS) as f64;
    let plan = Plan::one(2 * u64::from(grid.len()));
    let inputs = vec![Input::UNBOUNDED; grid.len() as usize];
    let mut stencil = cache(SLOTS, grid.largest_group(), inputs, grid, plan);
    let mut members = Vec::new();
    for point in 0..u64::from(grid.len()) {
        members.clear();
        members.extend(grid.group(point));
        stencil.submit(point, &members).unwrap_or_else(|error| panic!("{error}"));
        while let Some(action) = stencil.poll() {
            match action {
                Action::Prepare { data, .. } => stencil.prepared(data).unwrap_or_else(|error| panic!("{error}")),
                Action::Ready { group, .. } => stencil.free_group(group).unwrap_or_else(|error| panic!("{error}")),
                other => panic!("{other:?}"),
            }
        }
    }
    let ours = stencil.statistics().loads as f64 / fewest;
    row(report, case, ours, 1.0005, "the goal");
    for (name, loads) in [large::<QuickSync>(&grid), large::<Lru>(&grid), large::<Moka>(&grid)] {
        row(report, case, ours, loads as f64 / fewest, name);
    }
}

/// Loads of one peer for all groups of the space.
fn large<P: Peer>(grid: &Grid) -> (&'static str, u64) {
    let mut peer = P::new(SLOTS);
    let all = (0..u64::from(grid.len())).flat_map(|point| grid.group(point));
    (P::NAME, all.map(|data| u64::from(peer.get_or_add(data))).sum())
}
