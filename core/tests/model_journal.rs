//! The journal against a plain vector of all that was ever written.
//!
//! Journals whose words are nonsense are read as well.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use proptest::prelude::*;
use umbra_core::atomic::Ordering;
use umbra_core::cell::BytesMut;
use umbra_core::ring::journal::{Journal, Read, Reader, words_for};

#[derive(Clone, Debug)]
enum Step {
    Write(usize),
    /// By one of the readers, into a buffer of this length.
    Read(usize, usize),
    /// A reader begins anew, with the oldest byte that is kept.
    Reader(usize),
    /// Another process goes on writing.
    Writer,
}

const READERS: usize = 3;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0usize..40).prop_map(Step::Write),
        5 => (0..READERS, 0usize..80).prop_map(|(who, room)| Step::Read(who, room)),
        1 => (0..READERS).prop_map(Step::Reader),
        1 => Just(Step::Writer),
    ];
    prop::collection::vec(step, 1..300)
}

/// What a reader at `position` gets, by the plain model, and how many bytes it lost.
fn expected(all: &[u8], capacity: usize, position: usize, room: usize) -> (&[u8], u64) {
    let oldest = position.max(all.len().saturating_sub(capacity));
    (&all[oldest..all.len().min(oldest + room)], (oldest - position) as u64)
}

proptest! {
    #[test]
    fn readers_get_what_was_written_in_order_and_are_told_what_they_lost(log in 3u32..7, steps in steps()) {
        let capacity = 1 << log;
        let count = words_for(capacity).unwrap();
        let mut memory = vec![0_u64; count];
        let words = BytesMut::from_words(&mut memory).words(0, count).unwrap();
        let mut writer = Journal::create(words, capacity).unwrap().writer();
        let journal = Journal::attach(words).unwrap();
        let mut readers: [Reader<'_>; READERS] = std::array::from_fn(|_| journal.reader());
        let mut positions = [0; READERS];
        let mut all: Vec<u8> = Vec::new();
        for step in steps {
            match step {
                Step::Write(len) => {
                    // No period that divides the capacity, so that bytes of different laps differ.
                    let bytes: Vec<u8> = (all.len()..all.len() + len).map(|n| (n % 251) as u8).collect();
                    writer.write(&bytes);
                    all.extend(bytes);
                }
                Step::Read(who, room) => {
                    let (bytes, lost) = expected(&all, capacity, positions[who], room);
                    let mut buffer = vec![0; room];
                    let read = readers[who].read(&mut buffer);
                    prop_assert_eq!((&buffer[..read.len], read.lost), (bytes, lost));
                    positions[who] += bytes.len() + lost as usize;
                    prop_assert_eq!(readers[who].position(), positions[who] as u64);
                }
                Step::Reader(who) => {
                    readers[who] = journal.reader();
                    positions[who] = all.len().saturating_sub(capacity);
                }
                Step::Writer => writer = Journal::attach(words).unwrap().writer(),
            }
        }
    }

    #[test]
    fn a_writer_that_announces_nonsense_makes_readers_lose_bytes_and_nothing_worse(
        positions in prop::collection::vec((nonsense(), nonsense()), 1..8),
        room in 0usize..80,
    ) {
        let count = words_for(64).unwrap();
        let mut memory = vec![0_u64; count];
        let bytes = BytesMut::from_words(&mut memory);
        let words = bytes.words(0, count).unwrap();
        let journal = Journal::create(words, 64).unwrap();
        let mut reader = journal.reader();
        for (announced, written) in positions {
            words[16].store(announced, Ordering::Relaxed);
            words[17].store(written, Ordering::Relaxed);
            let mut buffer = vec![0; room];
            let read = reader.read(&mut buffer);
            prop_assert!(read.len <= room.min(64));
            prop_assert!(reader.position() <= written);
            journal.reader().read(&mut buffer);
        }
    }

    #[test]
    fn words_that_are_no_journal_are_refused(words in prop::collection::vec(nonsense(), 0..48), magic in any::<bool>()) {
        let mut memory = words;
        if let (true, Some(first)) = (magic, memory.first_mut()) {
            *first = u64::from_le_bytes(*b"umbrjrn1");
        }
        let (first, stated, count) = (memory.first().copied(), memory.get(1).copied(), memory.len());
        let bytes = BytesMut::from_words(&mut memory);
        let attached = Journal::attach(bytes.words(0, count).unwrap());
        let fits = stated.and_then(|n| words_for(usize::try_from(n).ok()?)).is_some_and(|needed| needed <= count);
        let is_one = first == Some(u64::from_le_bytes(*b"umbrjrn1")) && count >= 32 && fits;
        prop_assert_eq!(attached.is_ok(), is_one);
    }
}

#[test]
fn a_stream_at_the_end_of_its_range_is_read_to_the_end() {
    let count = words_for(8).unwrap();
    let mut memory = vec![0_u64; count];
    let bytes = BytesMut::from_words(&mut memory);
    let words = bytes.words(0, count).unwrap();
    let journal = Journal::create(words, 8).unwrap();
    let mut reader = journal.reader();
    words[16].store(u64::MAX, Ordering::Relaxed);
    words[17].store(u64::MAX, Ordering::Relaxed);
    assert_eq!(reader.read(&mut [0; 16]), Read { len: 8, lost: u64::MAX - 8 });
    assert_eq!(reader.read(&mut [0; 16]), Read::default());
}

#[test]
fn what_a_dead_writer_had_begun_is_not_read_of_its_successor() {
    let count = words_for(64).unwrap();
    for (announced, lost) in [(64 + 20, 20), (64 + 64, 64), (64 + 1000, 64)] {
        let mut memory = vec![0_u64; count];
        let words = BytesMut::from_words(&mut memory).words(0, count).unwrap();
        let journal = Journal::create(words, 64).unwrap();
        let written: Vec<u8> = (0..64).collect();
        journal.writer().write(&written);
        // It announces more, and dies with eight bytes of that written.
        words[16].store(announced, Ordering::Relaxed);
        words[32].store(u64::MAX, Ordering::Relaxed);
        let (mut reader, mut late, mut buffer) = (journal.reader(), journal.reader(), [0; 80]);
        let mut writer = Journal::attach(words).unwrap().writer();
        writer.write(b"next");
        let read = reader.read(&mut buffer);
        assert_eq!((&buffer[..read.len], read.lost), (&[&written[lost..], b"next"].concat()[..], lost as u64));
        writer.write(&[7; 9]);
        assert_eq!((reader.read(&mut buffer), buffer[..9] == [7; 9]), (Read { len: 9, lost: 0 }, true));
        let read = late.read(&mut buffer);
        assert_eq!((&buffer[..read.len], read.lost), (&[&written[lost..], b"next", &[7; 9]].concat()[..], lost as u64));
    }
}

/// Numbers of which many are small, powers of two, or near the end of the range.
fn nonsense() -> impl Strategy<Value = u64> {
    prop_oneof![0u64..100, (0u32..64).prop_map(|n| 1 << n), (0u64..100).prop_map(|n| u64::MAX - n), any::<u64>()]
}
