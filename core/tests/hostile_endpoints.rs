//! Bytes from another process: refused, or as good as our own.
#![allow(clippy::unwrap_used, missing_docs)]

mod oracle;

use oracle::{Oracle, entry, table_bytes, world};
use proptest::prelude::*;
use umbra_core::atomic::{AtomicU64, Ordering};
use umbra_core::codec::{Reader as Bytes, Writer};
use umbra_core::endpoints::{
    Cursor, Descriptor, Endpoints, Entry, EntryRun, MergeError, Reader, RunError, Table, TableBuilder,
};
use umbra_core::id::{Generation, Id};
use umbra_core::memory::Block;
use umbra_core::peer::{Rank, WorldRank};
use umbra_core::placement::Placement;

/// The checksum of the format, written a second time: a forger can compute it as well.
fn seal(bytes: &mut [u8]) {
    const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;
    let words = bytes.chunks_exact(8).enumerate().filter(|(at, _)| *at != 1);
    let words: Vec<u64> = words.map(|(_, word)| u64::from_le_bytes(word.try_into().unwrap())).collect();
    let step = |state: u64, word: &u64| (state.rotate_left(23) ^ word).wrapping_mul(MULTIPLIER);
    let state = (words.iter().fold(MULTIPLIER, step) ^ words.len() as u64).wrapping_mul(MULTIPLIER);
    bytes[8..16].copy_from_slice(&(state ^ state >> 32).to_le_bytes());
}

fn tables() -> Vec<Vec<u8>> {
    let job = Placement::one_dpu_a_host(4, 2, 1).unwrap();
    let block = world(&job, &[8; 4], false);
    let cyclic = world(&job, &[3; 4], true);
    let sparse: Vec<Entry> = [31, 24, 30, 7, 2, 26, 25, 0].into_iter().map(|rank: usize| block[rank].clone()).collect();
    let shadows = [
        entry(0, 0, &[0, 1, 2]),
        entry(1, 0, &[2]),
        entry(2, 1, &[5, 3]),
        entry(3, 1, &[4]),
        entry(4, 0, &[1, 0]),
        entry(9, 5, &[16]),
    ];
    vec![
        table_bytes(&block, 2, 1),
        table_bytes(&cyclic, 2, 2),
        table_bytes(&sparse, 2, 3),
        table_bytes(&shadows, 3, 4),
        table_bytes(&[entry(5, 2, &[1])], 1, 5),
    ]
}

#[test]
fn the_seal_of_this_test_is_that_of_the_format() {
    for bytes in tables() {
        let mut sealed = bytes.clone();
        seal(&mut sealed);
        assert_eq!(sealed, bytes);
    }
}

/// What is accepted answers like the entries that it holds.
fn accepted_tables_are_consistent(bytes: &[u8]) -> bool {
    let Ok(table) = Table::attach(bytes) else { return false };
    let entries = (0..table.size()).map(|rank| table.entry(Rank(rank)).unwrap()).collect();
    Oracle { entries, per_dpu: table.service_processes_per_dpu() }.compare(&table);
    true
}

