//! Runs benches in the release profile.

use std::process::{Command, Stdio};

use crate::step::Failure;
use crate::workspace::Workspace;

/// Runs one bench, or all of them; its rows go to standard output as they are, everything else to standard error.
pub(crate) fn run(workspace: &Workspace, name: &Option<String>, options: &[String]) -> Result<bool, Failure> {
    let known: Vec<String> = workspace
        .files("tests/benches", ".rs")
        .iter()
        .filter_map(|path| path.file_stem().map(|stem| stem.to_string_lossy().into_owned()))
        .collect();
    let wanted = match name {
        Some(name) if known.contains(name) => vec![name.clone()],
        Some(name) => return Err(Failure::new(format!("no bench is called {name}; there are {}", known.join(", ")))),
        None => known,
    };
    let mut good = true;
    for bench in wanted {
        let status = Command::new("cargo")
            .args(["bench", "--quiet", "--package", "umbra-tests", "--bench", &bench, "--"])
            .args(options)
            .stdin(Stdio::null())
            .status()?;
        good &= status.success();
    }
    Ok(good)
}
