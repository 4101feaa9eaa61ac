//! Texts of the user: neighbours, and orders.

use std::io::{self, Read as _};
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use umbra::input;
use umbra::quantity::Bytes;
use umbra::stencil::Stop;

use crate::cli::Failure;

/// How long nobody looks whether to stop.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// The text of a file of at most so many bytes. It may also be a pipe, which is waited for until `stop` is set.
pub(super) fn read(path: &Path, most: u64, stop: &Stop) -> Result<String, Failure> {
    let failed = |what: String| Failure::failed(format!("{}: {what}", path.display()));
    let io = |error: io::Error| failed(error.to_string());
    // A named pipe without a writer would not be left by a signal.
    let file = input::open(path).map_err(io)?;
    let mut limited = (&file).take(most.saturating_add(1));
    let mut text = Vec::new();
    loop {
        if stop.is_set() {
            return Err(failed("interrupted while it was read; nothing is computed yet".to_owned()));
        }
        match rustix::event::poll(&mut [PollFd::new(&file, PollFlags::IN)], Some(&LOOK)) {
            Ok(0) | Err(Errno::INTR) => continue,
            Ok(_) => {}
            Err(errno) => return Err(io(errno.into())),
        }
        match limited.read_to_end(&mut text) {
            Ok(_) => break,
            // The writer goes on later.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(io(error)),
        }
    }
    if text.len() as u64 > most {
        return Err(failed(format!("longer than {}, more than any such file needs", Bytes(most))));
    }
    String::from_utf8(text).map_err(|error| failed(format!("not text: {error}")))
}
