//! `umbra stencil`: a stencil over a field larger than the memory it is given.

mod list;
mod memory;
mod outcome;
mod places;
mod source;
mod text;
mod watch;
mod work;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use umbra::job::DataPath;
use umbra::quantity::parse_bytes;
use umbra::stencil::Stop;
use umbra::stencil::field::{BrickFile, CheckError, Element, Field, Pattern, check};
use umbra::sys::heap;
use umbra_core::stencil::Shape;

use super::output::{Output, beside};
use super::run::{data_path, timeout};
use super::{Done, Failure, Out, at_least_one, code_of, edge, interrupt, paint, print_json, verdict};
use memory::Part;
use outcome::Outcome;
use places::draw;
use work::Work;

/// Compute a stencil over a field in a file, brick by brick, with a cache of fewer slots than there are bricks.
///
/// The field is cut into bricks. A brick of the output is computed when the bricks that its neighbours lie in are all in
/// slots; threads load bricks and compute, and the cache decides what stays. The loads are compared with the fewest that
/// are possible in this order, and the output with a plain sweep in memory, bit for bit. The exit code is 0 only if all
/// numbers agree, as far as they are compared (--verify).
///
/// Files that are written get their names only when all of it is done: old ones stay if a run fails, is
/// interrupted or finds its output wrong.
///
/// A point is the sum of its neighbours within the field, each times its weight: of floating-point numbers in 64 bits, of
/// integers modulo 2^64.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Stencil {
    /// Array file of NumPy with one to three coordinates; a field is made if left out
    #[arg(long, value_name = "FILE.npy", conflicts_with_all = ["extents", "type", "seed", "keep_input"])]
    input: Option<PathBuf>,
    /// Extents of the field that is made, outermost first
    #[arg(long, value_name = "N,..", value_delimiter = ',', num_args = 1..=3, default_value = "2048,2048",
        value_parser = edge)]
    extents: Vec<u32>,
    /// Kind of its numbers: f32, f64, i8 to i64, u8 to u64
    #[arg(long, value_name = "TYPE", default_value = "f64")]
    r#type: Element,
    /// Chooses its numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Also keep the field that is made in this file
    #[arg(long, value_name = "FILE.npy")]
    keep_input: Option<PathBuf>,
    /// Where the computed field goes; nowhere if left out
    #[arg(long, value_name = "FILE.npy")]
    output: Option<PathBuf>,
    /// Which neighbours a point has
    #[arg(long, value_enum, value_name = "SHAPE", default_value_t = Neighbours::Box)]
    shape: Neighbours,
    /// How far they reach
    #[arg(long, value_name = "N", default_value_t = 1)]
    radius: u32,
    /// Neighbours from a file instead: a line each, with the steps along each coordinate and perhaps a weight
    #[arg(long, value_name = "FILE", conflicts_with_all = ["shape", "radius", "offset"])]
    offsets: Option<PathBuf>,
    /// One such neighbour; may be repeated
    #[arg(long, value_name = "STEPS[,WEIGHT]", conflicts_with_all = ["shape", "radius"], allow_hyphen_values = true)]
    offset: Vec<String>,
    /// Where bricks are loaded from
    #[arg(long, value_enum, value_name = "SOURCE", default_value_t = Origin::File)]
    source: Origin,
    /// Ranks that hold the field, with --source ranks; 2 if left out
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    ranks: Option<u32>,
    /// Which way bytes travel from the ranks to agents, with --source ranks; auto if left out
    #[arg(long, value_name = "PATH", value_parser = data_path())]
    data_path: Option<DataPath>,
    /// Memory in which the agent keeps copies of bricks that it has read, with --source ranks: 0 for none; 64M if left out
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    stage: Option<u64>,
    /// Bricks of which the agent is told before they are loaded, so that it reads them ahead, with --source ranks: 0 for
    /// none; 16 if left out
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16))]
    prefetch: Option<u16>,
    /// The agent's executable, with --source ranks; looked for beside this one if left out
    #[arg(long, value_name = "PATH")]
    agent: Option<PathBuf>,
    /// Points along each coordinate of a brick
    #[arg(long, value_name = "N,..", value_delimiter = ',', num_args = 1..=3, value_parser = edge)]
    brick: Vec<u32>,
    /// Slots of a brick each, never more than there are bricks; a sixteenth of them if left out, as far as memory is free
    #[arg(long, value_name = "N", value_parser = at_least_one())]
    slots: Option<u32>,
    /// In which order bricks are computed
    #[arg(long, value_enum, value_name = "ORDER", default_value_t = Sweep::Rows)]
    order: Sweep,
    /// Bricks along each coordinate of a strip or tile; strips fit the slots and tiles have edges of 8 if left out
    #[arg(long, value_name = "N,..", value_delimiter = ',', num_args = 1..=3, value_parser = edge)]
    tile: Vec<u32>,
    /// The order from a file instead: numbers of bricks, row by row, each once
    #[arg(long, value_name = "FILE", conflicts_with_all = ["order", "tile"])]
    order_file: Option<PathBuf>,
    /// What is known when the cache gives up a brick
    #[arg(long, value_enum, value_name = "POLICY", default_value_t = Policy::Known)]
    policy: Policy,
    /// Bricks of the output whose inputs are known ahead with the policy window; seven rows of bricks if left out
    #[arg(long, value_name = "N", value_parser = at_least_one())]
    window: Option<u32>,
    /// Threads that compute; one for each processor if left out
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    threads: Option<u32>,
    /// Bricks that are loaded at the same time
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=4096))]
    loads_in_flight: u32,
    /// Bricks of the output under way at the same time; threads and loads in flight together if left out
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    active: Option<u32>,
    /// Compare with a plain sweep in memory: always, never, or if it fits
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = Verify::Auto, num_args = 0..=1,
        default_missing_value = "always", require_equals = true)]
    verify: Verify,
    /// How long it may take until the next brick is loaded or computed
    #[arg(long, visible_alias = "deadline", value_name = "TIME", default_value = "20s", value_parser = timeout)]
    timeout: Duration,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
    /// Also draw what the slots held over time; as SVG if the name has no ending, such as /dev/stdout
    #[arg(long, value_name = "FILE.svg|FILE.html")]
    plot: Option<PathBuf>,
    /// Say nothing while it runs
    #[arg(long, short)]
    quiet: bool,
}

