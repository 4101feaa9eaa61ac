//! `umbra advect`: blobs that move through a mesh on several ranks.
//!
//! It proves that every bit arrived.

mod children;
mod verbs;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use umbra::advect::{self, Finished, Options, Problem, Refine, Shown, Watch};
use umbra::report::Form;
use umbra::verbs::Choice;

use super::output::{Output, apart, beside};
use super::run::{device, timeout};
use super::{Done, Failure, Out, at_least_one, code_of, interrupt, paint, verdict};
use children::Way;

/// Move blobs through a mesh on several ranks, and prove that every bit arrived.
///
/// Each field is a blob in an empty periodic box of blocks. Blocks that a blob enters get the field, blocks that it has left
/// give it back; ghost cells are exchanged with one message for each pair of ranks, in which an empty strip costs a bit. Ranks
/// are processes of this machine, which share memory or exchange over RDMA.
///
/// Problem shift moves blobs by one cell a sweep, and every cell is compared with the closed form. Problem smooth is an upwind
/// scheme of second order in time; a run of one rank that keeps every field on every block must give the same bits. The exit code
/// is 0 only if all bits agree.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Advect {
    /// Which equation
    #[arg(long, value_enum, value_name = "PROBLEM", default_value_t = Equation::Shift)]
    problem: Equation,
    /// Two or three
    #[arg(long, short = 'd', value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..=3))]
    dimensions: u32,
    /// Ranks, each a process
    #[arg(long, short = 'n', value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=256))]
    ranks: u32,
    /// Blocks along each dimension; 8, or 4 in three dimensions, if left out
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    blocks: Option<u32>,
    /// Cells of a block along each dimension; 32, or 16 in three dimensions, if left out
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=512))]
    cells: Option<u32>,
    /// Refine a box of blocks once (problem smooth): along each dimension those from the first number on, up to below the second;
    /// fluxes between levels are not matched
    #[arg(long, value_name = "FROM..TO")]
    refine: Option<Refine>,
    /// Fields, each with a blob; 8 in the plane, 4 (shift) or 6 (smooth) in space, if left out
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    fields: Option<u16>,
    /// Cells from the middle of a blob to its rim; 10, or 5 in three dimensions, if left out
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=1000))]
    radius: Option<u32>,
    /// Time steps; 512 and 64 (shift) or 400 and 60 (smooth), in the plane and in space, if left out
    #[arg(long, value_name = "N", value_parser = at_least_one())]
    cycles: Option<u32>,
    /// Keep every field on every block
    #[arg(long)]
    dense: bool,
    /// Exchange between ranks first, then within them
    #[arg(long)]
    split: bool,
    /// Send to the last rank first, and set the last channel first
    #[arg(long)]
    reversed: bool,
    /// Wait at random before each exchange, for so long at most
    #[arg(long, value_name = "TIME", value_parser = timeout)]
    delay: Option<Duration>,
    /// Chooses blobs and delays
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Deal the blocks anew among the ranks each so many time steps: half of each rank's go to its neighbour, with all that
    /// belongs to them
    #[arg(long, value_name = "N", value_parser = at_least_one())]
    remesh: Option<u32>,
    /// Looks in a row without content after which a block gives a field back
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = at_least_one())]
    dealloc_count: u32,
    /// Bytes of a slot at most; what does not fit is fetched, and the rest of the memory stays with its sender
    #[arg(long, value_name = "BYTES", default_value_t = u32::MAX, hide_default_value = true)]
    largest_slot: u32,
    /// What carries the messages
    #[arg(long, value_enum, value_name = "TRANSPORT", default_value_t = Carrier::Shm)]
    transport: Carrier,
    /// The agent's executable, with --transport agent; looked for beside this one if left out
    #[arg(long, value_name = "FILE", conflicts_with = "threads")]
    agent: Option<PathBuf>,
    /// RDMA device of all ranks, with --transport verbs, as `umbra devices` names them; UMBRA_DEVICE if left out, then the first
    /// that carries data
    #[arg(long, value_name = "NAME[:PORT[:GID_INDEX]]", conflicts_with = "threads")]
    device: Option<Choice>,
    /// Run the ranks as threads of one process
    #[arg(long)]
    threads: bool,
    /// Do not compare with a dense run of one rank (problem smooth)
    #[arg(long)]
    no_verify: bool,
    /// How long an exchange may take before it fails by naming what is missing
    #[arg(long, visible_alias = "deadline", value_name = "TIME", default_value = "60s", value_parser = timeout)]
    timeout: Duration,
    /// Print one JSON object on one line instead of a table
    #[arg(long)]
    json: bool,
    /// Also draw where the first field was, which blocks had it, and the bytes of each step: a page or a picture, as the name
    /// ends; a page if it has no ending, such as /dev/stdout
    #[arg(long, value_name = "FILE.(html|png)")]
    plot: Option<PathBuf>,
    /// Say how far it is also where there is no terminal, in ten lines
    #[arg(long, conflicts_with = "quiet")]
    progress: bool,
    /// Say nothing while it runs
    #[arg(long, short)]
    quiet: bool,
    /// This process is a rank of another one, which it talks to by its standard input and output
    #[arg(long, value_name = "RANK", hide = true)]
    as_rank: Option<u32>,
}

