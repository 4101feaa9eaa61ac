//! Scenarios of bad input: contradictory claims, and bytes that are none of ours.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail like tests")]

use umbra::sim::{Job, Process, Random, Sim};
use umbra_core::codec::Writer;
use umbra_core::endpoints::{Descriptor, GroupKey};
use umbra_core::error::Status;
use umbra_core::group::member::{self, Event, State};
use umbra_core::group::message::{Head, Phase, WORLD, ops};
use umbra_core::group::{Cause, Field, Who};
use umbra_core::id::Generation;
use umbra_core::machine::Link;
use umbra_core::peer::{Host, Incarnation, LocalRank, Sp, WorldRank};
use umbra_core::time::Lapse;
use umbra_core::wire::{Frame, Op, Token};

fn full(job: Job) -> Sim {
    let mut sim = Sim::new(job).unwrap();
    assert!(sim.run_until_world_is_full(Lapse::from_secs(5)), "the world is not full");
    sim.run_until(sim.now() + Lapse::from_millis(5));
    sim
}

/// A process that claims what rank 0 claims, but for a few changes.
fn claimant(sim: &mut Sim, sp: Sp, change: impl FnOnce(&mut member::Config)) -> Vec<Event> {
    let mut config = sim.member(WorldRank(0)).unwrap().config().clone();
    config.incarnation = Incarnation(0xbad);
    change(&mut config);
    let at = sim.add_rank(config, sp);
    sim.run_until(sim.now() + Lapse::from_millis(20));
    sim.ranks()[at].events.iter().map(|&(_, event)| event).collect()
}

fn refused(events: &[Event]) -> Option<(Status, u32)> {
    events.iter().find_map(|event| match *event {
        Event::Refused { status, word, .. } => Some((status, word)),
        _ => None,
    })
}

fn all_ready(sim: &Sim, ranks: u32) -> bool {
    (0..ranks).all(|rank| sim.member(WorldRank(rank)).unwrap().state(WORLD) == State::Ready)
}

#[test]
fn s17_a_rank_that_connects_again_changes_nothing() {
    let mut sim = full(Job::new(1, 1, 4));
    let before = *sim.service(Sp(0)).unwrap().counters();
    sim.plan(scripted("cut rank:3-sp:0@0ms"));
    sim.plan(scripted("heal rank:3-sp:0@1ms"));
    sim.run_until(sim.now() + Lapse::from_millis(50));
    let service = sim.service(Sp(0)).unwrap();
    assert_eq!((service.counters().full, service.counters().ended), (before.full, before.ended));
    assert_eq!(service.connected().count(), 4);
    assert!(all_ready(&sim, 4));
}

fn scripted(text: &str) -> umbra::sim::Scripted {
    text.parse().unwrap()
}

#[test]
fn s18_a_second_process_that_claims_a_rank_is_refused_and_the_first_goes_on() {
    let mut sim = full(Job::new(1, 1, 4));
    let events = claimant(&mut sim, Sp(0), |_| {});
    assert_eq!(refused(&events), Some((Status::DuplicateRank, 0)));
    assert!(all_ready(&sim, 4));
    assert_eq!(sim.service(Sp(0)).unwrap().counters().full, 1);
}

#[test]
fn of_two_hosts_whose_ranks_claim_the_same_places_all_of_one_are_told_at_once() {
    const RANKS: u32 = 12;
    let mut sim = Sim::new(Job { ranks_on: vec![RANKS, 0], ..Job::new(1, 1, 1) }).unwrap();
    for rank in (0..RANKS).map(WorldRank) {
        let config = sim.member(rank).unwrap().config().clone();
        let incarnation = Incarnation(0xbad + u64::from(rank.0));
        sim.add_rank(member::Config { incarnation, host: Host(1), ..config }, Sp(1));
    }
    sim.run_until(sim.now() + Lapse::from_millis(20));
    let told = sim.ranks().iter().filter(|rank| {
        let events: Vec<Event> = rank.events.iter().map(|&(_, event)| event).collect();
        refused(&events).is_some_and(|(status, _)| status == Status::DuplicateRank)
    });
    assert_eq!(told.count(), RANKS as usize);
    let ready = |rank: &&umbra::sim::RankNode| rank.machine.as_ref().unwrap().state(WORLD) == State::Ready;
    assert_eq!(sim.ranks().iter().filter(ready).count(), RANKS as usize);
}

#[test]
fn s19_a_rank_that_says_another_size_gets_a_conflict_and_nobody_else_notices() {
    let mut sim = full(Job::new(1, 1, 4));
    let size = claimant(&mut sim, Sp(0), |config| config.size = 9);
    assert_eq!(refused(&size), Some((Status::Conflict, Field::Size as u32)));
    let count = claimant(&mut sim, Sp(0), |config| config.n_local = 5);
    assert_eq!(refused(&count), Some((Status::Conflict, Field::LocalCount as u32)));
    assert!(all_ready(&sim, 4));
}

