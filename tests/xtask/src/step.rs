//! What a step is, and how steps are run one after the other.

use std::fmt;
use std::fs;
use std::io::{self, Write as _};
use std::time::Instant;

use crate::cli::{SEED, Selection};
use crate::run::Log;
use crate::steps;
use crate::summary::{Line, Summary};
use crate::workspace::Workspace;

/// One step: a name for the command line, what it checks, and the check.
pub(crate) struct Step {
    /// What `--only` takes.
    pub(crate) name: &'static str,
    /// What passes when the step passes, for `--list` and the heading.
    pub(crate) what: &'static str,
    /// The check.
    pub(crate) check: fn(&Bench<'_>) -> Result<Verdict, Failure>,
}

/// What a step works with.
pub(crate) struct Bench<'a> {
    /// The checkout.
    pub(crate) workspace: &'a Workspace,
    /// Where the output of programs goes.
    pub(crate) log: &'a Log,
    /// What random tests and fuzzing begin with.
    pub(crate) seed: u64,
}

/// How a step ended that did not fail.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Everything it checks holds; with a remark, perhaps empty.
    Passed(String),
    /// It can't run here, for this reason.
    Skipped(String),
}

/// Why a step failed, in words that end up on the screen.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Failure {
    /// A failure with its reason.
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }

    /// A failure that lists findings, or a pass with a remark if there are none.
    pub(crate) fn unless_empty(findings: &[String], remark: impl Into<String>) -> Result<Verdict, Self> {
        if findings.is_empty() { Ok(Verdict::Passed(remark.into())) } else { Err(Self(findings.join("\n"))) }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self(error.to_string())
    }
}

/// Runs the selected steps; true if none failed.
pub(crate) fn run(workspace: &Workspace, selection: &Selection) -> Result<bool, Failure> {
    let named = |name: &String| steps::ALL.iter().any(|step| step.name == name);
    if let Some(unknown) = selection.only.iter().chain(&selection.skip).find(|name| !named(name)) {
        return Err(Failure::new(format!("no step is called {unknown}; `cargo xtask test --list` names them")));
    }
    let log_folder = workspace.folder("xtask-logs")?;
    fs::create_dir_all(&workspace.scratch)?;
    let mut summary = Summary::default();
    for step in steps::ALL {
        let chosen = selection.only.is_empty() || selection.only.iter().any(|name| name == step.name);
        if !chosen || selection.skip.iter().any(|name| name == step.name) {
            continue;
        }
        print!("== {}: {}\n   ", step.name, step.what);
        io::stdout().flush()?;
        let log = Log::create(&log_folder.join(format!("{}.log", step.name)), selection.verbose)?;
        let start = Instant::now();
        let outcome = (step.check)(&Bench { workspace, log: &log, seed: selection.seed.unwrap_or(SEED) });
        let line = Line { name: step.name, outcome, seconds: start.elapsed().as_secs_f64(), tests: log.tests() };
        println!("{}", line.verdict());
        if let Err(failure) = &line.outcome {
            println!("{}", indented(&failure.to_string()));
            if let Some(shortage) = workspace.shortage() {
                println!("   {shortage}");
            }
            println!("   what the programs of this step printed: {}", log.path().display());
            println!("   this step alone: {} --verbose", steps::alone(&[step.name]));
        }
        summary.add(line);
    }
    fs::remove_dir_all(&workspace.scratch)?;
    print!("{summary}");
    Ok(summary.passed())
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("   | {line}")).collect::<Vec<_>>().join("\n")
}
