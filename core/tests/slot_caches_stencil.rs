//! The scenarios of the stencil cache, one test each.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use umbra_core::cache::{Interrupted, Line, ResetError, Slot, Sparse};
use umbra_core::id::Id;
use umbra_core::stencil::{
    Action, BuildError, ById, ByNumber, FreeError, Future, Group, GroupError, Input, Limits, Member, Names,
    PreparedError, Reference, Stencil, Storage, SubmitError, Unknown, UsageError, Use, count,
};

type Vecs = Storage<Vec<Slot>, Vec<u32>, Vec<Input>, Vec<Group>, Vec<Reference>>;
type Plain = Stencil<Vecs, ByNumber, Unknown>;

const MEMBERS: usize = 6;

fn storage(slots: u32, inputs: Vec<Input>, groups: usize) -> Vecs {
    Storage {
        slots: vec![Slot::EMPTY; slots as usize],
        buckets: vec![0; 64],
        inputs,
        groups: vec![Group::EMPTY; groups],
        references: vec![Reference::EMPTY; groups * MEMBERS],
    }
}

fn limits(largest_group: u32) -> Limits {
    Limits { largest_group, active: 100, horizon: 100 }
}

/// Any uses of twenty inputs.
fn stencil(slots: u32) -> Plain {
    let largest = slots.min(3);
    Stencil::new(storage(slots, vec![Input::UNBOUNDED; 20], 10), ByNumber, Unknown, 0..slots, limits(largest)).unwrap()
}

/// As many uses of the first inputs.
fn counted(slots: u32, uses: &[u32]) -> Plain {
    let inputs = uses.iter().map(|&uses| Input::used(uses).unwrap()).collect();
    Stencil::new(storage(slots, inputs, 10), ByNumber, Unknown, 0..slots, limits(1)).unwrap()
}

/// What is asked for now, in words: `p1` is to load input 1, `r7` that point 7 is ready, `f7` that it failed.
fn told<N: Names, F: Future>(stencil: &mut Stencil<Vecs, N, F>) -> String {
    let mut words = Vec::new();
    while let Some(action) = stencil.poll() {
        words.push(match action {
            Action::Prepare { data, .. } => format!("p{data}"),
            Action::Ready { point, .. } => format!("r{point}"),
            Action::Failed { point, data } => format!("f{point}:{data}"),
            Action::Interrupted { point } => format!("i{point}"),
        });
    }
    words.join(" ")
}

fn loaded(stencil: &mut Plain, data: &[u64]) {
    for &data in data {
        stencil.prepared(data).unwrap();
    }
}

fn slots(stencil: &Plain, group: Id<Group>) -> Vec<u32> {
    stencil.slots(group).unwrap().collect()
}

#[test]
fn s36_a_group_is_ready_after_its_last_load_and_its_slots_are_in_the_order_of_the_request() {
    for order in [[3, 1, 2], [1, 2, 3], [2, 3, 1]] {
        let mut stencil = stencil(5);
        let group = stencil.submit(7, &[3, 1, 2]).unwrap();
        assert_eq!(told(&mut stencil), "p3 p1 p2");
        assert_eq!(stencil.slots(group).err(), Some(GroupError::NotReady {}));
        for data in &order[..2] {
            stencil.prepared(*data).unwrap();
            assert_eq!(told(&mut stencil), "");
        }
        stencil.prepared(order[2]).unwrap();
        assert_eq!(told(&mut stencil), "r7");
        assert_eq!(slots(&stencil, group), [0, 1, 2]);
        assert_eq!(stencil.free_group(group), Ok(()));
        assert_eq!(stencil.free_group(group), Err(GroupError::Stale {}));
    }
}

#[test]
fn s37_an_input_that_is_being_loaded_is_awaited_by_all_and_loaded_once() {
    let mut stencil = stencil(5);
    stencil.submit(1, &[1, 2]).unwrap();
    stencil.submit(2, &[2]).unwrap();
    stencil.submit(3, &[2, 1]).unwrap();
    assert_eq!(told(&mut stencil), "p1 p2");
    loaded(&mut stencil, &[1]);
    assert_eq!(told(&mut stencil), "");
    loaded(&mut stencil, &[2]);
    assert_eq!(told(&mut stencil), "r1 r2 r3");
    assert_eq!(stencil.statistics().loads, 2);
}

