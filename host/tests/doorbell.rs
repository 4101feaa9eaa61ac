//! What another process hands over to be rung, which may be anything.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use rustix::fs::{MemfdFlags, memfd_create};
use umbra::sys::wait::{Doorbell, Ringer, WaitError};

/// A write into a pipe or socket whose reader has gone ends a process that has SIGPIPE at its default.
#[test]
fn only_an_eventfd_is_rung() {
    let [event, word] = Doorbell::create().unwrap().parts().unwrap();
    let pipe = rustix::pipe::pipe().unwrap().1;
    let socket = UnixStream::pair().unwrap().0;
    let file = memfd_create("no-eventfd", MemfdFlags::CLOEXEC).unwrap();
    for other in [pipe, OwnedFd::from(socket), file] {
        assert_eq!(Ringer::attach([other, word.try_clone().unwrap()]).unwrap_err(), WaitError::NoEventfd);
    }
    Ringer::attach([event, word]).unwrap().ring();
}
