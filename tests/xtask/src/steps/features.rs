//! Features: each of them alone, and none without an operating system.

use crate::install::{self, CARGO_HACK, RdmaSys};
use crate::run::Run;
use crate::step::{Bench, Failure, Verdict};
use crate::toolchain;

/// Processors without a system, and what is built for each.
///
/// They are BlueField's cores, and one without atomics of 64 bits.
const BARE: [(&str, &str); 2] = [
    ("aarch64-unknown-none", "--package umbra-core --package umbra-dpu"),
    ("thumbv7em-none-eabi", "--package umbra-core --features portable-atomic"),
];

/// Clippy over the packages with none of their features and with each alone.
///
/// Code that asks for one feature and not for another is met by each alone; code that asks for several, by the lints of the
/// workspace, which see all at once.
pub(super) fn features(bench: &Bench<'_>) -> Result<Verdict, Failure> {
    let tool = match install::cargo_tool(bench.workspace, CARGO_HACK, bench.log)? {
        Ok(tool) => tool,
        Err(reason) => return Ok(Verdict::Skipped(reason)),
    };
    let rdma_sys = RdmaSys::prepare(bench.log);
    let run =
        Run::new(&tool).words("hack clippy --quiet --each-feature --workspace --exclude umbra-tests --exclude xtask");
    // The default is among the others, by the names of its parts.
    let run = run.words(if rdma_sys.is_here() {
        "--exclude-features default"
    } else {
        "--exclude-features default,rdma-sys"
    });
    // One after the other, where the lints of the workspace have checked what all of them need: a second folder, for two at
    // a time, would cost as much as it gains.
    rdma_sys.env(run).words("-- -D warnings").succeed(bench.log)?;
    Ok(Verdict::Passed(rdma_sys.remark()))
}

/// Builds core, and for BlueField the engine, for bare metal.
///
/// That takes rustup's targets, or Debian's library sources.
pub(super) fn bare_metal(bench: &Bench<'_>) -> Result<Verdict, Failure> {
    let mut built = Vec::new();
    for (target, packages) in BARE {
        let build = Run::cargo().words("build --release --no-default-features").words(packages);
        let build = build.args(["--target", target, "--target-dir"]).arg(bench.workspace.target.join("bare-metal"));
        if toolchain::target_installed(target) {
            build.succeed(bench.log)?;
            built.push(format!("{target}, by rustup's target"));
            continue;
        }
        let compiler = match toolchain::debian_compiler(bench.workspace, bench.log)? {
            Ok(compiler) => compiler,
            Err(reason) => {
                return Ok(Verdict::Skipped(format!(
                    "target {target} is not installed (`rustup target add {target}`), and {reason}"
                )));
            }
        };
        build
            .words("-Zbuild-std=core -Zbuild-std-features=compiler-builtins-mem")
            .env("RUSTC", compiler)
            .env("RUSTC_BOOTSTRAP", "1")
            .succeed(bench.log)?;
        built.push(format!("{target}, by Debian's library sources"));
    }
    Ok(Verdict::Passed(built.join("; ")))
}
