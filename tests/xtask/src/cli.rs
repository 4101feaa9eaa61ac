//! The command line.

use lexopt::prelude::*;

/// What `--help` prints.
pub(crate) const HELP: &str = "\
Usage: cargo xtask COMMAND

  test [--only STEP]... [--skip STEP]... [--require STEP]... [--seed N] [--verbose]
                     run every step, or only those named; ends with what failed; a step that cannot run here is
                     skipped, which is a failure of those required, as is a part or a test of them that is
                     skipped; random tests and fuzzing begin with this seed (1), so that two runs of a tree try
                     the same
  test --list        name the steps and say what each checks
  bench [NAME] [--json] [WORD]
                     run a bench (boundary, cached-memory, caches, channel, gpc, lookup, memory, memory-offsets, reads,
                     rings, stencil, stencil-files, stream, verbs; all without a name) in the release profile; WORD selects
                     cases; with --json one object a line; a missed bar is a failure, after all rows; verbs runs on this
                     machine's RDMA device, or in a guest
  rdma [--verbose]   run the tests of RDMA alone: on this machine's device, or in a guest
  dpu [--verbose]    run a host and a DPU as two guests
  firmware [--verbose]
                     build the firmware images, run each on an emulated board, print their
                     sizes, their stack and the time of a read
  cross              build the agent and the command for a DPU: Linux on aarch64
  tools              say which tools the steps use, and whether they are here
  --help             this text

Examples:
  cargo xtask test
  cargo xtask test --only clippy --only layers
  cargo xtask test --require mpi --require rdma
  cargo xtask bench rings --json
";

/// The seed of whoever names none.
pub(crate) const SEED: u64 = 1;

/// What the user asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// Print the help text.
    Help,
    /// Print the names of the steps.
    List,
    /// Run steps.
    Test(Selection),
    /// Run one bench or all, with options for it.
    Bench {
        /// Name of the bench; `None` for all.
        name: Option<String>,
        /// Passed on as they are.
        options: Vec<String>,
    },
    /// Build the programs for a DPU.
    Cross,
    /// Print the tools.
    Tools,
}

/// Which steps to run, and how loudly.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Selection {
    /// Only these; all if empty.
    pub(crate) only: Vec<String>,
    /// Not these.
    pub(crate) skip: Vec<String>,
    /// These must not be skipped, nor a part or a test of them.
    pub(crate) require: Vec<String>,
    /// What random tests and fuzzing begin with; [`SEED`] without it.
    pub(crate) seed: Option<u64>,
    /// Show what the steps' programs print, not only when they fail.
    pub(crate) verbose: bool,
}

/// Reads the process's arguments.
pub(crate) fn parse() -> Result<Request, lexopt::Error> {
    parse_from(lexopt::Parser::from_env())
}

fn parse_from(mut parser: lexopt::Parser) -> Result<Request, lexopt::Error> {
    let Some(command) = parser.next()? else { return Ok(Request::Help) };
    match command {
        Short('h') | Long("help") => Ok(Request::Help),
        Value(word) if word == "help" => Ok(Request::Help),
        Value(word) if word == "test" => test(parser),
        Value(word) if word == "rdma" || word == "dpu" || word == "firmware" => step(parser, word.string()?),
        Value(word) if word == "bench" => bench(parser),
        Value(word) if word == "cross" => alone(parser, Request::Cross),
        Value(word) if word == "tools" => alone(parser, Request::Tools),
        other => Err(other.unexpected()),
    }
}

/// A command that takes nothing else.
fn alone(mut parser: lexopt::Parser, request: Request) -> Result<Request, lexopt::Error> {
    match parser.next()? {
        None => Ok(request),
        Some(Short('h') | Long("help")) => Ok(Request::Help),
        Some(other) => Err(other.unexpected()),
    }
}

