//! The closing table and the line of counts.

use std::cmp::Reverse;
use std::fmt;

use crate::counts::Tests;
use crate::step::{Failure, Verdict};
use crate::steps;

/// How one step ended.
#[derive(Debug)]
pub(crate) struct Line {
    /// Name of the step.
    pub(crate) name: &'static str,
    /// Its end.
    pub(crate) outcome: Result<Verdict, Failure>,
    /// How long it took.
    pub(crate) seconds: f64,
    /// Tests that ran within it.
    pub(crate) tests: Tests,
}

impl Line {
    /// The line below the step's heading.
    pub(crate) fn verdict(&self) -> String {
        let mut tests = if self.tests.ran() > 0 { format!(", {} tests", self.tests.ran()) } else { String::new() };
        if self.tests.not_run() > 0 {
            tests += &format!(", {} skipped", self.tests.not_run());
        }
        let told = match &self.outcome {
            Ok(Verdict::Passed(remark)) if remark.is_empty() => format!("passed in {:.1} s{tests}", self.seconds),
            Ok(Verdict::Passed(remark) | Verdict::Partly(remark)) => {
                format!("passed in {:.1} s{tests}: {remark}", self.seconds)
            }
            Ok(Verdict::Skipped(reason)) => format!("skipped: {reason}"),
            Err(_) => format!("FAILED after {:.1} s{tests}", self.seconds),
        };
        self.skipped().fold(told, |told, (why, count)| format!("{told}\n   {count} skipped: {why}"))
    }

    /// Why tests of the step were skipped, and how many, the commonest reason first.
    fn skipped(&self) -> impl Iterator<Item = (&str, u64)> {
        let mut all: Vec<_> = self.tests.skipped.iter().map(|(why, &count)| (why.as_str(), count)).collect();
        all.sort_by_key(|&(_, count)| Reverse(count));
        all.into_iter()
    }

    /// Tests of the step; a step without any is one check of its own.
    fn counts(&self) -> Tests {
        let tests = self.tests.clone();
        match &self.outcome {
            Ok(Verdict::Skipped(_)) => Tests { ignored: 1, ..tests },
            Ok(Verdict::Passed(_) | Verdict::Partly(_)) if tests.ran() + tests.not_run() == 0 => {
                Tests { passed: 1, ..tests }
            }
            // A step may fail although its tests pass, for instance because one of them does not build.
            Err(_) if tests.failed == 0 => Tests { failed: 1, ..tests },
            _ => tests,
        }
    }
}

/// All steps of a run.
#[derive(Debug, Default)]
pub(crate) struct Summary(Vec<Line>);

impl Summary {
    /// Adds a step.
    pub(crate) fn add(&mut self, line: Line) {
        self.0.push(line);
    }

    /// Whether no step failed, and one ran at least.
    pub(crate) fn passed(&self) -> bool {
        let counts = self.counts();
        counts.failed == 0 && counts.passed > 0 && self.0.iter().all(|line| line.outcome.is_ok())
    }

    fn counts(&self) -> Tests {
        self.0.iter().map(Line::counts).fold(Tests::default(), Tests::plus)
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n{:<14} {:>8}  {:>6}  result", "step", "seconds", "tests")?;
        for line in &self.0 {
            let result = match &line.outcome {
                Ok(Verdict::Passed(_)) => "passed".to_owned(),
                Ok(Verdict::Partly(_)) => "passed in part".to_owned(),
                Ok(Verdict::Skipped(reason)) => format!("skipped: {reason}"),
                Err(_) => "FAILED".to_owned(),
            };
            writeln!(f, "{:<14} {:>8.1}  {:>6}  {result}", line.name, line.seconds, line.tests.ran())?;
        }
        let failed: Vec<&str> = self.0.iter().filter(|line| line.outcome.is_err()).map(|line| line.name).collect();
        if !failed.is_empty() {
            writeln!(f, "\nfailed: {}; again: {}", failed.join(", "), steps::alone(&failed))?;
        }
        let mut skipped = self.0.iter().flat_map(|line| line.skipped().map(|told| (line.name, told))).peekable();
        if skipped.peek().is_some() {
            writeln!(f, "\nTests that were skipped:")?;
        }
        for (name, (why, count)) in skipped {
            writeln!(f, "{name:<14} {count:>8}  {why}")?;
        }
        writeln!(f, "\nTests, and steps that are one check each:")?;
        let counts = self.counts();
        writeln!(f, "{} passed, {} failed, {} skipped", counts.passed, counts.failed, counts.not_run())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(outcome: Result<Verdict, Failure>, passed: u64, failed: u64) -> Line {
        Line { name: "step", outcome, seconds: 1.0, tests: Tests { passed, failed, ..Tests::default() } }
    }

    #[test]
    fn a_step_without_tests_counts_as_one() {
        let mut summary = Summary::default();
        summary.add(line(Ok(Verdict::Passed(String::new())), 0, 0));
        summary.add(line(Ok(Verdict::Passed(String::new())), 41, 0));
        summary.add(line(Ok(Verdict::Skipped("no such tool".to_owned())), 0, 0));
        assert!(summary.passed());
        assert!(summary.to_string().ends_with("\n42 passed, 0 failed, 1 skipped\n"));
    }

    #[test]
    fn a_failed_step_fails_the_run_whatever_its_tests_say() {
        let mut summary = Summary::default();
        summary.add(line(Err(Failure::new("does not build")), 3, 0));
        assert!(!summary.passed());
        assert!(
            summary.to_string().ends_with(
                "\nfailed: step; again: cargo xtask test --only step\n\nTests, and steps that are one check each:\n3 passed, 1 failed, 0 skipped\n"
            )
        );
    }

    #[test]
    fn tests_that_are_skipped_are_told_with_their_reasons() {
        let skipped = [("no compiler".to_owned(), 1), ("no device".to_owned(), 5)].into();
        let tests = Tests { passed: 3, skipped, ..Tests::default() };
        let line = Line { tests, ..line(Ok(Verdict::Passed("all is right".to_owned())), 0, 0) };
        assert_eq!(
            line.verdict(),
            "passed in 1.0 s, 3 tests, 6 skipped: all is right\n   5 skipped: no device\n   1 skipped: no compiler"
        );
        let mut summary = Summary::default();
        summary.add(line);
        let told = summary.to_string();
        let reasons = "step                  5  no device\nstep                  1  no compiler\n";
        assert!(told.contains(reasons) && told.ends_with("\n3 passed, 0 failed, 6 skipped\n"), "{told}");
    }

    #[test]
    fn a_run_that_only_skips_has_not_passed() {
        let mut summary = Summary::default();
        summary.add(line(Ok(Verdict::Skipped(String::new())), 0, 0));
        assert!(!summary.passed());
    }
}
