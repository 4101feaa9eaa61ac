//! Ranks that export memory over RDMA (s6, s16, s46, s48, s50).
//!
//! Nobody can map it, because they have no Unix socket. Without a device each test says `skipped: ` and why.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use umbra::admin::{Body as _, ReadOrder, ReadResult, ReadTotals, Slice, ops};
use umbra::driver::now;
use umbra::job::{DataPath, Options};
use umbra::session::{Exported, Session, Settings};
use umbra::sys::segment::Segment;
use umbra_core::codec::Reader;
use umbra_core::error::Status;
use umbra_core::key::Key;
use umbra_core::peer::{Sp, WorldRank};
use umbra_core::time::Lapse;
use umbra_core::wire::Token;
use umbra_tests::agents::Agents;
use umbra_tests::rig::{self, service};
use umbra_tests::verbs::port;

/// Bytes of one read.
const SIZE: u64 = 4096;

/// Agents that share no memory, and one rank at each, over TCP.
struct Job {
    agents: Agents,
    sessions: Vec<Session>,
    keys: Vec<Key>,
}

fn pattern(seed: u8, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at as u8).wrapping_mul(29) ^ (at >> 8) as u8 ^ seed).collect()
}

impl Job {
    /// None where there is no device, which is told. Every rank exports `len` bytes.
    fn new(len: usize) -> Option<Job> {
        port()?;
        let deadline = Duration::from_secs(12);
        let agents = Agents::of(Options { data_path: DataPath::Verbs, deadline, ..rig::options(2, 1, 1) });
        let settings = (0..2).map(|rank| Settings { sockets: None, ..agents.settings(rank) });
        let sessions = std::thread::scope(|scope| {
            let joins: Vec<_> = settings.map(|settings| scope.spawn(|| Session::join(settings))).collect();
            joins.into_iter().map(|join| join.join().unwrap().unwrap()).collect()
        });
        let mut job = Job { agents, sessions, keys: Vec::new() };
        job.keys = (0..2).map(|n| job.export(n, &pattern(n as u8, len))).collect();
        let slices: Vec<Slice> = (0..2).map(|n| job.slice(n)).collect();
        for sp in 0..2 {
            let _ = job.agents.ask(sp, ops::PLAN, Token(1), &Slice::list_to_body(&slices));
        }
        Some(job)
    }

    fn export(&mut self, n: usize, bytes: &[u8]) -> Key {
        let segment = Segment::create("umbra-test", bytes.len()).unwrap();
        segment.write(0, bytes).unwrap();
        self.sessions[n].export_segment(segment).unwrap()
    }

    fn slice(&self, n: usize) -> Slice {
        let (address, len) = self.sessions[n].exported(self.keys[n]).unwrap();
        Slice { rank: WorldRank(n as u32), address, len }
    }

    fn order(&mut self, sp: u32) {
        let order = ReadOrder { size: SIZE, reads: 0, seed: 0, patience: 6_000_000_000 };
        self.agents.launcher.call(service(sp), ops::SLICES, Token(2), &order.to_body(), Vec::new()).unwrap();
    }

    /// Waits for the results of an order while the ranks do what ranks do between two calls of their own.
    fn results(&mut self) -> BTreeMap<u32, ReadResult> {
        let Job { agents, sessions, .. } = self;
        results_in(&meanwhile(sessions, || agents.answer(ops::SLICES)))
    }

    /// An agent reads both ranks, and gets what they hold.
    fn all_is_read(&mut self, sp: u32, expected: [&[u8]; 2]) {
        self.order(sp);
        are_good(&self.results(), expected);
    }
}

fn results_in(body: &[u8]) -> BTreeMap<u32, ReadResult> {
    let mut r = Reader::new(body);
    ReadTotals::get(&mut r).unwrap();
    ReadResult::list_from_body(r.rest()).unwrap().into_iter().map(|result| (result.rank.0, result)).collect()
}

fn are_good(results: &BTreeMap<u32, ReadResult>, expected: [&[u8]; 2]) {
    assert_eq!(results.len(), 2);
    for (&rank, result) in results {
        let expected = expected[rank as usize];
        assert_eq!((result.failed, result.bytes), (0, expected.len() as u64), "{result:?}");
        assert_eq!(result.digest, *blake3::hash(expected).as_bytes(), "rank {rank}");
    }
}

/// Lets the sessions make progress while something else is done.
fn meanwhile<T>(sessions: &mut [Session], what: impl FnOnce() -> T) -> T {
    let done = OnceLock::new();
    std::thread::scope(|scope| {
        for session in sessions {
            scope.spawn(|| {
                while done.get().is_none() {
                    session.progress(now() + Lapse::from_millis(20)).unwrap();
                }
            });
        }
        let result = what();
        done.get_or_init(|| ());
        result
    })
}

#[test]
fn where_nothing_can_be_mapped_every_agent_reads_every_rank_by_itself() {
    let Some(mut job) = Job::new(100_000) else { return };
    let bytes = [0, 1].map(|seed| pattern(seed, 100_000));
    for sp in 0..2 {
        job.all_is_read(sp, [&bytes[0], &bytes[1]]);
        let each = 100_000_u64.div_ceil(SIZE);
        assert_eq!(job.agents.reads(sp), [((DataPath::Verbs, true), each), ((DataPath::Verbs, false), each)].into());
        assert_eq!(job.agents.status(sp)["queue_pairs"], 2, "one for each rank");
    }
    // Both agents have read, so each has given its rank's region to the other.
    for sp in 0..2 {
        assert_eq!(job.agents.status(sp)["regions_opened_for_others"], 1);
    }
    // A rank reads another one through the service processes, and nobody copies anything of this rank but the card.
    let ticket = job.sessions[1].ticket(job.keys[1]).unwrap();
    let mut some = vec![0; 50_000];
    job.sessions[0].read(&ticket, 7, &mut some).unwrap();
    assert!(some == bytes[1][7..50_007]);
    let own = job.sessions[0].ticket(job.keys[0]).unwrap();
    job.sessions[0].read(&own, 1, &mut some).unwrap();
    assert!(some == bytes[0][1..50_001]);
    assert!(job.agents.status(1)["copies_rdma"] >= 2);
    assert_eq!(job.agents.status(1)["copies_mapped"] + job.agents.status(1)["copies_process"], 0);
}

