//! Group tables: as snapshot, dump or file, and as the arena that readers map.
//!
//! A forger can compute a checksum as well. So every input is tried twice: as it is, and sealed with the checksum
//! that fits, written here a second time.

use umbra_core::cell::BytesMut;
use umbra_core::endpoints::{Descriptor, Endpoints, JobKey, Reader, Shape, Table, TableBuilder};
use umbra_core::id::{Generation, Id};
use umbra_core::memory::Block;
use umbra_core::peer::{Host, LocalRank, Rank, SpInGroup, WorldRank};
use umbra_core::placement::Placement;

/// A table stored as a formula, one stored rank by rank, and one with two shadows a rank.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    vec![built(1, |rank| rank), built(1, |rank| rank * 7 % 16), built(2, |rank| rank * 5 % 16)]
}

/// What attaches answers every look-up within its own bounds, whoever made it.
pub(super) fn feed(bytes: &[u8]) {
    ask(bytes);
    let mut sealed = bytes.to_vec();
    seal(&mut sealed);
    ask(&sealed);
}

/// An arena with one published group and a free slot.
pub(super) fn arena_seeds() -> Vec<Vec<u8>> {
    let bytes = built(1, |rank| rank * 7 % 16);
    let table = Table::attach(&bytes).expect("the table is sound");
    let mut memory = vec![0_u64; Endpoints::<&[_], Vec<Block>>::words_needed(2, bytes.len())];
    let count = memory.len();
    let words = BytesMut::from_words(&mut memory).words(0, count).expect("the memory is there");
    let mut endpoints = Endpoints::create(words, vec![Block::default(); 8], 2).expect("the memory suffices");
    endpoints.publish(&table, None).expect("there is room for a table");
    vec![memory.iter().flat_map(|word| word.to_le_bytes()).collect()]
}

/// Whatever is in the mapping: no look-up leaves it.
pub(super) fn arena_feed(bytes: &[u8]) {
    let word = |bytes: &[u8]| bytes.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
    let mut memory: Vec<u64> = bytes.chunks_exact(8).filter_map(word).collect();
    let count = memory.len();
    let Ok(words) = BytesMut::from_words(&mut memory).words(0, count) else { return };
    let Ok(reader) = Reader::attach(words) else { return };
    for slot in 0..4 {
        let group = reader.current(slot).unwrap_or_else(|| Id::new(slot, Generation::FIRST));
        for rank in [0, 1, 5, 15, 16, u32::MAX].map(Rank) {
            if let Err(error) = reader.lookup(group, rank) {
                assert!(!error.to_string().is_empty());
            }
        }
        let _ = reader.read(group, |table| (table.size(), table.key()));
        let mut copy = [0; 512];
        if let Ok(Some(length)) = reader.copy_table(group, &mut copy) {
            assert!(length <= copy.len());
        }
    }
    assert!(reader.groups().count() <= count);
}

fn ask(bytes: &[u8]) {
    let table = match Table::attach(bytes) {
        Ok(table) => table,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    assert!(table.bytes().len() <= bytes.len());
    // A formula of a few bytes may rightly stand for millions of ranks.
    for rank in (0..table.size().min(64)).map(Rank) {
        let entry = table.entry(rank).expect("every rank of a table has an entry");
        assert!(!entry.shadows.is_empty() && entry.shadows.len() as u32 <= table.most_shadows());
    }
    for sp in (0..64).map(SpInGroup) {
        let Ok(ranks) = table.ranks_of(sp) else { break };
        assert!(ranks.take(64).all(|rank| rank.0 < table.size()));
    }
    assert!(table.entry(Rank(table.size())).is_err());
}

fn built(shadows: u32, world_rank: fn(u32) -> u32) -> Vec<u8> {
    let job = Placement::one_dpu_a_host(4, 2, shadows).expect("the job is a job");
    let mut buffer = [0; 512];
    let members = (0..16).map(|rank| WorldRank(world_rank(rank)));
    let group = Descriptor::write(3, members, &mut buffer).expect("the group is small");
    let shape = Shape::new(&group, JobKey::new([1; 16]).group(&group), &job);
    let mut builder = TableBuilder::new(vec![0; shape.builder_bytes()], shape).expect("the storage suffices");
    for rank in 0..16 {
        let process = world_rank(rank);
        let entry = job.entry(WorldRank(process), Host(process / 4), LocalRank(process % 4));
        builder.set(Rank(rank), &entry.expect("the job has this rank")).expect("the entry is new");
    }
    builder.finish(Generation::FIRST).expect("no rank is missing").to_vec()
}

/// Writes the checksum of the format over word 1.
fn seal(bytes: &mut [u8]) {
    const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;
    if bytes.len() < 16 {
        return;
    }
    let words = bytes.chunks_exact(8).enumerate().filter(|(at, _)| *at != 1);
    let words: Vec<u64> =
        words.filter_map(|(_, word)| word.first_chunk().map(|word| u64::from_le_bytes(*word))).collect();
    let step = |state: u64, word: &u64| (state.rotate_left(23) ^ word).wrapping_mul(MULTIPLIER);
    let state = (words.iter().fold(MULTIPLIER, step) ^ words.len() as u64).wrapping_mul(MULTIPLIER);
    bytes[8..16].copy_from_slice(&(state ^ state >> 32).to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seal_is_that_of_the_format() {
        for bytes in seeds() {
            let mut sealed = bytes.clone();
            seal(&mut sealed);
            assert_eq!(sealed, bytes);
        }
    }
}
