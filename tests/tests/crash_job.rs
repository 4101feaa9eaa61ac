//! Processes killed (signal 9) in every phase of a job (s36, s38-s40).
//!
//! Nothing hangs, a typed error names the dead, and nothing is left.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use umbra::admin::{Body as _, ReadOrder, ReadResult, ReadTotals, Slice, ops};
use umbra::job::{self, Event, JobError, Launcher, News, Options, Phase, Step};
use umbra_core::codec::Reader;
use umbra_core::error::Status;
use umbra_core::peer::{Peer, Sp, WorldRank};
use umbra_core::wire::Token;
use umbra_tests::rig::{self, rank, service};

fn impatient(hosts: u32, service_processes: u32, ranks: u32) -> Options {
    Options { deadline: Duration::from_secs(4), ..rig::options(hosts, service_processes, ranks) }
}

#[test]
fn a_killed_process_ends_the_job_with_its_name_in_every_phase() {
    let options = impatient(2, 2, 2);
    for phase in [Phase::World, Phase::Groups, Phase::Slices, Phase::Random, Phase::Leaving] {
        for victim in [rank(1), service(2)] {
            let error = rig::killed(&options, victim, phase);
            match &error {
                JobError::Died { peer, how, .. } => {
                    assert_eq!(*peer, victim, "{phase:?}: {error}");
                    assert!(how.contains('9'), "{how}");
                }
                // Whoever noticed first names it.
                JobError::Failed { failure, .. } => assert_eq!(failure.culprit, Some(victim), "{phase:?}: {error}"),
                other => panic!("{phase:?}, {victim}: {other}"),
            }
        }
    }
}

fn failures(news: &[News]) -> BTreeMap<Peer, (Status, Option<Peer>, String)> {
    news.iter()
        .filter_map(|item| match item {
            News::Failed(peer, f) => Some((*peer, (f.status, f.culprit, f.text.clone()))),
            _ => None,
        })
        .collect()
}

fn exported(news: &[News]) -> BTreeMap<WorldRank, Slice> {
    news.iter()
        .filter_map(|item| match item {
            News::Exported(rank, e) => Some((*rank, Slice { rank: *rank, address: e.address, len: e.len })),
            _ => None,
        })
        .collect()
}

#[test]
fn s36_a_service_process_that_dies_half_way_is_named_to_every_rank_that_waits() {
    // Rank 7 must not be missed before the service process is.
    let deadline = Duration::from_secs(16);
    let mut launcher = Launcher::new(&Options { deadline, ..impatient(2, 2, 4) }).unwrap();
    rig::start_agents(&mut launcher, 0..4);
    // Rank 7 never comes, so nobody can be full when the service process dies.
    rig::start_ranks(&mut launcher, 0..7);
    rig::collect(&mut launcher, "all local sets but one complete", |news| {
        let complete = rig::peers_in(news, |item| match item {
            News::Mark(peer, mark) if mark.step == Step::LocalComplete as u8 => Some(*peer),
            _ => None,
        });
        complete.contains(&service(0)) && complete.contains(&service(1)) && complete.contains(&service(2))
    });
    launcher.kill(service(1));
    let news = rig::collect(&mut launcher, "the failure of every rank", |news| failures(news).len() == 7);
    for (peer, (status, culprit, text)) in failures(&news) {
        assert_eq!(status, Status::PeerFailed, "{peer}: {text}");
        assert_eq!(culprit, Some(service(1)), "{peer}: {text}");
    }
}

#[test]
fn s38_ranks_that_never_come_are_listed_to_those_who_wait() {
    let mut launcher = Launcher::new(&impatient(2, 1, 3)).unwrap();
    rig::start_agents(&mut launcher, 0..2);
    rig::start_ranks(&mut launcher, [0, 1, 3, 5]);
    let news = rig::collect(&mut launcher, "the failure of every rank", |news| failures(news).len() == 4);
    for (peer, (status, _, text)) in failures(&news) {
        assert_eq!(status, Status::Timeout, "{peer}: {text}");
        assert!(text.contains("missing"), "{peer}: {text}");
        assert!(text.contains('2') || text.contains('4'), "{peer}: {text}");
    }
}

