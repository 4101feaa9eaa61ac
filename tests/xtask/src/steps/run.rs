//! The main job, as the README's first command runs it.

use crate::run::Run;
use crate::step::{Bench, Failure, Verdict};

/// Runs the job on every data path and believes its exit code only together with what it reports.
pub(super) fn check(bench: &Bench<'_>) -> Result<Verdict, Failure> {
    Run::cargo().words("build --release --package umbra --package umbra-dpu").succeed(bench.log)?;
    let program = bench.workspace.target.join("release/umbra");
    for path in ["auto", "shared", "cma", "asked"] {
        let run = Run::new(&program).words("run --json --size 4K --reads 500 --data-path").arg(path);
        let run = run.env("TMPDIR", &bench.workspace.scratch);
        let (status, printed) = run.limit(300).finish(bench.log)?;
        let object = printed.iter().find(|line| line.starts_with('{'));
        let agrees = object.is_some_and(|object| object.replace(' ', "").contains("\"mismatches\":0,"));
        if !status.success() || !agrees {
            return Err(Failure::new(format!("{}\n{status}: umbra run --data-path {path}", printed.join("\n"))));
        }
    }
    Ok(Verdict::Passed("auto, shared, cma, asked".to_owned()))
}
