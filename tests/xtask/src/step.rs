//! What a step is, and how steps are run: in turn, and some beside the others.

use std::fmt;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use crate::cli::{SEED, Selection};
use crate::run::Log;
use crate::steps;
use crate::summary::{Line, Summary};
use crate::workspace::Workspace;

/// Of a thread whose work can wait; nice(2).
const LOWEST: i32 = 19;

/// One step: a name for the command line, what it checks, and the check.
pub(crate) struct Step {
    /// What `--only` takes.
    pub(crate) name: &'static str,
    /// What passes when the step passes, for `--list` and the heading.
    pub(crate) what: &'static str,
    /// The check.
    pub(crate) check: fn(&Bench<'_>) -> Result<Verdict, Failure>,
    /// Whether it only builds and computes, in folders of its own: then it takes what processors the steps leave that come
    /// after it.
    pub(crate) beside: bool,
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
    let chosen = |step: &&Step| {
        let named = |names: &[String]| names.iter().any(|name| name == step.name);
        (selection.only.is_empty() || named(&selection.only)) && !named(&selection.skip)
    };
    let perform = |step: &Step| perform(step, workspace, selection, &log_folder);
    let mut summary = Summary::default();
    thread::scope(|scope| {
        let (sender, waiting) = mpsc::channel::<&Step>();
        let beside = scope.spawn(move || {
            // Whoever waits for a message or for time to pass, as tests do, must not wait for these. What this thread starts
            // inherits it.
            let _ = rustix::process::nice(LOWEST);
            waiting.iter().map(perform).collect::<Result<Vec<_>, _>>()
        });
        for step in steps::ALL.iter().filter(chosen) {
            if step.beside {
                // It ends with the first error alone, which is told below.
                let _ = sender.send(step);
                continue;
            }
            println!("== {}: {}", step.name, step.what);
            summary.add(perform(step)?);
        }
        drop(sender);
        let lines = beside.join().unwrap_or_else(|_| Err(Failure::new("a thread panicked")))?;
        lines.into_iter().for_each(|line| summary.add(line));
        Ok::<(), Failure>(())
    })?;
    fs::remove_dir_all(&workspace.scratch)?;
    print!("{summary}");
    Ok(summary.passed())
}

/// Runs one step, and prints how it ended.
fn perform(step: &Step, workspace: &Workspace, selection: &Selection, logs: &Path) -> Result<Line, Failure> {
    let log = Log::create(&logs.join(format!("{}.log", step.name)), selection.verbose)?;
    let start = Instant::now();
    let outcome = (step.check)(&Bench { workspace, log: &log, seed: selection.seed.unwrap_or(SEED) });
    let line = Line { name: step.name, outcome, seconds: start.elapsed().as_secs_f64(), tests: log.tests() };
    let mut told = if step.beside { format!("== {}, beside: {}\n", step.name, step.what) } else { String::new() };
    told += &format!("   {} {}\n", step.name, line.verdict());
    if let Err(failure) = &line.outcome {
        told += &format!("{}\n", indented(&failure.to_string()));
        if let Some(shortage) = workspace.shortage() {
            told += &format!("   {shortage}\n");
        }
        told += &format!("   what the programs of this step printed: {}\n", log.path().display());
        told += &format!("   this step alone: {} --verbose\n", steps::alone(&[step.name]));
    }
    print!("{told}");
    io::stdout().flush()?;
    Ok(line)
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("   | {line}")).collect::<Vec<_>>().join("\n")
}
