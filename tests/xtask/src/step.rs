//! What a step is, and how steps are run: in turn, and some beside the others.

use std::fmt;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use crate::cli::{SEED, Selection};
use crate::counts::Tests;
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
    /// So does everything that could run here; with a remark that says what could not.
    Partly(String),
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

impl Selection {
    /// Refuses names of no step, and steps that must run and are not to.
    fn check(&self) -> Result<(), Failure> {
        let named = |name: &String| steps::ALL.iter().any(|step| step.name == name);
        let mut names = self.only.iter().chain(&self.skip).chain(&self.require);
        if let Some(unknown) = names.find(|name| !named(name)) {
            return Err(Failure::new(format!("no step is called {unknown}; `cargo xtask test --list` names them")));
        }
        match self.require.iter().find(|name| !self.has(name)) {
            Some(name) => Err(Failure::new(format!("step {name} is required, and --only or --skip leave it out"))),
            None => Ok(()),
        }
    }

    /// Whether a step is to run.
    fn has(&self, step: &str) -> bool {
        let named = |names: &[String]| names.iter().any(|name| name == step);
        (self.only.is_empty() || named(&self.only)) && !named(&self.skip)
    }

    /// How a step has ended, of which nothing may be skipped if it is required.
    fn judge(&self, step: &str, outcome: Result<Verdict, Failure>, tests: &Tests) -> Result<Verdict, Failure> {
        if !self.require.iter().any(|name| name == step) {
            return outcome;
        }
        let skipped = |what: String| Err(Failure::new(format!("this step is required, and {what}")));
        match outcome? {
            Verdict::Skipped(reason) => skipped(format!("was skipped: {reason}")),
            Verdict::Partly(remark) => skipped(format!("not all of it ran: {remark}")),
            Verdict::Passed(_) if !tests.skipped.is_empty() => {
                let reasons: Vec<&str> = tests.skipped.keys().map(String::as_str).collect();
                let count: u64 = tests.skipped.values().sum();
                skipped(format!("{count} of its tests were skipped: {}", reasons.join("; ")))
            }
            passed @ Verdict::Passed(_) => Ok(passed),
        }
    }
}

/// Runs the selected steps; true if none failed.
pub(crate) fn run(workspace: &Workspace, selection: &Selection) -> Result<bool, Failure> {
    selection.check()?;
    let log_folder = workspace.folder("xtask-logs")?;
    fs::create_dir_all(&workspace.scratch)?;
    let chosen = |step: &&Step| selection.has(step.name);
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
    let outcome = selection.judge(step.name, outcome, &log.tests());
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

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|&word| word.to_owned()).collect()
    }

    #[test]
    fn what_is_required_must_be_chosen_and_known() {
        let check = |only: &[&str], skip: &[&str], require: &[&str]| {
            let selection =
                Selection { only: words(only), skip: words(skip), require: words(require), ..Selection::default() };
            selection.check().map_err(|failure| failure.to_string())
        };
        assert_eq!(check(&[], &[], &["mpi", "rdma", "miri", "fuzz"]), Ok(()));
        assert_eq!(check(&["mpi"], &[], &["mpi"]), Ok(()));
        let left_out = Err("step mpi is required, and --only or --skip leave it out".to_owned());
        assert_eq!(check(&["fmt"], &[], &["mpi"]), left_out);
        assert_eq!(check(&[], &["mpi"], &["mpi"]), left_out);
        assert!(check(&[], &[], &["mip"]).is_err_and(|why| why.starts_with("no step is called mip")));
    }

    #[test]
    fn a_step_that_is_required_fails_when_it_or_a_part_or_a_test_of_it_is_skipped() {
        let none = Tests::default();
        let some = Tests { passed: 4, skipped: [("no device".to_owned(), 2)].into(), ..Tests::default() };
        let passed = || Ok(Verdict::Passed(String::new()));
        let skipped = || Ok(Verdict::Skipped("no compiler".to_owned()));
        let partly = || Ok(Verdict::Partly("not with MPICH".to_owned()));
        let selection = Selection { require: words(&["mpi"]), ..Selection::default() };
        let judge = |step: &str, outcome, tests: &Tests| {
            selection.judge(step, outcome, tests).map_err(|failure| failure.to_string())
        };
        for (outcome, tests, why) in [
            (skipped(), &none, "was skipped: no compiler"),
            (partly(), &none, "not all of it ran: not with MPICH"),
            (passed(), &some, "2 of its tests were skipped: no device"),
        ] {
            assert_eq!(judge("mpi", outcome, tests), Err(format!("this step is required, and {why}")));
        }
        assert_eq!(judge("mpi", passed(), &none), Ok(Verdict::Passed(String::new())));
        assert_eq!(judge("mpi", Err(Failure::new("does not build")), &none), Err("does not build".to_owned()));
        // Others may be skipped.
        for outcome in [skipped, partly, passed] {
            assert_eq!(judge("rdma", outcome(), &some).ok(), outcome().ok());
        }
    }
}
