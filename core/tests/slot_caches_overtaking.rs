//! Groups that need nothing pass one that waits for slots, as often as was said.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use umbra_core::cache::Slot;
use umbra_core::id::Id;
use umbra_core::stencil::{Action, ByNumber, Group, Input, Limits, Reference, Stencil, Storage, Unknown};

type Vecs = Storage<Vec<Slot>, Vec<u32>, Vec<Input>, Vec<Group>, Vec<Reference>>;
type Cache = Stencil<Vecs, ByNumber, Unknown>;

fn stencil(slots: u32, active: u32, overtake: u32) -> Cache {
    let storage = Storage {
        slots: vec![Slot::EMPTY; slots as usize],
        buckets: vec![0; 64],
        inputs: vec![Input::UNBOUNDED; 20],
        groups: vec![Group::EMPTY; 10],
        references: vec![Reference::EMPTY; 60],
    };
    let limits = Limits { largest_group: slots, active, horizon: 100 };
    Stencil::new(storage, ByNumber, Unknown, 0..slots, limits).unwrap().with_overtakers(overtake)
}

/// Loads what is asked for at once, and tells which points are ready.
fn ready(stencil: &mut Cache) -> Vec<u64> {
    let mut points = Vec::new();
    while let Some(action) = stencil.poll() {
        match action {
            Action::Prepare { data, .. } => stencil.prepared(data).unwrap(),
            Action::Ready { point, .. } => points.push(point),
            other => panic!("{other:?}"),
        }
    }
    points
}

/// Two slots, both in use by point 1, and point 2, which waits for a third one.
fn blocked(overtake: u32) -> (Cache, Id<Group>) {
    let mut stencil = stencil(2, 10, overtake);
    let first = stencil.submit(1, &[1, 2]).unwrap();
    stencil.submit(2, &[1, 3]).unwrap();
    assert_eq!(ready(&mut stencil), [1]);
    (stencil, first)
}

#[test]
fn s64_without_leave_an_endless_stream_of_hits_passes_nobody() {
    let (mut stencil, first) = blocked(0);
    for point in 10..15 {
        stencil.submit(point, &[1, 2]).unwrap();
        assert_eq!(ready(&mut stencil), [], "{point}");
    }
    stencil.free_group(first).unwrap();
    assert_eq!(ready(&mut stencil), [2]);
}

#[test]
fn s64_with_leave_for_three_no_more_than_three_pass_each_that_waits() {
    let (mut stencil, first) = blocked(3);
    let mut passed = Vec::new();
    for point in 10..16 {
        passed.push(stencil.submit(point, &[1, 2]).unwrap());
        let expected: &[u64] = if point < 13 { &[point] } else { &[] };
        assert_eq!(ready(&mut stencil), expected);
    }
    stencil.free_group(first).unwrap();
    assert_eq!(ready(&mut stencil), [], "those who passed hold the slots");
    for group in &passed[..3] {
        stencil.free_group(*group).unwrap();
    }
    // Point 2 has slots for inputs 1 and 3, and input 2 has none: point 13 waits, and may be passed itself.
    assert_eq!(ready(&mut stencil), [2]);
    stencil.submit(20, &[1, 3, 3]).unwrap();
    assert_eq!(ready(&mut stencil), [20]);
}

#[test]
fn s64_who_lacks_an_input_or_a_place_among_the_active_passes_nobody() {
    let (mut stencil, first) = blocked(5);
    stencil.submit(10, &[1, 4]).unwrap();
    assert_eq!(ready(&mut stencil), [], "input 4 is not there");
    stencil.submit(11, &[]).unwrap();
    assert_eq!(ready(&mut stencil), [11], "it needs nothing");
    stencil.free_group(first).unwrap();
    assert_eq!(ready(&mut stencil), [2]);

    let mut stencil = self::stencil(2, 1, 5);
    stencil.submit(1, &[1]).unwrap();
    stencil.submit(2, &[1, 2]).unwrap();
    assert_eq!(ready(&mut stencil), [1]);
    stencil.submit(3, &[1]).unwrap();
    assert_eq!(ready(&mut stencil), [], "one is active, as many as may be, and nobody lacks a slot");
}

#[test]
fn s64_an_input_that_is_being_loaded_is_not_there() {
    let mut stencil = stencil(2, 10, 5);
    stencil.submit(1, &[1, 2]).unwrap();
    stencil.submit(2, &[3]).unwrap();
    assert!(stencil.poll().is_some() && stencil.poll().is_some());
    stencil.prepared(1).unwrap();
    stencil.submit(3, &[1, 2]).unwrap();
    stencil.submit(4, &[1]).unwrap();
    assert_eq!(ready(&mut stencil), [4]);
}
