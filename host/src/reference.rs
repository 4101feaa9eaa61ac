//! References to pools, allocations, channels and streams, as bytes or as text.
//!
//! Whoever shares something asks for its reference and hands the bytes on in any way that he likes; whoever gets them
//! attaches, if he may: a process of the same user on the same host. Text is base64, for command lines and environment
//! variables. [`Reference::parse`] tells what a reference names, also one of another host, which cannot be attached here.
//!
//! ```
//! use umbra::pool::{Attributes, Pool};
//! use umbra::reference::{from_text, is_local, to_text};
//! use umbra_core::reference::{Object, Reference};
//! let pool = Pool::create(None, &Attributes { bytes: 1 << 20, uid: 7, ..Attributes::default() })?;
//! let text = to_text(&pool.alloc(100, 0)?.reference()?);
//!
//! let bytes = from_text(&text)?; // In another process.
//! let seen = Reference::parse(&bytes)?;
//! assert!(is_local(&seen) && seen.uid == 7 && matches!(seen.object, Object::Allocation { len: 100, .. }));
//! let theirs = Pool::attach_reference(&bytes)?;
//! assert_eq!(theirs.allocation_of(&bytes)?.len(), 100);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Memory without a name is found at the descriptors of the process that gave the reference away: the reference is good
//! for as long as that process lives and has it mapped.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::Path;

use data_encoding::BASE64;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use umbra_core::reference::{LONGEST, Place, Reference, ReferenceError};

use crate::sys::host;
use crate::sys::process::{ProcessError, ProcessId};

/// Why a reference cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes are none.
    #[error(transparent)]
    Bytes(#[from] ReferenceError),
    /// The text is no base64.
    #[error("the text of a reference is base64, and this is none")]
    Text,
    /// The memory lies in a folder whose path is no text.
    #[error("the folder's path is not UTF-8, which a reference needs: make the object in another folder")]
    Path,
    /// It names something of another host, or of this one before its last start.
    #[error("the reference names something of another host: only its number, uid and size are known here")]
    NonLocal,
    /// It names something else than was asked for.
    #[error(
        "the reference names something else: pools, allocations, channels and streams are attached each in its way"
    )]
    WrongObject,
    /// What is there now is another object than was meant.
    #[error("what the reference named is gone, and something else is in its place")]
    Replaced,
    /// The process at whose descriptors the memory is found has ended.
    #[error("the process that shared it has ended: {0}")]
    Process(ProcessError),
    /// The descriptor cannot be opened.
    #[error("descriptor {file} of process {pid} cannot be opened: {errno}")]
    Descriptor {
        /// The process.
        pid: u32,
        /// The number of the descriptor.
        file: u32,
        /// What the system says.
        errno: Errno,
    },
}

impl Error {
    /// The name of its code in the C interface.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Error::Bytes(ReferenceError::Version(_)) => "VERSION_MISMATCH",
            Error::Bytes(_) | Error::Text | Error::Path | Error::WrongObject => "INVALID_ARGUMENT",
            Error::NonLocal => "MEMORY_OPERATION_ATTEMPT_ON_NONLOCAL_POOL",
            Error::Replaced | Error::Process(_) => "OBJECT_DESTROYED",
            Error::Descriptor { .. } => "MEMORY_ERRNO",
        }
    }
}

/// The text of a reference.
#[must_use]
pub fn to_text(bytes: &[u8]) -> String {
    BASE64.encode(bytes)
}

/// The bytes of a reference.
///
/// # Errors
/// [`Error::Text`]; [`Error::Bytes`] if they are no reference.
pub fn from_text(text: &str) -> Result<Vec<u8>, Error> {
    let bytes = BASE64.decode(text.trim().as_bytes()).map_err(|_| Error::Text)?;
    Reference::parse(&bytes)?;
    Ok(bytes)
}

/// Whether it names something of this host.
#[must_use]
pub fn is_local(reference: &Reference<'_>) -> bool {
    reference.host == host::id()
}

/// A reference to something of this host.
pub(crate) fn parse_local(bytes: &[u8]) -> Result<Reference<'_>, Error> {
    let reference = Reference::parse(bytes)?;
    if is_local(&reference) { Ok(reference) } else { Err(Error::NonLocal) }
}

pub(crate) fn to_bytes(reference: &Reference<'_>) -> Result<Vec<u8>, Error> {
    let mut buffer = [0; LONGEST];
    // Only a path can be too long.
    let len = reference.write(&mut buffer).map_err(|_| ReferenceError::Length(LONGEST))?;
    Ok(buffer.get(..len).unwrap_or_default().to_vec())
}

/// A number that no other object has.
pub(crate) fn draw() -> Result<u64, Errno> {
    let bytes = crate::secret::random().map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))?;
    // Zero is what an object has that is not made yet.
    Ok(u64::from_le_bytes(bytes).max(1))
}

/// Where this process has mapped something.
pub(crate) fn at_descriptors(files: [u32; 2]) -> Result<Place<'static>, Error> {
    let me = ProcessId::current().map_err(Error::Process)?;
    Ok(Place::Process { pid: me.pid, start: me.start, files })
}

/// A descriptor of its own of what another process has at this number.
pub(crate) fn open(id: ProcessId, file: u32) -> Result<OwnedFd, Error> {
    let lives = || match ProcessId::of(id.pid) {
        Ok(now) if now == id => Ok(()),
        Ok(_) => Err(Error::Process(ProcessError::Gone(id.pid))),
        Err(error) => Err(Error::Process(error)),
    };
    lives()?;
    let failed = |errno| Error::Descriptor { pid: id.pid, file, errno };
    let path = format!("/proc/{}/fd/{file}", id.pid);
    // To open a pipe, a device or a terminal may wait or do something.
    let kind = rustix::fs::stat(&path).map_err(failed)?.st_mode;
    if FileType::from_raw_mode(kind) != FileType::RegularFile {
        return Err(Error::Replaced);
    }
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let opened = rustix::fs::open(&path, flags, Mode::empty()).map_err(failed)?;
    lives().map(|()| opened)
}

/// Memory without a name that a process has mapped, and where it is found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    /// The process; one of several that have the memory.
    pub process: ProcessId,
    /// The number of its descriptor there.
    pub descriptor: u32,
}

/// The memory whose descriptors' links say this, of processes whose descriptors this process may look at: those of this
/// user. Each once.
pub(crate) fn find(link: &str) -> std::io::Result<Vec<Found>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir("/proc")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        // Processes end at any time, and others are none of ours.
        let (Ok(process), Ok(descriptors)) = (ProcessId::of(pid), std::fs::read_dir(entry.path().join("fd"))) else {
            continue;
        };
        for descriptor in descriptors.flatten() {
            let path = descriptor.path();
            if std::fs::read_link(&path).is_ok_and(|seen| seen == Path::new(link))
                && let Ok(stat) = rustix::fs::stat(&path)
                && let Some(descriptor) = descriptor.file_name().to_str().and_then(|name| name.parse().ok())
            {
                found.entry((stat.st_dev, stat.st_ino)).or_insert(Found { process, descriptor });
            }
        }
    }
    Ok(found.into_values().collect())
}

/// A process and the number of a descriptor, as `PID:DESCRIPTOR`.
impl std::fmt::Display for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.process.pid, self.descriptor)
    }
}