#[test]
fn s38_a_group_whose_inputs_are_there_is_ready_at_once() {
    let mut stencil = stencil(5);
    let group = stencil.submit(1, &[4, 5]).unwrap();
    told(&mut stencil);
    loaded(&mut stencil, &[4, 5]);
    assert_eq!(told(&mut stencil), "r1");
    stencil.free_group(group).unwrap();
    stencil.submit(2, &[5, 4]).unwrap();
    assert_eq!(told(&mut stencil), "r2");
}

#[test]
fn s39_after_its_last_use_an_input_leaves_before_all_others() {
    let mut stencil = counted(3, &[2, 1, 9, 9]);
    let group = stencil.submit(0, &[0, 1, 2]).unwrap();
    told(&mut stencil);
    loaded(&mut stencil, &[0, 1, 2]);
    told(&mut stencil);
    stencil.free_group(group).unwrap();
    assert_eq!((stencil.len(), stencil.idle()), (Ok(2), Ok(2)), "input 1 had one use");
    let group = stencil.submit(1, &[3]).unwrap();
    assert_eq!(stencil.poll(), Some(Action::Prepare { slot: 1, data: 3 }));
    loaded(&mut stencil, &[3]);
    told(&mut stencil);
    stencil.free_group(group).unwrap();
    stencil.submit(2, &[0, 2]).unwrap();
    assert_eq!(told(&mut stencil), "r2");
    assert_eq!(stencil.statistics().forgotten, 1);
}

#[test]
fn s40_an_input_may_be_named_twice_loaded_or_not() {
    for before in [false, true] {
        let mut stencil = counted(3, &[if before { 3 } else { 2 }, 1]);
        if before {
            let group = stencil.submit(9, &[0]).unwrap();
            told(&mut stencil);
            loaded(&mut stencil, &[0]);
            told(&mut stencil);
            stencil.free_group(group).unwrap();
        }
        let group = stencil.submit(1, &[0, 0, 1]).unwrap();
        assert_eq!(told(&mut stencil), if before { "p1" } else { "p0 p1" });
        loaded(&mut stencil, if before { &[1] } else { &[0, 1] });
        assert_eq!(told(&mut stencil), "r1");
        assert_eq!(slots(&stencil, group), [0, 0, 1]);
        let mut place = [9; 3];
        assert_eq!(stencil.hand_over(group, &mut place[..2]), Err(GroupError::TooShort { need: 3 }));
        assert_eq!(stencil.hand_over(group, &mut place), Ok(3));
        assert_eq!(place, [0, 0, 1]);
        assert_eq!((stencil.free(0), stencil.free(0)), (Ok(()), Ok(())));
        assert_eq!(stencil.free(0), Err(FreeError::NotAssigned { data: 0 }));
        assert_eq!(stencil.free(1), Ok(()));
        assert_eq!(stencil.is_empty(), Ok(true));
    }
}

#[test]
fn s41_s42_empty_groups_and_repeated_points_are_ready_each_on_its_own() {
    let mut stencil = stencil(2);
    let group = stencil.submit(5, &[]).unwrap();
    stencil.submit(5, &[]).unwrap();
    assert_eq!(told(&mut stencil), "r5 r5");
    assert_eq!(slots(&stencil, group), []);
    assert_eq!(stencil.free_group(group), Ok(()));
}

#[test]
fn s43_a_group_with_more_inputs_than_slots_is_refused_and_one_with_more_members_is_not() {
    let mut stencil = counted(2, &[4, 1, 1]);
    assert_eq!(stencil.submit(0, &[0, 1, 2, 0]), Err(SubmitError::GroupTooLarge { need: 3, have: 2 }));
    assert_eq!(stencil.unclaimed().collect::<Vec<_>>(), [(0, 4), (1, 1), (2, 1)]);
    stencil.submit(1, &[0, 0, 1, 0]).unwrap();
    assert_eq!(told(&mut stencil), "p0 p1");
    loaded(&mut stencil, &[0, 1]);
    assert_eq!(told(&mut stencil), "r1");
    assert_eq!(stencil.submit(2, &[0; MEMBERS + 1]), Err(SubmitError::UsageExhausted { data: 0 }));
    let mut unbounded = self::stencil(1);
    assert_eq!(unbounded.submit(0, &[1; MEMBERS + 1]), Err(SubmitError::TooManyMembers { have: MEMBERS }));
    assert!(unbounded.submit(0, &[1; MEMBERS]).is_ok());
}

