//! The endpoint cache as users meet it: tables, handles, sub-groups, generations.
#![allow(clippy::unwrap_used, missing_docs)]

mod oracle;

use oracle::{KEY, Oracle, builder, entry, shape, table_bytes, world};
use umbra_core::atomic::AtomicU64;
use umbra_core::endpoints::{
    BuildError, Descriptor, Difference, Endpoint, Endpoints, Entry, LookupError, PublishError, Reader, SetError, Table,
    TableBuilder, TableError,
};
use umbra_core::id::{Generation, Id};
use umbra_core::memory::Block;
use umbra_core::peer::{Host, HostInGroup, Incarnation, Peer, Rank, Sp, SpInGroup, SpLid, SpOnHostInGroup, WorldRank};
use umbra_core::placement::Placement;

type Arena = Endpoints<Vec<AtomicU64>, Vec<Block>>;

fn arena(slots: u32, table_bytes: usize) -> Arena {
    let words = (0..Arena::words_needed(slots, table_bytes)).map(|_| AtomicU64::new(u64::MAX)).collect();
    Endpoints::create(words, vec![Block::default(); slots as usize * 2 + 1], slots).unwrap()
}

/// Four hosts with one DPU each, two service processes a DPU, eight ranks a host.
fn job() -> Placement<'static> {
    Placement::one_dpu_a_host(4, 2, 1).unwrap()
}

fn members(world: &[Entry], ranks: &[usize]) -> Vec<Entry> {
    ranks.iter().map(|&rank| world[rank].clone()).collect()
}

#[test]
fn s09_subgroup_on_service_processes_6_and_7() {
    let world = world(&job(), &[8; 4], false);
    // Once regular, once not: both forms of the table.
    for ranks in [vec![24, 25, 26, 27], vec![31, 24, 30, 26, 25]] {
        let entries = members(&world, &ranks);
        let bytes = table_bytes(&entries, 2, 1);
        let table = Table::attach(&bytes).unwrap();
        assert_eq!(table.is_affine(), ranks.len() == 4);
        assert_eq!(table.involved().collect::<Vec<_>>(), [Sp(6), Sp(7)]);
        for (sp, number) in [(Sp(6), 0), (Sp(7), 1)] {
            assert_eq!(table.index_of(sp), Ok(SpInGroup(number)));
            assert_eq!(table.service_process(SpInGroup(number)), Ok(sp));
            assert_eq!(table.index_among_host(SpInGroup(number)), Ok(SpOnHostInGroup(number)));
            assert_eq!(table.nth_involved_on(HostInGroup(0), SpOnHostInGroup(number)), Ok(SpInGroup(number)));
            assert_eq!(table.lid_of(sp), SpLid(number));
        }
        assert_eq!(table.index_of(Sp(0)), Err(LookupError::NotInvolved(Sp(0))));
        assert_eq!(table.index_of(Sp(8)), Err(LookupError::NotInvolved(Sp(8))));
        assert_eq!(table.service_process(SpInGroup(2)), Err(LookupError::SpOutOfRange(SpInGroup(2))));
        Oracle { entries, per_dpu: 2 }.compare(&table);
    }
}

#[test]
fn s10_two_ranks_on_service_processes_1000_and_1001() {
    // One host with both, or two hosts with four service processes each and a DPU order that is not the hosts'.
    for entries in
        [[entry(4001, 250, &[1000]), entry(4002, 250, &[1001])], [entry(4001, 9, &[1000]), entry(4002, 3, &[1001])]]
    {
        let bytes = table_bytes(&entries, 4, 9);
        let table = Table::attach(&bytes).unwrap();
        assert!(table.len_bytes() <= 256, "{} bytes for two ranks", table.len_bytes());
        Oracle { entries: entries.to_vec(), per_dpu: 4 }.compare(&table);
    }
}

#[test]
fn s11_an_unknown_group_is_said_to_be_unknown_and_nothing_is_created() {
    let endpoints = arena(4, 4096);
    let reader = endpoints.reader().unwrap();
    let unknown = Some(LookupError::UnknownGroup);
    for handle in [Id::new(0, Generation::FIRST), Id::new(3, Generation::NEVER), Id::new(4, Generation::FIRST)] {
        assert_eq!(reader.lookup(handle, Rank(0)).err(), unknown);
        assert_eq!(reader.lookup_all(handle, &[Rank(0)], &mut [Endpoint::default()]).err(), unknown);
        assert_eq!(reader.read(handle, Table::size).err(), unknown);
        assert_eq!(reader.is_ready(handle).err(), unknown);
        assert_eq!(reader.knows(handle, Rank(0)).err(), unknown);
        assert_eq!(reader.copy_table(handle, &mut []).err(), unknown);
    }
    let bytes = table_bytes(&[entry(0, 0, &[0])], 1, 1);
    assert_eq!(reader.find(Table::attach(&bytes).unwrap().key()).err(), unknown);
    assert_eq!(reader.groups().count(), 0);
    assert_eq!(endpoints.live(), 0);
}