#[test]
fn a_rank_whose_host_has_more_ranks_than_the_job_is_refused_and_nobody_waits_for_them() {
    let mut sim = Sim::new(Job::new(2, 1, 1)).unwrap();
    // It comes first: whatever is said first of a host holds.
    let config = sim.member(WorldRank(1)).unwrap().config().clone();
    sim.fault(umbra::sim::Fault::Kill(Process::Rank(WorldRank(1))));
    for n_local in [3, u32::MAX] {
        let at =
            sim.add_rank(member::Config { n_local, incarnation: Incarnation(n_local.into()), ..config.clone() }, Sp(1));
        sim.run_until(sim.now() + Lapse::from_millis(20));
        let events: Vec<Event> = sim.ranks()[at].events.iter().map(|&(_, event)| event).collect();
        assert_eq!(refused(&events), Some((Status::Conflict, Field::LocalCount as u32)), "{n_local}");
    }
    // Every look at who is missing ends, and so does the wait.
    sim.run_until(sim.now() + sim.job().timeout + sim.job().timeout);
    let told = sim.ranks()[0].events.iter().any(|(_, event)| matches!(event, Event::Ended { key: WORLD, .. }));
    assert!(told, "{:?}", sim.ranks()[0].events);
}

#[test]
fn s20_a_rank_at_the_wrong_service_process_is_told_the_right_one() {
    let mut sim = full(Job::new(1, 2, 4));
    let wrong = claimant(&mut sim, Sp(0), |config| config.local = LocalRank(1));
    assert_eq!(refused(&wrong), Some((Status::WrongServiceProcess, 1)));
    let beyond = claimant(&mut sim, Sp(0), |config| config.local = LocalRank(4));
    assert_eq!(refused(&beyond).map(|refusal| refusal.0), Some(Status::WrongServiceProcess));
}

#[test]
fn s21_of_too_many_ranks_the_extra_one_is_refused() {
    let mut sim = full(Job { ranks_on: vec![2, 2], ..Job::new(1, 1, 1) });
    let extra = claimant(&mut sim, Sp(0), |config| {
        config.rank = WorldRank(2);
        config.local = LocalRank(1);
    });
    assert!(matches!(refused(&extra), Some((Status::DuplicateRank | Status::Conflict, _))), "{extra:?}");
    assert!(all_ready(&sim, 4));
}

#[test]
fn s21_if_more_ranks_were_announced_than_come_the_missing_local_ranks_are_listed() {
    let mut sim = Sim::new(Job::new(2, 1, 2)).unwrap();
    // Local rank 1 of host 1 dies before it connects.
    sim.fault(umbra::sim::Fault::Kill(Process::Rank(WorldRank(3))));
    assert!(!sim.run_until_world_is_full(Lapse::from_secs(2)));
    for rank in 0..3 {
        let events = &sim.ranks()[rank].events;
        let cause = events.iter().find_map(|&(at, event)| match event {
            Event::Ended { key: WORLD, cause, .. } => Some((at, cause)),
            _ => None,
        });
        let (at, cause) = cause.unwrap_or_else(|| panic!("rank {rank} was told nothing"));
        assert_eq!(cause.status, Status::Timeout);
        // The authority knows everybody else, so it names exactly the one.
        assert_eq!((cause.missing.who, cause.missing.iter().collect::<Vec<_>>()), (Who::Ranks, vec![3]));
        assert!(at.0 <= sim.job().timeout.0 / 4 * 5, "rank {rank} was told only at {at:?}");
    }
}

#[test]
fn s23_a_rank_on_an_unknown_host_is_refused_and_counted() {
    let mut sim = full(Job::new(1, 1, 2));
    let events = claimant(&mut sim, Sp(0), |config| config.host = Host(7));
    assert_eq!(refused(&events), Some((Status::Conflict, Field::Host as u32)));
    assert_eq!(sim.service(Sp(0)).unwrap().counters().foreign, 1);
}

#[test]
fn s23_entries_of_an_unknown_service_process_are_dropped_and_counted() {
    let mut sim = full(Job { network: umbra::sim::Network { mesh: true, ..Default::default() }, ..Job::new(2, 1, 2) });
    let link = sim.link(Process::Service(Sp(0)), Process::Service(Sp(1))).unwrap();
    let from = sim.services()[1].machine.as_ref().unwrap().config().incarnation;
    let mut body = [0; 128];
    let mut w = Writer::new(&mut body);
    Head { key: WORLD, generation: Generation::FIRST, from }.emit(&mut w).unwrap();
    umbra_core::group::message::Part::emit_head(&mut w, Sp(0), 4, Phase::Join, true).unwrap();
    // One service process from number 99 on: one rank, number 0.
    for word in [99, 1, 0, 1] {
        w.var(word).unwrap();
    }
    let len = w.len();
    let frame = Frame::Call { op: ops::PART, token: Token(1), body: &body[..len] };
    sim.inject(Process::Service(Sp(0)), link, &frame);
    assert_eq!(sim.service(Sp(0)).unwrap().counters().foreign, 1);
}

/// The last news of the end of a group, to one of the processes that are or claim to be ranks.
fn ended(sim: &Sim, at: usize, group: GroupKey) -> Option<Cause> {
    sim.ranks()[at].events.iter().rev().find_map(|&(_, event)| match event {
        Event::Ended { key, cause, .. } if key == group => Some(cause),
        _ => None,
    })
}

