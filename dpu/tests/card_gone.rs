//! The RDMA device of an agent goes, and comes back.
//!
//! A library stands in for libibverbs: the agent has one device, and its ranks, in the same process, another one.
#![cfg(feature = "std")]
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

#[path = "../../host/tests/fake/mod.rs"]
mod fake;

use std::net::TcpListener;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use umbra::config::{Job, Platform};
use umbra::driver::now;
use umbra::secret::Secret;
use umbra::session::{Seat, Session, SessionError, Settings};
use umbra_core::error::Status;
use umbra_core::peer::{Host, LocalRank, Sp, WorldRank};
use umbra_core::ticket::Ticket;
use umbra_core::time::Lapse;
use umbra_dpu::hosted;

/// Far longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);
/// After a quarter of that a silent device is looked after.
const DEADLINE: Duration = Duration::from_secs(12);
const RANKS: u32 = 3;

/// Starts an agent in a thread, which ends with this process.
fn start_agent(job: Job, secret: Secret) {
    let settings = hosted::Settings {
        sp: Sp(0),
        job,
        secret,
        sockets: None,
        here: Vec::new(),
        shadows: 1,
        deadline: DEADLINE,
        silence: None,
        device: Some("fake0".parse().unwrap()),
        stage: 0,
        members: 1,
        asked: false,
        supervised: false,
    };
    let (ready, is_ready) = mpsc::channel();
    thread::spawn(move || hosted::serve(&settings, || ready.send(()).unwrap()));
    is_ready.recv_timeout(PATIENCE).unwrap();
}

/// All ranks of a job with one agent.
fn join() -> Vec<Session> {
    // Held until both are chosen, so that they differ.
    let held = [0, 1].map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
    let [services, ranks] = held.map(|listener| listener.local_addr().unwrap().port());
    let line = format!("# Format version: 1\nhost,dpu:127.0.0.1:{services}:{ranks}\n");
    let job = Platform::parse(&line, "job.cfg").and_then(|platform| platform.job(&["dpu"])).unwrap();
    let secret = Secret::from_bytes([1; 32]);
    start_agent(job.clone(), secret.clone());
    let settings = |rank| {
        let (host, local) = (Host(0), LocalRank(rank));
        let seat = Seat { rank: WorldRank(rank), size: RANKS, host, local, n_local: RANKS };
        let device = Some("fake1".parse().unwrap());
        Settings { deadline: DEADLINE, device, ..Settings::new(job.clone(), secret.clone(), seat) }
    };
    thread::scope(|scope| {
        let joins: Vec<_> = (0..RANKS).map(settings).map(|settings| scope.spawn(|| Session::join(settings))).collect();
        joins.into_iter().map(|join| join.join().unwrap().unwrap()).collect()
    })
}

/// Reads from all owners at once, who make progress meanwhile; how each read ended.
fn read_all(owners: &mut [Session], reader: &mut Session, tickets: &[Ticket]) -> Vec<Result<Vec<u8>, Status>> {
    let reads = tickets.iter().map(|ticket| reader.post_read(ticket, 8, vec![0; 64]).unwrap());
    let reads: Vec<_> = reads.collect();
    let ended = reads.into_iter().map(|read| {
        loop {
            match reader.poll_read(read) {
                Ok(Some(bytes)) => return Ok(bytes),
                Ok(None) => {}
                Err(SessionError::Read { status, .. }) => return Err(status),
                Err(error) => panic!("{error}"),
            }
            for owner in &mut *owners {
                owner.progress(now() + Lapse::from_millis(1)).unwrap();
            }
        }
    });
    ended.collect()
}

#[test]
fn ranks_are_read_again_once_the_device_of_their_agent_is_back() {
    if !fake::is_child() {
        fake::over_fake("ranks_are_read_again_once_the_device_of_their_agent_is_back", "FAULT", "gone");
        return;
    }
    let mut sessions = join();
    let mut reader = sessions.pop().unwrap();
    let owners = &mut sessions[..];
    let export = |(owner, seed): (&mut Session, u8)| {
        let key = owner.export_bytes(vec![seed; 4096]).unwrap();
        owner.ticket(key).unwrap()
    };
    let tickets: Vec<Ticket> = owners.iter_mut().zip(1..).map(export).collect();
    let good = [Ok(vec![1; 64]), Ok(vec![2; 64])];
    assert_eq!(read_all(owners, &mut reader, &tickets), good);

    std::fs::write(fake::away(), []).unwrap();
    // It says nothing, so it is found gone when it should have ended something.
    let broken = [Err(Status::QueueBroken), Err(Status::QueueBroken)];
    assert_eq!(read_all(owners, &mut reader, &tickets), broken);
    let unreachable = [Err(Status::Unreachable), Err(Status::Unreachable)];
    assert_eq!(read_all(owners, &mut reader, &tickets), unreachable);

    std::fs::remove_file(fake::away()).unwrap();
    let end = Instant::now() + PATIENCE;
    loop {
        let read = read_all(owners, &mut reader, &tickets);
        if read == good {
            return;
        }
        assert!(Instant::now() < end, "{read:?}");
        thread::sleep(Duration::from_millis(10));
    }
}