#[test]
fn s40_a_service_process_that_is_not_started_is_named_at_the_deadline() {
    let mut launcher = Launcher::new(&Options { deadline: Duration::from_secs(2), ..impatient(1, 2, 2) }).unwrap();
    launcher.withhold(Sp(1));
    rig::start_agents(&mut launcher, [0]);
    rig::start_ranks(&mut launcher, [0, 1]);
    let news = rig::collect(&mut launcher, "the failure of both ranks", |news| failures(news).len() == 2);
    let failures = failures(&news);
    let (status, culprit, text) = &failures[&rank(1)];
    assert_eq!((*status, *culprit), (Status::PeerFailed, Some(service(1))), "{text}");
    // Rank 0 has its own service process, which waits in vain for the other.
    let (status, _, text) = &failures[&rank(0)];
    assert!(matches!(status, Status::PeerFailed | Status::Timeout), "{text}");
}

/// Starts a whole job and waits until every rank has exported its slice.
fn running(options: &Options) -> (Launcher, BTreeMap<WorldRank, Slice>) {
    let mut launcher = Launcher::new(options).unwrap();
    rig::start_agents(&mut launcher, 0..options.agents());
    rig::start_ranks(&mut launcher, 0..options.world_size());
    let want = options.world_size() as usize;
    let news = rig::collect(&mut launcher, "every export", |news| exported(news).len() == want);
    (launcher, exported(&news))
}

/// Tells an agent where the slices are.
fn plan(launcher: &mut Launcher, reader: Peer, slices: &BTreeMap<WorldRank, Slice>) {
    let list: Vec<Slice> = slices.values().copied().collect();
    launcher.call(reader, ops::PLAN, Token(1), &Slice::list_to_body(&list), Vec::new()).unwrap();
}

/// Lets an agent read the slices; tells what it got from each rank.
fn read(launcher: &mut Launcher, reader: Peer) -> Vec<ReadResult> {
    let order = ReadOrder { size: 4096, reads: 0, seed: 0, patience: 2_000_000_000 };
    launcher.call(reader, ops::SLICES, Token(2), &order.to_body(), Vec::new()).unwrap();
    let answer = |item: &News| match item {
        News::Answer { peer, op: ops::SLICES, status: Status::Ok, body, .. } if *peer == reader => Some(body.clone()),
        _ => None,
    };
    let news = rig::collect(launcher, "the answer of the reader", |news| news.iter().any(|n| answer(n).is_some()));
    let body = news.iter().find_map(answer).unwrap();
    let mut r = Reader::new(&body);
    ReadTotals::get(&mut r).unwrap();
    ReadResult::list_from_body(r.rest()).unwrap()
}

#[test]
fn s39_memory_of_a_dead_rank_is_refused_and_the_others_stay_readable() {
    let options = impatient(2, 1, 2);
    let (mut launcher, slices) = running(&options);
    launcher.kill(rank(1));
    // Its service process notices by the link.
    rig::collect(&mut launcher, "the end of the rank", |news| {
        news.iter().any(|n| matches!(n, News::Ended(peer, _) if *peer == rank(1)))
    });
    plan(&mut launcher, service(0), &slices);
    plan(&mut launcher, service(1), &slices);
    let end = Instant::now() + rig::PATIENCE;
    while read(&mut launcher, service(0)).iter().any(|r| r.rank == WorldRank(1) && r.failed == 0) {
        assert!(Instant::now() < end, "the memory of the dead rank stays readable");
    }
    for reader in [service(0), service(1)] {
        for result in read(&mut launcher, reader) {
            if result.rank == WorldRank(1) {
                assert!(result.failed > 0 && result.reads == 0, "{reader}: {result:?}");
                assert!(matches!(result.status, Status::OwnerGone | Status::UnknownRegion), "{result:?}");
            } else {
                assert_eq!((result.failed, result.status), (0, Status::Ok), "{reader}: {result:?}");
            }
        }
    }
    // The groups can still be freed by those who live.
    for r in [0, 2, 3] {
        launcher.call(rank(r), ops::LEAVE, Token(9), &[], Vec::new()).unwrap();
    }
    let ended = |news: &[News]| {
        rig::peers_in(news, |n| match n {
            News::Ended(peer, status) if status.success() => Some(*peer),
            _ => None,
        })
    };
    let news = rig::collect(&mut launcher, "the leaving of the living", |news| ended(news).len() == 3);
    assert_eq!(ended(&news), BTreeSet::from([rank(0), rank(2), rank(3)]));
}

