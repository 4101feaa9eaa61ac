//! Scenarios of normal operation, on simulated jobs.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail like tests")]

use umbra::sim::{Job, Network, Order, Sim};
use umbra_core::group::Stage;
use umbra_core::group::message::WORLD;
use umbra_core::peer::{Rank, Sp};
use umbra_core::time::Lapse;

fn full(job: Job) -> Sim {
    let mut sim = Sim::new(job.clone()).unwrap();
    assert!(sim.run_until_world_is_full(Lapse::from_secs(5)), "{job:?} is not full: {:#?}", sim.outcome().groups);
    sim
}

fn assert_same_tables(sim: &Sim) {
    let first = sim.table(Sp(0), WORLD).unwrap();
    for sp in 0..sim.services().len() as u32 {
        assert_eq!(sim.table(Sp(sp), WORLD).as_ref(), Some(&first), "service process {sp} has another table");
    }
}

#[test]
fn s01_one_rank_is_full_with_exactly_one_entry() {
    let sim = full(Job::new(1, 1, 1));
    let service = sim.service(Sp(0)).unwrap();
    assert_eq!(service.report(WORLD).unwrap().size, 1);
    assert_eq!(service.counters().full, 1);
}

#[test]
fn s02_four_service_processes_agree_and_every_rank_has_the_right_one() {
    for seed in 0..20 {
        let network = Network { reorder: true, duplication: 100_000, ..Network::default() };
        let sim = full(Job { seed, network, ..Job::new(2, 2, 4) });
        assert_same_tables(&sim);
        let service = sim.service(Sp(3)).unwrap();
        let reader = service.shelf().reader().unwrap();
        for rank in 0..8 {
            let sp = reader.lookup(service.world().unwrap(), Rank(rank)).unwrap().sp;
            assert_eq!(sp, Sp(rank / 4 * 2 + rank % 2));
        }
    }
}

#[test]
fn s07_ranks_of_one_service_process_need_no_message_between_service_processes() {
    let sim = full(Job::new(1, 1, 8));
    assert_eq!(sim.outcome().traffic.services.messages, 0);
}

#[test]
fn s08_of_five_local_ranks_one_service_process_waits_for_three_and_the_other_for_two() {
    let sim = full(Job::new(1, 2, 5));
    assert_eq!(sim.service(Sp(0)).unwrap().connected().count(), 3);
    assert_eq!(sim.service(Sp(1)).unwrap().connected().count(), 2);
}

#[test]
fn every_order_of_ranks_gives_the_same_table_everywhere() {
    for order in [Order::Block, Order::Cyclic, Order::Shuffled] {
        let sim = full(Job { order, ..Job::new(3, 2, 5) });
        assert_same_tables(&sim);
        let mut sim = sim;
        sim.run_until(sim.now() + Lapse::from_millis(50));
        for service in sim.services() {
            let report = service.machine.as_ref().unwrap().report(WORLD).unwrap();
            assert_eq!(report.stage, Stage::Pushed);
        }
    }
}