#[test]
fn s44_storage_in_which_some_group_could_not_be_served_is_refused() {
    let build = |slots: u32, groups: usize, limits: Limits| {
        let storage = storage(2, vec![Input::UNBOUNDED; 3], groups);
        Stencil::new(storage, ByNumber, Unknown, 0..slots, limits).err()
    };
    assert_eq!(build(2, 1, limits(3)), Some(BuildError::NotEnoughSlots { need: 3, have: 2 }));
    assert!(matches!(build(0, 1, limits(0)), Some(BuildError::Slots(_))));
    assert!(matches!(build(3, 1, limits(3)), Some(BuildError::Slots(_))));
    assert_eq!(build(2, 0, limits(2)), Some(BuildError::NoGroups));
    assert_eq!(build(2, 1, Limits { active: 0, ..limits(2) }), Some(BuildError::NoGroups));
    let mut short = storage(9, vec![], 2);
    short.references.truncate(11);
    let error = Stencil::new(short, ByNumber, Unknown, 0..9, limits(8)).err();
    assert_eq!(error, Some(BuildError::TooFewReferences { need: 8, have: 5 }));
}

#[test]
fn s45_more_uses_than_counted_are_refused_and_nothing_is_lost() {
    let mut stencil = counted(3, &[1, 2]);
    let group = stencil.submit(1, &[0, 1]).unwrap();
    assert_eq!(stencil.submit(2, &[1, 0]), Err(SubmitError::UsageExhausted { data: 0 }));
    assert_eq!(stencil.unclaimed().collect::<Vec<_>>(), [(1, 1)]);
    assert_eq!(told(&mut stencil), "p0 p1");
    loaded(&mut stencil, &[0, 1]);
    assert_eq!(told(&mut stencil), "r1");
    stencil.free_group(group).unwrap();
    assert_eq!(stencil.expect(0, 1), Ok(()));
    assert!(stencil.submit(2, &[1, 0]).is_ok());
    assert_eq!(told(&mut stencil), "p0");
}

#[test]
fn s46_fewer_uses_than_counted_do_no_harm_and_are_told() {
    let mut stencil = counted(1, &[5, 1]);
    let group = stencil.submit(1, &[0]).unwrap();
    told(&mut stencil);
    loaded(&mut stencil, &[0]);
    told(&mut stencil);
    stencil.free_group(group).unwrap();
    let group = stencil.submit(2, &[1]).unwrap();
    assert_eq!(told(&mut stencil), "p1", "input 0 makes room");
    loaded(&mut stencil, &[1]);
    told(&mut stencil);
    stencil.free_group(group).unwrap();
    assert_eq!(stencil.unclaimed().collect::<Vec<_>>(), [(0, 4)]);
}

#[test]
fn s47_an_unknown_input_is_refused_before_others_are_claimed() {
    let mut stencil = counted(4, &[1, 1, 1]);
    for unknown in [3, u64::MAX, u64::from(u32::MAX)] {
        assert_eq!(stencil.submit(1, &[0, 1, unknown, 2]), Err(SubmitError::UnknownData { data: unknown }));
    }
    assert_eq!(stencil.unclaimed().count(), 3);
    let mut inputs = [Input::NOT_USED; 2];
    assert_eq!(count(&mut inputs, &[0, 2]), Err(UsageError::NoRecord { data: 2, have: 2 }));
    let mut stencil = Stencil::new(storage(2, inputs.to_vec(), 1), ByNumber, Unknown, 0..2, limits(1)).unwrap();
    assert_eq!(stencil.submit(1, &[0, 1]), Err(SubmitError::UnknownData { data: 1 }));
    assert!(stencil.submit(1, &[0]).is_ok());
    assert_eq!(Input::used(u32::MAX).err(), Some(UsageError::TooMany));
    assert_eq!(stencil.expect(1, u32::MAX - 1), Err(UsageError::TooMany));
    assert_eq!(stencil.expect(1, u32::MAX - 2), Ok(()));
    assert_eq!(stencil.expect(1, 1), Err(UsageError::TooMany));
}

#[test]
fn s48_a_load_is_answered_once_and_only_if_it_was_asked_for() {
    let mut stencil = stencil(2);
    let not_filling = |data| Err(PreparedError::NotFilling { data });
    assert_eq!(stencil.prepared(1), not_filling(1));
    let group = stencil.submit(1, &[1]).unwrap();
    assert_eq!(stencil.prepared(1), not_filling(1), "nobody was told yet");
    assert_eq!(told(&mut stencil), "p1");
    assert_eq!(stencil.prepared(1), Ok(()));
    assert_eq!((stencil.prepared(1), stencil.failed(1)), (not_filling(1), not_filling(1)));
    told(&mut stencil);
    stencil.free_group(group).unwrap();
    assert_eq!(stencil.prepared(1), not_filling(1), "idle");
    assert_eq!(stencil.prepared(u64::MAX), not_filling(u64::MAX));
}