fn test(mut parser: lexopt::Parser) -> Result<Request, lexopt::Error> {
    let mut selection = Selection::default();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("list") => return Ok(Request::List),
            Long("only") => selection.only.push(parser.value()?.string()?),
            Long("skip") => selection.skip.push(parser.value()?.string()?),
            Long("require") => selection.require.push(parser.value()?.string()?),
            Long("seed") => selection.seed = Some(parser.value()?.parse()?),
            Long("verbose") => selection.verbose = true,
            Short('h') | Long("help") => return Ok(Request::Help),
            other => return Err(other.unexpected()),
        }
    }
    Ok(Request::Test(selection))
}

/// The step of that name, alone.
fn step(mut parser: lexopt::Parser, name: String) -> Result<Request, lexopt::Error> {
    let mut selection = Selection { only: vec![name], ..Selection::default() };
    while let Some(argument) = parser.next()? {
        match argument {
            Long("verbose") => selection.verbose = true,
            Short('h') | Long("help") => return Ok(Request::Help),
            other => return Err(other.unexpected()),
        }
    }
    Ok(Request::Test(selection))
}

fn bench(mut parser: lexopt::Parser) -> Result<Request, lexopt::Error> {
    let (mut name, mut options) = (None, Vec::new());
    while let Some(argument) = parser.next()? {
        match argument {
            Value(word) if name.is_none() => name = Some(word.string()?),
            Value(word) => options.push(word.string()?),
            Short('h') | Long("help") => return Ok(Request::Help),
            Long(option) => options.push(format!("--{option}")),
            other => return Err(other.unexpected()),
        }
    }
    Ok(Request::Bench { name, options })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_words(words: &[&str]) -> Result<Request, lexopt::Error> {
        parse_from(lexopt::Parser::from_args(words.iter().copied()))
    }

    #[test]
    fn steps_are_selected_by_repeated_options() {
        let Request::Test(selection) = parse_words(&[
            "test",
            "--only",
            "fmt",
            "--only=loom",
            "--require",
            "mpi",
            "--require=miri",
            "--seed",
            "7",
            "--verbose",
        ])
        .unwrap() else {
            panic!("not a test request");
        };
        assert_eq!(selection.only, ["fmt", "loom"]);
        assert_eq!(selection.require, ["mpi", "miri"]);
        assert_eq!(selection.seed, Some(7));
        assert!(selection.verbose);
    }

    #[test]
    fn steps_of_guests_have_commands_of_their_own() {
        let selection = Selection { only: vec!["rdma".to_owned()], verbose: true, ..Selection::default() };
        assert_eq!(parse_words(&["rdma", "--verbose"]).unwrap(), Request::Test(selection));
        assert!(parse_words(&["rdma", "fmt"]).is_err());
        for name in ["dpu", "firmware"] {
            assert_eq!(parse_words(&[name]).unwrap(), parse_words(&["test", "--only", name]).unwrap());
        }
    }

    #[test]
    fn options_of_a_bench_are_passed_on() {
        let request = parse_words(&["bench", "rings", "--json", "64 B"]).unwrap();
        let options = vec!["--json".to_owned(), "64 B".to_owned()];
        assert_eq!(request, Request::Bench { name: Some("rings".to_owned()), options });
    }

    #[test]
    fn every_bench_is_named_in_the_help() {
        let manifest = include_str!("../../Cargo.toml");
        let benches = manifest.split("[[bench]]").skip(1).map(|bench| bench.split('"').nth(1).unwrap());
        let words: Vec<_> = HELP.split(|c: char| !c.is_ascii_lowercase() && c != '-').collect();
        let missing: Vec<_> = benches.clone().filter(|bench| !words.contains(bench)).collect();
        assert!(benches.count() > 5 && missing.is_empty(), "{missing:?}");
    }

    #[test]
    fn unknown_words_are_refused() {
        assert!(parse_words(&["tset"]).is_err());
        assert!(parse_words(&["test", "--onyl", "fmt"]).is_err());
        assert!(parse_words(&["test", "--seed", "one"]).is_err());
        assert!(parse_words(&["cross", "--onyl"]).is_err());
        assert_eq!(parse_words(&[]).unwrap(), Request::Help);
    }
}