/// Says to service process 0 that rank 0 has joined a group of so many ranks, in the name of service process 1.
fn say_joined(sim: &mut Sim, key: GroupKey, size: u32) {
    let link = sim.link(Process::Service(Sp(0)), Process::Service(Sp(1))).unwrap();
    let mut body = [0; 64];
    let mut w = Writer::new(&mut body);
    Head { key, generation: Generation::FIRST, from: Incarnation(1) }.emit(&mut w).unwrap();
    umbra_core::group::message::Part::emit_head(&mut w, Sp(0), size, Phase::Join, true).unwrap();
    for word in [0, 1, 0, 1] {
        w.var(word).unwrap();
    }
    let len = w.len();
    sim.inject(Process::Service(Sp(0)), link, &Frame::Call { op: ops::PART, token: Token(1), body: &body[..len] });
}

#[test]
fn who_leaves_before_its_wish_to_join_is_refused_has_left() {
    let network = umbra::sim::Network { mesh: true, ..Default::default() };
    let mut sim = full(Job { network, ..Job::new(2, 1, 2) });
    let (rank, members) = (WorldRank(0), [0, 1].map(WorldRank));
    for again in [false, true] {
        let id = 1 + u32::from(again);
        let mut bytes = [0; 64];
        let group = Descriptor::write(id, members.iter().copied(), &mut bytes).unwrap();
        let key = sim.member(rank).unwrap().key(&group);
        // Somebody has said that the group has three ranks.
        say_joined(&mut sim, key, 3);
        assert_eq!(sim.join(rank, id, &members), Ok(key));
        sim.leave(rank, key).unwrap();
        if again {
            sim.join(rank, id, &members).unwrap();
        }
        sim.run_until(sim.now() + Lapse::from_millis(5));
        assert_eq!(ended(&sim, 0, key), Some(Cause::LEFT));
        let member = sim.member(rank).unwrap();
        assert_eq!((member.state(key), member.generation(key)), (State::Out, Generation::NEVER));
        let events: Vec<Event> = sim.ranks()[0].events.iter().map(|&(_, event)| event).collect();
        let word = (Status::Conflict, Field::Size as u32);
        assert_eq!(refused(&events), again.then_some(word), "joined again: {again}");
    }
}

#[test]
fn who_leaves_the_world_before_it_is_refused_there_has_left() {
    let mut sim = full(Job::new(1, 1, 4));
    let config = sim.member(WorldRank(0)).unwrap().config().clone();
    let at = sim.add_rank(member::Config { incarnation: Incarnation(0xbad), ..config }, Sp(0));
    let rank = WorldRank(at as u32);
    sim.leave(rank, WORLD).unwrap();
    sim.run_until(sim.now() + Lapse::from_millis(20));
    assert_eq!(sim.member(rank).unwrap().state(WORLD), State::Out);
    assert_eq!(ended(&sim, at, WORLD), Some(Cause::LEFT));
}

#[test]
fn s22_bytes_of_any_kind_neither_stop_the_machines_nor_grow_their_tables() {
    let network = umbra::sim::Network { mesh: true, ..Default::default() };
    let mut sim = full(Job { network, keep_events: false, ..Job::new(2, 1, 2) });
    let mut random = Random::new(22);
    let processes = [Process::Service(Sp(0)), Process::Rank(WorldRank(0))];
    let rounds = if cfg!(debug_assertions) { 100_000 } else { 2_000_000 };
    for _ in 0..rounds {
        let mut body = [0u8; 120];
        for chunk in body.chunks_mut(8) {
            chunk.copy_from_slice(&random.bits().to_le_bytes()[..chunk.len()]);
        }
        // Half of the heads are plausible, or nothing would get past the first check.
        let peer = sim.services()[1].machine.as_ref().unwrap().config().incarnation;
        if random.below(2) == 0 {
            body[..16].fill(0);
            body[16..20].copy_from_slice(&(random.below(3) as u32).to_le_bytes());
            body[20..28].copy_from_slice(&peer.0.to_le_bytes());
        }
        for word in body[28..].chunks_mut(4) {
            if random.below(2) == 0 {
                let small = (random.below(6) as u32).to_le_bytes();
                word.copy_from_slice(&small[..word.len()]);
            }
        }
        let op = if random.below(16) == 0 { Op(random.bits() as u16) } else { ops::ALL[random.below(10) as usize] };
        let body = &body[..random.below(121) as usize];
        let token = Token(random.below(8));
        let frame = match random.below(3) {
            0 => Frame::Call { op, token, body },
            1 => Frame::Null { op, token, arg: random.bits() },
            _ => Frame::Done { op, token, status: Status::ALL[random.below(24) as usize], body },
        };
        let to = processes[random.below(2) as usize];
        sim.inject(to, Link(random.below(4) as u32), &frame);
    }
    let service = sim.service(Sp(0)).unwrap();
    assert!(service.counters().malformed > 0);
    // Whatever was believed of it, the memory that it could claim is bounded by what was lent.
    assert!(service.reports().count() <= sim.job().groups as usize + 1);
}
