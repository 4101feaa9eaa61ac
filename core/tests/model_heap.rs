//! The heap against a plain list of blocks, and in memory that somebody wrote over.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::HashMap;

use proptest::prelude::*;
use umbra_core::atomic::{AtomicU64, Ordering};
use umbra_core::crew::{Identity, Member};
use umbra_core::heap::{
    AllocError, AttachError, Block, BlockId, Heap, KINDS, Keep, KindError, NotReserved, Plan, PlanError, Unreserved,
};

fn words(plan: Plan) -> Vec<AtomicU64> {
    (0..plan.words()).map(|_| AtomicU64::new(u64::MAX)).collect()
}

/// What is allocated, as a list tells it.
#[derive(Default)]
struct List {
    live: HashMap<BlockId, Block>,
    past: Vec<BlockId>,
}

impl List {
    fn add(&mut self, block: Block, bytes: u64) {
        assert!(block.offset + block.size <= bytes && block.len <= block.size, "{block:?}");
        assert_eq!(block.offset % (1 << block.size.trailing_zeros()), 0, "aligned: {block:?}");
        for other in self.live.values() {
            let apart = block.offset + block.size <= other.offset || other.offset + other.size <= block.offset;
            assert!(apart, "{block:?} overlaps {other:?}");
        }
        assert!(!self.past.contains(&block.id), "no id is used again");
        assert!(self.live.insert(block.id, block).is_none());
    }

    /// One of them, whichever `which` says.
    fn choose(&self, which: u16) -> Option<Block> {
        let mut all: Vec<_> = self.live.values().copied().collect();
        all.sort_by_key(|block| block.id);
        all.get(usize::from(which) % all.len().max(1)).copied()
    }

