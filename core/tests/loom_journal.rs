//! All interleavings of a writer that overwrites and its readers, by loom.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p umbra-core --release --test loom_journal`.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]
#![cfg(loom)]

mod interleavings;

use interleavings::check;
use loom::sync::Arc;
use loom::thread;
use umbra_core::atomic::{AtomicU64, Ordering};
use umbra_core::ring::journal::{Journal, Reader, words_for};

fn memory(capacity: usize) -> Arc<Vec<AtomicU64>> {
    let words: Vec<AtomicU64> = (0..words_for(capacity).unwrap()).map(|_| AtomicU64::new(0)).collect();
    Journal::create(&words, capacity).unwrap();
    Arc::new(words)
}

/// Every byte tells its place in the stream, and none is what the memory began with.
fn byte_at(position: u64) -> u8 {
    position as u8 + 1
}

fn append(memory: &[AtomicU64], from: u64, len: u64) {
    let bytes: Vec<u8> = (from..from + len).map(byte_at).collect();
    Journal::attach(memory).unwrap().writer().write(&bytes);
}

/// Reads once: what is returned is whole, and what is not returned is counted.
fn read(reader: &mut Reader<'_>, room: usize) -> usize {
    let mut bytes = vec![0; room];
    let before = reader.position();
    let read = reader.read(&mut bytes);
    let first = before + read.lost;
    assert_eq!(reader.position(), first + read.len as u64, "every byte is returned or lost");
    for (position, byte) in (first..).zip(&bytes[..read.len]) {
        assert_eq!(*byte, byte_at(position), "byte {position} of the stream, {read:?} from {before}");
    }
    read.len
}

// Loom tries a write in the middle of a read only if the writer's turn comes first: so that one is the main thread.

#[test]
fn a_reader_gets_no_byte_that_was_overwritten_meanwhile() {
    check(3, || {
        // One word: every write but the first overwrites.
        let memory = memory(8);
        let reading = thread::spawn({
            let memory = memory.clone();
            move || {
                let mut reader = Journal::attach(&memory).unwrap().reader();
                read(&mut reader, 4);
                read(&mut reader, 8);
                reader.position()
            }
        });
        append(&memory, 0, 5);
        append(&memory, 5, 6);
        assert!(reading.join().unwrap() <= 11);
        let mut reader = Journal::attach(&memory).unwrap().reader();
        while read(&mut reader, 8) > 0 {}
        assert_eq!(reader.position(), 11, "all that was written is known in the end");
    });
}

#[test]
fn a_write_over_more_than_one_word_tears_no_read() {
    check(3, || {
        let memory = memory(16);
        append(&memory, 0, 13);
        let reading = thread::spawn({
            let memory = memory.clone();
            move || read(&mut Journal::attach(&memory).unwrap().reader(), 16)
        });
        append(&memory, 13, 12);
        assert!(reading.join().unwrap() <= 16);
        let mut reader = Journal::attach(&memory).unwrap().reader();
        read(&mut reader, 16);
        assert_eq!(reader.position(), 25);
    });
}

#[test]
fn readers_do_not_disturb_each_other() {
    check(2, || {
        let memory = memory(8);
        append(&memory, 0, 3);
        let reading = [(); 2].map(|()| {
            let memory = memory.clone();
            thread::spawn(move || {
                let mut reader = Journal::attach(&memory).unwrap().reader();
                read(&mut reader, 8);
                read(&mut reader, 8);
            })
        });
        append(&memory, 3, 9);
        for reading in reading {
            reading.join().unwrap();
        }
        let mut reader = Journal::attach(&memory).unwrap().reader();
        read(&mut reader, 8);
        assert_eq!(reader.position(), 12);
    });
}

#[test]
fn nobody_reads_what_a_dead_writer_had_begun_beside_its_successor() {
    check(3, || {
        let memory = memory(8);
        append(&memory, 0, 8);
        // It announced five bytes, and died after three of them.
        memory[16].store(8 + 5, Ordering::Relaxed);
        memory[32].store(u64::from_le_bytes([!0, !0, !0, 4, 5, 6, 7, 8]), Ordering::Relaxed);
        let reading = thread::spawn({
            let memory = memory.clone();
            move || read(&mut Journal::attach(&memory).unwrap().reader(), 8)
        });
        append(&memory, 8, 2);
        assert!(reading.join().unwrap() <= 5);
        let mut reader = Journal::attach(&memory).unwrap().reader();
        assert_eq!(
            (read(&mut reader, 8), reader.position()),
            (5, 10),
            "the three bytes before, and what the successor wrote"
        );
    });
}
