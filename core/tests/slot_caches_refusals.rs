//! What the slot caches and the stencil cache refuse changes nothing.
//!
//! Every operation is tried with every bad input.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::fmt::Debug;

use umbra_core::cache::policy::{Clock, Lru};
use umbra_core::cache::{
    AllocError, Cache, Dense, FillError, ForgetError, Forgetful, FreeError as CacheFreeError, Line, Slot, Sparse, Stack,
};
use umbra_core::id::Id;
use umbra_core::stencil::{
    Action, ByNumber, FreeError, Group, GroupError, Input, Limits, PreparedError, Reference, Stencil, Storage,
    SubmitError, Unknown, UsageError,
};

/// The operation is refused for this reason, and afterwards every bit is as it was.
#[track_caller]
fn refused<C: Debug, T: Debug + PartialEq, E: Debug + PartialEq>(
    cache: &mut C,
    expected: E,
    operation: impl FnOnce(&mut C) -> Result<T, E>,
) {
    let before = format!("{cache:?}");
    assert_eq!(operation(cache), Err(expected));
    assert_eq!(format!("{cache:?}"), before);
}

#[test]
fn s74_a_stack_that_refuses_is_as_it_was() {
    let mut stack = Stack::stack(vec![Slot::EMPTY; 2], Dense::new(vec![0; 10]), 5..7).unwrap().with_most_references(2);
    refused(&mut stack, CacheFreeError::NotAssigned { data: 1 }, |stack| stack.free(1));
    stack.alloc(1).unwrap();
    stack.alloc(1).unwrap();
    refused(&mut stack, AllocError::TooManyReferences { data: 1, most: 2 }, |stack| stack.alloc(1));
    refused(&mut stack, CacheFreeError::NotAssigned { data: 2 }, |stack| stack.free(2));
    refused(&mut stack, CacheFreeError::NotAssigned { data: u64::MAX }, |stack| stack.free(u64::MAX));
    for _ in 0..2 {
        stack.free(1).unwrap();
    }
    refused(&mut stack, CacheFreeError::NotAssigned { data: 1 }, |stack| stack.free(1));
    // Without any reference nothing could ever be had.
    let mut one = stack.with_most_references(0);
    one.alloc(1).unwrap();
    refused(&mut one, AllocError::TooManyReferences { data: 1, most: 1 }, |stack| stack.alloc(1));
}

#[test]
fn s74_a_cache_that_refuses_is_as_it_was() {
    let mut cache =
        Cache::new(vec![Slot::EMPTY; 3], Sparse::new(vec![Line::EMPTY; 2], vec![0; 3], 1), Clock::new(), 0..3).unwrap();
    refused(&mut cache, FillError::NotAssigned { data: 1 }, |cache| cache.remember(1));
    refused(&mut cache, FillError::NotAssigned { data: 1 }, |cache| cache.abandon(1));
    cache.alloc(1).unwrap();
    cache.remember(1).unwrap();
    for _ in 0..2 {
        refused(&mut cache, FillError::AlreadyRemembered { data: 1 }, |cache| cache.remember(1));
        refused(&mut cache, FillError::AlreadyRemembered { data: 1 }, |cache| cache.abandon(1));
        if cache.idle() == Ok(0) {
            cache.free(1).unwrap();
        }
    }
    refused(&mut cache, CacheFreeError::NotInUse { data: 1 }, |cache| cache.free(1));
    let (pin, _) = cache.pin(2).unwrap();
    let other = cache.pin(2).unwrap().0;
    cache.free_pin(pin).unwrap();
    refused(&mut cache, FillError::NotAssigned { data: 3 }, |cache| cache.remember(3));
    cache.remember_pin(&other).unwrap();
    refused(&mut cache, FillError::AlreadyRemembered { data: 2 }, |cache| cache.remember_pin(&other));
    cache.interrupt();
    refused(&mut cache, CacheFreeError::Interrupted, |cache| cache.free(1));
    refused(&mut cache, AllocError::Interrupted, |cache| cache.alloc(1));
    refused(&mut cache, FillError::Interrupted, |cache| cache.remember(1));
    refused(&mut cache, CacheFreeError::Interrupted, |cache| cache.free_pin(other));
}

