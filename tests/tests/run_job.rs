//! The main job end to end, with real processes (s02, s06, s07, s41).
//!
//! It runs with odd counts, every data path, and every kind of file.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use umbra::driver::Limits;
use umbra::job::{DataPath, Event, JobError, Options, OptionsError, Outcome, Phase, Step, run};
use umbra::pool::{Attributes, Pool};
use umbra_core::peer::{Peer, PeerKind};
use umbra_tests::rig;

fn good(options: &Options) -> Outcome {
    let outcome = run(options, &mut |_| {}).unwrap();
    assert_eq!(outcome.mismatches, [], "{options:?}");
    assert_eq!(outcome.leftovers, [], "{options:?}");
    assert_eq!(outcome.failed_reads, 0, "{options:?}");
    assert!(outcome.is_good());
    outcome
}

/// Reads that a job makes: every agent reads every slice, whole and at random offsets.
fn reads_of(options: &Options, bytes: u64) -> u64 {
    let n = u64::from(options.world_size());
    let lens = (0..n).map(|r| bytes / n + u64::from(r < bytes % n));
    let per_agent: u64 =
        lens.map(|len| len.div_ceil(options.size) + if len > 0 { u64::from(options.reads) } else { 0 }).sum();
    per_agent * u64::from(options.agents())
}

struct Input(PathBuf);

