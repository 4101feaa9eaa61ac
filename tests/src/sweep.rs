//! Groups through a stencil cache: one thread, loads that take no time.

use umbra::stencil::optimum::Fewest;
use umbra::stencil::{Groups, Plan, Vectors};
use umbra_core::stencil::{Action, ByNumber, Future, Grid, Input, Names, Order, Shape, Stencil, Strips};

/// A stencil cache with so many slots, for groups up to this size.
///
/// # Panics
/// If it can't be made.
#[must_use]
pub fn cache<F: Future>(
    slots: u32,
    largest: usize,
    inputs: Vec<Input>,
    future: F,
    plan: Plan,
) -> Stencil<Vectors, ByNumber, F> {
    plan.cache(slots, largest, inputs, future).unwrap_or_else(|error| panic!("a cache of {slots} slots: {error}"))
}

/// The usage map of groups, counted by a pass over them.
///
/// # Panics
/// If an input is used too often.
#[must_use]
pub fn usage(groups: &Groups) -> Vec<Input> {
    groups.usage().unwrap_or_else(|error| panic!("{error}"))
}

/// Runs one group through all that there is, with a load that takes no time.
///
/// # Panics
/// If the cache refuses something.
#[inline]
pub fn serve<N: Names, F: Future>(stencil: &mut Stencil<Vectors, N, F>, point: u64, members: &[u64]) {
    stencil.submit(point, members).unwrap_or_else(|error| panic!("{error}"));
    while let Some(action) = stencil.poll() {
        match action {
            Action::Prepare { data, .. } => stencil.prepared(data).unwrap_or_else(|error| panic!("{error}")),
            Action::Ready { group, .. } => stencil.free_group(group).unwrap_or_else(|error| panic!("{error}")),
            other => panic!("{other:?}"),
        }
    }
}

/// Runs all groups through; the loads that it took.
///
/// # Panics
/// If the cache refuses something, or if a group does not become ready.
pub fn loads<F: Future>(stencil: &mut Stencil<Vectors, ByNumber, F>, groups: &Groups) -> u64 {
    let (mut submitted, mut done) = (0, 0);
    while done < groups.len() {
        while submitted < groups.len() && stencil.submit(submitted as u64, groups.get(submitted)).is_ok() {
            submitted += 1;
        }
        let before = done;
        while let Some(action) = stencil.poll() {
            match action {
                Action::Prepare { data, .. } => stencil.prepared(data).unwrap_or_else(|error| panic!("{error}")),
                Action::Ready { group, point } => {
                    assert_eq!(point, done as u64, "one after the other");
                    stencil.free_group(group).unwrap_or_else(|error| panic!("{error}"));
                    done += 1;
                    // The next one is known before the one after it is chosen.
                    break;
                }
                other => panic!("{other:?}"),
            }
        }
        assert!(done > before, "group {done} is not ready");
    }
    stencil.statistics().loads
}

/// The fewest loads for all groups of a grid, row by row, without a list of the groups.
///
/// # Panics
/// If a group needs more slots, or without memory to find them.
#[must_use]
pub fn fewest(grid: &Grid, slots: u32) -> u64 {
    let points = grid.len() as usize;
    let mut fewest = Fewest::new(slots as usize, points, points).unwrap_or_else(|error| panic!("{error}"));
    let mut group = Vec::with_capacity(grid.largest_group());
    for point in 0..u64::from(grid.len()) {
        group.clear();
        group.extend(grid.group(point));
        fewest.serve(&group).unwrap_or_else(|error| panic!("{error}"));
    }
    fewest.loads()
}

/// All groups of a grid, row by row.
#[must_use]
pub fn rows(grid: &Grid) -> Groups {
    (0..u64::from(grid.len())).map(|point| grid.group(point)).collect()
}

/// The strips that fit so many slots, for boxes of this radius.
///
/// # Panics
/// If no strip fits.
#[must_use]
pub fn in_strips(extents: [u32; 3], radius: u32, slots: u32) -> Order {
    let strips = Strips::fit(extents, radius, Shape::Box, slots, 1);
    strips.unwrap_or_else(|| panic!("no strips of {extents:?} fit {slots} slots")).order()
}

/// All groups of a grid in this order.
///
/// # Panics
/// If the grid is too large for numbers.
#[must_use]
pub fn ordered(grid: &Grid, extents: [u32; 3], order: Order) -> Groups {
    let points = order.points(extents).unwrap_or_else(|| panic!("{extents:?} is too large"));
    points.map(|point| grid.group(point)).collect()
}