#[test]
fn s49_only_what_was_handed_over_is_freed() {
    let mut stencil = stencil(3);
    assert_eq!(stencil.free(1), Err(FreeError::NotAssigned { data: 1 }));
    let first = stencil.submit(1, &[1]).unwrap();
    assert_eq!(stencil.free(1), Err(FreeError::NotReady { data: 1 }));
    assert_eq!(stencil.free_group(first), Err(GroupError::NotReady {}));
    told(&mut stencil);
    stencil.submit(2, &[1, 2]).unwrap();
    loaded(&mut stencil, &[1]);
    assert_eq!(stencil.free_group(first), Err(GroupError::NotReady {}), "nobody was told");
    assert_eq!(told(&mut stencil), "p2 r1");
    assert_eq!(stencil.hand_over(first, &mut [0]), Ok(1));
    assert_eq!(stencil.hand_over(first, &mut [0]), Err(GroupError::Stale {}));
    assert_eq!(stencil.free(1), Ok(()));
    assert_eq!(stencil.free(1), Err(FreeError::NotReady { data: 1 }), "the second group holds it");
    loaded(&mut stencil, &[2]);
    let Some(Action::Ready { group, .. }) = stencil.poll() else { panic!("not ready") };
    stencil.free_group(group).unwrap();
    assert_eq!(stencil.free(1), Err(FreeError::NotInUse { data: 1 }));
    assert_eq!(stencil.free(u64::MAX), Err(FreeError::NotAssigned { data: u64::MAX }));
}

#[test]
fn s50_a_load_that_fails_ends_the_groups_that_wait_and_leaves_nothing_behind() {
    let mut stencil = stencil(6);
    stencil.submit(1, &[1, 2, 1]).unwrap();
    stencil.submit(2, &[2, 3]).unwrap();
    stencil.submit(3, &[3, 4]).unwrap();
    assert_eq!(told(&mut stencil), "p1 p2 p3 p4");
    loaded(&mut stencil, &[3]);
    assert_eq!(stencil.failed(2), Ok(()));
    assert_eq!(told(&mut stencil), "f1:2 f2:2");
    loaded(&mut stencil, &[1]);
    assert_eq!(told(&mut stencil), "", "both have ended");
    loaded(&mut stencil, &[4]);
    let Some(Action::Ready { group, point: 3 }) = stencil.poll() else { panic!("not ready") };
    stencil.free_group(group).unwrap();
    assert_eq!((stencil.len(), stencil.idle()), (Ok(3), Ok(3)), "1, 3 and 4");
    stencil.submit(4, &[2, 1]).unwrap();
    assert_eq!(told(&mut stencil), "p2");
}

#[test]
fn s50_a_group_that_fails_half_way_makes_room_for_the_next() {
    let mut stencil = stencil(2);
    let first = stencil.submit(1, &[1]).unwrap();
    stencil.submit(2, &[2, 3]).unwrap();
    stencil.submit(3, &[3]).unwrap();
    assert_eq!(told(&mut stencil), "p1 p2");
    assert_eq!(stencil.failed(2), Ok(()));
    assert_eq!(told(&mut stencil), "p3 f2:2");
    loaded(&mut stencil, &[1, 3]);
    assert_eq!(told(&mut stencil), "r1 r3");
    assert_eq!(stencil.free_group(first), Ok(()));
}

#[test]
fn s51_a_place_for_an_output_is_not_loaded() {
    let mut stencil = counted(3, &[1, 1, 1]);
    let members = [Member::Load(0), Member::Scratch(2), Member::Load(1)];
    let group = stencil.submit_members(1, members).unwrap();
    assert_eq!(told(&mut stencil), "p0 p1");
    loaded(&mut stencil, &[0, 1]);
    assert_eq!(told(&mut stencil), "r1");
    assert_eq!(slots(&stencil, group), [0, 1, 2]);
    stencil.free_group(group).unwrap();
    assert_eq!(stencil.is_empty(), Ok(true));
    assert_eq!(stencil.statistics().loads, 2);
}