#[test]
fn s12_ranks_beyond_the_group_are_out_of_range() {
    let world = world(&job(), &[8; 4], false);
    let mut endpoints = arena(4, 1 << 16);
    for ranks in [(0..32).collect::<Vec<_>>(), vec![5, 3, 17]] {
        let bytes = table_bytes(&members(&world, &ranks), 2, ranks.len() as u32);
        let table = Table::attach(&bytes).unwrap();
        let handle = endpoints.publish(&table, None).unwrap();
        let reader = endpoints.reader().unwrap();
        let size = ranks.len() as u32;
        // On the wire -1 is 2^32 - 1.
        for rank in [size, size + 1, 1 << 31, (-1_i32).cast_unsigned()].map(Rank) {
            assert_eq!(reader.lookup(handle, rank), Err(LookupError::RankOutOfRange { rank, size }));
            assert_eq!(reader.knows(handle, rank), Ok(false));
            let mut found = [Endpoint::default(); 3];
            let all = reader.lookup_all(handle, &[Rank(0), rank, Rank(size)], &mut found);
            assert_eq!(all, Err(LookupError::RankOutOfRange { rank, size }), "of the first that is refused");
            let asked = reader.ask(handle, |table| table.shadow(rank, 0));
            assert_eq!(asked, Err(LookupError::RankOutOfRange { rank, size }));
        }
        assert_eq!(reader.knows(handle, Rank(size - 1)), Ok(true));
    }
}

#[test]
fn s13_hosts_3_and_7_of_16_have_indices_0_and_1_in_configuration_order() {
    let job = Placement::one_dpu_a_host(16, 2, 1).unwrap();
    let world = world(&job, &[4; 16], false);
    // Ranks of host 7 come first in the group; the hosts' order is the configuration's all the same.
    let entries = members(&world, &[31, 14, 28, 12, 13]);
    let bytes = table_bytes(&entries, 2, 1);
    let table = Table::attach(&bytes).unwrap();
    assert_eq!(table.hosts().collect::<Vec<_>>(), [Host(3), Host(7)]);
    assert_eq!(table.host_index(Host(3)), Ok(HostInGroup(0)));
    assert_eq!(table.host_index(Host(7)), Ok(HostInGroup(1)));
    assert_eq!(table.host_index(Host(4)), Err(LookupError::HostNotInvolved(Host(4))));
    assert_eq!(table.ranks_on(HostInGroup(0)).unwrap().collect::<Vec<_>>(), [1, 3, 4].map(Rank));
    assert_eq!(table.ranks_on(HostInGroup(1)).unwrap().collect::<Vec<_>>(), [0, 2].map(Rank));
    let sum: u32 = (0..2).map(|host| table.rank_count_on(HostInGroup(host)).unwrap()).sum();
    assert_eq!(sum, table.size());
    Oracle { entries, per_dpu: 2 }.compare(&table);
}

#[test]
fn s14_with_two_shadows_a_host_counts_ranks_and_not_shadows() {
    let job = Placement::one_dpu_a_host(2, 2, 2).unwrap();
    let world = world(&job, &[2; 2], false);
    for ranks in [vec![0, 1, 2, 3], vec![3, 0, 1]] {
        let entries = members(&world, &ranks);
        let bytes = table_bytes(&entries, 2, 1);
        let table = Table::attach(&bytes).unwrap();
        let host_0 = ranks.iter().filter(|&&rank| rank < 2).count() as u32;
        assert_eq!(table.rank_count_on(HostInGroup(0)), Ok(host_0));
        // In the order given: local rank 1 has lid 1 first, then lid 0.
        let rank = Rank(ranks.iter().position(|&rank| rank == 1).unwrap() as u32);
        assert_eq!(table.shadow(rank, 0), Ok(Sp(1)));
        assert_eq!(table.shadow(rank, 1), Ok(Sp(0)));
        assert_eq!(table.shadow(rank, 2), Err(LookupError::SpIndexOutOfRange { index: 2, count: 2 }));
        Oracle { entries, per_dpu: 2 }.compare(&table);
    }
}

