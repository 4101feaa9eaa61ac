//! A run of all ranks, as threads, and what they say together.

use std::sync::Arc;
use std::sync::mpsc;
use std::thread::ScopedJoinHandle;

use umbra_core::atomic::{AtomicU32, Ordering};

use super::options::{AdvectError, Options};
use super::rank::run_rank;
use super::rank_outcome::RankOutcome;
use crate::boundary::{Agent, Attended, Fabric};
use crate::sys::segment::Segment;

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
/// [`AdvectError`] of the first rank that fails; if none does, of the agent.
pub fn run(options: &Options, mut tell: impl FnMut(Progress)) -> Result<Outcome, AdvectError> {
    options.check()?;
    options.fits(options.ranks)?;
    let extent = options.extent()?;
    let segment = Arc::new(if options.agent { Agent::segment(extent) } else { Fabric::segment(extent) }?);
    let ended = AtomicU32::new(0);
    let outcomes = std::thread::scope(|scope| -> Result<Vec<RankOutcome>, AdvectError> {
        let (said, hear) = mpsc::channel();
        let agent = if options.agent {
            let (mut agent, ended) = (Agent::attach(segment.clone(), extent)?, &ended);
            // It has all ranks before any of them can look for itself.
            agent.look()?;
            // Should it fail, the ranks look out for themselves, and the run has not been what was asked for.
            Some(scope.spawn(move || agent.attend(|| ended.load(Ordering::Relaxed) < options.ranks)))
        } else {
            None
        };
        let threads: Vec<_> = (0..options.ranks)
            .map(|rank| {
                let (segment, said) = (segment.clone(), said.clone());
                let ended = Ended(&ended);
                scope.spawn(move || {
                    let _ended = ended;
                    run_within(options, rank, segment, |cycles| {
                        // Whether anybody listens changes nothing.
                        let _ = said.send(Progress { rank, cycles });
                    })
                })
            })
            .collect();
        drop(said);
        hear.into_iter().for_each(&mut tell);
        let ended = |rank| AdvectError::Ended { rank, why: "its thread panicked".to_owned() };
        let join = |(rank, thread): (u32, ScopedJoinHandle<'_, _>)| thread.join().unwrap_or_else(|_| Err(ended(rank)));
        // All of them are waited for, whichever fails.
        let outcomes: Vec<Result<RankOutcome, AdvectError>> = (0..).zip(threads).map(join).collect();
        let attended = agent.map_or(Ok(Ok(())), ScopedJoinHandle::join);
        let outcomes = outcomes.into_iter().collect::<Result<Vec<_>, _>>()?;
        attended.map_err(|_| AdvectError::Agent("its thread panicked".to_owned()))?.map_err(AdvectError::Attend)?;
        Ok(outcomes)
    });
    outcomes.map(summary)
}

/// Counts a rank that has ended, however it did.
struct Ended<'c>(&'c AtomicU32);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Runs a rank from beginning to end over memory that all ranks of this machine share, which the options say how to use.
/// `tell` hears of each cycle.
///
/// # Errors
/// [`AdvectError`].
pub fn run_within(
    options: &Options,
    rank: u32,
    segment: Arc<Segment>,
    tell: impl FnMut(u32),
) -> Result<RankOutcome, AdvectError> {
    let extent = options.extent()?;
    match options.agent {
        true => run_rank(options, rank, Attended::attach(segment, extent, rank)?, tell),
        false => run_rank(options, rank, Fabric::attach(segment, extent, rank)?, tell),
    }
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
