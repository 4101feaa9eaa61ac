//! Unsafe code stays in the files that the policy names.
//!
//! Every crate root forbids unsafe code, or denies it where single modules may allow it; and the word occurs in
//! no other file, so that a stray `allow` does not pass either.

use std::path::Path;

use crate::source::{code_only, words};
use crate::step::{Bench, Failure, Verdict};
use crate::steps::policy;
use crate::workspace::Workspace;

/// Looks at every source file of the workspace.
pub(super) fn check(bench: &Bench<'_>) -> Result<Verdict, Failure> {
    let allowed: Vec<String> =
        policy::sections(bench.workspace, "unsafe")?.into_iter().flat_map(|section| section.lines).collect();
    let may = |path: &Path| allowed.iter().any(|allowed| path.starts_with(allowed));
    let mut unused: Vec<&String> = allowed.iter().collect();
    let mut findings = Vec::new();
    let mut files = 0;
    for (_, folder) in Workspace::PACKAGES {
        for path in bench.workspace.files(folder, ".rs") {
            let text = bench.workspace.read(&path)?;
            let code = code_only(&text);
            files += 1;
            if let Some((line, _)) = words(&code).into_iter().find(|&(_, word)| word == "unsafe") {
                unused.retain(|allowed| !path.starts_with(allowed));
                if !may(&path) {
                    findings.push(format!("{}:{line}: unsafe code outside the files of policy.txt", path.display()));
                }
            }
            if is_root(&path)
                && !["forbid", "deny"].iter().any(|level| code.contains(&format!("#![{level}(unsafe_code)]")))
            {
                findings.push(format!("{}: a crate root without #![forbid(unsafe_code)]", path.display()));
            }
        }
    }
    findings.extend(unused.iter().map(|path| format!("policy.txt: {path} holds no unsafe code")));
    findings.sort();
    findings.dedup();
    Failure::unless_empty(&findings, format!("{files} files"))
}

/// Whether a file is the root of a library or a program; tests and benches inherit nothing, but hold no unsafe
/// code by the other rule.
fn is_root(path: &Path) -> bool {
    path.ends_with("src/lib.rs")
        || path.ends_with("src/main.rs")
        || path.parent().is_some_and(|folder| folder.ends_with("src/bin"))
}
