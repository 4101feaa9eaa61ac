//! Scenarios of failure: processes and links that die, and some that come back.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail like tests")]

use umbra::sim::{Fault, Job, Network, Process, Sim};
use umbra_core::endpoints::GroupKey;
use umbra_core::error::Status;
use umbra_core::group::Cause;
use umbra_core::group::member::{Event, State};
use umbra_core::group::message::WORLD;
use umbra_core::group::service::{self, AfterRestart};
use umbra_core::peer::{Rank, Sp, WorldRank};
use umbra_core::time::Lapse;

fn full(job: Job) -> Sim {
    let mut sim = Sim::new(job).unwrap();
    assert!(sim.run_until_world_is_full(Lapse::from_secs(5)), "the world is not full");
    sim.run_until(sim.now() + Lapse::from_millis(5));
    sim
}

fn sp(n: u32) -> Process {
    Process::Service(Sp(n))
}

fn ended(sim: &Sim, rank: u32, group: GroupKey) -> Option<Cause> {
    sim.ranks()[rank as usize].events.iter().find_map(|&(_, event)| match event {
        Event::Ended { key, cause, .. } if key == group => Some(cause),
        _ => None,
    })
}

fn state(sim: &Sim, rank: u32, key: GroupKey) -> State {
    sim.member(WorldRank(rank)).unwrap().state(key)
}

#[test]
fn s04_the_last_link_alone_completes_the_exchange() {
    let mut sim = Sim::new(Job::new(2, 1, 2)).unwrap();
    sim.fault(Fault::Cut(sp(0), sp(1)));
    assert!(!sim.run_until_world_is_full(Lapse::from_millis(300)));
    sim.fault(Fault::Heal(sp(0), sp(1)));
    assert!(sim.run_until_world_is_full(Lapse::from_millis(300)));
}

#[test]
fn s26_s28_groups_at_once_do_not_mix_and_strangers_get_the_table_but_no_news() {
    let mut sim = full(Job::new(3, 1, 2));
    let (one, other) = ([0, 1, 2].map(WorldRank), [3, 2, 1].map(WorldRank));
    let mut keys = [WORLD; 2];
    for i in 0..3 {
        keys = [sim.join(one[i], 1, &one).unwrap(), sim.join(other[i], 2, &other).unwrap()];
    }
    sim.run_until(sim.now() + Lapse::from_millis(20));
    for key in keys {
        assert!(sim.is_full(key));
        // Service process 2 serves no member, and answers.
        let service = sim.service(Sp(2)).unwrap();
        let reader = service.shelf().reader().unwrap();
        assert!(reader.lookup(service.handle(key).unwrap(), Rank(0)).is_ok());
        assert!(
            !sim.ranks()[4].events.iter().any(|(_, event)| matches!(event, Event::Ready { key: k, .. } if *k == key))
        );
    }
    assert_ne!(sim.table(Sp(0), keys[0]), sim.table(Sp(0), keys[1]));
}

#[test]
fn s27_groups_with_one_number_and_other_leads_are_two() {
    let mut sim = full(Job::new(2, 1, 2));
    let (one, other) = ([0, 1].map(WorldRank), [2, 3].map(WorldRank));
    let a: Vec<_> = one.iter().map(|&rank| sim.join(rank, 5, &one).unwrap()).collect();
    let b: Vec<_> = other.iter().map(|&rank| sim.join(rank, 5, &other).unwrap()).collect();
    assert_ne!(a[0], b[0]);
    sim.run_until(sim.now() + Lapse::from_millis(20));
    assert!(sim.is_full(a[0]) && sim.is_full(b[0]));
}

#[test]
fn s33_s34_leaving_before_the_group_is_full_ends_it_cleanly_and_leaving_twice_is_refused() {
    let mut sim = full(Job::new(2, 1, 2));
    let members = [0, 1, 2, 3].map(WorldRank);
    let key = sim.join(members[0], 1, &members).unwrap();
    sim.run_until(sim.now() + Lapse::from_millis(1));
    sim.leave(members[0], key).unwrap();
    assert!(sim.leave(members[0], key).is_err());
    for &rank in &members[1..] {
        sim.join(rank, 1, &members).unwrap();
    }
    sim.run_until(sim.now() + Lapse::from_millis(20));
    for &rank in &members[1..] {
        sim.leave(rank, key).unwrap();
    }
    sim.run_until(sim.now() + Lapse::from_millis(20));
    for rank in 0..4 {
        assert_eq!(ended(&sim, rank, key), Some(Cause::LEFT), "rank {rank}");
    }
}

#[test]
fn s35_a_rank_that_left_the_world_gets_no_news_of_later_groups() {
    let mut sim = full(Job::new(1, 1, 3));
    sim.leave(WorldRank(0), WORLD).unwrap();
    sim.run_until(sim.now() + Lapse::from_millis(5));
    sim.fault(Fault::Kill(Process::Rank(WorldRank(0))));
    let members = [1, 2].map(WorldRank);
    let key = members.map(|rank| sim.join(rank, 1, &members).unwrap())[0];
    sim.run_until(sim.now() + Lapse::from_millis(20));
    assert_eq!((state(&sim, 1, key), state(&sim, 2, key)), (State::Ready, State::Ready));
}

