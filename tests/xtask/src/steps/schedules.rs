//! Very many random schedules: bootstrap, gateways, chained calls, caches.
//!
//! The tests of the workspace run a few; here there are enough to meet what is rare. A seed that breaks a rule is named
//! and repeats alone with `UMBRA_SEED`, that of a chained call with `UMBRA_CHAIN_SEED`. The full form, which takes hours,
//! runs where [`FULL`] is set: as many as the specifications ask for, and the tests of which the others do not want more.

use crate::guest::tail;
use crate::run::Run;
use crate::step::{Bench, Failure, Verdict};
use crate::steps::tests::PROFILE;

/// Asks for the full form, by any value.
const FULL: &str = "UMBRA_SCHEDULES_FULL";

/// Seconds that one program of the full form may take.
const FULL_LIMIT: u64 = 12 * 60 * 60;

/// A test that is told how much to do.
struct Series {
    test: &'static str,
    /// Which tests of it, and how; all if that is empty.
    of_it: &'static str,
    /// By which it is told.
    variable: &'static str,
    /// How much it does here, about a minute of two cores for all of them; nothing if it runs in the full form alone.
    usual: u64,
    full: u64,
    /// What it says that it has run, after the number and before a colon.
    unit: &'static str,
    /// How often it does what it was told, by as many tests of its own at least.
    times: u64,
}

const fn series(test: &'static str, usual: u64, full: u64) -> Series {
    Series { test, of_it: "", variable: "UMBRA_SCHEDULES", usual, full, unit: "schedules", times: 1 }
}

const fn full(test: &'static str, variable: &'static str, full: u64, unit: &'static str) -> Series {
    Series { test, of_it: "", variable, usual: 0, full, unit, times: 1 }
}

/// In this order.
const TESTS: [Series; 14] = [
    series("group_schedules", 100_000, 1_000_000),
    series("sim_random", 20_000, 200_000),
    series("gateway_schedules", 20_000, 200_000),
    Series { variable: "UMBRA_CHAIN_SCHEDULES", times: 5, ..series("chain_schedules", 8_000, 250_000) },
    // Of calls of four members over all trees: more orders than there are schedules.
    full("chain_orders", "UMBRA_CHAIN_SCHEDULES", 250_000, "orders"),
    full("chain_crossing", "UMBRA_CHAIN_ROUNDS", 1_000, "rounds"),
    full("crowd_crossing", "UMBRA_CHAIN_ROUNDS", 1_000, "rounds"),
    full("chain_time", "UMBRA_CHAIN_CANCELS", 100_000, "calls"),
    // Over threads and over processes. So many threads or processes are alone on the machine.
    Series { of_it: "s40_ --test-threads 1", times: 2, ..full("crowd_time", "UMBRA_CHAIN_BELOW", 200, "members") },
    Series {
        of_it: "s56_ --test-threads 1",
        times: 2,
        ..full("crowd_crossing", "UMBRA_CHAIN_SOAK", 1_000_000, "calls")
    },
    full("chain_soak", "UMBRA_CHAIN_SOAK", 10_000_000, "calls"),
    Series { times: 2, ..full("stress_mapped", "UMBRA_STRESS_OPERATIONS", 10_000_000, "operations") },
    Series { times: 2, ..full("stress_room", "UMBRA_STRESS_OPERATIONS", 10_000_000, "operations") },
    full("stress_stencil", "UMBRA_STRESS_OPERATIONS", 10_000_000, "groups"),
];

/// Runs them all on all cores, and believes only what they say that they have run.
pub(super) fn check(bench: &Bench<'_>) -> Result<Verdict, Failure> {
    let is_full = std::env::var_os(FULL).is_some();
    let mut told = Vec::new();
    let mut schedules = 0;
    for Series { test, of_it, variable, usual, full, unit, times } in TESTS {
        let count = if is_full { full } else { usual };
        if count == 0 {
            continue;
        }
        let run = Run::cargo().words("test --workspace --profile").args([PROFILE, "--test", test]);
        let run = run.words("-- --nocapture").words(of_it).env(variable, count.to_string());
        let run = run.env_remove("UMBRA_SEED").env_remove("UMBRA_CHAIN_SEED");
        let run = if is_full { run.limit(FULL_LIMIT) } else { run };
        let (status, printed) = run.finish(bench.log)?;
        let lines: Vec<&String> = printed.iter().filter(|line| counted(line, unit).is_some()).collect();
        let ran: u64 = lines.iter().filter_map(|line| counted(line, unit)).sum();
        if !status.success() || ran < count * times {
            let why = format!("{}\n{ran} of {} {unit} of {test}: {status}", tail(&printed), count * times);
            return Err(Failure::new(why));
        }
        if unit == "schedules" {
            schedules += ran;
        }
        told.extend(lines.into_iter().map(|line| line.rsplit(" ... ").next().unwrap_or(line).to_owned()));
    }
    Ok(Verdict::Passed(format!("{schedules} schedules\n   {}", told.join("\n   "))))
}

/// The number before this word and a colon.
fn counted(line: &str, unit: &str) -> Option<u64> {
    line.split_once(&format!(" {unit}: "))?.0.rsplit(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn what_was_run_is_read_from_the_line_that_says_it() {
        assert_eq!(counted("test a ... Calm: 400 schedules: 0 with loss", "schedules"), Some(400));
        assert_eq!(counted("12 members: 50 rounds: all sums", "rounds"), Some(50));
        assert_eq!(counted("12 members: 50 rounds: all sums", "schedules"), None);
        assert_eq!(counted("many schedules: none", "schedules"), None);
        assert_eq!(counted("running 3 tests", "tests"), None);
    }
}
