//! A run of all ranks, as threads, and what they say together.

use std::sync::Arc;
use std::sync::mpsc;

use super::options::{AdvectError, Options};
use super::rank::{RankOutcome, run_rank};
use crate::boundary::Fabric;

/// A rank has done so many cycles.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Which.
    pub rank: u32,
    /// How many.
    pub cycles: u32,
}

/// What all ranks say together.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// Over all cells of all fields; the same on every number of ranks.
    pub hash: u64,
    /// The largest magnitude.
    pub max: f64,
    /// Cells that are not zero.
    pub nonzero: u64,
    /// Cells that differ from the closed form, if there is one.
    pub wrong: Option<u64>,
    /// Bytes of all fields on all ranks, in the cycle in which they were most.
    pub field_bytes_peak: u64,
    /// What each rank says.
    pub ranks: Vec<RankOutcome>,
}

/// Runs all ranks as threads.
///
/// # Errors
/// [`AdvectError`] of the first rank that fails.
pub fn run(options: &Options, mut tell: impl FnMut(Progress)) -> Result<Outcome, AdvectError> {
    options.check()?;
    let extent = options.extent()?;
    let segment = Arc::new(Fabric::segment(extent)?);
    let outcomes: Vec<Result<RankOutcome, AdvectError>> = std::thread::scope(|scope| {
        let (said, hear) = mpsc::channel();
        let threads: Vec<_> = (0..options.ranks)
            .map(|rank| {
                let (segment, said) = (segment.clone(), said.clone());
                scope.spawn(move || {
                    let fabric = Fabric::attach(segment, extent, rank)?;
                    run_rank(options, rank, fabric, |cycles| {
                        // Whether anybody listens changes nothing.
                        let _ = said.send(Progress { rank, cycles });
                    })
                })
            })
            .collect();
        drop(said);
        hear.into_iter().for_each(&mut tell);
        let ended = |rank| AdvectError::Ended { rank, why: "its thread panicked".to_owned() };
        (0..).zip(threads).map(|(rank, thread)| thread.join().unwrap_or_else(|_| Err(ended(rank)))).collect()
    });
    outcomes.into_iter().collect::<Result<Vec<_>, _>>().map(summary)
}

/// What the ranks say together.
#[must_use]
pub fn summary(ranks: Vec<RankOutcome>) -> Outcome {
    let cycles = ranks.iter().map(|rank| rank.cycle_field_bytes.len()).max().unwrap_or(0);
    let held = |cycle: usize| ranks.iter().filter_map(|rank| rank.cycle_field_bytes.get(cycle)).sum();
    Outcome {
        field_bytes_peak: (0..cycles).map(held).max().unwrap_or(0),
        hash: ranks.iter().fold(0, |hash, rank| hash.wrapping_add(rank.hash)),
        max: ranks.iter().fold(0.0, |max, rank| if rank.max > max { rank.max } else { max }),
        nonzero: ranks.iter().map(|rank| rank.nonzero).sum(),
        wrong: ranks.iter().map(|rank| rank.wrong).sum(),
        ranks,
    }
}
