//! What `umbra stencil` is given, and what it makes of it.
#![cfg(feature = "command")]
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// A directory of its own for a test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("umbra-stencil-{name}-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Scratch(path)
    }

    /// The command in this directory; it is ended if it hangs.
    fn stencil(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new("timeout");
        command.args(["--signal=KILL", "120", env!("CARGO_BIN_EXE_umbra"), "stencil", "--quiet"]).args(arguments);
        command.current_dir(&self.0).stdin(Stdio::null()).output().unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_named_pipe_is_refused_as_a_field_before_anybody_writes_to_it() {
    let scratch = Scratch::new("pipe");
    assert!(Command::new("mkfifo").arg(scratch.0.join("a.npy")).status().unwrap().success());
    let output = scratch.stencil(&["--input", "a.npy"]);
    assert!(said(&output).contains("a.npy: not a regular file"), "{output:?}");
}

#[test]
fn a_text_without_an_end_is_refused() {
    let scratch = Scratch::new("endless");
    for option in ["--offsets", "--order-file"] {
        let output = scratch.stencil(&["--extents", "64,64", option, "/dev/zero"]);
        assert!(said(&output).contains("/dev/zero: longer than"), "{output:?}");
    }
}

#[test]
fn a_field_that_is_too_large_is_refused_by_no_file_that_was_never_made() {
    let scratch = Scratch::new("huge");
    for (extents, why) in [
        ("4294967295,4294967295", "its extents make more bytes than a file can have: use smaller ones"),
        ("4000000,4000000,1000", "are free there"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_umbra"));
        command.args(["stencil", "--quiet", "--extents", extents]).env("TMPDIR", &scratch.0);
        let output = command.output().unwrap();
        let said = said(&output);
        assert!(!output.status.success() && said.contains(why), "{output:?}");
        assert!(!said.contains("umbra-output-"), "{said}");
    }
    // Who has named a file reads its name, and of room that lacks, where.
    let named = scratch.stencil(&["--extents", "4294967295,4294967295", "--keep-input", "in.npy"]);
    assert!(said(&named).contains("in.npy: its extents"), "{named:?}");
}

#[test]
fn only_processes_that_are_started_count_against_those_that_may_be() {
    let scratch = Scratch::new("ranks");
    // As many ranks as there can be, on one of the two hosts.
    let output = scratch.stencil(&["--extents", "64,64", "--source", "ranks", "--ranks", "1000", "--agent", "none"]);
    assert!(said(&output).starts_with("error: no executable at none: "), "{output:?}");
}

#[test]
fn slots_that_nobody_chose_suffice_for_the_largest_group() {
    let scratch = Scratch::new("largest");
    // The first bricks are computed from themselves, and the last ones also from many that are far behind.
    let mut offsets = String::from("0\n");
    for far in 4096..4496 {
        writeln!(offsets, "-{far}").unwrap();
    }
    fs::write(scratch.0.join("offsets"), offsets).unwrap();
    let output = scratch.stencil(&["--extents", "4700", "--brick", "1", "--offsets", "offsets", "--threads", "2"]);
    assert!(output.status.success(), "{output:?}");
}
