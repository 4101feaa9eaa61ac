//! Scenarios of the slot caches, one test each: stack, single and forgetful cache.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use umbra_core::cache::policy::{Clock, Fifo, Lru};
use umbra_core::cache::{
    AllocError, BuildError, Cache, Dense, FillError, ForgetError, Forgetful, Found, FreeError, GetError, Grant, Index,
    Interrupted, Line, Pin, ResetError, Slot, Sparse, Stack, State,
};

type Words = Dense<Vec<u32>>;

fn records(count: usize) -> Vec<Slot> {
    vec![Slot::EMPTY; count]
}
fn index() -> Words {
    Dense::new(vec![0; 1000])
}
fn stack(range: std::ops::Range<u32>) -> Stack<Vec<Slot>, Words> {
    Stack::stack(records(range.len()), index(), range).unwrap()
}
fn cache(slots: u32) -> Cache<Vec<Slot>, Words, Clock> {
    Cache::new(records(slots as usize), index(), Clock::new(), 0..slots).unwrap()
}
fn forgetful(slots: u32) -> Forgetful<Vec<Slot>, Words, Lru> {
    Forgetful::new(records(slots as usize), index(), Lru::new(), 0..slots).unwrap()
}

const fn grant(slot: u32, found: Found, references: u32) -> Result<Grant, AllocError> {
    Ok(Grant::new(slot, found, references))
}
use Found::{Assigned, Empty, Remembered};

#[test]
fn s01_one_slot_is_assigned_until_its_last_reference_is_freed() {
    let mut stack = stack(0..1);
    assert_eq!(stack.alloc(7), grant(0, Empty, 1));
    assert_eq!(stack.alloc(7), grant(0, Assigned, 2));
    assert_eq!(stack.free(7), Ok(()));
    assert_eq!(stack.alloc(7), grant(0, Assigned, 2));
    assert_eq!(stack.alloc(7), grant(0, Assigned, 3));
    for _ in 0..3 {
        assert_eq!(stack.free(7), Ok(()));
    }
    assert_eq!(stack.alloc(7), grant(0, Empty, 1));
}

#[test]
fn s02_s03_two_data_get_two_slots_in_ascending_order() {
    for start in [0, 5, u32::MAX - 2] {
        let mut stack = stack(start..start + 2);
        assert_eq!(stack.alloc(1), grant(start, Empty, 1));
        assert_eq!(stack.alloc(2), grant(start + 1, Empty, 1));
    }
}

#[test]
fn s04_slots_lie_in_the_given_range() {
    let mut stack = stack(100..103);
    let slots: Vec<u32> = (0..3).map(|data| stack.alloc(data).unwrap().slot).collect();
    assert_eq!(slots, [100, 101, 102]);
    assert_eq!(stack.alloc(3), Err(AllocError::Full { slots: 3 }));
}

#[test]
fn s05_a_range_without_slots_and_too_little_storage_are_refused() {
    let build = |range: std::ops::Range<u32>, records: usize, lines: usize| {
        let index = Sparse::new(vec![Line::EMPTY; lines], vec![0; 14], 1);
        Stack::stack(vec![Slot::EMPTY; records], index, range).err()
    };
    assert_eq!(build(5..5, 10, 8), Some(BuildError::NoSlots { start: 5, end: 5 }));
    #[allow(clippy::reversed_empty_ranges, reason = "what is refused")]
    let reversed = 6..5;
    assert_eq!(build(reversed, 10, 8), Some(BuildError::NoSlots { start: 6, end: 5 }));
    assert_eq!(build(0..11, 10, 8), Some(BuildError::TooFewRecords { need: 11, have: 10 }));
    assert_eq!(build(0..13, 20, 1), Some(BuildError::IndexTooSmall { need: 13, have: 12 }));
    assert_eq!(build(0..15, 20, 2), Some(BuildError::IndexTooSmall { need: 15, have: 14 }));
    assert_eq!(build(0..8, 10, 0), Some(BuildError::IndexTooSmall { need: 8, have: 0 }));
    assert_eq!(build(0..7, 10, 8), None);
}

