//! Boundary exchange over queue pairs of a real device (s7, s10, s34, s35, s41).
//!
//! The bits are the same as over shared memory. Without a device each test says `skipped: ` and why.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use umbra::advect::{Options, Problem, run, run_rank, summary};
use umbra::boundary::{Boundary, BoundaryError, Extent, Scope, Store, VerbsRing};
use umbra::boundary::{Fields as _, Mesh as _};
use umbra::verbs::Port;
use umbra_tests::answer::{good, value};
use umbra_tests::boundary_job::{SETTINGS, long_extent, send_to_one_that_does_not_receive};
use umbra_tests::late::in_time;
use umbra_tests::lost::{be, kill};
use umbra_tests::random_exchanges::Exchanges;
use umbra_tests::rig;
use umbra_tests::verbs::device;

/// An end for each rank, connected to all others.
fn ends(port: &Port, extent: Extent) -> Vec<VerbsRing> {
    let mut ends: Vec<_> = (0..extent.ranks).map(|rank| VerbsRing::new(port, extent, rank).unwrap()).collect();
    for from in 0..extent.ranks {
        for to in (0..extent.ranks).filter(|&to| to != from) {
            let greeting = ends[from as usize].greeting(to).unwrap();
            ends[to as usize].connect(from, &greeting).unwrap();
        }
    }
    ends
}

