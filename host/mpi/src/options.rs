//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use lexopt::prelude::{Long, Short, Value, ValueExt as _};
use umbra::advect::{Options, Problem};
use umbra::report::Form;

use crate::advect::Wanted;

pub(crate) const HELP: &str = "\
usage: mpirun -n RANKS umbra-mpi COMMAND

  advect [OPTION]...   move blobs through a mesh, every bit proven; as `umbra advect` does on one
                       machine, with these of its options: --problem shift|smooth, -d N, --blocks N,
                       --cells N, --refine FROM..TO, --fields N, --radius N, --cycles N, --dense, --split, --reversed,
                       --delay-us N, --seed N, --remesh N, --dealloc-count N, --largest-slot BYTES, --timeout-s N,
                       --no-verify, --json, --progress and --quiet (of rank 0, whose error output mpirun takes: ask for it),
                       --plot FILE.(html|png) (written by rank 0); and --transport slot (a message a
                       peer), rma (the same, read where the sender has it), nodes (memory within a
                       node, slot between nodes; with --nodes N, so many of them on each machine),
                       early or probe (a message a strip)
  group [--nodes N]    make a job of these processes, without a configuration file, look
                       everybody up in the endpoint cache, and read from the next rank;
                       with so many nodes, and agents, on each machine (1)
  --help               this text

Examples:
  mpirun -n 4 umbra-mpi advect --problem smooth
  mpirun -n 4 umbra-mpi advect -d 3 --plot blobs.html
  mpirun -n 4 umbra-mpi advect --json | jq .live_fraction
  mpirun -n 8 umbra-mpi group
";

/// Which transport.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Carrier {
    /// A message a peer, into a posted slot.
    Slot,
    /// A message a peer, read where the sender has it.
    Rma,
    /// A message a peer, through memory within a node, of which so many are on each machine.
    Nodes(u16),
    /// A message a strip, all receives posted early.
    Early,
    /// A message a strip, received when it was seen.
    Probe,
}

/// What the user asks for.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Request {
    /// The help text.
    Help,
    /// The advection problem.
    Advect(Box<Wanted>),
    /// The endpoint cache.
    Group {
        /// Nodes on each machine.
        nodes: u16,
    },
}

/// Reads the arguments.
pub(crate) fn parse(mut parser: lexopt::Parser) -> Result<Request, lexopt::Error> {
    let command = match parser.next()? {
        None | Some(Short('h') | Long("help")) => return Ok(Request::Help),
        Some(Value(word)) => word.string()?,
        Some(other) => return Err(other.unexpected()),
    };
    match command.as_str() {
        "help" => Ok(Request::Help),
        "group" => group(parser),
        "advect" => advect(parser),
        other => Err(format!("there is no command {other}").into()),
    }
}

const NO_NODE: &str = "a machine has one node at least";

fn group(mut parser: lexopt::Parser) -> Result<Request, lexopt::Error> {
    let mut nodes = 1;
    while let Some(argument) = parser.next()? {
        match argument {
            Short('h') | Long("help") => return Ok(Request::Help),
            Long("nodes") => nodes = parser.value()?.parse()?,
            other => return Err(other.unexpected()),
        }
    }
    if nodes == 0 { Err(NO_NODE.into()) } else { Ok(Request::Group { nodes }) }
}

