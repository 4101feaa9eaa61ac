//! The memory that keeps freed ranges whole, against a plain set of intervals.
#![allow(clippy::unwrap_used, missing_docs)]

mod intervals;

use std::task::{Poll, Waker};

use intervals::{Used, gaps};
use proptest::prelude::*;
use umbra_core::memory::{AllocError, Block, Extent, Granule, Memory, NotAllocated, Offsets, QuickFit};
use umbra_core::room::{Range, Ranges, Stand, Waiter, Waiting};

type Kept = QuickFit<Vec<Block>, Vec<u32>>;
type Awaited = Waiting<Ranges<Vec<Block>, Vec<u32>, Vec<u32>>, [Waiter; 2]>;

fn sixteen() -> Granule {
    Granule::new(16).unwrap()
}

/// A memory in units of 16 bytes that keeps at most so many ranges of up to so many units.
fn keeping(records: usize, capacity: u64, lists: usize, most: u32) -> Kept {
    let memory = Memory::with_granule(vec![Block::default(); records], capacity, sixteen());
    QuickFit::new(memory, vec![QuickFit::NO_RANGE; lists], most)
}

#[derive(Clone, Debug)]
enum Step {
    Alloc(u64),
    AllocAligned(u64, u32),
    Free(usize),
    FreeJoined(usize),
    FreeAgain(usize),
    Settle,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0u64..600).prop_map(Step::Alloc),
        1 => (0u64..70_000).prop_map(Step::Alloc),
        1 => (0u64..600, 0u32..10).prop_map(|(len, shift)| Step::AllocAligned(len, shift)),
        6 => any::<usize>().prop_map(Step::Free),
        1 => any::<usize>().prop_map(Step::FreeJoined),
        2 => any::<usize>().prop_map(Step::FreeAgain),
        1 => Just(Step::Settle),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn what_is_kept_is_free_and_nobody_is_refused_because_of_it(
        capacity in 0u64..70_000,
        records in 1usize..60,
        lists in 0usize..40,
        most in 0u32..12,
        steps in prop::collection::vec(step(), 1..300),
    ) {
        let mut memory = keeping(records, capacity, lists, most);
        let capacity = capacity / 16 * 16;
        let mut used = Used::new();
        let (mut live, mut dead): (Vec<Extent>, Vec<Extent>) = (vec![], vec![]);
        for step in steps {
            let outcome = match step {
                Step::Alloc(len) => Some((len, 16, memory.alloc(len))),
                Step::AllocAligned(len, shift) => Some((len, 1 << shift, memory.alloc_aligned(len, 1 << shift))),
                Step::Free(at) | Step::FreeJoined(at) if !live.is_empty() => {
                    let extent = live.swap_remove(at % live.len());
                    let kept = memory.kept();
                    if matches!(step, Step::Free(_)) {
                        prop_assert!(memory.free(extent).is_ok());
                    } else {
                        prop_assert!(memory.free_joined(extent).is_ok());
                        prop_assert_eq!(memory.kept(), kept);
                    }
                    prop_assert_eq!(used.remove(&extent.offset), Some(extent.len));
                    dead.push(extent);
                    None
                }
                Step::FreeAgain(at) if !dead.is_empty() => {
                    let before = memory.figures();
                    prop_assert!(memory.free(dead[at % dead.len()]).is_err());
                    prop_assert!(memory.look_up(dead[at % dead.len()].block).is_err());
                    prop_assert_eq!(memory.figures(), before);
                    None
                }
                Step::Settle => {
                    memory.settle();
                    prop_assert_eq!(memory.kept(), 0);
                    None
                }
                _ => None,
            };
            match outcome {
                Some((_, align, Ok(extent))) => {
                    prop_assert_eq!(extent.offset % align.min(16), 0);
                    prop_assert_eq!(memory.look_up(extent.block), Ok(extent));
                    used.insert(extent.offset, extent.len);
                    live.push(extent);
                }
                Some((len, align, Err(error))) => {
                    let refused_for_good =
                        matches!(error, AllocError::ZeroSize | AllocError::TooLarge { .. } | AllocError::BadAlign { .. });
                    prop_assert!(refused_for_good || memory.kept() == 0, "refused though something was kept");
                    // With so few ranges, no bin holds more of them than are looked at.
                    if matches!(error, AllocError::Fragmented { .. }) && align <= 16 {
                        let whole = len.next_multiple_of(16);
                        prop_assert!(live.len() >= 32 || gaps(&used, capacity).iter().all(|gap| gap.1 < whole));
                    }
                }
                None => (),
            }
            let (figures, gaps) = (memory.figures(), gaps(&used, capacity));
            prop_assert_eq!((figures.free, figures.used_ranges as usize), (gaps.iter().map(|gap| gap.1).sum(), used.len()));
            prop_assert!(memory.kept() <= most);
            let kept = figures.free - memory.memory().free_bytes();
            prop_assert!(kept <= capacity / 16, "{kept} bytes are kept of {capacity}");
            if memory.kept() == 0 {
                prop_assert_eq!(figures, memory.memory().figures());
                prop_assert_eq!(figures.free_ranges as usize, gaps.len(), "two free ranges touch");
            }
        }
        for extent in live.drain(..) {
            prop_assert!(memory.free(extent).is_ok());
        }
        if capacity > 0 {
            let all = memory.alloc(capacity).unwrap();
            prop_assert_eq!((all.offset, all.len), (0, capacity));
        }
    }

    #[test]
    fn by_offset_a_kept_range_is_not_in_use(
        rubbish in any::<u32>(),
        records in 2usize..60,
        words in prop_oneof![1usize..8, 1usize..600],
        steps in prop::collection::vec((any::<bool>(), 0u64..600), 1..300),
    ) {
        let (blocks, starts) = (vec![Block::default(); records], vec![rubbish % 64; words]);
        let mut memory = Offsets::with_lists(blocks, starts, 8000, sixteen(), vec![QuickFit::NO_RANGE; 30], 9);
        let mut used = Used::new();
        for (takes, number) in steps {
            if takes {
                used.extend(memory.alloc(number).ok().map(|at| (at, number.next_multiple_of(16))));
            } else {
                let chosen = used.keys().nth(number as usize % used.len().max(1)).copied();
                for offset in [chosen, Some(number)].into_iter().flatten() {
                    let expected = used.remove(&offset).ok_or(NotAllocated { offset });
                    prop_assert_eq!(memory.free(offset), expected);
                    prop_assert_eq!(memory.free(offset), Err(NotAllocated { offset }));
                    prop_assert_eq!(memory.free_joined(offset), Err(NotAllocated { offset }));
                    prop_assert!(memory.look_up(offset).is_err());
                }
            }
            let free = gaps(&used, 8000).iter().map(|gap| gap.1).sum();
            prop_assert_eq!((memory.figures().free, memory.figures().used_ranges as usize), (free, used.len()));
        }
    }
}