    fn remove(&mut self, id: BlockId) {
        assert!(self.live.remove(&id).is_some());
        self.past.push(id);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Alloc { by: usize, len: u64, kind: u32 },
    Free { by: usize, which: u16 },
    FreeAgain { by: usize, which: u16 },
    Bury { dead: usize, keep: bool },
}

fn steps(longest: u64) -> impl Strategy<Value = Vec<Step>> {
    let len = prop_oneof![3 => 1..200_u64, 2 => 1..5000_u64, 1 => 1..=longest];
    let step = prop_oneof![
        6 => (0..3_usize, len, 0..(1_u32 << 24)).prop_map(|(by, len, kind)| Step::Alloc { by, len, kind }),
        5 => (0..3_usize, any::<u16>()).prop_map(|(by, which)| Step::Free { by, which }),
        1 => (0..3_usize, any::<u16>()).prop_map(|(by, which)| Step::FreeAgain { by, which }),
        1 => (1..3_usize, any::<bool>()).prop_map(|(dead, keep)| Step::Bury { dead, keep }),
    ];
    proptest::collection::vec(step, 1..400)
}

fn identity(life: u32) -> Identity {
    Identity::new(life, 7)
}

fn run(plan: Plan, steps: Vec<Step>) {
    let words = words(plan);
    let heap = Heap::create(&words, plan, &[]).unwrap();
    let mut lives = 3;
    let mut members: Vec<Member> = (0..3).map(|life| heap.crew().join(identity(life)).unwrap()).collect();
    let mut hands: Vec<_> = members.iter().map(|&member| heap.hand(member)).collect();
    let mut list = List::default();
    for step in steps {
        match step {
            Step::Alloc { by, len, kind } => match hands[by].alloc(len, kind) {
                Ok(block) => {
                    assert_eq!((block.len, block.kind, block.owner), (len, kind, hands[by].number()));
                    assert_eq!(heap.block(block.id), Ok(block));
                    list.add(block, plan.bytes());
                }
                Err(AllocError::NotAvailable { .. } | AllocError::OutOfEntries) => {}
                Err(error) => assert_eq!(error, AllocError::TooLarge { len, longest: heap.longest() }),
            },
            Step::Free { by, which } => {
                if let Some(block) = list.choose(which) {
                    hands[by].free(block.id).unwrap();
                    list.remove(block.id);
                }
            }
            Step::FreeAgain { by, which } => {
                if let Some(&id) = list.past.get(usize::from(which) % list.past.len().max(1)) {
                    assert!(hands[by].free(id).is_err() && heap.block(id).is_err());
                }
            }
            Step::Bury { dead, keep } => {
                let member = members[dead];
                let mine: Vec<_> =
                    list.live.values().filter(|block| block.owner == member.number).map(|b| b.id).collect();
                assert_eq!(heap.held_by(member.number), mine.len());
                // As if killed: its hand tells nobody what it keeps to itself, and is not used any more.
                let keep = if keep { Keep::Blocks } else { Keep::Nothing };
                let buried = heap.bury(member, members[0].number, keep);
                if keep == Keep::Blocks && !mine.is_empty() {
                    assert!(buried.is_err(), "it still holds blocks");
                    continue;
                }
                assert_eq!(buried.unwrap().freed, mine.len());
                mine.into_iter().for_each(|id| list.remove(id));
                members[dead] = heap.crew().join(identity(lives)).unwrap();
                lives += 1;
                hands[dead] = heap.hand(members[dead]);
            }
        }
        let figures = heap.figures();
        assert_eq!((figures.blocks, figures.asked), (list.live.len() as u64, list.live.values().map(|b| b.len).sum()));
    }
    let mut listed: Vec<_> = heap.blocks().collect();
    listed.sort_by_key(|block| block.id);
    let mut live: Vec<_> = list.live.into_values().collect();
    live.sort_by_key(|block| block.id);
    assert_eq!(listed, live);
    live.iter().for_each(|block| hands[0].free(block.id).unwrap());
    // Also what the other hands keep to themselves can be used.
    let whole = hands[0].alloc(heap.longest(), 0).unwrap();
    assert!(hands[0].alloc(heap.longest(), 0).is_err());
    hands[0].free(whole.id).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn a_heap_does_what_a_list_does(steps in steps(1 << 18)) {
        run(Plan::new(1 << 18, 32, 0, 8).unwrap(), steps);
    }

    #[test]
    fn so_does_a_heap_of_an_odd_size(steps in steps(64 << 10)) {
        run(Plan::new(100_000, 16, 500, 4).unwrap(), steps);
    }

    #[test]
    fn so_does_a_heap_of_a_few_units(steps in steps(128)) {
        run(Plan::new(170, 32, 3, 3).unwrap(), steps);
    }

    #[test]
    fn a28_damaged_words_give_errors_and_no_more(
        damage in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u64>(), 0..4_u8), 1..60),
        lens in proptest::collection::vec(1..40_000_u64, 1..40),
    ) {
        let plan = Plan::new(1 << 18, 32, 0, 4).unwrap();
        let words = words(plan);
        let heap = Heap::create(&words, plan, &[(64, 10)]).unwrap();
        let [a, b] = [0, 1].map(|life| heap.crew().join(identity(life)).unwrap());
        let (mut ours, mut theirs) = (heap.hand(a), heap.hand(b));
        let mut ids = vec![];
        for &len in &lens {
            ids.extend(ours.alloc(len, 0).into_iter().chain(theirs.alloc(len, 0)).map(|block| block.id));
        }
        for (at, value, how) in damage {
            let word = &words[at.index(words.len())];
            let old = word.load(Ordering::Relaxed);
            let new = [value, old ^ 1 << (value % 64), old.wrapping_add(value % 9), !old][usize::from(how)];
            word.store(new, Ordering::Relaxed);
        }
        for &len in &lens {
            for hand in [&mut ours, &mut theirs] {
                if let Ok(block) = hand.alloc(len, 0) {
                    prop_assert!(block.size > 0 && block.offset + block.size <= plan.bytes());
                    ids.push(block.id);
                }
            }
        }
        for block in heap.blocks() {
            prop_assert!(block.offset + block.size <= plan.bytes());
        }
        let _ = heap.figures();
        for id in ids {
            let _ = (heap.block(id), ours.free(id));
        }
        let _ = (heap.bury(b, a.number, Keep::Nothing), ours.alloc(heap.longest(), 0));
        let _ = Heap::attach(&words, plan.bytes());
    }
}