#[test]
fn a_rank_may_have_fewer_shadows_than_another() {
    let entries =
        [entry(0, 0, &[0, 1, 2]), entry(1, 0, &[2]), entry(2, 1, &[5, 3]), entry(3, 1, &[4]), entry(4, 0, &[1, 0])];
    let bytes = table_bytes(&entries, 3, 1);
    Oracle { entries: entries.to_vec(), per_dpu: 3 }.compare(&Table::attach(&bytes).unwrap());
}

/// FNV-1a: a digest that is written down in one line and needs no package.
fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

#[test]
fn s16_canonical_bytes_are_pinned() {
    let mut buffer = [0; 256];
    let group = Descriptor::write(0x0102_0304, [9, 7, 5, 3, 20, 21].map(WorldRank), &mut buffer).unwrap();
    #[rustfmt::skip]
    assert_eq!(group.bytes(), [
        1, 0, 0, 0, 4, 3, 2, 1, 9, 0, 0, 0, 6, 0, 0, 0, 2, 0, 0, 0,
        0, 0, 0, 0, 9, 0, 0, 0, 0xfe, 0xff, 0xff, 0xff,
        4, 0, 0, 0, 20, 0, 0, 0, 1, 0, 0, 0,
    ]);
    assert_eq!(KEY.group(&group).to_string(), "5c90faf1ff276708b1cc027144b76108");
    let pinned = [0x1bf2_cce2_f1ad_e557, 0xf74d_dc71_898d_76cd, 0x67df_24a4_8e34_3bca];
    let world = world(&job(), &[8; 4], false);
    let regular = table_bytes(&world, 2, 1);
    let sparse = table_bytes(&members(&world, &[31, 24, 30, 26, 25, 0]), 2, 2);
    let shadows = table_bytes(&[entry(0, 0, &[0, 1]), entry(9, 1, &[3]), entry(4, 1, &[2, 3])], 2, 3);
    assert_eq!(
        [&regular, &sparse, &shadows].map(|bytes| digest(bytes)),
        pinned,
        "the format changed: count up its version"
    );
    assert_eq!(&regular[..8], b"UMBT\x03\x00\x01\x00");
}

#[test]
fn s24_lists_that_collided_upstream_are_two_groups() {
    // The 32-bit hash of upstream gave {1, 2} and {8448, 8449} one value.
    let mut buffers = [[0; 64]; 2];
    let [a, b] = &mut buffers;
    let a = Descriptor::write(5, [1, 2].map(WorldRank), a).unwrap();
    let b = Descriptor::write(5, [8448, 8449].map(WorldRank), b).unwrap();
    assert_ne!(KEY.group(&a), KEY.group(&b));
    assert_ne!(a, b, "and whoever compares descriptors sees it too");

    let mut endpoints = arena(4, 4096);
    let pair = |first: u32| [entry(first, 0, &[0]), entry(first + 1, 0, &[1])];
    let (bytes_a, bytes_b) = (table_bytes(&pair(1), 2, 5), table_bytes(&pair(8448), 2, 5));
    let (a, b) = (Table::attach(&bytes_a).unwrap(), Table::attach(&bytes_b).unwrap());
    let (a, b) = (endpoints.publish(&a, None).unwrap(), endpoints.publish(&b, None).unwrap());
    let reader = endpoints.reader().unwrap();
    assert_eq!(reader.lookup(a, Rank(1)).map(|e| e.peer), Ok(Peer::rank(WorldRank(2)).unwrap()));
    assert_eq!(reader.lookup(b, Rank(1)).map(|e| e.peer), Ok(Peer::rank(WorldRank(8449)).unwrap()));
}

#[test]
fn s24_all_columns_of_a_grid_of_16_by_16384_have_different_keys() {
    let mut keys = std::collections::BTreeSet::new();
    for column in 0..16_384 {
        let mut buffer = [0; 64];
        let members = (0..16).map(|row| WorldRank(row * 16_384 + column));
        let group = Descriptor::write(3, members, &mut buffer).unwrap();
        assert_eq!(group.members().run_count(), 1);
        assert!(keys.insert(KEY.group(&group)));
    }
}

