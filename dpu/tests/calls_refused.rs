//! A job of more agents than have members of chained calls.
#![cfg(feature = "std")]
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod rig;

use std::net::TcpListener;
use std::time::Duration;

use rig::start_agent;
use umbra::config::Platform;
use umbra::driver::now;
use umbra::secret::Secret;
use umbra::session::{Seat, Session, SessionError, Settings};
use umbra_core::error::Status;
use umbra_core::peer::{Host, LocalRank, Sp, WorldRank};
use umbra_core::time::Lapse;

const PATIENCE: Duration = Duration::from_secs(60);
/// Each has a place of 41 seats.
const AGENTS: u16 = 400;

#[test]
fn a_rank_of_a_job_of_too_many_agents_is_told_how_many_members_can_meet() {
    let folder = std::env::temp_dir().join(format!("umbra-calls-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let held = [1, 1001].map(|others| (others, TcpListener::bind("127.0.0.1:0").unwrap()));
    let ports = held.map(|(others, listener)| {
        let first = listener.local_addr().unwrap().port();
        // Nobody listens at the others: these agents do not come, and would be at Unix sockets.
        let all = std::iter::once(first).chain(others..others + AGENTS - 1);
        all.map(|port| port.to_string()).collect::<Vec<_>>().join("&")
    });
    let line = format!("# Format version: 1\nhost,dpu:127.0.0.1:{}\n", ports.join(":"));
    let job = Platform::parse(&line, "job.cfg").and_then(|platform| platform.job(&["dpu"])).unwrap();
    let (secret, sockets) = (Secret::from_bytes([1; 32]), Some(folder.clone()));
    start_agent(job.clone(), secret.clone(), |settings| {
        (settings.sockets, settings.members) = (sockets.clone(), 16);
    });

    let seat = Seat { rank: WorldRank(0), size: 1, host: Host(0), local: LocalRank(0), n_local: 1 };
    let settings = Settings { sockets, deadline: PATIENCE, ..Settings::new(job, secret, seat) };
    let mut session = Session::connect(settings).unwrap();
    let end = now() + Lapse::from_secs(60);
    let refused = loop {
        match session.calls() {
            Err(SessionError::ServiceLost { .. }) if now() < end => session.progress(now() + Lapse::from_millis(5)),
            Err(refused) => break refused,
            Ok(_) => panic!("there is no such place"),
        }
        .unwrap();
    };
    std::fs::remove_dir_all(&folder).unwrap();
    let SessionError::NoMembers { sp: Sp(0), status: Status::Full, why } = refused else { panic!("{refused}") };
    assert_eq!(why, "16400 members, at most 16384 can meet");
}
