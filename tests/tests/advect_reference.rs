//! The reference cases of sparse advection, at their full size and length.
//!
//! Each gives one hash on every number of ranks, dense and sparse, in halves, with delays, alone and with an agent: that of
//! the dense run of one rank, or of the closed form.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::time::Duration;

use umbra::advect::{Options, Outcome, Problem, RankOutcome, run};

const NOTHING: fn(umbra::advect::Progress) = |_| ();

/// Each number of ranks alone and with an agent; one of them dense, one of each in halves, and one with random delays.
fn ways(reference: Options) -> Vec<Options> {
    let ranks = [1, 2, 3, 4, 8];
    let alone = ranks.map(|ranks| Options { ranks, split: ranks == 3, ..reference });
    let delay = |ranks| Duration::from_micros(if ranks == 2 { 100 } else { 0 });
    let attended = ranks.map(|ranks| Options {
        ranks,
        agent: true,
        split: ranks == 8,
        reversed: ranks == 4,
        delay: delay(ranks),
        ..reference
    });
    let dense = Options { ranks: 3, dense: true, ..reference };
    alone.into_iter().chain(attended).chain([dense]).collect()
}

/// Runs one way, and checks all that does not depend on the others.
fn one(options: &Options) -> Outcome {
    let outcome = run(options, NOTHING).unwrap();
    let closed_form = (options.problem == Problem::Shift).then_some(0);
    assert_eq!(outcome.wrong, closed_form, "{options:?}: differs from the closed form");
    for rank in &outcome.ranks {
        assert!(
            rank.messages_each < u64::from(options.ranks),
            "{options:?}: more than one message a peer and exchange"
        );
    }
    let sum = |of: fn(&RankOutcome) -> u64| outcome.ranks.iter().map(of).sum::<u64>();
    let (messages, found) = (sum(|rank| rank.counts[0]), sum(|rank| rank.attended));
    assert_eq!(found, if options.agent { messages } else { 0 }, "{options:?}: messages that an agent has found");
    outcome
}

/// The reference case, and what it says sparse on its usual number of ranks. All ways, and the dense run of one rank, which
/// `umbra advect` compares with, must agree.
fn everywhere(problem: Problem, dimensions: u32) -> (Options, Outcome) {
    let reference = Options::new(problem, dimensions);
    let dense = one(&reference.alone());
    let mut usual = None;
    for options in ways(reference) {
        let outcome = one(&options);
        assert_eq!(outcome.hash, dense.hash, "{options:?}");
        assert_eq!((outcome.max.to_bits(), outcome.nonzero), (dense.max.to_bits(), dense.nonzero), "{options:?}");
        let is_less = outcome.field_bytes_peak < dense.field_bytes_peak;
        assert!(is_less != options.dense, "{options:?}: {} of {}", outcome.field_bytes_peak, dense.field_bytes_peak);
        usual = if options == reference { Some(outcome) } else { usual };
    }
    (reference, usual.unwrap())
}

#[test]
fn s34_the_reference_plane_is_the_closed_form_in_a_fraction_of_the_memory() {
    let (options, outcome) = everywhere(Problem::Shift, 2);
    assert_eq!((options.cycles, outcome.wrong, outcome.nonzero), (512, Some(0), 8 * 317), "eight discs of radius 10");
    let dense = u64::from(options.fields) * 64 * 36 * 36 * 8;
    let peak = outcome.field_bytes_peak;
    assert!(peak > 0 && peak * 10_000 <= dense * 625, "at most 4 of 64 blocks a field: {peak} of {dense}");
    for rank in &outcome.ranks {
        let [_, peak, all] = rank.slot_bytes;
        assert!(peak * 100 <= all * 30, "slots of {peak} bytes, {all} if they held everything");
        // Whole pages, and what others have not given back yet.
        let [held, _] = rank.held_bytes;
        assert!(held > 0 && held * 100 <= all * 30, "{held} bytes are held for slots, {all} if they held everything");
    }
}

#[test]
fn s34_the_reference_space_is_the_closed_form() {
    let (options, outcome) = everywhere(Problem::Shift, 3);
    assert_eq!((options.cycles, outcome.wrong, outcome.nonzero), (64, Some(0), 4 * 515), "four balls of radius 5");
}

#[test]
fn s35_the_smooth_reference_plane_has_the_bits_of_the_dense_run() {
    let (options, outcome) = everywhere(Problem::Smooth, 2);
    assert!(options.cycles == 400 && outcome.max > 0.0 && outcome.max < 1.0);
}

#[test]
fn s35_the_smooth_reference_space_has_the_bits_of_the_dense_run() {
    let (options, outcome) = everywhere(Problem::Smooth, 3);
    assert!(options.cycles == 60 && outcome.max > 0.0 && outcome.max < 1.0);
}
