//! The files of a guest with another processor than ours, unpacked from packages.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::Kind;
use crate::debian;
use crate::install::{Found, last_line};
use crate::run::Log;
use crate::step::Failure;

/// A shell with the usual programs, networks and RDMA, and what compiled programs need; their dependencies come along.
const PACKAGES: &[&str] = &["busybox-static", "iproute2", "ibverbs-providers", "libgcc-s1"];

/// The root that was unpacked before, or else a new one.
pub(super) fn find(folder: &Path, kind: Kind, log: &Log) -> Result<Found<PathBuf>, Failure> {
    let root = folder.join("root");
    if root.join("bin/busybox").is_file() {
        return Ok(Ok(root));
    }
    let made = debian::make(&root, kind.architecture(), log, |archive, folder| {
        let Some(packages) = archive.with_dependencies(PACKAGES) else {
            return Ok(Err(format!("no packages for {} are known", kind.architecture())));
        };
        let packages: Vec<&str> = packages.iter().map(String::as_str).collect();
        if let Err(failure) = archive.unpack(&packages, log) {
            return Ok(Err(format!("packages for {} can't be fetched: {}", kind.architecture(), last_line(&failure))));
        }
        complete(folder)?;
        Ok(Ok(()))
    })?;
    Ok(made.map(|()| root))
}

/// Adds what an installation would have made.
fn complete(root: &Path) -> Result<(), Failure> {
    for name in ["bin", "sbin", "lib"] {
        let place = root.join(name);
        if !place.exists() {
            symlink(format!("usr/{name}"), place)?;
        }
    }
    for name in ["proc", "sys", "dev", "run", "tmp"] {
        fs::create_dir_all(root.join(name))?;
    }
    if !root.join("bin/sh").exists() {
        symlink("busybox", root.join("bin/sh"))?;
    }
    Ok(())
}