#[test]
fn s27_communicators_with_one_id_and_different_leads_are_separate() {
    let world = world(&job(), &[8; 4], false);
    let mut endpoints = arena(8, 1 << 14);
    let halves = [(0..16).collect::<Vec<_>>(), (16..32).collect()];
    let tables = halves.each_ref().map(|ranks| table_bytes(&members(&world, ranks), 2, 77));
    let tables = tables.each_ref().map(|bytes| Table::attach(bytes).unwrap());
    // Both would like slot 5; the second finds it taken.
    let handles = tables.each_ref().map(|table| endpoints.publish(table, Some(5)).unwrap());
    assert_eq!(handles[0].index(), 5);
    assert_ne!(handles[1].index(), 5);
    let reader = endpoints.reader().unwrap();
    for ((handle, table), lead) in handles.into_iter().zip(&tables).zip([0, 16]) {
        assert_eq!(reader.find(table.key()), Ok(handle));
        assert_eq!(reader.lookup(handle, Rank(0)).map(|e| e.peer), Ok(Peer::rank(WorldRank(lead)).unwrap()));
        assert_eq!(reader.read(handle, Table::id), Ok(77));
    }
    assert_eq!(reader.groups().count(), 2);
}

#[test]
fn a_dense_group_number_gets_exactly_its_slot_when_free() {
    let mut endpoints = arena(16, 1 << 14);
    let table = |id: u32| table_bytes(&[entry(id, 0, &[0])], 1, id);
    for id in [3, 0, 9, 15] {
        let bytes = table(id);
        let handle = endpoints.publish(&Table::attach(&bytes).unwrap(), Some(id)).unwrap();
        assert_eq!(handle.index(), id);
        assert_eq!(endpoints.reader().unwrap().current(id), Some(handle));
    }
    // Without a wish, and with a wish that cannot be met, from the upper end.
    for wish in [None, Some(9), Some(99)] {
        let bytes = table(100 + wish.unwrap_or(0));
        let handle = endpoints.publish(&Table::attach(&bytes).unwrap(), wish).unwrap();
        assert!((10..15).contains(&handle.index()));
    }
}

#[test]
fn s29_freed_and_re_created_ten_thousand_times_memory_is_flat() {
    let world = world(&job(), &[8; 4], false);
    let mut endpoints = arena(3, 3 * 1024);
    let bytes = table_bytes(&world, 2, 0);
    endpoints.publish(&Table::attach(&bytes).unwrap(), Some(0)).unwrap();
    let free = endpoints.free_bytes();
    let mut builder = builder(&members(&world, &[9, 4, 30, 2, 8]), 2, 1);
    let mut last: Option<Id<_>> = None;
    for generation in 1..=10_000 {
        let table = Table::attach(builder.finish(Generation(generation)).unwrap()).unwrap();
        let handle = endpoints.publish(&table, Some(1)).unwrap();
        assert_eq!((handle.index(), handle.generation()), (1, Generation(generation)));
        let reader = endpoints.reader().unwrap();
        assert_eq!(reader.read(handle, Table::generation), Ok(Generation(generation)));
        if let Some(last) = last.replace(handle) {
            assert_eq!(reader.lookup(last, Rank(0)), Err(LookupError::StaleGeneration));
        }
        endpoints.retire(handle).unwrap();
        assert_eq!(endpoints.free_bytes(), free);
        assert_eq!(endpoints.retire(handle), Err(LookupError::StaleGeneration));
    }
    assert_eq!(endpoints.live(), 1);
}

