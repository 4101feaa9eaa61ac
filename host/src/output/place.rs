//! Where a file will be, and where it is until it is whole.

use std::collections::hash_map::RandomState;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions, Permissions};
use std::hash::BuildHasher as _;
use std::io::{self, Seek as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::links::followed;

/// Bytes of a name that the name of its partial file repeats: with what is added, a file system takes it.
const NAME_MOST: usize = 200;

/// Partial files of this process: a process that is ended by a signal drops no values.
static PARTIAL: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// All files of this process without a name are removed. As long as this is there, who would make, name or drop one waits.
#[derive(Debug)]
#[must_use = "other threads go on with their files as soon as it is dropped"]
pub struct PartialFilesRemoved {
    _partial: MutexGuard<'static, Vec<PathBuf>>,
}

/// Removes the files of this process that have not got their names yet: for a process that is about to be ended by a
/// signal, in which no value is dropped. Keep what is returned until then, and drop no file in the same thread before.
pub fn remove_partial_files() -> PartialFilesRemoved {
    let mut partial = partial();
    for path in partial.drain(..) {
        // Nothing can be done about a directory that nobody may write to any more.
        let _ = fs::remove_file(path);
    }
    PartialFilesRemoved { _partial: partial }
}

fn partial() -> MutexGuard<'static, Vec<PathBuf>> {
    PARTIAL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where a file will be, and where it is until then; dropped before, it is removed.
#[derive(Debug)]
pub struct Place {
    /// Symbolic links followed; none if it never gets a name.
    target: Option<PathBuf>,
    partial: PathBuf,
    /// Of the file that bears the name now.
    permissions: Option<Permissions>,
}

impl Place {
    /// Looks whether a file may be replaced, or made; nothing is touched. The directory is where it will be, and a link that
    /// leads nowhere yet has its target made.
    ///
    /// # Errors
    /// What the system says, or `AlreadyExists` of something that is no regular file.
    pub fn look(path: &Path) -> io::Result<Place> {
        let (target, permissions) = match fs::metadata(path) {
            Ok(metadata) if !metadata.is_file() => {
                let why = "it is there, and no regular file: name another place";
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
            }
            Ok(_) => {
                let target = path.canonicalize()?;
                // A file that may not be written is not replaced either.
                let file = OpenOptions::new().write(true).open(&target)?;
                (target, Some(file.metadata()?.permissions()))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => (followed(path), None),
            Err(error) => return Err(error),
        };
        // The system would say so when the file gets its name, which is too late.
        if [b"/".as_slice(), b"/."].iter().any(|end| target.as_os_str().as_bytes().ends_with(end)) {
            let why = "this is the name of a directory: name a file";
            return Err(io::Error::new(io::ErrorKind::IsADirectory, why));
        }
        let name = target.file_name().ok_or(io::ErrorKind::IsADirectory)?;
        let partial = directory(&target).join(partial_name(name));
        Ok(Place { target: Some(target), partial, permissions })
    }

    /// The place of a file that never gets a name, and the directory by which messages call it.
    pub(crate) fn unnamed() -> (PathBuf, Place) {
        let directory = std::env::temp_dir();
        let partial = directory.join(format!("umbra-output-{:016x}", random()));
        (directory, Place { target: None, partial, permissions: None })
    }

    /// The directory where the file is made.
    pub(crate) fn directory(&self) -> &Path {
        directory(&self.partial)
    }

    /// Makes the file, once; one that never gets a name loses that of its own before it is used.
    ///
    /// # Errors
    /// What the system says.
    pub fn make(&self) -> io::Result<File> {
        let file = {
            // Whoever removes all of them waits until this one is known.
            let mut all = partial();
            let file = self.create()?;
            all.push(self.partial.clone());
            file
        };
        if let Some(permissions) = &self.permissions {
            file.set_permissions(permissions.clone())?;
        }
        if self.target.is_none() {
            fs::remove_file(&self.partial)?;
        }
        Ok(file)
    }

    fn create(&self) -> io::Result<File> {
        // Who may not read the old file shall not open the new one before it has the same permissions.
        let mode = if self.permissions.is_some() { 0o600 } else { 0o666 };
        OpenOptions::new().read(true).write(true).create_new(true).mode(mode).open(&self.partial)
    }

    /// Gives the file that was made its name, and takes it from the one that had it; the first time. One that is mounted
    /// where it is cannot be replaced, and is written over.
    ///
    /// # Errors
    /// What the system says; then the name is as it was, unless the file is one that is written over.
    pub fn keep(&mut self, file: &File) -> io::Result<()> {
        if let Some(target) = &self.target {
            // What the system could not write is told here at the latest, and after a crash the name leads to the old
            // content or to the whole new one.
            file.sync_all()?;
            // Whoever removes all of them comes before, and this process ends; or finds the name given.
            let _all = partial();
            match fs::rename(&self.partial, target) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => write_over(target, file)?,
                renamed => renamed?,
            }
            self.target = None;
        }
        Ok(())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut all = partial();
        if let Some(at) = all.iter().position(|path| *path == self.partial) {
            all.swap_remove(at);
            // Once it has its name, or lost it, nothing is there.
            let _ = fs::remove_file(&self.partial);
        }
    }
}

fn write_over(target: &Path, mut file: &File) -> io::Result<()> {
    file.rewind()?;
    let mut there = OpenOptions::new().write(true).truncate(true).open(target)?;
    io::copy(&mut file, &mut there)?;
    there.sync_all()
}

/// The directory in which a file of this name is, or will be made.
#[must_use]
pub fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// A hidden name that nobody else has.
fn partial_name(name: &OsStr) -> OsString {
    let bytes = name.as_bytes();
    let mut partial = OsString::from(".");
    partial.push(OsStr::from_bytes(&bytes[..bytes.len().min(NAME_MOST)]));
    partial.push(format!(".{:016x}.partial", random()));
    partial
}

fn random() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

    use std::os::fd::OwnedFd;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn what_replaces_a_private_file_is_private_from_the_beginning() {
        let path = std::env::temp_dir().join(format!("umbra-place-{:016x}", random()));
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).unwrap();
        let place = Place::look(&path).unwrap();
        let made = place.create().unwrap().metadata().unwrap().permissions();
        fs::remove_file(&place.partial).unwrap();
        fs::remove_file(&path).unwrap();
        assert_eq!(made.mode() & 0o777, 0o600);
    }

    #[test]
    fn what_cannot_be_synchronized_takes_no_name() {
        let directory = std::env::temp_dir().join(format!("umbra-place-{:016x}", random()));
        fs::create_dir(&directory).unwrap();
        let path = directory.join("old");
        fs::write(&path, "old").unwrap();
        let mut place = Place::look(&path).unwrap();
        drop(place.make().unwrap());
        // The system synchronizes no pipes.
        let (_read, write) = io::pipe().unwrap();
        assert!(place.keep(&File::from(OwnedFd::from(write))).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"old");
        drop(place);
        let names = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(names.collect::<Vec<_>>(), ["old"], "the partial file is removed");
        fs::remove_dir_all(&directory).unwrap();
    }
}
