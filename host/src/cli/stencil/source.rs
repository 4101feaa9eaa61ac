//! Ranks that hold the field, started for a run.

use umbra::job::{FieldJob, Options};
use umbra::stencil::field::{Field, Spread};
use umbra::stencil::{RunError, Source, Stop};
use umbra_core::access::stage::SLOT_BYTES;

use super::memory::Part;
use super::outcome::{Agent, Outcome};
use super::work::Work;
use super::{Origin, Stencil, memory};
use crate::cli::Failure;

/// Bricks that are read ahead unless the user says how many.
const PREFETCH: u16 = 16;
/// Bytes of copies that the agent keeps unless the user says how many.
const STAGE: u64 = 64 << 20;

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

/// What the agent of this host keeps at most of so many bricks: pieces of them, each in a slot of its own. That of the ranks
/// reads nothing for others to keep.
fn copies(stage: u64, bricks: u64, brick_bytes: u64) -> Part {
    let pieces = bricks.saturating_mul(brick_bytes.div_ceil(SLOT_BYTES));
    let bytes = stage.min(pieces.saturating_mul(SLOT_BYTES));
    Part { what: "the copies that the agent keeps", bytes, instead: "let it keep fewer (--stage)" }
}

/// What a run with ranks takes beside the rest, for so many bricks; nothing for another one.
pub(super) fn parts(given: &Stencil, bricks: u64, brick_bytes: u64) -> impl Iterator<Item = Part> {
    let field = Part {
        what: "the field in the memory of ranks",
        bytes: bricks.saturating_mul(brick_bytes),
        instead: "use a smaller field, or --source file",
    };
    let copies = copies(stage(given), bricks, brick_bytes);
    (given.source == Origin::Ranks).then_some([field, copies]).into_iter().flatten()
}

fn stage(given: &Stencil) -> u64 {
    given.stage.unwrap_or(STAGE)
}

/// Runs with the field in the memory of ranks: starts them, and ends them again.
pub(super) fn ranks(
    given: &Stencil,
    work: &Work,
    input: &Field,
    output: &Field,
    stop: &Stop,
    run: impl FnOnce(&dyn Source) -> Result<Outcome, RunError>,
) -> Result<Outcome, Failure> {
    let spread = Spread { bricks: work.bricks, element_bytes: input.element().bytes(), holders: holders(given) };
    let parts = parts(given, work.bricks.count(), work.slot_bytes as u64);
    memory::enough(work.size.rest().into_iter().chain(parts).chain(memory::of_file(output)))?;
    let options = Options {
        input: Some(input.open_path()),
        data_path: given.data_path.unwrap_or_default(),
        // So a read that is not answered ends before the run gives up, and says who is missing.
        deadline: given.timeout / 4 * 3,
        stage: Some(stage(given)),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_take_no_more_than_there_are_and_no_more_than_may_be_kept() {
        let bytes = |stage, bricks, brick_bytes| copies(stage, bricks, brick_bytes).bytes;
        assert_eq!(bytes(STAGE, 3, 1), 3 * SLOT_BYTES);
        assert_eq!(bytes(STAGE, 3, SLOT_BYTES + 1), 6 * SLOT_BYTES);
        assert_eq!(bytes(STAGE, 1 << 31, SLOT_BYTES), STAGE);
        assert_eq!(bytes(u64::MAX, u64::MAX, u64::MAX), u64::MAX);
        assert_eq!(bytes(0, 3, 1), 0);
    }
}
