//! Ranks as sessions of this process, against real agents.
//!
//! The tests are about groups, generations, impostors and restarts (s17-s19, s22, s25, s29, s37, s42).
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use umbra::admin::{Body as _, ReadOrder, ReadResult, ReadTotals, Slice, ops};
use umbra::ask::{Asker, Target};
use umbra::driver::now;
use umbra::job::{Launcher, News, Options};
use umbra::link::{Address, Close, socket_path};
use umbra::secret::Secret;
use umbra::session::{Exported, Seat, Session, SessionError, Settings};
use umbra::sys::segment::Segment;
use umbra_core::codec::Reader;
use umbra_core::endpoints::LookupError;
use umbra_core::error::Status;
use umbra_core::peer::{Host, Peer, Rank, Sp, WorldRank};
use umbra_core::time::Lapse;
use umbra_core::wire::{BODY_MAX, Token};
use umbra_tests::agents::{Agents, all};
use umbra_tests::rig::{self, service};

#[test]
fn s29_groups_are_created_freed_and_created_again_with_a_new_generation() {
    let agents = Agents::start(2, 2, 2);
    let mut sessions = agents.world();
    let members = [WorldRank(3), WorldRank(0), WorldRank(1)];
    let mut last = None;
    for round in 0..8 {
        let groups =
            all(&mut sessions[..], |s| members.contains(&s.seat().rank).then(|| s.create_group(9, &members).unwrap()));
        for (session, group) in sessions.iter().zip(&groups) {
            let Some(group) = group else { continue };
            assert_eq!(group.size, 3);
            for (rank, member) in (0..).zip(members) {
                let endpoint = session.endpoints().lookup(group.handle, Rank(rank)).unwrap();
                assert_eq!(endpoint.peer, Peer::rank(member).unwrap(), "round {round}");
                assert_eq!(endpoint.sp, Sp(member.0 / 2 * 2 + member.0 % 2));
            }
            let beyond = session.endpoints().lookup(group.handle, Rank(3));
            assert!(matches!(beyond, Err(LookupError::RankOutOfRange { .. })));
            if let Some(last) = last {
                let stale = session.endpoints().lookup(last, Rank(0));
                assert_eq!(stale, Err(LookupError::StaleGeneration), "round {round}");
            }
        }
        let ended = all(&mut sessions[..], |s| {
            let group = members.contains(&s.seat().rank).then(|| s.group(groups[s.seat().rank.index()].unwrap().key));
            group.map(|group| {
                s.free_group(group.unwrap()).unwrap();
                assert_eq!(s.free_group(group.unwrap()).unwrap_err().status(), Status::AlreadyRevoked);
                s.wait_ended(group.unwrap()).unwrap().status
            })
        });
        assert_eq!(ended.iter().flatten().collect::<Vec<_>>(), [&Status::Ok; 3]);
        // The same service process, the same arena: only the generation of the slot is another one.
        last = groups[0].map(|group| group.handle);
    }
    all(&mut sessions[..], |s| s.world().unwrap());
    std::thread::scope(|scope| {
        for session in sessions {
            scope.spawn(|| session.leave().unwrap());
        }
    });
}

#[test]
fn an_agent_tells_of_all_its_groups_however_many_there_are() {
    const GROUPS: u32 = 800;
    let mut agents = Agents::start(1, 1, 1);
    let mut sessions = agents.world();
    for id in 1..=GROUPS {
        sessions[0].create_group(id, &[WorldRank(0)]).unwrap();
    }
    let secret = Secret::read(&agents.launcher.directory().secret()).unwrap();
    let address = Address::Unix(socket_path(&agents.directory(), Sp(0)));
    let patience = Lapse::from_secs(60);
    let mut asker = Asker::connect(secret, vec![Target { sp: Sp(0), address }], patience).unwrap();
    let told = [asker.call(0, ops::GROUPS, &[], patience).unwrap(), agents.ask(0, ops::GROUPS, Token(1), &[])];
    for text in told.map(|text| String::from_utf8(text).unwrap()) {
        assert!(text.len() > BODY_MAX, "{}", text.len());
        let whole = text.lines().filter(|line| line.contains(", digest ")).count();
        assert_eq!((whole, text.lines().count()), (1 + GROUPS as usize, 1 + GROUPS as usize));
    }
}

