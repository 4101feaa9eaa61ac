//! Scenarios of news that come too early, too late or never.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail like tests")]

use umbra::sim::{Fault, Job, Network, Process, Sim};
use umbra_core::codec::Writer;
use umbra_core::endpoints::GroupKey;
use umbra_core::error::Status;
use umbra_core::group::member::{Event, State};
use umbra_core::group::message::{Head, Part, Phase, WORLD, ops};
use umbra_core::group::{Cause, Who};
use umbra_core::id::Generation;
use umbra_core::peer::{Rank, Sp, WorldRank};
use umbra_core::time::Lapse;
use umbra_core::wire::{Frame, Token};

/// Service processes 0 and 1 serve two ranks each, service process 2 serves none.
const RANKS_ON: [u32; 3] = [2, 2, 0];
const MEMBERS: [WorldRank; 4] = [WorldRank(0), WorldRank(1), WorldRank(2), WorldRank(3)];

/// A job whose four ranks are in a full group.
fn with_group() -> (Sim, GroupKey) {
    let network = Network { mesh: true, ..Network::default() };
    let mut sim = Sim::new(Job { ranks_on: RANKS_ON.to_vec(), network, ..Job::new(1, 1, 1) }).unwrap();
    assert!(sim.run_until_world_is_full(Lapse::from_secs(5)), "the world is not full");
    let key = join(&mut sim);
    (sim, key)
}

fn join(sim: &mut Sim) -> GroupKey {
    let key = MEMBERS.map(|rank| sim.join(rank, 1, &MEMBERS).unwrap())[0];
    sim.run_until(sim.now() + Lapse::from_millis(20));
    assert!(sim.is_full(key));
    key
}

/// Says to a service process, in the name of service process 1, that ranks 2 and 3 have joined a generation.
fn say_joined(sim: &mut Sim, to: Sp, key: GroupKey, generation: Generation) {
    let link = sim.link(Process::Service(to), Process::Service(Sp(1))).unwrap();
    let from = sim.service(Sp(1)).unwrap().config().incarnation;
    let mut body = [0; 128];
    let mut w = Writer::new(&mut body);
    Head { key, generation, from }.emit(&mut w).unwrap();
    Part::emit_head(&mut w, Sp(0), MEMBERS.len() as u32, Phase::Join, true).unwrap();
    // One service process from number 1 on: from rank 2 on two ranks, one apart.
    for word in [1, 1, 2, 2, 1] {
        w.var(word).unwrap();
    }
    let len = w.len();
    let frame = Frame::Call { op: ops::PART, token: Token(1), body: &body[..len] };
    sim.inject(Process::Service(to), link, &frame);
}

#[test]
fn s05_the_full_table_may_come_before_the_welcome() {
    let mut overtaken = 0;
    for seed in 0..50 {
        let network = Network { reorder: true, jitter: Lapse::from_micros(200), ..Network::default() };
        let mut sim = Sim::new(Job { seed, network, ..Job::new(1, 1, 1) }).unwrap();
        sim.run_until(sim.now() + Lapse::from_millis(20));
        assert_eq!(sim.member(WorldRank(0)).unwrap().state(WORLD), State::Ready, "seed {seed}");
        let events = &sim.ranks()[0].events;
        let place = |wanted: fn(&Event) -> bool| events.iter().position(|(_, event)| wanted(event)).unwrap();
        let ready = place(|event| matches!(event, Event::Ready { .. }));
        let welcome = place(|event| matches!(event, Event::Admitted { .. }));
        overtaken += u32::from(ready < welcome);
        let times = events.iter().filter(|(_, event)| matches!(event, Event::Ready { .. })).count();
        assert_eq!(times, 1, "seed {seed}: told once, however often it was said");
    }
    assert!((1..50).contains(&overtaken), "both orders occur, the table was first in {overtaken} of 50");
}

