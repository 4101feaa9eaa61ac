//! The RDMA device of an agent goes and comes back, or its agent was stopped.
//!
//! A library stands in for libibverbs: the agent has one device, and its ranks, in the same process, another one.
#![cfg(feature = "std")]
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

#[path = "../../host/tests/fake/mod.rs"]
mod fake;
mod rig;

use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rig::start_agent;
use umbra::config::{Job, Platform};
use umbra::driver::{Driver, Event, Limits, now};
use umbra::link::{Address, Identity, Party};
use umbra::secret::Secret;
use umbra::session::{Seat, Session, SessionError, Settings};
use umbra::verbs::devices;
use umbra_core::access::direct::{CLOSE, OPEN};
use umbra_core::access::message::{Locate, Revoke};
use umbra_core::error::Status;
use umbra_core::key::Key;
use umbra_core::peer::{Host, Incarnation, LocalRank, Peer, Sp, WorldRank};
use umbra_core::ticket::Ticket;
use umbra_core::time::Lapse;
use umbra_core::wire::{Frame, Token};

/// Far longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);
/// After a quarter of that a silent device is looked after.
const DEADLINE: Duration = Duration::from_secs(12);
const RANKS: u32 = 3;

/// Runs a test in a child over the library; whether this is the child.
fn goes_on_over_fake(test: &str) -> bool {
    let is_child = fake::is_child();
    if !is_child {
        fake::over_fake(test, "FAULT", "gone");
    }
    is_child
}

fn secret() -> Secret {
    Secret::from_bytes([1; 32])
}

/// Starts the first agent of a job with so many; the job, and where others reach the agent.
fn start(agents: usize) -> (Job, SocketAddr) {
    // Held until all are chosen, so that they differ.
    let held: Vec<_> = (0..2 * agents).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let at: Vec<SocketAddr> = held.iter().map(|listener| listener.local_addr().unwrap()).collect();
    drop(held);
    let ports: Vec<String> = at.iter().map(|at| at.port().to_string()).collect();
    let (services, ranks) = ports.split_at(agents);
    let line = format!("# Format version: 1\nhost,dpu:127.0.0.1:{}:{}\n", services.join("&"), ranks.join("&"));
    let job = Platform::parse(&line, "job.cfg").and_then(|platform| platform.job(&["dpu"])).unwrap();
    start_agent(job.clone(), secret(), |settings| {
        (settings.deadline, settings.device) = (DEADLINE, Some("fake0".parse().unwrap()));
    });
    (job, at[0])
}

fn settings(job: &Job, rank: u32) -> Settings {
    let (host, local) = (Host(0), LocalRank(rank));
    let seat = Seat { rank: WorldRank(rank), size: RANKS, host, local, n_local: RANKS };
    let device = Some("fake1".parse().unwrap());
    Settings { deadline: DEADLINE, device, ..Settings::new(job.clone(), secret(), seat) }
}

/// All ranks of a job with one agent.
fn join() -> Vec<Session> {
    let (job, _) = start(1);
    thread::scope(|scope| {
        let settings = (0..RANKS).map(|rank| settings(&job, rank));
        let joins: Vec<_> = settings.map(|settings| scope.spawn(|| Session::join(settings))).collect();
        joins.into_iter().map(|join| join.join().unwrap().unwrap()).collect()
    })
}

/// Exports memory full of one byte.
fn export(owner: &mut Session, byte: u8) -> Ticket {
    let key = owner.export_bytes(vec![byte; 4096]).unwrap();
    owner.ticket(key).unwrap()
}

/// Exports memory of a rank that has no link to its agent before.
fn export_once_linked(owner: &mut Session) -> Result<Key, SessionError> {
    let end = now() + Lapse::from_secs(PATIENCE.as_secs());
    loop {
        match owner.export_bytes(vec![1; 4096]) {
            Err(SessionError::ServiceLost { .. }) if now() < end => {
                owner.progress(now() + Lapse::from_millis(5)).unwrap()
            }
            exported => return exported,
        }
    }
}