#[test]
fn the_longest_range_may_be_one_that_is_kept() {
    let mut memory = keeping(64, 1024, 8, 64);
    let ranges: Vec<Extent> = (0..16).map(|_| memory.alloc(64).unwrap()).collect();
    memory.free(ranges[3]).unwrap();
    assert_eq!((memory.kept(), memory.figures().largest), (1, 64));
    assert_eq!(memory.alloc_aligned(0, 64), Err(AllocError::ZeroSize));
    assert_eq!(memory.kept(), 1, "that is no want of room");
}

#[test]
fn the_next_of_the_same_length_gets_what_was_freed_last() {
    let mut memory = keeping(64, 1 << 16, 8, 4);
    let ranges: Vec<Extent> = (0..6).map(|_| memory.alloc(100).unwrap()).collect();
    ranges.iter().for_each(|&range| memory.free(range).unwrap());
    assert_eq!(memory.kept(), 4, "as many as may be");
    assert_eq!(memory.alloc(112).map(|range| range.offset), Ok(ranges[3].offset));
    assert_ne!(memory.alloc(113).map(|range| range.offset), Ok(ranges[2].offset), "that is longer");
    assert_eq!(memory.alloc(97).map(|range| range.offset), Ok(ranges[2].offset));
    let long = memory.alloc(129).unwrap();
    memory.free(long).unwrap();
    assert_eq!(memory.kept(), 2, "its length has no list");
}

