//! Ranks that read each other's memory through their service processes, by ticket.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use umbra::driver::now;
use umbra::job::{DataPath, Options};
use umbra::session::{Session, SessionError, Settings, SharedSession};
use umbra::sys::heap::{filled, total};
use umbra::sys::segment::Segment;
use umbra_core::error::Status;
use umbra_core::key::Key;
use umbra_core::peer::{Peer, WorldRank};
use umbra_core::ticket::{TICKET, Ticket};
use umbra_core::time::Lapse;
use umbra_tests::agents::{Agents, DEADLINE, all};
use umbra_tests::rig::{self, service};

/// More than one answer carries, and not a multiple of anything.
const LEN: usize = 300_007;

fn bytes_of(rank: u32) -> Vec<u8> {
    (0..LEN as u32).map(|i| (i.wrapping_mul(2_654_435_761).wrapping_add(rank * 97) >> 11) as u8).collect()
}

/// Every rank exports its bytes, every second one from its heap; the tickets travel as bytes.
fn export_all(sessions: &mut [Session]) -> Vec<(Key, [u8; TICKET])> {
    all(sessions, |s| {
        let rank = s.seat().rank.0;
        let key = if rank % 2 == 0 {
            let segment = Segment::create("umbra-test", LEN).unwrap();
            segment.write(0, &bytes_of(rank)).unwrap();
            s.export_segment(segment).unwrap()
        } else {
            s.export_bytes(bytes_of(rank)).unwrap()
        };
        (key, s.ticket(key).unwrap().to_bytes())
    })
}

/// Reads all ranks from all ranks; every second read is posted, all of a rank at once.
fn read_all(sessions: &mut [Session], tickets: &[Ticket]) {
    all(sessions, |s| {
        let mut posted = Vec::new();
        for (rank, ticket) in (0..).zip(tickets) {
            let want = bytes_of(rank);
            for (offset, len) in [(0, LEN), (LEN - 1, 1), (7, 8), (LEN, 0), (12_345, 100_000)] {
                let want = &want[offset..offset + len];
                if (offset + s.seat().rank.index()) % 2 == 0 {
                    let mut got = vec![0; len];
                    s.read(ticket, offset as u64, &mut got).unwrap();
                    assert!(got == want, "{len} bytes at {offset} of rank {rank}");
                } else {
                    let read = s.post_read(ticket, offset as u64, vec![0; len]).unwrap();
                    posted.push((read, want.to_vec(), rank));
                }
            }
        }
        let end = Instant::now() + rig::PATIENCE;
        while !posted.is_empty() {
            assert!(Instant::now() < end, "{} reads do not end", posted.len());
            posted.retain(|(read, want, rank)| match s.poll_read(*read).unwrap() {
                Some(got) => {
                    assert!(got == *want, "{} bytes of rank {rank}", want.len());
                    assert_eq!(s.poll_read(*read).unwrap_err().status(), Status::UnknownRegion, "it is over");
                    false
                }
                None => true,
            });
        }
    });
}

#[test]
fn a_rank_that_has_only_tcp_reads_what_others_export() {
    let agents = Agents::start(2, 1, 1);
    // Without shared memory there is no endpoint cache to map, which `join` would wait for.
    let mut reader = Session::connect(Settings { sockets: None, ..agents.settings(0) }).unwrap();
    let mut owner = Session::connect(agents.settings(1)).unwrap();
    let end = Instant::now() + rig::PATIENCE;
    while reader.world().is_none() || owner.world().is_none() {
        assert!(Instant::now() < end, "the world group does not become full");
        for session in [&mut reader, &mut owner] {
            session.progress(now() + Lapse::from_millis(1)).unwrap();
        }
    }
    let key = owner.export_bytes(bytes_of(1)).unwrap();
    let ticket = owner.ticket(key).unwrap();
    let mut got = vec![0; LEN];
    reader.read(&ticket, 0, &mut got).unwrap();
    assert!(got == bytes_of(1));
    assert!(reader.export_bytes(vec![1]).is_err());
}