#[test]
fn reads_through_a_dead_service_process_fail_and_name_no_other() {
    let options = impatient(2, 1, 2);
    let (mut launcher, slices) = running(&options);
    launcher.kill(service(1));
    plan(&mut launcher, service(0), &slices);
    for result in read(&mut launcher, service(0)) {
        if result.rank.0 < 2 {
            assert_eq!((result.failed, result.status), (0, Status::Ok), "{result:?}");
        } else {
            assert!(result.failed > 0, "{result:?}");
            assert!(
                matches!(result.status, Status::PeerFailed | Status::UnknownGroup | Status::StaleGeneration),
                "{result:?}"
            );
        }
    }
}

#[test]
fn s53_the_endpoint_cache_is_mapped_by_all_ranks_of_an_agent_read_only_and_once() {
    let options = impatient(1, 1, 6);
    let (launcher, _) = running(&options);
    let arena = |peer: Peer| {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", launcher.pid(peer).unwrap())).unwrap();
        let line = maps.lines().find(|l| l.contains("memfd:umbra-endpoints")).expect("it maps the arena").to_owned();
        let fields: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        (fields[1].clone(), fields[4].clone())
    };
    let (mode, inode) = arena(service(0));
    assert_eq!(mode, "rw-s");
    for r in 0..6 {
        assert_eq!(arena(rank(r)), ("r--s".to_owned(), inode.clone()), "rank {r}");
    }
}

#[test]
fn an_idle_job_uses_less_than_one_percent_of_a_processor() {
    let options = rig::options(1, 2, 2);
    let (launcher, _) = running(&options);
    let ticks = |peer: Peer| {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", launcher.pid(peer).unwrap())).unwrap();
        let fields: Vec<u64> =
            stat.rsplit(')').next().unwrap().split_whitespace().skip(11).take(2).map(|f| f.parse().unwrap()).collect();
        fields.iter().sum::<u64>()
    };
    let everybody: Vec<Peer> = [service(0), service(1), rank(0), rank(1)].to_vec();
    let before: Vec<u64> = everybody.iter().map(|&p| ticks(p)).collect();
    // CPU time is counted, not wall time: 3 s are 300 ticks, of which 3 % is 9.
    std::thread::sleep(Duration::from_secs(3));
    for (&peer, before) in everybody.iter().zip(before) {
        let used = ticks(peer) - before;
        assert!(used <= 9, "{peer} used {used} ticks of 10 ms in 3 s");
    }
}

#[test]
fn a_service_process_that_is_started_again_gets_its_sleeping_ranks_back() {
    let options = rig::options(2, 1, 2);
    let (mut launcher, slices) = running(&options);
    launcher.kill(service(1));
    launcher.start_agent(Sp(1)).unwrap();
    let end = Instant::now() + rig::PATIENCE;
    loop {
        // Again, because the groups in which a rank is are looked up then.
        plan(&mut launcher, service(0), &slices);
        let results = read(&mut launcher, service(0));
        if results.iter().all(|r| r.failed == 0 && r.reads > 0) {
            break;
        }
        assert!(Instant::now() < end, "the ranks did not come back: {results:?}");
    }
    for r in 0..4 {
        launcher.call(rank(r), ops::LEAVE, Token(9), &[], Vec::new()).unwrap();
    }
    let left = |item: &News| matches!(item, News::Ended(peer, status) if *peer != service(1) && status.success());
    rig::collect(&mut launcher, "the leaving of all ranks", |news| news.iter().filter(|n| left(n)).count() == 4);
}