/// Bytes of a text of neighbours at most: a million lines of 64 characters.
const OFFSETS_MOST: u64 = 1 << 26;

const EXAMPLES: &str = paint::examples!(
    "umbra stencil"                                         "a plane of 2048 x 2048, each point the sum of 3 x 3";
    "umbra stencil --slots 40 --order strips"               "fewer slots, and an order that needs fewer";
    "umbra stencil --slots 40 --policy lru"                 "the same slots without knowledge of the future";
    "umbra stencil --input a.npy --output b.npy --shape star --radius 2"
        "a field of yours";
    "umbra stencil --offset 0,0,-4 --offset 0,1 --offset 1,0 --offset 0,-1 --offset -1,0"
        "a Laplacian";
    "umbra stencil --extents 128,128,128 --order hilbert --plot slots.html"
        "a space, with a page that shows the slots";
    "umbra stencil --source ranks --ranks 4"                "bricks in the memory of four ranks, read through agents";
    "umbra stencil --json | jq .loads_per_optimum"          "figures for a script";
);

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Origin {
    /// The file of the field
    File,
    /// The memory of ranks, through agents: processes that are started for the run
    Ranks,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Neighbours {
    /// All within the radius in each coordinate
    Box,
    /// Those along the coordinates
    Star,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Sweep {
    /// Row by row
    #[value(alias = "row")]
    Rows,
    /// In strips that fit the slots
    Strips,
    /// Tile by tile
    Tiles,
    /// Along a Hilbert curve
    Hilbert,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Policy {
    /// The whole order: what is used last leaves
    Known,
    /// The next bricks, and how often each brick will be used
    Window,
    /// How often each brick will be used
    Usage,
    /// Nothing: what came first leaves
    Fifo,
    /// Nothing: what was used least recently leaves
    Lru,
    /// Nothing: what was not used since the hand came by
    Clock,
    /// Nothing: SIEVE
    Sieve,
    /// Nothing: S3-FIFO
    S3Fifo,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Verify {
    /// If both fields fit into half of the free memory
    Auto,
    /// In any case
    Always,
    /// Not at all
    Never,
}

/// The name that the user types.
fn name_of(value: impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

impl Stencil {
    /// The field of the user, or one whose numbers are to be made.
    fn field(&self) -> Result<Field, Failure> {
        if let Some(path) = &self.input {
            return Field::open(path).map_err(Failure::failed);
        }
        if self.extents.len() > 3 {
            return Err(Failure::usage(format!(
                "--extents: {} extents, and at most 3 are possible",
                self.extents.len()
            )));
        }
        let shape: Vec<u64> = self.extents.iter().map(|&extent| u64::from(extent)).collect();
        Field::create(self.keep_input.as_deref(), &shape, self.r#type).map_err(Failure::failed)
    }

    fn pattern(&self, input: &Field, stop: &Stop) -> Result<Pattern, Failure> {
        let dimensions = input.shape().len();
        let shape = match self.shape {
            Neighbours::Box => Shape::Box,
            Neighbours::Star => Shape::Star,
        };
        let pattern = match (&self.offsets, self.offset.as_slice()) {
            (Some(path), _) => Pattern::parse(&text::read(path, OFFSETS_MOST, stop)?, dimensions)
                .map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?,
            (None, []) => Pattern::within(shape, self.radius, dimensions).map_err(Failure::usage)?,
            (None, offsets) => Pattern::parse(&offsets.join("\n"), dimensions)
                .map_err(|error| Failure::usage(format!("--offset: {error}")))?,
        };
        pattern.check(input.element()).map_err(Failure::usage)?;
        Ok(pattern)
    }

    pub(crate) fn execute(&self, out: Out<'_>) -> Done {
        self.places()?;
        if self.window.is_some() && self.policy != Policy::Window {
            return Err(Failure::usage("--window: use it with --policy window"));
        }
        source::check(self)?;
        let stop = Stop::default();
        let signal = interrupt::stop(&stop)?;
        // A named pipe waits here for its reader.
        let drawing = self.plot.as_deref().map(|path| Output::create("drawing", path)).transpose()?;
        signal.begin();
        match self.sweep(out, &stop, drawing) {
            Err(failure @ Failure::Failed(_)) if stop.is_set() => {
                failure.report(&mut anstream::stderr());
                Ok(ExitCode::from(signal.code()))
            }
            done => done,
        }
    }

    fn sweep(&self, out: Out<'_>, stop: &Stop, drawing: Option<Output<'_>>) -> Done {
        let mut input = self.field()?;
        let (bytes, instead) = (input.bytes().saturating_mul(2), "leave it out (--verify=never)");
        let compared = || (self.verify == Verify::Always).then_some(Part { what: "the comparison", bytes, instead });
        let made = self.input.is_none().then(|| memory::of_file(&input)).flatten();
        memory::enough(made.into_iter().chain(compared()))?;
        if self.input.is_none() {
            input.fill(self.seed, stop).map_err(Failure::failed)?;
        }
        let pattern = self.pattern(&input, stop)?;
        let work = Work::plan(self, &input, &pattern, stop)?;
        let output = Field::create(self.output.as_deref(), input.shape(), input.element());
        let mut output = output.map_err(Failure::failed)?;
        // The comparison is made when the output has been written and the rest was given back.
        memory::enough(memory::of_file(&output).into_iter().chain(compared()))?;
        let mut errors = anstream::stderr();
        let out = beside(drawing.as_ref(), out, &mut errors);
        let mut outcome = match self.source {
            Origin::File => {
                memory::enough(work.size.rest().into_iter().chain(memory::of_file(&output)))?;
                let source = BrickFile { field: &input, bricks: work.bricks };
                work.run(self, &input, &source, &output, &pattern, stop).map_err(Failure::failed)?
            }
            Origin::Ranks => source::ranks(self, &work, &input, &output, stop, |source| {
                work.run(self, &input, source, &output, &pattern, stop)
            })?,
        };
        // The comparison takes memory of its own.
        drop(work);
        if self.verify.is_wanted(&input) {
            outcome.verified = match check(&input, &output, &pattern, stop) {
                Ok(difference) => Some(difference),
                // Only who asked for the comparison loses the output over it.
                Err(CheckError::Memory { .. }) if self.verify == Verify::Auto => None,
                Err(error) => return Err(Failure::failed(error)),
            };
        }
        // What was found wrong replaces nothing.
        let good = outcome.is_good();
        let kept = if good { keep(&mut input, &mut output, drawing, &outcome) } else { Ok(None) };
        let shown = match self.json {
            true => print_json(out, &outcome.object()),
            false => {
                let (output, drawing) = match &kept {
                    Ok(drawing) if good => (self.output.as_deref(), drawing.as_ref().map(Output::path)),
                    _ => (None, None),
                };
                outcome.print(out, output, drawing).map_err(Failure::from)
            }
        };
        // A file that is lost does not take with it how it went.
        let code = verdict(code_of(good), shown)?;
        kept.map(|_| code)
    }
}

/// Gives files their names when all are whole, and old files are as they were until then; a run may be too short for its
/// drawing.
fn keep<'a>(
    input: &mut Field,
    output: &mut Field,
    drawing: Option<Output<'a>>,
    outcome: &Outcome,
) -> Result<Option<Output<'a>>, Failure> {
    let mut drawing = drawing.map_or(Ok(None), |empty| draw(empty, &outcome.report()))?;
    input.keep().map_err(Failure::failed)?;
    output.keep().map_err(Failure::failed)?;
    if let Some(drawing) = &mut drawing {
        drawing.keep()?;
    }
    Ok(drawing)
}

impl Verify {
    fn is_wanted(self, field: &Field) -> bool {
        match self {
            Verify::Always => true,
            Verify::Never => false,
            Verify::Auto => heap::has(field.bytes().saturating_mul(4)),
        }
    }
}
