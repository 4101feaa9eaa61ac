//! The files of pools: their names, and which of them nobody needs any more.
//!
//! They lie in `/dev/shm` or in another folder.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{FallocateFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use umbra_core::heap::AttachError;

use super::error::Error;
use super::{Memory, NAME_MAX, Pool};
use crate::sys::segment::{self, Mapping, Segment, SegmentError};

const DIRECTORY: &str = "/dev/shm";
const PREFIX: &str = "umbra-pool.";
/// Nobody takes longer to make a pool.
const MAKING: Duration = Duration::from_secs(60);
/// Nobody takes longer from making a file to holding it.
const HOLDING: Duration = Duration::from_secs(1);
/// Tries to hold a file that was made: nobody else looks at it for long, unless he is stopped.
const TRIES: u32 = 1000;

/// The two files of a pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Files {
    folder: PathBuf,
    name: String,
    pub(super) manifest: PathBuf,
    pub(super) data: PathBuf,
}

impl Files {
    pub(super) fn shared(name: &str) -> Result<Files, Error> {
        Self::of(Path::new(DIRECTORY), name)
    }

    pub(super) fn of(folder: &Path, name: &str) -> Result<Files, Error> {
        if name.is_empty() || name.len() > NAME_MAX || name.contains(['/', '\0']) {
            return Err(Error::BadName(name.to_owned()));
        }
        let path = |end| folder.join(format!("{PREFIX}{name}.{end}"));
        Ok(Files { manifest: path("m"), data: path("d"), folder: folder.to_owned(), name: name.to_owned() })
    }

    /// By what both paths begin with.
    pub(super) fn beginning(path: &str) -> Files {
        let (folder, file) = path.rsplit_once('/').unwrap_or((".", path));
        let name = file.strip_prefix(PREFIX).unwrap_or(file).to_owned();
        Files { folder: folder.into(), name, manifest: format!("{path}.m").into(), data: format!("{path}.d").into() }
    }

    /// What both paths begin with, if it is text.
    pub(super) fn path(&self) -> Option<&str> {
        self.manifest.to_str()?.strip_suffix(".m")
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    fn missing(&self) -> Error {
        Error::Missing { name: self.name.clone(), folder: self.folder.clone() }
    }
}

impl Pool {
    pub(super) fn look(files: &Files) -> Result<Pool, Error> {
        let manifest = open(files, &files.manifest)?;
        Self::in_files(manifest, open(files, &files.data)?, files)
    }

    /// The pool whose files these are, if they were opened in this order.
    fn in_files(manifest: Segment, data: Segment, files: &Files) -> Result<Pool, Error> {
        // The manifest is made last and removed first: as long as it is there the data is not another pool's.
        if !manifest.lies_at(&files.manifest) {
            return Err(files.missing());
        }
        Self::over(manifest, data, Some(files.clone()))
    }

    /// Errors if its files are gone: whoever takes longer than [that](MAKING) to make a pool is taken for dead.
    pub(super) fn has_files(&self) -> Result<(), Error> {
        match &self.files {
            Some(files) if !self.shared.segment().lies_at(&files.manifest) || !self.data.lies_at(&files.data) => {
                Err(files.missing())
            }
            _ => Ok(()),
        }
    }

    /// Removes its files, if it has any and they are still there: by now another pool may have the name. One that is made
    /// between the look and the removal, by somebody who removed these files himself in the same instant, is not seen.
    pub(super) fn remove_files(&self) {
        let Some(Files { manifest, data, .. }) = &self.files else { return };
        for (segment, path) in [(self.shared.segment(), manifest), (&self.data, data)] {
            if segment.lies_at(path) {
                let _ = std::fs::remove_file(path);
            }
        }
    }
}

/// A file that was made, and is removed if what it was made for fails: whoever takes longer than [that](MAKING) to make a
/// pool may find another one's file in its place.
#[derive(Debug)]
pub(super) struct Made {
    file: OwnedFd,
    path: PathBuf,
    is_kept: bool,
}

impl Made {
    pub(super) fn keep(mut self) {
        self.is_kept = true;
    }

