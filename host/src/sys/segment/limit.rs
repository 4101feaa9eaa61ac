//! How long the files of this process may be, also those that lie in memory.
//!
//! Who makes one longer than its limit (`ulimit -f`) is ended by `SIGXFSZ`, so it is asked for before.
//!
//! Source: `setrlimit(2)`.

use rustix::process::{Resource, getrlimit};

use super::SegmentError;

/// Refuses a file of more bytes than this process may make.
pub(crate) fn check_file_limit(len: usize) -> Result<(), SegmentError> {
    match getrlimit(Resource::Fsize).current {
        Some(most) if most < len as u64 => Err(SegmentError::FileLimit { len, most }),
        _ => Ok(()),
    }
}
