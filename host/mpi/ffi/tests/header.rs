//! Header, sources and library have the same functions.
//!
//! The library has those of `umbra.h` as well.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop at the first surprise")]

#[path = "../../../../ffi/tests/symbols/mod.rs"]
mod symbols;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use symbols::{exported, names, of_library};

fn read(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

fn header() -> BTreeSet<String> {
    names(&read("include/umbra_mpi.h"), '(')
}

#[test]
fn header_and_sources_name_the_same_functions() {
    let exported = exported(&["src/fabric.rs", "src/job.rs"].map(read).concat());
    assert!(exported.len() > 4, "{exported:?}");
    assert_eq!(header(), exported);
}

#[test]
fn the_library_exports_the_functions_of_both_headers_and_nothing_else() {
    let Some(symbols) = of_library("libumbra_mpi_ffi.so") else { return };
    let mut both = names(&read("../../../ffi/include/umbra.h"), '(');
    both.extend(header());
    assert_eq!(symbols, both);
}
