//! Sparse advection: the same bits on every number of ranks.
//!
//! They are the same dense and sparse, split and not, and in every order.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::time::Duration;

use umbra::advect::{Options, Outcome, Problem, RankOutcome, Refine, run};
use umbra::boundary::Mesh as _;

const NOTHING: fn(umbra::advect::Progress) = |_| ();

/// Smaller than the usual runs, but with blocks that come and go.
fn small(problem: Problem, dimensions: u32) -> Options {
    let plane = dimensions == 2;
    Options {
        blocks: if plane { 6 } else { 4 },
        cells: if plane { 8 } else { 6 },
        fields: 3,
        radius: 2,
        cycles: if plane { 40 } else { 16 },
        ..Options::new(problem, dimensions)
    }
}

/// Everything that may not change a bit.
fn variants(options: Options) -> Vec<(String, Options)> {
    let mut all = Vec::new();
    for ranks in [1, 2, 3, 4, 8] {
        for dense in [false, true] {
            for split in [false, true] {
                let name = format!("{ranks} ranks, dense {dense}, split {split}");
                all.push((name, Options { ranks, dense, split, ..options }));
            }
        }
        let reversed = Options { ranks, reversed: true, split: ranks == 3, ..options };
        let delayed = Options { ranks, delay: Duration::from_micros(300), cycles: options.cycles, ..options };
        let agent = Options { ranks, agent: true, split: ranks % 2 == 0, ..options };
        all.push((format!("{ranks} ranks, reversed"), reversed));
        all.push((format!("{ranks} ranks, agent"), agent));
        all.push((format!("{ranks} ranks, delayed"), delayed));
    }
    all
}

/// An agent has found every message, and without one nobody did for a rank.
fn attended(options: &Options, outcome: &Outcome, name: &str) {
    let sum = |of: fn(&RankOutcome) -> u64| outcome.ranks.iter().map(of).sum::<u64>();
    let (messages, found) = (sum(|rank| rank.counts[0]), sum(|rank| rank.attended));
    assert_eq!(found, if options.agent { messages } else { 0 }, "{name}: messages that an agent has found");
    assert_eq!(messages > 0, options.ranks > 1, "{name}");
}

fn all_agree(options: Options) -> Outcome {
    let expected = run(&Options { ranks: 1, dense: true, ..options }, NOTHING).unwrap();
    let variants = variants(options);
    assert!(variants.len() >= 30);
    for (name, options) in variants {
        let outcome = run(&options, NOTHING).unwrap();
        let closed_form = (options.problem == Problem::Shift).then_some(0);
        assert_eq!(outcome.wrong, closed_form, "{name}: differs from the closed form");
        assert_eq!(outcome.hash, expected.hash, "{name}");
        assert_eq!((outcome.max.to_bits(), outcome.nonzero), (expected.max.to_bits(), expected.nonzero), "{name}");
        attended(&options, &outcome, &name);
        for rank in &outcome.ranks {
            assert!(rank.messages_each < u64::from(options.ranks), "{name}: more than one message a peer and exchange");
        }
    }
    expected
}

#[test]
fn s34_a_plane_of_shifted_blobs_is_the_closed_form() {
    let outcome = all_agree(small(Problem::Shift, 2));
    assert_eq!(outcome.wrong, Some(0));
    assert_eq!(outcome.nonzero, 3 * 13, "three discs of radius 2");
}

#[test]
fn s34_a_space_of_shifted_blobs_is_the_closed_form() {
    assert_eq!(all_agree(small(Problem::Shift, 3)).nonzero, 3 * 33, "three balls of radius 2");
}

#[test]
fn s35_a_smooth_plane_has_the_bits_of_the_dense_run() {
    let outcome = all_agree(small(Problem::Smooth, 2));
    assert!(outcome.wrong.is_none() && outcome.max > 0.0 && outcome.max < 1.0);
}

#[test]
fn s35_a_smooth_space_has_the_bits_of_the_dense_run() {
    assert!(all_agree(small(Problem::Smooth, 3)).nonzero > 500);
}