#[test]
fn a_block_that_changed_hands_stays_when_its_first_owner_goes_and_goes_with_its_second() {
    let plan = Plan::new(1 << 16, 32, 0, 4).unwrap();
    let words = words(plan);
    let heap = Heap::create(&words, plan, &[]).unwrap();
    let [a, b] = [1, 2].map(|life| heap.crew().join(identity(life)).unwrap());
    let (mut ours, theirs) = (heap.hand(a), heap.hand(b));
    let blocks = [100, 30_000].map(|len| ours.alloc(len, 7).unwrap());
    for block in blocks {
        theirs.own(block.id).unwrap();
        assert_eq!(heap.block(block.id), Ok(Block { owner: b.number, ..block }));
    }
    let kept = ours.alloc(50, 7).unwrap();
    ours.free(kept.id).unwrap();
    assert!(theirs.own(kept.id).is_err(), "it was freed");
    ours.rest();
    assert_eq!(heap.recover(a.number, Keep::Nothing).map(|recovered| recovered.freed), Ok(0));
    assert!(blocks.iter().all(|block| heap.block(block.id).is_ok()));
    assert_eq!(heap.recover(b.number, Keep::Nothing).map(|recovered| recovered.freed), Ok(2));
    assert_eq!(heap.blocks().count(), 0);
}

#[test]
fn as_many_blocks_as_were_asked_for_can_be_allocated_of_each_size() {
    // (bytes, blocks, lengths)
    let asked: [(u64, u32, &[u64]); 3] = [
        (64 << 20, 4096, &[64, 90, 112, 224]),
        (1 << 30, 4096, &[57_344, 131_072]),
        // Spans of four blocks, because more do not fit into the longest one.
        ((2 << 20) - 1, 120, &[16 << 10]),
    ];
    let mut refused = vec![];
    for (bytes, blocks, lens) in asked {
        let plan = Plan::new(bytes, 32, blocks, 2).unwrap();
        for &len in lens {
            let words = words(plan);
            let heap = Heap::create(&words, plan, &[]).unwrap();
            let mut hand = heap.hand(heap.crew().join(identity(1)).unwrap());
            refused.extend((0..blocks).find_map(|at| Some((bytes, blocks, len, at, hand.alloc(len, 0).err()?))));
        }
    }
    assert_eq!(refused, []);
    assert!(Plan::new(1 << 39, 8, 1 << 24, 1).is_err() && Plan::new(1 << 39, 8, (1 << 24) - 1024, 1).is_ok());
}

#[test]
fn reserved_blocks_of_the_longest_small_sizes_are_for_no_other_one() {
    let plan = Plan::new(64 << 20, 32, 0, 2).unwrap();
    for (reserved, len) in [(65_536, 50_000), (57_344, 45_000), (128, 96)] {
        let words = words(plan);
        let heap = Heap::create(&words, plan, &[(reserved, 100)]).unwrap();
        let mut hand = heap.hand(heap.crew().join(identity(1)).unwrap());
        while hand.alloc(len, 0).is_ok() {}
        assert_eq!((0..100).find(|_| hand.alloc(reserved, 0).is_err()), None, "{reserved} beside {len}");
    }
}

#[test]
fn what_cannot_be_reserved_is_named_with_the_reason() {
    let create = |bytes: u64, reserved: &[(u64, u32)]| {
        let plan = Plan::new(bytes, 32, 0, 2).unwrap();
        Heap::create(&words(plan), plan, reserved).map(|_| ())
    };
    let whole = 64 << 20;
    for (bytes, reserved, entry, why) in [
        (whole, [(64, 10), (0, 1)], 1, Unreserved::Nothing),
        (whole, [(100_000, 1), (64, 10)], 0, Unreserved::TooLong { longest: 65_536 }),
        // Of sixteen spans of four MiB each the first has the blocks of the other entry.
        (whole, [(64, 10), (65_536, 961)], 1, Unreserved::TooMany { room: 960 }),
        (3 << 20, [(64, 10), (40_000, 1)], 1, Unreserved::TooLong { longest: 32_768 }),
        (60_000, [(64, 10), (3000, 1)], 1, Unreserved::TooLong { longest: 2048 }),
        (200, [(64, 1), (64, 1)], 0, Unreserved::TooLong { longest: 0 }),
    ] {
        let (len, count) = reserved[entry];
        let refused = NotReserved { entry, len, count, why };
        assert_eq!(create(bytes, &reserved), Err(AttachError::NotReserved(refused)));
    }
    assert_eq!(create(whole, &[(64, 10), (65_536, 960)]), Ok(()), "what is said to have room has");
}

