//! The range allocator against a plain list of ranges.

use proptest::prelude::*;
use umbra_core::memory::{AllocError, Block, Extent, GRANULE, Memory};

#[derive(Clone, Debug)]
enum Step {
    Alloc(u64),
    Free(usize),
    FreeAgain(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0u64..5000).prop_map(Step::Alloc),
        1 => (0u64..200_000).prop_map(Step::Alloc),
        4 => any::<usize>().prop_map(Step::Free),
        1 => any::<usize>().prop_map(Step::FreeAgain),
    ]
}

fn gaps(live: &[Extent], capacity: u64) -> Vec<u64> {
    let mut sorted: Vec<_> = live.iter().map(|e| (e.offset, e.len)).collect();
    sorted.sort_unstable();
    let mut at = 0;
    let mut gaps = vec![];
    for (offset, len) in sorted {
        assert!(offset >= at, "ranges overlap at {offset}");
        gaps.push(offset - at);
        at = offset + len;
    }
    assert!(at <= capacity, "a range ends past the capacity");
    gaps.push(capacity - at);
    gaps
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn ranges_never_overlap_and_all_of_the_free_memory_comes_back(
        capacity in 0u64..300_000,
        records in 0usize..40,
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let mut memory = Memory::new(vec![Block::default(); records], capacity);
        let capacity = if records == 0 { 0 } else { capacity / GRANULE * GRANULE };
        let (mut live, mut dead): (Vec<Extent>, Vec<Extent>) = (vec![], vec![]);
        for step in steps {
            let largest = gaps(&live, capacity).into_iter().max().unwrap_or(0);
            match step {
                Step::Alloc(len) => match memory.alloc(len) {
                    Ok(extent) => {
                        prop_assert!(extent.len >= len.max(1) && extent.len < len.max(1) + GRANULE);
                        prop_assert_eq!(extent.offset % GRANULE, 0);
                        prop_assert_eq!(memory.look_up(extent.block), Ok(extent));
                        live.push(extent);
                    }
                    Err(AllocError::NoRoom { free, .. }) => {
                        // Refused only if nothing fits: with this few records a class holds fewer than WALK ranges
                        // or a larger class answers.
                        prop_assert!(largest < len.max(1).div_ceil(GRANULE) * GRANULE, "{largest} free, {len} refused");
                        prop_assert_eq!(free, memory.free_bytes());
                    }
                    Err(AllocError::NoRecord) => prop_assert!(live.len() * 2 + 2 > records),
                    Err(_) => unreachable!(),
                },
                Step::Free(i) if !live.is_empty() => {
                    let extent = live.swap_remove(i % live.len());
                    prop_assert!(memory.free(extent).is_ok());
                    dead.push(extent);
                }
                Step::FreeAgain(i) if !dead.is_empty() => {
                    prop_assert!(memory.free(dead[i % dead.len()]).is_err());
                }
                _ => {}
            }
            let free: u64 = gaps(&live, capacity).iter().sum();
            prop_assert_eq!(memory.free_bytes(), free);
        }
        for extent in live.drain(..) {
            prop_assert!(memory.free(extent).is_ok());
        }
        if capacity > 0 {
            let all = memory.alloc(capacity).unwrap();
            prop_assert_eq!((all.offset, all.len), (0, capacity));
        }
    }
}

#[test]
fn a_record_of_another_memory_is_refused() {
    let mut small = Memory::new([Block::default(); 2], 1 << 12);
    let mut large = Memory::new([Block::default(); 64], 1 << 20);
    let ranges: Vec<_> = (0..10).map(|_| large.alloc(64).unwrap()).collect();
    assert!(ranges[1..].iter().all(|&r| small.free(r).is_err()));
}

#[test]
fn lengths_at_the_end_of_the_number_range_are_refused() {
    let mut memory = Memory::new([Block::default(); 4], u64::MAX);
    assert_eq!(memory.capacity_bytes(), (u64::from(u32::MAX) - 1) * GRANULE);
    assert!(matches!(memory.alloc(u64::MAX), Err(AllocError::NoRoom { .. })));
    assert!(matches!(memory.alloc(u64::from(u32::MAX) * GRANULE), Err(AllocError::NoRoom { .. })));
    assert!(memory.alloc(memory.capacity_bytes()).is_ok());
}

#[test]
fn without_a_record_or_without_room_every_request_is_refused() {
    assert!(Memory::new(Vec::<Block>::new(), 1 << 20).alloc(1).is_err());
    assert!(Memory::new([Block::default(); 8], 63).alloc(0).is_err());
}
