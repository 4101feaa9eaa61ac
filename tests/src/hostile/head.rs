//! Heads of messages of a boundary exchange.
//!
//! They are read as they come, and written by this program with any numbers.

use umbra_core::boundary::{HEAD, Head, HeadError, Live, bitmap_bytes};

/// Words of an input that become numbers of a head; what follows is its bitmap.
const NUMBERS: usize = 10;
/// Channels of a head that is written, at most.
const CHANNELS: u32 = 600;

/// Heads with a bitmap, with overflow, and without either because all or none are live.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    let head = Head { epoch: 3, sequence: 77, channels: 70, payload: 4096, credit: 76, wish: 8192, ..Head::default() };
    let longer = Head { overflow: 1024, overflow_at: 0x1234_5678_9abc, overflow_key: 5, ..head };
    let emitted = |(head, live): (Head, usize)| {
        let mut bytes = vec![0; HEAD + bitmap_bytes(head.channels)];
        (0..live).for_each(|channel| bytes[HEAD + channel / 8] |= 1 << (channel % 8));
        let len = head.emit(live, &mut bytes).expect("room for a head");
        bytes.truncate(len);
        bytes
    };
    [(head, 9), (longer, 69), (longer, 70), (Head { payload: 0, ..head }, 0)].map(emitted).into()
}

/// What parses is the same when it is written again, and with any bit of it changed or its end missing it is refused. What was
/// written parses, unless the numbers contradict each other.
pub(super) fn feed(bytes: &[u8]) {
    match Head::parse(bytes) {
        Ok((head, live)) => parsed(bytes, &head, live),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    written(bytes);
}

fn parsed(bytes: &[u8], head: &Head, live: Live<'_>) {
    let (bits, count) = match live {
        Live::None => (&[][..], 0),
        Live::All => (&[][..], head.channels as usize),
        Live::Some(bits) => (bits, bits.iter().map(|byte| byte.count_ones() as usize).sum()),
    };
    let bytes = &bytes[..HEAD + bits.len()];
    let mut again = bytes.to_vec();
    let len = head.emit(count, &mut again).expect("as much room as there was");
    let (same, still) = Head::parse(&again[..len]).expect("it was just written");
    assert_eq!(same, *head);
    let channels = (bits.len() * 8).min(head.channels as usize);
    assert!((0..channels).all(|channel| still.is(channel) == live.is(channel)));
    // The checksum is as good as drawn.
    let bit = usize::from(u16::from_le_bytes([bytes[56], bytes[57]])) % (bytes.len() * 8);
    let mut bent = bytes.to_vec();
    bent[bit / 8] ^= 1 << (bit % 8);
    assert!(Head::parse(&bent).is_err(), "bit {bit} may change");
    assert!(Head::parse(&bytes[..bit / 8]).is_err(), "{} bytes suffice", bit / 8);
}

fn written(bytes: &[u8]) {
    let Some((numbers, bits)) = bytes.split_at_checked(NUMBERS * 4) else { return };
    let n: Vec<u32> = numbers.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect();
    let [stage, kind, shift, overflows] = n[2].to_le_bytes();
    let head = Head {
        epoch: n[0],
        sequence: n[1],
        stage,
        kind,
        fingerprint: n[3],
        channels: n[4] % CHANNELS,
        payload: u64::from(n[5]) << (shift % 33),
        overflow_at: u64::from(n[6]) << (shift % 33),
        overflow_key: n[7],
        overflow: if overflows % 2 == 0 { 0 } else { n[8] },
        credit: n[9],
        wish: n[6],
    };
    let mut message = vec![0; HEAD + bitmap_bytes(head.channels)];
    message[HEAD..].iter_mut().zip(bits).for_each(|(to, from)| *to = *from);
    let bits = message[HEAD..].to_vec();
    let is_set = |channel: &usize| bits[channel / 8] >> (channel % 8) & 1 == 1;
    let channels = head.channels as usize;
    let live = (0..channels).filter(is_set).count();
    let len = head.emit(live, &mut message).expect("room for a head and its bitmap");
    let stray = len > HEAD && (channels..bits.len() * 8).any(|bit| is_set(&bit));
    match Head::parse(&message[..len]) {
        Ok((same, lives)) => {
            assert!(!stray && u64::from(head.overflow) <= head.payload, "{head:?}");
            assert_eq!(same, head);
            assert!((0..channels).all(|channel| lives.is(channel) == is_set(&channel)));
        }
        Err(error) => {
            assert_eq!(error, HeadError::Impossible);
            assert!(stray || u64::from(head.overflow) > head.payload, "{head:?}");
        }
    }
}
