//! Nothing stays behind when tests and jobs are over.
//!
//! Processes count whose program was built for tests and jobs; files count in the temporary folder that this run gave
//! to its tests, and in shared memory where their name says that they are ours and they are younger than this run.
//! So what another checkout on this machine is doing is not held against us.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, SystemTime};

use crate::step::{Bench, Failure, Verdict};
use crate::steps::tests::PROFILE;

/// Where the build folder has programs that start others, those in C in the last one. Steps that run beside these have theirs
/// elsewhere.
const PROGRAMS: [&str; 4] = [PROFILE, "release", "rdma-sys", "tmp"];

/// How long a process that was told to end may take until it counts.
const GRACE: Duration = Duration::from_secs(3);

/// Looks for processes of this build, and for our files in the temporary folders.
pub(super) fn check(bench: &Bench<'_>) -> Result<Verdict, Failure> {
    let mut findings = find(bench);
    if !findings.is_empty() {
        thread::sleep(GRACE);
        findings = find(bench);
    }
    Failure::unless_empty(&findings, "")
}

fn find(bench: &Bench<'_>) -> Vec<String> {
    let folders = PROGRAMS.iter().map(|name| bench.workspace.target.join(name));
    let mut findings: Vec<String> = folders.flat_map(|folder| processes(&folder)).collect();
    findings.extend(files(&bench.workspace.scratch, "", SystemTime::UNIX_EPOCH));
    let began = fs::metadata("/proc/self").and_then(|own| own.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    findings.extend(files(Path::new("/dev/shm"), "umbra", began));
    findings
}

/// Processes whose program lies below a folder, or is this one; not this process.
pub(super) fn processes(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let Ok(program) = fs::read_link(entry.path().join("exe")) else { continue };
        let is_tool = program.file_name().is_some_and(|name| name.to_string_lossy().starts_with("xtask"));
        if id != std::process::id() && !is_tool && program.starts_with(folder) {
            found.push(format!("process {id} still runs {}", program.display()));
        }
    }
    found
}

/// Entries whose name begins so and that were made since the given time.
fn files(folder: &Path, beginning: &str, since: SystemTime) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let ours = entry.file_name().to_string_lossy().starts_with(beginning);
        let young = entry.metadata().and_then(|data| data.modified()).is_ok_and(|made| made >= since);
        if ours && young {
            found.push(format!("{} was left", entry.path().display()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_ours_and_young_is_found() {
        let folder = std::env::temp_dir().join(format!("xtask-leftovers-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("umbra-job"), "").unwrap();
        fs::write(folder.join("other"), "").unwrap();
        let (then, later) = (SystemTime::UNIX_EPOCH, SystemTime::now() + Duration::from_secs(60));
        let (young, old) = (files(&folder, "umbra", then), files(&folder, "umbra", later));
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!((young.len(), old.len()), (1, 0), "{young:?}");
    }

    #[test]
    fn a_process_is_found_by_the_folder_of_its_program() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let program = fs::read_link(format!("/proc/{}/exe", child.id())).unwrap();
        let found = processes(program.parent().unwrap());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found.iter().any(|line| line.starts_with(&format!("process {} ", child.id()))), "{found:?}");
    }
}