#[test]
fn s18_an_impostor_is_refused_and_the_rank_keeps_working() {
    let agents = Agents::start(1, 1, 2);
    let mut sessions = agents.world();
    let refused = Session::join(agents.settings(1)).err().expect("the seat is taken");
    assert_eq!(refused.status(), Status::DuplicateRank, "{refused}");
    let members = [WorldRank(0), WorldRank(1)];
    let groups = all(&mut sessions[..], |s| s.create_group(4, &members).unwrap());
    assert_eq!(groups.len(), 2);
}

#[test]
fn s19_s20_a_rank_that_contradicts_the_job_is_told_so() {
    let agents = Agents::start(1, 2, 2);
    let _sessions = agents.world();
    let base = agents.settings(1);
    let other_size = Settings { seat: Seat { size: 9, ..base.seat }, ..base.clone() };
    let refused = Session::join(other_size).err().expect("another size");
    assert!(matches!(refused.status(), Status::Conflict | Status::DuplicateRank), "{refused}");
    let other_local = Settings { seat: Seat { n_local: 7, ..base.seat }, ..base.clone() };
    let refused = Session::join(other_local).err().expect("another number of local ranks");
    assert!(matches!(refused.status(), Status::Conflict | Status::DuplicateRank), "{refused}");
    let beyond = Settings { seat: Seat { host: Host(5), ..base.seat }, ..base };
    assert!(matches!(Session::join(beyond), Err(SessionError::NoSuchSeat)));
}

#[test]
fn s25_a_rank_with_another_secret_is_refused_before_anything_else() {
    let agents = Agents::start(1, 1, 1);
    let settings = Settings { secret: Secret::from_bytes([3; 32]), ..agents.settings(0) };
    match Session::join(settings).err() {
        Some(SessionError::Unreachable { sp: Sp(0), why: Close::Unauthenticated }) => {}
        other => panic!("{other:?}"),
    }
    // The seat is still free for who has the secret.
    Session::join(agents.settings(0)).unwrap().leave().unwrap();
}

#[test]
fn s22_hostile_bytes_on_every_port_disturb_nobody() {
    let mut agents = Agents::start(1, 2, 2);
    let mut sessions = agents.world();
    let job = agents.job();
    let mut state = 0x1234_5678_9abc_def1_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for round in 0..60 {
        for sp in 0..2 {
            let address = job.address(Sp(sp)).unwrap();
            let mut bytes: Vec<u8> = (0..random() % 600).map(|_| random() as u8).collect();
            if round % 2 == 0 && bytes.len() > 8 {
                bytes[..7].copy_from_slice(b"\x01UMBL\x01\x00");
            }
            for address in [address.services, address.ranks] {
                let mut stream = TcpStream::connect(address).unwrap();
                // The agent may have closed it already.
                let _ = stream.write_all(&bytes);
                if round % 3 == 0 {
                    let _ = stream.shutdown(std::net::Shutdown::Write);
                    let _ = stream.read(&mut [0; 64]);
                }
            }
            let mut stream = UnixStream::connect(socket_path(&agents.directory(), Sp(sp))).unwrap();
            let _ = stream.write_all(&bytes);
        }
    }
    let members = [WorldRank(1), WorldRank(0)];
    all(&mut sessions[..], |s| s.create_group(2, &members).unwrap());
    assert!(rig::runs(agents.launcher.pid(service(0)).unwrap()));
    assert!(rig::runs(agents.launcher.pid(service(1)).unwrap()));
    agents.launcher.terminate(service(0));
}

/// Lets the service process `reader` read a slice.
fn read(launcher: &mut Launcher, reader: Peer, slice: Slice, planned: &mut bool) -> ReadResult {
    if !std::mem::replace(planned, true) {
        launcher.call(reader, ops::PLAN, Token(1), &Slice::list_to_body(&[slice]), Vec::new()).unwrap();
    }
    let order = ReadOrder { size: 1000, reads: 0, seed: 0, patience: 2_000_000_000 };
    launcher.call(reader, ops::SLICES, Token(2), &order.to_body(), Vec::new()).unwrap();
    let answer = |n: &News| match n {
        News::Answer { op: ops::SLICES, body, .. } => Some(body.clone()),
        _ => None,
    };
    let news = rig::collect(launcher, "the answer of the reader", |news| news.iter().any(|n| answer(n).is_some()));
    let body = news.iter().find_map(answer).unwrap();
    let mut r = Reader::new(&body);
    ReadTotals::get(&mut r).unwrap();
    ReadResult::list_from_body(r.rest()).unwrap()[0]
}