#[test]
fn handles_of_an_earlier_life_of_the_writer_are_stale_and_name_no_other_group() {
    let groups = [1, 2].map(|id| table_bytes(&[entry(id, 0, &[0]), entry(id + 4, 0, &[1])], 2, id));
    let groups = groups.each_ref().map(|bytes| Table::attach(bytes).unwrap());
    let words: Vec<_> = (0..Arena::words_needed(2, 1024)).map(|_| AtomicU64::new(0)).collect();
    let mut earlier: Vec<Id<_>> = Vec::new();
    // What a random number may be, and lives that differ in one bit.
    for (life, incarnation) in
        [1, 2, 3, 1 << 63, u64::MAX, 0x0123_4567_89ab_cdef].map(Incarnation).into_iter().enumerate()
    {
        let mut endpoints = Endpoints::create_in_life(&words[..], [Block::default(); 5], 2, incarnation).unwrap();
        let refused = |reader: Reader<'_>, handles: &[Id<_>]| {
            for &handle in handles {
                let mut found = [Endpoint::default()];
                assert_eq!(reader.lookup(handle, Rank(0)), Err(LookupError::StaleGeneration), "{life}: {handle:?}");
                assert_eq!(reader.lookup_all(handle, &[Rank(1)], &mut found), Err(LookupError::StaleGeneration));
                assert_eq!(reader.read(handle, Table::size), Err(LookupError::StaleGeneration));
            }
        };
        refused(endpoints.reader().unwrap(), &earlier);
        for (table, slot) in groups.iter().cycle().skip(life).zip([0, 1, 0, 1]) {
            let handle = endpoints.publish(table, Some(slot)).unwrap();
            assert_eq!(handle.index(), slot);
            let reader = endpoints.reader().unwrap();
            assert_eq!(reader.lookup(handle, Rank(1)).unwrap().sp, Sp(1));
            assert_eq!(reader.find(table.key()), Ok(handle));
            refused(reader, &earlier);
            endpoints.retire(handle).unwrap();
            earlier.push(handle);
        }
        let reader = endpoints.reader().unwrap();
        assert_eq!(reader.lookup(Id::new(2, Generation::FIRST), Rank(0)), Err(LookupError::UnknownGroup));
        refused(reader, &earlier);
    }
}

#[test]
fn a_full_arena_says_what_is_missing_and_changes_nothing() {
    let mut endpoints = arena(2, 128);
    let tables = [1, 2, 3].map(|id| table_bytes(&[entry(id, 0, &[0])], 1, id));
    let tables = tables.each_ref().map(|bytes| Table::attach(bytes).unwrap());
    let first = endpoints.publish(&tables[0], None).unwrap();
    assert_eq!(endpoints.publish(&tables[0], None), Err(PublishError::AlreadyPublished(first)));
    assert!(matches!(endpoints.publish(&tables[1], None), Err(PublishError::NoRoom(_))));
    endpoints.retire(first).unwrap();
    let second = endpoints.publish(&tables[1], None).unwrap();
    assert_eq!(endpoints.reader().unwrap().groups().count(), 1);
    endpoints.retire(second).unwrap();

    let mut endpoints = arena(2, 4096);
    for table in &tables[..2] {
        endpoints.publish(table, None).unwrap();
    }
    assert_eq!(endpoints.publish(&tables[2], None), Err(PublishError::NoSlot));
    assert_eq!(endpoints.live(), 2);
}

#[test]
fn a_builder_tells_conflicts_from_repetitions_and_names_who_is_missing() {
    let world = world(&job(), &[8; 4], false);
    let shape = shape(&world, 2, 1);
    let needed = shape.builder_bytes();
    let short = TableBuilder::new(vec![0; needed - 1], shape).err();
    assert_eq!(short, Some(BuildError::StorageTooSmall { needed }));
    let mut builder = TableBuilder::new(vec![0; needed], shape).unwrap();
    for rank in (0..32).filter(|rank| rank % 7 != 3) {
        assert_eq!(builder.set(Rank(rank), &world[rank as usize]), Ok(true));
    }
    assert_eq!(builder.set(Rank(4), &world[4]), Ok(false));
    assert_eq!(builder.set(Rank(4), &world[5]), Err(SetError::Conflict(Rank(4))));
    assert_eq!(builder.set(Rank(32), &world[4]), Err(SetError::RankOutOfRange { rank: Rank(32), size: 32 }));
    assert_eq!(builder.set(Rank(3), &entry(3, 9, &[0])), Err(SetError::OutOfRange(Rank(3))));
    assert_eq!(builder.set(Rank(3), &entry(3, 0, &[8])), Err(SetError::OutOfRange(Rank(3))));
    assert_eq!(builder.set(Rank(3), &entry(3, 0, &[])), Err(SetError::BadShadows(Rank(3))));
    assert_eq!(builder.set(Rank(3), &entry(3, 0, &[0, 1])), Err(SetError::BadShadows(Rank(3))));
    assert_eq!(builder.missing().collect::<Vec<_>>(), [3, 10, 17, 24, 31].map(Rank));
    assert_eq!(builder.finish(Generation::FIRST).err(), Some(BuildError::Missing { count: 5, first: Rank(3) }));
    assert_eq!(builder.count(), 27);

    let finish = |entries: &[Entry]| oracle::builder(entries, 2, 1).finish(Generation::FIRST).err();
    let two_hosts = finish(&[entry(0, 0, &[0]), entry(1, 1, &[0])]);
    assert_eq!(two_hosts, Some(BuildError::ServiceProcessOnTwoHosts(Sp(0))));
}

