//! RDMA by verbs, on a real device or on one in software.

use std::fs;
use std::path::{Path, PathBuf};

use crate::guest::{Guest, Kind, tail};
use crate::install::RdmaSys;
use crate::run::{Log, Run};
use crate::step::{Bench, Failure, Verdict};
use crate::steps::tests::PROFILE;

/// Tests that need a device; each says `skipped: ` if it found none, which is a failure here.
const TESTS: [&str; 8] = [
    "verbs",
    "verbs_transport",
    "verbs_access",
    "verbs_window",
    "verbs_loopback",
    JOB_TESTS[0],
    JOB_TESTS[1],
    LINK_TEST,
];
/// Tests that start agents and ranks: other programs than themselves, which are built in one way only.
const JOB_TESTS: [&str; 2] = ["verbs_session", "verbs_job"];
/// The test that takes the link down and the device away; it runs where both are ours.
const LINK_TEST: &str = "verbs_link";

/// Runs the tests where there is a device: here, or in a guest that makes itself one. Once with libibverbs bound at run time,
/// and once more with the types and calls of `rdma-sys`, where that can be built.
pub(super) fn check(bench: &Bench<'_>) -> Result<Verdict, Failure> {
    let build = |words: &str| Run::cargo().words(words).args(["--profile", PROFILE]);
    build("build --package umbra --package umbra-dpu --bins").succeed(bench.log)?;
    let mut programs = programs(build("test --package umbra-tests"), bench.log)?;
    let rdma_sys = RdmaSys::prepare(bench.log);
    if rdma_sys.is_here() {
        let build = rdma_sys.env(build("test --package umbra-tests --features umbra/rdma-sys"));
        let is_job = |program: &PathBuf| JOB_TESTS.into_iter().any(|test| is_test(program, test));
        programs.extend(self::programs(build, bench.log)?.into_iter().filter(|program| !is_job(program)));
    }
    let remark = |device: &str| match rdma_sys.remark() {
        remark if remark.is_empty() => format!("{device}, also with rdma-sys"),
        remark => format!("{device}, {remark}"),
    };
    let umbra = bench.workspace.target.join(PROFILE).join("umbra");
    if fs::read_dir("/sys/class/infiniband").is_ok_and(|mut devices| devices.next().is_some()) {
        for program in programs.into_iter().filter(|program| !is_test(program, LINK_TEST)) {
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

/// Builds the tests by a command of cargo; their programs.
fn programs(build: Run, log: &Log) -> Result<Vec<PathBuf>, Failure> {
    let tests = TESTS.into_iter().flat_map(|test| ["--test", test]);
    let (status, printed) = build.words("--no-run --message-format=json").args(tests).finish(log)?;
    let programs: Vec<PathBuf> = printed.iter().filter_map(|line| executable(line)).collect();
    if !status.success() || programs.len() != TESTS.len() {
        return Err(Failure::new(format!("{}\nthe tests were not built: {status}", tail(&printed))));
    }
    Ok(programs)
}

/// The program that cargo says it has built for one of the tests; programs of the package are told as well.
fn executable(line: &str) -> Option<PathBuf> {
    let (_, rest) = line.split_once("\"executable\":\"")?;
    let program = PathBuf::from(rest.split_once('"')?.0);
    TESTS.into_iter().any(|test| is_test(&program, test)).then_some(program)
}

/// Whether a program is this test: cargo adds a dash and a digest to the name.
fn is_test(program: &Path, test: &str) -> bool {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    name.strip_prefix(test).is_some_and(|rest| rest.starts_with('-'))
}

/// Makes a device on an interface of its own, waits until its address is there, and runs the tests.
fn script(umbra: &Path, programs: &[PathBuf]) -> String {
    let umbra = umbra.display();
    let device = format!(
        "set -e\n\
         ulimit -l unlimited\n\
         export UMBRA_TEST_LINK=d0\n\
         ip link set lo up\n\
         ip link add d0 type dummy\n\
         ip address add 10.99.0.1/24 dev d0\n\
         ip link set d0 up\n\
         rdma link add rxe0 type rxe netdev d0\n\
         for wait in 1 2 3 4 5 6 7 8 9 10; do '{umbra}' devices | grep -q preferred && break; sleep 1; done\n\
         '{umbra}' devices\n"
    );
    let run = |program: &PathBuf| format!("'{}' --test-threads=1 --nocapture\n", program.display());
    device + &programs.iter().map(run).collect::<String>()
}

/// Whether a test found no device.
fn is_skipped(printed: &[String]) -> bool {
    printed.iter().any(|line| line.contains("skipped: "))
}
