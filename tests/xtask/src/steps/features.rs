//! Features: every combination, and none of them without an operating system.

use crate::install::{self, CARGO_HACK, RdmaSys};
use crate::run::Run;
use crate::step::{Bench, Failure, Verdict};
use crate::toolchain;

/// The processor of BlueField's cores, without a system.
const BARE: &str = "aarch64-unknown-none";

/// Clippy over the power set of features of the packages that have some.
pub(super) fn features(bench: &Bench<'_>) -> Result<Verdict, Failure> {
    let tool = match install::cargo_tool(bench.workspace, CARGO_HACK, bench.log)? {
        Ok(tool) => tool,
        Err(reason) => return Ok(Verdict::Skipped(reason)),
    };
    let rdma_sys = RdmaSys::prepare(bench.log);
    rdma_sys
        .env(Run::new(tool))
        .words("hack clippy --quiet --feature-powerset --workspace --exclude umbra-tests --exclude xtask")
        // The default is among the others, by the names of its parts.
        .words(if rdma_sys.is_here() { "--exclude-features default" } else { "--exclude-features default,rdma-sys" })
        .words("-- -D warnings")
        .succeed(bench.log)?;
    Ok(Verdict::Passed(rdma_sys.remark()))
}

/// Builds core and the engine for bare metal, with rustup's target or with Debian's library sources.
pub(super) fn bare_metal(bench: &Bench<'_>) -> Result<Verdict, Failure> {
    let build = || {
        Run::cargo()
            .words("build --release --no-default-features --package umbra-core --package umbra-dpu --target")
            .arg(BARE)
            .arg("--target-dir")
            .arg(bench.workspace.target.join("bare-metal"))
    };
    if toolchain::target_installed(BARE) {
        build().succeed(bench.log)?;
        return Ok(Verdict::Passed(format!("{BARE}, by rustup's target")));
    }
    let compiler = match toolchain::debian_compiler(bench.workspace, bench.log)? {
        Ok(compiler) => compiler,
        Err(reason) => {
            return Ok(Verdict::Skipped(format!(
                "target {BARE} is not installed (`rustup target add {BARE}`), and {reason}"
            )));
        }
    };
    build()
        .words("-Zbuild-std=core -Zbuild-std-features=compiler-builtins-mem")
        .env("RUSTC", compiler)
        .env("RUSTC_BOOTSTRAP", "1")
        .succeed(bench.log)?;
    Ok(Verdict::Passed(format!("{BARE}, by Debian's library sources")))
}
