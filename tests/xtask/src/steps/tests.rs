//! The tests of the workspace.

use crate::install::{self, CC, VALGRIND};
use crate::run::Run;
use crate::step::{Bench, Failure, Verdict};

/// The profile of tests: debug assertions on, but optimised enough for the simulators.
pub(super) const PROFILE: &str = "ci";

/// Builds every program first, because tests of real processes start them, then runs all tests and examples in
/// the documentation.
pub(super) fn check(bench: &Bench<'_>) -> Result<Verdict, Failure> {
    // The C programs among the tests say by themselves what they can't do without these.
    let missing: Vec<String> =
        [CC, VALGRIND].into_iter().filter_map(|tool| install::system_tool(tool, bench.log).err()).collect();
    let cargo = |words: &str| {
        let run = Run::cargo().words(words).args(["--workspace", "--profile", PROFILE]);
        run.env("TMPDIR", &bench.workspace.scratch)
    };
    cargo("build").succeed(bench.log)?;
    cargo("test --no-fail-fast").succeed(bench.log)?;
    Ok(Verdict::Passed(missing.join(", ")))
}