#[test]
fn s06_a_free_too_much_is_refused_and_changes_nothing() {
    let mut stack = stack(0..2);
    assert_eq!(stack.free(1), Err(FreeError::NotAssigned { data: 1 }));
    assert!(stack.alloc(1).is_ok());
    assert_eq!(stack.free(1), Ok(()));
    let before = format!("{stack:?}");
    assert_eq!(stack.free(1), Err(FreeError::NotAssigned { data: 1 }));
    assert_eq!(format!("{stack:?}"), before);
}

#[test]
fn s07_references_are_counted_up_to_the_limit_and_not_beyond() {
    let mut stack = stack(0..1).with_most_references(255);
    for references in 1..=255 {
        assert_eq!(stack.alloc(9).unwrap().references, references);
    }
    let before = format!("{stack:?}");
    assert_eq!(stack.alloc(9), Err(AllocError::TooManyReferences { data: 9, most: 255 }));
    assert_eq!(format!("{stack:?}"), before);
    assert!((0..255).all(|_| stack.free(9).is_ok()));
    assert_eq!(stack.alloc(9), grant(0, Empty, 1));
}

#[test]
fn s08_every_slot_is_given_once_and_then_again_to_the_same_data() {
    let mut stack = stack(0..50);
    let first: Vec<u32> = (0..50).map(|data| stack.alloc(data).unwrap().slot).collect();
    let distinct: std::collections::BTreeSet<u32> = first.iter().copied().collect();
    assert_eq!(distinct.len(), 50);
    for data in 0..50 {
        assert_eq!(stack.alloc(data), grant(first[data as usize], Assigned, 2));
    }
}

#[test]
fn s09_a_full_cache_says_so_and_gives_exactly_the_slot_that_is_freed() {
    let mut stack = stack(0..3);
    assert!((0..3).all(|data| stack.alloc(data).is_ok()));
    assert_eq!(stack.has_room(), Ok(false));
    assert_eq!(stack.alloc(3), Err(AllocError::Full { slots: 3 }));
    assert_eq!(stack.free(1), Ok(()));
    assert_eq!(stack.has_room(), Ok(true));
    assert_eq!(stack.alloc(3), grant(1, Empty, 1));
    assert_eq!(stack.statistics().refused, 1);
}

#[test]
fn s10_remembered_content_is_found_again() {
    let mut cache = cache(1);
    assert_eq!(cache.alloc(4), grant(0, Empty, 1));
    assert_eq!(cache.remember(4), Ok(()));
    assert_eq!(cache.free(4), Ok(()));
    assert_eq!(cache.alloc(4), grant(0, Remembered, 1));
}

#[test]
fn s11_without_remember_a_cache_is_a_stack() {
    let (mut stack, mut cache) = (stack(0..8), cache(8));
    let mut seed = 1_u64;
    for _ in 0..1_000_000 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let data = (seed >> 40) % 12;
        if seed >> 63 == 0 {
            assert_eq!(stack.alloc(data), cache.alloc(data));
        } else {
            assert_eq!(stack.free(data), cache.free(data));
        }
    }
    assert!(stack.statistics().refused > 0 && stack.statistics().joins > 0);
    assert_eq!(stack.statistics(), cache.statistics());
}

#[test]
fn s12_the_timeline_of_three_clients() {
    let mut cache = forgetful(1);
    // t=1: client 1 finds the slot empty and loads.
    assert_eq!(cache.alloc(5), grant(0, Empty, 1));
    // t=2: client 2 finds it assigned, and waits for the load.
    assert_eq!(cache.alloc(5), grant(0, Assigned, 2));
    assert_eq!(cache.state(5), Ok(Some(State::Filling)));
    // t=3: the load is over; client 3 finds the content.
    assert_eq!(cache.remember(5), Ok(()));
    assert_eq!(cache.state(5), Ok(Some(State::InUse)));
    assert_eq!(cache.alloc(5), grant(0, Remembered, 3));
    // t=4: clients 1 and 3 are done, client 2 is not.
    assert_eq!((cache.free(5), cache.free(5)), (Ok(()), Ok(())));
    assert_eq!(cache.forget(5), Err(ForgetError::InUse { data: 5, references: 1 }));
    assert_eq!(cache.alloc(6), Err(AllocError::Full { slots: 1 }));
    // t=5: so is client 2; the content stays until it is forgotten.
    assert_eq!(cache.free(5), Ok(()));
    assert_eq!(cache.state(5), Ok(Some(State::Idle)));
    assert_eq!(cache.forget(5), Ok(true));
    assert_eq!(cache.state(5), Ok(None));
}

