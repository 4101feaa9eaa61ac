//! Header, sources and library have the same functions.
//!
//! The library has those of `umbra.h` as well.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop at the first surprise")]

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

fn read(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

/// Names in `text` that begin with `umbra_` and are followed by an opening parenthesis.
fn functions(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, _) in text.match_indices("umbra_") {
        let rest = &text[at..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let starts = !text[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        if starts && rest[end..].starts_with('(') {
            found.insert(rest[..end].to_owned());
        }
    }
    found
}

fn header() -> BTreeSet<String> {
    functions(&read("include/umbra_mpi.h"))
}

#[test]
fn header_and_sources_name_the_same_functions() {
    let sources = ["src/fabric.rs", "src/job.rs"].map(read).concat();
    let parts = sources.split("extern \"C\" fn ").skip(1);
    let exported: BTreeSet<String> = parts.flat_map(|part| functions(&part[..=part.find('(').unwrap()])).collect();
    assert!(exported.len() > 4, "{exported:?}");
    assert_eq!(header(), exported);
}

#[test]
fn the_library_exports_the_functions_of_both_headers_and_nothing_else() {
    // Whatever profile this test is built in, cargo has laid the library beside it.
    let library = env::current_exe().unwrap().with_file_name("libumbra_mpi_ffi.so");
    assert!(library.is_file(), "{} is not there", library.display());
    let output = match Command::new("nm").args(["-D", "--defined-only"]).arg(&library).output() {
        Ok(output) => output,
        Err(error) => return println!("skipped: no nm: {error}"),
    };
    assert!(output.status.success(), "nm: {}", String::from_utf8_lossy(&output.stderr));
    let output = String::from_utf8(output.stdout).unwrap();
    let symbols: BTreeSet<String> =
        output.lines().filter_map(|line| line.split(' ').nth(2)).map(str::to_owned).collect();
    let mut both = functions(&read("../../../ffi/include/umbra.h"));
    both.extend(header());
    assert_eq!(symbols, both);
}
