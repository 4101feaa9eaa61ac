//! The advection problem on the processes of a communicator, and its proof.

use std::error::Error;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::time::Instant;

use umbra::advect::{self, Finished, Options, Problem, Progress, RankOutcome, Shown, Watch, run_rank, summary};
use umbra::output::Output;
use umbra::report::Form;
use umbra_mpi::{Communicator, MpiNodes, MpiRma, MpiSlot, MpiStrips, Window};

use crate::options::Carrier;
use crate::output::{Say, say, say_aside};
use crate::told;

/// Pictures in a page or a picture, and one of the end.
const PICTURES: u32 = 11;

/// A run, and what is made of it.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Wanted {
    /// The problem.
    pub(crate) options: Options,
    /// What carries the messages.
    pub(crate) carrier: Carrier,
    /// An object instead of figures for people.
    pub(crate) json: bool,
    /// Compare with a dense run of one rank, where there is no closed form.
    pub(crate) verify: bool,
    /// Where to write a page of pictures, or a picture of them.
    pub(crate) plot: Option<(PathBuf, Form)>,
    /// The first rank says how far it is, also where there is no terminal.
    pub(crate) progress: bool,
    /// It does not, wherever it is.
    pub(crate) quiet: bool,
}

/// What all ranks say, at every rank.
fn gather(world: Communicator, outcome: &RankOutcome) -> Result<Vec<RankOutcome>, Box<dyn Error>> {
    let mut words = told::words(outcome);
    let longest = world.gather(&[words.len() as u64])?.into_iter().max().unwrap_or(0);
    words.resize(usize::try_from(longest)?, 0);
    let all = world.gather(&words)?;
    let each = (0..).zip(all.chunks(words.len()));
    each.map(|(rank, words)| told::outcome(words).ok_or_else(|| format!("rank {rank} told no outcome").into()))
        .collect()
}

/// Runs one rank; true on all if every bit is right.
pub(crate) fn run(world: Communicator, wanted: &Wanted) -> Result<bool, Box<dyn Error>> {
    let frames = if wanted.plot.is_some() { wanted.options.cycles.div_ceil(PICTURES).max(1) } else { 0 };
    let options = Options { ranks: world.size(), frames, ..wanted.options };
    options.check()?;
    // Others may be on other machines, and those of this one may have begun.
    options.fits(1)?;
    let (rank, begun) = (world.rank(), Instant::now());
    // No rank is more than an exchange ahead of its peers, so one of them speaks for all.
    let shown = if rank == 0 { Shown::on_stderr(wanted.quiet, wanted.progress) } else { Shown::Nothing };
    let mut watch = Watch::new(shown, 1, options.cycles);
    let tell = |cycles| watch.tell(Progress { rank: 0, cycles });
    let deadline = Some(options.deadline);
    let (transport, outcome) = match wanted.carrier {
        Carrier::Slot => ("mpi-slot", run_rank(&options, rank, MpiSlot::new(world, deadline)?, tell)?),
        Carrier::Rma => {
            let words = MpiRma::words(world.size(), options.extent()?.message);
            let window = Window::allocate(&world, words)?;
            let outcome = run_rank(&options, rank, MpiRma::new(world, &window, deadline)?, tell)?;
            window.free()?;
            ("mpi-rma", outcome)
        }
        Carrier::Nodes(nodes) => {
            let nodes = MpiNodes::split(world, u16::try_from(rank % u32::from(nodes.max(1)))?)?;
            let end = nodes.end(options.extent()?.message, deadline)?;
            ("mpi-nodes", run_rank(&options, rank, end, tell)?)
        }
        Carrier::Early => ("mpi-early", run_rank(&options, rank, MpiStrips::early(world, deadline)?, tell)?),
        Carrier::Probe => ("mpi-probe", run_rank(&options, rank, MpiStrips::probing(world, deadline)?, tell)?),
    };
    watch.finish();
    let outcome = summary(gather(world, &outcome)?);
    let elapsed = begun.elapsed();
    let mut good = true;
    if rank == 0 {
        // This rank alone computes what one rank gets that keeps every field on every block.
        let dense = if wanted.verify && options.problem == Problem::Smooth {
            watch.again();
            let outcome = advect::run(&options.alone(), |progress| watch.tell(progress))?;
            watch.finish();
            Some(outcome.hash)
        } else {
            None
        };
        let finished = Finished::new(&options, outcome, dense, elapsed, transport);
        good = finished.is_good();
        let mut say: Say = say;
        if let Some((path, form)) = &wanted.plot {
            let drawn = finished.report().draw(*form)?;
            let written = Output::create(path).and_then(|mut file| {
                file.write_all(&drawn)?;
                file.keep()?;
                // Then nothing else may stand there.
                if file.is_standard() {
                    say = say_aside;
                }
                Ok(())
            });
            written.map_err(|e| format!("cannot write the {} {}: {e}", form.name(), path.display()))?;
        }
        if wanted.json {
            say(&finished.json())?;
        } else {
            print(&finished, say)?;
        }
    }
    // Everybody ends as the first rank does.
    Ok(world.gather(&[u64::from(good)])?.first() == Some(&1))
}

fn print(finished: &Finished<'_>, say: Say) -> io::Result<()> {
    say(&finished.headline())?;
    for (name, value) in finished.figures() {
        say(&format_args!("  {name:<18}  {value}"))?;
    }
    let (good, text) = finished.verdict();
    say(&format_args!("{}: {text}", if good { "agreed" } else { "differs" }))
}