#[test]
fn s13_only_the_victim_leaves_for_other_data() {
    let mut cache = Cache::new(records(2), index(), Fifo::new(), 0..2).unwrap();
    for data in [1, 2] {
        assert!(cache.alloc(data).is_ok());
        assert_eq!((cache.remember(data), cache.free(data)), (Ok(()), Ok(())));
    }
    assert_eq!(cache.alloc(3), grant(0, Empty, 1));
    assert_eq!(cache.alloc(2), grant(1, Remembered, 1));
    assert_eq!(cache.remember(1), Err(FillError::NotAssigned { data: 1 }));
    assert_eq!(cache.statistics().evictions, 1);
}

#[test]
fn s14_remembering_holds_over_any_number_of_frees_and_not_without_a_slot() {
    let mut cache = cache(1);
    assert!(cache.alloc(1).is_ok() && cache.alloc(1).is_ok());
    assert_eq!(cache.free(1), Ok(()));
    assert_eq!(cache.remember(1), Ok(()));
    for _ in 0..3 {
        assert_eq!(cache.free(1), Ok(()));
        assert_eq!(cache.alloc(1), grant(0, Remembered, 1));
    }
    assert_eq!(cache.free(1), Ok(()));
    assert_eq!(cache.alloc(2), grant(0, Empty, 1));
    assert_eq!(cache.free(2), Ok(()), "freed before it was remembered");
    assert_eq!(cache.alloc(2), grant(0, Empty, 1));
}

#[test]
fn s15_remembering_twice_or_without_a_slot_is_refused() {
    let mut cache = cache(1);
    assert_eq!(cache.remember(1), Err(FillError::NotAssigned { data: 1 }));
    assert!(cache.alloc(1).is_ok());
    assert_eq!(cache.remember(1), Ok(()));
    assert_eq!(cache.remember(1), Err(FillError::AlreadyRemembered { data: 1 }));
    assert_eq!(cache.free(1), Ok(()));
    assert_eq!(cache.remember(1), Err(FillError::AlreadyRemembered { data: 1 }));
    assert!(cache.alloc(2).is_ok());
    assert_eq!(cache.remember(1), Err(FillError::NotAssigned { data: 1 }));
}

#[test]
fn s16_a_free_of_unknown_or_of_idle_data_is_refused() {
    let mut cache = cache(1);
    assert_eq!(cache.free(1), Err(FreeError::NotAssigned { data: 1 }));
    assert!(cache.alloc(1).is_ok());
    assert_eq!((cache.remember(1), cache.free(1)), (Ok(()), Ok(())));
    let before = format!("{cache:?}");
    assert_eq!(cache.free(1), Err(FreeError::NotInUse { data: 1 }));
    assert_eq!(format!("{cache:?}"), before);
}

#[test]
fn s17_only_idle_content_is_evicted() {
    for idle in 0..100 {
        let mut cache = cache(100);
        for data in 0..100 {
            assert!(cache.alloc(data).is_ok());
            assert_eq!(cache.remember(data), Ok(()));
        }
        assert_eq!(cache.free(idle), Ok(()));
        assert_eq!(cache.alloc(500), grant(idle as u32, Empty, 1));
        assert_eq!(cache.alloc(idle), Err(AllocError::Full { slots: 100 }));
        assert_eq!(cache.free(500), Ok(()));
        assert_eq!(cache.alloc(idle), grant(idle as u32, Empty, 1));
    }
}