/// Stops a process for good or lets it go on.
fn signal(launcher: &Launcher, peer: Peer, signal: Signal) {
    let pid = i32::try_from(launcher.pid(peer).unwrap()).unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

#[test]
fn a_service_process_that_is_silent_for_a_while_is_not_taken_for_dead() {
    let deadline = Duration::from_secs(6);
    let options = Options { deadline, ..rig::options(2, 1, 1) };
    let (mut launcher, slices) = running(&options);
    signal(&launcher, service(1), Signal::STOP);
    // Longer than a link may be gone, shorter than a process may be silent.
    std::thread::sleep(deadline / 2);
    signal(&launcher, service(1), Signal::CONT);
    plan(&mut launcher, service(0), &slices);
    for result in read(&mut launcher, service(0)) {
        assert_eq!((result.failed, result.status), (0, Status::Ok), "{result:?}");
    }
    for r in [0, 1] {
        launcher.call(rank(r), ops::LEAVE, Token(9), &[], Vec::new()).unwrap();
    }
    let left = |item: &News| matches!(item, News::Ended(peer, status) if *peer != service(0) && status.success());
    rig::collect(&mut launcher, "the leaving of both ranks", |news| news.iter().filter(|n| left(n)).count() == 2);
}

#[test]
fn how_long_a_process_may_be_silent_can_be_chosen() {
    let options =
        Options { deadline: Duration::from_secs(120), silence: Some(Duration::from_secs(3)), ..rig::options(2, 1, 1) };
    let (mut launcher, slices) = running(&options);
    signal(&launcher, service(1), Signal::STOP);
    plan(&mut launcher, service(0), &slices);
    let end = Instant::now() + rig::PATIENCE;
    // Reads that are under way run into their own time-out; once it counts as dead they are not even begun.
    while !read(&mut launcher, service(0)).iter().any(|r| r.rank == WorldRank(1) && r.status == Status::PeerFailed) {
        assert!(Instant::now() < end, "nobody misses the silent service process");
    }
}

#[test]
fn an_agent_ends_cleanly_when_asked_to() {
    let options = impatient(1, 1, 1);
    let (mut launcher, _) = running(&options);
    launcher.terminate(service(0));
    let news = rig::collect(&mut launcher, "the end of the agent", |news| {
        news.iter().any(|n| matches!(n, News::Ended(peer, _) if *peer == service(0)))
    });
    let clean = news.iter().any(|n| matches!(n, News::Ended(peer, status) if *peer == service(0) && status.success()));
    assert!(clean, "{news:?}");
    assert_eq!(launcher.directory().sockets(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn a_stopped_agent_ends_the_job_at_the_deadline_while_others_read_on() {
    let options = Options { reads: 5_000_000, deadline: Duration::from_secs(2), ..rig::options(3, 1, 1) };
    let (mut pids, mut stopped) = (Vec::new(), None);
    let outcome = job::run(&options, &mut |event| match event {
        Event::Started { process, .. } => pids.push((process.peer, process.pid)),
        Event::Progress { peer, reads, .. } if reads > 0 && peer == service(0) && stopped.is_none() => {
            let pid = pids.iter().find(|(peer, _)| *peer == service(1)).unwrap().1;
            kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), Signal::STOP).unwrap();
            stopped = Some(Instant::now());
        }
        _ => {}
    });
    let after = stopped.unwrap().elapsed();
    match outcome {
        Err(JobError::Timeout { missing, .. }) => assert!(missing.contains(&service(1)), "{missing:?}"),
        Err(JobError::Failed { failure, .. }) => assert_eq!(failure.culprit, Some(service(1)), "{failure:?}"),
        other => panic!("{other:?}"),
    }
    assert!(after < rig::PATIENCE, "{after:?}");
}