#[test]
fn one_process_as_two_ranks_is_refused() {
    let entries = [entry(7, 0, &[0]), entry(3, 0, &[1]), entry(7, 0, &[1])];
    let shape = umbra_core::endpoints::Shape { size: 3, ..shape(&entries[..2], 2, 1) };
    let mut builder = TableBuilder::new(vec![0; shape.builder_bytes()], shape).unwrap();
    for (rank, entry) in (0..).map(Rank).zip(&entries) {
        builder.set(rank, entry).unwrap();
    }
    assert_eq!(builder.finish(Generation::FIRST).err(), Some(BuildError::DuplicateProcess(WorldRank(7))));
}

#[test]
fn every_changed_byte_and_every_truncation_of_a_table_is_refused() {
    let world = world(&job(), &[8; 4], false);
    for ranks in [(0..32).collect::<Vec<_>>(), vec![31, 24, 30, 26, 25, 0]] {
        let bytes = table_bytes(&members(&world, &ranks), 2, 1);
        assert!(Table::attach(&bytes).is_ok());
        for at in 0..bytes.len() {
            for change in [1, 0x80, 0xff] {
                let mut changed = bytes.clone();
                changed[at] ^= change;
                assert!(Table::attach(&changed).is_err(), "byte {at} ^ {change:#x}");
            }
            assert!(Table::attach(&bytes[..at]).is_err());
        }
        let mut longer = bytes.clone();
        longer.extend([0; 8]);
        assert_eq!(Table::attach(&longer).err(), Some(TableError::WrongLength));
    }
}

#[test]
fn the_world_group_is_marked() {
    let mut buffer = [0; Descriptor::WORLD_BYTES];
    let group = Descriptor::write_world(0, 32, &mut buffer).unwrap();
    assert!(group.is_world());
    assert!(Descriptor::parse(group.bytes()).unwrap().is_world());
    let mut other = [0; Descriptor::WORLD_BYTES];
    let same_members = Descriptor::write(0, (0..32).map(WorldRank), &mut other).unwrap();
    assert_ne!(KEY.group(&group), KEY.group(&same_members));
}

#[test]
fn a_dump_names_hosts_and_ranks_and_a_diff_names_what_differs() {
    let entries = [entry(4, 1, &[2, 3]), entry(9, 0, &[0])];
    let bytes = table_bytes(&entries, 2, 7);
    let table = Table::attach(&bytes).unwrap();
    let text = table.dump().to_string();
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].starts_with("group 7 key "), "{text}");
    assert!(lines[0].contains("generation 1: 2 ranks, 3 service processes, 2 hosts, explicit"), "{text}");
    assert_eq!(
        lines[1..],
        [
            "host 0: ranks 1, service processes 0",
            "host 1: ranks 1, service processes 2 3",
            "rank 0: world rank 4, host 1, shadows 2 3",
            "rank 1: world rank 9, host 0, shadows 0",
        ]
    );
    let other = table_bytes(&[entry(4, 1, &[2, 3]), entry(9, 0, &[1]), entry(5, 0, &[1])], 2, 7);
    let other = Table::attach(&other).unwrap();
    let differences: Vec<_> = table.differences(&other).collect();
    assert_eq!(differences[0], Difference::Key);
    assert_eq!(differences[1], Difference::Number { what: "size", ours: 2, theirs: 3 });
    let texts: Vec<_> = differences[2..].iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            "rank 1: world rank 9, host 0, shadows 0 against world rank 9, host 0, shadows 1",
            "rank 2: absent against world rank 5, host 0, shadows 1",
        ]
    );
    assert_eq!(table.differences(&table).count(), 0);
}

#[test]
fn a_reader_refuses_memory_that_holds_no_whole_arena() {
    let endpoints = arena(4, 1024);
    let words = endpoints.words();
    assert!(Reader::attach(words).is_ok());
    for len in 0..words.len() {
        assert!(Reader::attach(&words[..len]).is_err());
    }
    for at in 0..3 {
        let copy: Vec<_> =
            words.iter().map(|word| AtomicU64::new(word.load(umbra_core::atomic::Ordering::Relaxed))).collect();
        copy[at].store(0x1234_5678_9abc_def0, umbra_core::atomic::Ordering::Relaxed);
        assert!(Reader::attach(&copy).is_err(), "word {at}");
    }
}