#[test]
fn s06_once_agents_are_connected_ranks_are_read_while_none_of_their_code_runs() {
    let Some(mut job) = Job::new(100_000) else { return };
    let bytes = [0, 1].map(|seed| pattern(seed, 100_000));
    for sp in 0..2 {
        job.all_is_read(sp, [&bytes[0], &bytes[1]]);
    }
    let wakeups = |job: &Job| job.sessions.iter().map(Session::wakeups).collect::<Vec<_>>();
    let before = wakeups(&job);
    for sp in 0..2 {
        job.order(sp);
        // Nobody calls the sessions meanwhile, and they have no threads of their own.
        are_good(&results_in(&job.agents.answer(ops::SLICES)), [&bytes[0], &bytes[1]]);
        assert!(job.agents.reads(sp).keys().all(|&(path, _)| path == DataPath::Verbs));
    }
    assert_eq!(wakeups(&job), before);
}

#[test]
fn s46_s48_a_rank_has_its_memory_back_while_another_agent_reads_it() {
    const LEN: usize = 4 << 20;
    let Some(mut job) = Job::new(LEN) else { return };
    for round in 0..2 {
        job.order(0);
        // Some of it has been read by then.
        std::thread::sleep(Duration::from_millis(300));
        let Job { sessions, keys, .. } = &mut job;
        let [reader, owner] = &mut sessions[..] else { panic!("two ranks") };
        let taken = meanwhile(std::slice::from_mut(reader), || owner.revoke(keys[1]).unwrap());
        // It is the owner's alone: nobody reads it, and the card knows no key for it.
        let Exported::Segment(segment) = taken else { panic!("a segment was exported") };
        segment.write(0, &[0xEE; 4096]).unwrap();
        let results = job.results();
        assert_eq!((results[&0].failed, results[&0].bytes), (0, LEN as u64), "the other rank is read on: {results:?}");
        let lost = &results[&1];
        let why = lost.status;
        assert!(lost.failed > 0, "round {round}: {lost:?}");
        assert!(matches!(why, Status::KeyRevoked | Status::StaleKey | Status::UnknownRegion), "{why}");
        assert_eq!(job.agents.status(1)["regions_opened_for_others"], 0);
        job.keys[1] = job.export(1, &pattern(1, LEN));
        let slice = job.slice(1);
        // What is planned may lie elsewhere now; the last plan of a rank is appended to those before.
        let _ = job.agents.ask(0, ops::PLAN, Token(1), &Slice::list_to_body(&[slice]));
        let agents = &mut job.agents;
        assert!(agents.status(0)["queue_pairs"] <= 2);
    }
}

#[test]
fn bytes_of_the_heap_are_read_by_the_card_and_come_back() {
    let Some(mut job) = Job::new(1000) else { return };
    let bytes = pattern(9, 70_001);
    let heap = bytes.clone();
    let place = heap.as_ptr();
    let key = job.sessions[1].export_bytes(heap).unwrap();
    let ticket = job.sessions[1].ticket(key).unwrap();
    let mut some = vec![0; 60_000];
    for _ in 0..2 {
        let [reader, owner] = &mut job.sessions[..] else { panic!("two ranks") };
        meanwhile(std::slice::from_mut(owner), || reader.read(&ticket, 10_001, &mut some).unwrap());
        assert!(some == bytes[10_001..]);
        some.fill(0);
    }
    assert_eq!(job.agents.status(1)["copies_mapped"] + job.agents.status(1)["copies_process"], 0);
    let Exported::Bytes(back) = job.sessions[1].revoke(key).unwrap() else { panic!("bytes were exported") };
    assert!(back == bytes && back.as_ptr() == place);
    let refused = job.sessions[0].read(&ticket, 0, &mut some[..1]).unwrap_err().status();
    assert!(matches!(refused, Status::KeyRevoked | Status::StaleKey | Status::UnknownRegion), "{refused}");
}

#[test]
fn s50_an_agent_that_is_started_again_and_a_rank_that_died_are_met_as_they_are() {
    let Some(mut job) = Job::new(50_000) else { return };
    let bytes = [0, 1].map(|seed| pattern(seed, 50_000));
    job.all_is_read(0, [&bytes[0], &bytes[1]]);
    job.agents.launcher.kill(service(1));
    job.agents.launcher.start_agent(Sp(1)).unwrap();
    // Both ends of every queue pair of the dead agent are made anew; who reads meanwhile is told why not.
    let end = Instant::now() + rig::PATIENCE;
    loop {
        job.order(0);
        let results = job.results();
        if results[&1].failed == 0 {
            assert_eq!(results[&1].digest, *blake3::hash(&bytes[1]).as_bytes());
            break;
        }
        assert!(Instant::now() < end, "it is not read again: {results:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
    drop(job.sessions.remove(1));
    let end = Instant::now() + rig::PATIENCE;
    loop {
        job.order(0);
        let results = job.results();
        assert_eq!((results[&0].failed, results[&0].bytes), (0, 50_000), "{results:?}");
        match results[&1].status {
            Status::OwnerGone => break,
            status => assert!(Instant::now() < end, "the memory of a dead rank: {status}"),
        }
    }
}
