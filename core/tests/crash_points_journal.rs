//! A writer dies before every single operation on the words of a journal.
//!
//! Its successors go on, and readers that were there, or come later, get bytes that the living wrote, each at its position,
//! and no byte that the dead one wrote and did not end. In the end they have come to the end.
//!
//! Run with `RUSTFLAGS="--cfg crash" cargo test -p umbra-core --test crash_points_journal`.
#![cfg(crash)]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod deaths;
mod random;

use deaths::{before_each, scripts, words};
use random::Random;
use umbra_core::atomic::crash;
use umbra_core::ring::journal::{Journal, Reader, Writer, words_for};

/// Written by the one who dies, and by nobody else.
const DYING: u8 = 0xff;

#[derive(Debug)]
struct Script {
    capacity: usize,
    /// Bytes of the writes before; after some of them somebody reads.
    before: Vec<u64>,
    /// Bytes that the one writes who dies.
    dying: usize,
    /// Bytes of the writes after it, each by another successor.
    after: Vec<u64>,
}

impl Script {
    fn new(random: &mut Random) -> Script {
        let capacity = 8 << random.below(4);
        let lengths = |random: &mut Random, most| (0..random.below(most)).map(|_| random.below(40)).collect();
        let (before, dying) = (lengths(random, 12), 1 + random.index(3 * capacity));
        Script { capacity, before, dying, after: lengths(random, 8) }
    }
}

/// The byte at a position.
fn byte(position: u64) -> u8 {
    (position % 251) as u8
}

/// A living writer writes so many bytes; where it ends.
fn write(writer: &mut Writer<'_>, from: u64, len: u64) -> u64 {
    let bytes: Vec<u8> = (from..from + len).map(byte).collect();
    writer.write(&bytes);
    from + len
}

/// Reads at most so many bytes; how far it comes.
fn read(reader: &mut Reader<'_>, room: usize) -> u64 {
    let (from, mut bytes) = (reader.position(), vec![0; room]);
    let read = reader.read(&mut bytes);
    for (position, &got) in (from + read.lost..).zip(&bytes[..read.len]) {
        assert_eq!(got, byte(position), "at {position}, {read:?} from {from}");
    }
    let far = read.lost + read.len as u64;
    assert_eq!(reader.position(), from + far);
    far
}

#[test]
fn nobody_reads_what_a_dead_writer_had_begun() {
    scripts(20_000, |seed, random| {
        let script = Script::new(random);
        let memory = words(words_for(script.capacity).unwrap());
        before_each(seed, &script, |death| {
            let journal = Journal::create(&memory, script.capacity).unwrap();
            let (mut writer, mut reader, mut end) = (journal.writer(), journal.reader(), 0);
            for &len in &script.before {
                end = write(&mut writer, end, len);
                if len.is_multiple_of(3) {
                    read(&mut reader, 17);
                }
            }
            if crash::before(death, || writer.write(&vec![DYING; script.dying])).is_some() {
                return true;
            }
            if death.is_multiple_of(2) {
                read(&mut reader, 9);
            }
            let mut late = journal.reader();
            for &len in &script.after {
                let mut successor = Journal::attach(&memory).unwrap().writer();
                end = write(&mut successor, end, len);
                if len.is_multiple_of(3) {
                    read(&mut reader, 11);
                }
                if len.is_multiple_of(4) {
                    read(&mut late, 100);
                }
            }
            for mut reader in [reader, late, journal.reader()] {
                while read(&mut reader, 13) > 0 {}
                assert_eq!(reader.position(), end);
            }
            false
        })
    });
}
