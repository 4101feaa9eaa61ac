//! The data path told of a read is the one its bytes took, whatever was asked for.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::collections::BTreeMap;

use umbra::admin::{Body as _, ReadOrder, ReadResult, ReadTotals, Slice, ops};
use umbra::job::{DataPath, Options};
use umbra::sys::segment::Segment;
use umbra_core::codec::Reader;
use umbra_core::error::Status;
use umbra_core::peer::WorldRank;
use umbra_core::wire::{BODY_MAX, Token};
use umbra_tests::agents::{Agents, DEADLINE};
use umbra_tests::rig;

/// Bytes of each rank, and of one read of it.
const LEN: u64 = 40_000;
const SIZE: u64 = 1000;
/// Reads of a rank by one agent.
const READS: u64 = LEN / SIZE;

/// How many, by path and by whether the rank is the reader's own.
type Reads = BTreeMap<(DataPath, bool), u64>;

/// Both service processes read both ranks, of which one has its bytes in a segment and the other in its heap.
fn read_both(data_path: DataPath) -> (Agents, [Reads; 2]) {
    let mut agents = Agents::of(Options { data_path, deadline: DEADLINE, ..rig::options(1, 2, 2) });
    let mut sessions = agents.world();
    let bytes: Vec<u8> = (0..LEN).map(|i| ((i * 31) >> 3) as u8).collect();
    let segment = Segment::create("umbra-test", bytes.len()).unwrap();
    segment.write(0, &bytes).unwrap();
    let keys = [sessions[0].export_segment(segment).unwrap(), sessions[1].export_bytes(bytes.clone()).unwrap()];
    let slices: Vec<Slice> = (0..2)
        .map(|n| {
            let (address, len) = sessions[n].exported(keys[n]).unwrap();
            Slice { rank: WorldRank(n as u32), address, len }
        })
        .collect();
    let order = ReadOrder { size: SIZE, reads: 0, seed: 0, patience: 5_000_000_000 };
    let digest = *blake3::hash(&bytes).as_bytes();
    let reads = [0, 1].map(|sp| {
        let _ = agents.ask(sp, ops::PLAN, Token(1), &Slice::list_to_body(&slices));
        let body = agents.ask(sp, ops::SLICES, Token(2), &order.to_body());
        let mut r = Reader::new(&body);
        ReadTotals::get(&mut r).unwrap();
        for result in ReadResult::list_from_body(r.rest()).unwrap() {
            assert_eq!((result.reads, result.failed, result.digest), (READS, 0, digest), "{result:?}");
        }
        agents.reads(sp)
    });
    (agents, reads)
}

#[test]
fn segments_and_heaps_in_one_job_are_told_apart_by_those_who_copied() {
    for asked_for in [DataPath::Auto, DataPath::Shared, DataPath::Cma] {
        let (mut agents, reads) = read_both(asked_for);
        let [first, second] = reads.map(|reads| reads.into_iter().collect::<Vec<_>>());
        assert_eq!(first, [((DataPath::Shared, true), READS), ((DataPath::Cma, false), READS)], "{asked_for:?}");
        assert_eq!(second, [((DataPath::Shared, false), READS), ((DataPath::Cma, true), READS)], "{asked_for:?}");
        // Each service process made the copies of its own rank, for both, and counts them where it makes them.
        let copies = [0, 1].map(|sp| {
            let status = agents.status(sp);
            (status["copies_mapped"], status["copies_process"])
        });
        assert_eq!(copies, [(2 * READS, 0), (0, 2 * READS)], "{asked_for:?}");
    }
}

#[test]
fn what_an_agent_has_read_is_told_whole_also_where_no_frame_has_room_for_it() {
    const SLICES: u64 = 2500;
    let mut agents = Agents::of(Options { deadline: DEADLINE, ..rig::options(1, 1, 1) });
    let mut sessions = agents.world();
    let key = sessions[0].export_bytes(vec![7; 8]).unwrap();
    let (address, len) = sessions[0].exported(key).unwrap();
    let slices: Vec<Slice> = (0..SLICES).map(|n| Slice { rank: WorldRank(0), address, len: 1 + n % len }).collect();
    let order = ReadOrder { size: len, reads: 0, seed: 0, patience: 5_000_000_000 };
    let _ = agents.ask(0, ops::PLAN, Token(1), &Slice::list_to_body(&slices));
    let body = agents.ask(0, ops::SLICES, Token(2), &order.to_body());
    assert!(body.len() > 2 * BODY_MAX, "{} bytes", body.len());
    let mut r = Reader::new(&body);
    ReadTotals::get(&mut r).unwrap();
    let results = ReadResult::list_from_body(r.rest()).unwrap();
    assert!(results.iter().map(|result| result.bytes).eq(slices.iter().map(|slice| slice.len)), "each, and in order");
    // What comes next is complete in itself.
    assert_eq!(agents.reads(0).into_iter().collect::<Vec<_>>(), [((DataPath::Cma, true), SLICES)]);
}

#[test]
fn a_plan_of_which_not_all_could_be_told_is_refused_and_what_fits_is_told() {
    let mut agents = Agents::of(Options { deadline: DEADLINE, ..rig::options(1, 1, 1) });
    let mut sessions = agents.world();
    let key = sessions[0].export_bytes(vec![7; 8]).unwrap();
    let (address, _) = sessions[0].exported(key).unwrap();
    let part = [Slice { rank: WorldRank(0), address, len: 1 }; 2500];
    let mut told = 0;
    let refusal = loop {
        agents.launcher.call(rig::service(0), ops::PLAN, Token(1), &Slice::list_to_body(&part), Vec::new()).unwrap();
        match agents.answer_or_refusal(ops::PLAN) {
            Ok(_) => told += part.len(),
            Err(status) => break status,
        }
        assert!(told < 60_000, "more than a link takes at once");
    };
    assert_eq!(refusal, Status::Full);
    let order = ReadOrder { size: 8, reads: 0, seed: 0, patience: 5_000_000_000 };
    let body = agents.ask(0, ops::SLICES, Token(2), &order.to_body());
    assert_eq!(body.len(), ReadTotals { lookups: 0, contradictions: 0 }.to_body().len() + told * ReadResult::BYTES);
}

#[test]
fn without_shared_memory_only_own_ranks_are_read_without_asking() {
    let (_agents, reads) = read_both(DataPath::Asked);
    let [first, second] = reads.map(|reads| reads.into_iter().collect::<Vec<_>>());
    assert_eq!(first, [((DataPath::Shared, true), READS), ((DataPath::Asked, false), READS)]);
    assert_eq!(second, [((DataPath::Cma, true), READS), ((DataPath::Asked, false), READS)]);
}
