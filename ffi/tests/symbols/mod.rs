//! Names of functions, in sources and headers and in a library that was built.

use std::collections::BTreeSet;
use std::env;
use std::process::Command;

/// Names in `text` that begin with `umbra_` and are followed by `next`.
pub(crate) fn names(text: &str, next: char) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, _) in text.match_indices("umbra_") {
        let rest = &text[at..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let starts = !text[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        if starts && rest[end..].starts_with(next) {
            found.insert(rest[..end].to_owned());
        }
    }
    found
}

/// Functions of C that a source exports.
pub(crate) fn exported(source: &str) -> BTreeSet<String> {
    let parts = source.split("extern \"C\" fn ").skip(1);
    parts.flat_map(|part| names(&part[..=part.find('(').unwrap()], '(')).collect()
}

/// What the library of this name exports. `None` where there is no `nm`, which is told.
pub(crate) fn of_library(name: &str) -> Option<BTreeSet<String>> {
    // Whatever profile this test is built in, cargo has laid the library beside it.
    let library = env::current_exe().unwrap().with_file_name(name);
    assert!(library.is_file(), "{} is not there", library.display());
    let output = match Command::new("nm").args(["-D", "--defined-only"]).arg(&library).output() {
        Ok(output) => output,
        Err(error) => {
            println!("skipped: no nm: {error}");
            return None;
        }
    };
    assert!(output.status.success(), "nm: {}", String::from_utf8_lossy(&output.stderr));
    let output = String::from_utf8(output.stdout).unwrap();
    Some(output.lines().filter_map(|line| line.split(' ').nth(2)).map(str::to_owned).collect())
}
