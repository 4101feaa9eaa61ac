//! The programs for a DPU build for its processor.

use crate::cross;
use crate::step::{Bench, Failure, Verdict};
use crate::steps::tests::PROFILE;

/// Builds them and starts both under an emulator, if there is one.
pub(super) fn check(bench: &Bench<'_>) -> Result<Verdict, Failure> {
    let built = match cross::build(bench.workspace, cross::WITH_TESTS, PROFILE, bench.log)? {
        Ok(built) => built,
        Err(reason) => return Ok(Verdict::Skipped(reason)),
    };
    for (program, name) in [(&built.agent, "umbra-agent "), (&built.umbra, "umbra ")] {
        match cross::start(program, "--version", bench.log)? {
            Ok(printed) if printed.starts_with(name) => {}
            Ok(printed) => return Err(Failure::new(format!("{} says {printed:?}", program.display()))),
            Err(reason) => return Ok(Verdict::Passed(format!("by {}; not started: {reason}", built.by))),
        }
    }
    Ok(Verdict::Passed(format!("by {}", built.by)))
}
