//! Memory that is a file with a name.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use super::{Mapping, Segment, SegmentError};

impl Segment {
    /// Maps the first `len` bytes of a file, for reading and writing. Who may write to the file can also take bytes
    /// away under the mapping, which faults then: so it has to be a file of this user's that nobody else may write to.
    ///
    /// # Errors
    /// [`SegmentError::NotPrivate`] if it is not; [`SegmentError::TooSmall`], [`SegmentError::Map`].
    pub fn attach_file(fd: OwnedFd, len: usize) -> Result<Segment, SegmentError> {
        let stat = rustix::fs::fstat(&fd).map_err(SegmentError::Descriptor)?;
        if stat.st_uid != rustix::process::geteuid().as_raw() || stat.st_mode & 0o022 != 0 {
            return Err(SegmentError::NotPrivate);
        }
        let actual = u64::try_from(stat.st_size).unwrap_or(0);
        if len == 0 || actual < len as u64 {
            return Err(SegmentError::TooSmall { expected: len, actual });
        }
        Self::map(fd, 0, len, Mapping::ReadWrite)
    }

    /// Whether the file at a path, if there is one, is that of the segment: no other file is as long as this one is open.
    #[must_use]
    pub fn lies_at(&self, path: &Path) -> bool {
        self.file().is_ok_and(|file| lies_at(file, path))
    }
}

/// Whether this is the file at a path, if there is one: no other file is as long as this one is open.
pub(crate) fn lies_at(file: impl AsFd, path: &Path) -> bool {
    match (rustix::fs::fstat(file), rustix::fs::lstat(path)) {
        (Ok(ours), Ok(there)) => (ours.st_dev, ours.st_ino) == (there.st_dev, there.st_ino),
        _ => false,
    }
}
