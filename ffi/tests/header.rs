//! Header, version script, sources and library have the same functions and codes.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop at the first surprise")]

mod symbols;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use umbra_core::chain::{Code, Stage};
use umbra_core::error::Status;

use symbols::names;

fn here(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn header() -> String {
    fs::read_to_string(here("include/umbra.h")).unwrap()
}

/// Functions that the sources export.
fn exported() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(here("src")).unwrap().map(Result::unwrap) {
        let source = fs::read_to_string(entry.path()).unwrap();
        found.extend(symbols::exported(&source));
        for block in ["\nnumbers! {", "\nlists! {"] {
            if let Some((_, rest)) = source.split_once(block) {
                found.extend(names(&rest[..rest.find("\n}\n").unwrap()], '('));
            }
        }
    }
    found
}

#[test]
fn header_sources_and_version_script_name_the_same_functions() {
    let exported = exported();
    assert!(exported.len() > 25, "{exported:?}");
    assert_eq!(names(&header(), '('), exported, "header against sources");
    let map = fs::read_to_string(here("umbra.map")).unwrap();
    assert_eq!(names(&map, ';'), exported, "version script against sources");
}

#[test]
fn the_library_exports_the_functions_of_the_header_and_nothing_else() {
    let Some(symbols) = symbols::of_library("libumbra_ffi.so") else { return };
    assert_eq!(symbols, names(&header(), '('));
}

/// Every `#define UMBRA_E... number` of the header.
fn codes() -> BTreeMap<i32, String> {
    let header = header();
    let defines = header.lines().filter_map(|line| line.strip_prefix("#define UMBRA_E"));
    defines
        .map(|define| {
            let mut words = define.split_whitespace();
            let name = words.next().unwrap();
            (words.next().unwrap().parse().unwrap(), format!("UMBRA_E{name}"))
        })
        .collect()
}

#[test]
fn every_code_has_a_name_in_the_header_and_every_name_a_text() {
    let codes = codes();
    for status in Status::ALL.iter().filter(|status| **status != Status::Ok) {
        assert!(codes.contains_key(&(*status as i32)), "the header has no name for {status:?}");
    }
    for (number, name) in codes {
        let mut text = [0_u8; 256];
        // SAFETY: the buffer has the length that is told; the last argument may be null.
        #[allow(unsafe_code)]
        let told =
            unsafe { umbra_ffi::error::umbra_error_text(-number, text.as_mut_ptr().cast(), 256, std::ptr::null_mut()) };
        assert_eq!(told, 0, "{name} has no text");
        assert_ne!(text[0], 0, "{name} has an empty text");
    }
}

/// Every `#define PREFIX... number` of the header, with its name behind the prefix.
fn numbers(prefix: &str) -> BTreeMap<u8, String> {
    let header = header();
    let defines = header.lines().filter_map(|line| line.strip_prefix("#define ")?.strip_prefix(prefix));
    defines
        .map(|define| {
            let mut words = define.split_whitespace();
            let name = words.next().unwrap().to_owned();
            (words.next().unwrap().parse().unwrap(), name)
        })
        .collect()
}

/// `PeerDead` as C writes it: `PEER_DEAD`.
fn in_capitals(name: impl std::fmt::Debug) -> String {
    let name = format!("{name:?}");
    let words =
        name.char_indices().map(|(at, c)| if at > 0 && c.is_uppercase() { format!("_{c}") } else { c.to_string() });
    words.collect::<String>().to_uppercase()
}

#[test]
fn a_failure_of_a_call_has_the_stages_and_the_codes_of_the_header() {
    let all = || 0..=u8::MAX;
    let stages = all().filter_map(|number| Some((number, in_capitals(Stage::from_code(number)?)))).collect();
    assert_eq!(numbers("UMBRA_GPC_STAGE_"), stages);
    let codes = all().filter_map(|number| Some((number, in_capitals(Code::from_code(number)?)))).collect();
    assert_eq!(numbers("UMBRA_GPC_CODE_"), codes);
}

#[test]
fn the_version_of_the_header_is_that_of_the_library() {
    let header = header();
    for (name, part) in [
        ("MAJOR", env!("CARGO_PKG_VERSION_MAJOR")),
        ("MINOR", env!("CARGO_PKG_VERSION_MINOR")),
        ("PATCH", env!("CARGO_PKG_VERSION_PATCH")),
    ] {
        assert!(header.contains(&format!("#define UMBRA_VERSION_{name} {part}\n")), "{name}");
    }
}