#[test]
fn before_a_request_is_refused_what_is_kept_is_joined() {
    let mut memory = keeping(64, 1024, 8, 64);
    let ranges: Vec<Extent> = (0..64).map(|_| memory.alloc(16).unwrap()).collect();
    ranges[8..12].iter().for_each(|&range| memory.free(range).unwrap());
    assert_eq!((memory.kept(), memory.memory().free_bytes(), memory.figures().free), (4, 0, 64));
    assert_eq!(memory.alloc(64).map(|range| range.offset), Ok(128));
    ranges[20..24].iter().for_each(|&range| memory.free(range).unwrap());
    assert_eq!(memory.alloc(65), Err(AllocError::OutOfMemory { len: 65, free: 64 }));
    assert_eq!((memory.kept(), memory.figures().largest), (0, 64));
}

#[test]
fn records_of_kept_ranges_are_had_for_others() {
    // Three ranges in use and the rest: all records.
    let mut memory = keeping(4, 4096, 8, 4);
    let ranges: Vec<Extent> = (0..3).map(|_| memory.alloc(16).unwrap()).collect();
    memory.free(ranges[1]).unwrap();
    memory.free(ranges[2]).unwrap();
    assert_eq!(memory.kept(), 2);
    assert_eq!(memory.alloc(32).map(|range| range.offset), Ok(16));
}

#[test]
fn who_waits_hears_of_room_between_ranges_that_would_have_been_kept() {
    let (blocks, starts) = (vec![Block::default(); 64], vec![0; 64]);
    let memory = Offsets::with_lists(blocks, starts, 1024, sixteen(), vec![QuickFit::NO_RANGE; 8], 64);
    let mut waiting = Waiting::new(Ranges::new(memory), [Waiter::EMPTY; 2]);
    let mut wish = Range::new(16);
    let all: Vec<u64> =
        (0..64).map(|_| waiting.take_now(&mut wish).map(|()| wish.offset().unwrap()).unwrap()).collect();
    assert_eq!((waiting.free(all[0]), waiting.room().figures().free), (Ok(16), 16));

    let (mut stand, mut wish) = (Stand::Outside, Range::new(48));
    assert_eq!(waiting.ask(&mut stand, &mut wish, Waker::noop()), Poll::Pending);
    assert_eq!(waiting.free(all[1]), Ok(16));
    assert_eq!(waiting.ask(&mut stand, &mut wish, Waker::noop()), Poll::Pending, "32 bytes are free side by side");
    assert_eq!(waiting.free(all[2]), Ok(16));
    assert_eq!(waiting.ask(&mut stand, &mut wish, Waker::noop()), Poll::Ready(Ok(())));
    assert_eq!(wish.offset(), Some(0));
}

/// A memory with a hole of 1040 bytes at its start, which is looked at behind 40 of 1024 bytes that are sorted as equally long.
fn with_the_longest_hole_last() -> Awaited {
    const SHORT: usize = 40;
    let capacity = 1040 + 16 + SHORT as u64 * (1024 + 16);
    let memory = Offsets::with_lists(
        vec![Block::default(); 256],
        vec![0; 256],
        capacity,
        sixteen(),
        vec![QuickFit::NO_RANGE; 8],
        8,
    );
    let mut waiting = Waiting::new(Ranges::new(memory), [Waiter::EMPTY; 2]);
    let lengths = [1040, 16].into_iter().chain([1024, 16].into_iter().cycle().take(2 * SHORT));
    let all: Vec<u64> = lengths
        .map(|len| {
            let mut wish = Range::new(len);
            waiting.take_now(&mut wish).unwrap();
            wish.offset().unwrap()
        })
        .collect();
    assert_eq!(waiting.room().figures().free, 0);
    for &hole in all.iter().step_by(2) {
        waiting.free(hole).unwrap();
    }
    waiting
}

#[test]
fn nobody_waits_for_a_hole_that_lies_behind_many_of_nearly_its_length() {
    for mut wish in [Range::new(1040), Range::aligned(1040, 2048)] {
        let mut waiting = with_the_longest_hole_last();
        assert_eq!(waiting.ask(&mut Stand::Outside, &mut wish, Waker::noop()), Poll::Ready(Ok(())));
        assert_eq!((wish.offset(), waiting.take_now(&mut wish.clone()).is_err()), (Some(0), true));
        assert_eq!(waiting.free(0), Ok(1040));
    }
}