    /// Holds the file until it and what is mapped of it are closed, by which others see that its maker lives. Where files
    /// cannot be held, nobody takes him for dead because this one is not.
    ///
    /// # Errors
    /// [`Error::Missing`] if somebody took him for dead before.
    fn hold(&self, files: &Files) -> Result<(), Error> {
        for _ in 0..TRIES {
            match rustix::fs::flock(&self.file, FlockOperation::NonBlockingLockShared) {
                Err(Errno::WOULDBLOCK | Errno::INTR) => std::thread::yield_now(),
                Ok(()) | Err(_) => break,
            }
        }
        // Who takes him for dead holds it himself until it is gone.
        if segment::lies_at(&self.file, &self.path) { Ok(()) } else { Err(files.missing()) }
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        if !self.is_kept {
            remove_from(&self.file, &self.path);
        }
    }
}

/// Removes a file if it still lies at this path; whether it did.
fn remove_from(file: impl AsFd, path: &Path) -> bool {
    segment::lies_at(file, path) && std::fs::remove_file(path).is_ok()
}

/// Makes memory of so many bytes, and maps it; one of a pool's files is a file, for which there is room.
pub(super) fn make(
    file: Option<(&Files, &PathBuf)>,
    memory: &Memory,
    len: usize,
) -> Result<(Segment, Option<Made>), Error> {
    let Some((files, path)) = file else {
        let segment = match memory {
            Memory::Private => Segment::private(len)?,
            Memory::HugePages => {
                Segment::create_huge("umbra-pool", len).map_err(|reason| Error::HugePages { len, reason })?
            }
            Memory::Shared | Memory::Folder(_) => Segment::create("umbra-pool", len)?,
        };
        return Ok((segment, None));
    };
    let failed = |errno| match errno {
        Errno::EXIST => Error::Exists { name: files.name.clone(), folder: files.folder.clone() },
        _ => Error::File { path: path.clone(), errno },
    };
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR).map_err(failed)?;
    let made = Made { file, path: path.clone(), is_kept: false };
    made.hold(files)?;
    // Memory that is promised and not there would end a process by SIGBUS at its first touch.
    rustix::fs::fallocate(&made.file, FallocateFlags::empty(), 0, len as u64).map_err(failed)?;
    let file = rustix::io::fcntl_dupfd_cloexec(&made.file, 0).map_err(failed)?;
    Ok((Segment::attach_file(file, len)?, Some(made)))
}

/// Opens one of the files, which [`make`] made.
pub(super) fn open(files: &Files, path: &PathBuf) -> Result<Segment, Error> {
    let failed = |errno| match errno {
        Errno::NOENT => files.missing(),
        _ => Error::File { path: path.clone(), errno },
    };
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let fd = rustix::fs::open(path, flags, Mode::empty()).map_err(failed)?;
    let size = rustix::fs::fstat(&fd).map_err(failed)?.st_size;
    if size == 0 {
        // Its maker has not come that far.
        return Err(AttachError::NotAHeap.into());
    }
    Ok(Segment::attach_file(fd, usize::try_from(size).unwrap_or(0))?)
}

/// Maps a file without a name.
pub(super) fn map(fd: OwnedFd) -> Result<Segment, Error> {
    let size = rustix::fs::fstat(&fd).map_err(crate::sys::segment::SegmentError::Descriptor)?.st_size;
    Ok(Segment::attach(fd, Mapping::ReadWrite, usize::try_from(size).unwrap_or(0))?)
}

/// The names of the pools in `/dev/shm`.
///
/// # Errors
/// If `/dev/shm` cannot be read.
pub fn list() -> Result<Vec<String>, Error> {
    list_in(Path::new(DIRECTORY))
}

