//! Where the symbolic links at the end of a path lead.

use std::fs;
use std::iter::successors;
use std::path::{Path, PathBuf};

use super::directory;

/// As many links as the system follows.
const LINKS: usize = 40;

/// The path, and where each link leads, whether anything is there or not.
fn links(path: &Path) -> impl Iterator<Item = PathBuf> {
    let next = |path: &PathBuf| Some(directory(path).join(fs::read_link(path).ok()?));
    successors(Some(path.to_owned()), next).take(1 + LINKS)
}

/// Where the links at the end of a path lead, whether anything is there or not.
#[must_use]
pub fn followed(path: &Path) -> PathBuf {
    links(path).last().unwrap_or_default()
}

/// Whether a path leads through a descriptor of a process, as `/dev/fd/3`: it means what that has open, and no name.
pub(super) fn is_descriptor(path: &Path) -> bool {
    let is_one = |directory: PathBuf| directory.starts_with("/proc") && directory.ends_with("fd");
    links(path).any(|path| directory(&path).canonicalize().is_ok_and(is_one))
}