#[test]
fn s51_a_group_does_not_load_its_own_output() {
    use Member::{Load, Scratch};
    for present in [false, true] {
        for members in [[Load(1), Scratch(2), Load(2)], [Load(2), Scratch(2), Load(1)], [Scratch(2), Load(1), Load(2)]]
        {
            let mut stencil = counted(3, &[0, 2, 4]);
            if present {
                let group = stencil.submit_members(1, [Scratch(2)]).unwrap();
                assert_eq!(told(&mut stencil), "r1");
                stencil.free_group(group).unwrap();
            }
            assert_eq!(stencil.submit_members(2, members), Err(SubmitError::LoadOfScratch { data: 2 }));
            // Nothing has changed: also not how often each may be named.
            let group = stencil.submit_members(3, [Scratch(2), Load(1), Scratch(2)]).unwrap();
            assert_eq!(told(&mut stencil), "p1", "a place that is named twice is one place");
            loaded(&mut stencil, &[1]);
            assert_eq!(told(&mut stencil), "r3");
            stencil.free_group(group).unwrap();
        }
    }
}

#[test]
fn s51_an_output_of_a_group_that_failed_was_written_by_nobody_and_does_not_stay() {
    for mut stencil in [counted(3, &[1, 1, 3]), stencil(3)] {
        stencil.submit_members(1, [Member::Load(0), Member::Scratch(2)]).unwrap();
        assert_eq!(told(&mut stencil), "p0");
        // Somebody else who holds it changes nothing.
        let held = stencil.submit_members(2, [Member::Scratch(2)]).unwrap();
        assert_eq!(told(&mut stencil), "r2");
        assert_eq!(stencil.failed(0), Ok(()));
        assert_eq!(told(&mut stencil), "f1:0");
        stencil.free_group(held).unwrap();
        assert!(!stencil.has_slot(2));
        stencil.submit(3, &[2]).unwrap();
        assert_eq!(told(&mut stencil), "p2");
    }
}

#[test]
fn s52_no_member_leaves_for_another_member() {
    let mut stencil = stencil(4);
    let group = stencil.submit(1, &[1, 2, 3, 4]).unwrap();
    told(&mut stencil);
    loaded(&mut stencil, &[1, 2, 3, 4]);
    told(&mut stencil);
    stencil.free_group(group).unwrap();
    stencil.submit(2, &[5, 1, 6, 2]).unwrap();
    assert_eq!(told(&mut stencil), "p5 p6");
}

#[test]
fn s53_a_group_waits_half_way_and_takes_the_slots_as_they_come() {
    let mut stencil = stencil(4);
    let first = stencil.submit(1, &[1, 2, 3]).unwrap();
    let second = stencil.submit(2, &[4, 5, 6]).unwrap();
    let third = stencil.submit(3, &[1, 4]).unwrap();
    assert_eq!(told(&mut stencil), "p1 p2 p3 p4");
    loaded(&mut stencil, &[4, 3, 2, 1]);
    assert_eq!(told(&mut stencil), "r1");
    stencil.hand_over(first, &mut [0; 3]).unwrap();
    stencil.free(1).unwrap();
    assert_eq!(told(&mut stencil), "p5");
    stencil.free(3).unwrap();
    assert_eq!(told(&mut stencil), "p6");
    loaded(&mut stencil, &[6, 5]);
    assert_eq!(told(&mut stencil), "r2", "the third has no slot for input 1");
    stencil.free(2).unwrap();
    assert_eq!(told(&mut stencil), "p1");
    loaded(&mut stencil, &[1]);
    assert_eq!(told(&mut stencil), "r3");
    assert_eq!((stencil.free_group(second), stencil.free_group(third)), (Ok(()), Ok(())));
}

#[test]
fn s56_two_groups_that_fit_only_one_after_the_other_never_hold_half_each() {
    let mut stencil = stencil(2);
    for turn in 0..10 {
        let first = stencil.submit(1, &[1, 2]).unwrap();
        let second = stencil.submit(2, &[3, 4]).unwrap();
        assert_eq!(told(&mut stencil), "p1 p2", "{turn}");
        loaded(&mut stencil, &[1, 2]);
        assert_eq!(told(&mut stencil), "r1");
        stencil.free_group(first).unwrap();
        assert_eq!(told(&mut stencil), "p3 p4");
        loaded(&mut stencil, &[3, 4]);
        assert_eq!(told(&mut stencil), "r2");
        stencil.free_group(second).unwrap();
    }
}

