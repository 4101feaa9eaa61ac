//! What the project stands on: reasons, licences, sources.

use std::path::Path;

use crate::install::{self, CARGO_DENY};
use crate::run::Run;
use crate::step::{Bench, Failure, Verdict};
use crate::workspace::Workspace;

/// The package over MPI, which stands outside the workspace with dependencies of its own, and the one for programs in C beside it.
const APART: &str = "host/mpi";
const APART_IN_C: &str = "host/mpi/ffi";

/// Every dependency has a comment line above it; that it stands on the page about dependencies is a test's business.
pub(super) fn dependencies(bench: &Bench<'_>) -> Result<Verdict, Failure> {
    let mut findings = Vec::new();
    let mut count = 0;
    for folder in Workspace::PACKAGES.map(|(_, folder)| folder).into_iter().chain([APART, APART_IN_C]) {
        let path = Path::new(folder).join("Cargo.toml");
        for (line, name, explained) in listed(&bench.workspace.read(&path)?) {
            count += 1;
            if !explained {
                findings.push(format!("{}:{line}: {name} has no comment line that says why", path.display()));
            }
        }
    }
    Failure::unless_empty(&findings, format!("{count} dependencies"))
}

/// Licences, sources and bans by cargo-deny; advisories are left out, since their list is no package.
pub(super) fn deny(bench: &Bench<'_>) -> Result<Verdict, Failure> {
    let tool = match install::cargo_tool(bench.workspace, CARGO_DENY, bench.log)? {
        Ok(tool) => tool,
        Err(reason) => return Ok(Verdict::Skipped(reason)),
    };
    Run::new(&tool).words("--workspace --all-features check licenses bans sources").succeed(bench.log)?;
    let (manifest, rules) = (Path::new(APART).join("Cargo.toml"), bench.workspace.root.join("deny.toml"));
    let apart = Run::new(tool).arg("--manifest-path").arg(manifest).words("--workspace --all-features --config");
    apart.arg(rules).words("check licenses bans sources").succeed(bench.log)?;
    Ok(Verdict::Passed(String::new()))
}

/// Line, name, and whether a comment stands directly above, for every dependency of a manifest.
fn listed(manifest: &str) -> Vec<(usize, String, bool)> {
    let mut found = Vec::new();
    let (mut inside, mut explained) = (false, false);
    for (index, line) in manifest.lines().enumerate() {
        let line = line.trim();
        if line.starts_with('[') {
            inside = line.trim_matches(['[', ']']).ends_with("dependencies");
        } else if inside && !line.starts_with('#') {
            let name: String =
                line.chars().take_while(|&character| character.is_alphanumeric() || "-_".contains(character)).collect();
            if !name.is_empty() {
                found.push((index + 1, name, explained));
            }
        }
        explained = line.starts_with('#');
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dependency_without_a_comment_above_is_found() {
        let manifest = "[package]\nname = \"x\"\n[dependencies]\n# Why.\na = \"1\"\nb.workspace = true\n\
                        [target.'cfg(loom)'.dependencies]\n# Why.\nc-d = { version = \"1\" }\n[features]\ne = []\n";
        let names: Vec<_> = listed(manifest).into_iter().map(|(_, name, explained)| (name, explained)).collect();
        assert_eq!(names, [("a".to_owned(), true), ("b".to_owned(), false), ("c-d".to_owned(), true)]);
    }
}
