//! What harnesses tell: how many tests passed, failed and were skipped, and why.
//!
//! To a harness, a test passes that finds nothing on this machine to work with. Therefore such a test prints a line that
//! begins with `skipped: `, which a harness shows among what passing tests print if it is told to `--show-output`:
//!
//! ```text
//! ---- every_header_is_c_plus_plus_too stdout ----
//! skipped: no C++ compiler
//! ```

use std::collections::BTreeMap;

/// Counts of test harnesses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tests {
    /// Tests that passed.
    pub(crate) passed: u64,
    /// Tests that failed.
    pub(crate) failed: u64,
    /// Tests that the harness did not run.
    pub(crate) ignored: u64,
    /// Why tests stopped before their end, and how many for each reason.
    pub(crate) skipped: BTreeMap<String, u64>,
}

impl Tests {
    /// How many were run to their end.
    pub(crate) fn ran(&self) -> u64 {
        self.passed + self.failed
    }

    /// How many were not.
    pub(crate) fn not_run(&self) -> u64 {
        self.ignored + self.skipped.values().sum::<u64>()
    }

    /// Both counts together.
    pub(crate) fn plus(mut self, other: Self) -> Self {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
        for (why, count) in other.skipped {
            *self.skipped.entry(why).or_default() += count;
        }
        self
    }

    /// Reads what one or more harnesses printed.
    pub(crate) fn of_printed(printed: &[String]) -> Self {
        let mut tests = Self::default();
        // Of a test that failed after all, it does not matter what it skipped.
        let (mut among_failures, mut may_skip) = (false, false);
        for line in printed {
            if let Some(counts) = line.strip_prefix("test result: ") {
                tests = tests.plus(Self::of_counts(counts));
                (among_failures, may_skip) = (false, false);
            } else if line == "failures:" {
                among_failures = true;
            } else if line.starts_with("---- ") && line.ends_with(" stdout ----") {
                may_skip = !among_failures;
            } else if let Some(why) = line.strip_prefix("skipped: ")
                && may_skip
            {
                *tests.skipped.entry(why.to_owned()).or_default() += 1;
                // A test counts once, whatever else it skips.
                may_skip = false;
            }
        }
        let skipped: u64 = tests.skipped.values().sum();
        Self { passed: tests.passed.saturating_sub(skipped), ..tests }
    }

    /// Reads `ok. 7 passed; 0 failed; 1 ignored; ...`.
    fn of_counts(counts: &str) -> Self {
        let mut tests = Self::default();
        let Some((_, counts)) = counts.split_once(". ") else { return tests };
        for part in counts.split("; ") {
            match part.split_once(' ') {
                Some((count, "passed")) => tests.passed = count.parse().unwrap_or(0),
                Some((count, "failed")) => tests.failed = count.parse().unwrap_or(0),
                Some((count, "ignored")) => tests.ignored = count.parse().unwrap_or(0),
                _ => {}
            }
        }
        tests
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(printed: &str) -> Tests {
        Tests::of_printed(&printed.lines().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn closing_lines_of_the_harness_are_counted() {
        let line = "test result: FAILED. 7 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s";
        assert_eq!(of(line), Tests { passed: 7, failed: 2, ignored: 1, ..Tests::default() });
        assert_eq!(of(&[line, line].join("\n")).passed, 14);
        assert_eq!(of("test result is unknown"), Tests::default());
        assert_eq!(of("test a ... ok"), Tests::default());
    }

    /// What a harness prints of five tests.
    const PRINTED: &str = "\
running 5 tests
test a ... ok
skipped: another process says so, no test

successes:

---- a stdout ----
some words
skipped: no device
skipped: no link

---- b stdout ----
skipped: no device

---- c stdout ----
what is skipped: nothing

successes:
    a
    b
    c
    d

failures:

---- e stdout ----
skipped: no compiler

failures:
    e

test result: FAILED. 4 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
";

    #[test]
    fn tests_that_say_so_are_skipped_and_have_not_passed() {
        let tests = of(PRINTED);
        assert_eq!((tests.passed, tests.failed, tests.ran(), tests.not_run()), (2, 1, 3, 2));
        assert_eq!(tests.skipped, BTreeMap::from([("no device".to_owned(), 2)]));
        let twice = of(&[PRINTED, PRINTED].concat());
        assert_eq!(twice, tests.clone().plus(tests));
    }
}