#[test]
fn s19_who_gives_up_a_fill_leaves_it_to_exactly_one_other() {
    let mut cache = cache(1);
    assert!(cache.alloc(1).is_ok() && cache.alloc(1).is_ok());
    assert_eq!(cache.abandon(1), Ok(()));
    assert_eq!(cache.free(1), Ok(()));
    assert_eq!(cache.state(1), Ok(Some(State::Abandoned)));
    assert_eq!(cache.alloc(1), grant(0, Empty, 2));
    assert_eq!(cache.alloc(1), grant(0, Assigned, 3));
    assert_eq!(cache.remember(1), Ok(()));
    assert_eq!(cache.abandon(1), Err(FillError::AlreadyRemembered { data: 1 }));
    assert_eq!(cache.abandon(2), Err(FillError::NotAssigned { data: 2 }));
}

#[test]
fn s20_s21_forgotten_content_is_gone_and_its_slot_is_used_first() {
    let mut cache = forgetful(3);
    for data in 0..3 {
        assert!(cache.alloc(data).is_ok());
        assert_eq!((cache.remember(data), cache.free(data)), (Ok(()), Ok(())));
    }
    assert_eq!(cache.forget(1), Ok(true));
    assert_eq!(cache.alloc(7), grant(1, Empty, 1), "not the least recently used");
    assert_eq!(cache.alloc(0), grant(0, Remembered, 1));
    assert_eq!(cache.statistics().evictions, 0);
    assert_eq!((cache.free(7), cache.alloc(1)), (Ok(()), grant(1, Empty, 1)));
}

#[test]
fn s22_forget_tells_what_it_changed_and_refuses_what_is_needed() {
    let mut cache = forgetful(1);
    assert_eq!(cache.forget(1), Ok(false), "never seen");
    assert!(cache.alloc(1).is_ok());
    assert_eq!(cache.forget(1), Err(ForgetError::NotRemembered { data: 1 }));
    assert_eq!(cache.forget_later(1), Err(ForgetError::NotRemembered { data: 1 }));
    assert_eq!(cache.remember(1), Ok(()));
    assert_eq!(cache.forget(1), Err(ForgetError::InUse { data: 1, references: 1 }));
    assert_eq!(cache.free(1), Ok(()));
    assert!(cache.alloc(2).is_ok());
    assert_eq!(cache.forget(1), Ok(false), "evicted");
    cache.interrupt();
    assert_eq!(cache.forget(1), Err(ForgetError::Interrupted));
}

#[test]
fn s23_forget_later_takes_effect_with_the_last_reference() {
    let mut cache = forgetful(1);
    assert!(cache.alloc(1).is_ok());
    assert_eq!(cache.remember(1), Ok(()));
    assert_eq!(cache.forget_later(1), Ok(true));
    assert_eq!(cache.alloc(1), grant(0, Remembered, 2));
    assert_eq!((cache.free(1), cache.free(1)), (Ok(()), Ok(())));
    assert_eq!(cache.state(1), Ok(None));
    assert!(cache.alloc(1).is_ok());
    assert_eq!((cache.remember(1), cache.free(1)), (Ok(()), Ok(())));
    assert_eq!(cache.forget_later(1), Ok(true), "at once, of idle content");
    assert_eq!(cache.forget_later(1), Ok(false));
}

/// How long that takes is measured by the bench `caches`.
///
/// That no phase allocates is tested with the other operations.
#[test]
fn s24_the_phases_of_many_slots() {
    for slots in [640_000_u32, 1 << 20] {
        let all = 0..u64::from(slots);
        let lines = Sparse::new(vec![Line::EMPTY; Line::for_ids(slots as usize)], vec![0; slots as usize], 7);
        let mut cache = Forgetful::new(records(slots as usize), lines, Clock::new(), 0..slots).unwrap();
        for references in 1..=3 {
            let found = if references == 1 { Empty } else { Assigned };
            assert!(all.clone().all(|data| cache.alloc(data) == grant(data as u32, found, references)));
            assert_eq!((cache.len(), cache.idle()), (Ok(slots), Ok(0)));
        }
        assert!(all.clone().all(|data| cache.free(data).is_ok()));
        assert!(all.clone().all(|data| cache.remember(data).is_ok()));
        assert_eq!((cache.len(), cache.idle()), (Ok(slots), Ok(0)));
        for idle in [0, slots] {
            assert!(all.clone().all(|data| cache.free(data).is_ok()));
            assert_eq!((cache.len(), cache.idle()), (Ok(slots), Ok(idle)));
        }
        assert!(all.clone().all(|data| cache.forget(data) == Ok(true)));
        assert_eq!((cache.len(), cache.idle()), (Ok(0), Ok(0)));
        let counted = cache.statistics();
        assert_eq!((counted.loads, counted.joins), (u64::from(slots), u64::from(slots) * 2));
    }
}

