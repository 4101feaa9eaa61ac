//! Threads that allocate and free at once, also each other's blocks.
//!
//! Nobody gets what another has (A01).
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod random;

use std::sync::Mutex;

use random::Random;
use umbra_core::atomic::{AtomicU64, Ordering};
use umbra_core::crew::Identity;
use umbra_core::heap::{Block, Hand, Heap, Keep, Plan};

const GRANULE: u64 = 32;
const BYTES: u64 = 1 << 20;

/// One word a granule, which says whose it is.
struct Data(Vec<AtomicU64>);

impl Data {
    fn of(&self, block: Block) -> &[AtomicU64] {
        let granule = |bytes: u64| (bytes / GRANULE) as usize;
        &self.0[granule(block.offset)..granule(block.offset + block.size)]
    }
    fn fill(&self, block: Block) {
        self.of(block).iter().for_each(|word| assert_eq!(word.swap(block.id.to_bits(), Ordering::Relaxed), 0));
    }
    fn empty(&self, block: Block) {
        self.of(block).iter().for_each(|word| assert_eq!(word.swap(0, Ordering::Relaxed), block.id.to_bits()));
    }
}

fn work(hand: &mut Hand<'_>, data: &Data, passed_on: &Mutex<Vec<Block>>, seed: u64, rounds: u32) {
    let mut random = Random(seed * 2 + 1);
    let mut held = vec![];
    let free = |hand: &mut Hand<'_>, block: Block| {
        data.empty(block);
        hand.free(block.id).unwrap();
        assert!(hand.free(block.id).is_err());
    };
    for _ in 0..rounds {
        let most = [200, 4096, 300_000][random.below(40).saturating_sub(37) as usize];
        match random.below(5) {
            0 | 1 => {
                if let Ok(block) = hand.alloc(1 + random.below(most), 0) {
                    data.fill(block);
                    held.push(block);
                }
            }
            2 | 3 if !held.is_empty() => free(hand, held.swap_remove(random.below(held.len() as u64) as usize)),
            _ => {
                let mut others = passed_on.lock().unwrap();
                others.extend(held.pop());
                let block = others.pop();
                drop(others);
                block.into_iter().for_each(|block| free(hand, block));
            }
        }
    }
    held.into_iter().for_each(|block| free(hand, block));
}

#[test]
fn blocks_never_overlap_and_all_memory_comes_back() {
    let plan = Plan::new(BYTES, GRANULE, 0, 8).unwrap();
    let words: Vec<_> = (0..plan.words()).map(|_| AtomicU64::new(0)).collect();
    let heap = Heap::create(&words, plan, &[(96, 30)]).unwrap();
    let data = Data((0..BYTES / GRANULE).map(|_| AtomicU64::new(0)).collect());
    let passed_on = Mutex::new(vec![]);
    let rounds = if cfg!(debug_assertions) { 20_000 } else { 100_000 };
    std::thread::scope(|scope| {
        for seed in 1..=4 {
            let (data, passed_on) = (&data, &passed_on);
            scope.spawn(move || {
                for life in 0..4 {
                    let member = heap.crew().join(Identity::new(seed, life)).unwrap();
                    let mut hand = heap.hand(member);
                    work(&mut hand, data, passed_on, u64::from(seed) * 7 + life, rounds / 4);
                    // Two leave in order; of the others somebody takes back what they kept to themselves.
                    if life % 2 == 0 {
                        let _ = heap.leave(member, hand);
                    } else {
                        let _ = heap.bury(member, member.number, Keep::Blocks);
                    }
                }
            });
        }
    });
    let mut hand = heap.hand(heap.crew().join(Identity::new(9, 9)).unwrap());
    for block in passed_on.into_inner().unwrap() {
        data.empty(block);
        hand.free(block.id).unwrap();
    }
    assert_eq!(heap.blocks().count(), 0);
    // The reserved blocks stay with their size, at the beginning: 42 fill a span, but for 64 bytes.
    let half = hand.alloc(BYTES / 2, 0).unwrap();
    assert!(hand.alloc(BYTES / 2, 0).is_err());
    assert_eq!(heap.figures().free, BYTES / 2 - 64);
    assert!((0..42).all(|_| hand.alloc(96, 0).is_ok()));
    hand.free(half.id).unwrap();
}
