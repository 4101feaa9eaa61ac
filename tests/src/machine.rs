//! A machine whose network tests may change, and tests in processes of their own.

use std::process::{Command, Output};
use std::thread::sleep;
use std::time::{Duration, Instant};

use umbra::verbs::Device;

use crate::rig::{PATIENCE, skip};

/// Set in the process that a test starts of itself.
const CHILD: &str = "UMBRA_TEST_CHILD";

/// The interface that tests may take down: the one that `UMBRA_TEST_LINK` names. Without one that is told.
#[must_use]
pub fn link() -> Option<String> {
    let link = std::env::var("UMBRA_TEST_LINK").ok();
    if link.is_none() {
        skip("UMBRA_TEST_LINK names no interface that may be taken down");
    }
    link
}

/// Runs a line of a program; what it printed.
///
/// # Panics
/// If the program does not succeed.
pub fn system(line: &str) -> String {
    let mut words = line.split_whitespace();
    let program = words.next().expect("a line names a program");
    let output = Command::new(program).args(words).output().expect("the program is there");
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Waits until something holds.
///
/// # Panics
/// If it does not within [`PATIENCE`].
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        sleep(Duration::from_millis(20));
    }
}

/// Brings the link up, and waits until the device on it can be used again.
///
/// # Panics
/// If it does not come back.
pub fn up(link: &str) {
    system(&format!("ip link set {link} up"));
    until("the port is active again", || Device::open(None).is_ok_and(|device| device.active_port(1, None).is_ok()));
}

/// Runs one test of this program in a process of its own.
///
/// # Panics
/// If that cannot be started.
pub fn child(test: &str, prepare: impl FnOnce(&mut Command)) -> Output {
    let mut command = Command::new(std::env::current_exe().expect("this executable has a name"));
    command.args(["--exact", test, "--nocapture"]).env(CHILD, "1");
    prepare(&mut command);
    command.output().expect("it can be started again")
}

/// Whether this is such a process.
#[must_use]
pub fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Checks that the one test in such a process passed.
///
/// # Panics
/// If it did not.
pub fn passed(child: &Output) {
    let printed = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success() && printed.contains("1 passed"), "{printed}");
}
