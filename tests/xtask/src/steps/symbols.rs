//! Core and the agent's engine need nothing but `mem*`.
//!
//! "No operating system, no allocation" is checked on the objects themselves: whatever symbol the packages of the
//! engine leave undefined must be defined by one of them or by Rust's own `core`. An allocator, a libc call, a
//! lock of the standard library would be neither.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use object::read::archive::ArchiveFile;
use object::{File, Object as _, ObjectSymbol as _};

use crate::run::Run;
use crate::step::{Bench, Failure, Verdict};
use crate::toolchain;

/// What the compiler may call by itself, on every target; firmware brings them along.
const MEMORY: [&str; 5] = ["memcpy", "memmove", "memset", "memcmp", "bcmp"];

/// Builds the engine alone and looks at what its objects leave undefined.
pub(super) fn check(bench: &Bench<'_>) -> Result<Verdict, Failure> {
    let target = bench.workspace.target.join("symbols");
    let host = toolchain::host().ok_or_else(|| Failure::new("rustc does not tell its host"))?;
    Run::cargo()
        .words("build --release --no-default-features --package umbra-core --package umbra-dpu --target-dir")
        .arg(&target)
        // Named, so that build scripts and macros with their libraries go to a folder of their own.
        .arg("--target")
        .arg(&host)
        // Unwinding is the hosted form; its symbols would hide others. LTO would leave no objects to look at.
        .env("CARGO_PROFILE_RELEASE_PANIC", "abort")
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .succeed(bench.log)?;
    // What is read is what this build made: the folder is the step's own, but keeps outputs of earlier sources.
    let libraries = newest_libraries(&target.join(host).join("release/deps"))?;
    if !libraries.iter().any(|path| name(path).starts_with("libumbra_dpu-")) {
        return Err(Failure::new("the build left no library of umbra-dpu"));
    }
    let mut defined = core_symbols()?;
    let mut needed = Vec::new();
    for library in &libraries {
        for (symbol, is_defined) in symbols(library)? {
            if is_defined {
                defined.insert(symbol);
            } else {
                needed.push((symbol, library));
            }
        }
    }
    let foreign = |symbol: &str| !defined.contains(symbol) && !MEMORY.contains(&symbol);
    let findings: BTreeSet<String> = needed
        .iter()
        .filter(|(symbol, _)| foreign(symbol))
        .map(|(symbol, library)| format!("{} needs {symbol}", name(library)))
        .collect();
    let findings: Vec<String> = findings.into_iter().collect();
    Failure::unless_empty(&findings, format!("{} libraries, {} references", libraries.len(), needed.len()))
}

/// The newest library of each package in the folder.
fn newest_libraries(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(folder)?.flatten() {
        if name(&entry.path()).ends_with(".rlib") {
            entries.push((entry.metadata()?.modified()?, entry.path()));
        }
    }
    entries.sort_by(|left, right| right.cmp(left));
    let mut seen = BTreeSet::new();
    let package = |path: &Path| name(path).rsplit_once('-').map(|(package, _)| package.to_owned()).unwrap_or_default();
    Ok(entries.into_iter().map(|(_, path)| path).filter(|path| seen.insert(package(path))).collect())
}

/// Everything that the standard library's `core` and the compiler's own helpers define.
fn core_symbols() -> Result<BTreeSet<String>, Failure> {
    let folder = Run::new("rustc")
        .words("--print target-libdir")
        .output()
        .ok_or_else(|| Failure::new("rustc does not tell where its libraries are"))?;
    let mut defined = BTreeSet::new();
    for entry in fs::read_dir(folder.trim())?.flatten() {
        let path = entry.path();
        let wanted = name(&path).starts_with("libcore-") || name(&path).starts_with("libcompiler_builtins-");
        if wanted && name(&path).ends_with(".rlib") {
            defined.extend(symbols(&path)?.into_iter().filter(|(_, defined)| *defined).map(|(symbol, _)| symbol));
        }
    }
    if defined.is_empty() {
        return Err(Failure::new("no symbols of the standard library's core were found"));
    }
    Ok(defined)
}

/// Symbols of a library that other objects can see, and whether it defines them.
fn symbols(library: &Path) -> Result<Vec<(String, bool)>, Failure> {
    let unreadable = |error: object::Error| Failure::new(format!("{}: {error}", library.display()));
    let bytes = fs::read(library)?;
    let archive = ArchiveFile::parse(&*bytes).map_err(unreadable)?;
    let mut found = Vec::new();
    for member in archive.members() {
        let data = member.and_then(|member| member.data(&*bytes)).map_err(unreadable)?;
        // The compiler's metadata is a member as well, and holds no code.
        let Ok(file) = File::parse(data) else { continue };
        for symbol in file.symbols().filter(|symbol| symbol.is_global()) {
            let name = symbol.name().map_err(unreadable)?;
            if !name.is_empty() {
                found.push((name.to_owned(), !symbol.is_undefined()));
            }
        }
    }
    Ok(found)
}

fn name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
