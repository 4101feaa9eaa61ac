//! Sparse advection whose blocks are dealt anew: no bit changes.
//!
//! Fields come and go as without.
//!
//! A block takes its fields, what is absent, and for how many looks a field was idle with it: so every field becomes absent
//! in the same step, wherever its block lies then.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use umbra::advect::{AdvectError, Options, Outcome, Problem, Refine, run};

const NOTHING: fn(umbra::advect::Progress) = |_| ();

/// Small, with blocks that come and go, and looks that end between deals.
fn small(problem: Problem, dimensions: u32) -> Options {
    let plane = dimensions == 2;
    Options {
        blocks: if plane { 5 } else { 3 },
        cells: if plane { 8 } else { 6 },
        fields: 3,
        radius: 2,
        cycles: if plane { 40 } else { 14 },
        idle: if plane { 5 } else { 2 },
        ..Options::new(problem, dimensions)
    }
}

/// What the ranks hold together after each step.
fn held(outcome: &Outcome, cycles: u32) -> Vec<u64> {
    let of = |cycle: usize| outcome.ranks.iter().map(|rank| rank.cycle_field_bytes[cycle]).sum();
    (0..cycles as usize).map(of).collect()
}

fn all_agree(options: Options) {
    let mut expected: [Option<Outcome>; 2] = [None, None];
    for dense in [false, true] {
        for ranks in [1, 2, 3, 4, 8] {
            for (agent, every, split) in [(false, 1, false), (false, 4, true), (true, 3, false)] {
                let options = Options { ranks, dense, agent, split, ..options };
                let name = format!("{ranks} ranks, dense {dense}, agent {agent}, every {every}");
                let outcome = run(&Options { remesh: Some(every), ..options }, NOTHING).unwrap();
                let expected = expected[usize::from(dense)].get_or_insert_with(|| {
                    let still = run(&options, NOTHING).unwrap();
                    assert_eq!(sum(&still, |rank| rank.moved_blocks), 0);
                    still
                });
                let closed_form = (options.problem == Problem::Shift).then_some(0);
                assert_eq!(outcome.wrong, closed_form, "{name}: differs from the closed form");
                assert_eq!(outcome.hash, expected.hash, "{name}");
                assert_eq!(
                    (outcome.max.to_bits(), outcome.nonzero),
                    (expected.max.to_bits(), expected.nonzero),
                    "{name}"
                );
                let [found, messages] = [sum(&outcome, |rank| rank.attended), sum(&outcome, |rank| rank.counts[0])];
                assert_eq!(found, if agent { messages } else { 0 }, "{name}: messages that an agent has found");
                // Also in which step each field came and went.
                assert_eq!(held(&outcome, options.cycles), held(expected, options.cycles), "{name}");
                for at in 0..2 {
                    let [now, then] = [&outcome, expected].map(|of| sum(of, |rank| rank.allocations[at]));
                    assert_eq!(now, then, "{name}: {at}");
                }
                assert_eq!(sum(&outcome, |rank| rank.moved_blocks) > 0, ranks > 1, "{name}");
            }
        }
    }
    let [sparse, dense] = expected.map(Option::unwrap);
    assert_eq!(sparse.hash, dense.hash);
    // A smooth blob leaves a tail behind for longer than this.
    let leaves = options.problem == Problem::Shift;
    assert!(!leaves || sum(&sparse, |rank| rank.allocations[1]) > 0, "fields become absent");
}

fn sum(outcome: &Outcome, of: impl Fn(&umbra::advect::RankOutcome) -> u64) -> u64 {
    outcome.ranks.iter().map(of).sum()
}

#[test]
fn s25_a_shifted_plane_has_the_same_bits_and_fields_whoever_has_its_blocks() {
    all_agree(small(Problem::Shift, 2));
}

#[test]
fn s25_a_shifted_space_has_the_same_bits_and_fields_whoever_has_its_blocks() {
    all_agree(small(Problem::Shift, 3));
}

#[test]
fn s25_a_smooth_plane_has_the_same_bits_and_fields_whoever_has_its_blocks() {
    all_agree(small(Problem::Smooth, 2));
}

#[test]
fn s25_a_smooth_plane_of_two_levels_has_the_same_bits_and_fields_whoever_has_its_blocks() {
    all_agree(Options { refine: Some(Refine { from: 1, to: 3 }), ..small(Problem::Smooth, 2) });
}

#[test]
fn a_block_whose_fields_are_larger_than_a_message_moves_in_parts() {
    // A block has 20 x 20 cells and a message place for few strips of them, but a rank hands over half of its blocks.
    let options = Options { blocks: 4, cells: 16, ranks: 2, dense: true, cycles: 9, ..small(Problem::Smooth, 2) };
    let parcel = 4 * 3 * 2 * 20 * 20 * 8;
    assert!(2 * options.extent().unwrap().message < parcel, "{:?}", options.extent());
    let [still, dealt] = [None, Some(2)].map(|remesh| run(&Options { remesh, ..options }, NOTHING).unwrap());
    assert_eq!(dealt.hash, still.hash);
    assert_eq!(sum(&dealt, |rank| rank.moved_blocks), 4 * 8);
}

#[test]
fn deals_that_never_come_or_always_are_refused() {
    let options = small(Problem::Shift, 2);
    for every in [0, 40, u32::MAX] {
        let refused = run(&Options { remesh: Some(every), ..options }, NOTHING);
        assert_eq!(refused, Err(AdvectError::Remesh { every, cycles: 40 }));
    }
    assert!(Options { remesh: Some(39), ..options }.check().is_ok());
}
