//! Segments and shared bytes: layout, publication, and what damage does.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use proptest::prelude::*;
use umbra_core::atomic::{AtomicU64, Ordering};
use umbra_core::cell::{BytesMut, CellError};
use umbra_core::segment::{AttachError, CarveError, Draft, Kind, NAMES, Part, Segment};

const KIND: Kind = Kind(3);

fn words(memory: &mut [u64]) -> &[AtomicU64] {
    let count = memory.len();
    BytesMut::from_words(memory).words(0, count).unwrap()
}

#[test]
fn parts_are_aligned_and_do_not_overlap() {
    let mut memory = vec![0; 512];
    let words = words(&mut memory);
    let mut draft = Draft::new(words).unwrap();
    let mut end = 0;
    for (len, align) in [(1, 1), (64, 64), (7, 8), (128, 128), (0, 256)] {
        let part = draft.carve(len, align).unwrap();
        assert!(
            part.offset >= end && part.offset.is_multiple_of(align.max(8)) && part.len >= len && part.len < len + 8
        );
        end = part.offset + part.len;
    }
    assert!(matches!(draft.carve(4096, 8), Err(CarveError::NoRoom { .. })));
    assert!(matches!(draft.carve(usize::MAX, 8), Err(CarveError::NoRoom { .. })));
    assert!(matches!(draft.carve(8, 1 << 63), Err(CarveError::NoRoom { .. })));
    assert_eq!(draft.carve(8, 3), Err(CarveError::BadAlignment(3)));
    assert_eq!(draft.name(NAMES, Part { offset: 0, len: 8 }), Err(CarveError::BadName(NAMES)));
    assert!(draft.name(0, Part { offset: 4096, len: 8 }).is_err());
}

#[test]
fn a_segment_is_found_only_when_published_and_for_its_purpose() {
    let mut memory = vec![0; 64];
    let words = words(&mut memory);
    let mut draft = Draft::new(words).unwrap();
    let part = draft.carve(64, 64).unwrap();
    draft.name(2, part).unwrap();
    assert_eq!(Segment::attach(words, KIND).unwrap_err(), AttachError::NotPublished);
    draft.publish(KIND);
    assert_eq!(Segment::attach(words, Kind(4)).unwrap_err(), AttachError::WrongKind(KIND));
    let segment = Segment::attach(words, KIND).unwrap();
    assert_eq!(segment.len_bytes(), 512);
    assert_eq!(segment.named(2).unwrap().as_ptr(), segment.part(part).unwrap().as_ptr());
    assert_eq!(segment.named(1).unwrap_err(), AttachError::BadPart(1));
    let short = Segment::attach(&words[..63], KIND).unwrap_err();
    assert_eq!(short, AttachError::TooSmall { mapped: 504, needed: 512 });
    words[1].store(2 | 3 << 32, Ordering::Relaxed);
    assert_eq!(Segment::attach(words, KIND).unwrap_err(), AttachError::WrongVersion(2));
}

proptest! {
    #[test]
    fn a_damaged_header_never_leads_outside(
        damage in prop::collection::vec((0usize..16, prop_oneof![any::<u64>(), 0u64..600]), 1..20),
    ) {
        let mut memory = vec![0; 64];
        let words = words(&mut memory);
        let mut draft = Draft::new(words).unwrap();
        let part = draft.carve(64, 64).unwrap();
        draft.name(0, part).unwrap();
        let early = draft.publish(KIND);
        for (at, value) in damage {
            words[at].store(value, Ordering::Relaxed);
            for segment in [Ok(early), Segment::attach(words, KIND)].into_iter().flatten() {
                prop_assert!(segment.len_bytes() <= 512);
                for name in 0..NAMES + 1 {
                    if let Ok(part) = segment.named(name) {
                        let inside = words.as_ptr_range();
                        let range = part.as_ptr_range();
                        prop_assert!(inside.start <= range.start && range.end <= inside.end);
                    }
                }
            }
        }
    }

    #[test]
    fn bytes_are_copied_exactly_and_nothing_beside_them(
        len in 0usize..5000,
        offset in 0usize..100,
        fill in any::<u8>(),
    ) {
        let mut memory = vec![0x5555_5555_5555_5555_u64; 650];
        let shared = BytesMut::from_words(&mut memory);
        let source: Vec<u8> = (0..len).map(|i| (i as u8).wrapping_mul(31).wrapping_add(fill)).collect();
        shared.write(offset, &source).unwrap();
        let mut copy = vec![0; 5200];
        shared.read_only().read(0, &mut copy).unwrap();
        prop_assert_eq!(&copy[offset..offset + len], &source[..]);
        prop_assert!(copy[..offset].iter().chain(&copy[offset + len..]).all(|&b| b == 0x55));
        let mut part = vec![0; len];
        shared.part(offset, len).unwrap().read_only().read(0, &mut part).unwrap();
        prop_assert_eq!(part, source);
    }
}

#[test]
fn ranges_are_checked_without_overflow() {
    let mut memory = [0_u64; 4];
    let shared = BytesMut::from_words(&mut memory);
    for (offset, len) in [(0, 33), (32, 1), (33, 0), (usize::MAX, 1), (1, usize::MAX)] {
        let error = CellError::OutOfRange { offset, len, size: 32 };
        assert_eq!(shared.part(offset, len).unwrap_err(), error);
    }
    assert_eq!(shared.words(4, 1).unwrap_err(), CellError::Unaligned);
    assert!(shared.words(0, usize::MAX).is_err() && shared.words(8, 4).is_err());
    assert_eq!(shared.read_only().word(4).unwrap_err(), CellError::Unaligned);
    assert!(shared.write(30, &[1, 2, 3]).is_err());
    shared.write(8, &7_u64.to_le_bytes()).unwrap();
    assert_eq!(shared.read_only().word(8), Ok(7_u64.to_le()));
}