/// Restarts the driver of the agent's device, of which the agent hears nothing.
fn restart() {
    std::fs::write(fake::file("away"), []).unwrap();
    assert_eq!(devices().unwrap(), ["fake1"]);
    std::fs::remove_file(fake::file("away")).unwrap();
}

/// Reads until all memory is read.
fn read_in_time(owners: &mut [Session], reader: &mut Session, tickets: &[Ticket], good: &[Result<Vec<u8>, Status>]) {
    let end = Instant::now() + PATIENCE;
    loop {
        let read = read_all(owners, reader, tickets);
        if read == good {
            return;
        }
        assert!(Instant::now() < end, "{read:?}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Another service process opens memory of a rank for itself, tells how that ended, and gives it back once it is asked to.
fn open_and_give_back(agent: SocketAddr, memory: Locate, opened: &mpsc::Sender<Status>) -> Revoke {
    let party = |sp| Party::Peer(Peer::service(Sp(sp)).unwrap());
    let me = Identity { party: party(1), incarnation: Incarnation(7) };
    let mut driver = Driver::new(me, secret(), Limits::default());
    let end = now() + Lapse::from_secs(PATIENCE.as_secs());
    let link = driver.dial(Address::Tcp(agent), party(0), end).unwrap();
    let mut bytes = Vec::new();
    loop {
        assert!(now() < end, "nobody asks for it");
        driver.wait(end).unwrap();
        while let Some(event) = driver.next(&mut bytes) {
            match event {
                Event::Up { .. } => {
                    let call = Frame::Call { op: OPEN, token: Token(1), body: &memory.to_bytes() };
                    driver.send(link, &call, Vec::new()).unwrap();
                }
                Event::Frame { .. } => match Frame::parse(&bytes).unwrap() {
                    Frame::Done { op: OPEN, status, .. } => opened.send(status).unwrap(),
                    Frame::Call { op: CLOSE, token, body } => {
                        let done = Frame::Done { op: CLOSE, token, status: Status::Ok, body: &[] };
                        driver.send(link, &done, Vec::new()).unwrap();
                        driver.flush();
                        return Revoke::parse(body).unwrap();
                    }
                    _ => {}
                },
                Event::Gone { why, .. } => panic!("nobody asked for it: {why:?}"),
                Event::Readable(_) => {}
            }
        }
    }
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
    if !goes_on_over_fake("ranks_are_read_again_once_the_device_of_their_agent_is_back") {
        return;
    }
    let mut sessions = join();
    let mut reader = sessions.pop().unwrap();
    let owners = &mut sessions[..];
    let tickets: Vec<Ticket> = owners.iter_mut().zip(1..).map(|(owner, byte)| export(owner, byte)).collect();
    let good = [Ok(vec![1; 64]), Ok(vec![2; 64])];
    assert_eq!(read_all(owners, &mut reader, &tickets), good);

    std::fs::write(fake::file("away"), []).unwrap();
    // It says nothing, so it is found gone when it should have ended something.
    let broken = [Err(Status::QueueBroken), Err(Status::QueueBroken)];
    assert_eq!(read_all(owners, &mut reader, &tickets), broken);
    let unreachable = [Err(Status::Unreachable), Err(Status::Unreachable)];
    assert_eq!(read_all(owners, &mut reader, &tickets), unreachable);

    std::fs::remove_file(fake::file("away")).unwrap();
    read_in_time(owners, &mut reader, &tickets, &good);
}

#[test]
fn memory_that_another_service_process_has_is_taken_back_although_the_device_is_gone() {
    if !goes_on_over_fake("memory_that_another_service_process_has_is_taken_back_although_the_device_is_gone") {
        return;
    }
    let (job, agent) = start(2);
    let [mut owner, mut other] = [0, 2].map(|rank| {
        assert_eq!(job.shadows(Host(0), LocalRank(rank), 1).unwrap(), [Sp(0)]);
        Session::connect(settings(&job, rank)).unwrap()
    });
    let key = export_once_linked(&mut owner).unwrap();
    let (base, _) = owner.exported(key).unwrap();
    let memory = Locate { owner: key.owner(), address: base };
    let (opened, is_opened) = mpsc::channel();
    let service = thread::spawn(move || open_and_give_back(agent, memory, &opened));
    assert_eq!(is_opened.recv_timeout(PATIENCE), Ok(Status::Ok));

    std::fs::write(fake::file("away"), []).unwrap();
    // The agent finds out.
    let refused = export_once_linked(&mut other);
    assert!(matches!(refused, Err(SessionError::OutOfReach { .. })), "{refused:?}");
    owner.revoke(key).unwrap();
    assert_eq!(service.join().unwrap(), Revoke { key, forced: false });
}

#[test]
fn memory_is_exported_at_once_after_a_restart_of_the_driver_that_the_agent_has_not_noticed() {
    if !goes_on_over_fake("memory_is_exported_at_once_after_a_restart_of_the_driver_that_the_agent_has_not_noticed") {
        return;
    }
    let mut sessions = join();
    let mut reader = sessions.pop().unwrap();
    let first = export(&mut sessions[0], 1);
    restart();
    let tickets = [first, export(&mut sessions[1], 2)];
    read_in_time(&mut sessions, &mut reader, &tickets, &[Ok(vec![1; 64]), Ok(vec![2; 64])]);
}

#[test]
fn memory_that_a_new_device_has_no_room_for_is_out_of_reach_until_it_has() {
    if !goes_on_over_fake("memory_that_a_new_device_has_no_room_for_is_out_of_reach_until_it_has") {
        return;
    }
    let mut sessions = join();
    let mut reader = sessions.pop().unwrap();
    let tickets = [export(&mut sessions[0], 1)];
    restart();
    std::fs::write(fake::file("full"), []).unwrap();
    // The agent finds out, and opens the device anew.
    sessions[1].export_bytes(vec![2; 4096]).unwrap_err();
    for _ in 0..3 {
        assert_eq!(read_all(&mut sessions, &mut reader, &tickets), [Err(Status::Unreachable)]);
    }
    std::fs::remove_file(fake::file("full")).unwrap();
    read_in_time(&mut sessions, &mut reader, &tickets, &[Ok(vec![1; 64])]);
}

#[test]
fn what_the_device_ended_while_its_agent_was_stopped_is_heard() {
    if !goes_on_over_fake("what_the_device_ended_while_its_agent_was_stopped_is_heard") {
        return;
    }
    let mut sessions = join();
    let mut reader = sessions.pop().unwrap();
    let tickets = [export(&mut sessions[0], 1)];
    let good = [Ok(vec![1; 64])];
    assert_eq!(read_all(&mut sessions, &mut reader, &tickets), good);

    std::fs::write(fake::file("slow"), []).unwrap();
    let read = reader.post_read(&tickets[0], 8, vec![0; 64]).unwrap();
    let end = Instant::now() + PATIENCE;
    while !fake::file("begun").exists() {
        assert!(Instant::now() < end, "the read does not begin");
        reader.progress(now() + Lapse::from_millis(1)).unwrap();
    }
    // The agent is a thread of this process, which somebody else has to let go on: after more than a quarter of the deadline.
    let seconds = (DEADLINE / 4).as_secs() + 1;
    let stop = format!(r#"kill -STOP $1 && sleep {seconds} && rm "$2"; kill -CONT $1"#);
    let mut shell = Command::new("sh");
    shell.args(["-c", &stop, "sh", &std::process::id().to_string()]).arg(fake::file("slow"));
    assert!(shell.status().unwrap().success());
    assert_eq!(reader.wait_read(read).unwrap(), [1; 64]);
}
