//! Header, version script, sources and library have the same functions and codes.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop at the first surprise")]

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use umbra_core::chain::{Code, Stage};
use umbra_core::error::Status;

fn here(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn header() -> String {
    fs::read_to_string(here("include/umbra.h")).unwrap()
}

/// Names in `text` that begin with `umbra_` and are followed by `next`.
fn names(text: &str, next: char) -> BTreeSet<String> {
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

/// Functions that the sources export.
fn exported() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(here("src")).unwrap().map(Result::unwrap) {
        let source = fs::read_to_string(entry.path()).unwrap();
        for part in source.split("extern \"C\" fn ").skip(1) {
            found.extend(names(&part[..part.find('(').unwrap() + 1], '('));
        }
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
    // Whatever profile this test is built in, cargo has laid the library beside it.
    let library = env::current_exe().unwrap().with_file_name("libumbra_ffi.so");
    assert!(library.is_file(), "{} is not there", library.display());
    let output = match Command::new("nm").args(["-D", "--defined-only"]).arg(&library).output() {
        Ok(output) => output,
        Err(error) => return println!("skipped: no nm: {error}"),
    };
    assert!(output.status.success(), "nm: {}", String::from_utf8_lossy(&output.stderr));
    let output = String::from_utf8(output.stdout).unwrap();
    let symbols: BTreeSet<String> =
        output.lines().filter_map(|line| line.split(' ').nth(2)).map(str::to_owned).collect();
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
