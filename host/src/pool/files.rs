//! The files of pools in `/dev/shm`: their names, and which of them nobody needs any more.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use rustix::fs::{FallocateFlags, Mode, OFlags};
use rustix::io::Errno;

use super::error::Error;
use super::{NAME_MAX, Pool};
use crate::sys::segment::{Mapping, Segment};

const DIRECTORY: &str = "/dev/shm";
const PREFIX: &str = "umbra-pool.";
/// Nobody takes longer to make a pool.
const MAKING: Duration = Duration::from_secs(60);

/// The two files of a pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Files {
    pub(super) manifest: PathBuf,
    pub(super) data: PathBuf,
}

impl Files {
    pub(super) fn of(name: &str) -> Result<Files, Error> {
        if name.is_empty() || name.len() > NAME_MAX || name.contains(['/', '\0']) {
            return Err(Error::BadName(name.to_owned()));
        }
        let path = |end| PathBuf::from(format!("{DIRECTORY}/{PREFIX}{name}.{end}"));
        Ok(Files { manifest: path("m"), data: path("d") })
    }

    /// Both are gone, whoever was first.
    pub(super) fn remove(&self) {
        let _ = std::fs::remove_file(&self.manifest);
        let _ = std::fs::remove_file(&self.data);
    }
}

/// Makes a file of so many bytes, for which there is room, and maps it. Without a path it has no name.
pub(super) fn make(path: Option<&PathBuf>, len: usize) -> Result<Segment, Error> {
    let Some(path) = path else { return Ok(Segment::create("umbra-pool", len)?) };
    let failed = |errno| Error::File { path: path.clone(), errno };
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let fd = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR).map_err(failed)?;
    // Memory that is promised and not there would end a process by SIGBUS at its first touch.
    let reserved = rustix::fs::fallocate(&fd, FallocateFlags::empty(), 0, len as u64).map_err(failed);
    reserved.and_then(|()| Ok(Segment::attach_file(fd, len)?)).inspect_err(|_| {
        let _ = std::fs::remove_file(path);
    })
}

/// Opens a file that [`make`] made.
pub(super) fn open(path: &PathBuf) -> Result<Segment, Error> {
    let failed = |errno| Error::File { path: path.clone(), errno };
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let fd = rustix::fs::open(path, flags, Mode::empty()).map_err(failed)?;
    let size = rustix::fs::fstat(&fd).map_err(failed)?.st_size;
    Ok(Segment::attach_file(fd, usize::try_from(size).unwrap_or(0))?)
}

/// Maps a file without a name.
pub(super) fn map(fd: OwnedFd) -> Result<Segment, Error> {
    let size = rustix::fs::fstat(&fd).map_err(crate::sys::segment::SegmentError::Descriptor)?.st_size;
    Ok(Segment::attach(fd, Mapping::ReadWrite, usize::try_from(size).unwrap_or(0))?)
}

/// The names of the pools of this user.
///
/// # Errors
/// If `/dev/shm` cannot be read.
pub fn list() -> Result<Vec<String>, Error> {
    let failed = |e: &std::io::Error| Error::File {
        path: DIRECTORY.into(),
        errno: Errno::from_io_error(e).unwrap_or(Errno::IO),
    };
    let entries = std::fs::read_dir(DIRECTORY).map_err(|e| failed(&e))?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut pools: Vec<String> = names
        .filter_map(|name| {
            let name = name.strip_prefix(PREFIX)?;
            let pool = name.strip_suffix(".m").or_else(|| name.strip_suffix(".d"))?;
            Some(pool.to_owned())
        })
        .collect();
    pools.sort();
    pools.dedup();
    Ok(pools)
}

/// Removes the pools of this user that nobody needs any more: whose users are all dead, or whose creator is, if they were
/// to end with it. Says which.
///
/// # Errors
/// If `/dev/shm` cannot be read.
pub fn clean() -> Result<Vec<String>, Error> {
    let mut removed = list()?;
    removed.retain(|name| clean_one(name));
    Ok(removed)
}

/// Whether a pool was there and is removed, because nobody needs it.
pub(super) fn clean_one(name: &str) -> bool {
    let Ok(files) = Files::of(name) else { return false };
    let is_over = match Pool::look(&files) {
        Ok(pool) => pool.is_over(),
        Err(Error::NotAPool(_) | Error::File { errno: Errno::NOENT, .. } | Error::Segment(_)) => {
            // Being made, or its maker died over it.
            let paths = [&files.manifest, &files.data].into_iter();
            let newest = paths.filter_map(|path| path.metadata().ok()?.modified().ok()).max();
            newest.is_some_and(|at| SystemTime::now().duration_since(at).is_ok_and(|age| age > MAKING))
        }
        Err(_) => false,
    };
    if is_over {
        files.remove();
    }
    is_over
}
