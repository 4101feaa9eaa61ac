//! The private directory of one job: configuration, secret, sockets, logs.
//!
//! Mode 0700, a name that nobody can guess, removed when the value is dropped. Unix socket names are short
//! (108 bytes with the path), so a long temporary directory is refused with a clear sentence.
//!
//! Who is killed (signal 9) removes nothing. Therefore the directory holds a file that its maker keeps locked: the
//! kernel unlocks it when the maker ends, however that happens, and the next job removes directories that nobody
//! holds. Neither a process id that was handed out again nor another id space over the same files can mislead it. The
//! lock is the first file in the directory and the last that is removed: one that holds other files and no lock is
//! nobody's.
//!
//! Source: `flock(2)`.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::config::Platform;
use crate::secret::{self, Secret, SecretError};

/// The directory cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DirectoryError {
    /// The system refused.
    #[error("job directory {}: {error}", path.display())]
    Io {
        /// Which directory or file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// Sockets in it would have names that the system does not take.
    #[error("job directory {} has a name too long for sockets: set TMPDIR to a shorter one", .0.display())]
    TooLong(PathBuf),
    /// The secret could not be made.
    #[error(transparent)]
    Secret(#[from] SecretError),
}

/// The directory of one job.
#[derive(Debug)]
pub struct JobDirectory {
    path: PathBuf,
    /// Locked as long as it is open.
    _lock: File,
}

/// Directories that this process has made. Their names do not tell: in another id space over the same files, another
/// process may have the same id.
static OWN: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// All directories of this process' jobs are removed. As long as this is there, who would make another one or drop one waits:
/// the thread that holds it must do neither, or would wait for itself.
#[derive(Debug)]
#[must_use = "jobs of other threads go on as soon as it is dropped"]
pub struct AllRemoved {
    _own: MutexGuard<'static, Vec<PathBuf>>,
}

fn own() -> MutexGuard<'static, Vec<PathBuf>> {
    OWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The file that tells whether somebody holds a directory.
const LOCK: &str = "lock";
/// Names that are tried if others take new directories for old ones.
const TRIES: usize = 8;
/// How often a directory is emptied into which others still put files that they were just about to.
const EMPTIED: usize = 256;

impl JobDirectory {
    /// Bytes of the name of a directory at most in which sockets can have names, the longest of which is `sp8388607.sock`.
    pub const LONGEST: usize = 90;

    /// Makes one under the system's temporary directory, and removes those of this user that nobody holds any more.
    ///
    /// # Errors
    /// [`DirectoryError`].
    pub fn create() -> Result<JobDirectory, DirectoryError> {
        JobDirectory::create_up_to(Self::LONGEST)
    }

    /// As [`create`](Self::create), but the name of the directory may have so many bytes: for a job that can do without
    /// sockets in it if it has more than [`LONGEST`](Self::LONGEST).
    ///
    /// # Errors
    /// [`DirectoryError`].
    pub fn create_up_to(longest: usize) -> Result<JobDirectory, DirectoryError> {
        for path in candidates() {
            // Another user's, or held: not ours to remove.
            let _ = reclaim(&path);
        }
        for _ in 0..TRIES {
            let path = std::env::temp_dir().join(draw_name()?);
            if path.as_os_str().len() > longest {
                return Err(DirectoryError::TooLong(path));
            }
            let io = |error| DirectoryError::Io { path: path.clone(), error };
            {
                // Held until it is noted: one that exists is found by `remove_all_of_this_process`.
                let mut own = own();
                fs::DirBuilder::new().mode(0o700).create(&path).map_err(io)?;
                own.push(path.clone());
            }
            if let Some(lock) = claim(&path).map_err(io)? {
                return Ok(JobDirectory { path, _lock: lock });
            }
            // Still there if somebody only looked whether it is held.
            let _ = fs::remove_dir_all(&path);
            own().retain(|made| *made != path);
        }
        let error = io::Error::other("other jobs keep removing it");
        Err(DirectoryError::Io { path: std::env::temp_dir(), error })
    }

    /// Directories of this user's jobs that run on this machine, sorted.
    #[must_use]
    pub fn all_held() -> Vec<PathBuf> {
        let held = |path: &PathBuf| matches!(try_lock(path, FlockOperation::NonBlockingLockShared), Ok(Lock::Held));
        let mut paths: Vec<PathBuf> = candidates().filter(held).collect();
        paths.sort();
        paths
    }

    /// Removes the directories of this process' jobs: for a process that is about to be ended by a signal, in which no
    /// value is dropped. Keep what is returned until then.
    pub fn remove_all_of_this_process() -> AllRemoved {
        let mut own = own();
        for path in own.drain(..) {
            // Nothing can be done about a directory that somebody else keeps busy.
            let _ = remove(&path);
        }
        AllRemoved { _own: own }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The configuration file.
    #[must_use]
    pub fn config(&self) -> PathBuf {
        self.path.join("job.cfg")
    }

    /// The secret file.
    #[must_use]
    pub fn secret(&self) -> PathBuf {
        self.path.join("secret")
    }

    /// What a process wrote to its standard error.
    #[must_use]
    pub fn log(&self, process: &str) -> PathBuf {
        self.path.join(format!("{process}.log"))
    }

    /// Writes configuration and secret.
    ///
    /// # Errors
    /// [`DirectoryError`].
    pub fn fill(&self, platform: &Platform, secret: &Secret) -> Result<(), DirectoryError> {
        let path = self.config();
        fs::write(&path, platform.to_string()).map_err(|error| DirectoryError::Io { path, error })?;
        Ok(secret.create(&self.secret())?)
    }

    /// Sockets that are still there; none once every agent has left.
    #[must_use]
    pub fn sockets(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.path).into_iter().flatten().flatten();
        entries.map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "sock")).collect()
    }
}

