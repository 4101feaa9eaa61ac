//! Runs benches in the release profile.

use std::process::{Command, Stdio};

use crate::step::Failure;
use crate::workspace::Workspace;

/// Runs one bench, or all of them; its rows go to standard output as they are, everything else to standard error.
pub(crate) fn run(workspace: &Workspace, name: &Option<String>, options: &[String]) -> Result<bool, Failure> {
    let known = names(&workspace.read("tests/Cargo.toml")?);
    let wanted = match name {
        Some(name) if known.contains(name) => vec![name.clone()],
        Some(name) => return Err(Failure::new(format!("no bench is called {name}; there are {}", known.join(", ")))),
        None => known,
    };
    let mut good = true;
    for bench in wanted {
        // Optimizing the whole program at once takes minutes, in which nothing else is said.
        eprintln!("bench {bench}: building it first");
        let status = Command::new("cargo")
            .args(["bench", "--quiet", "--package", "umbra-tests", "--bench", &bench, "--"])
            .args(options)
            .stdin(Stdio::null())
            .status()?;
        good &= status.success();
    }
    Ok(good)
}

/// Names of the benches that a manifest lists.
fn names(manifest: &str) -> Vec<String> {
    let sections = manifest.split("[[bench]]").skip(1);
    let name = |section: &str| {
        let line =
            section.lines().take_while(|line| !line.starts_with('[')).find_map(|line| line.strip_prefix("name"))?;
        Some(line.trim_start().strip_prefix('=')?.trim().trim_matches('"').to_owned())
    };
    sections.filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn benches_are_those_that_the_manifest_lists() {
        let manifest = "[lib]\nbench = false\n[[bench]]\nname = \"a\"\nharness = false\n[[bench]]\npath = \"b/main.rs\"\nname = \"b\"\n[lints]\nname = 1\n";
        assert_eq!(names(manifest), ["a", "b"]);
        assert_eq!(names("[lib]\n"), Vec::<String>::new());
    }
}