#[test]
fn s31_entries_of_the_next_generation_end_the_one_that_is_held() {
    // With ranks at the authority, and without any.
    for to in [Sp(0), Sp(2)] {
        let (mut sim, key) = with_group();
        let held = sim.service(to).unwrap().handle(key).unwrap();
        say_joined(&mut sim, to, key, Generation(2));
        assert_eq!(sim.generation(to, key), Some(Generation(2)), "at service process {to}");
        let reader = sim.service(to).unwrap().shelf().reader().unwrap();
        assert!(reader.lookup(held, Rank(0)).is_err(), "the table of generation 1 still answers at {to}");
        sim.run_until(sim.now() + Lapse::from_millis(50));
        let told = |rank: usize| {
            let mut events = sim.ranks()[rank].events.iter().map(|&(_, event)| event);
            events.any(|event| matches!(event, Event::Ended { key: k, generation: Generation(1), .. } if k == key))
        };
        // The members that it serves hear of the end.
        assert!(to != Sp(0) || (told(0) && told(1)), "told {:?}", [0, 1, 2, 3].map(told));
    }
}

#[test]
fn s31_a_service_process_without_ranks_that_missed_the_end_gets_the_next_generation() {
    let (mut sim, key) = with_group();
    let held = sim.service(Sp(2)).unwrap().handle(key).unwrap();
    let (root, other) = (Process::Service(Sp(0)), Process::Service(Sp(2)));
    sim.fault(Fault::Cut(root, other));
    for rank in MEMBERS {
        sim.leave(rank, key).unwrap();
    }
    sim.run_until(sim.now() + Lapse::from_millis(20));
    for rank in MEMBERS {
        sim.join(rank, 1, &MEMBERS).unwrap();
    }
    sim.run_until(sim.now() + Lapse::from_millis(20));
    let generations = |sim: &Sim| [0, 1, 2].map(|sp| sim.generation(Sp(sp), key).unwrap().0);
    assert_eq!(generations(&sim), [2, 2, 1]);
    sim.fault(Fault::Heal(root, other));
    sim.run_until(sim.now() + Lapse::from_millis(100));
    assert_eq!(generations(&sim), [2, 2, 2]);
    assert_eq!(sim.table(Sp(2), key), sim.table(Sp(0), key));
    let reader = sim.service(Sp(2)).unwrap().shelf().reader().unwrap();
    assert!(reader.lookup(held, Rank(0)).is_err(), "the table of generation 1 still answers");
}

#[test]
fn s32_a_message_of_a_generation_that_is_over_is_dropped_and_counted() {
    let (mut sim, key) = with_group();
    for rank in MEMBERS {
        sim.leave(rank, key).unwrap();
    }
    sim.run_until(sim.now() + Lapse::from_millis(20));
    join(&mut sim);
    for to in [Sp(0), Sp(2)] {
        let before = (sim.generation(to, key), sim.table(to, key), sim.service(to).unwrap().counters().stale);
        assert_eq!(before.0, Some(Generation(2)));
        say_joined(&mut sim, to, key, Generation(1));
        sim.run_until(sim.now() + Lapse::from_millis(20));
        let after = (sim.generation(to, key), sim.table(to, key), sim.service(to).unwrap().counters().stale);
        assert_eq!(after, (before.0, before.1, before.2 + 1), "at service process {to}");
    }
    assert!(sim.is_full(key));
}

#[test]
fn s38_a_rank_that_dies_before_it_connects_is_named_when_time_is_up() {
    let mut sim = Sim::new(Job::new(2, 2, 4)).unwrap();
    sim.fault(Fault::Kill(Process::Rank(WorldRank(6))));
    sim.run_until(sim.now() + Lapse(sim.job().timeout.0 * 2));
    for (rank, node) in sim.ranks().iter().enumerate().filter(|&(rank, _)| rank != 6) {
        let cause = node.events.iter().find_map(|&(_, event)| match event {
            Event::Ended { key: WORLD, cause, .. } => Some(cause),
            _ => None,
        });
        let cause = cause.unwrap_or_else(|| panic!("rank {rank} was told nothing"));
        assert_eq!(cause.status, Status::Timeout, "rank {rank}");
        assert_eq!((cause.missing.who, cause.missing.iter().collect::<Vec<_>>()), (Who::Ranks, vec![6]), "rank {rank}");
    }
}

