//! The launcher killed (signal 9): its processes end at once.
//!
//! Their memory ends with them, and the next run removes the launcher's files.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use umbra_tests::rig::{self, Scratch};

/// How long processes may outlive their launcher, however long their deadlines are.
const MOMENT: Duration = Duration::from_secs(10);

/// A job whose directory lies in `temporary`; those of other tests would remove what it leaves.
fn run(temporary: &Scratch, arguments: &[&str]) -> Command {
    let (umbra, agent) = rig::programs();
    let mut command = Command::new(umbra);
    command.arg("run").args(arguments).arg("--input");
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")).arg("--agent").arg(agent);
    command.env("TMPDIR", temporary.path()).stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// A launcher that does not outlive its test.
struct Launcher(Child);

impl Launcher {
    /// Starts a job that reads for long, and waits until it does.
    fn reading(temporary: &Scratch) -> Launcher {
        let mut run = run(temporary, &["--reads", "1000000", "--size", "8"]);
        let mut launcher = Launcher(run.stderr(Stdio::piped()).spawn().unwrap());
        let mut lines = BufReader::new(launcher.0.stderr.take().unwrap()).lines();
        assert!(lines.any(|line| line.is_ok_and(|l| l.contains("random"))), "the job never came to its random reads");
        launcher
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Kills a launcher and sees its processes end, and every segment that they had mapped.
fn kill(launcher: Launcher, children: &[u32]) {
    let segments: BTreeSet<String> = children.iter().flat_map(|&pid| mapped(pid)).collect();
    assert!(!segments.is_empty(), "nothing was shared");
    let killed = Instant::now();
    drop(launcher);
    rig::all_gone(children);
    assert!(killed.elapsed() < MOMENT, "they took {:?}", killed.elapsed());
    let processes = fs::read_dir("/proc").unwrap().filter_map(|e| e.unwrap().file_name().to_str()?.parse().ok());
    for pid in processes {
        let left: Vec<String> = mapped(pid).into_iter().filter(|segment| segments.contains(segment)).collect();
        assert!(left.is_empty(), "process {pid} still maps {left:?}");
    }
}

/// Inodes of our segments in a process; no two segments that exist have the same.
fn mapped(pid: u32) -> Vec<String> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let ours = maps.lines().filter(|line| line.contains("/memfd:umbra-"));
    ours.filter_map(|line| line.split_whitespace().nth(4).map(str::to_owned)).collect()
}

#[test]
fn a_killed_launcher_leaves_files_at_most_and_these_until_the_next_run() {
    let temporary = Scratch::new("killed");
    let launcher = Launcher::reading(&temporary);
    let pid = launcher.0.id();
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    let children: Vec<u32> = children.split_whitespace().map(|p| p.parse().unwrap()).collect();
    assert_eq!(children.len(), 12);
    kill(launcher, &children);
    let left = temporary.left();
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(fs::metadata(&left[0]).unwrap().mode() & 0o777, 0o700, "it holds a secret");
    let next = run(&temporary, &["--quiet"]).stderr(Stdio::piped()).output().unwrap();
    assert!(next.status.success(), "{}", String::from_utf8_lossy(&next.stderr));
    assert_eq!(temporary.left(), Vec::<PathBuf>::new());
}

#[test]
fn a_run_leaves_the_directory_of_another_that_still_runs_alone() {
    let temporary = Scratch::new("beside");
    let _first = Launcher::reading(&temporary);
    let second = run(&temporary, &["--quiet"]).stderr(Stdio::piped()).output().unwrap();
    assert!(second.status.success(), "{}", String::from_utf8_lossy(&second.stderr));
    let left = temporary.left();
    assert!(left.len() == 1 && left[0].join("secret").is_file(), "{left:?}");
}

#[test]
fn a_rank_that_waits_and_an_agent_that_is_stopped_end_with_their_launcher() {
    let temporary = Scratch::new("stuck");
    let launcher = Command::new(env!("CARGO_BIN_EXE_stuck-launcher"))
        .env("TMPDIR", temporary.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn();
    let mut launcher = Launcher(launcher.unwrap());
    let mut line = String::new();
    BufReader::new(launcher.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let children: Vec<u32> = line.split_whitespace().map(|pid| pid.parse().unwrap()).collect();
    assert_eq!(children.len(), 2, "{line:?}");
    kill(launcher, &children);
}
