//! Firmware on emulated boards serves host processes.

use crate::firmware::{self, BOARDS, Size};
use crate::install::{self, RdmaSys};
use crate::run::Run;
use crate::step::{Bench, Failure, Verdict};
use crate::steps::tests::{PROFILE, PROGRAMS};

/// Seconds that the boards may take; a quiet machine needs a quarter of it.
const LIMIT: u64 = 420;

/// Builds the images, starts each under its emulator, and lets host processes put it to the test.
pub(super) fn check(bench: &Bench<'_>) -> Result<Verdict, Failure> {
    let cargo = || Run::cargo().words("test --workspace --test firmware --profile").arg(PROFILE);
    let mut test = cargo();
    let mut sizes = Vec::new();
    for board in &BOARDS {
        let (program, package) = board.emulator;
        if !install::found(program)
            && let Err(reason) = install::system_packages(&[package], bench.log)
        {
            return Ok(Verdict::Skipped(reason));
        }
        let images = match firmware::build(board, bench.workspace, bench.log)? {
            Ok(images) => images,
            Err(reason) => return Ok(Verdict::Skipped(reason)),
        };
        sizes.push((board.name, firmware::size(&images.whole)?));
        test = test.env(board.variable, images.whole).env(board.shallow, images.shallow);
    }
    let rdma_sys = RdmaSys::prepare(bench.log);
    let build = rdma_sys.env(Run::cargo()).words("build").words(PROGRAMS).args(["--features", rdma_sys.features()]);
    build.succeed(bench.log)?;
    test = test.env("UMBRA_FIRMWARE_LOG", bench.workspace.target.join(PROFILE).join("umbra"));
    cargo().arg("--no-run").succeed(bench.log)?;
    let run = test.words("-- --nocapture --test-threads=1").limit(LIMIT);
    let (status, printed) = run.finish(bench.log)?;
    let told: Vec<&str> = printed.iter().filter_map(|line| line.split_once("firmware: ")).map(|told| told.1).collect();
    let skipped = printed.iter().any(|line| line.contains("skipped: "));
    if !status.success() || skipped || told.is_empty() {
        return Err(Failure::new(format!("{}\n{status}", printed.join("\n"))));
    }
    let size = |&(name, Size { text, data, bss }): &(&str, Size)| {
        format!("{name}: {text} bytes of text, {data} of data, {bss} of bss")
    };
    let lines: Vec<String> = sizes.iter().map(size).chain(told.into_iter().map(str::to_owned)).collect();
    Ok(Verdict::Passed(lines.join("\n   ")))
}