fn advect(mut parser: lexopt::Parser) -> Result<Request, lexopt::Error> {
    let (mut problem, mut dimensions, mut carrier, mut nodes) = (Problem::Shift, 2, Carrier::Slot, None);
    let (mut json, mut verify, mut plot, mut progress, mut quiet) = (false, true, None, false, false);
    type Change = Box<dyn FnOnce(&mut Options)>;
    let mut changes: Vec<Change> = Vec::new();
    while let Some(argument) = parser.next()? {
        let change: Change = match argument {
            Short('h') | Long("help") => return Ok(Request::Help),
            Long("json") => {
                json = true;
                continue;
            }
            Long("no-verify") => {
                verify = false;
                continue;
            }
            Long("plot") => {
                let path = PathBuf::from(parser.value()?);
                let form = Form::of(&path).map_err(|error| error.to_string())?;
                plot = Some((path, form));
                continue;
            }
            Long("progress") => {
                progress = true;
                continue;
            }
            Short('q') | Long("quiet") => {
                quiet = true;
                continue;
            }
            Long("problem") => {
                problem = match parser.value()?.string()?.as_str() {
                    "shift" => Problem::Shift,
                    "smooth" => Problem::Smooth,
                    other => return Err(format!("there is no problem {other}: shift or smooth").into()),
                };
                continue;
            }
            Long("transport") => {
                carrier = match parser.value()?.string()?.as_str() {
                    "slot" => Carrier::Slot,
                    "rma" => Carrier::Rma,
                    "nodes" => Carrier::Nodes(1),
                    "early" => Carrier::Early,
                    "probe" => Carrier::Probe,
                    other => {
                        return Err(format!("there is no transport {other}: slot, rma, nodes, early or probe").into());
                    }
                };
                continue;
            }
            Long("nodes") => {
                nodes = Some(parser.value()?.parse()?);
                continue;
            }
            Short('d') | Long("dimensions") => {
                dimensions = parser.value()?.parse()?;
                continue;
            }
            Long("blocks") => with(parser.value()?.parse()?, |options, n| options.blocks = n),
            Long("cells") => with(parser.value()?.parse()?, |options, n| options.cells = n),
            Long("refine") => with(parser.value()?.parse()?, |options, refine| options.refine = Some(refine)),
            Long("fields") => with(parser.value()?.parse()?, |options, n| options.fields = n),
            Long("radius") => with(parser.value()?.parse()?, |options, n| options.radius = n),
            Long("cycles") => with(parser.value()?.parse()?, |options, n| options.cycles = n),
            Long("remesh") => with(parser.value()?.parse()?, |options, n| options.remesh = Some(n)),
            Long("seed") => with(parser.value()?.parse()?, |options, n| options.seed = n),
            Long("dealloc-count") => with(parser.value()?.parse()?, |options, n| options.idle = n),
            Long("largest-slot") => with(parser.value()?.parse()?, |options, n| options.largest_slot = n),
            Long("delay-us") => with(parser.value()?.parse()?, |options, n| options.delay = Duration::from_micros(n)),
            Long("timeout-s") => with(parser.value()?.parse()?, |options, n| options.deadline = Duration::from_secs(n)),
            Long("dense") => Box::new(|options| options.dense = true),
            Long("split") => Box::new(|options| options.split = true),
            Long("reversed") => Box::new(|options| options.reversed = true),
            other => return Err(other.unexpected()),
        };
        changes.push(change);
    }
    match (&mut carrier, nodes) {
        (_, None) => {}
        (_, Some(0)) => return Err(NO_NODE.into()),
        (Carrier::Nodes(of), Some(nodes)) => *of = nodes,
        (_, Some(_)) => return Err("nodes are of --transport nodes: name that one".into()),
    }
    let mut options = Options::new(problem, dimensions);
    changes.into_iter().for_each(|change| change(&mut options));
    Ok(Request::Advect(Box::new(Wanted { options, carrier, json, verify, plot, progress, quiet })))
}

fn with<N: 'static>(n: N, change: fn(&mut Options, N)) -> Box<dyn FnOnce(&mut Options)> {
    Box::new(move |options| change(options, n))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Result<Request, lexopt::Error> {
        parse(lexopt::Parser::from_args(words))
    }

    #[test]
    fn options_change_the_usual_run_wherever_the_problem_stands() {
        let options = Options {
            cycles: 7,
            dense: true,
            idle: 2,
            remesh: Some(3),
            largest_slot: 512,
            ..Options::new(Problem::Smooth, 3)
        };
        let plot = Some(("page.PNG".into(), Form::Picture));
        let (carrier, progress) = (Carrier::Probe, true);
        let expected = Wanted { options, carrier, json: true, verify: false, plot, progress, quiet: false };
        let given = words(&[
            "advect",
            "--cycles",
            "7",
            "--dense",
            "--problem",
            "smooth",
            "-d3",
            "--json",
            "--transport",
            "probe",
            "--dealloc-count",
            "2",
            "--largest-slot",
            "512",
            "--plot",
            "page.PNG",
            "--progress",
            "--remesh",
            "3",
            "--no-verify",
        ]);
        assert_eq!(given.unwrap_or(Request::Help), Request::Advect(Box::new(expected)));
    }

    #[test]
    fn what_is_not_known_is_refused() {
        let wrong = [
            &["advect", "--problem", "rough"][..],
            &["advect", "--cycles", "x"],
            &["advect", "--plot", "blobs.gif"],
            &["advect", "--nodes", "2"],
            &["advect", "--transport", "nodes", "--nodes", "0"],
            &["group", "1"],
            &["group", "--nodes", "0"],
            &["group", "--nodes", "70000"],
            &["x"],
        ];
        for wrong in wrong {
            assert!(words(wrong).is_err(), "{wrong:?}");
        }
        let carrier = |given: &[&str]| match words(given) {
            Ok(Request::Advect(wanted)) => Some(wanted.carrier),
            _ => None,
        };
        assert_eq!(carrier(&["advect", "--transport", "nodes"]), Some(Carrier::Nodes(1)));
        assert_eq!(carrier(&["advect", "--nodes", "3", "--transport", "nodes"]), Some(Carrier::Nodes(3)));
        assert_eq!(words(&[]).ok(), Some(Request::Help));
        assert_eq!(words(&["group", "--nodes", "3"]).ok(), Some(Request::Group { nodes: 3 }));
    }
}
