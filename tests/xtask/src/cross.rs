//! The programs for a DPU: Linux on aarch64.
//!
//! Where rustup's target is installed, the default toolchain builds them. Elsewhere Debian's own compiler does, with
//! Debian's library for that processor; see [`toolchain`]. Both need a linker and a C library for aarch64.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::install::{self, Found, RdmaSys};
use crate::run::{Log, Run};
use crate::step::Failure;
use crate::toolchain::{self, CROSS};
use crate::workspace::Workspace;

/// Linker and C library.
const PACKAGES: &[&str] = &["gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross"];
const LINKER: &str = "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER";
/// Runs programs of another processor.
const EMULATOR: (&str, &str) = ("qemu-aarch64-static", "qemu-user-static");
/// Where Debian keeps the C library for aarch64.
const LIBRARIES: &str = "/usr/aarch64-linux-gnu";
/// `e_machine` of AArch64 in an ELF header.
const AARCH64: u16 = 183;

/// What was built.
pub(crate) struct Built {
    /// The agent.
    pub(crate) agent: PathBuf,
    /// The command.
    pub(crate) umbra: PathBuf,
    /// Where they lie.
    pub(crate) folder: PathBuf,
    /// Which compiler did it.
    pub(crate) by: &'static str,
}

/// What is built for users: `umbra-agent` and `umbra`.
const PROGRAMS: &str = "build --package umbra --package umbra-dpu";
/// The same, and what tests start.
pub(crate) const WITH_TESTS: &str = "build --package umbra --package umbra-dpu --package umbra-tests --bins";

/// Builds [programs](PROGRAMS) in a profile, or says why that can't be done here.
pub(crate) fn build(workspace: &Workspace, words: &str, profile: &str, log: &Log) -> Result<Found<Built>, Failure> {
    let (build, by) = match cargo(workspace, words, profile, log)? {
        Ok(build) => build,
        Err(reason) => return Ok(Err(reason)),
    };
    build.succeed(log)?;
    let folder = workspace.folder("cross")?.join(CROSS).join(if profile == "dev" { "debug" } else { profile });
    let built = Built { agent: folder.join("umbra-agent"), umbra: folder.join("umbra"), folder, by };
    for program in [&built.agent, &built.umbra] {
        if machine(program)? != AARCH64 {
            return Err(Failure::new(format!("{} is no program for aarch64", program.display())));
        }
    }
    Ok(Ok(built))
}

/// Compares our declarations of verbs with those of `rdma-sys`, which are made from the headers for aarch64; the compiler
/// does it. Or says why that can't be done here.
pub(crate) fn compare_verbs(workspace: &Workspace, profile: &str, log: &Log) -> Result<Found<()>, Failure> {
    let rdma_sys = RdmaSys::prepare(log);
    if !rdma_sys.is_here() {
        return Ok(Err(rdma_sys.remark()));
    }
    let (check, _) = match cargo(
        workspace,
        "check --package umbra --lib --no-default-features --features rdma-sys",
        profile,
        log,
    )? {
        Ok(check) => check,
        Err(reason) => return Ok(Err(reason)),
    };
    // The headers of libibverbs are the same for all processors; those of the C library are not.
    rdma_sys.env(check).env("PKG_CONFIG_ALLOW_CROSS", "1").succeed(log).map(Ok)
}

/// A command of cargo for aarch64, and which compiler carries it out.
fn cargo(workspace: &Workspace, words: &str, profile: &str, log: &Log) -> Result<Found<(Run, &'static str)>, Failure> {
    let run = Run::cargo()
        .words(words)
        .args(["--profile", profile, "--target", CROSS, "--target-dir"])
        .arg(workspace.folder("cross")?)
        .env("CARGO_PROFILE_DEV_DEBUG", "false");
    if toolchain::host().as_deref() == Some(CROSS) {
        return Ok(Ok((run, "this machine's own processor")));
    }
    let linker = std::env::var_os(LINKER);
    if linker.is_none()
        && let Err(reason) = install::system_packages(PACKAGES, log)
    {
        return Ok(Err(reason));
    }
    let run = run.env(LINKER, linker.unwrap_or_else(|| "aarch64-linux-gnu-gcc".into()));
    if toolchain::target_installed(CROSS) {
        return Ok(Ok((run, "rustup's target")));
    }
    Ok(match toolchain::debian_compiler(workspace, log)? {
        Ok(compiler) => Ok((run.env("RUSTC", compiler), "Debian's compiler")),
        Err(reason) => {
            let add = format!("`rustup target add {CROSS}`");
            Err(format!("target {CROSS} is not installed ({add}), and {reason}"))
        }
    })
}

/// Starts a program that was built, and gives what it printed; or says why it can't be started here.
pub(crate) fn start(program: &Path, argument: &str, log: &Log) -> Result<Found<String>, Failure> {
    let (emulator, package) = EMULATOR;
    if let Err(reason) = install::system_packages(&[package], log) {
        return Ok(Err(reason));
    }
    let run = Run::new(emulator).args(["-L", LIBRARIES]).arg(program).arg(argument).limit(120);
    let (status, printed) = run.finish(log)?;
    let printed = printed.join("\n");
    if status.success() {
        return Ok(Ok(printed));
    }
    Err(Failure::new(format!("{printed}\n{status}: {} {argument}", program.display())))
}

/// `cargo xtask cross`: builds what users install, and says where it is.
pub(crate) fn command(workspace: &Workspace) -> Result<bool, Failure> {
    let log = Log::create(&workspace.folder("xtask-logs")?.join("cross-command.log"), true)?;
    match build(workspace, PROGRAMS, "release", &log)? {
        Ok(built) => {
            println!("by {}:\n{}\n{}", built.by, built.agent.display(), built.umbra.display());
            Ok(true)
        }
        Err(reason) => Err(Failure::new(reason)),
    }
}

/// The processor that an ELF program is for.
fn machine(program: &Path) -> Result<u16, Failure> {
    let unreadable = |error| Failure::new(format!("{}: {error}", program.display()));
    let mut head = [0; 20];
    File::open(program).and_then(|mut file| file.read_exact(&mut head)).map_err(unreadable)?;
    machine_of(&head).ok_or_else(|| Failure::new(format!("{} is no 64-bit ELF program", program.display())))
}

/// Source: elf(5).
fn machine_of(head: &[u8; 20]) -> Option<u16> {
    let [b'\x7f', b'E', b'L', b'F', 2, 1, .., low, high] = *head else { return None };
    Some(u16::from_le_bytes([low, high]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_told_by_the_header() {
        let mut head = *b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\xb7\0";
        assert_eq!(machine_of(&head), Some(AARCH64));
        head[18] = 62;
        assert_eq!(machine_of(&head), Some(62));
        head[4] = 1;
        assert_eq!(machine_of(&head), None, "32 bits");
    }
}
