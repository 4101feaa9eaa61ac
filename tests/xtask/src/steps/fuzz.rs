//! Coverage-guided fuzzing of everything that reads foreign bytes.
//!
//! The targets call the functions of `umbra_tests::hostile`, which the tests of the workspace run on random
//! bytes as well; so those inputs are tried even where there is no nightly toolchain.

use crate::install::{self, CARGO_FUZZ};
use crate::run::Run;
use crate::step::{Bench, Failure, Verdict};
use crate::steps::tests::{PROFILE, PROGRAMS};

/// Seconds a target; long enough to leave the first refusals behind.
const SECONDS: u64 = 10;

/// Runs every target of `tests/fuzz` for a while.
pub(super) fn check(bench: &Bench<'_>) -> Result<Verdict, Failure> {
    if Run::new("rustc").words("+nightly --version").output().is_none() {
        return Ok(Verdict::Skipped("there is no nightly toolchain".to_owned()));
    }
    let tool = match install::cargo_tool(bench.workspace, CARGO_FUZZ, bench.log)? {
        Ok(tool) => tool,
        Err(reason) => return Ok(Verdict::Skipped(reason)),
    };
    let targets: Vec<String> = bench
        .workspace
        .files("tests/fuzz/fuzz_targets", ".rs")
        .iter()
        .filter_map(|path| path.file_stem().map(|stem| stem.to_string_lossy().into_owned()))
        .collect();
    if targets.is_empty() {
        return Err(Failure::new("there is no target in tests/fuzz/fuzz_targets"));
    }
    let corpus = bench.workspace.folder("fuzz-corpus")?;
    Run::cargo().words("build").words(PROGRAMS).succeed(bench.log)?;
    let seeds = bench.workspace.target.join(PROFILE).join("examples/hostile_seeds");
    Run::new(&seeds).arg(&corpus).succeed(bench.log)?;
    let cargo_fuzz = |words: &str| {
        let run = Run::new(&tool).words(words).args(["--fuzz-dir", "tests/fuzz", "--target-dir"]);
        run.arg(bench.workspace.target.join("fuzz")).env("RUSTUP_TOOLCHAIN", "nightly").env_remove("CARGO")
    };
    cargo_fuzz("fuzz build --sanitizer none").succeed(bench.log)?;
    let limits = format!(
        "-seed={} -max_total_time={SECONDS} -timeout=5 -rss_limit_mb=2048 -max_len=4096 -print_final_stats=1",
        // To libFuzzer, 0 is none.
        (bench.seed as u32).max(1)
    );
    let runs = targets.iter().map(|target| {
        let run = cargo_fuzz("fuzz run --sanitizer none").arg(target).arg(corpus.join(target));
        run.arg("--").words(&limits).limit(SECONDS + 120)
    });
    Run::all_succeed(runs, bench.log)?;
    Ok(Verdict::Passed(format!("{} targets, {SECONDS} s each", targets.len())))
}
