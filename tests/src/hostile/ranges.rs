//! Orders to an allocator of offsets, and frees of whatever offset.
//!
//! The allocator must never hand out a byte twice.

use std::collections::BTreeMap;

use umbra_core::memory::{Block, Granule, Offsets, QuickFit};

const CAPACITY: u64 = 1 << 16;

/// Orders of four bytes: what to do, and a number. With freed ranges joined at once, and kept.
pub(crate) fn feed(bytes: &[u8]) {
    feed_keeping(bytes, 0);
    feed_keeping(bytes, 12);
}

fn feed_keeping(bytes: &[u8], most: u32) {
    let unit = Granule::new(16).expect("a power of two");
    let (starts, lists) = (vec![0; (CAPACITY / 16) as usize], [QuickFit::NO_RANGE; 128]);
    let mut memory = Offsets::with_lists([Block::default(); 65], starts, CAPACITY, unit, lists, most);
    let mut used: BTreeMap<u64, u64> = BTreeMap::new();
    for order in bytes.chunks_exact(4).take(1024) {
        let number = u64::from(u16::from_le_bytes([order[2], order[3]]));
        let taken = match order[0] % 4 {
            0 => Some((memory.alloc(number), 1)),
            1 => {
                let align = 1 << (order[1] % 20);
                Some((memory.alloc_aligned(number, align), align))
            }
            2 => {
                assert_eq!(memory.free(number).ok(), used.remove(&number), "freed what was not in use");
                None
            }
            _ => {
                let offset = used.keys().nth(usize::from(order[1]) % used.len().max(1)).copied();
                if let Some(offset) = offset {
                    assert_eq!(memory.free(offset).ok(), used.remove(&offset));
                    assert!(memory.free(offset).is_err(), "freed twice");
                }
                None
            }
        };
        if let Some((Ok(offset), align)) = taken {
            let end = offset + number.next_multiple_of(16);
            assert!(offset % align == 0 && end <= CAPACITY);
            assert!(used.range(..end).next_back().is_none_or(|(start, len)| start + len <= offset), "handed out twice");
            used.insert(offset, end - offset);
        }
        let figures = memory.figures();
        assert_eq!(figures.free, CAPACITY - used.values().sum::<u64>(), "bytes are conserved");
        assert_eq!(figures.used_ranges as usize, used.len());
        assert!(figures.largest <= figures.free && u64::from(figures.free_ranges) * 16 <= figures.free);
    }
}

/// Some of everything.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let order = |what: u8, which: u8, number: u16| [[what, which], number.to_le_bytes()].concat();
    let fill: Vec<u8> = (1..20).flat_map(|number| order(0, 0, number * 100)).collect();
    let aligned = (0..12).flat_map(|shift| order(1, shift, 64)).collect();
    let holes = (0..10).flat_map(|which| order(3, which, 0));
    let again = (0..10).flat_map(|number| order(0, 0, 250 + number));
    vec![fill.clone(), aligned, fill.into_iter().chain(holes).chain(again).chain(order(2, 0, 0)).collect()]
}
