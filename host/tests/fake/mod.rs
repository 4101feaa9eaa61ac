//! A library that is compiled here and stands in for libibverbs.
//!
//! Each test over it runs in a process of its own, which finds it first.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use umbra::verbs::LINKED;

/// Set in the processes that tests start of themselves.
const CHILD: &str = "UMBRA_TEST_CHILD";
const HEADER: &str = "/usr/include/infiniband/verbs.h";
/// Where the dynamic linker looks first.
const FOLDER: &str = "LD_LIBRARY_PATH";

pub(crate) fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Compiles the library into a folder; why it cannot be, if something is missing.
fn compile(folder: &Path) -> Result<(), &'static str> {
    if LINKED {
        return Err("libibverbs is linked and not replaced");
    }
    if !Path::new(HEADER).exists() {
        return Err("no header of libibverbs");
    }
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../host/tests/verbs_fake.c");
    let library = folder.join("libibverbs.so.1");
    let compiled = Command::new("cc").args(["-shared", "-fPIC", "-Wall", "-o"]).arg(library).arg(source).status();
    compiled.map(|status| assert!(status.success())).map_err(|_| "no C compiler")
}

/// Runs a test over the library, which is told `name=value`; what it prints. Nothing if it cannot be.
pub(crate) fn over_fake(test: &str, name: &str, value: &str) -> Option<String> {
    let folder = std::env::temp_dir().join(format!("umbra-verbs-{}-{test}-{value}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let child = compile(&folder).map(|()| {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args([test, "--exact", "--nocapture"]).stdin(Stdio::null());
        child.env(FOLDER, &folder).env(CHILD, "1").env(name, value).output().unwrap()
    });
    std::fs::remove_dir_all(&folder).unwrap();
    match child {
        Ok(output) => {
            let said = String::from_utf8(output.stderr).unwrap();
            assert!(output.status.success(), "{value}: {said}{}", String::from_utf8_lossy(&output.stdout));
            Some(said)
        }
        Err(missing) => {
            println!("{test}: skipped: {missing}");
            None
        }
    }
}

/// A file that does something to the device `fake0` as long as it is there: `away` takes it away, `full` leaves it without
/// room for queue pairs, and with `slow` it tells of no end; `begun` is there once it was given work that is slow.
#[allow(dead_code, reason = "not every test does something to the device")]
pub(crate) fn file(name: &str) -> PathBuf {
    Path::new(&std::env::var_os(FOLDER).unwrap()).join(name)
}
