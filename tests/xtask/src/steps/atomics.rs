//! Tests of core that are built with other atomics.

use crate::program::Program;
use crate::run::Run;
use crate::step::{Bench, Failure, Verdict};
use crate::steps::tests::PROFILE;

/// Runs every `core/tests/loom_*.rs`, built with the model's atomics.
pub(super) fn loom(bench: &Bench<'_>) -> Result<Verdict, Failure> {
    // Some take minutes and most take none: so several programs run at a time.
    check(bench, "loom", "model", |run| run.env("LOOM_MAX_PREEMPTIONS", "3"))
}

/// Runs every `core/tests/crash_points_*.rs`, built with atomics of which a test chooses one before which a process dies.
///
/// That takes some twenty seconds of one processor, beside the build.
pub(super) fn crash_points(bench: &Bench<'_>) -> Result<Verdict, Failure> {
    check(bench, "crash", PROFILE, |run| run.env_remove("UMBRA_SEED"))
}

/// Builds the tests whose names begin with that of the configuration, and runs them `with` what they want.
fn check(bench: &Bench<'_>, cfg: &str, profile: &str, with: impl Fn(Run) -> Run) -> Result<Verdict, Failure> {
    let tests: Vec<String> = bench
        .workspace
        .files("core/tests", ".rs")
        .iter()
        .filter_map(|path| path.file_stem().map(|stem| stem.to_string_lossy().into_owned()))
        .filter(|name| name.starts_with(&format!("{cfg}_")))
        .collect();
    if tests.is_empty() {
        return Err(Failure::new(format!("there is no core/tests/{cfg}_*.rs")));
    }
    let targets = tests.iter().flat_map(|test| ["--test", test]);
    let build = Run::cargo().words("test --package umbra-core --profile").arg(profile).args(targets);
    let build = build.arg("--target-dir").arg(bench.workspace.target.join(cfg));
    let programs = Program::all(build.env("RUSTFLAGS", format!("--cfg {cfg}")), bench.log)?;
    Run::all_succeed(programs.iter().map(|program| with(program.start())), bench.log)?;
    Ok(Verdict::Passed(tests.join(", ")))
}