#[test]
fn s74_a_refusal_leaves_references_where_they_are_counted() {
    let (records, index) = (vec![Slot::EMPTY; 3], Dense::new(vec![0; 10]));
    let mut cache = Forgetful::new(records, index, Clock::new(), 0..3).unwrap().with_most_references(2);
    cache.alloc(1).unwrap();
    cache.remember(1).unwrap();
    cache.free(1).unwrap();
    // Content that is used again is counted in the word of the index.
    cache.alloc(1).unwrap();
    cache.free(1).unwrap();
    refused(&mut cache, CacheFreeError::NotInUse { data: 1 }, |cache| cache.free(1));
    for references in 1..=2 {
        cache.alloc(1).unwrap();
        refused(&mut cache, ForgetError::InUse { data: 1, references }, |cache| cache.forget(1));
    }
    refused(&mut cache, AllocError::TooManyReferences { data: 1, most: 2 }, |cache| cache.alloc(1));
}

#[test]
fn s74_a_forgetful_cache_that_refuses_is_as_it_was() {
    let mut cache = Forgetful::new(vec![Slot::EMPTY; 1], Dense::new(vec![0; 10]), Lru::new(), 0..1).unwrap();
    cache.alloc(1).unwrap();
    for later in [false, true] {
        let forget = |cache: &mut Forgetful<_, _, _>| if later { cache.forget_later(1) } else { cache.forget(1) };
        refused(&mut cache, ForgetError::NotRemembered { data: 1 }, forget);
    }
    cache.remember(1).unwrap();
    refused(&mut cache, ForgetError::InUse { data: 1, references: 1 }, |cache| cache.forget(1));
    // A full cache counts whom it sent away, and that is all that it does.
    let before = (cache.len(), cache.idle(), cache.state(1));
    assert_eq!(cache.alloc(2), Err(AllocError::Full { slots: 1 }));
    assert_eq!((cache.len(), cache.idle(), cache.state(1), cache.state(2)), (before.0, before.1, before.2, Ok(None)));
    cache.free(1).unwrap();
    assert_eq!(cache.forget(2), Ok(false));
    cache.interrupt();
    refused(&mut cache, ForgetError::Interrupted, |cache| cache.forget(1));
    refused(&mut cache, ForgetError::Interrupted, |cache| cache.forget_later(1));
}

type Vecs = Storage<Vec<Slot>, Vec<u32>, Vec<Input>, Vec<Group>, Vec<Reference>>;
type Plain = Stencil<Vecs, ByNumber, Unknown>;

const SLOTS: u32 = 4;
const GROUPS: usize = 5;
const MEMBERS: usize = 6;

/// A cache of which nothing was asked yet.
fn unused() -> Plain {
    let used = |times| Input::used(times).unwrap();
    let inputs = vec![used(2), used(4), used(4), used(3), used(3), used(3), used(1), Input::NOT_USED];
    let storage = Storage {
        slots: vec![Slot::EMPTY; SLOTS as usize],
        buckets: vec![0; 64],
        inputs,
        groups: vec![Group::EMPTY; GROUPS],
        references: vec![Reference::EMPTY; GROUPS * MEMBERS],
    };
    let limits = Limits { largest_group: 4, active: 100, horizon: 100 };
    Stencil::new(storage, ByNumber, Unknown, 0..SLOTS, limits).unwrap()
}

/// A cache in mid run: point 0 is done with half of its inputs, point 1 is ready, point 2 has some of its slots and waits
/// for the rest, point 3 waits behind it.
fn busy() -> (Plain, [Id<Group>; 4]) {
    let mut stencil = unused();
    let groups = [&[0_u64, 1][..], &[1, 2], &[3, 4, 5], &[2, 5]];
    let groups = [0, 1, 2, 3].map(|point| stencil.submit(point as u64, groups[point]).unwrap());
    assert_eq!(told(&mut stencil), "p0 p1 p2 p3");
    for data in [0, 1, 2] {
        stencil.prepared(data).unwrap();
    }
    assert_eq!(told(&mut stencil), "r0 r1");
    assert_eq!(stencil.hand_over(groups[0], &mut [0; MEMBERS]), Ok(2));
    stencil.free(1).unwrap();
    (stencil, groups)
}

fn told(stencil: &mut Plain) -> String {
    let mut words = Vec::new();
    while let Some(action) = stencil.poll() {
        words.push(match action {
            Action::Prepare { data, .. } => format!("p{data}"),
            Action::Ready { point, .. } => format!("r{point}"),
            other => format!("{other:?}"),
        });
    }
    words.join(" ")
}

