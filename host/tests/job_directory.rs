//! Directories of jobs: each process removes its own, and no other.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::fs::FlockOperation;
use umbra::job::JobDirectory;

/// All tests here look at the directories of this process.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Makes a directory that has its name only when it is filled: any job that begins on this machine looks at such names.
fn appear<T>(path: &Path, fill: impl FnOnce(&Path) -> T) -> T {
    let made = path.with_extension("made");
    fs::create_dir(&made).unwrap();
    let filled = fill(&made);
    fs::rename(&made, path).unwrap();
    filled
}

/// A process in another id space over the same files has this one's id, and its job runs.
#[test]
fn another_process_of_the_same_id_keeps_its_directory() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let dropped = JobDirectory::create().unwrap().path().to_path_buf();
    let own = JobDirectory::create().unwrap();
    let other = std::env::temp_dir().join(format!("umbra-{}-{:016x}", std::process::id(), 0x5eed));
    let _lock = appear(&other, |made| {
        let lock = File::create(made.join("lock")).unwrap();
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
        lock
    });
    // What a signal does.
    drop(JobDirectory::remove_all_of_this_process());
    let kept = other.join("lock").exists();
    let _ = fs::remove_dir_all(&other);
    assert!(kept, "it removed the directory of a job that runs");
    assert!(!own.path().exists(), "it kept its own");
    assert!(!dropped.exists());
}

/// Whoever ends between the removal of the lock and that of the directory leaves what others put there meanwhile.
#[test]
fn what_is_left_without_a_lock_goes_with_the_next_job() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let left = std::env::temp_dir().join(format!("umbra-{}-{:016x}", std::process::id(), 0xdead));
    appear(&left, |made| fs::write(made.join("sp0.log"), "").unwrap());
    drop(JobDirectory::create().unwrap());
    let is_left = left.exists();
    let _ = fs::remove_dir_all(&left);
    assert!(!is_left);
}

#[test]
fn a_directory_goes_although_files_are_made_in_it_meanwhile() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    for _ in 0..50 {
        let directory = JobDirectory::create().unwrap();
        let path = directory.path().to_path_buf();
        let making = path.clone();
        // As many as a large job has.
        let maker = thread::spawn(move || (0..2000).all(|n| File::create(making.join(format!("{n}.log"))).is_ok()));
        while fs::read_dir(&path).unwrap().count() < 8 {}
        // What a signal does.
        drop(JobDirectory::remove_all_of_this_process());
        let is_left = path.exists();
        maker.join().unwrap();
        let _ = fs::remove_dir_all(&path);
        assert!(!is_left, "{}", path.display());
    }
}

/// Directories that this process has made and that are still there, under whatever name.
fn left() -> Vec<PathBuf> {
    let ours = format!("umbra-{}-", std::process::id());
    let all = fs::read_dir(std::env::temp_dir()).unwrap().map(|entry| entry.unwrap());
    all.filter(|entry| entry.file_name().to_string_lossy().starts_with(&ours)).map(|entry| entry.path()).collect()
}

/// Whoever is asked to end while a job ends by itself ends when the directory is gone, not before.
#[test]
fn a_directory_that_another_thread_drops_is_gone_before_the_process_ends() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let directory = JobDirectory::create().unwrap();
    let path = directory.path().to_path_buf();
    (0..5000).for_each(|n| drop(File::create(path.join(format!("{n}.log"))).unwrap()));
    let dropper = thread::spawn(move || drop(directory));
    while path.exists() {}
    // What a signal does.
    drop(JobDirectory::remove_all_of_this_process());
    let left = left();
    dropper.join().unwrap();
    assert_eq!(left, Vec::<PathBuf>::new());
}

#[test]
fn no_directory_is_made_after_all_are_removed_for_the_end_of_the_process() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let ending = JobDirectory::remove_all_of_this_process();
    let maker = thread::spawn(|| drop(JobDirectory::create().unwrap()));
    // Long enough to make one.
    thread::sleep(Duration::from_millis(300));
    let is_waiting = !maker.is_finished();
    drop(ending);
    maker.join().unwrap();
    assert!(is_waiting, "it made one");
}
