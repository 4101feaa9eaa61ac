//! Peers that are programs of their own, which print a JSON object a line.

use std::path::Path;
use std::process::Command;

use super::Report;

/// The number behind a key in a line of JSON.
///
/// ```
/// let line = r#"{"bench":"alloc_free","ns":1852.5,"procs":2}"#;
/// assert_eq!(umbra_tests::bench::number(line, "ns"), Some(1852.5));
/// assert_eq!(umbra_tests::bench::number(line, "none"), None);
/// ```
#[must_use]
pub fn number(line: &str, key: &str) -> Option<f64> {
    let (_, rest) = line.split_once(&format!("\"{key}\":"))?;
    rest.split([',', '}']).next()?.trim().parse().ok()
}

/// Runs a program of a folder: the lines that it prints. That it fails is noted, and it has no lines then.
pub fn lines_of(report: &Report, folder: &Path, program: &str, arguments: &[&str]) -> Vec<String> {
    match Command::new(folder.join(program)).args(arguments).output() {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
        }
        Ok(output) => {
            report.note(format_args!("{program} {arguments:?} ended with {}", output.status));
            Vec::new()
        }
        Err(error) => {
            report.note(format_args!("{program} in {}: {error}", folder.display()));
            Vec::new()
        }
    }
}
