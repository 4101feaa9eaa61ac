//! What a reader meets in every file.
//!
//! A source file opens with a line that says what it is and stays below a length that can be read in one go.
//! No file holds notes to oneself, or the paths of the machine it was written on.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::source::code_only;
use crate::step::{Bench, Failure, Verdict};
use crate::steps::policy;
use crate::workspace::Workspace;

/// Lines of code and comment of a source file at most, without its tests.
const MOST_LINES: usize = 400;

/// Words of notes to oneself, written so that this file does not hold them.
const NOTES: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X:")];

/// Looks at every source file of the packages.
pub(super) fn check(bench: &Bench<'_>) -> Result<Verdict, Failure> {
    let long = policy::sections(bench.workspace, "long")?;
    let long: BTreeMap<PathBuf, usize> = long
        .iter()
        .flat_map(|section| section.entries())
        .filter_map(|(path, words)| Some((PathBuf::from(path), words.first()?.parse().ok()?)))
        .collect();
    let mut findings = Vec::new();
    let mut files = 0;
    for (_, folder) in Workspace::PACKAGES.iter().filter(|(_, folder)| *folder != "tests/xtask") {
        for path in bench.workspace.files(folder, ".rs") {
            let text = bench.workspace.read(&path)?;
            let shown = path.display();
            files += 1;
            let in_source = path.components().any(|part| part.as_os_str() == "src");
            let lines = length_without_tests(&text);
            let most = long.get(&path).copied().unwrap_or(MOST_LINES);
            if in_source && lines > most {
                findings.push(format!("{shown}: {lines} lines without tests, {most} at most"));
            }
            if lines <= MOST_LINES && long.contains_key(&path) {
                findings.push(format!("policy.txt: {shown} is no longer long"));
            }
            let generated = text.starts_with("// @generated");
            if !generated && !text.starts_with("//! ") {
                findings.push(format!("{shown}:1: begins without a `//!` line that says what the file is"));
            }
            for (index, line) in text.lines().enumerate() {
                if let Some(note) = NOTES.iter().find(|note| line.contains(**note)) {
                    findings.push(format!("{shown}:{}: {note}", index + 1));
                }
            }
            for macro_name in ["dbg!", "todo!", "unimplemented!"] {
                if code_only(&text).contains(macro_name) {
                    findings.push(format!("{shown}: {macro_name}"));
                }
            }
        }
    }
    findings.sort();
    findings.dedup();
    Failure::unless_empty(&findings, format!("{files} files"))
}

/// Lines before an inline test module, which by habit closes a file.
fn length_without_tests(text: &str) -> usize {
    let lines: Vec<&str> = text.lines().collect();
    let tests = lines.windows(2).position(|pair| pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod tests"));
    tests.unwrap_or(lines.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_do_not_count() {
        assert_eq!(length_without_tests("a\nb\n#[cfg(test)]\nmod tests {\n}\n"), 2);
        assert_eq!(length_without_tests("a\n#[cfg(test)]\nuse x;\n"), 3);
    }
}