#[test]
fn s46_memory_that_was_taken_back_is_refused() {
    let mut agents = Agents::start(1, 2, 2);
    let mut sessions = agents.world();
    let rank = &mut sessions[0];
    // Each reader is told of one slice only.
    for reader in [service(0), service(1)] {
        let bytes: Vec<u8> = (0..5000u32).map(|i| ((i * 31) >> 3) as u8).collect();
        let digest = *blake3::hash(&bytes).as_bytes();
        let in_segment = reader == service(1);
        let key = if in_segment {
            let segment = Segment::create("umbra-test", bytes.len()).unwrap();
            segment.write(0, &bytes).unwrap();
            rank.export_segment(segment).unwrap()
        } else {
            rank.export_bytes(bytes.clone()).unwrap()
        };
        let (address, len) = rank.exported(key).unwrap();
        let slice = Slice { rank: WorldRank(0), address, len };
        let mut planned = false;
        let result = read(&mut agents.launcher, reader, slice, &mut planned);
        assert_eq!((result.failed, result.digest), (0, digest), "{reader}: {result:?}");
        match rank.revoke(key).unwrap() {
            Exported::Bytes(back) => assert!(!in_segment && back == bytes),
            Exported::Segment(segment) => assert!(in_segment && segment.len() == bytes.len()),
        }
        let result = read(&mut agents.launcher, reader, slice, &mut planned);
        assert!(result.failed > 0 && result.reads == 0, "{reader}: {result:?}");
        assert!(rank.revoke(key).is_err());
    }
}

#[test]
fn s37_a_restarted_service_process_gets_its_ranks_groups_and_regions_back() {
    let mut agents = Agents::start(2, 1, 1);
    let mut sessions = agents.world();
    let bytes = vec![7; 3000];
    let digest = *blake3::hash(&bytes).as_bytes();
    let key = sessions[1].export_bytes(bytes).unwrap();
    let (address, len) = sessions[1].exported(key).unwrap();
    let slice = Slice { rank: WorldRank(1), address, len };
    let mut planned = false;
    let before = read(&mut agents.launcher, service(0), slice, &mut planned);
    assert_eq!((before.failed, before.digest), (0, digest));
    let kept = sessions[1].world().unwrap();
    agents.launcher.kill(service(1));
    agents.launcher.start_agent(Sp(1)).unwrap();
    // The ranks only have to make progress.
    let end = Instant::now() + rig::PATIENCE;
    loop {
        all(&mut sessions[..], |s| s.progress(now() + Lapse::from_millis(20)).unwrap());
        let after = read(&mut agents.launcher, service(0), slice, &mut planned);
        if after.failed == 0 {
            assert_eq!(after.digest, digest);
        }
        if after.failed == 0 && sessions.iter().all(|s| s.world().is_some()) {
            break;
        }
        assert!(Instant::now() < end, "it did not come back: {after:?}");
    }
    let world = sessions[1].world().unwrap();
    assert_eq!(sessions[1].endpoints().lookup(world.handle, Rank(0)).unwrap().sp, Sp(0));
    assert_eq!(sessions[1].endpoints().lookup(kept.handle, Rank(0)), Err(LookupError::StaleGeneration));
    assert_eq!(sessions[1].current(kept), Some(world));
}

#[test]
fn an_earlier_life_that_comes_back_takes_nothing_from_the_one_that_has_its_seat() {
    let mut agents = Agents::of(rig::options(1, 1, 1));
    let mut earlier = Session::join(agents.settings(0)).unwrap();
    earlier.export_bytes(vec![1; 3000]).unwrap();
    agents.launcher.kill(service(0));
    agents.launcher.start_agent(Sp(0)).unwrap();
    let _ = agents.status(0);
    // The earlier life has not looked at its links since.
    let mut later = Session::join(agents.settings(0)).unwrap();
    let bytes = vec![2; 3000];
    let digest = *blake3::hash(&bytes).as_bytes();
    let key = later.export_bytes(bytes).unwrap();
    let refused = earlier.recover().unwrap_err();
    assert_eq!(refused.status(), Status::DuplicateRank, "{refused}");
    let (address, len) = later.exported(key).unwrap();
    let slice = Slice { rank: WorldRank(0), address, len };
    let result = read(&mut agents.launcher, service(0), slice, &mut false);
    assert_eq!((result.failed, result.digest), (0, digest), "{result:?}");
}

