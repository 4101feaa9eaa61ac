//! Models of the lock-free structures under loom.

use crate::program::Program;
use crate::run::Run;
use crate::step::{Bench, Failure, Verdict};

/// Runs every `core/tests/loom_*.rs`, built with the model's atomics.
pub(super) fn check(bench: &Bench<'_>) -> Result<Verdict, Failure> {
    let models = bench.workspace.files("core/tests", ".rs");
    let models: Vec<String> = models
        .iter()
        .filter_map(|path| path.file_stem().map(|stem| stem.to_string_lossy().into_owned()))
        .filter(|name| name.starts_with("loom_"))
        .collect();
    if models.is_empty() {
        return Err(Failure::new("there is no core/tests/loom_*.rs"));
    }
    let targets = models.iter().flat_map(|model| ["--test", model]);
    let build = Run::cargo().words("test --package umbra-core --profile model").args(targets).arg("--target-dir");
    let build = build.arg(bench.workspace.target.join("loom")).env("RUSTFLAGS", "--cfg loom");
    // Some take minutes and most take none: so several programs run at a time.
    let programs = Program::all(build, bench.log)?;
    let run = |program: &Program| program.start().env("LOOM_MAX_PREEMPTIONS", "3");
    Run::all_succeed(programs.iter().map(run), bench.log)?;
    Ok(Verdict::Passed(models.join(", ")))
}