#[test]
fn s56_two_groups_of_three_beside_a_pair_that_stays_get_the_other_slots_one_after_the_other() {
    for [first, second] in [[2, 3], [3, 2]] {
        let mut stencil = stencil(5);
        let pair = stencil.submit(1, &[1, 2]).unwrap();
        assert_eq!(told(&mut stencil), "p1 p2");
        loaded(&mut stencil, &[1, 2]);
        assert_eq!(told(&mut stencil), "r1");
        let group = |point: u64| [0, 1, 2].map(|nth| 3 * point + nth);
        let earlier = stencil.submit(first, &group(first)).unwrap();
        let later = stencil.submit(second, &group(second)).unwrap();
        let loads = |point: u64| group(point).map(|data| format!("p{data}")).join(" ");
        assert_eq!(told(&mut stencil), loads(first), "the second takes no slot that the first may need");
        loaded(&mut stencil, &group(first));
        assert_eq!(told(&mut stencil), format!("r{first}"));
        assert_eq!(stencil.slots(earlier).unwrap().collect::<Vec<_>>(), [2, 3, 4]);
        stencil.free_group(earlier).unwrap();
        assert_eq!(told(&mut stencil), loads(second));
        loaded(&mut stencil, &group(second));
        assert_eq!(told(&mut stencil), format!("r{second}"));
        assert_eq!(slots(&stencil, pair), [0, 1], "the pair was never touched");
        stencil.free_group(later).unwrap();
        stencil.free_group(pair).unwrap();
        assert_eq!((stencil.len(), stencil.idle()), (Ok(5), Ok(5)));
    }
}

#[test]
fn s33_an_interrupt_answers_each_waiting_group_once_and_nothing_has_an_effect_after_it() {
    let mut stencil = stencil(3);
    let first = stencil.submit(1, &[1]).unwrap();
    told(&mut stencil);
    loaded(&mut stencil, &[1]);
    assert_eq!(told(&mut stencil), "r1");
    stencil.submit(2, &[1, 2, 3]).unwrap();
    assert_eq!(stencil.poll(), Some(Action::Prepare { slot: 1, data: 2 }));
    stencil.submit(3, &[4]).unwrap();
    stencil.submit(4, &[1]).unwrap();
    stencil.interrupt();
    stencil.interrupt();
    assert_eq!(told(&mut stencil), "i2 i3 i4", "point 1 is known to be ready");
    assert_eq!(told(&mut stencil), "");
    assert_eq!(stencil.submit(5, &[1]), Err(SubmitError::Interrupted));
    assert_eq!(stencil.expect(1, 1), Err(UsageError::Interrupted));
    assert_eq!(stencil.prepared(2), Err(PreparedError::Interrupted));
    assert_eq!(stencil.failed(2), Err(PreparedError::Interrupted));
    assert_eq!(stencil.free_group(first), Err(GroupError::Interrupted));
    assert_eq!(stencil.hand_over(first, &mut [0]), Err(GroupError::Interrupted));
    assert_eq!(stencil.slots(first).err(), Some(GroupError::Interrupted));
    assert_eq!(stencil.free(1), Err(FreeError::Interrupted));
    assert_eq!((stencil.len(), stencil.idle()), (Err(Interrupted), Err(Interrupted)));
    assert_eq!(stencil.outstanding_fills().collect::<Vec<_>>(), [(1, 2)], "nobody was told of input 3");
    assert_eq!(stencil.reset(), Err(ResetError::Filling { slot: 1, data: 2 }));
    assert!(stencil.settle(1) && !stencil.settle(1) && !stencil.settle(2));
    assert_eq!(stencil.reset(), Ok(()));
    assert_eq!(stencil.free_group(first), Err(GroupError::Stale {}));
    stencil.submit(6, &[2]).unwrap();
    assert_eq!(told(&mut stencil), "p2");
}

