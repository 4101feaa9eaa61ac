//! Pools in files that nobody needs any more.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use umbra_core::heap::AttachError;

use super::Pool;
use super::error::Error;
use super::files::{DIRECTORY, Files, MAKING, PREFIX, remove_from};
use crate::sys::segment::SegmentError;

/// Nobody takes longer from making a file to holding it.
pub(super) const HOLDING: Duration = Duration::from_secs(1);

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
    use super::super::files::tests::{age_by, apart, remove};
    use super::super::files::{Made, make};
    use super::super::{Memory, Segment};
    use super::*;

    /// As if both were made so long ago that nobody makes them still.
    fn age(files: &Files) {
        age_by(files, 2 * MAKING);
    }

    /// Files of no pool yet.
    fn unmade(files: &Files) -> [(Segment, Option<Made>); 2] {
        [&files.data, &files.manifest].map(|path| make(Some((files, path)), &Memory::Shared, 1 << 20).unwrap())
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
}
