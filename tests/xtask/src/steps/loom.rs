//! Models of the lock-free structures under loom.

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
    Run::cargo()
        .words("test --package umbra-core --profile model --no-fail-fast")
        .args(targets)
        .arg("--target-dir")
        .arg(bench.workspace.target.join("loom"))
        .env("RUSTFLAGS", "--cfg loom")
        .env("LOOM_MAX_PREEMPTIONS", "3")
        .succeed(bench.log)?;
    Ok(Verdict::Passed(models.join(", ")))
}