#[test]
fn every_forged_32_bit_field_is_refused_or_consistent() {
    let mut refused = 0;
    for bytes in tables() {
        for at in (0..bytes.len()).step_by(4) {
            let field = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
            let values = [0, 1, 2, 3, field.wrapping_add(1), field.wrapping_sub(1), 64, 65, 1 << 23, 1 << 31, u32::MAX];
            for value in values {
                let mut forged = bytes.clone();
                forged[at..at + 4].copy_from_slice(&value.to_le_bytes());
                seal(&mut forged);
                refused += u32::from(!accepted_tables_are_consistent(&forged));
            }
        }
    }
    assert!(refused > 1000, "{refused}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn forged_tables_are_refused_or_consistent(
        which in 0..5_usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), 0..80_u32), 1..5),
        swap in any::<Option<(prop::sample::Index, prop::sample::Index)>>(),
    ) {
        let mut bytes = tables().swap_remove(which);
        let fields = bytes.len() / 4;
        for (at, value) in changes {
            let at = at.index(fields) * 4;
            bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        if let Some((a, b)) = swap {
            let (a, b) = (a.index(fields) * 4, b.index(fields) * 4);
            (0..4).for_each(|byte| bytes.swap(a + byte, b + byte));
        }
        seal(&mut bytes);
        accepted_tables_are_consistent(&bytes);
    }

    #[test]
    fn s22_random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(Table::attach(&bytes).is_err());
        let _ = Descriptor::parse(&bytes);
        let mut reader = Bytes::new(&bytes);
        while EntryRun::parse(&mut reader).is_ok() {}
    }

    #[test]
    fn a_descriptor_that_is_accepted_is_the_one_that_its_members_give(
        runs in prop::collection::vec((0..40_u32, 0..60_u32, -3..4_i32), 1..6), size in 1..50_u32, lead in 0..60_u32,
        flags in 0..3_u8,
    ) {
        let mut bytes = vec![0; 20 + runs.len() * 12];
        let mut w = Writer::new(&mut bytes);
        for field in [1 | u32::from(flags) << 8, 7, lead, size, runs.len() as u32] {
            w.u32(field).unwrap();
        }
        for &(start, first, stride) in &runs {
            [start, first, stride.cast_unsigned()].into_iter().for_each(|field| w.u32(field).unwrap());
        }
        if let Ok(group) = Descriptor::parse(&bytes) {
            let members: Vec<WorldRank> = group.members().iter().collect();
            prop_assert_eq!(members.len(), group.size() as usize);
            let mut again = vec![0; Descriptor::bytes_needed(group.size())];
            let again = match group.is_world() {
                true => Descriptor::write_world(7, group.size(), &mut again),
                false => Descriptor::write(7, members, &mut again),
            };
            prop_assert_eq!(again.map(|group| group.bytes().to_vec()), Ok(bytes));
        }
    }

    #[test]
    fn a_descriptor_survives_the_wire_and_answers_like_its_list(members in prop::collection::vec(0..300_u32, 1..60)) {
        let mut seen = std::collections::BTreeSet::new();
        let distinct = members.iter().all(|member| seen.insert(*member));
        let mut bytes = vec![0; Descriptor::bytes_needed(members.len() as u32)];
        let Ok(group) = Descriptor::write(4, members.iter().map(|&rank| WorldRank(rank)), &mut bytes) else {
            prop_assert!(!distinct);
            return Ok(());
        };
        prop_assert_eq!(group.check_distinct(&mut [u64::MAX; 5]).is_ok(), distinct);
        prop_assert_eq!(Descriptor::parse(group.bytes()), Ok(group));
        for (rank, &world) in (0..).map(Rank).zip(&members) {
            prop_assert_eq!(group.world_rank_of(rank), Some(WorldRank(world)));
        }
        prop_assert_eq!(group.world_rank_of(Rank(members.len() as u32)), None);
        for world in 0..310 {
            let expected = members.iter().position(|&member| member == world).map(|at| Rank(at as u32));
            prop_assert_eq!(group.rank_of(WorldRank(world)), expected);
            prop_assert_eq!(group.contains(WorldRank(world)), expected.is_some());
        }
        for len in 0..group.bytes().len() {
            prop_assert!(Descriptor::parse(&group.bytes()[..len]).is_err());
        }
    }

    #[test]
    fn a_run_that_is_accepted_is_written_the_same(bytes in prop::collection::vec(0..5_u8, 9..40)) {
        let mut reader = Bytes::new(&bytes);
        if let Ok(run) = EntryRun::parse(&mut reader) {
            let taken = bytes.len() - reader.rest().len();
            let mut again = [0; EntryRun::BYTES_MAX];
            let mut w = Writer::new(&mut again);
            run.emit(&mut w).unwrap();
            prop_assert_eq!(w.len(), taken);
            prop_assert_eq!(&again[..taken], &bytes[..taken]);
        }
    }

    #[test]
    fn an_arena_written_by_a_liar_makes_no_reader_fault_or_hang(
        changes in prop::collection::vec((any::<prop::sample::Index>(), prop_oneof![any::<u64>(), 0..70_u64]), 1..12),
    ) {
        let words: Vec<_> = (0..Endpoints::<&[AtomicU64], Vec<Block>>::words_needed(6, 4096)).map(|_| AtomicU64::new(0)).collect();
        let mut endpoints = Endpoints::create(&words[..], vec![Block::default(); 13], 6).unwrap();
        let tables = tables();
        let tables: Vec<_> = tables.iter().map(|bytes| Table::attach(bytes).unwrap()).collect();
        let handles: Vec<_> = tables.iter().map(|table| endpoints.publish(table, None).unwrap()).collect();
        for (at, value) in changes {
            at.get(&words).store(value, Ordering::Relaxed);
        }
        let Ok(reader) = Reader::attach(&words) else { return Ok(()) };
        let listed: Vec<Id<_>> = reader.groups().map(|group| group.handle).collect();
        for handle in handles.iter().chain(&listed) {
            for rank in [0, 1, 7, 31, 32, 1 << 23, u32::MAX].map(Rank) {
                let _ = reader.lookup(*handle, rank);
            }
            let _ = reader.read(*handle, |table| {
                let sps = table.involved().take(100).filter_map(|sp| table.index_of(sp).ok());
                let ranks: usize = sps.map(|sp| table.ranks_of(sp).map_or(0, |ranks| ranks.take(100).count())).sum();
                let hosts = table.hosts().take(100).filter_map(|host| table.host_index(host).ok());
                let on: usize = hosts.map(|host| table.ranks_on(host).map_or(0, |ranks| ranks.take(100).count())).sum();
                let rows = (0..table.size().min(100)).map(Rank);
                rows.filter(|&rank| table.entry(rank).is_ok() && table.index_on_host(rank).is_ok()).count() + ranks + on
            });
        }
        for table in &tables {
            let _ = reader.find(table.key());
            let _ = endpoints.publish(table, Some(0));
        }
        for handle in handles {
            let _ = endpoints.retire(handle);
        }
    }
}

