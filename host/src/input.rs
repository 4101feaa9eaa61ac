//! A file that somebody named, read with an end in size and in time.
//!
//! What is named may be a pipe or a terminal, to which nobody ever writes, or a device that has no end. Pipes are read as
//! files are, as `<(...)` of a shell is one; but they have to end in time.
//!
//! ```
//! use umbra::input;
//! # let path = std::env::temp_dir().join(format!("umbra-input-doc-{}", std::process::id()));
//! std::fs::write(&path, "all of it")?;
//! let file = input::open(&path)?;
//! assert_eq!(input::read(&file, 1024, input::PATIENCE)?, b"all of it");
//! # std::fs::remove_file(&path)?;
//! # Ok::<(), std::io::Error>(())
//! ```

use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;

/// How long the end of a pipe is waited for.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes that are read at once.
const CHUNK: usize = 64 << 10;

/// A pipe or a device had no end in time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "it is no regular file, and did not end within {patience:?}: have its writer end, or name a file that holds all of it"
)]
pub struct Late {
    /// How long its end was waited for.
    pub patience: Duration,
}

/// Opens a file to read, also a pipe that nobody writes to.
///
/// # Errors
/// What the system said.
pub fn open(path: &Path) -> io::Result<File> {
    File::options().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)
}

/// Reads a file that was [opened](open) here to its end, but no more than `most` bytes.
///
/// # Errors
/// What the system said; of the kind [`TimedOut`](ErrorKind::TimedOut), with [`Late`] in it, if the end did not come.
pub fn read(file: &File, most: usize, patience: Duration) -> io::Result<Vec<u8>> {
    let began = Instant::now();
    // Which ends, however long it takes.
    let is_regular = file.metadata()?.is_file();
    let mut bytes = Vec::new();
    while bytes.len() < most {
        if !is_regular && !await_more(file, began, patience)? {
            return Err(io::Error::new(ErrorKind::TimedOut, Late { patience }));
        }
        let at_once = CHUNK.min(most - bytes.len());
        match file.take(at_once as u64).read_to_end(&mut bytes) {
            Ok(len) if len < at_once => break,
            Ok(_) => {}
            // What came before is kept.
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(bytes)
}

/// Whether there is more to read, or the end, so long after this moment at the latest.
fn await_more(file: &File, began: Instant, patience: Duration) -> io::Result<bool> {
    loop {
        let left = patience.saturating_sub(began.elapsed());
        if left.is_zero() {
            return Ok(false);
        }
        // Not every time can be given to the system.
        let left = left.min(PATIENCE).try_into().map_err(|_| Errno::INVAL)?;
        match poll(&mut [PollFd::new(file, PollFlags::IN)], Some(&left)) {
            // To read after an interrupt would find the end of a pipe that nobody has opened to write yet.
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(true),
            Err(errno) => return Err(errno.into()),
        }
    }
}