fn refused(result: Result<(), SessionError>, owner: u32, status: Status) {
    match result {
        Err(SessionError::Read { owner: of, status: why, .. }) => {
            assert_eq!((of, why), (Peer::rank(WorldRank(owner)).unwrap(), status));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_rank_reads_every_rank_through_service_processes() {
    let mut agents = Agents::start(2, 2, 3);
    let mut sessions = agents.world();
    let tickets: Vec<Ticket> =
        export_all(&mut sessions).iter().map(|(_, bytes)| Ticket::parse(bytes).unwrap()).collect();
    read_all(&mut sessions, &tickets);
    // Service processes did it, and count it.
    let n = sessions.len() as u64;
    let (mut reads, mut bytes) = (0, 0);
    for sp in 0..4 {
        let status = agents.status(sp);
        reads += status["reads_for_ranks"];
        bytes += status["bytes_for_ranks"];
    }
    assert_eq!(bytes, n * n * (LEN as u64 + 1 + 8 + 100_000));
    assert!(reads >= n * n * (LEN as u64).div_ceil(32 * 1024));
}

#[test]
fn without_shared_memory_between_service_processes_ranks_read_too() {
    let options = Options { data_path: DataPath::Asked, deadline: DEADLINE, ..rig::options(2, 1, 1) };
    let agents = Agents::of(options);
    let mut sessions = agents.world();
    let tickets: Vec<Ticket> =
        export_all(&mut sessions).iter().map(|(_, bytes)| Ticket::parse(bytes).unwrap()).collect();
    read_all(&mut sessions, &tickets);
}

#[test]
fn s44_s46_s47_what_a_ticket_does_not_open_is_refused_with_the_reason() {
    let agents = Agents::start(2, 1, 1);
    let mut sessions = agents.world();
    let exported = export_all(&mut sessions);
    let [mine, theirs] = [0, 1].map(|n| Ticket::parse(&exported[n].1).unwrap());
    let [reader, owner] = &mut sessions[..] else { panic!("two ranks") };
    let mut eight = [0; 8];
    for offset in [LEN as u64 - 7, LEN as u64, u64::MAX - 3, u64::MAX] {
        refused(reader.read(&theirs, offset, &mut eight), 1, Status::OutOfBounds);
    }
    // A ticket that promises more than the owner exported.
    let forged = Ticket { len: u64::MAX / 2, ..theirs };
    refused(reader.read(&forged, LEN as u64, &mut eight), 1, Status::OutOfBounds);
    let unknown = Ticket { key: Key::new(theirs.key.owner(), 77, 1), ..theirs };
    refused(reader.read(&unknown, 0, &mut eight), 1, Status::UnknownRegion);
    let nobody = Ticket { key: Key::new(Peer::rank(WorldRank(99)).unwrap(), 0, 1), ..theirs };
    refused(reader.read(&nobody, 0, &mut eight), 99, Status::RankOutOfRange);
    let service = Ticket { key: Key::new(Peer::service(umbra_core::peer::Sp(0)).unwrap(), 0, 1), ..theirs };
    assert_eq!(reader.read(&service, 0, &mut eight).unwrap_err().status(), Status::UnknownRegion);
    // A rank may read itself.
    reader.read(&mine, 0, &mut eight).unwrap();
    assert_eq!(eight, bytes_of(0)[..8]);

    owner.revoke(theirs.key).unwrap();
    refused(reader.read(&theirs, 0, &mut eight), 1, Status::KeyRevoked);
    // The place is used again, at the same address if the allocator likes; the old ticket does not open it.
    let mut last = theirs;
    for round in 0..1030 {
        let key = owner.export_bytes(vec![round as u8; LEN]).unwrap();
        let ticket = owner.ticket(key).unwrap();
        reader.read(&ticket, 0, &mut eight).unwrap();
        assert_eq!(eight, [round as u8; 8]);
        let status = reader.read(&last, 0, &mut eight).unwrap_err().status();
        assert!(matches!(status, Status::KeyRevoked | Status::StaleKey), "round {round}: {status}");
        owner.revoke(key).unwrap();
        last = ticket;
    }
    refused(reader.read(&theirs, 0, &mut eight), 1, Status::StaleKey);
}

#[test]
fn a_read_into_more_than_is_free_is_refused_and_others_go_on() {
    let agents = Agents::start(1, 1, 1);
    let mut session = agents.world().pop().unwrap();
    let key = session.export_bytes(bytes_of(0)).unwrap();
    let ticket = session.ticket(key).unwrap();
    let forged = Ticket { len: u64::MAX / 2, ..ticket };
    let bytes = total().unwrap() as usize - (1 << 20);
    let Ok(mut huge) = filled(0, bytes) else { return rig::skip("the system promises no more memory than is free") };
    let mut eight = [0; 8];
    assert!(matches!(session.read(&forged, 0, &mut huge), Err(SessionError::NoMemory(none)) if none.bytes == bytes));
    refused(session.read(&ticket, 0, &mut huge), 0, Status::OutOfBounds);
    session.read(&ticket, 9, &mut eight).unwrap();
    assert_eq!(eight, bytes_of(0)[9..17]);
    let shared = SharedSession::new(session).unwrap();
    assert!(matches!(shared.read(&forged, 0, &mut huge), Err(SessionError::NoMemory(none)) if none.bytes == bytes));
    refused(shared.read(&ticket, 0, &mut huge), 0, Status::OutOfBounds);
    shared.read(&ticket, 3, &mut eight).unwrap();
    assert_eq!(eight, bytes_of(0)[3..11]);
}

#[test]
fn s50_a_dead_owner_and_a_dead_service_process_are_named() {
    let mut agents = Agents::start(2, 1, 2);
    let mut sessions = agents.world();
    let exported = export_all(&mut sessions);
    let tickets: Vec<Ticket> = exported.iter().map(|(_, bytes)| Ticket::parse(bytes).unwrap()).collect();
    let mut eight = [0; 8];
    // A rank dies: it leaves nothing, its links break.
    drop(sessions.remove(3));
    let end = Instant::now() + rig::PATIENCE;
    loop {
        match sessions[0].read(&tickets[3], 0, &mut eight) {
            Err(SessionError::Read { status: Status::OwnerGone, .. }) => break,
            Ok(()) => assert!(Instant::now() < end, "the memory of a dead rank is read"),
            Err(other) => panic!("{other}"),
        }
    }
    sessions[0].read(&tickets[2], 0, &mut eight).unwrap();

    agents.launcher.kill(service(1));
    let mut posted: Vec<_> =
        (0..20).map(|n| sessions[0].post_read(&tickets[2], n, vec![0; LEN - 20]).unwrap()).collect();
    let failure = loop {
        let Some(read) = posted.pop() else { panic!("every read ended well") };
        match sessions[0].wait_read(read) {
            Err(error) => break error,
            Ok(_) => posted.push(sessions[0].post_read(&tickets[2], 0, vec![0; 8]).unwrap()),
        }
    };
    assert!(matches!(failure.status(), Status::PeerFailed | Status::Timeout), "{failure}");
    assert_eq!(failure.culprit(), Some(service(1)), "{failure}");
    for read in posted {
        let _ = sessions[0].wait_read(read);
    }
}

#[test]
fn a_silent_service_process_ends_a_read_at_its_deadline_and_is_named() {
    let agents = Agents::of(Options { deadline: Duration::from_secs(5), ..rig::options(1, 1, 2) });
    let mut sessions = agents.world();
    let tickets: Vec<Ticket> =
        export_all(&mut sessions).iter().map(|(_, bytes)| Ticket::parse(bytes).unwrap()).collect();
    let pid = Pid::from_raw(agents.launcher.pid(service(0)).unwrap() as i32).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    let began = Instant::now();
    let read = sessions[0].post_read(&tickets[1], 0, vec![0; LEN]).unwrap();
    let cancelled = sessions[0].post_read(&tickets[1], 0, vec![0; 8]).unwrap();
    assert!(sessions[0].poll_read(read).unwrap().is_none());
    sessions[0].cancel_read(cancelled).unwrap();
    assert!(sessions[0].poll_read(cancelled).is_err());
    let failure = sessions[0].wait_read(read).unwrap_err();
    assert_eq!(failure.culprit(), Some(service(0)), "{failure}");
    let waited = began.elapsed();
    assert!(waited < Duration::from_secs(30), "{waited:?}");
    kill_process(pid, Signal::CONT).unwrap();
}