#[test]
fn s31_after_an_interrupt_every_operation_fails_also_on_an_idle_cache() {
    let mut cache = forgetful(2);
    assert!(cache.alloc(1).is_ok());
    let (pin, _) = cache.pin(1).unwrap();
    cache.interrupt();
    let before = format!("{cache:?}");
    cache.interrupt();
    assert_eq!(cache.alloc(1), Err(AllocError::Interrupted));
    assert_eq!(cache.alloc(99), Err(AllocError::Interrupted));
    assert_eq!(cache.free(1), Err(FreeError::Interrupted));
    assert_eq!(cache.free_pin(pin), Err(FreeError::Interrupted), "and nothing panics");
    assert_eq!(cache.remember(1), Err(FillError::Interrupted));
    assert_eq!(cache.abandon(1), Err(FillError::Interrupted));
    assert_eq!(cache.forget(1), Err(ForgetError::Interrupted));
    assert_eq!(cache.forget_later(1), Err(ForgetError::Interrupted));
    assert_eq!(cache.state(1), Err(Interrupted));
    assert_eq!((cache.len(), cache.is_empty()), (Err(Interrupted), Err(Interrupted)));
    assert_eq!((cache.idle(), cache.has_room()), (Err(Interrupted), Err(Interrupted)));
    let mut grants = [Grant::NONE];
    assert_eq!(cache.alloc_all(&[1], &mut grants).unwrap_err().error, AllocError::Interrupted);
    assert_eq!(cache.free_all(&[1]).unwrap_err().error, FreeError::Interrupted);
    assert_eq!(cache.free_all_granted(&[1], &grants).unwrap_err().error, FreeError::Interrupted);
    assert_eq!(format!("{cache:?}"), before);
}

#[test]
fn s35_a_reset_waits_for_the_fills_and_makes_old_pins_worthless() {
    let mut cache = forgetful(3);
    assert_eq!(cache.reset(), Err(ResetError::NotInterrupted));
    assert!(!cache.settle(0), "only an interrupted cache is told so");
    assert!(cache.alloc(1).is_ok() && cache.alloc(2).is_ok());
    let (pin, _) = cache.pin(3).unwrap();
    assert_eq!(cache.remember(2), Ok(()));
    cache.interrupt();
    assert_eq!(cache.outstanding_fills().collect::<Vec<_>>(), [(0, 1), (2, 3)]);
    assert_eq!(cache.reset(), Err(ResetError::Filling { slot: 0, data: 1 }));
    assert!(cache.settle(0) && cache.settle(2));
    assert!(!cache.settle(0) && !cache.settle(1) && !cache.settle(77));
    assert_eq!(cache.reset(), Ok(()));
    assert_eq!(cache.is_empty(), Ok(true));
    assert_eq!(cache.alloc(3), grant(0, Empty, 1));
    assert_eq!(cache.free_pin(pin), Err(FreeError::NotAssigned { data: 3 }));
    assert_eq!(cache.state(3), Ok(Some(State::Filling)));
}