#[test]
fn memory_that_is_being_taken_back_is_not_exported_again() {
    let mut agents = Agents::of(Options { shadows: 2, ..rig::options(1, 2, 1) });
    let mut session = Session::join(Settings { shadows: 2, ..agents.settings(0) }).unwrap();
    let key = session.export_bytes(vec![1; 3000]).unwrap();
    agents.launcher.kill(service(1));
    agents.launcher.start_agent(Sp(1)).unwrap();
    // The other one does not answer before this one is back.
    let pid = Pid::from_raw(agents.launcher.pid(service(0)).unwrap() as i32).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    std::thread::scope(|scope| {
        let taken = scope.spawn(|| session.revoke(key).unwrap());
        let end = Instant::now() + rig::PATIENCE;
        while agents.status(1)["links"] < 2 {
            assert!(Instant::now() < end, "the launcher and nobody else is back");
        }
        kill_process(pid, Signal::CONT).unwrap();
        taken.join().unwrap();
    });
    assert_eq!(agents.status(1)["regions"], 0);
}

#[test]
fn the_service_process_that_does_not_answer_is_named_and_not_the_first() {
    let deadline = Duration::from_secs(5);
    let agents = Agents::of(Options { shadows: 2, deadline, ..rig::options(1, 2, 1) });
    let mut session = Session::join(Settings { shadows: 2, ..agents.settings(0) }).unwrap();
    session.export_bytes(vec![1; 3000]).unwrap();
    let pid = Pid::from_raw(agents.launcher.pid(service(1)).unwrap() as i32).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    let exported = session.export_bytes(vec![2; 3000]);
    kill_process(pid, Signal::CONT).unwrap();
    match exported {
        Err(SessionError::Timeout { sp: Sp(1), .. }) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_group_that_could_not_be_created_is_left_and_can_be_created_later() {
    let agents = Agents::start(1, 1, 2);
    let mut sessions = agents.world();
    let members = [WorldRank(0), WorldRank(1)];
    let refused = sessions[0].create_group(5, &members).unwrap_err();
    assert_eq!(refused.status(), Status::Timeout, "{refused}");
    // Once the end has come to both, nothing of the failure is left.
    let end = Instant::now() + rig::PATIENCE;
    loop {
        let made = all(&mut sessions[..], |s| s.create_group(5, &members));
        match made.iter().find_map(|made| made.as_ref().err()) {
            None => break,
            Some(why) => assert!(Instant::now() < end, "it can still not be created: {why}"),
        }
    }
}

#[test]
fn a_second_service_process_that_stays_dead_keeps_nobody_from_going_on_and_can_come_back() {
    let deadline = Duration::from_secs(2);
    let mut agents = Agents::of(Options { shadows: 2, deadline, ..rig::options(1, 2, 1) });
    let mut session = Session::join(Settings { shadows: 2, ..agents.settings(0) }).unwrap();
    let keys = [1, 2].map(|byte| session.export_bytes(vec![byte; 3000]).unwrap());
    agents.launcher.kill(service(1));
    // It is dialled again in vain until the deadline, and then given up.
    match session.recover().unwrap_err() {
        SessionError::Unreachable { sp: Sp(1), .. } | SessionError::ServiceLost { sp: Sp(1) } => {}
        other => panic!("{other}"),
    }
    let end = now() + Lapse::from_secs(4);
    while now() < end {
        session.progress(end).unwrap();
    }
    session.revoke(keys[0]).unwrap();
    session.create_group(3, &[WorldRank(0)]).unwrap();
    assert_eq!(agents.status(0)["regions"], 1);
    let refused = session.export_bytes(vec![3; 3000]).unwrap_err();
    assert_eq!(refused.culprit(), Some(service(1)), "{refused}");
    agents.launcher.start_agent(Sp(1)).unwrap();
    let _ = agents.status(1);
    session.recover().unwrap();
    session.export_bytes(vec![3; 3000]).unwrap();
    // It was told of what it had lost before that, over the same link.
    assert_eq!(agents.status(1)["regions"], 2);
    session.leave().unwrap();
}