const EXAMPLES: &str = paint::examples!(
    "umbra advect"                                 "8 x 8 blocks on 4 ranks, 8 blobs, compared with the closed form";
    "umbra advect --problem smooth --ranks 8"      "an upwind scheme, compared with a dense run of one rank";
    "umbra advect --problem smooth --refine 2..6"  "the same with a box of blocks that are half as large";
    "umbra advect -d 3 --plot blobs.html"          "a space, with a page that shows blocks come and go";
    "umbra advect --plot blobs.png"                "the same of a plane as a picture";
    "umbra advect --remesh 8"                      "with blocks that are dealt anew while it runs: the same bits";
    "umbra advect --dense"                         "the same without sparseness, to see what it saves";
    "umbra advect --split --reversed --delay 1ms"  "in another order, and with ranks that dawdle: the same bits";
    "umbra advect --transport agent"               "with an agent that looks out for what comes";
    "umbra advect --transport verbs"               "over the queue pairs of an RDMA device";
    "umbra advect --json | jq .live_fraction"      "figures for a script";
);

/// Pictures in a page or a picture, and one of the end.
const PICTURES: u32 = 11;

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Equation {
    /// One cell a sweep, with a closed form
    Shift,
    /// Upwind, second order in time
    Smooth,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Carrier {
    /// Memory that the ranks share
    Shm,
    /// The same, and a process umbra-agent that looks out for messages, so that a rank learns by one load that all are there
    Agent,
    /// Queue pairs of an RDMA device, which write into the memory of the rank that receives
    Verbs,
}

impl Carrier {
    const fn name(self, threads: bool) -> &'static str {
        match (self, threads) {
            (Carrier::Shm, false) => "shm",
            (Carrier::Shm, true) => "shm-threads",
            (Carrier::Agent, false) => "agent",
            (Carrier::Agent, true) => "agent-threads",
            (Carrier::Verbs, _) => "verbs",
        }
    }
}

impl Advect {
    fn options(&self) -> Options {
        let problem = match self.problem {
            Equation::Shift => Problem::Shift,
            Equation::Smooth => Problem::Smooth,
        };
        let usual = Options::new(problem, self.dimensions);
        let cycles = self.cycles.unwrap_or(usual.cycles);
        Options {
            blocks: self.blocks.unwrap_or(usual.blocks),
            cells: self.cells.unwrap_or(usual.cells),
            refine: self.refine,
            fields: self.fields.unwrap_or(usual.fields),
            radius: self.radius.unwrap_or(usual.radius),
            cycles,
            ranks: self.ranks,
            dense: self.dense,
            split: self.split,
            reversed: self.reversed,
            delay: self.delay.unwrap_or_default(),
            seed: self.seed,
            remesh: self.remesh,
            idle: self.dealloc_count,
            deadline: self.timeout,
            largest_slot: self.largest_slot,
            agent: self.transport == Carrier::Agent,
            frames: if self.plot.is_some() { cycles.div_ceil(PICTURES).max(1) } else { 0 },
            ..usual
        }
    }

