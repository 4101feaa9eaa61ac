//! The files of pools: their names, and how they are made and opened.
//!
//! They lie in `/dev/shm` or in another folder.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FallocateFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use umbra_core::heap::AttachError;

use super::error::Error;
use super::{Memory, NAME_MAX, Pool};
use crate::sys::segment::{self, Mapping, Segment, SegmentError};

pub(super) const DIRECTORY: &str = "/dev/shm";
pub(super) const PREFIX: &str = "umbra-pool.";
/// Nobody takes longer to make a pool.
pub(super) const MAKING: Duration = Duration::from_secs(60);
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
        // References tell others, and whoever ends the pool finds its files, also when this process works in another folder.
        let folder = std::path::absolute(folder).map_err(|error| Error::File {
            path: folder.to_owned(),
            errno: Errno::from_io_error(&error).unwrap_or(Errno::NOENT),
        })?;
        let path = |end| folder.join(format!("{PREFIX}{name}.{end}"));
        Ok(Files { manifest: path("m"), data: path("d"), folder, name: name.to_owned() })
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

    pub(super) fn missing(&self) -> Error {
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
pub(super) fn remove_from(file: impl AsFd, path: &Path) -> bool {
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
            Memory::HugePages => Segment::create_huge("umbra-pool", len).map_err(|reason| match reason {
                SegmentError::FileLimit { .. } => Error::Segment(reason),
                _ => Error::HugePages { len, reason },
            })?,
            Memory::Shared | Memory::Folder(_) => Segment::create("umbra-pool", len)?,
        };
        return Ok((segment, None));
    };
    segment::check_file_limit(len)?;
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
    let size = rustix::fs::fstat(&fd).map_err(SegmentError::Descriptor)?.st_size;
    Ok(Segment::attach(fd, Mapping::ReadWrite, usize::try_from(size).unwrap_or(0))?)
}

#[cfg(test)]
pub(super) mod tests {
    use std::fs::File;
    use std::time::SystemTime;

    use super::super::clean::{HOLDING, clean_in};
    use super::*;
    use crate::pool::Attributes;

    /// As a cleaner does after a minute.
    pub(in super::super) fn remove(files: &Files) {
        [&files.manifest, &files.data].iter().for_each(|path| _ = std::fs::remove_file(path));
    }

    /// As if what there is of them was made so long ago.
    pub(in super::super) fn age_by(files: &Files, age: Duration) {
        let before = SystemTime::now() - age;
        for path in [&files.manifest, &files.data].into_iter().filter(|path| path.exists()) {
            File::options().write(true).open(path).unwrap().set_modified(before).unwrap();
        }
    }

    /// A folder where nobody else cleans, and a pool's files in it.
    pub(in super::super) fn apart(which: &str) -> (PathBuf, Files, Attributes) {
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
