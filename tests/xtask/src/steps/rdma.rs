//! RDMA by verbs, on a real device or on one in software.

use std::fs;
use std::path::{Path, PathBuf};

use crate::guest::{Guest, Kind, tail};
use crate::install::RdmaSys;
use crate::run::{self, Log, Run};
use crate::step::{Bench, Failure, Verdict};
use crate::steps::tests::{PROFILE, PROGRAMS};

/// Tests that need a device; each says `skipped: ` if it found none, which is a failure here.
const TESTS: &[&str] = &[
    "verbs",
    "verbs_memory",
    "verbs_shared",
    "verbs_transport",
    "verbs_access",
    "verbs_window",
    "verbs_manager",
    "verbs_loopback",
    JOB_TESTS[0],
    JOB_TESTS[1],
    JOB_TESTS[2],
    JOB_TESTS[3],
    JOB_TESTS[4],
    JOB_TESTS[5],
    LINK_TESTS[0],
];
/// Tests that start agents and ranks: other programs than themselves, which are built in one way only.
const JOB_TESTS: [&str; 6] =
    ["verbs_session", "verbs_revoke", "verbs_ranks", "verbs_job", "verbs_choice", LINK_TESTS[1]];
/// Tests that take the link down and the device away; they run where both are ours.
const LINK_TESTS: [&str; 2] = ["verbs_link", "verbs_faults"];

/// Runs the tests where there is a device: here, or in a guest that makes itself one. Once with libibverbs bound at run time,
/// and once more with the types and calls of `rdma-sys`, where that can be built.
pub(super) fn check(bench: &Bench<'_>) -> Result<Verdict, Failure> {
    let build = |words: &str| Run::cargo().words(words).args(["--profile", PROFILE]);
    Run::cargo().words("build").words(PROGRAMS).succeed(bench.log)?;
    let mut programs = programs(build("test --workspace"), TESTS, bench.log)?;
    let rdma_sys = RdmaSys::prepare(bench.log);
    if rdma_sys.is_here() {
        let build = rdma_sys.env(build("test --workspace --features umbra/rdma-sys"));
        let is_job = |program: &PathBuf| JOB_TESTS.into_iter().any(|test| run::is_named(program, test));
        programs.extend(self::programs(build, TESTS, bench.log)?.into_iter().filter(|program| !is_job(program)));
    }
    let remark = |device: &str| match rdma_sys.remark() {
        remark if remark.is_empty() => format!("{device}, also with rdma-sys"),
        remark => format!("{device}, {remark}"),
    };
    let umbra = bench.workspace.target.join(PROFILE).join("umbra");
    if has_device() {
        let is_link = |program: &PathBuf| LINK_TESTS.into_iter().any(|test| run::is_named(program, test));
        for program in programs.into_iter().filter(|program| !is_link(program)) {
            let (status, printed) = Run::new(&program).words("--test-threads=1 --nocapture").finish(bench.log)?;
            if !status.success() || is_skipped(&printed) {
                return Err(Failure::new(tail(&printed)));
            }
        }
        return Ok(Verdict::Passed(remark("this machine's device")));
    }
    let guest = match Guest::prepare(bench.workspace, Kind::Host, bench.log)? {
        Ok(guest) => guest,
        Err(reason) => return Ok(Verdict::Skipped(reason)),
    };
    let printed = guest.run(&script(&umbra, &programs), bench.log)?;
    if is_skipped(&printed) {
        return Err(Failure::new(tail(&printed)));
    }
    Ok(Verdict::Passed(remark("soft-RoCE in a guest")))
}

/// Builds these tests by a command of cargo; their programs.
pub(super) fn programs(build: Run, names: &[&str], log: &Log) -> Result<Vec<PathBuf>, Failure> {
    let tests = names.iter().flat_map(|&test| ["--test", test]);
    let (status, printed) = build.words("--no-run --message-format=json-render-diagnostics").args(tests).finish(log)?;
    let programs: Vec<PathBuf> = printed.iter().filter_map(|line| run::built(line, names)).collect();
    if !status.success() || programs.len() != names.len() {
        return Err(Failure::new(format!("{}\nthe tests were not built: {status}", tail(&printed))));
    }
    Ok(programs)
}

/// Makes a device on an interface of its own, and waits until its address is there.
pub(crate) const DEVICE: &str = "set -e\n\
    ulimit -l unlimited\n\
    ip link set lo up\n\
    ip link add d0 type dummy\n\
    ip address add 10.99.0.1/24 dev d0\n\
    ip link set d0 up\n\
    rdma link add rxe0 type rxe netdev d0\n\
    for wait in 1 2 3 4 5 6 7 8 9 10; do\n\
    grep -q ffff:0a63:0001 /sys/class/infiniband/rxe0/ports/1/gids/* && break\n\
    sleep 1\n\
    done\n";

/// Lists the device, and runs the tests.
fn script(umbra: &Path, programs: &[PathBuf]) -> String {
    let run = |program: &PathBuf| format!("'{}' --test-threads=1 --nocapture\n", program.display());
    let tests: String = programs.iter().map(run).collect();
    format!("{DEVICE}export UMBRA_TEST_LINK=d0\n'{}' devices\n{tests}", umbra.display())
}

/// Whether this machine has a device of its own.
pub(crate) fn has_device() -> bool {
    fs::read_dir("/sys/class/infiniband").is_ok_and(|mut devices| devices.next().is_some())
}

/// Whether a test found no device.
fn is_skipped(printed: &[String]) -> bool {
    printed.iter().any(|line| line.contains("skipped: "))
}
