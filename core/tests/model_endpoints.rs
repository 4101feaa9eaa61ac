//! Every look-up against brute force, over random jobs and groups.
#![allow(clippy::unwrap_used, missing_docs)]

mod oracle;

use oracle::{Oracle, builder, shape, table_bytes, world};
use proptest::prelude::*;
use umbra_core::atomic::AtomicU64;
use umbra_core::endpoints::{Cursor, Endpoints, Entry, EntryRun, Reader, Table, TableBuilder};
use umbra_core::id::Generation;
use umbra_core::memory::Block;
use umbra_core::peer::{Host, Rank};
use umbra_core::placement::Placement;

/// A job and a group in it.
#[derive(Clone, Debug)]
struct Case {
    hosts: u32,
    host_of_dpu: Vec<Host>,
    per_dpu: u32,
    shadows: u32,
    entries: Vec<Entry>,
}

impl Case {
    fn with_job<R>(&self, f: impl FnOnce(&Placement<'_>) -> R) -> R {
        let mut storage = vec![0; Placement::words_needed(self.hosts, self.host_of_dpu.len())];
        let job = Placement::listed(&mut storage, self.hosts, &self.host_of_dpu, self.per_dpu, self.shadows);
        f(&job.unwrap())
    }
}

#[derive(Clone, Debug)]
enum Pick {
    All,
    Stride(usize, usize),
    Some(Vec<prop::sample::Index>),
}

fn pick() -> impl Strategy<Value = Pick> {
    prop_oneof![
        Just(Pick::All),
        (0..8_usize, 1..9_usize).prop_map(|(from, step)| Pick::Stride(from, step)),
        prop::collection::vec(any::<prop::sample::Index>(), 1..24).prop_map(Pick::Some),
    ]
}

fn case() -> impl Strategy<Value = Case> {
    let job = (1..7_u32, 1..7_u32).prop_flat_map(|(hosts, per_dpu)| {
        let further = prop::collection::vec((0..hosts).prop_map(Host), 0..4);
        let on_host = prop_oneof![
            prop::collection::vec(0..9_u32, hosts as usize),
            (1..9_u32).prop_map(move |n| vec![n; hosts as usize]),
        ];
        (Just(hosts), Just(per_dpu), 1..=per_dpu, any::<bool>(), further, on_host, any::<bool>(), pick(), any::<u64>())
    });
    job.prop_filter_map("no rank", |(hosts, per_dpu, shadows, shuffled, mut further, on_host, cyclic, pick, seed)| {
        let mut host_of_dpu: Vec<Host> = (0..hosts).map(Host).collect();
        if shuffled {
            host_of_dpu.append(&mut further);
            // A little shuffle that shrinks with the seed.
            for at in 1..host_of_dpu.len() {
                host_of_dpu.swap(at, seed.rotate_right(at as u32 * 5) as usize % (at + 1));
            }
        }
        let mut case = Case { hosts, host_of_dpu, per_dpu, shadows, entries: Vec::new() };
        let all = case.with_job(|job| world(job, &on_host, cyclic));
        if all.is_empty() {
            return None;
        }
        let mut ranks: Vec<usize> = match pick {
            Pick::All => (0..all.len()).collect(),
            Pick::Stride(from, step) => (from % all.len()..all.len()).step_by(step).collect(),
            Pick::Some(picks) => picks.iter().map(|pick| pick.index(all.len())).collect(),
        };
        let mut seen = std::collections::BTreeSet::new();
        ranks.retain(|rank| seen.insert(*rank));
        case.entries = ranks.into_iter().map(|rank| all[rank].clone()).collect();
        Some(case)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn s15_every_look_up_equals_brute_force(case in case()) {
        let bytes = table_bytes(&case.entries, case.per_dpu, 3);
        let oracle = Oracle { entries: case.entries.clone(), per_dpu: case.per_dpu };
        let table = Table::attach(&bytes).unwrap();
        oracle.compare(&table);
        // The same in an arena: hot look-up and reading.
        let words: Vec<_> =
            (0..Endpoints::<&[AtomicU64], Vec<Block>>::words_needed(2, bytes.len())).map(|_| AtomicU64::new(7)).collect();
        let mut endpoints = Endpoints::create(&words[..], vec![Block::default(); 5], 2).unwrap();
        let handle = endpoints.publish(&table, Some(1)).unwrap();
        prop_assert_eq!(handle.index(), 1);
        let reader = Reader::attach(&words).unwrap();
        reader.read(handle, |live| oracle.compare(live)).unwrap();
        for rank in (0..case.entries.len() as u32).map(Rank) {
            prop_assert_eq!(reader.lookup(handle, rank), table.endpoint(rank));
        }
        let ranks: Vec<_> = (0..case.entries.len() as u32).rev().map(Rank).collect();
        let mut found = vec![table.endpoint(Rank(0)).unwrap(); ranks.len()];
        prop_assert_eq!(reader.lookup_all(handle, &ranks, &mut found), Ok(ranks.len()));
        for (&rank, &found) in ranks.iter().zip(&found) {
            prop_assert_eq!(Ok(found), table.endpoint(rank));
        }
        let mut copy = vec![0; bytes.len()];
        prop_assert_eq!(reader.copy_table(handle, &mut copy), Ok(Some(bytes.len())));
        prop_assert_eq!(&copy, &bytes);
        prop_assert_eq!(reader.find(table.key()), Ok(handle));
    }

    #[test]
    fn order_and_repetition_of_entries_leave_no_trace(case in case(), picks in prop::collection::vec(any::<u16>(), 64)) {
        let expected = table_bytes(&case.entries, case.per_dpu, 3);
        let shape = shape(&case.entries, case.per_dpu, 3);
        let mut builder = TableBuilder::new(vec![0xa5; shape.builder_bytes()], shape).unwrap();
        for pick in picks {
            let at = usize::from(pick) % case.entries.len();
            let rank = Rank(at as u32);
            let new = !builder.is_set(rank);
            prop_assert_eq!(builder.set(rank, &case.entries[at]), Ok(new));
        }
        for rank in builder.missing().collect::<Vec<_>>() {
            prop_assert_eq!(builder.set(rank, &case.entries[rank.index()]), Ok(true));
        }
        prop_assert_eq!(builder.count() as usize, case.entries.len());
        prop_assert_eq!(builder.finish(Generation::FIRST).unwrap(), &expected[..]);
    }

    #[test]
    fn runs_carry_every_entry_and_merging_is_a_union(case in case(), split in any::<u32>(), room in 0_usize..80) {
        let shape = shape(&case.entries, case.per_dpu, 3);
        let mut whole = builder(&case.entries, case.per_dpu, 3);
        let mut heard = TableBuilder::new(vec![0x5a; shape.builder_bytes()], shape).unwrap();
        let mut messages = Vec::new();
        for part in [0, 1] {
            let mut cursor = Cursor::default();
            while !cursor.is_done() {
                let mut buffer = vec![0; EntryRun::BYTES_MAX + room];
                let keep = |rank: Rank| (split >> (rank.0 % 32)) & 1 == part;
                let len = whole.write_runs(&mut cursor, &mut buffer, keep);
                prop_assert!(len > 0 || cursor.is_done());
                buffer.truncate(len);
                messages.push(buffer);
            }
        }
        messages.reverse();
        let mut added = 0;
        case.with_job(|job| {
            for message in &messages {
                added += heard.merge_runs(message, job).unwrap();
                assert_eq!(heard.merge_runs(message, job), Ok(0));
            }
        });
        prop_assert_eq!(added as usize, case.entries.len());
        prop_assert_eq!(heard.finish(Generation::FIRST), whole.finish(Generation::FIRST));
    }
}
