//! A million operations on a full memory, for each kind of sizes.
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::BTreeMap;

use umbra_core::memory::{Block, Extent, Granule, Memory};

/// Numbers that look random, the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((u128::from(self.0) * u128::from(bound)) >> 64) as u64
    }

    fn among(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low)
    }
}

const CAPACITY: u64 = 8 << 20;
const STEPS: usize = 200_000;

/// Keeps the memory full: when a request finds no room, victims leave by chance until it does. Gives how much was
/// asked for of all that was in use in the second half, on average, in 1/1000 of the capacity.
fn keep_full(mut size: impl FnMut(&mut Random) -> u64) -> u64 {
    let mut memory = Memory::with_granule(vec![Block::default(); 1 << 18], CAPACITY, Granule::new(16).unwrap());
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut live: Vec<(Extent, u64)> = vec![];
    let mut used: BTreeMap<u64, u64> = BTreeMap::new();
    let (mut payload, mut sum) = (0, 0);
    for step in 0..STEPS {
        let len = size(&mut random);
        let extent = loop {
            match memory.alloc(len) {
                Ok(extent) => break extent,
                Err(_) => {
                    let victim = random.below(live.len() as u64) as usize;
                    let (extent, len) = live.swap_remove(victim);
                    memory.free(extent).unwrap();
                    used.remove(&extent.offset);
                    payload -= len;
                }
            }
        };
        let end = extent.offset + extent.len;
        assert!(end <= CAPACITY);
        assert!(used.range(..end).next_back().is_none_or(|(offset, len)| offset + len <= extent.offset));
        used.insert(extent.offset, extent.len);
        live.push((extent, len));
        payload += len;
        if step >= STEPS / 2 {
            sum += payload;
        }
    }
    let figures = memory.figures();
    assert_eq!(figures.free, CAPACITY - used.values().sum::<u64>());
    assert_eq!(figures.used_ranges as usize, used.len());
    let ends: Vec<u64> = std::iter::once(0).chain(used.iter().map(|(offset, len)| offset + len)).collect();
    let starts = used.keys().copied().chain(std::iter::once(CAPACITY));
    assert_eq!(figures.free_ranges as usize, ends.iter().zip(starts).filter(|(end, start)| *end != start).count());
    for (extent, _) in live {
        memory.free(extent).unwrap();
    }
    assert_eq!((memory.figures().free_ranges, memory.figures().largest), (1, CAPACITY));
    sum * 1000 / CAPACITY / (STEPS as u64 / 2)
}

#[test]
fn t77_t80_sizes_spread_evenly_over_their_logarithms() {
    let size = |random: &mut Random| {
        let shift = random.among(6, 14);
        random.among(1 << shift, 2 << shift)
    };
    let part = keep_full(size);
    assert!(part >= 890, "{part}");
}

#[test]
fn t77_t80_sizes_spread_evenly() {
    let part = keep_full(|random| random.among(16, 4096));
    assert!(part >= 950, "{part}");
}

/// Nine of ten of one length, the others small.
fn mostly(len: u64) -> impl FnMut(&mut Random) -> u64 {
    move |random| if random.below(10) > 0 { len } else { random.among(96, 1024) }
}

#[test]
fn t77_t80_mostly_pages() {
    let part = keep_full(mostly(4096));
    assert!(part >= 990, "{part}");
}

#[test]
fn t77_t80_mostly_one_length_between_two_bins() {
    // Allocators that only look into the bins above leave a third unused.
    let part = keep_full(mostly(4240));
    assert!(part >= 990, "{part}");
}

#[test]
fn t77_t80_one_length() {
    assert_eq!(keep_full(|_| 1024), 1000);
}
