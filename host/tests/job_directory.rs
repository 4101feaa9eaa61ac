//! Directories of jobs: each process removes its own, and no other.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::fs::{self, File};

use rustix::fs::FlockOperation;
use umbra::job::JobDirectory;

/// A process in another id space over the same files has this one's id, and its job runs.
#[test]
fn another_process_of_the_same_id_keeps_its_directory() {
    let dropped = JobDirectory::create().unwrap().path().to_path_buf();
    let own = JobDirectory::create().unwrap();
    let other = std::env::temp_dir().join(format!("umbra-{}-{:016x}", std::process::id(), 0x5eed));
    fs::create_dir(&other).unwrap();
    let lock = File::create(other.join("lock")).unwrap();
    rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
    // What a signal does.
    JobDirectory::remove_all_of_this_process();
    let kept = other.join("lock").exists();
    let _ = fs::remove_dir_all(&other);
    assert!(kept, "it removed the directory of a job that runs");
    assert!(!own.path().exists(), "it kept its own");
    assert!(!dropped.exists());
}