#[test]
fn what_comes_to_be_known_while_runs_are_written_is_written_too() {
    let job = Placement::one_dpu_a_host(4, 2, 1).unwrap();
    let entries = world(&job, &[32; 4], false);
    let shape = oracle::shape(&entries, 2, 1);
    let keep = |rank: Rank| rank.0 * rank.0 % 7 < 3;
    let kept = (0..128).map(Rank).filter(|&rank| keep(rank)).count();
    // Behind what is written by then, at the end, and on both sides.
    for late in [0..8, 120..128, 8..100] {
        let mut builder = TableBuilder::new(vec![0; shape.builder_bytes()], shape).unwrap();
        let mut heard = TableBuilder::new(vec![0; shape.builder_bytes()], shape).unwrap();
        for rank in (0..128).filter(|rank| !late.contains(rank)).map(Rank) {
            builder.set(rank, &entries[rank.index()]).unwrap();
        }
        let mut cursor = Cursor::default();
        while !cursor.is_done() {
            let mut message = vec![0; EntryRun::BYTES_MAX];
            let len = builder.write_runs(&mut cursor, &mut message, keep);
            heard.merge_runs(&message[..len], &job).unwrap();
            assert!(builder.is_set(Rank(late.start)) || !cursor.is_done());
            for rank in late.clone().map(Rank) {
                builder.set(rank, &entries[rank.index()]).unwrap();
            }
        }
        assert_eq!(heard.present().count(), kept, "late were {late:?}");
    }
}

#[test]
fn a_message_that_contradicts_itself_or_the_job_changes_nothing() {
    let job = Placement::one_dpu_a_host(4, 2, 1).unwrap();
    let entries = world(&job, &[8; 4], false);
    let shape = oracle::shape(&entries, 2, 1);
    let mut full = oracle::builder(&entries, 2, 1);
    let mut message = vec![0; 1024];
    let len = full.write_runs(&mut Cursor::default(), &mut message, |rank| rank.0 < 16);
    message.truncate(len);
    let mut builder = TableBuilder::new(vec![0; shape.builder_bytes()], shape).unwrap();

    let twice = [&message[..], &message[..]].concat();
    assert_eq!(builder.merge_runs(&twice, &job), Err(MergeError::Run(RunError::Repeated)));
    assert_eq!(builder.count(), 0);
    for len in 0..message.len() {
        // A prefix of whole runs is a shorter message; anything else is refused as a whole.
        let before = builder.count();
        if builder.merge_runs(&message[..len], &job).is_err() {
            assert_eq!(builder.count(), before);
        }
    }
    let small = Placement::one_dpu_a_host(1, 2, 1).unwrap();
    let mut fresh = TableBuilder::new(vec![0; shape.builder_bytes()], shape).unwrap();
    assert!(matches!(fresh.merge_runs(&message, &small), Err(MergeError::Misplaced(_))));
    assert_eq!(fresh.count(), 0);
    assert_eq!(fresh.merge_runs(&message, &job), Ok(16));
    assert!(fresh.finish(Generation::FIRST).is_err());
}
