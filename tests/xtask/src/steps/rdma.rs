//! RDMA by verbs, on a real device or on one in software.

use std::fs;
use std::path::{Path, PathBuf};

use crate::guest::Guest;
use crate::run::Run;
use crate::step::{Bench, Failure, Verdict};
use crate::steps::tests::PROFILE;

/// Tests that need a device; each says `skipped: ` if it found none, which is a failure here.
const TEST: &str = "verbs";

/// Runs the tests where there is a device: here, or in a guest that makes itself one.
pub(super) fn check(bench: &Bench<'_>) -> Result<Verdict, Failure> {
    let build = |words: &str| Run::cargo().words(words).args(["--profile", PROFILE]);
    build("build --package umbra --bin umbra").succeed(bench.log)?;
    let test = format!("test --package umbra-tests --no-run --message-format=json --test {TEST}");
    let (status, printed) = build(&test).finish(bench.log)?;
    let program = printed.iter().find_map(|line| executable(line)).filter(|_| status.success());
    let program = program.ok_or_else(|| Failure::new(format!("the test {TEST} was not built: {status}")))?;
    let umbra = bench.workspace.target.join(PROFILE).join("umbra");
    if fs::read_dir("/sys/class/infiniband").is_ok_and(|mut devices| devices.next().is_some()) {
        let (status, printed) = Run::new(&program).words("--test-threads=1 --nocapture").finish(bench.log)?;
        return if status.success() { ran(&printed, "this machine's device") } else { Err(failed(&printed)) };
    }
    let guest = match Guest::prepare(bench.workspace, bench.log)? {
        Ok(guest) => guest,
        Err(reason) => return Ok(Verdict::Skipped(reason)),
    };
    ran(&guest.run(&script(&umbra, &program), bench.log)?, "soft-RoCE in a guest")
}

/// The program that cargo says it has built for the test; programs of the package are told as well.
fn executable(line: &str) -> Option<PathBuf> {
    let (_, rest) = line.split_once("\"executable\":\"")?;
    let program = PathBuf::from(rest.split_once('"')?.0);
    let name = program.file_name()?.to_string_lossy().into_owned();
    name.strip_prefix(TEST)?.starts_with('-').then_some(program)
}

/// Makes a device on an interface of its own, waits until its address is there, and runs the tests.
fn script(umbra: &Path, program: &Path) -> String {
    let (umbra, program) = (umbra.display(), program.display());
    format!(
        "set -e\n\
         ulimit -l unlimited\n\
         ip link set lo up\n\
         ip link add d0 type dummy\n\
         ip address add 10.99.0.1/24 dev d0\n\
         ip link set d0 up\n\
         rdma link add rxe0 type rxe netdev d0\n\
         for wait in 1 2 3 4 5 6 7 8 9 10; do '{umbra}' devices | grep -q preferred && break; sleep 1; done\n\
         '{umbra}' devices\n\
         '{program}' --test-threads=1 --nocapture\n"
    )
}

/// Every test must have found the device.
fn ran(printed: &[String], place: &str) -> Result<Verdict, Failure> {
    if printed.iter().any(|line| line.contains("skipped: ")) {
        return Err(failed(printed));
    }
    Ok(Verdict::Passed(place.to_owned()))
}

fn failed(printed: &[String]) -> Failure {
    Failure::new(printed[printed.len().saturating_sub(60)..].join("\n"))
}