#[test]
fn s33_a_reset_gives_back_the_uses_of_all_groups_that_were_not_freed_or_handed_over() {
    // One input for each stage of a group, and two for the one that fails while its second load goes on.
    let mut stencil = counted(8, &[3; 10]);
    let freed = stencil.submit(0, &[0]).unwrap();
    let handed = stencil.submit(1, &[1]).unwrap();
    stencil.submit(2, &[2, 2]).unwrap();
    stencil.submit(3, &[3]).unwrap();
    stencil.submit(4, &[4]).unwrap();
    stencil.submit(5, &[5, 6]).unwrap();
    assert_eq!(told(&mut stencil), "p0 p1 p2 p3 p4 p5 p6");
    loaded(&mut stencil, &[0, 1, 2]);
    assert_eq!(stencil.failed(5), Ok(()));
    assert_eq!(told(&mut stencil), "r0 r1 r2 f5:5");
    stencil.free_group(freed).unwrap();
    stencil.hand_over(handed, &mut [0]).unwrap();
    // Ready, and nobody was told.
    loaded(&mut stencil, &[3]);
    // Half of its slots, and none of them.
    stencil.submit(7, &[7, 8, 9, 0, 5]).unwrap();
    stencil.submit(8, &[9]).unwrap();
    assert_eq!(stencil.unclaimed().map(|(_, left)| left).collect::<Vec<_>>(), [1, 2, 1, 2, 2, 2, 3, 2, 2, 1]);
    stencil.interrupt();
    assert_eq!(told(&mut stencil), "i8 i7 i3 i4");
    let outstanding: Vec<u32> = stencil.outstanding_fills().map(|(slot, _)| slot).collect();
    outstanding.into_iter().for_each(|slot| assert!(stencil.settle(slot)));
    assert_eq!(stencil.reset(), Ok(()));
    assert_eq!(stencil.unclaimed().map(|(_, left)| left).collect::<Vec<_>>(), [2, 2, 3, 3, 3, 3, 3, 3, 3, 3]);
    stencil.submit(2, &[2, 2, 2]).unwrap();
    assert_eq!(told(&mut stencil), "p2");
}

#[test]
fn s33_a_full_table_of_groups_is_refused_until_one_ends() {
    let mut stencil = stencil(2);
    let groups: Vec<_> = (0..10).map(|point| stencil.submit(point, &[]).unwrap()).collect();
    assert_eq!(stencil.submit(10, &[]), Err(SubmitError::GroupsFull { groups: 10 }));
    told(&mut stencil);
    stencil.free_group(groups[4]).unwrap();
    assert!(stencil.submit(10, &[]).is_ok());
}

#[test]
fn s05_any_ids_name_inputs_once_they_were_added() {
    let mut names = ById::new(Sparse::new(vec![Line::EMPTY; 2], vec![0; 3], 1));
    let mut inputs = vec![Input::NOT_USED; 3];
    let ids = [1 << 60, 7, u64::MAX];
    for (id, record) in ids.into_iter().zip(&mut inputs) {
        names.add(id).unwrap();
        *record = Input::used(2).unwrap();
    }
    assert_eq!(names.add(7), Ok(1));
    assert_eq!(names.add(8), Err(UsageError::NoRecord { data: 8, have: 3 }));
    let mut stencil = Stencil::new(storage(2, inputs, 4), names, Unknown, 0..2, limits(2)).unwrap();
    assert_eq!(stencil.submit(0, &[8]), Err(SubmitError::UnknownData { data: 8 }));
    for pair in [[0, 1], [1, 2], [2, 0]] {
        let group = stencil.submit(0, &pair.map(|at: usize| ids[at])).unwrap();
        while let Some(action) = stencil.poll() {
            match action {
                Action::Prepare { data, .. } => stencil.prepared(data).unwrap(),
                other => assert_eq!(other, Action::Ready { point: 0, group }),
            }
        }
        stencil.free_group(group).unwrap();
    }
    assert_eq!((stencil.is_empty(), stencil.unclaimed().count()), (Ok(true), 0));
}

#[test]
fn s50_an_input_named_twice_leaves_with_the_group_that_fails_half_way() {
    let mut stencil = counted(3, &[2, 1, 1, 1, 1]);
    let first = stencil.submit(0, &[3]).unwrap();
    stencil.submit(1, &[0, 1, 2, 0]).unwrap();
    assert_eq!(told(&mut stencil), "p3 p0 p1");
    loaded(&mut stencil, &[0]);
    assert_eq!(stencil.failed(1), Ok(()));
    assert_eq!(told(&mut stencil), "f1:1");
    loaded(&mut stencil, &[3]);
    assert_eq!(told(&mut stencil), "r0");
    assert_eq!(stencil.free_group(first), Ok(()));
    assert_eq!((stencil.len(), stencil.idle()), (Ok(1), Ok(1)), "0 stays for its uses, which nobody has made");
    assert_eq!(stencil.unclaimed().collect::<Vec<_>>(), [(0, 2), (1, 1), (2, 1), (4, 1)]);
    let again = stencil.submit(1, &[0, 1, 2, 0]).unwrap();
    assert_eq!(told(&mut stencil), "p1 p2");
    loaded(&mut stencil, &[1, 2]);
    assert_eq!(told(&mut stencil), "r1");
    assert_eq!(stencil.free_group(again), Ok(()));
    assert_eq!(stencil.is_empty(), Ok(true));
}

