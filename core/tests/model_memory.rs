//! The range allocator against a plain set of intervals.

mod intervals;

use intervals::{Used, gaps};
use proptest::prelude::*;
use umbra_core::memory::{AllocError, Block, Extent, Granule, Memory, NotAllocated, Offsets, WALK};

#[derive(Clone, Debug)]
enum Step {
    Alloc(u64),
    AllocAligned(u64, u32),
    Free(usize),
    FreeAgain(usize),
    FreeAt(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0u64..5000).prop_map(Step::Alloc),
        1 => (0u64..200_000).prop_map(Step::Alloc),
        2 => (0u64..5000, 0u32..14).prop_map(|(len, shift)| Step::AllocAligned(len, shift)),
        4 => any::<usize>().prop_map(Step::Free),
        1 => any::<usize>().prop_map(Step::FreeAgain),
        1 => (0u64..300_000).prop_map(Step::FreeAt),
    ]
}

/// Whether `len` bytes fit somewhere at a multiple of `align`.
fn fits(gaps: &[(u64, u64)], len: u64, align: u64) -> bool {
    gaps.iter().any(|&(start, size)| start.next_multiple_of(align) + len <= start + size)
}

/// Asserts that the figures are those of the intervals: bytes are conserved, and all free neighbours are one.
fn agree<S: AsRef<[Block]> + AsMut<[Block]>>(memory: &Memory<S>, used: &Used, capacity: u64) {
    let gaps = gaps(used, capacity);
    let figures = memory.figures();
    assert_eq!(figures.capacity, capacity);
    assert_eq!(figures.free, gaps.iter().map(|gap| gap.1).sum::<u64>());
    assert_eq!(figures.used_ranges as usize, used.len());
    assert_eq!(figures.free_ranges as usize, gaps.len(), "two free ranges touch");
    let longest = gaps.iter().map(|gap| gap.1).max().unwrap_or(0);
    assert!(figures.largest <= longest && figures.largest >= longest - longest / 32);
    assert!(gaps.len() > WALK || figures.largest == longest);
    assert!(figures.fragmentation_permille() <= 1000);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn t77_ranges_never_overlap_and_free_neighbours_are_one(
        capacity in 0u64..300_000,
        records in 1usize..60,
        shift in 0u32..9,
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let granule = Granule::new(1 << shift).unwrap();
        let mut memory = Memory::with_granule(vec![Block::default(); records], capacity, granule);
        let capacity = capacity >> shift << shift;
        let mut used = Used::new();
        let (mut live, mut dead): (Vec<Extent>, Vec<Extent>) = (vec![], vec![]);
        for step in steps {
            let before = memory.figures();
            let free = gaps(&used, capacity);
            let (asked, outcome) = match step {
                Step::Alloc(len) => (Some((len, granule.bytes())), Some(memory.alloc(len))),
                Step::AllocAligned(len, align) => {
                    (Some((len, (1 << align).max(granule.bytes()))), Some(memory.alloc_aligned(len, 1 << align)))
                }
                Step::Free(at) if !live.is_empty() => {
                    let extent = live.swap_remove(at % live.len());
                    prop_assert!(memory.free(extent).is_ok());
                    prop_assert_eq!(used.remove(&extent.offset), Some(extent.len));
                    dead.push(extent);
                    (None, None)
                }
                Step::FreeAgain(at) if !dead.is_empty() => {
                    prop_assert!(memory.free(dead[at % dead.len()]).is_err());
                    prop_assert_eq!(memory.figures(), before);
                    (None, None)
                }
                _ => (None, None),
            };
            if let (Some((len, align)), Some(outcome)) = (asked, outcome) {
                let whole = len.next_multiple_of(granule.bytes());
                match outcome {
                    Ok(extent) => {
                        prop_assert_eq!(extent.len, whole);
                        prop_assert_eq!(extent.offset % align, 0);
                        prop_assert_eq!(memory.look_up(extent.block), Ok(extent));
                        used.insert(extent.offset, extent.len);
                        live.push(extent);
                    }
                    Err(error) => {
                        prop_assert_eq!(memory.figures(), before, "a refusal changes nothing");
                        match error {
                            AllocError::ZeroSize => prop_assert_eq!(len, 0),
                            AllocError::TooLarge { .. } => prop_assert!(whole > capacity),
                            AllocError::OutOfMemory { free, .. } => prop_assert!(free < len),
                            // With so few ranges, no bin holds more of them than are looked at.
                            AllocError::Fragmented { .. } => {
                                prop_assert!(live.len() >= WALK || !fits(&free, whole, align));
                                prop_assert!(align > granule.bytes() || !fits(&free, whole, align));
                            }
                            AllocError::NoRecord => prop_assert!(live.len() * 2 + 3 > records),
                            other => prop_assert!(false, "{other}"),
                        }
                    }
                }
            }
            agree(&memory, &used, capacity);
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
    fn t81_only_offsets_of_ranges_in_use_are_freed(
        rubbish in any::<u32>(),
        records in 2usize..60,
        words in 1usize..2000,
        shift in 0u32..9,
        steps in prop::collection::vec(step(), 1..200),
    ) {
        // The words that lead from offsets to records may hold anything, and be as few as one.
        let granule = Granule::new(1 << shift).unwrap();
        let words = vec![rubbish % 64; words.min(1 << (words % 12))];
        let mut memory = Offsets::new(vec![Block::default(); records], words, 300_000, granule);
        let mut used = Used::new();
        for step in steps {
            let freed = match step {
                Step::Alloc(len) => {
                    used.extend(memory.alloc(len).ok().map(|at| (at, len.next_multiple_of(granule.bytes()))));
                    None
                }
                Step::AllocAligned(len, align) => {
                    let at = memory.alloc_aligned(len, 1 << align).ok();
                    used.extend(at.map(|at| (at, len.next_multiple_of(granule.bytes()))));
                    None
                }
                Step::Free(at) | Step::FreeAgain(at) => used.keys().nth(at % used.len().max(1)).copied(),
                Step::FreeAt(at) => Some(at),
            };
            if let Some(offset) = freed {
                let expected = used.remove(&offset).ok_or(NotAllocated { offset });
                prop_assert_eq!(memory.free(offset), expected);
                prop_assert_eq!(memory.free(offset), Err(NotAllocated { offset }));
            }
            for (&offset, &len) in &used {
                prop_assert_eq!(memory.look_up(offset).map(|extent| (extent.offset, extent.len)), Ok((offset, len)));
            }
            agree(memory.memory(), &used, memory.memory().capacity_bytes());
        }
    }
}

/// The arena of 45 bytes with ten blocks of 1 byte, of which all but the first and the last are freed.
fn forty_five() -> Offsets<[Block; 32], [u32; 45]> {
    let mut memory = Offsets::new([Block::default(); 32], [0; 45], 45, Granule::BYTE);
    for expected in 0..10 {
        assert_eq!(memory.alloc(1), Ok(expected));
    }
    for offset in 1..9 {
        assert_eq!(memory.free(offset), Ok(1));
    }
    memory
}

#[test]
fn t78_small_blocks_come_from_below_and_holes_are_used_again() {
    let mut memory = forty_five();
    assert_eq!(memory.alloc(1), Ok(1));
    assert_eq!(memory.alloc(4), Ok(2));
    assert_eq!(memory.alloc(4), Ok(10));
}

#[test]
fn t78_too_little_memory_and_scattered_memory_are_told_apart() {
    let mut memory = forty_five();
    // 8 and 35 bytes are free; 34 remain in all after these.
    assert_eq!(memory.alloc(9), Ok(10));
    assert_eq!(memory.alloc(35), Err(AllocError::OutOfMemory { len: 35, free: 34 }));
    assert_eq!(memory.alloc(34), Err(AllocError::Fragmented { len: 34, free: 34, largest: 26 }));
    assert_eq!(memory.memory().figures().fragmentation_permille(), 235);
}

#[test]
fn t78_a_block_of_one_byte_takes_a_unit() {
    let mut memory = Offsets::new([Block::default(); 8], [0; 4], 64, Granule::new(16).unwrap());
    assert_eq!([memory.alloc(1), memory.alloc(1)], [Ok(0), Ok(16)]);
    assert_eq!(memory.memory().free_bytes(), 32);
    assert_eq!(memory.free(8), Err(NotAllocated { offset: 8 }), "inside a range");
    assert_eq!(memory.free(16), Ok(16));
}

#[test]
fn t79_what_was_freed_is_found_again_for_the_same_size() {
    const LEN: u64 = 4240;
    let mut memory = Memory::with_granule(vec![Block::default(); 513], LEN * 256, Granule::new(16).unwrap());
    let mut all: Vec<_> = (0..256).map(|_| memory.alloc(LEN).unwrap()).collect();
    for _ in 0..3 {
        all.sort_unstable_by_key(|extent| extent.offset);
        all.iter().step_by(2).for_each(|&extent| memory.free(extent).unwrap());
        assert_eq!(memory.figures().free_ranges, 128);
        all.iter_mut().step_by(2).for_each(|extent| *extent = memory.alloc(LEN).unwrap());
        assert_eq!(memory.free_bytes(), 0);
    }
}

#[test]
fn t82_a_range_of_no_bytes_is_refused() {
    let mut memory = Memory::new([Block::default(); 4], 1 << 12);
    assert_eq!(memory.alloc(0), Err(AllocError::ZeroSize));
    assert_eq!(memory.alloc_aligned(0, 128), Err(AllocError::ZeroSize));
}

#[test]
fn alignments_are_kept_and_what_lies_in_front_stays_free() {
    let mut memory = Memory::with_granule([Block::default(); 8], 1 << 16, Granule::new(16).unwrap());
    let first = memory.alloc(16).unwrap();
    let page = memory.alloc_aligned(4096, 4096).unwrap();
    assert_eq!(page.offset, 4096);
    assert_eq!(memory.alloc(4080).unwrap().offset, 16);
    assert_eq!(memory.alloc_aligned(16, 3), Err(AllocError::BadAlign { align: 3 }));
    assert!(matches!(memory.alloc_aligned(16, 1 << 40), Err(AllocError::Fragmented { .. })));
    memory.free(first).unwrap();
    for align in [1 << 16, 1 << 17, 1 << 40, 1 << 63] {
        // Offset 0 is a multiple of all.
        let first = memory.alloc_aligned(16, align).unwrap();
        assert_eq!(first.offset, 0);
        memory.free(first).unwrap();
    }
}

#[test]
fn an_aligned_range_behind_others_of_its_length_is_found() {
    let mut memory = Memory::new([Block::default(); 200], 8192);
    let ranges: Vec<_> = (0..128).map(|_| memory.alloc(64).unwrap()).collect();
    for at in [64, 1, 3, 5, 7, 9] {
        memory.free(ranges[at]).unwrap();
    }
    assert_eq!(memory.alloc_aligned(64, 4096).map(|extent| extent.offset), Ok(4096));
    assert!(matches!(memory.alloc_aligned(64, 4096), Err(AllocError::Fragmented { .. })));
}

#[test]
fn an_aligned_range_that_just_fits_is_found() {
    let mut memory = Memory::with_granule([Block::default(); 8], 4096, Granule::new(64).unwrap());
    let all = memory.alloc_aligned(4096, 4096).unwrap();
    memory.free(all).unwrap();
    memory.alloc(1024).unwrap();
    assert_eq!(memory.alloc_aligned(2048, 2048).map(|extent| extent.offset), Ok(2048));
    assert_eq!(memory.alloc_aligned(1024, 1024).map(|extent| extent.offset), Ok(1024));
}

#[test]
fn a_memory_that_is_copied_elsewhere_goes_on_alike() {
    let mut here = Memory::new([Block::default(); 32], 1 << 16);
    let ranges: Vec<_> = (1..10).map(|len| here.alloc(len * 100).unwrap()).collect();
    here.free(ranges[3]).unwrap();
    let mut there = Box::new(here.clone());
    for len in [50, 400, 4000] {
        assert_eq!(here.alloc(len), there.alloc(len));
    }
    assert!(there.free(ranges[8]).is_ok() && there.free(ranges[3]).is_err());
}

#[test]
fn records_that_lack_change_nothing() {
    let mut memory = Memory::new([Block::default(); 2], 1 << 12);
    let first = memory.alloc(64).unwrap();
    let before = memory.figures();
    assert_eq!(memory.alloc(64), Err(AllocError::NoRecord));
    assert_eq!(memory.alloc_aligned(64, 256), Err(AllocError::NoRecord));
    assert_eq!(memory.figures(), before);
    assert_eq!(memory.alloc(before.largest).map(|extent| extent.offset), Ok(64), "the whole range needs no record");
    memory.free(first).unwrap();
}

#[test]
fn a_record_of_another_memory_is_refused() {
    let mut small = Memory::new([Block::default(); 2], 1 << 12);
    let mut large = Memory::new([Block::default(); 64], 1 << 20);
    let ranges: Vec<_> = (0..10).map(|_| large.alloc(64).unwrap()).collect();
    assert!(ranges.iter().all(|&range| small.free(range).is_err()));
}

#[test]
fn lengths_at_the_end_of_the_number_range_are_refused() {
    let mut memory = Memory::new([Block::default(); 4], u64::MAX);
    let capacity = memory.capacity_bytes();
    assert_eq!(capacity, (u64::from(u32::MAX) - 1) * Granule::LINE.bytes());
    assert_eq!(memory.alloc(u64::MAX), Err(AllocError::TooLarge { len: u64::MAX, capacity }));
    assert!(matches!(memory.alloc(capacity + 1), Err(AllocError::TooLarge { .. })));
    let most = memory.alloc_aligned(capacity - 64, 1 << 63).unwrap();
    assert_eq!(most.offset, 0);
    memory.free(most).unwrap();
    assert!(memory.alloc(capacity).is_ok());
    assert!(Granule::new(0).is_none() && Granule::new(48).is_none());
}

#[test]
fn without_a_record_or_without_room_every_request_is_refused() {
    assert!(Memory::new(Vec::<Block>::new(), 1 << 20).alloc(1).is_err());
    assert!(Memory::new([Block::default(); 8], 63).alloc(1).is_err());
    assert!(Offsets::new([Block::default(); 8], [0; 0], 64, Granule::LINE).alloc(1).is_err());
}