/// Runs each rank in a thread.
fn all<R: Send>(port: &Port, extent: Extent, body: impl Fn(u32, VerbsRing) -> R + Sync) -> Vec<R> {
    let (ends, body) = (ends(port, extent), &body);
    thread::scope(|scope| {
        let ranks = (0..).zip(ends).map(|(rank, end)| scope.spawn(move || body(rank, end)));
        ranks.collect::<Vec<_>>().into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

fn port() -> Option<Port> {
    Some(device()?.active_port(1, None).unwrap())
}

#[test]
fn s34_and_s35_both_problems_give_the_same_bits_on_every_number_of_ranks() {
    let Some(port) = port() else { return };
    for (problem, dimensions) in [(Problem::Shift, 2), (Problem::Smooth, 2), (Problem::Smooth, 3)] {
        let (blocks, cells, cycles) = if dimensions == 2 { (4, 8, 24) } else { (2, 6, 8) };
        let options =
            Options { blocks, cells, fields: 3, radius: 2, cycles, ranks: 1, ..Options::new(problem, dimensions) };
        let expected = run(&Options { dense: true, ..options }, |_| ()).unwrap();
        for ranks in [1, 2, 3, 4, 8] {
            let (split, dense) = (ranks == 3 || ranks == 8, ranks == 4);
            let delay = Duration::from_micros(if ranks == 3 { 300 } else { 0 });
            let options = Options { ranks, split, dense, reversed: ranks % 2 == 0, delay, ..options };
            let extent = options.extent().unwrap();
            let outcome = summary(all(&port, extent, |rank, end| run_rank(&options, rank, end, |_| ()).unwrap()));
            assert_eq!(outcome.wrong, expected.wrong, "{problem:?}, {ranks} ranks");
            assert_eq!(
                (outcome.hash, outcome.nonzero),
                (expected.hash, expected.nonzero),
                "{problem:?}, {ranks} ranks"
            );
        }
    }
}

#[test]
fn s32_ranks_without_blocks_take_part() {
    let Some(port) = port() else { return };
    let options = Options { ranks: 6, cycles: 8, ..Options::tiny(Problem::Smooth, 2) };
    let expected = run(&options.alone(), |_| ()).unwrap();
    for remesh in [None, Some(3)] {
        let options = Options { remesh, ..options };
        let extent = options.extent().unwrap();
        let outcome = summary(all(&port, extent, |rank, end| run_rank(&options, rank, end, |_| ()).unwrap()));
        assert_eq!((outcome.hash, outcome.nonzero), (expected.hash, expected.nonzero), "{remesh:?}");
        let idle = outcome.ranks.iter().filter(|rank| rank.counts[0] == 0).count();
        assert_eq!(idle, 2, "ranks without blocks send nothing");
    }
}

#[test]
fn s34_the_command_gives_the_same_bits_over_queue_pairs_as_over_shared_memory() {
    if device().is_none() {
        return;
    }
    let small =
        ["--blocks", "4", "--cells", "8", "--fields", "2", "--radius", "2", "--cycles", "12", "--json", "--quiet"];
    let hash = |way: &[&str]| {
        let output = Command::new(&rig::programs().0).arg("advect").args(small).args(way).output().unwrap();
        let object = good(&output);
        (value(&object, "hash").to_owned(), value(&object, "transport") == "\"verbs\"")
    };
    for problem in ["shift", "smooth"] {
        let (expected, is_verbs) = hash(&["--problem", problem]);
        assert!(!is_verbs);
        for ranks in ["1", "2", "5"] {
            let way = ["--problem", problem, "--transport", "verbs", "--ranks", ranks, "--split"];
            assert_eq!(hash(&way), (expected.clone(), true), "{problem} on {ranks} ranks");
        }
    }
}

#[test]
fn s10_random_exchanges_arrive_as_they_were_sent_and_what_does_not_fit_is_read() {
    let Some(port) = port() else { return };
    for (ranks, count) in [(2, 1_500), (4, 300)] {
        let exchanges = Exchanges { ranks, seed: 7, count };
        let overflows = Mutex::new(0);
        all(&port, exchanges.extent().unwrap(), |_, end| {
            *overflows.lock().unwrap() += exchanges.run(end).unwrap().overflows;
        });
        assert!(overflows.into_inner().unwrap() > 0, "bursts do not fit into the slots");
    }
}

#[test]
fn s7_a_long_send_to_a_rank_that_never_receives_returns() {
    let Some(port) = port() else { return };
    for smallest_slot in [256, 1 << 18] {
        let Ok(ends) = ends(&port, long_extent()).try_into() else { unreachable!("two ranks") };
        send_to_one_that_does_not_receive::<VerbsRing>(ends, smallest_slot);
    }
}

#[test]
fn s41_a_rank_that_is_gone_is_named_with_its_channels_before_the_deadline_or_at_it() {
    let Some(port) = port() else { return };
    let options = Options { ranks: 2, ..Options::tiny(Problem::Shift, 2) };
    let (mesh, fields) = (options.mesh().unwrap(), options.exchanged().unwrap());
    let deadline = Duration::from_secs(4);
    let errors = all(&port, options.extent().unwrap(), |rank, end| {
        let mut boundary = Boundary::build(&mesh, &fields, end, SETTINGS).unwrap();
        let mut store = Store::new(mesh.blocks(), mesh.shape().len(), &fields, 1);
        boundary.exchange(&mut store.stage(0)).unwrap();
        boundary.set_deadline(Some(deadline));
        if rank == 1 {
            return None;
        }
        // Long enough that the other one is gone, whose queue pair was destroyed without a word.
        thread::sleep(Duration::from_millis(500));
        let mut stage = store.stage(0);
        assert!(stage.values(0, 0).is_none());
        let fails = || loop {
            if let Err(error) = boundary.send(&stage, Scope::Any) {
                break error;
            }
            if let Err(error) = boundary.receive(&mut stage, Scope::Any) {
                break error;
            }
        };
        Some(in_time(deadline, fails))
    });
    let error = errors[0].as_ref().unwrap();
    let (BoundaryError::Lost(late) | BoundaryError::Late(late)) = error else { panic!("{error}") };
    let of_the_other = |rank: u32, block: u32| rank == 1 && mesh.owner(block) == 1;
    let mut missing = late.missing.iter();
    assert!(late.count > 0 && missing.all(|missing| of_the_other(missing.rank, missing.key.sender)), "{error}");
    let text = error.to_string();
    assert!(text.contains("rank 1: block ") && text.contains(", field 0, element ("), "{text}");
}

/// A process of a ring; as a test of its own it does nothing.
#[test]
fn a_rank() {
    be::<VerbsRing>();
}

#[test]
fn s41_a_killed_process_is_named_by_all_others_and_all_of_them_end() {
    if device().is_some() {
        kill::<VerbsRing>("a_rank", false);
    }
}