#[test]
fn s36_the_death_of_a_service_process_is_told_to_waiters_and_spares_other_groups() {
    let mut sim = full(Job::new(3, 1, 2));
    let spared = [0, 2].map(WorldRank);
    let hit = [0, 2, 4].map(WorldRank);
    let waits = [0, 2].map(|rank| sim.join(WorldRank(rank), 1, &hit).unwrap())[0];
    sim.run_until(sim.now() + Lapse::from_millis(5));
    let died = sim.now();
    sim.fault(Fault::Kill(sp(2)));
    sim.run_until(died + Lapse(sim.job().silence.0 * 2));
    for rank in [0, 2] {
        let cause = ended(&sim, rank, waits).unwrap();
        assert_eq!((cause.status, cause.sp), (Status::PeerFailed, Some(Sp(2))));
    }
    let other = spared.map(|rank| sim.join(rank, 2, &spared).unwrap())[0];
    sim.run_until(sim.now() + Lapse::from_millis(50));
    assert!(sim.is_full(other));
    // The full world goes on answering.
    assert!(sim.service(Sp(0)).unwrap().world().is_some());
}

fn restarted(after: Option<fn(&mut service::Config)>) -> (Sim, GroupKey) {
    let mut sim = Sim::with(Job::new(3, 1, 2), after).unwrap();
    assert!(sim.run_until_world_is_full(Lapse::from_secs(5)));
    let members = [0, 2, 4].map(WorldRank);
    let key = members.map(|rank| sim.join(rank, 1, &members).unwrap())[0];
    sim.run_until(sim.now() + Lapse::from_millis(20));
    let life = sim.services()[1].machine.as_ref().unwrap().config().incarnation;
    sim.fault(Fault::Kill(sp(1)));
    sim.run_until(sim.now() + Lapse::from_millis(600));
    sim.fault(Fault::Restart(sp(1)));
    sim.run_until(sim.now() + Lapse::from_millis(600));
    assert_ne!(sim.services()[1].machine.as_ref().unwrap().config().incarnation, life);
    (sim, key)
}

#[test]
fn s37_groups_of_a_restarted_service_process_are_rebuilt() {
    let (sim, key) = restarted(None);
    assert_eq!(sim.table(Sp(1), key), sim.table(Sp(0), key));
    assert!(sim.table(Sp(1), key).is_some());
    assert_eq!(state(&sim, 2, key), State::Ready);
}

#[test]
fn s37_groups_of_a_restarted_service_process_are_reported_dead_if_that_is_wanted() {
    let (sim, key) = restarted(Some(|config| config.after_restart = AfterRestart::ReportDead));
    for rank in [0, 4] {
        let cause = ended(&sim, rank, key).unwrap();
        assert_eq!((cause.status, cause.sp), (Status::PeerFailed, Some(Sp(1))));
    }
    assert!(sim.table(Sp(0), key).is_none());
}

#[test]
fn s39_the_groups_of_a_dead_rank_can_still_be_freed() {
    let mut sim = full(Job::new(2, 1, 2));
    let members = [0, 1, 2].map(WorldRank);
    let key = members.map(|rank| sim.join(rank, 1, &members).unwrap())[0];
    sim.run_until(sim.now() + Lapse::from_millis(20));
    sim.fault(Fault::Kill(Process::Rank(WorldRank(2))));
    for rank in [0, 1] {
        sim.leave(WorldRank(rank), key).unwrap();
    }
    sim.run_until(sim.now() + Lapse::from_millis(500));
    assert_eq!((ended(&sim, 0, key), ended(&sim, 1, key)), (Some(Cause::LEFT), Some(Cause::LEFT)));
}

#[test]
fn s40_a_service_process_that_is_not_started_is_reported_in_time() {
    let mut sim = Sim::new(Job::new(2, 1, 2)).unwrap();
    sim.fault(Fault::Kill(sp(1)));
    sim.run_until(sim.now() + Lapse(sim.job().timeout.0 * 2));
    for rank in 0..4 {
        assert!(ended(&sim, rank, WORLD).is_some_and(|cause| cause.status != Status::Ok), "rank {rank} still waits");
    }
}

#[test]
fn s41_service_processes_without_ranks_bootstrap_and_answer() {
    let sim = full(Job { ranks_on: vec![0, 3, 0], ..Job::new(1, 2, 1) });
    for n in 0..6 {
        assert!(sim.table(Sp(n), WORLD).is_some(), "service process {n}");
    }
}

#[test]
fn s42_a_link_that_breaks_during_the_exchange_is_resumed() {
    for micros in [20, 60, 100, 150, 200, 300] {
        let network = Network { mesh: true, ..Network::default() };
        let mut sim = Sim::new(Job { network, seed: micros, ..Job::new(3, 1, 3) }).unwrap();
        sim.run_until(sim.now() + Lapse::from_micros(micros));
        sim.fault(Fault::Cut(sp(0), sp(1)));
        sim.run_until(sim.now() + Lapse::from_millis(5));
        sim.fault(Fault::Heal(sp(0), sp(1)));
        assert!(sim.run_until_world_is_full(Lapse::from_millis(500)), "cut after {micros} us");
    }
}
