//! References to pools, allocations, channels and streams.

use umbra_core::heap::BlockId;
use umbra_core::reference::{LONGEST, Object, Place, Reference};

/// One reference for every object, at either place.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    let id = BlockId::from_bits(1 << 24 | 5);
    let objects = [
        Object::Pool,
        Object::Allocation { id, offset: 64, len: 1000 },
        Object::Channel,
        Object::PooledChannel { id, instance: 9 },
        Object::Streams,
    ];
    let places = [Place::Files("/dev/shm/umbra-pool.x"), Place::Process { pid: 42, start: 99, files: [3, 4] }];
    let all = objects.into_iter().flat_map(|object| places.map(|place| (object, place)));
    let written =
        all.map(|(object, place)| written(&Reference { host: 1, instance: 2, uid: 3, bytes: 1 << 20, object, place }));
    written.collect()
}

fn written(reference: &Reference<'_>) -> Vec<u8> {
    let mut buffer = [0; LONGEST];
    let len = reference.write(&mut buffer).expect("what parses, and what seeds say, fits");
    buffer[..len].to_vec()
}

/// What parses, emits the same bytes; any single changed bit and any truncation of it are refused.
pub(super) fn feed(bytes: &[u8]) {
    match Reference::parse(bytes) {
        Ok(reference) => {
            let mut bent = written(&reference);
            assert_eq!(bent, bytes);
            let bit = usize::from(bytes[40]) * 7 % (bent.len() * 8);
            bent[bit / 8] ^= 1 << (bit % 8);
            assert!(Reference::parse(&bent).is_err(), "bit {bit} may change");
            assert!(Reference::parse(&bent[..bit / 8]).is_err(), "{} bytes suffice", bit / 8);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
