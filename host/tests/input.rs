//! Files that are named: pipes are read as files are, and waited for a while.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::fs::File;
use std::io::{ErrorKind, PipeWriter, Write as _, pipe};
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;
use std::time::Duration;

use umbra::input::{self, Late};

/// Only a hang lasts longer.
const WAIT: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(100);

/// The end of a pipe as a shell names it for `<(...)`, opened, and its other end.
fn named() -> (File, PipeWriter) {
    let (near, far) = pipe().unwrap();
    let file = input::open(&PathBuf::from(format!("/proc/self/fd/{}", near.as_raw_fd()))).unwrap();
    (file, far)
}

#[test]
fn a_pipe_is_read_to_its_end() {
    let (file, mut far) = named();
    let data: Vec<u8> = (0..300_000_u32).map(|n| (n ^ n >> 8) as u8).collect();
    std::thread::scope(|scope| {
        let read = scope.spawn(|| input::read(&file, usize::MAX, WAIT).unwrap());
        far.write_all(&data).unwrap();
        drop(far);
        assert!(read.join().unwrap() == data);
    });
    let (file, far) = named();
    drop(far);
    assert_eq!(input::read(&file, 10, WAIT).unwrap(), b"");
}

#[test]
fn no_more_is_read_than_is_asked_for() {
    let zeros = input::open("/dev/zero".as_ref()).unwrap();
    assert_eq!(input::read(&zeros, 100_000, WAIT).unwrap(), vec![0; 100_000]);
    let (file, mut far) = named();
    far.write_all(b"all that is wanted, and more").unwrap();
    assert_eq!(input::read(&file, 3, WAIT).unwrap(), b"all", "also if no end comes");
}

#[test]
fn a_pipe_that_does_not_end_is_late() {
    let (file, mut far) = named();
    let late = |file: &File| {
        let error = input::read(file, usize::MAX, SHORT).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert_eq!(error.get_ref().and_then(|why| why.downcast_ref()), Some(&Late { patience: SHORT }));
    };
    late(&file);
    far.write_all(b"some").unwrap();
    late(&file);
    // Also if more comes all the time.
    let writer = std::thread::spawn(move || while far.write_all(b".").is_ok() {});
    late(&file);
    drop(file);
    writer.join().unwrap();
}
