//! A run of all ranks, as threads, and what they say together.

use std::sync::mpsc;
use std::sync::{Arc, OnceLock};
use std::thread::{Builder, ScopedJoinHandle};

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
    // Whether all ranks are there: one that began without another would wait for it.
    let all_there: OnceLock<bool> = OnceLock::new();
    let outcomes = std::thread::scope(|scope| -> Result<Vec<RankOutcome>, AdvectError> {
        let (said, hear) = mpsc::channel();
        let agent = if options.agent {
            let (mut agent, ended) = (Agent::attach(segment.clone(), extent)?, &ended);
            // It has all ranks before any of them can look for itself.
            agent.look()?;
            // Should it fail, the ranks look out for themselves, and the run has not been what was asked for.
            let attend = move || agent.attend(|| ended.load(Ordering::Relaxed) < options.ranks);
            let started = Builder::new().name("agent".to_owned()).spawn_scoped(scope, attend);
            Some(started.map_err(|error| AdvectError::Agent(not_started(&error)))?)
        } else {
            None
        };
        let start = |rank| {
            let (segment, said, all_there) = (segment.clone(), said.clone(), &all_there);
            let ended = Ended(&ended);
            let work = move || {
                let _ended = ended;
                if !*all_there.wait() {
                    return Err(AdvectError::Ended { rank, why: "another rank cannot begin".to_owned() });
                }
                run_within(options, rank, segment, |cycles| {
                    // Whether anybody listens changes nothing.
                    let _ = said.send(Progress { rank, cycles });
                })
            };
            let started = Builder::new().name(format!("rank {rank}")).spawn_scoped(scope, work);
            started.map_err(|error| AdvectError::Ended { rank, why: not_started(&error) })
        };
        let threads: Result<Vec<_>, _> = (0..options.ranks).map(start).collect();
        let _ = all_there.set(threads.is_ok());
        if threads.is_err() {
            // The agent does not wait for those that were not started.
            ended.store(options.ranks, Ordering::Relaxed);
        }
        let threads = threads?;
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

/// Why there is no thread.
fn not_started(error: &std::io::Error) -> String {
    format!("its thread cannot be started: {error}")
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