#[test]
fn a_plan_for_too_few_bytes_says_how_many_are_enough() {
    for (bytes, granule) in [(0, 0), (0, 1), (39, 8), (100, 1000), (500, 100), (4096, 4096), ((1 << 37) - 1, 1 << 37)] {
        let refused = Plan::new(bytes, granule, 0, 1);
        let Err(PlanError::TooSmall { needed, .. }) = refused else { panic!("{bytes}, {granule}: {refused:?}") };
        assert_eq!(Plan::new(needed - 1, granule, 0, 1), Err(PlanError::TooSmall { bytes: needed - 1, needed }));
        assert_eq!(Plan::new(needed, granule, 0, 1).map(|plan| plan.bytes()), Ok(needed), "{granule}");
    }
    let needed = u64::MAX;
    assert_eq!(
        Plan::new(7, u64::MAX, 0, 1),
        Err(PlanError::TooSmall { bytes: 7, needed }),
        "more than a heap can have"
    );
}

#[test]
fn without_a_number_of_blocks_there_is_room_for_one_a_kilobyte() {
    let bytes = 16 << 20;
    let plan = Plan::new(bytes, 32, 0, 1).unwrap();
    let words = words(plan);
    let heap = Heap::create(&words, plan, &[]).unwrap();
    let mut hand = heap.hand(heap.crew().join(identity(1)).unwrap());
    let blocks = (0..).find(|_| hand.alloc(64, 0).is_err()).unwrap();
    assert_eq!((hand.alloc(64, 0), blocks), (Err(AllocError::OutOfEntries), u64::from(plan.blocks())));
    // Whole groups of 64.
    assert_eq!(blocks, bytes / 1088 / 64 * 64);
}

#[test]
fn no_block_is_longer_than_what_is_reserved_leaves() {
    // (reserved, the longest block beside it): of 1 MiB the spans of 64 bytes have 4096 bytes each.
    let asked: [(&[(u64, u32)], u64); 4] =
        [(&[], 1 << 20), (&[(64, 0)], 1 << 20), (&[(64, 1), (16_000, 1)], 1 << 19), (&[(64, 64 * 256)], 64)];
    for (reserved, longest) in asked {
        let plan = Plan::new(1 << 20, 32, 1 << 15, 2).unwrap();
        let words = words(plan);
        Heap::create(&words, plan, reserved).unwrap();
        let heap = Heap::attach(&words, 1 << 20).unwrap();
        let mut hand = heap.hand(heap.crew().join(identity(1)).unwrap());
        assert_eq!(heap.longest(), longest, "{reserved:?}");
        let len = longest + 1;
        assert_eq!(hand.alloc(len, 0), Err(AllocError::TooLarge { len, longest }), "no free makes that succeed");
        let block = hand.alloc(longest, 0).unwrap();
        assert!(hand.alloc(longest, 0).is_ok() == (longest == 64));
        hand.free(block.id).unwrap();
    }
}

#[test]
fn a_kind_that_has_no_room_is_refused_and_changes_nothing() {
    let plan = Plan::new(1 << 16, 32, 0, 4).unwrap();
    let words = words(plan);
    let heap = Heap::create(&words, plan, &[]).unwrap();
    let mut hand = heap.hand(heap.crew().join(identity(1)).unwrap());
    let block = hand.alloc(100, 7).unwrap();
    for kind in [KINDS, KINDS + 9, u32::MAX] {
        assert_eq!(hand.set_kind(block.id, kind), Err(KindError::BadKind(kind)));
        assert_eq!(heap.block(block.id).unwrap().kind, 7);
    }
    hand.set_kind(block.id, KINDS - 1).unwrap();
    assert_eq!(heap.block(block.id).unwrap(), Block { kind: KINDS - 1, ..block });
    hand.free(block.id).unwrap();
    assert_eq!(hand.set_kind(block.id, 1), Err(KindError::Stale));
}