/// The names of the pools in a folder.
///
/// # Errors
/// If the folder cannot be read.
pub fn list_in(folder: &Path) -> Result<Vec<String>, Error> {
    let failed =
        |e: &std::io::Error| Error::File { path: folder.into(), errno: Errno::from_io_error(e).unwrap_or(Errno::IO) };
    let entries = std::fs::read_dir(folder).map_err(|e| failed(&e))?;
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

/// Removes the pools of this user in `/dev/shm` that nobody needs any more: whose users are all dead, or whose creator
/// is, if they were to end with it. Says which.
///
/// # Errors
/// If `/dev/shm` cannot be read.
pub fn clean() -> Result<Vec<String>, Error> {
    clean_in(Path::new(DIRECTORY))
}

/// As [`clean`], in another folder.
///
/// # Errors
/// If the folder cannot be read.
pub fn clean_in(folder: &Path) -> Result<Vec<String>, Error> {
    let mut removed = list_in(folder)?;
    removed.retain(|name| clean_one(folder, name));
    Ok(removed)
}

/// Whether a pool was there and is removed, because nobody needs it.
fn clean_one(folder: &Path, name: &str) -> bool {
    let Ok(files) = Files::of(folder, name) else { return false };
    // First, so that whatever the look finds unmade has been so for as long as the files are old.
    let Ok(found) = Found::at(&files) else { return false };
    found.clean(Pool::look(&files))
}

/// What lies at the paths of a pool, whatever it is.
struct Found {
    /// In the order in which they are removed.
    files: Vec<(File, PathBuf)>,
    /// Whether whoever makes it, if anybody, is dead or taken for it.
    is_forsaken: bool,
}

impl Found {
    fn at(files: &Files) -> std::io::Result<Found> {
        let mut found = Vec::new();
        let mut newest = None;
        for path in [&files.manifest, &files.data] {
            // Whatever lies there is neither waited for nor made a terminal of this process.
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
            match rustix::fs::open(path, flags, Mode::empty()) {
                Ok(file) => {
                    let file = File::from(file);
                    newest = newest.max(Some(file.metadata()?.modified()?));
                    found.push((file, path.clone()));
                }
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        let age = newest.and_then(|newest| SystemTime::now().duration_since(newest).ok()).unwrap_or_default();
        // Held here, so that nobody makes what is unmade when it is looked at.
        let is_held = |file: &File| rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive).is_err();
        let is_forsaken = age > MAKING || age > HOLDING && !found.iter().any(|(file, _)| is_held(file));
        Ok(Found { files: found, is_forsaken })
    }

    /// Removes it if nobody needs it, by what a look found there afterwards; whether that is so.
    fn clean(&self, look: Result<Pool, Error>) -> bool {
        match look {
            Ok(pool) => pool.end_if_over(),
            // Being made, or its maker died over it; or another one has its place by now.
            Err(
                Error::NotAPool(AttachError::NotAHeap)
                | Error::Missing { .. }
                | Error::Segment(SegmentError::TooSmall { .. } | SegmentError::Empty),
            ) => {
                let removed = self.files.iter().filter(|(file, path)| self.is_forsaken && remove_from(file, path));
                removed.count() > 0
            }
            // Not ours to judge, as one of another version, or not looked at: whoever is short of memory cannot map the
            // largest pool in use.
            Err(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::Attributes;

    /// As a cleaner does after a minute.
    fn remove(files: &Files) {
        [&files.manifest, &files.data].iter().for_each(|path| _ = std::fs::remove_file(path));
    }

    /// As if both were made so long ago that nobody makes them still.
    fn age(files: &Files) {
        age_by(files, 2 * MAKING);
    }

    /// As if what there is of them was made so long ago.
    fn age_by(files: &Files, age: Duration) {
        let before = SystemTime::now() - age;
        for path in [&files.manifest, &files.data].into_iter().filter(|path| path.exists()) {
            File::options().write(true).open(path).unwrap().set_modified(before).unwrap();
        }
    }

    /// Files of no pool yet.
    fn unmade(files: &Files) -> [(Segment, Option<Made>); 2] {
        [&files.data, &files.manifest].map(|path| make(Some((files, path)), &Memory::Shared, 1 << 20).unwrap())
    }

    /// A folder where nobody else cleans, and a pool's files in it.
    fn apart(which: &str) -> (PathBuf, Files, Attributes) {
        let folder = std::env::temp_dir().join(format!("umbra-{which}-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let memory = Memory::Folder(folder.clone());
        (
            folder.clone(),
            Files::of(&folder, "x").unwrap(),
            Attributes { bytes: 1 << 20, memory, ..Attributes::default() },
        )
    }

    #[test]
    fn who_was_stopped_while_he_cleaned_leaves_the_next_pool() {
        let (folder, files, small) = apart("replaced");
        let unmade = unmade(&files);
        age(&files);
        let found = Found::at(&files).unwrap();
        let look = Pool::look(&files);
        assert_eq!(look.as_ref().err(), Some(&Error::NotAPool(AttachError::NotAHeap)));
        remove(&files);
        let next = Pool::create(Some("x"), &small).unwrap();
        age(&files);
        assert!(!found.clean(look), "it removed nothing");
        assert_eq!(next.has_files(), Ok(()));
        assert!(!found.clean(Err(files.missing())));
        assert_eq!(next.has_files(), Ok(()));
        drop((next, unmade));
        std::fs::remove_dir(&folder).unwrap();
    }

    #[test]
    fn who_was_killed_while_he_made_a_pool_leaves_its_name_to_the_next_one() {
        for both in [true, false] {
            let (folder, files, small) = apart("killed");
            let path = if both { &files.manifest } else { &files.data };
            let unmade = [&files.data, path].map(|path| make(Some((&files, path)), &Memory::Shared, 1 << 20).ok());
            age_by(&files, 2 * HOLDING);
            assert_eq!(clean_in(&folder), Ok(vec![]), "its maker lives");
            assert!(matches!(Pool::create(Some("x"), &small), Err(Error::Exists { .. })));
            // The kernel closes what he had open, and removes nothing.
            unmade.into_iter().flatten().for_each(|(_, made)| made.into_iter().for_each(Made::keep));
            // A child that another test starts has it open, too, until it executes its program.
            let again = |_| Pool::create(Some("x"), &small).inspect_err(|_| std::thread::sleep(HOLDING / 100)).ok();
            let next = (0..1000).find_map(again).unwrap();
            age_by(&files, 2 * HOLDING);
            assert_eq!((clean_in(&folder), next.has_files()), (Ok(vec![]), Ok(())), "it is made");
            drop(next);
            std::fs::remove_dir(&folder).unwrap();
        }
    }

    #[test]
    fn a_file_that_nobody_holds_yet_is_given_time() {
        let (folder, files, _) = apart("held");
        std::fs::write(&files.data, b"").unwrap();
        assert_eq!((clean_in(&folder), files.data.exists()), (Ok(vec![]), true));
        age_by(&files, 2 * HOLDING);
        assert_eq!((clean_in(&folder), files.data.exists()), (Ok(vec!["x".to_owned()]), false));
        std::fs::remove_dir(&folder).unwrap();
    }

    #[test]
    fn who_was_stopped_before_he_held_a_file_learns_at_once_that_it_is_gone() {
        let (folder, files, _) = apart("unheld");
        let file = File::options().read(true).write(true).create_new(true).open(&files.data).unwrap();
        let made = Made { file: file.into(), path: files.data.clone(), is_kept: false };
        age_by(&files, 2 * HOLDING);
        assert_eq!(clean_in(&folder), Ok(vec!["x".to_owned()]));
        // As the next one does.
        std::fs::write(&files.data, b"").unwrap();
        assert_eq!(made.hold(&files), Err(files.missing()));
        drop(made);
        assert!(files.data.exists());
        std::fs::remove_file(&files.data).unwrap();
        std::fs::remove_dir(&folder).unwrap();
    }

    #[test]
    fn a_pool_that_was_being_made_when_it_was_looked_at_does_not_become_late_by_that() {
        let (folder, files, _) = apart("young");
        let unmade = unmade(&files);
        let found = Found::at(&files).unwrap();
        age(&files);
        assert!(!found.clean(Pool::look(&files)));
        assert!(files.manifest.exists() && files.data.exists());
        assert_eq!(clean_in(&folder), Ok(vec!["x".to_owned()]), "whoever comes later sees how old it is");
        assert!(!files.manifest.exists() && !files.data.exists());
        drop(unmade);
        std::fs::remove_dir(&folder).unwrap();
    }

    #[test]
    fn who_opens_the_files_of_two_pools_by_one_name_takes_them_for_neither() {
        let (name, small) =
            (format!("replaced-{}", std::process::id()), Attributes { bytes: 1 << 20, ..Attributes::default() });
        let first = Pool::create(Some(&name), &small).unwrap();
        let files = Files::shared(&name).unwrap();
        let manifest = open(&files, &files.manifest).unwrap();
        first.destroy().unwrap();
        let second = Pool::create(Some(&name), &small).unwrap();
        let mixed = Pool::in_files(manifest, open(&files, &files.data).unwrap(), &files);
        assert_eq!(mixed.and_then(Pool::unless_over).map(drop), Err(files.missing()));
        assert!(files.manifest.exists() && files.data.exists(), "the second pool is whole");
        drop(second);
    }

    #[test]
    fn who_was_stopped_while_he_made_a_pool_learns_that_its_files_are_gone() {
        let (name, small) =
            (format!("slow-{}", std::process::id()), Attributes { bytes: 1 << 20, ..Attributes::default() });
        let files = Files::shared(&name).unwrap();
        let sizes = [(&files.manifest, small.plan().unwrap().words() * 8), (&files.data, 1 << 20)];
        let [(manifest, _made), (data, _also)] =
            sizes.map(|(path, len)| make(Some((&files, path)), &Memory::Shared, len).unwrap());
        remove(&files);
        let next = Pool::create(Some(&name), &small).unwrap();
        let slow = Pool::begin(manifest, data, Some(files.clone()), &small).unwrap();
        assert_eq!((slow.has_files(), next.has_files()), (Err(files.missing()), Ok(())));
        drop(slow);
        assert_eq!(next.has_files(), Ok(()));
    }

    #[test]
    fn who_was_stopped_between_the_files_of_a_pool_leaves_those_of_the_next_one() {
        let (name, small) =
            (format!("between-{}", std::process::id()), Attributes { bytes: 1 << 20, ..Attributes::default() });
        let files = Files::shared(&name).unwrap();
        let (data, made) = make(Some((&files, &files.data)), &Memory::Shared, 1 << 20).unwrap();
        remove(&files);
        let next = Pool::create(Some(&name), &small).unwrap();
        let slow = Pool::create_over(data, Some(files.clone()), &small);
        assert!(matches!(slow, Err(Error::Exists { .. })));
        drop(made);
        assert_eq!(next.has_files(), Ok(()));
    }

    #[test]
    fn who_fails_to_make_a_pool_leaves_nothing() {
        let name = format!("failed-{}", std::process::id());
        let files = Files::shared(&name).unwrap();
        let uid = 0xfa11_ed00;
        let attributes = Attributes { bytes: 1 << 20, uid, ..Attributes::default() };
        let other = Pool::create(None, &attributes).unwrap();
        assert_eq!(Pool::create(Some(&name), &attributes).map(drop), Err(Error::UidTaken(uid)));
        assert!(!files.manifest.exists() && !files.data.exists());
        drop(other);
    }
}
