//! Groups of a stencil through a stencil cache, one thread, loads that take no time.

use umbra_core::cache::Slot;
use umbra_core::stencil::{Action, ByNumber, Future, Grid, Group, Input, Limits, Reference, Stencil, Storage, count};

use crate::optimum::Groups;

/// A stencil cache in vectors.
pub type Vectors = Storage<Vec<Slot>, Vec<u32>, Vec<Input>, Vec<Group>, Vec<Reference>>;

/// What a cache is made with, beside its slots.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Groups that have their slots at the same time.
    pub active: u32,
    /// Groups that are submitted at the same time, so that their uses are known.
    pub window: usize,
    /// How far ahead next uses are told apart.
    pub horizon: u64,
}

impl Plan {
    /// One group at a time.
    #[must_use]
    pub fn one(horizon: u64) -> Self {
        Plan { active: 1, window: 1, horizon }
    }

    /// One group at a time, so many known.
    #[must_use]
    pub fn window(window: usize) -> Self {
        Plan { active: 1, window, horizon: window as u64 }
    }
}

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
    let storage = Storage {
        slots: vec![Slot::EMPTY; slots as usize],
        buckets: vec![0; 4096],
        inputs,
        groups: vec![Group::EMPTY; plan.window],
        references: vec![Reference::EMPTY; plan.window * largest],
    };
    let limits = Limits { largest_group: largest as u32, active: plan.active, horizon: plan.horizon };
    Stencil::new(storage, ByNumber, future, 0..slots, limits)
        .unwrap_or_else(|error| panic!("a cache of {slots} slots: {error}"))
}

/// The usage map of groups, counted by a pass over them.
///
/// # Panics
/// If an input is used too often.
#[must_use]
pub fn usage(groups: &Groups) -> Vec<Input> {
    let mut inputs = vec![Input::NOT_USED; groups.inputs()];
    for group in groups.iter() {
        count(&mut inputs, group).unwrap_or_else(|error| panic!("{error}"));
    }
    inputs
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

/// All groups of a grid, row by row.
#[must_use]
pub fn rows(grid: &Grid) -> Groups {
    (0..u64::from(grid.len())).map(|point| grid.group(point)).collect()
}

/// All groups of a plane in strips: the last coordinate is cut into strips of this width, and each is swept row by
/// row.
#[must_use]
pub fn strips(grid: &Grid, [rows, columns]: [u64; 2], width: u64) -> Groups {
    let starts = (0..columns).step_by(width.max(1) as usize);
    let in_strip = |start: u64| {
        (0..rows).flat_map(move |row| (start..columns.min(start + width)).map(move |column| row * columns + column))
    };
    starts.flat_map(in_strip).map(|point| grid.group(point)).collect()
}
