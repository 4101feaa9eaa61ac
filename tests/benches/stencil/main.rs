//! Loads of stencils beside the fewest possible, and beside published caches.
//!
//! A load of what a stencil works on takes far longer than all that a cache does, so what counts is how often something
//! is loaded. The optimum serves the groups one by one in the given order; peers are asked for one input after the
//! other, and given those that they have not.
//!
//! All of these are counts, and so are the calls of the heap that caches make once they are there: see [`heap`].

#![forbid(unsafe_code)]

mod heap;
#[path = "../caches/peers.rs"]
mod peers;

use std::process::ExitCode;

use umbra::stencil::{Groups, Known, Plan, optimum};
use umbra_core::stencil::{Grid, Input, Order, Shape, Strips, Swept, Unknown};
use umbra_tests::bench::{Direction, Report, Row};
use umbra_tests::sweep::{self, cache, serve};

use peers::{Hashlink, Lru, Moka, Peer, Quick, QuickSync};

/// Slots of the large case: 50 GiB on each of 50 machines, in blocks of 4 MiB.
const SLOTS: u32 = 640_000;
/// Groups that are known ahead in a plane: seven rows of it.
const AHEAD: usize = 7 * 200;
const UNIT: &str = "loads/optimum";

fn main() -> ExitCode {
    let mut report = Report::from_args();
    bytes(&mut report);
    heap::rows(&mut report);
    planes(&mut report);
    for slots in [3000, 4003, 6010] {
        let case = format!("loads 2D 2000x2000, radius 1, {slots} slots, rows");
        large(&mut report, &case, [1, 2000, 2000], slots, 1.001);
    }
    for (name, extents) in [("6x512x512", [6, 512, 512]), ("6x640x640", [6, 640, 640])] {
        let case = format!("loads 3D {name}, radius 1, 640,000 slots, rows");
        large(&mut report, &case, extents, SLOTS, 1.0005);
    }
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

/// Planes that are small enough to list all groups, in two orders: fewer slots than the least that load each input once row
/// by row, one fewer, and as many.
fn planes(report: &mut Report) {
    let extents = [1, 200, 200];
    let Some(grid) = Grid::new(extents, 3, Shape::Box) else { return };
    for slots in [100, 250, 500, 750, 1000, 1206, 1207] {
        let in_strips = sweep::in_strips(extents, 3, slots);
        for (name, goal, order) in [("rows", 1.001, Order::Rows), ("strips", 1.002, in_strips)] {
            let case = format!("loads 200x200, radius 3, {slots} slots, {name}");
            if report.wants(&case) {
                plane(report, &case, &sweep::ordered(&grid, extents, order), grid, order, slots, goal);
            }
        }
    }
    // What the order alone is worth: the fewest loads of each order, for all loads that there must be.
    let (case, slots) = ("fewest loads 200x200, radius 3, 1000 slots, strips that fit", 1000);
    let fit = Strips::fit(extents, 3, Shape::Box, slots, 1).filter(|_| report.wants(case));
    let fewest = |order| optimum::loads(&sweep::ordered(&grid, extents, order), slots as usize);
    if let Some((strips, rows)) = fit.and_then(|fit| Some((fewest(fit.order())?, fewest(Order::Rows)?))) {
        let compulsory = f64::from(grid.len());
        let (strips, rows) = (strips as f64 / compulsory, rows as f64 / compulsory);
        report.row(Row::new(case, strips, rows, "rows", "loads/compulsory", Direction::LowerIsBetter)).bar(1.0);
    }
}

/// One of them, with several kinds of knowledge.
fn plane(report: &mut Report, case: &str, groups: &Groups, grid: Grid, order: Order, slots: u32, goal: f64) {
    let largest = grid.largest_group();
    let Some(fewest) = optimum::loads(groups, slots as usize) else { return };
    let ratio = |loads: u64| loads as f64 / fewest as f64;
    let (usage, unbounded) = (sweep::usage(groups), vec![Input::UNBOUNDED; groups.inputs()]);
    let window = |inputs: &[Input], groups: usize| (inputs.to_vec(), Plan::window(groups));
    let [ours, rest @ ..] =
        [window(&usage, AHEAD), window(&unbounded, AHEAD), window(&usage, 1), window(&unbounded, 1)]
            .map(|(inputs, plan)| ratio(sweep::loads(&mut cache(slots, largest, inputs, Unknown, plan), groups)));
    row(report, case, ours, goal, "the goal");
    for (known, ratio) in ["seven rows known, no usage map", "a usage map alone", "nothing known"].iter().zip(rest) {
        let name = format!("{case}, {known}");
        let peer = "the goal, with a usage map and seven rows";
        report.row(Row::new(&name, ratio, goal, peer, UNIT, Direction::LowerIsBetter));
    }
    let plan = Plan::one(groups.len() as u64);
    let future = Known::new(groups).unwrap_or_else(|error| panic!("{error}"));
    let mut known = cache(slots, largest, unbounded.clone(), future, plan);
    let case_known = format!("{case}, all groups known");
    row(report, &case_known, ratio(sweep::loads(&mut known, groups)), goal, "the goal");
    if let Some(swept) = Swept::new(grid, order) {
        let mut known = cache(slots, largest, unbounded, swept, plan);
        let case_known = format!("{case}, known in closed form");
        row(report, &case_known, ratio(sweep::loads(&mut known, groups)), goal, "the goal");
    }
    for (name, loads) in [
        peer::<Quick>(groups, slots),
        peer::<Hashlink>(groups, slots),
        peer::<Lru>(groups, slots),
        peer::<Moka>(groups, slots),
    ] {
        row(report, case, ours, ratio(loads), name);
    }
}

/// A plane or a space with more groups than are listed, row by row.
fn large(report: &mut Report, case: &str, extents: [u32; 3], slots: u32, goal: f64) {
    let Some(grid) = Grid::new(extents, 1, Shape::Box).filter(|_| report.wants(case)) else { return };
    let fewest = sweep::fewest(&grid, slots) as f64;
    let plan = Plan::one(2 * u64::from(grid.len()));
    let inputs = vec![Input::UNBOUNDED; grid.len() as usize];
    let mut stencil = cache(slots, grid.largest_group(), inputs, grid, plan);
    let mut members = Vec::new();
    for point in 0..u64::from(grid.len()) {
        members.clear();
        members.extend(grid.group(point));
        serve(&mut stencil, point, &members);
    }
    let ours = stencil.statistics().loads as f64 / fewest;
    row(report, case, ours, goal, "the goal");
    for (name, loads) in [
        loads::<QuickSync>(&grid, slots),
        loads::<Hashlink>(&grid, slots),
        loads::<Lru>(&grid, slots),
        loads::<Moka>(&grid, slots),
    ] {
        row(report, case, ours, loads as f64 / fewest, name);
    }
}

/// Loads of one peer for all groups of a grid.
fn loads<P: Peer>(grid: &Grid, slots: u32) -> (&'static str, u64) {
    let mut peer = P::new(slots);
    let all = (0..u64::from(grid.len())).flat_map(|point| grid.group(point));
    (P::NAME, all.map(|data| u64::from(peer.get_or_add(data))).sum())
}
