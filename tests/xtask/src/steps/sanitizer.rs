//! ThreadSanitizer and Miri, where a nightly toolchain allows them.

use std::ffi::OsString;
use std::path::Path;

use crate::guest::tail;
use crate::program::Program;
use crate::run::{self, Run};
use crate::step::{Bench, Failure, Verdict};
use crate::toolchain;

/// The host; ThreadSanitizer needs it named, so that build scripts stay uninstrumented.
const HOST: &str = "x86_64-unknown-linux-gnu";

/// Runs the concurrent tests of core and host with ThreadSanitizer, the standard library instrumented as well.
pub(super) fn tsan(bench: &Bench<'_>) -> Result<Verdict, Failure> {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return Ok(Verdict::Skipped(format!("this step is written for {HOST}")));
    }
    let toolchain = match toolchain::nightly_with_sources(bench.workspace, bench.log)? {
        Ok(toolchain) => toolchain,
        Err(reason) => return Ok(Verdict::Skipped(reason)),
    };
    let mut ran = Vec::new();
    // Of the host only what its library needs: the command brings a hundred packages.
    for (package, options) in
        [("core", "--package umbra-core --lib"), ("host", "--package umbra --no-default-features")]
    {
        let folder = format!("{package}/tests");
        let files = bench.workspace.files(&folder, ".rs");
        let names = files.iter().filter_map(|path| path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
        let stress: Vec<String> = names.filter(|name| name.starts_with("stress_")).collect();
        if stress.is_empty() {
            return Err(Failure::new(format!("there is no {folder}/stress_*.rs")));
        }
        let build = nightly(&toolchain)
            .words("test -Zbuild-std --target")
            .arg(HOST)
            .words(options)
            .args(stress.iter().flat_map(|name| ["--test", name]))
            .arg("--target-dir")
            .arg(bench.workspace.target.join("tsan"))
            .env("RUSTFLAGS", "-Zsanitizer=thread")
            // A report names lines; it needs no variables.
            .env("CARGO_PROFILE_DEV_DEBUG", "line-tables-only")
            // Optimised a little, what is watched runs four times as fast; that is worth more than it costs.
            .env("CARGO_PROFILE_DEV_OPT_LEVEL", "1");
        let programs = Program::all(build, bench.log)?;
        let watched = |program: &Program| program.start().env("TSAN_OPTIONS", "halt_on_error=1");
        Run::all_succeed(programs.iter().map(watched), bench.log)?;
        ran.extend(stress);
    }
    Ok(Verdict::Passed(ran.join(", ")))
}

/// Tests of core in files of their own that are short enough for an interpreter: the scenarios of slot caches.
const SCENARIOS: [&str; 5] = [
    "slot_caches_overtaking",
    "slot_caches_refusals",
    "slot_caches_stencil",
    "slot_caches_stencil_line",
    "slot_caches_waiting",
];

/// Runs the tests of core under Miri.
pub(super) fn miri(bench: &Bench<'_>) -> Result<Verdict, Failure> {
    if Run::cargo().words("+nightly miri --version").output().is_none() {
        return Ok(Verdict::Skipped("`cargo +nightly miri --version` fails: Miri is not installed".to_owned()));
    }
    let miri = |options: &str| {
        let run = Run::cargo().words("+nightly miri test --package umbra-core --lib --no-fail-fast");
        let run = run.args(SCENARIOS.iter().flat_map(|name| ["--test", name])).words("--target-dir");
        let run = run.arg(bench.workspace.target.join("miri")).words(options);
        run.env("PROPTEST_CASES", "8").env("MIRIFLAGS", "-Zmiri-disable-isolation")
    };
    // An interpreted program has one processor whatever its threads: so every processor has a program, each with its
    // share of the tests.
    let (status, printed) = miri("-- --list").finish(bench.log)?;
    let names: Vec<&str> = printed.iter().filter_map(|line| line.strip_suffix(": test")).collect();
    if !status.success() || names.is_empty() {
        return Err(Failure::new(format!("{}\nno test of core is listed: {status}", tail(&printed))));
    }
    let shares = run::processors().min(names.len());
    let share = |nth| names.iter().copied().skip(nth).step_by(shares);
    Run::all_succeed((0..shares).map(|nth| miri("-- --exact").args(share(nth))), bench.log)?;
    Ok(Verdict::Passed(String::new()))
}

/// The cargo of a toolchain folder, which finds its own compiler first.
pub(super) fn nightly(toolchain: &Path) -> Run {
    let mut path = OsString::from(toolchain.join("bin"));
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let cargo = toolchain.join("bin/cargo");
    // rustup's proxies would lead back to the default toolchain; the folder's programs are no proxies.
    Run::new(cargo).env("PATH", path).env_remove("CARGO").env_remove("RUSTUP_TOOLCHAIN").env_remove("RUSTC")
}
