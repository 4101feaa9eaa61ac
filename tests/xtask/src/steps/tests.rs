//! The tests of the workspace.

use crate::install::{self, CC, CXX, VALGRIND};
use crate::program::Program;
use crate::run::Run;
use crate::step::{Bench, Failure, Verdict};

/// The profile of tests: debug assertions on, but optimised enough for the simulators.
pub(super) const PROFILE: &str = "ci";

/// What to name when programs are built. Cargo unites the features of what it is asked for, so that every other wording
/// would build the same crates once more; examples are among it because the features that tests need come with them.
/// The tests themselves name the same (`umbra_tests::rig`).
pub(super) const PROGRAMS: &str = "--workspace --lib --bins --examples --profile ci";

/// Seconds that one program may take, on a machine that is busy with other things.
const LIMIT: u64 = 15 * 60;

/// Builds every program first, because tests of real processes start them, then runs all tests and examples in
/// the documentation.
pub(super) fn check(bench: &Bench<'_>) -> Result<Verdict, Failure> {
    // The C programs among the tests say by themselves what they can't do without these.
    let missing: Vec<String> =
        [CC, CXX, VALGRIND].into_iter().filter_map(|tool| install::system_tool(tool, bench.log).err()).collect();
    Run::cargo().words("build").words(PROGRAMS).succeed(bench.log)?;
    let tests = |run: Run| {
        let run = run.env("TMPDIR", &bench.workspace.scratch).env("PROPTEST_RNG_SEED", bench.seed.to_string());
        run.limit(LIMIT)
    };
    let cargo = || Run::cargo().words("test --no-fail-fast --workspace --profile").arg(PROFILE);
    // Most programs wait more than they work: cargo would run one at a time, and leave half of a machine idle.
    let programs = Program::all(cargo(), bench.log)?;
    // What passing tests print is shown for those that are skipped.
    let run = |program: &Program| tests(program.start()).arg("--show-output");
    let ran = Run::all_succeed(programs.iter().map(run), bench.log);
    let documented = tests(cargo().arg("--doc")).succeed(bench.log);
    let failures = [ran, documented].into_iter().filter_map(Result::err).map(|failure| failure.to_string());
    Failure::unless_empty(&failures.collect::<Vec<_>>(), missing.join(", "))
}
