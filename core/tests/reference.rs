//! References: what is written is read back, and nothing else is read.

#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use proptest::prelude::*;
use umbra_core::heap::BlockId;
use umbra_core::reference::{LONGEST, LONGEST_PATH, Object, Place, Reference, ReferenceError};

fn object() -> impl Strategy<Value = Object> {
    let id = || (1..=u64::MAX).prop_map(BlockId::from_bits);
    prop_oneof![
        Just(Object::Pool),
        Just(Object::Channel),
        (id(), any::<u64>()).prop_map(|(id, instance)| Object::PooledChannel { id, instance }),
        (id(), 0u64..1 << 39, 0u64..1 << 39).prop_map(|(id, offset, len)| Object::Allocation { id, offset, len }),
    ]
}

fn written(reference: &Reference<'_>) -> Vec<u8> {
    let mut buffer = [0; LONGEST];
    let len = reference.write(&mut buffer).unwrap();
    buffer[..len].to_vec()
}

proptest! {
    #[test]
    fn a_reference_is_read_as_it_was_written_and_no_part_of_it_is(
        (numbers, object) in (any::<[u64; 3]>(), object()),
        path in "[a-z/.-]{1,255}",
        process in proptest::option::of((any::<u32>(), any::<u64>(), any::<[u32; 2]>())),
    ) {
        let [host, instance, uid] = numbers;
        let place = match process {
            Some((pid, start, files)) => Place::Process { pid, start, files },
            None => Place::Files(&path),
        };
        let reference = Reference { host, instance, uid, bytes: 1 << 40, object, place };
        let bytes = written(&reference);
        prop_assert_eq!(Reference::parse(&bytes), Ok(reference));
        for len in 0..bytes.len() {
            prop_assert!(Reference::parse(&bytes[..len]).is_err());
        }
    }
}

#[test]
fn every_changed_byte_is_refused() {
    let object = Object::Allocation { id: BlockId::from_bits(77), offset: 5, len: 10 };
    let place = Place::Files("/dev/shm/umbra-pool.x");
    let bytes = written(&Reference { host: 1, instance: 2, uid: 3, bytes: 1 << 20, object, place });
    for at in 0..bytes.len() {
        for change in 1..=255 {
            let mut changed = bytes.clone();
            changed[at] ^= change;
            assert!(Reference::parse(&changed).is_err(), "byte {at}, {change:#x}");
        }
    }
    let mut newer = bytes;
    newer[4] = 2;
    assert_eq!(Reference::parse(&newer), Err(ReferenceError::Version(2)));
}

#[test]
fn what_does_not_fit_is_not_written() {
    let path = "x".repeat(LONGEST_PATH + 1);
    let pool = Reference { host: 0, instance: 0, uid: 0, bytes: 1, object: Object::Pool, place: Place::Files(&path) };
    assert!(pool.write(&mut [0; 1000]).is_err(), "the path is too long");
    let pool = Reference { place: Place::Files("x"), ..pool };
    assert!(pool.write(&mut [0; 40]).is_err(), "the buffer is too short");
}