    pub(crate) fn execute(&self, out: Out<'_>) -> Done {
        let options = self.options();
        options.check().map_err(Failure::usage)?;
        let way = match self.transport {
            Carrier::Shm | Carrier::Agent => Way::Memory,
            Carrier::Verbs if self.threads => {
                return Err(Failure::usage("ranks that exchange over RDMA are processes: leave --threads out"));
            }
            Carrier::Verbs => Way::Verbs(device(self.device.as_ref())?),
        };
        if let Some(rank) = self.as_rank {
            return children::be(&options, rank, &way, out);
        }
        options.fits(options.ranks).map_err(Failure::usage)?;
        let form = self.plot.as_deref().map_or(Ok(Form::Page), Form::of).map_err(Failure::usage)?;
        apart(&[&self.agent], &[&self.plot])?;
        if self.plot.is_some() {
            interrupt::clean_up()?;
        }
        let mut page = self.plot.as_deref().map(|path| Output::create(form.name(), path)).transpose()?;
        let mut errors = anstream::stderr();
        let out = beside(page.as_ref(), out, &mut errors);
        let mut watch = Watch::new(Shown::on_stderr(self.quiet, self.progress), options.ranks, options.cycles);
        let begun = std::time::Instant::now();
        let outcome = if self.threads {
            advect::run(&options, |progress| watch.tell(progress))
        } else {
            children::run(&options, &way, self.agent.as_deref(), |progress| watch.tell(progress))
        };
        let elapsed = begun.elapsed();
        watch.finish();
        let outcome = outcome.map_err(Failure::failed)?;
        let dense = self.dense_hash(&options, &mut watch)?;
        let finished = Finished::new(&options, outcome, dense, elapsed, self.transport.name(self.threads));
        let kept = page.as_mut().map_or(Ok(()), |page| {
            page.write(finished.report().draw(form).map_err(Failure::failed)?)?;
            page.keep()
        });
        let shown = match self.json {
            true => writeln!(out, "{}", finished.json()).map_err(Failure::from),
            false => print(out, &finished, self.plot.as_deref().filter(|_| kept.is_ok())),
        };
        // A drawing that is lost takes nothing else with it.
        let code = verdict(code_of(finished.is_good()), shown)?;
        kept.map(|()| code)
    }

    /// What a dense run of one rank gets, where there is no closed form.
    fn dense_hash(&self, options: &Options, watch: &mut Watch) -> Result<Option<u64>, Failure> {
        if self.no_verify || options.problem == Problem::Shift {
            return Ok(None);
        }
        let dense = options.alone();
        watch.again();
        let outcome = advect::run(&dense, |progress| watch.tell(progress));
        watch.finish();
        Ok(Some(outcome.map_err(Failure::failed)?.hash))
    }
}

fn print(out: Out<'_>, finished: &Finished<'_>, page: Option<&Path>) -> Result<(), Failure> {
    writeln!(out, "{}", paint::strong(finished.headline()))?;
    for (name, value) in finished.figures() {
        writeln!(out, "  {}  {value}", paint::faint(format!("{name:<18}")))?;
    }
    let (good, text) = finished.verdict();
    let word = if good { paint::good("agreed:") } else { paint::bad("differs:") };
    writeln!(out, "{word} {text}")?;
    if let Some(path) = page {
        writeln!(out, "drawn: {}", path.display())?;
    }
    Ok(())
}