impl Input {
    fn new(name: &str, bytes: &[u8]) -> Input {
        let path = std::env::temp_dir().join(format!("umbra-test-input-{}-{name}", std::process::id()));
        fs::write(&path, bytes).unwrap();
        Input(path)
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[test]
fn s02_s06_two_hosts_bootstrap_and_every_agent_reads_every_rank_without_waking_it() {
    let options = rig::options(2, 2, 4);
    let mut phases = Vec::new();
    let mut started = BTreeSet::new();
    let outcome = run(&options, &mut |event| match event {
        Event::Phase { phase, .. } => phases.push(phase),
        Event::Started { process, .. } => {
            started.insert(process.peer);
        }
        _ => {}
    })
    .unwrap();
    assert!(outcome.is_good(), "{outcome:#?}");
    assert_eq!(outcome.rank_wakeups, 0, "code of ours ran in a rank while it was read");
    let world = outcome.tables.iter().find(|table| table.group == "world").map(|table| table.agents);
    assert_eq!(world, Some(4), "every agent has the world's table: {:?}", outcome.tables);
    assert_eq!((outcome.hosts, outcome.service_processes, outcome.ranks), (2, 4, 8));
    assert_eq!(started.len(), 12);
    assert_eq!(
        phases,
        [Phase::Agents, Phase::World, Phase::Groups, Phase::Slices, Phase::Random, Phase::Leaving, Phase::Leftovers]
    );
    let bytes = fs::metadata(options.input.as_ref().unwrap()).unwrap().len();
    assert_eq!(outcome.input_bytes, bytes);
    assert_eq!(outcome.reads, reads_of(&options, bytes));
    // Each read is looked up in the world, the row and the column of the rank.
    assert_eq!(outcome.lookups, 3 * outcome.reads);
    let names: Vec<&str> = outcome.groups.iter().map(|g| g.name.as_str()).collect();
    assert_eq!(names, ["world", "row 0", "row 1", "column 0", "column 1", "column 2", "column 3"]);
    assert!(outcome.groups.iter().all(|g| g.table_bytes > 0));
    // Own ranks and others' were both read, and by no other path than shared memory.
    let kinds: Vec<(DataPath, bool)> = outcome.paths.iter().map(|p| (p.path, p.own_rank)).collect();
    assert_eq!(kinds, [(DataPath::Shared, false), (DataPath::Shared, true)]);
    assert_eq!(outcome.paths.iter().map(|p| p.reads).sum::<u64>(), outcome.reads);
    assert_eq!(outcome.latency.len(), outcome.reads);
    // Every process says when the world was full, agents and ranks.
    let full: BTreeSet<Peer> = outcome
        .timeline
        .iter()
        .filter(|m| m.step == Step::Full && m.group.as_deref() == Some("world"))
        .map(|m| m.peer)
        .collect();
    assert_eq!(full.len(), 12);
    assert!(outcome.timeline.windows(2).all(|pair| pair[0].at <= pair[1].at));
}

#[test]
fn the_digest_is_that_of_the_file() {
    let bytes: Vec<u8> = (0..10_007u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let input = Input::new("digest", &bytes);
    let outcome = good(&Options { input: Some(input.0.clone()), ..rig::options(1, 2, 3) });
    assert_eq!(outcome.digest, blake3::hash(&bytes).to_hex().to_string());
}

#[test]
fn s07_odd_counts_work() {
    for (hosts, service_processes, ranks) in [(1, 1, 1), (1, 1, 8), (3, 1, 5), (2, 3, 4)] {
        let outcome = good(&rig::options(hosts, service_processes, ranks));
        assert_eq!(outcome.ranks, hosts * ranks);
        assert_eq!(outcome.groups.len() as u32, 1 + hosts + ranks);
    }
}

#[test]
fn s41_service_processes_without_ranks_bootstrap_and_read() {
    let outcome = good(&rig::options(2, 3, 1));
    let readers: BTreeSet<PeerKindNumber> =
        outcome.timeline.iter().filter(|m| m.step == Step::Full).map(|m| number(m.peer)).collect();
    // All six know the world, though only service processes 0 and 3 have a rank.
    assert_eq!(readers.iter().filter(|n| n.0).count(), 6);
}

#[test]
fn s41_a_service_process_that_hears_of_the_world_last_is_waited_for() {
    let (options, last) = (rig::options(2, 3, 1), rig::service(5));
    let (mut pid, mut sleeper) = (None, None);
    let outcome = run(&options, &mut |event| match event {
        Event::Started { process, .. } if process.peer == last => pid = Pid::from_raw(process.pid.cast_signed()),
        Event::Ready { peer, .. } if peer == last => {
            let pid = pid.unwrap();
            kill_process(pid, Signal::STOP).unwrap();
            sleeper = Some(thread::spawn(move || {
                thread::sleep(Duration::from_millis(300));
                kill_process(pid, Signal::CONT).unwrap();
            }));
        }
        _ => {}
    });
    sleeper.unwrap().join().unwrap();
    let outcome = outcome.unwrap();
    assert_eq!(outcome.mismatches, []);
    assert!(outcome.is_good());
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct PeerKindNumber(bool, u32);

fn number(peer: Peer) -> PeerKindNumber {
    match peer.kind() {
        PeerKind::Service(sp) => PeerKindNumber(true, sp.0),
        PeerKind::Rank(rank) => PeerKindNumber(false, rank.0),
    }
}

#[test]
fn several_shadow_service_processes_serve_a_rank() {
    good(&Options { shadows: 2, ..rig::options(2, 2, 3) });
}

#[test]
fn memory_of_the_heap_is_read_by_cma() {
    let outcome = good(&Options { data_path: DataPath::Cma, ..rig::options(2, 2, 2) });
    assert!(outcome.paths.iter().all(|p| p.path == DataPath::Cma), "{:?}", outcome.paths);
    assert_eq!(outcome.rank_wakeups, 0);
}

#[test]
fn without_shared_memory_the_bytes_are_asked_for_over_tcp() {
    // Larger than one frame, so that reads are cut.
    let options = Options { data_path: DataPath::Asked, size: 100_000, reads: 3, ..rig::options(2, 1, 2) };
    let outcome = good(&options);
    let asked = outcome.paths.iter().find(|p| p.path == DataPath::Asked).unwrap();
    assert!(!asked.own_rank && asked.reads > 0);
}

#[test]
fn a_job_tells_what_it_used() {
    for (asked_for, used) in [
        (DataPath::Auto, "shared"),
        (DataPath::Shared, "shared"),
        (DataPath::Cma, "cma"),
        (DataPath::Asked, "shared+asked"),
    ] {
        let outcome = good(&Options { data_path: asked_for, ..rig::options(2, 1, 1) });
        assert_eq!(outcome.used_paths(), used, "{asked_for:?}: {:?}", outcome.paths);
        assert_eq!(outcome.paths.iter().map(|path| path.reads).sum::<u64>(), outcome.reads);
    }
}

/// On a loaded machine, the first processes of a job wait until the last ones are started.
fn held_up_after_starting(last: Peer) {
    // Longer than a handshake between strangers may take.
    let pause = Limits::default().handshake.0 + 1_000_000_000;
    let outcome = run(&rig::options(1, 2, 2), &mut |event| {
        if matches!(event, Event::Started { process, .. } if process.peer == last) {
            thread::sleep(Duration::from_nanos(pause));
        }
    });
    assert!(outcome.unwrap().is_good());
}

#[test]
fn agents_wait_for_a_launcher_that_is_held_up() {
    held_up_after_starting(rig::service(1));
}

#[test]
fn ranks_wait_for_a_launcher_that_is_held_up() {
    held_up_after_starting(rig::rank(1));
}

#[test]
fn what_others_share_on_this_machine_is_not_left_by_a_job() {
    let name = format!("beside-{}", std::process::id());
    let pool = Pool::create(Some(&name), &Attributes { bytes: 1 << 20, ..Attributes::default() }).unwrap();
    good(&rig::options(1, 1, 1));
    pool.destroy().unwrap();
}

#[test]
fn files_of_any_size_are_held() {
    for (name, len) in [("empty", 0usize), ("one", 1), ("fewer", 5), ("uneven", 4099), ("even", 8192)] {
        let bytes: Vec<u8> = (0..len).map(|i| (i * 7 + 3) as u8).collect();
        let input = Input::new(name, &bytes);
        let options = Options { input: Some(input.0.clone()), size: 1000, reads: 5, ..rig::options(2, 1, 3) };
        let outcome = good(&options);
        assert_eq!(outcome.reads, reads_of(&options, len as u64), "{name}");
        assert_eq!(outcome.input_bytes, len as u64);
    }
}

#[test]
fn reads_larger_than_a_landing_slot_are_cut_and_put_together() {
    let bytes: Vec<u8> = (0..3_000_001u32).map(|i| (i.wrapping_mul(40_503) >> 8) as u8).collect();
    let input = Input::new("large", &bytes);
    for data_path in [DataPath::Auto, DataPath::Cma] {
        let options =
            Options { input: Some(input.0.clone()), size: 1_000_000, reads: 3, data_path, ..rig::options(2, 1, 1) };
        good(&options);
    }
}

#[test]
fn what_cannot_be_run_is_refused_before_anything_starts() {
    let never = &mut |event| panic!("{event:?}");
    let base = rig::options(1, 1, 1);
    let refused = |options: Options, never: &mut dyn FnMut(Event)| run(&options, never).unwrap_err();
    for broken in [
        Options { hosts: 0, ..base.clone() },
        Options { service_processes: 0, ..base.clone() },
        Options { ranks: 0, ..base.clone() },
        Options { size: 0, ..base.clone() },
        Options { shadows: 0, ..base.clone() },
    ] {
        assert!(matches!(refused(broken, never), JobError::Options(OptionsError::Zero(_))));
    }
    let many = refused(Options { ranks: 1_000_000, ..base.clone() }, never);
    assert!(matches!(many, JobError::Options(OptionsError::TooManyProcesses { .. })));
    let huge = refused(Options { hosts: u32::MAX, ranks: u32::MAX, ..base.clone() }, never);
    assert!(matches!(huge, JobError::Options(OptionsError::TooManyProcesses { .. })));
    let shadows = refused(Options { shadows: 2, ..base.clone() }, never);
    assert!(matches!(shadows, JobError::Options(OptionsError::TooManyShadows { .. })));
    let size = refused(Options { size: u64::MAX, ..base.clone() }, never);
    assert!(matches!(size, JobError::Options(OptionsError::ReadTooLarge { .. })));
    let missing = refused(Options { input: Some("/nonexistent/file".into()), ..base.clone() }, never);
    assert!(missing.to_string().contains("/nonexistent/file"), "{missing}");
    assert!(matches!(missing, JobError::Input { .. }));
    let directory = refused(Options { input: Some("/".into()), ..base.clone() }, never);
    assert!(matches!(directory, JobError::NotAFile(_)));
    let agent = refused(Options { agent: Some("/nonexistent/agent".into()), ..base }, never);
    assert!(matches!(agent, JobError::NoProgram(_)));
}
