//! What a group keeps for the next one is idle, whatever comes then.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use umbra_core::cache::Slot;
use umbra_core::stencil::{
    Action, ByNumber, FreeError, Future, Grid, Group, Input, Limits, Reference, Runs, Shape, Stencil, Storage,
    SubmitError, Use, count,
};

type Vecs = Storage<Vec<Slot>, Vec<u32>, Vec<Input>, Vec<Group>, Vec<Reference>>;
type Cache<F> = Stencil<Vecs, ByNumber, F>;

const MEMBERS: usize = 4;

/// Any uses of four inputs, and none of the fifth.
fn cache<F: Future>(slots: u32, future: F) -> Cache<F> {
    let mut inputs = vec![Input::UNBOUNDED; 4];
    inputs.push(Input::used(0).unwrap());
    let storage = Storage {
        slots: vec![Slot::EMPTY; slots as usize],
        buckets: vec![0; 64],
        inputs,
        groups: vec![Group::EMPTY; 2],
        references: vec![Reference::EMPTY; 2 * MEMBERS],
    };
    Stencil::new(storage, ByNumber, future, 0..slots, Limits { largest_group: 2, active: 2, horizon: 60 }).unwrap()
}

/// Serves a group to its end; which inputs were loaded for it.
#[track_caller]
fn serve<F: Future>(cache: &mut Cache<F>, point: u64, group: &[u64]) -> Vec<u64> {
    let (mut loads, mut served) = (Vec::new(), false);
    cache.submit(point, group).unwrap();
    while let Some(action) = cache.poll() {
        match action {
            Action::Prepare { data, .. } => {
                loads.push(data);
                cache.prepared(data).unwrap();
            }
            Action::Ready { group, .. } => {
                cache.free_group(group).unwrap();
                served = true;
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(served, "{group:?} waits for ever after loads of {loads:?}");
    loads
}

/// A cache of two slots, both of whose inputs are kept for the next group.
fn keeping() -> Cache<Grid> {
    let mut cache = cache(2, Grid::new([1, 1, 2], 1, Shape::Box).unwrap());
    assert_eq!(serve(&mut cache, 0, &[0, 1]), [0, 1]);
    cache
}

#[test]
fn s74_a_group_that_is_refused_leaves_what_was_kept_to_who_needs_the_slots() {
    let refused: [(&[u64], SubmitError); 4] = [
        (&[1, 0, 7], SubmitError::UnknownData { data: 7 }),
        (&[1, 0, 4], SubmitError::UsageExhausted { data: 4 }),
        (&[1, 0, 2], SubmitError::GroupTooLarge { need: 3, have: 2 }),
        (&[1, 0, 1, 0, 1], SubmitError::TooManyMembers { have: MEMBERS }),
    ];
    for (group, error) in refused {
        for times in 1..3 {
            let mut cache = keeping();
            let before = (cache.len(), cache.idle(), cache.statistics());
            assert_eq!(before.1, Ok(2));
            for _ in 0..times {
                assert_eq!(cache.submit(9, group), Err(error));
            }
            assert_eq!((cache.len(), cache.idle(), cache.statistics()), before, "{group:?}");
            assert_eq!(serve(&mut cache, 1, &[2, 3]), [2, 3], "{group:?}");
        }
    }
}

#[test]
fn s74_what_is_only_kept_is_not_in_use() {
    let mut cache = keeping();
    for data in [0, 1, 0] {
        assert_eq!(cache.free(data), Err(FreeError::NotInUse { data }));
        assert_eq!((cache.len(), cache.idle()), (Ok(2), Ok(2)));
    }
    assert_eq!(serve(&mut cache, 1, &[0, 1]), [0; 0]);
    assert_eq!(serve(&mut cache, 2, &[2, 3]), [2, 3]);
}

/// Is certain of one input that every group uses, and knows nothing else.
struct Certain {
    data: u64,
    in_runs: bool,
}

impl Future for Certain {
    type Present = ();

    fn present(&self, _: u64) {}

    fn next_use(&self, _: u64, (): ()) -> Use {
        Use::Unknown
    }

    fn is_next(&self, data: u64, (): ()) -> bool {
        data == self.data
    }

    fn next_runs(&self, (): ()) -> Runs {
        if self.in_runs { Runs::new(self.data, 1, [0; 2], [0; 2]) } else { Runs::NONE }
    }
}

#[test]
fn s50_an_input_that_is_certainly_next_stays_without_runs_as_well() {
    for in_runs in [false, true] {
        // It was given back before the other one, which has to leave nevertheless for a group that nobody foresaw.
        let mut cache = cache(3, Certain { data: 1, in_runs });
        assert_eq!(serve(&mut cache, 0, &[1, 0]), [1, 0]);
        assert_eq!(serve(&mut cache, 1, &[2, 3]), [2, 3]);
        assert!(cache.has_slot(1) && !cache.has_slot(0), "in runs: {in_runs}");
        assert_eq!(serve(&mut cache, 2, &[1, 2]), [0; 0], "in runs: {in_runs}");
    }
}

/// A cache of a grid with a slot for each of its inputs, for one group of up to so many members at a time.
fn over(grid: Grid, inputs: Vec<Input>, members: u32) -> Cache<Grid> {
    let slots = inputs.len();
    let storage = Storage {
        slots: vec![Slot::EMPTY; slots],
        buckets: vec![0; 64],
        inputs,
        groups: vec![Group::EMPTY; 1],
        references: vec![Reference::EMPTY; members as usize],
    };
    let limits = Limits { largest_group: members, active: 1, horizon: 60 };
    Stencil::new(storage, ByNumber, grid, 0..slots as u32, limits).unwrap()
}

#[test]
fn s74_of_a_row_only_what_is_still_to_be_used_is_kept() {
    // Groups of up to seven in a row of twenty, of which only the first six are ever submitted.
    let grid = Grid::new([1, 1, 20], 3, Shape::Box).unwrap();
    let mut inputs = vec![Input::used(0).unwrap(); 20];
    let groups: Vec<Vec<u64>> = (0..6).map(|point| grid.group(point).collect()).collect();
    groups.iter().for_each(|group| count(&mut inputs, group).unwrap());
    let mut cache = over(grid, inputs, 7);
    // One more use of the first input that the seventh group would have.
    cache.expect(3, 1).unwrap();
    for (point, group) in (0..).zip(&groups) {
        serve(&mut cache, point, group);
    }
    assert_eq!((cache.len(), cache.idle()), (Ok(1), Ok(1)));
    assert!(cache.has_slot(3));
}

#[test]
fn s74_a_row_with_the_last_use_known_so_far_within_it_is_handed_on_in_parts() {
    let grid = Grid::new([1, 2, 20], 3, Shape::Box).unwrap();
    let groups: Vec<Vec<u64>> = (0..20).map(|point| grid.group(point).collect()).collect();
    // Two uses of this input at a time become known, when those before are claimed.
    let (late, mut claimed) = (10, 0);
    let all = groups.iter().filter(|group| group.contains(&late)).count() as u32;
    let mut inputs = vec![Input::used(0).unwrap(); 40];
    for group in &groups {
        let others: Vec<u64> = group.iter().copied().filter(|&data| data != late).collect();
        count(&mut inputs, &others).unwrap();
    }
    inputs[late as usize] = Input::used(2).unwrap();
    let mut cache = over(grid, inputs, 14);
    let (mut slots, mut loads) = ([u32::MAX; 40], 0);
    for (point, members) in (0..).zip(&groups) {
        cache.submit(point, members).unwrap();
        claimed += u32::from(members.contains(&late));
        if members.contains(&late) && claimed % 2 == 0 {
            cache.expect(late, 2.min(all - claimed)).unwrap();
        }
        while let Some(action) = cache.poll() {
            match action {
                Action::Prepare { data, slot } => {
                    (slots[data as usize], loads) = (slot, loads + 1);
                    cache.prepared(data).unwrap();
                }
                Action::Ready { group, .. } => {
                    let told: Vec<u32> = cache.slots(group).unwrap().collect();
                    let have: Vec<u32> = members.iter().map(|&data| slots[data as usize]).collect();
                    assert_eq!(told, have, "group {point}");
                    cache.free_group(group).unwrap();
                }
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!((loads, cache.len()), (40, Ok(0)), "each is loaded once, and leaves after its last use");
}