#[test]
fn a_pin_can_be_kept_as_a_number_and_all_references_are_counted() {
    let mut cache = forgetful(3);
    assert_eq!(cache.references(7), Ok(0));
    let (pin, Grant { slot, .. }) = cache.pin(7).unwrap();
    let mark = pin.into_mark();
    assert_eq!(cache.alloc(7).unwrap().references, 2);
    assert_eq!((cache.references(7), cache.references(8)), (Ok(2), Ok(0)));
    for other in [0, 1, mark + 1, mark | 1 << 63, mark + (1 << 48)] {
        let refused = Pin::marked(7, slot, other).is_none_or(|pin| cache.free_pin(pin).is_err());
        assert!(refused, "{other:x}");
    }
    assert_eq!(cache.free_pin(Pin::marked(8, slot, mark).unwrap()), Err(FreeError::NotAssigned { data: 8 }));
    assert_eq!(cache.free_pin(Pin::marked(7, 77, mark).unwrap()), Err(FreeError::NotAssigned { data: 7 }));
    assert_eq!(cache.free_pin(Pin::marked(7, slot, mark).unwrap()), Ok(()));
    assert_eq!(cache.references(7), Ok(1));
    cache.interrupt();
    assert_eq!(cache.references(7), Err(Interrupted));
}

#[test]
fn s05b_an_id_beyond_a_dense_index_is_refused_and_a_sparse_index_takes_any() {
    let mut dense = stack(0..1);
    assert_eq!(dense.alloc(1000), Err(AllocError::OutOfRange { data: 1000, ids: 1000 }));
    assert_eq!(dense.alloc(u64::MAX), Err(AllocError::OutOfRange { data: u64::MAX, ids: 1000 }));
    assert_eq!(dense.free(u64::MAX), Err(FreeError::NotAssigned { data: u64::MAX }));
    let mut sparse = Stack::stack(records(4), Sparse::new([Line::EMPTY], [0; 4], 3), 0..4).unwrap();
    for (slot, data) in (0..).zip([0, u64::MAX, 1 << 63, 8]) {
        assert_eq!(sparse.alloc(data), grant(slot, Empty, 1));
    }
    assert_eq!(sparse.alloc(u64::MAX), grant(1, Assigned, 2));
}

#[test]
fn a_batch_does_what_single_operations_do_and_says_where_it_ended() {
    a_batch_in(|| cache(40));
    // So large an index that its words are fetched ahead.
    a_batch_in(|| Cache::new(records(40), Dense::new(vec![0; 50_000]), Clock::new(), 0..40).unwrap());
}

fn a_batch_in(cache: impl Fn() -> Cache<Vec<Slot>, Words, Clock>) {
    let (mut one, mut batch) = (cache(), cache());
    let data: Vec<u64> = (0..45).map(|i| i * i % 37).collect();
    let mut grants = [Grant::NONE; 45];
    for _ in 0..3 {
        let expected: Vec<Grant> = data.iter().map(|&data| one.alloc(data).unwrap()).collect();
        assert_eq!(batch.alloc_all(&data, &mut grants), Ok(()));
        assert_eq!(grants[..], expected);
        for cache in [&mut one, &mut batch] {
            for &data in &data {
                let _ = cache.remember(data);
            }
        }
        assert_eq!(batch.free_all(&data), Ok(()));
        assert!(data.iter().all(|&data| one.free(data).is_ok()));
        assert_eq!(one.len(), batch.len());
    }
    let many: Vec<u64> = (100..145).collect();
    let ended = batch.alloc_all(&many, &mut grants).unwrap_err();
    assert_eq!((ended.done, ended.error), (40, AllocError::Full { slots: 40 }));
    let ended = batch.free_all(&many).unwrap_err();
    assert_eq!((ended.done, ended.error), (40, FreeError::NotAssigned { data: 140 }));
    assert_eq!(batch.is_empty(), Ok(true));
}

