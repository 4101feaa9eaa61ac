//! Compilers for what the installed toolchain can't build alone.
//!
//! Two checks need the sources of the standard library: ThreadSanitizer, whose findings are only sound when the
//! library is instrumented too, and the bare-metal build where rustup's target is not installed. A third one needs the
//! library for another processor. Debian has all of that as packages. They are unpacked below the build folder, with a
//! private package list; neither rustup's state nor the system's packages change.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::debian::{self, Archive};
use crate::install::{Found, last_line};
use crate::run::{Log, Run};
use crate::step::Failure;
use crate::workspace::Workspace;

/// The processor of BlueField's cores, under Linux.
pub(crate) const CROSS: &str = "aarch64-unknown-linux-gnu";

/// A copy of the nightly toolchain that has the library's sources: its folder.
///
/// The package with the sources must be of the nightly's own minor version, else the compiler can't build them.
pub(crate) fn nightly_with_sources(workspace: &Workspace, log: &Log) -> Result<Found<PathBuf>, Failure> {
    let Some(sysroot) = Run::new("rustc").words("+nightly --print sysroot").output() else {
        return Ok(Err("there is no nightly toolchain".to_owned()));
    };
    let Some(version) = Run::new("rustc").words("+nightly --version").output() else {
        return Ok(Err("the nightly toolchain does not tell its version".to_owned()));
    };
    let sysroot = PathBuf::from(sysroot.trim());
    if sysroot.join("lib/rustlib/src/rust/library/std/Cargo.toml").is_file() {
        return Ok(Ok(sysroot));
    }
    // "rustc 1.97.0-nightly (hash date)" -> "1.97."
    let minor = version.split(' ').nth(1).map(|full| full.split('.').take(2).collect::<Vec<_>>().join(".") + ".");
    let Some(minor) = minor else { return Ok(Err(format!("no version in {version:?}"))) };

    let folder = workspace.folder("tools/nightly")?;
    let copy = folder.join("toolchain");
    let sources = copy.join("lib/rustlib/src/rust");
    if sources.join("library/std/Cargo.toml").is_file() {
        return Ok(Ok(copy));
    }
    let archive = match Archive::open(&folder, "sid main", None, &["amd64"], log)? {
        Ok(archive) => archive,
        Err(reason) => return Ok(Err(reason)),
    };
    let offered = archive.version("rust-src");
    if !offered.as_ref().is_some_and(|version| version.starts_with(&minor)) {
        let offered = offered.unwrap_or_else(|| "nothing".to_owned());
        return Ok(Err(format!(
            "library sources {minor}x for the nightly toolchain are not to be had (rust-src {offered})"
        )));
    }
    if let Err(failure) = archive.unpack(&["rust-src"], log) {
        return Ok(Err(last_line(&failure)));
    }
    let Some(unpacked) = first_entry(&folder.join("usr/src"), "rustc-") else {
        return Ok(Err("package rust-src holds no usr/src/rustc-*".to_owned()));
    };
    if copy.exists() {
        fs::remove_dir_all(&copy)?;
    }
    // Hard links cost no disk; where the toolchain lies on another file system, a plain copy does.
    let linked = Run::new("cp").arg("-al").arg(&sysroot).arg(&copy).succeed(log);
    if linked.is_err() {
        let _ = fs::remove_dir_all(&copy);
        Run::new("cp").arg("-a").arg(&sysroot).arg(&copy).succeed(log)?;
    }
    fs::create_dir_all(copy.join("lib/rustlib/src"))?;
    symlink(unpacked, &sources)?;
    Ok(Ok(copy))
}

/// A compiler with library sources of its very version, and with the library for [`CROSS`]: the path of a program that
/// acts as `rustc`.
///
/// It is Debian's own compiler; the name of the package differs between releases.
pub(crate) fn debian_compiler(workspace: &Workspace, log: &Log) -> Result<Found<PathBuf>, Failure> {
    // Steps that run beside each other need it.
    static UNPACKING: Mutex<()> = Mutex::new(());
    let _turn = UNPACKING.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = workspace.folder("tools/debian")?;
    let program = folder.join("rustc");
    let libraries = folder.join("usr/lib/rustlib").join(CROSS).join("lib");
    let cross = || first_entry(&libraries, "libstd-").is_some();
    if program.is_file() && cross() && Run::new(&program).arg("--version").output().is_some() {
        return Ok(Ok(program));
    }
    let archive = match debian::of_this_release(&folder, &["amd64", "arm64"], log)? {
        Ok(archive) => archive,
        Err(reason) => return Ok(Err(reason)),
    };
    let flavour = if archive.version("rustc-web").is_some() { "-web" } else { "" };
    let source = if flavour.is_empty() { "rust-src".to_owned() } else { format!("rust{flavour}-src") };
    let development = format!("libstd-rust{flavour}-dev");
    let library = archive.dependency(&development, &format!("libstd-rust{flavour}-1."));
    let Some(library) = library.or_else(|| archive.dependency(&development, &format!("libstd-rust{flavour}-"))) else {
        return Ok(Err(format!("package {development} names no library")));
    };
    let Some(backend) = archive.dependency(&library, "libllvm") else {
        return Ok(Err(format!("package {library} names no libllvm")));
    };
    let (compiler, foreign) = (format!("rustc{flavour}"), format!("{development}:arm64"));
    if let Err(failure) = archive.unpack(&[&compiler, &library, &backend, &development, &foreign, &source], log) {
        return Ok(Err(last_line(&failure)));
    }
    let root = folder.display();
    let wrapper = format!(
        "#!/bin/sh\nLD_LIBRARY_PATH={root}/usr/lib/x86_64-linux-gnu exec {root}/usr/bin/rustc --sysroot {root}/usr \"$@\"\n"
    );
    fs::write(&program, wrapper)?;
    Run::new("chmod").arg("+x").arg(&program).succeed(log)?;
    match Run::new(&program).arg("--version").output() {
        Some(_) => Ok(Ok(program)),
        None => Ok(Err("Debian's compiler does not start here".to_owned())),
    }
}

/// The triple that the default toolchain builds for.
pub(crate) fn host() -> Option<String> {
    let version = Run::new("rustc").arg("-vV").output()?;
    version.lines().find_map(|line| line.strip_prefix("host: ")).map(str::to_owned)
}

/// Whether a target of the default toolchain is installed.
pub(crate) fn target_installed(target: &str) -> bool {
    let libraries = Run::new("rustc").words("--print target-libdir --target").arg(target).output();
    libraries.is_some_and(|folder| first_entry(Path::new(folder.trim()), "libcore-").is_some())
}

/// The first entry of a folder whose name begins so.
fn first_entry(folder: &Path, beginning: &str) -> Option<PathBuf> {
    let mut entries: Vec<PathBuf> = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path()).collect();
    entries.sort();
    entries.into_iter().find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(beginning)))
}
