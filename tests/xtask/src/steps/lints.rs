//! Formatting, lints and documentation.

use crate::install::RdmaSys;
use crate::run::Run;
use crate::step::{Bench, Failure, Verdict};

/// `cargo fmt` would change nothing.
pub(super) fn fmt(bench: &Bench<'_>) -> Result<Verdict, Failure> {
    Run::cargo().words("fmt --all --check").succeed(bench.log)?;
    Ok(Verdict::Passed(String::new()))
}

/// Clippy with every feature, where every feature can be built; each of them alone is a step of its own.
pub(super) fn clippy(bench: &Bench<'_>) -> Result<Verdict, Failure> {
    let rdma_sys = RdmaSys::prepare(bench.log);
    let features = if rdma_sys.is_here() { "--all-features" } else { "" };
    let run = rdma_sys.env(Run::cargo()).words("clippy --quiet --workspace --all-targets").words(features);
    run.words("-- -D warnings").succeed(bench.log)?;
    Ok(Verdict::Passed(rdma_sys.remark()))
}

/// rustdoc, where a broken link is an error: in what readers see, which leads to nothing private, and in what is private.
pub(super) fn doc(bench: &Bench<'_>) -> Result<Verdict, Failure> {
    for of in ["", "--document-private-items"] {
        let run = Run::cargo().words("doc --quiet --workspace --no-deps").words(of);
        run.env("RUSTDOCFLAGS", "-D warnings").succeed(bench.log)?;
    }
    Ok(Verdict::Passed(String::new()))
}
