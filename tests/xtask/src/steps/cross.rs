//! The programs for a DPU build for its processor.

use crate::cross;
use crate::step::{Bench, Failure, Verdict};

/// The profile of these programs: an emulator starts them a few times, and that takes less than to optimise them.
pub(super) const PROFILE: &str = "dev";

/// Builds them, compares the declarations of verbs, and starts both under an emulator; each where it can be done.
pub(super) fn check(bench: &Bench<'_>) -> Result<Verdict, Failure> {
    let built = match cross::build(bench.workspace, cross::WITH_TESTS, PROFILE, bench.log)? {
        Ok(built) => built,
        Err(reason) => return Ok(Verdict::Skipped(reason)),
    };
    let mut remarks = vec![format!("by {}", built.by)];
    remarks.push(match cross::compare_verbs(bench.workspace, PROFILE, bench.log)? {
        Ok(()) => "verbs are laid out as in rdma-sys".to_owned(),
        Err(reason) => reason,
    });
    for (program, name) in [(&built.agent, "umbra-agent "), (&built.umbra, "umbra ")] {
        match cross::start(program, "--version", bench.log)? {
            Ok(printed) if printed.starts_with(name) => {}
            Ok(printed) => return Err(Failure::new(format!("{} says {printed:?}", program.display()))),
            Err(reason) => {
                remarks.push(format!("not started: {reason}"));
                break;
            }
        }
    }
    Ok(Verdict::Passed(remarks.join("; ")))
}
