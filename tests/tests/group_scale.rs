//! Scenarios of number: many orders, generations, groups, service processes.
//!
//! Debug builds run the same with smaller numbers.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail like tests")]

use umbra::sim::{Job, Network, Order, Sim};
use umbra_core::endpoints::GroupKey;
use umbra_core::group::Stage;
use umbra_core::group::member::State;
use umbra_core::group::message::WORLD;
use umbra_core::peer::{Sp, WorldRank};
use umbra_core::time::Lapse;

/// The number of a scenario, or a tenth in a debug build.
const fn scaled(n: u32) -> u32 {
    if cfg!(debug_assertions) { n / 10 } else { n }
}

fn full(job: Job) -> Sim {
    let mut sim = Sim::new(job).unwrap();
    assert!(sim.run_until_world_is_full(Lapse::from_secs(5)), "the world is not full");
    sim
}

#[test]
fn s03_every_one_of_1000_orders_of_links_ranks_and_messages_ends_full() {
    for seed in 0..u64::from(scaled(1000)) {
        // Links and ranks start in random order over a time that is long against the way of a message.
        let network = Network { start: Lapse::from_millis(5), reorder: true, mesh: true, ..Network::default() };
        let sim = full(Job { seed, network, keep_events: false, ..Job::new(2, 2, 3) });
        let first = sim.table(Sp(0), WORLD).unwrap();
        assert!((1..4).all(|sp| sim.table(Sp(sp), WORLD).as_ref() == Some(&first)), "seed {seed}: tables differ");
    }
}

/// Joins and leaves a group once, and waits until its end is known everywhere.
fn once(sim: &mut Sim, members: &[WorldRank]) -> GroupKey {
    let mut key = WORLD;
    for &rank in members {
        key = sim.join(rank, 1, members).unwrap();
    }
    assert!(sim.run_for(Lapse::from_secs(1), |sim| {
        members.iter().all(|&rank| sim.member(rank).unwrap().state(key) == State::Ready)
    }));
    for &rank in members {
        sim.leave(rank, key).unwrap();
    }
    let mut turn = 0;
    assert!(sim.run_for(Lapse::from_secs(1), |sim| {
        turn += 1;
        if turn % 8 != 0 {
            return false;
        }
        let out = members.iter().all(|&rank| sim.member(rank).unwrap().state(key) == State::Out);
        out && sim
            .services()
            .iter()
            .flat_map(|node| &node.machine)
            .all(|machine| machine.report(key).is_some_and(|report| report.stage == Stage::Ended))
    }));
    key
}

#[test]
fn s29_a_group_made_10000_times_costs_the_same_each_time_and_keeps_nothing() {
    // Service process 3 serves no member.
    let mut sim = full(Job { ranks_on: vec![2, 2, 2, 0], keep_events: false, ..Job::new(1, 1, 1) });
    let members: Vec<WorldRank> = (0..6).map(WorldRank).collect();
    sim.run_until(sim.now() + Lapse::from_millis(5));
    let in_use = |sim: &Sim| -> u64 {
        sim.services().iter().flat_map(|node| &node.machine).map(|machine| machine.bytes_in_use()).sum()
    };
    let (before, mut most) = (in_use(&sim), 0);
    for round in 0..scaled(10_000) {
        let messages = sim.outcome().traffic.services.messages;
        let key = once(&mut sim, &members);
        assert_eq!(sim.generation(Sp(3), key).unwrap().0, round + 1);
        let messages = sim.outcome().traffic.services.messages - messages;
        most = most.max(messages);
        assert!(messages <= 40, "generation {round} took {messages} messages");
    }
    sim.run_until(sim.now() + Lapse::from_millis(5));
    assert_eq!(in_use(&sim), before);
    println!("at most {most} messages between 4 service processes a generation");
}

#[test]
fn s54_256_service_processes_and_8192_ranks_need_one_tree_up_and_one_down() {
    for (order, hosts, per_dpu) in
        [(Order::Block, 256, 1), (Order::Cyclic, 256, 1), (Order::Block, 64, 4), (Order::Shuffled, 64, 1)]
    {
        let edges = u64::from(hosts * per_dpu) - 1;
        let job = Job { order, keep_events: false, groups: 1, ..Job::new(hosts, per_dpu, 8192 / hosts) };
        let sim = full(job);
        let table = sim.table(Sp(0), WORLD).unwrap().len() as u64;
        let services = sim.outcome().traffic.services;
        let bound = 2 * table * edges;
        println!(
            "{order:?}, {hosts} x {per_dpu}: table {table} B, {} messages, {} B between service processes, bound {bound} B",
            services.messages, services.bytes,
        );
        assert!(services.bytes <= bound, "{order:?}: {} bytes, allowed are {bound}", services.bytes);
        // What is known goes up once and the table goes down once; a table without order is more than one frame.
        let regular = order != Order::Shuffled;
        assert!(!regular || services.messages == 2 * edges, "{order:?}: {} messages", services.messages);
    }
}

#[test]
fn s56_100000_groups_of_two_ranks_need_memory_in_proportion() {
    let count = scaled(100_000);
    let mut sim = full(Job { groups: count, keep_events: false, ..Job::new(1, 2, 8) });
    let start = std::time::Instant::now();
    let pairs = |i: u32| [WorldRank(i % 8), WorldRank((i % 8 + 1 + i / 8 % 7) % 8)];
    for i in 0..count {
        for rank in pairs(i) {
            sim.join(rank, i + 1, &pairs(i)).unwrap();
        }
        // A window of groups is under way at once.
        if i % 1000 == 999 {
            sim.run_until(sim.now() + Lapse::from_millis(1));
        }
    }
    assert!(sim.run_for(Lapse::from_secs(5), |sim| {
        sim.services().iter().flat_map(|node| &node.machine).all(|m| m.counters().full == u64::from(count) + 1)
    }));
    for node in sim.services() {
        let machine = node.machine.as_ref().unwrap();
        assert_eq!(machine.counters().groups, u64::from(count) + 1);
        // A full group holds its sets of local ranks and nothing else.
        assert!(machine.bytes_in_use() <= u64::from(count + 1) * 128, "{} bytes", machine.bytes_in_use());
    }
    println!("{count} groups of two ranks in {:?}, simulation included", start.elapsed());
}

#[test]
fn a_large_job_is_full_everywhere() {
    let (hosts, ranks) = if cfg!(debug_assertions) { (64, 16) } else { (512, 64) };
    let start = std::time::Instant::now();
    let sim = full(Job { keep_events: false, groups: 1, arity: 8, ..Job::new(hosts, 1, ranks) });
    let outcome = sim.outcome();
    assert_eq!(outcome.full_services, hosts);
    assert_eq!(outcome.ready_ranks, hosts * ranks);
    println!(
        "{hosts} service processes, {} ranks: {} messages, {} B between service processes, {:?} to simulate",
        hosts * ranks,
        outcome.traffic.services.messages,
        outcome.traffic.services.bytes,
        start.elapsed()
    );
}
