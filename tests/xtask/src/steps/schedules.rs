//! Very many random schedules of the bootstrap, and of clients of a gateway.
//!
//! The tests of the workspace run a few; here there are enough to meet what is rare. A seed that breaks a rule is named
//! and repeats alone with `UMBRA_SEED`.

use crate::guest::tail;
use crate::run::Run;
use crate::step::{Bench, Failure, Verdict};
use crate::steps::tests::PROFILE;

/// The tests, and how many schedules each of them runs: about a minute of two cores.
const TESTS: [(&str, u64); 3] = [("group_schedules", 100_000), ("sim_random", 20_000), ("gateway_schedules", 20_000)];

/// Runs them all on all cores, and believes only what they say that they have run.
pub(super) fn check(bench: &Bench<'_>) -> Result<Verdict, Failure> {
    let mut told = Vec::new();
    let mut schedules = 0;
    for (test, count) in TESTS {
        let run = Run::cargo().words("test --workspace --profile").args([PROFILE, "--test", test]);
        let run = run.words("-- --nocapture").env("UMBRA_SCHEDULES", count.to_string());
        let (status, printed) = run.env_remove("UMBRA_SEED").finish(bench.log)?;
        let lines: Vec<&String> = printed.iter().filter(|line| line.contains(" schedules: ")).collect();
        let ran: u64 = lines.iter().filter_map(|line| counted(line)).sum();
        if !status.success() || ran < count {
            let why = format!("{}\n{ran} of {count} schedules of {test}: {status}", tail(&printed));
            return Err(Failure::new(why));
        }
        schedules += ran;
        told.extend(lines.into_iter().map(|line| line.rsplit(" ... ").next().unwrap_or(line).to_owned()));
    }
    Ok(Verdict::Passed(format!("{schedules} schedules\n   {}", told.join("\n   "))))
}

/// The number before the word.
fn counted(line: &str) -> Option<u64> {
    line.split(" schedules: ").next()?.rsplit(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn what_was_run_is_read_from_the_line_that_says_it() {
        assert_eq!(counted("test a ... Calm: 400 schedules: 0 with loss"), Some(400));
        assert_eq!(counted("many schedules: none"), None);
        assert_eq!(counted("running 3 tests"), None);
    }
}
