//! Why memory cannot be made, mapped or touched.

use rustix::io::Errno;

/// Why a segment cannot be made, mapped or touched.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SegmentError {
    /// A segment has at least one byte.
    #[error("a segment of zero bytes cannot be mapped: ask for at least one byte")]
    Empty,
    /// The operating system refused to make the file.
    #[error("cannot create shared memory of {len} bytes: {errno}")]
    Create {
        /// Bytes asked for.
        len: usize,
        /// The reason.
        errno: Errno,
    },
    /// Shared memory is a file to the system, and this process may make none as long.
    #[error(
        "cannot create shared memory of {len} bytes: this process may make files of at most {most} bytes (RLIMIT_FSIZE): raise that, \
         as with `ulimit -f unlimited`"
    )]
    FileLimit {
        /// Bytes asked for.
        len: usize,
        /// Bytes that a file may have.
        most: u64,
    },
    /// The operating system refused to map it.
    #[error("cannot map {len} bytes of shared memory: {errno}")]
    Map {
        /// Bytes asked for.
        len: usize,
        /// The reason.
        errno: Errno,
    },
    /// The descriptor cannot be inspected, sealed or duplicated.
    #[error("cannot use the descriptor of shared memory: {0}")]
    Descriptor(Errno),
    /// The file's size is not sealed: whoever made it could shrink it under the mapping.
    #[error("shared memory is not sealed against resizing: its maker could take it away under us")]
    NotSealed,
    /// Others than this user may write to the file, or it is another user's.
    #[error("the file is not this user's alone: others could take it away under us")]
    NotPrivate,
    /// The file is smaller than the size that was announced for it.
    #[error("shared memory has {actual} bytes, {expected} were announced")]
    TooSmall {
        /// Bytes announced.
        expected: usize,
        /// Bytes there.
        actual: u64,
    },
    /// The range does not lie inside the segment.
    #[error("{len} bytes at {offset} do not lie inside a segment of {size} bytes")]
    OutOfBounds {
        /// Start of the range.
        offset: usize,
        /// Length of the range.
        len: usize,
        /// Bytes in the segment.
        size: usize,
    },
    /// A word must lie at a multiple of its size.
    #[error("offset {0} is not aligned for an atomic word")]
    Unaligned(usize),
    /// The memory belongs to this process alone.
    #[error("the memory is private to this process: make the object in shared memory")]
    Private,
    /// A store through a read-only mapping.
    #[error("segment is mapped read-only: attach it with the right to write")]
    ReadOnly,
}