/// A group of ranks 0 and 2 whose authority, service process 1, dies with rank 2 after rank 0 has left.
fn orphaned() -> (Sim, GroupKey) {
    let network = Network { mesh: true, ..Network::default() };
    let mut sim = Sim::new(Job { ranks_on: RANKS_ON.to_vec(), network, ..Job::new(1, 1, 1) }).unwrap();
    assert!(sim.run_until_world_is_full(Lapse::from_secs(5)), "the world is not full");
    let members = [WorldRank(2), WorldRank(0)];
    let key = members.map(|rank| sim.join(rank, 1, &members).unwrap())[0];
    sim.run_until(sim.now() + Lapse::from_millis(20));
    assert!(sim.is_full(key));
    sim.leave(WorldRank(0), key).unwrap();
    sim.run_until(sim.now() + Lapse::from_millis(5));
    for process in [Process::Service(Sp(1)), Process::Rank(WorldRank(2))] {
        sim.fault(Fault::Kill(process));
    }
    sim.run_until(sim.now() + Lapse::from_millis(500));
    let left = ended(&sim, 0, key).map(|cause| (cause.status, cause.sp));
    assert_eq!(left, Some((Status::PeerFailed, Some(Sp(1)))));
    (sim, key)
}

fn ended(sim: &Sim, rank: usize, group: GroupKey) -> Option<Cause> {
    sim.ranks()[rank].events.iter().rev().find_map(|&(_, event)| match event {
        Event::Ended { key, cause, .. } if key == group => Some(cause),
        _ => None,
    })
}

/// The authority comes back, takes the table from service process 2, and rank 2 joins, and leaves when it is ready.
fn resume(sim: &mut Sim, key: GroupKey) {
    for process in [Process::Service(Sp(1)), Process::Rank(WorldRank(2))] {
        sim.fault(Fault::Restart(process));
    }
    sim.run_until(sim.now() + Lapse::from_millis(300));
    let _ = sim.join(WorldRank(2), 1, &[WorldRank(2), WorldRank(0)]);
    sim.run_until(sim.now() + Lapse::from_millis(300));
    let _ = sim.leave(WorldRank(2), key);
    sim.run_until(sim.now() + Lapse::from_millis(1500));
    assert_eq!(sim.member(WorldRank(2)).unwrap().state(key), State::Out, "rank 2 leaves for ever");
    let at: Vec<_> = [0, 1, 2].iter().map(|&sp| sim.service(Sp(sp)).unwrap().handle(key)).collect();
    assert_eq!(at, [None; 3], "the table lives on");
}

#[test]
fn a_group_that_ended_while_its_authority_was_dead_ends_there_when_it_is_back() {
    let (mut sim, key) = orphaned();
    resume(&mut sim, key);
}

#[test]
fn a_group_that_was_even_joined_again_while_its_authority_was_dead_ends_there_when_it_is_back() {
    let (mut sim, key) = orphaned();
    sim.join(WorldRank(0), 1, &[WorldRank(2), WorldRank(0)]).unwrap();
    sim.run_until(sim.now() + Lapse::from_millis(20));
    assert_eq!(sim.generation(Sp(0), key), Some(Generation(2)));
    resume(&mut sim, key);
}

#[test]
fn a_group_that_a_service_process_gave_up_ends_for_those_to_whom_it_is_full() {
    let network = Network { mesh: true, ..Network::default() };
    let silence = Lapse::from_secs(5);
    let job = Job { ranks_on: RANKS_ON.to_vec(), network, silence, ..Job::new(1, 1, 1) };
    let timeout = job.timeout.0;
    let mut sim = Sim::new(job).unwrap();
    assert!(sim.run_until_world_is_full(Lapse::from_secs(5)), "the world is not full");
    let members = [WorldRank(0), WorldRank(2)];
    let key = sim.join(WorldRank(2), 1, &members).unwrap();
    sim.run_until(sim.now() + Lapse(timeout / 2));
    // The others are cut off from service process 1, which knows of rank 2 only.
    for other in [0, 2] {
        sim.fault(Fault::Cut(Process::Service(Sp(1)), Process::Service(Sp(other))));
    }
    sim.join(WorldRank(0), 1, &members).unwrap();
    sim.run_until(sim.now() + Lapse(timeout));
    assert_eq!(sim.member(WorldRank(0)).unwrap().state(key), State::Ready);
    let cause = ended(&sim, 2, key).unwrap();
    assert_eq!((cause.status, cause.missing.iter().collect::<Vec<_>>()), (Status::Timeout, vec![0]));
    for other in [0, 2] {
        sim.fault(Fault::Heal(Process::Service(Sp(1)), Process::Service(Sp(other))));
    }
    sim.run_until(sim.now() + Lapse::from_millis(300));
    assert_eq!(ended(&sim, 0, key), Some(cause), "who has it full is told the same");
    for sp in [0, 1, 2] {
        assert_eq!(sim.service(Sp(sp)).unwrap().handle(key), None, "the table lives on at {sp}");
    }
}