#[test]
fn s35_a_smooth_plane_of_two_levels_has_the_bits_of_the_dense_run() {
    let options = Options { refine: Some(Refine { from: 2, to: 4 }), ..small(Problem::Smooth, 2) };
    let (refined, plain) = (all_agree(options), run(&small(Problem::Smooth, 2), NOTHING).unwrap());
    assert!(refined.hash != plain.hash && refined.max > 0.0 && refined.max < 1.0);
}

#[test]
fn s35_a_smooth_space_of_two_levels_has_the_bits_of_the_dense_run() {
    // Up to the edge of the box, behind which the coarse blocks of the other side lie.
    let options = Options { refine: Some(Refine { from: 2, to: 4 }), ..small(Problem::Smooth, 3) };
    assert!(all_agree(options).nonzero > 1000);
}

#[test]
fn blocks_that_are_all_neighbours_of_all_agree_too() {
    let half = Some(Refine { from: 0, to: 1 });
    for (problem, refine) in [(Problem::Shift, None), (Problem::Smooth, None), (Problem::Smooth, half)] {
        for dimensions in [2, 3] {
            let tiny = Options { refine, ..Options::tiny(problem, dimensions) };
            let expected = run(&Options { ranks: 1, dense: true, ..tiny }, NOTHING).unwrap();
            for ranks in [1, 3, 6] {
                agrees(Options { ranks, split: ranks == 3, ..tiny }, &expected);
            }
        }
    }
}

#[test]
fn s32_ranks_without_blocks_take_part_alone_and_with_an_agent_also_when_blocks_move() {
    for (problem, dimensions) in [(Problem::Shift, 2), (Problem::Smooth, 2), (Problem::Shift, 3)] {
        let tiny = Options::tiny(problem, dimensions);
        let expected = run(&Options { ranks: 1, dense: true, ..tiny }, NOTHING).unwrap();
        let ranks = tiny.mesh().unwrap().blocks() + 2;
        for (agent, remesh) in [(false, None), (true, None), (false, Some(1)), (true, Some(3))] {
            let outcome = agrees(Options { ranks, agent, remesh, split: agent, ..tiny }, &expected);
            let idle = outcome.ranks.iter().filter(|rank| rank.counts[0] == 0).count();
            assert_eq!(idle, 2, "ranks without blocks send nothing");
        }
    }
}

fn agrees(options: Options, expected: &Outcome) -> Outcome {
    let outcome = run(&options, NOTHING).unwrap();
    assert_eq!((outcome.hash, outcome.wrong), (expected.hash, expected.wrong), "{options:?}");
    attended(&options, &outcome, "ranks without blocks");
    outcome
}

#[test]
fn a_hash_knows_a_single_bit() {
    let options = Options { ranks: 1, ..Options::tiny(Problem::Smooth, 2) };
    let hash = run(&options, NOTHING).unwrap().hash;
    for other in [Options { cycles: 19, ..options }, Options { seed: 2, ..options }, Options { fields: 1, ..options }] {
        assert_ne!(run(&other, NOTHING).unwrap().hash, hash);
    }
}

#[test]
fn runs_that_cannot_work_are_refused_with_a_reason() {
    let (options, smooth) = (Options::new(Problem::Shift, 2), Options::new(Problem::Smooth, 2));
    let cases = [
        (Options { dimensions: 4, ..options }, "4 dimensions"),
        (Options { ranks: 0, ..options }, "no ranks"),
        (Options { radius: 200, ..options }, "radius 200"),
        (Options { cells: 1, radius: 1, ..options }, "ghosts"),
        (Options { refine: Some(Refine { from: 2, to: 6 }), ..options }, "problem smooth"),
        (Options { refine: Some(Refine { from: 2, to: 9 }), ..smooth }, "no blocks 2..9"),
        (Options { refine: Some(Refine { from: 2, to: 2 }), ..smooth }, "no blocks 2..2"),
        (Options { refine: Some(Refine { from: 2, to: 6 }), cells: 9, ..smooth }, "9 cells in direction 0"),
        (
            Options { refine: Some(Refine { from: 2, to: 6 }), cells: 2, radius: 1, ..smooth },
            "2 layers of coarse ghosts",
        ),
    ];
    for (options, why) in cases {
        let error = run(&options, NOTHING).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}