/// References are given back by grants that are of now, of long ago, of other data, or of nothing, under each index: as if
/// they were given back one by one.
fn grants_are_only_hints<I: Index>(index: impl Fn() -> I, id: fn(u64) -> u64) {
    let new = || Forgetful::<_, _, Clock>::new(records(12), index(), Clock::new(), 0..12).unwrap();
    let (mut one, mut batch) = (new(), new());
    let mut old = vec![Grant::NONE; 9];
    for turn in 0..2_000_u64 {
        // A few of forty ids, so that most batches evict, and what stays is moved up to where others left.
        let data: Vec<u64> = (0..9).map(|at| id((turn * 7 + at * at * (turn % 5)) % 40)).collect();
        let mut grants = [Grant::NONE; 9];
        let expected: Vec<Grant> = data.iter().map(|&data| one.alloc(data).unwrap()).collect();
        assert_eq!(batch.alloc_all(&data, &mut grants), Ok(()));
        assert_eq!(grants[..], expected);
        for cache in [&mut one, &mut batch] {
            for (&data, grant) in data.iter().zip(&expected).filter(|(_, grant)| grant.found == Empty) {
                let _ = if grant.slot % 3 == 0 { cache.abandon(data) } else { cache.remember(data) };
            }
        }
        match turn % 4 {
            0 => grants.reverse(),
            1 => grants.copy_from_slice(&old),
            _ => {}
        }
        assert_eq!(batch.free_all_granted(&data, &grants), Ok(()));
        assert!(data.iter().all(|&data| one.free(data).is_ok()));
        for &data in &data {
            assert_eq!(one.state(data), batch.state(data));
        }
        assert_eq!((one.len(), one.idle()), (batch.len(), batch.idle()));
        assert_eq!(one.statistics(), batch.statistics());
        // What nobody has a reference to is not given back, whatever the grant says.
        let ended = batch.free_all_granted(&data, &grants).unwrap_err();
        assert_eq!(ended.done, 0);
        assert_eq!(Err(ended.error), one.free(data[0]));
        old.copy_from_slice(&grants);
    }
    assert!(one.statistics().evictions > 1_000);
}

#[test]
fn a_batch_is_given_back_by_any_grants() {
    // Of large indices a batch has its words fetched ahead.
    for more in [0, 50_000] {
        grants_are_only_hints(|| Dense::new(vec![0; 40 + more]), |data| data);
        grants_are_only_hints(
            || Sparse::new(vec![Line::EMPTY; Line::for_ids(12)], vec![0; 12 + more], 9),
            |data| data << 31 | data,
        );
    }
}

#[test]
fn content_that_is_missing_is_loaded_once_and_never_if_the_load_fails_or_panics() {
    let mut cache = cache(1);
    let loaded = |_| Ok::<(), &str>(());
    assert_eq!(cache.get_or_fill(7, |_| Err("no file")), Err(GetError::Fill("no file")));
    assert_eq!((cache.state(7), cache.len()), (Ok(None), Ok(0)));
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        cache.get_or_fill(7, |_| -> Result<(), &str> { std::panic::resume_unwind(Box::new(())) })
    }));
    assert!(panicked.is_err());
    assert_eq!((cache.state(7), cache.len()), (Ok(None), Ok(0)), "its slot is free again");
    assert_eq!(cache.get_or_fill(7, loaded), Ok(0));
    assert_eq!(cache.get_or_fill(7, |_| Err("a second load")), Ok(0));
    assert_eq!(cache.get_or_fill(8, loaded), Ok(0));
    assert_eq!((cache.state(7), cache.state(8)), (Ok(None), Ok(Some(State::Idle))));
    // Somebody has the only slot.
    assert_eq!(cache.alloc(9), grant(0, Empty, 1));
    assert_eq!(cache.get_or_fill(8, loaded), Err(GetError::Alloc(AllocError::Full { slots: 1 })));
    assert_eq!(cache.get_or_fill(9, loaded), Err(GetError::Filling { data: 9 }));
    assert_eq!(cache.references(9), Ok(1));
    // He gives up: who comes next loads, and he keeps his reference.
    assert_eq!(cache.abandon(9), Ok(()));
    assert_eq!(cache.get_or_fill(9, |_| Err("again")), Err(GetError::Fill("again")));
    assert_eq!((cache.state(9), cache.references(9)), (Ok(Some(State::Abandoned)), Ok(1)));
    assert_eq!(cache.get_or_fill(9, loaded), Ok(0));
    assert_eq!((cache.state(9), cache.references(9)), (Ok(Some(State::InUse)), Ok(1)));
    cache.interrupt();
    assert_eq!(cache.get_or_fill(9, loaded), Err(GetError::Alloc(AllocError::Interrupted)));
}
