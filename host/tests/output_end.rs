//! Files of a process that a signal is about to end.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::fs;
use std::io::Write as _;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use umbra::output::{Output, remove_partial_files};

/// The only test of its process: it removes the files of all.
#[test]
fn no_file_is_made_or_named_once_all_are_removed() {
    let directory = std::env::temp_dir().join(format!("umbra-output-end-{}", std::process::id()));
    fs::create_dir(&directory).unwrap();
    let mut output = Output::create(&directory.join("old")).unwrap();
    output.write_all(b"old").unwrap();
    let removed = remove_partial_files();
    let (told, done) = channel();
    let (first, second) = (told.clone(), told);
    let late = directory.join("late");
    let waiting = [
        thread::spawn(move || first.send(output.keep().is_ok()).unwrap()),
        thread::spawn(move || second.send(Output::create(&late).is_ok()).unwrap()),
    ];
    assert!(done.recv_timeout(Duration::from_millis(200)).is_err(), "they wait for the end of the process");
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
    drop(removed);
    waiting.into_iter().for_each(|thread| thread.join().unwrap());
    fs::remove_dir_all(&directory).unwrap();
}