impl Drop for JobDirectory {
    fn drop(&mut self) {
        // Held until it is removed: this process does not end before.
        let mut own = own();
        // Nothing can be done about a directory that somebody else has removed or keeps busy.
        let _ = remove(&self.path);
        own.retain(|made| *made != self.path);
    }
}

/// A name for a directory that nobody can guess.
fn draw_name() -> Result<String, SecretError> {
    let unique = u64::from_le_bytes(secret::random::<8>().map_err(SecretError::NoRandom)?);
    Ok(format!("umbra-{}-{unique:016x}", std::process::id()))
}

/// Removes a directory whose lock is held, the lock last: whoever ends on the way leaves one that can be reclaimed.
///
/// Other threads and processes of the job may still make files in it, but not by the name that it gets first: then only
/// those that were just being made come after it was looked through.
fn remove(path: &Path) -> io::Result<()> {
    let there = |error: io::Error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) };
    let aside = path.with_file_name(draw_name().map_err(io::Error::other)?);
    if let Err(error) = fs::rename(path, &aside) {
        return there(error);
    }
    let path = aside.as_path();
    let mut tries = 1..EMPTIED;
    loop {
        let entries = match fs::read_dir(path) {
            Ok(entries) => entries,
            Err(error) => return there(error),
        };
        for entry in entries {
            let entry = entry?;
            if entry.file_name() == LOCK {
                continue;
            }
            let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let one = if is_directory { fs::remove_dir_all(entry.path()) } else { fs::remove_file(entry.path()) };
            one.or_else(there)?;
        }
        fs::remove_file(path.join(LOCK)).or_else(there)?;
        match fs::remove_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty && tries.next().is_some() => {}
            removed => return removed.or_else(there),
        }
    }
}

/// What by its name could be the directory of a job.
fn candidates() -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| is_named_so(path))
}

/// Whether a directory has the name of one of a job; it holds the id of its maker, which only people read.
fn is_named_so(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str).and_then(|name| name.strip_prefix("umbra-"));
    name.and_then(|name| name.split_once('-')).is_some_and(|(pid, unique)| {
        pid.parse::<u32>().is_ok() && unique.len() == 16 && unique.bytes().all(|b| b.is_ascii_hexdigit())
    })
}

/// Locks a directory that was just made; `None` if somebody took it for one that nobody holds.
fn claim(path: &Path) -> io::Result<Option<File>> {
    let name = path.join(LOCK);
    let lock = match File::options().write(true).create_new(true).mode(0o600).open(&name) {
        Ok(lock) => lock,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    }
    // Whoever locked it before us may have removed it meanwhile.
    let there = fs::metadata(&name).ok().map(|there| there.ino());
    Ok((there == Some(lock.metadata()?.ino())).then_some(lock))
}

/// What was found of a directory's lock.
enum Lock {
    /// Its maker lives.
    Held,
    /// It was free; locked by us until this is dropped.
    Free { _lock: OwnedFd },
    /// There is none: its maker ended, or has not come so far.
    Absent,
}

/// Tries the lock of a directory of this user.
fn try_lock(path: &Path, how: FlockOperation) -> io::Result<Lock> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let directory = rustix::fs::open(path, flags | OFlags::DIRECTORY, Mode::empty())?;
    if rustix::fs::fstat(&directory)?.st_uid != rustix::process::geteuid().as_raw() {
        return Err(Errno::PERM.into());
    }
    let lock = match rustix::fs::openat(&directory, LOCK, flags, Mode::empty()) {
        Ok(lock) => lock,
        Err(Errno::NOENT) => return Ok(Lock::Absent),
        Err(errno) => return Err(errno.into()),
    };
    match rustix::fs::flock(&lock, how) {
        Ok(()) => Ok(Lock::Free { _lock: lock }),
        Err(Errno::WOULDBLOCK) => Ok(Lock::Held),
        Err(errno) => Err(errno.into()),
    }
}

/// Removes a directory that nobody holds.
fn reclaim(path: &Path) -> io::Result<()> {
    match try_lock(path, FlockOperation::NonBlockingLockExclusive)? {
        Lock::Held => Ok(()),
        Lock::Free { .. } => remove(path),
        // Its maker may be about to lock it, and makes another one if it is gone then.
        Lock::Absent => match fs::remove_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => reclaim_filled(path),
            removed => removed,
        },
    }
}

/// Removes a directory that was seen to hold something, unless somebody holds it.
fn reclaim_filled(path: &Path) -> io::Result<()> {
    match try_lock(path, FlockOperation::NonBlockingLockExclusive)? {
        Lock::Held => Ok(()),
        // Its lock came before all that it holds, and is gone: its maker ended while it removed it.
        Lock::Free { .. } | Lock::Absent => remove(path),
    }
}
