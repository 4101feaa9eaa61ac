//! Features: every combination, and none of them without an operating system.

use crate::install::{self, CARGO_HACK, RdmaSys};
use crate::run::{self, Run};
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
    // One package alone keeps one processor busy: so every processor has a share of the combinations, and a folder.
    let shares = run::processors();
    let share = |nth: usize| {
        let run = Run::new(&tool).words("hack clippy --quiet --feature-powerset --workspace");
        let run = run.words("--exclude umbra-tests --exclude xtask --partition").arg(format!("{}/{shares}", nth + 1));
        // The default is among the others, by the names of its parts.
        let run = run.words(if rdma_sys.is_here() {
            "--exclude-features default"
        } else {
            "--exclude-features default,rdma-sys"
        });
        // The first folder has what the lints of the workspace have checked.
        let name = if nth == 0 { String::new() } else { format!("features-{nth}") };
        rdma_sys.env(run).env("CARGO_TARGET_DIR", bench.workspace.target.join(name)).words("-- -D warnings")
    };
    Run::all_succeed((0..shares).map(share), bench.log)?;
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