/// Groups that were listed beforehand.
struct Listed([&'static [u64]; 2]);

impl Future for Listed {
    type Present = u64;
    fn present(&self, group: u64) -> u64 {
        group
    }
    fn next_use(&self, data: u64, present: u64) -> Use {
        let groups = (0..).zip(self.0).skip(present as usize + 1);
        groups.into_iter().find(|(_, group)| group.contains(&data)).map_or(Use::Never, |(number, _)| Use::At(number))
    }
}

#[test]
fn s50_a_group_that_is_submitted_again_makes_no_input_leave_that_the_usage_map_still_needs() {
    let inputs = [1, 2, 1].map(|uses| Input::used(uses).unwrap()).into();
    for (inputs, first) in [(inputs, 0), (vec![Input::UNBOUNDED; 3], 0), (vec![Input::UNBOUNDED; 3], 1)] {
        let future = Listed([&[0, 1], &[1, 2]]);
        let mut stencil = Stencil::new(storage(3, inputs, 2), ByNumber, future, 0..3, limits(2)).unwrap();
        stencil.submit(0, &[0, 1]).unwrap();
        assert_eq!(told(&mut stencil), "p0 p1");
        // What is still loaded for a group that failed stays for it, too.
        let failing = |stencil: &mut Stencil<Vecs, ByNumber, Listed>| (stencil.failed(0), stencil.prepared(1));
        let loading = |stencil: &mut Stencil<Vecs, ByNumber, Listed>| (stencil.prepared(1), stencil.failed(0));
        let answers = if first == 0 { failing(&mut stencil) } else { loading(&mut stencil) };
        assert_eq!((answers, told(&mut stencil).as_str()), ((Ok(()), Ok(())), "f0:0"));
        let again = stencil.submit(0, &[0, 1]).unwrap();
        assert_eq!((told(&mut stencil).as_str(), stencil.prepared(0)), ("p0", Ok(())));
        assert_eq!((told(&mut stencil).as_str(), stencil.free_group(again)), ("r0", Ok(())));
        stencil.submit(1, &[1, 2]).unwrap();
        assert_eq!(told(&mut stencil), "p2");
    }
}

#[test]
fn s50_a_group_that_failed_and_never_comes_again_keeps_nothing_for_longer_than_its_slot_is_free() {
    // Every input once, in slots for two.
    let future = Listed([&[0, 1], &[2, 3]]);
    let mut stencil =
        Stencil::new(storage(2, vec![Input::UNBOUNDED; 9], 2), ByNumber, future, 0..2, limits(2)).unwrap();
    stencil.submit(0, &[0, 1]).unwrap();
    assert_eq!((told(&mut stencil).as_str(), stencil.prepared(1), stencil.failed(0)), ("p0 p1", Ok(()), Ok(())));
    assert_eq!((told(&mut stencil).as_str(), stencil.idle()), ("f0:0", Ok(1)));
    let next = stencil.submit(1, &[2, 3]).unwrap();
    assert_eq!((told(&mut stencil).as_str(), stencil.prepared(2), stencil.prepared(3)), ("p2 p3", Ok(()), Ok(())));
    assert_eq!((told(&mut stencil).as_str(), stencil.free_group(next)), ("r1", Ok(())));
    // To the future this was the first group: what the second one uses still comes.
    assert_eq!((stencil.len(), stencil.idle()), (Ok(2), Ok(2)));
}

#[test]
fn s50_uses_that_are_given_back_are_never_more_than_can_be_counted() {
    let mut stencil = counted(3, &[u32::MAX - 2]);
    stencil.submit(0, &[0, 0]).unwrap();
    assert_eq!((stencil.expect(0, 1), told(&mut stencil).as_str()), (Ok(()), "p0"));
    assert_eq!((stencil.failed(0), told(&mut stencil).as_str()), (Ok(()), "f0:0"));
    assert_eq!(stencil.unclaimed().collect::<Vec<_>>(), [(0, u32::MAX - 2)]);
}