/// What it does from here on, to the last slot.
fn rest(stencil: &mut Plain, groups: [Id<Group>; 4]) -> String {
    let mut said = format!("{:?} {:?};", stencil.len(), stencil.idle());
    let mut step = |stencil: &mut Plain, done: Result<(), String>| {
        said += &format!(" {} {:?} {:?}", done.err().unwrap_or_default(), told(stencil), stencil.statistics());
    };
    let ready = |stencil: &mut Plain, group| stencil.free_group(group).map_err(|error| error.to_string());
    let load = |stencil: &mut Plain, data| stencil.prepared(data).map_err(|error| error.to_string());
    let freed = stencil.free(0).map_err(|error| error.to_string());
    step(stencil, freed);
    for data in [3, 4] {
        let done = load(stencil, data);
        step(stencil, done);
    }
    let done = ready(stencil, groups[1]);
    step(stencil, done);
    let done = load(stencil, 5);
    step(stencil, done);
    for group in [groups[2], groups[3]] {
        let done = ready(stencil, group);
        step(stencil, done);
    }
    // The uses that are left, the one of the last record as well.
    for group in [&[0, 1, 2, 3][..], &[1, 4, 5], &[2, 3, 4, 6], &[1, 2, 5]] {
        let mut done = stencil.submit(9, group).map(drop).map_err(|error| error.to_string());
        while let Some(action) = stencil.poll() {
            done = match action {
                Action::Prepare { data, .. } => load(stencil, data),
                Action::Ready { group, .. } => ready(stencil, group),
                other => Err(format!("{other:?}")),
            };
        }
        step(stencil, done);
    }
    let left: Vec<_> = stencil.unclaimed().collect();
    assert_eq!((stencil.len(), &left[..]), (Ok(0), &[][..]), "all uses are over: {said}");
    said
}

/// What may be asked of a busy cache and is refused.
type Refusal = fn(&mut Plain, [Id<Group>; 4]);

const REFUSALS: [(&str, Refusal); 12] = [
    ("more inputs than slots", |stencil, _| {
        let need = SubmitError::GroupTooLarge { need: 5, have: SLOTS };
        assert_eq!(stencil.submit(9, &[0, 1, 2, 3, 4]), Err(need));
    }),
    ("more members than references", |stencil, _| {
        let many = SubmitError::TooManyMembers { have: MEMBERS };
        assert_eq!(stencil.submit(9, &[1, 1, 2, 2, 3, 3, 4]), Err(many));
    }),
    ("more uses than counted", |stencil, _| {
        assert_eq!(stencil.submit(9, &[3, 6, 0, 6]), Err(SubmitError::UsageExhausted { data: 6 }));
    }),
    ("an input that is not used", |stencil, _| {
        assert_eq!(stencil.submit(9, &[3, 4, 7, 5]), Err(SubmitError::UnknownData { data: 7 }));
    }),
    ("an input that there is not", |stencil, _| {
        for data in [8, u64::from(u32::MAX), u64::MAX] {
            assert_eq!(stencil.submit(9, &[3, data]), Err(SubmitError::UnknownData { data }));
            assert_eq!(stencil.free(data), Err(FreeError::NotAssigned { data }));
            assert_eq!(stencil.prepared(data), Err(PreparedError::NotFilling { data }));
            assert_eq!(stencil.failed(data), Err(PreparedError::NotFilling { data }));
            let none = UsageError::NoRecord { data, have: 8 };
            assert_eq!(stencil.expect(data, 1), Err(none));
        }
    }),
    ("a load that nobody was told to make", |stencil, _| {
        for data in [0, 1, 5, 6, 7] {
            assert_eq!(stencil.prepared(data), Err(PreparedError::NotFilling { data }));
            assert_eq!(stencil.failed(data), Err(PreparedError::NotFilling { data }));
        }
    }),
    ("a reference that was not handed over", |stencil, _| {
        for data in [1, 2, 3] {
            assert_eq!(stencil.free(data), Err(FreeError::NotReady { data }));
        }
        for data in [4, 5, 6, 7] {
            assert_eq!(stencil.free(data), Err(FreeError::NotAssigned { data }));
        }
    }),
    ("a group that has ended", |stencil, groups| {
        assert_eq!(stencil.free_group(groups[0]), Err(GroupError::Stale {}));
        assert_eq!(stencil.hand_over(groups[0], &mut [0; MEMBERS]), Err(GroupError::Stale {}));
    }),
    ("a group that is not ready", |stencil, groups| {
        for group in &groups[2..] {
            assert_eq!(stencil.free_group(*group), Err(GroupError::NotReady {}));
            assert_eq!(stencil.hand_over(*group, &mut [0; MEMBERS]), Err(GroupError::NotReady {}));
        }
    }),
    ("a group that never was", |stencil, _| {
        for bits in [0, 4, u64::from(u32::MAX), u64::MAX] {
            assert_eq!(stencil.free_group(Id::from_bits(bits)), Err(GroupError::Stale {}));
        }
    }),
    ("too little room for the slots", |stencil, groups| {
        assert_eq!(stencil.hand_over(groups[1], &mut [0]), Err(GroupError::TooShort { need: 2 }));
    }),
    ("more uses than can be counted", |stencil, _| {
        for times in [u32::MAX, u32::MAX - 1, u32::MAX - 2] {
            assert_eq!(stencil.expect(1, times), Err(UsageError::TooMany));
        }
        assert_eq!(stencil.expect(7, u32::MAX), Err(UsageError::TooMany));
    }),
];