#[test]
fn a_rank_that_was_away_while_its_world_ended_is_told_so() {
    let mut sim = Sim::new(Job::new(2, 1, 2)).unwrap();
    assert!(sim.run_until_world_is_full(Lapse::from_secs(5)), "the world is not full");
    sim.run_until(sim.now() + Lapse::from_millis(5));
    let away = (Process::Rank(WorldRank(3)), Process::Service(Sp(1)));
    sim.fault(Fault::Cut(away.0, away.1));
    sim.run_until(sim.now() + Lapse::from_millis(150));
    for rank in [0, 1, 2] {
        sim.leave(WorldRank(rank), WORLD).unwrap();
    }
    sim.run_until(sim.now() + Lapse::from_secs(5));
    assert_eq!(ended(&sim, 0, WORLD), Some(Cause::LEFT));
    assert_eq!(ended(&sim, 3, WORLD), None);
    let waits = sim.join(WorldRank(3), 1, &[WorldRank(3), WorldRank(2)]).unwrap();
    let back = sim.now();
    sim.fault(Fault::Heal(away.0, away.1));
    sim.run_until(sim.now() + Lapse::from_millis(200));
    for key in [WORLD, waits] {
        let told = ended(&sim, 3, key).map(|cause| cause.status);
        assert_eq!(told, Some(Status::StaleGeneration), "group {key:?}, {:?} after it was back", sim.now().since(back));
        assert_eq!(sim.member(WorldRank(3)).unwrap().state(key), State::Out);
    }
}

#[test]
fn a_rank_that_was_taken_for_dead_while_it_waited_is_told_so() {
    let mut sim = Sim::new(Job::new(2, 1, 2)).unwrap();
    // Rank 1 is missing, so that the world is not full.
    sim.fault(Fault::Kill(Process::Rank(WorldRank(1))));
    sim.run_until(sim.now() + Lapse::from_millis(20));
    assert_eq!(sim.member(WorldRank(3)).unwrap().state(WORLD), State::Joined);
    let away = (Process::Rank(WorldRank(3)), Process::Service(Sp(1)));
    sim.fault(Fault::Cut(away.0, away.1));
    sim.run_until(sim.now() + Lapse::from_millis(170));
    sim.fault(Fault::Heal(away.0, away.1));
    sim.run_until(sim.now() + Lapse::from_millis(170));
    let told = ended(&sim, 3, WORLD).map(|cause| cause.status);
    assert_eq!(told, Some(Status::AlreadyRevoked), "{:?}", sim.ranks()[3].events);
}

#[test]
fn an_end_that_did_not_arrive_is_said_again_while_the_next_generation_gathers() {
    let mut sim = Sim::new(Job::new(1, 1, 3)).unwrap();
    assert!(sim.run_until_world_is_full(Lapse::from_secs(5)), "the world is not full");
    let members = [0, 1, 2].map(WorldRank);
    let key = [0, 1].map(|rank| sim.join(WorldRank(rank), 1, &members).unwrap())[0];
    // Rank 2 does not come. Rank 1 is told so in vain, before rank 0 joins again and after.
    sim.lose(Process::Rank(WorldRank(1)), ops::ENDED, key, 2);
    let timeout = sim.job().timeout;
    assert!(sim.run_for(Lapse(timeout.0 * 2), |sim| ended(sim, 0, key).is_some()));
    sim.join(WorldRank(0), 1, &members).unwrap();
    sim.run_until(sim.now() + Lapse::from_millis(20));
    assert_eq!(sim.generation(Sp(0), key), Some(Generation(2)));
    assert_eq!(ended(&sim, 1, key).map(|cause| cause.status), Some(Status::Timeout));
    assert_eq!(sim.member(WorldRank(1)).unwrap().state(key), State::Out);
}
