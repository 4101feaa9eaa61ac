//! Ranks that hold the field, started for a run.

use umbra::job::{FieldJob, Options};
use umbra::stencil::field::{Field, Spread};
use umbra::stencil::{RunError, Source, Stop};

use super::memory::Part;
use super::outcome::{Agent, Outcome};
use super::work::Work;
use super::{Origin, Stencil, memory};
use crate::cli::Failure;

/// Bricks that are read ahead unless the user says how many.
const PREFETCH: u16 = 16;

/// How many ranks hold the field.
pub(super) fn holders(given: &Stencil) -> u32 {
    given.ranks.unwrap_or(2)
}

/// Refuses what only ranks know to obey.
pub(super) fn check(given: &Stencil) -> Result<(), Failure> {
    let named = [
        ("--ranks", given.ranks.is_some()),
        ("--data-path", given.data_path.is_some()),
        ("--stage", given.stage.is_some()),
        ("--prefetch", given.prefetch.is_some()),
        ("--agent", given.agent.is_some()),
    ];
    match named.into_iter().find(|(_, named)| *named && given.source != Origin::Ranks) {
        Some((option, _)) => Err(Failure::usage(format!("{option}: use it with --source ranks"))),
        None => Ok(()),
    }
}

/// Runs with the field in the memory of ranks: starts them, and ends them again.
pub(super) fn ranks(
    given: &Stencil,
    work: &Work,
    input: &Field,
    stop: &Stop,
    run: impl FnOnce(&dyn Source) -> Result<Outcome, RunError>,
) -> Result<Outcome, Failure> {
    let spread = Spread { bricks: work.bricks, element_bytes: input.element().bytes(), holders: holders(given) };
    let field = Part {
        what: "the field in the memory of ranks",
        bytes: work.bricks.count().saturating_mul(work.slot_bytes as u64),
        instead: "use a smaller field, or --source file",
    };
    memory::enough(work.size.rest().into_iter().chain([field]))?;
    let options = Options {
        input: Some(input.open_path()),
        data_path: given.data_path.unwrap_or_default(),
        // So a read that is not answered ends before the run gives up, and says who is missing.
        deadline: given.timeout / 4 * 3,
        stage: given.stage,
        agent: given.agent.clone(),
        ..Options::default()
    };
    let mut job = FieldJob::start(&options, spread).map_err(Failure::failed)?;
    let done = run(&job.source(given.prefetch.unwrap_or(PREFETCH).into()));
    let mut outcome = done.map_err(|error| match error {
        RunError::Stopped { .. } => Failure::failed(error),
        // Whoever interrupts at a terminal interrupts the ranks too.
        error if stop.is_set() => Failure::failed(format!("interrupted: {error}")),
        // The read names the rank, and its launcher knows how it ended.
        error => match job.death() {
            Some(death) => Failure::failed(format!("{error}: {death}")),
            None => Failure::failed(error),
        },
    })?;
    let figures = job.figures().map_err(Failure::failed)?;
    let figure = |name: &str| figures.get(name).copied().unwrap_or_default();
    outcome.agent = Some(Agent {
        hits: figure("copies_hits"),
        reads: figure("reads_for_ranks"),
        prefetched: figure("copies_prefetched"),
        used: figure("copies_prefetched_used"),
        wasted: figure("copies_prefetched_wasted"),
    });
    job.end().map_err(Failure::failed)?;
    Ok(outcome)
}