#[test]
fn s74_a_stencil_cache_that_refuses_goes_on_as_if_nobody_had_asked() {
    let (mut plain, groups) = busy();
    let expected = rest(&mut plain, groups);
    for (what, refusal) in REFUSALS {
        let (mut stencil, groups) = busy();
        // Twice: what was refused stays refused.
        refusal(&mut stencil, groups);
        refusal(&mut stencil, groups);
        assert_eq!(rest(&mut stencil, groups), expected, "{what}");
    }
    let (mut full, groups) = busy();
    // The first group has ended, and left its record.
    full.submit(4, &[1]).unwrap();
    full.submit(5, &[1]).unwrap();
    assert_eq!(full.submit(6, &[2]), Err(SubmitError::GroupsFull { groups: GROUPS }));
    full.interrupt();
    assert_eq!(full.submit(5, &[1]), Err(SubmitError::Interrupted));
    assert_eq!(full.free_group(groups[1]), Err(GroupError::Interrupted));
    assert_eq!(full.free(0), Err(FreeError::Interrupted));
    assert_eq!(full.prepared(3), Err(PreparedError::Interrupted));
}

/// What a group can be refused for while it takes hold of what is there.
const GROUPS_REFUSED: [(&[u64], SubmitError); 5] = [
    (&[0, 1, 2, 7], SubmitError::UnknownData { data: 7 }),
    (&[3, 2, 1, 0, 8], SubmitError::UnknownData { data: 8 }),
    (&[2, 0, 1, 0], SubmitError::UsageExhausted { data: 0 }),
    (&[0, 1, 2, 3, 4], SubmitError::GroupTooLarge { need: 5, have: SLOTS }),
    (&[1, 1, 2, 2, 1, 2, 0], SubmitError::TooManyMembers { have: MEMBERS }),
];

#[test]
fn s74_a_group_that_is_refused_in_its_turn_holds_nothing_of_what_is_there() {
    for (group, error) in GROUPS_REFUSED {
        let mut stencil = unused();
        let first = stencil.submit(0, &[0, 1, 2]).unwrap();
        assert_eq!(told(&mut stencil), "p0 p1 p2");
        for data in [0, 1, 2] {
            stencil.prepared(data).unwrap();
        }
        assert_eq!(told(&mut stencil), "r0");
        stencil.free_group(first).unwrap();
        // Nobody is in line, three inputs are idle, and the fourth slot is being filled.
        let loading = stencil.submit(1, &[3]).unwrap();
        assert_eq!(told(&mut stencil), "p3");

        let state = |stencil: &Plain| (stencil.len(), stencil.idle(), stencil.statistics());
        let before = (state(&stencil), stencil.unclaimed().collect::<Vec<_>>());
        assert_eq!(before.0.1, Ok(3));
        for _ in 0..2 {
            assert_eq!(stencil.submit(9, group), Err(error), "{group:?}");
        }
        assert_eq!((state(&stencil), stencil.unclaimed().collect::<Vec<_>>()), before, "after {group:?}");
        // All that is idle leaves for others, and what is loaded has one who waits for it.
        let others = stencil.submit(2, &[4, 5, 6]).unwrap();
        assert_eq!(told(&mut stencil), "p4 p5 p6", "after {group:?}");
        stencil.prepared(3).unwrap();
        assert_eq!(told(&mut stencil), "r1");
        stencil.free_group(loading).unwrap();
        for data in [4, 5, 6] {
            stencil.prepared(data).unwrap();
        }
        assert_eq!(told(&mut stencil), "r2");
        stencil.free_group(others).unwrap();
    }
}
