//! Ranks that reach their service processes over TCP only.
//!
//! Tables come over the link instead of being mapped.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::time::Instant;

use umbra::driver::now;
use umbra::session::{GroupHandle, Session, Settings};
use umbra_core::endpoints::LookupError;
use umbra_core::peer::{Peer, Rank, Sp, WorldRank};
use umbra_core::time::Lapse;
use umbra_tests::agents::{Agents, all};
use umbra_tests::rig::{self, service};

/// All ranks of the job, of which every second one has no Unix socket.
fn mixed(agents: &Agents) -> Vec<Session> {
    let settings = (0..agents.options.world_size()).map(|rank| {
        let settings = agents.settings(rank);
        if rank % 2 == 0 { Settings { sockets: None, ..settings } } else { settings }
    });
    std::thread::scope(|scope| {
        let joins: Vec<_> = settings.map(|settings| scope.spawn(|| Session::join(settings))).collect();
        joins.into_iter().map(|join| join.join().unwrap().unwrap()).collect()
    })
}

/// Every session answers for every member what the others answer.
fn agree(sessions: &[Session], members: &[WorldRank], handle: impl Fn(&Session) -> GroupHandle) {
    for (rank, &member) in (0..).map(Rank).zip(members) {
        let found: Vec<_> = sessions.iter().map(|s| s.endpoints().lookup(handle(s).handle, rank).unwrap()).collect();
        assert_eq!(found[0].peer, Peer::rank(member).unwrap());
        assert!(found.iter().all(|endpoint| *endpoint == found[0]), "{found:?}");
    }
}

#[test]
fn ranks_without_a_unix_socket_look_up_in_tables_that_came_over_the_link() {
    let agents = Agents::start(2, 2, 2);
    let mut sessions = mixed(&agents);
    let world: Vec<WorldRank> = (0..4).map(WorldRank).collect();
    agree(&sessions, &world, |s| s.world().unwrap());
    let members = [WorldRank(3), WorldRank(0), WorldRank(2), WorldRank(1)];
    let mut last = None;
    for round in 0..5 {
        let groups = all(&mut sessions[..], |s| s.create_group(9, &members).unwrap());
        agree(&sessions, &members, |s| groups[s.seat().rank.index()]);
        let stale = last.replace(groups[0].handle);
        let answer = stale.map(|handle| sessions[0].endpoints().lookup(handle, Rank(0)));
        assert!(answer.is_none_or(|answer| answer == Err(LookupError::StaleGeneration)), "round {round}: {answer:?}");
        let size = sessions[0].endpoints().reader().unwrap().groups().count();
        assert_eq!(size, 2, "the world and one group, in round {round}");
        all(&mut sessions[..], |s| {
            let group = groups[s.seat().rank.index()];
            s.free_group(group).unwrap();
            s.wait_ended(group).unwrap();
        });
    }
    assert!(sessions[0].endpoints().lookup(last.unwrap(), Rank(0)).is_err(), "its generation is over");
}

#[test]
fn a_restarted_service_process_is_asked_for_tables_again() {
    let mut agents = Agents::start(2, 1, 1);
    let mut sessions = mixed(&agents);
    let members = [WorldRank(1), WorldRank(0)];
    let before = sessions[0].world().unwrap();
    agents.launcher.kill(service(0));
    agents.launcher.start_agent(Sp(0)).unwrap();
    // Its death ends what is being made, until everybody has seen that it is back.
    let end = Instant::now() + rig::PATIENCE;
    let mut id = 0;
    let groups = loop {
        all(&mut sessions[..], |s| s.progress(now() + Lapse::from_millis(100)).unwrap());
        assert!(agents.status(0).contains_key("uptime_ms"));
        id += 1;
        let made = all(&mut sessions[..], |s| s.create_group(id, &members));
        if made.iter().all(Result::is_ok) {
            break made.into_iter().map(Result::unwrap).collect::<Vec<_>>();
        }
        assert!(Instant::now() < end, "it did not come back: {made:?}");
    };
    // The world is in the same generation: its table was here already.
    assert_eq!(sessions[0].world().unwrap().handle, before.handle);
    agree(&sessions, &members, |s| groups[s.seat().rank.index()]);
}
