//! Files that commands write, and what they may not write over.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use umbra::output::{self, directory, followed};

use super::{Failure, Out};

/// The file that a path leads to, however it is spelled.
#[derive(PartialEq, Eq, Debug)]
enum Target {
    /// A file that is there: its device and its number on it.
    Is(u64, u64),
    /// One that may be made: its directory and its name in it.
    WillBe(PathBuf, OsString),
}

impl Target {
    /// `None` of a pipe, a device and the like, into which may go what will.
    fn of(path: &Path) -> io::Result<Option<Target>> {
        if let Ok(metadata) = path.metadata() {
            return Ok(metadata.is_file().then(|| Target::Is(metadata.dev(), metadata.ino())));
        }
        let path = &followed(path);
        let name = path.file_name().ok_or(io::ErrorKind::IsADirectory)?;
        Ok(Some(Target::WillBe(directory(path).canonicalize()?, name.to_owned())))
    }
}

/// Refuses to write over what is read or written.
pub(crate) fn apart(read: &[&Option<PathBuf>], written: &[&Option<PathBuf>]) -> Result<(), Failure> {
    // Whoever reads one that cannot be found says so, and whoever cannot make one.
    let read = read.iter().copied().flatten();
    let mut seen: Vec<Target> = read.filter_map(|path| Target::of(path).ok().flatten()).collect();
    for path in written.iter().copied().flatten() {
        let Some(target) = Target::of(path).ok().flatten() else { continue };
        if seen.contains(&target) {
            return Err(Failure::usage(format!("{} is named for two things: use two files", path.display())));
        }
        seen.push(target);
    }
    Ok(())
}

/// A file that gets its name when the work is done.
pub(crate) struct Output<'a> {
    what: &'static str,
    path: &'a Path,
    file: output::Output,
}

impl Output<'_> {
    /// Makes the file, still empty: a place where none can be made is known before the work begins.
    pub(crate) fn create<'a>(what: &'static str, path: &'a Path) -> Result<Output<'a>, Failure> {
        let file = output::Output::create(path).map_err(|error| cannot_write(what, path, &error))?;
        Ok(Output { what, path, file })
    }

    /// Writes all of it.
    pub(crate) fn write(&mut self, bytes: impl AsRef<[u8]>) -> Result<(), Failure> {
        match self.file.write_all(bytes.as_ref()) {
            // A reader that has seen enough is no failure of ours.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            written => written.map_err(|error| cannot_write(self.what, self.path, &error)),
        }
    }

    /// Gives it its name.
    pub(crate) fn keep(&mut self) -> Result<(), Failure> {
        self.file.keep().map_err(|error| cannot_write(self.what, self.path, &error))
    }

    pub(crate) fn path(&self) -> &Path {
        self.path
    }
}

/// Writes all of a file, if one is wanted, and gives it its name.
pub(crate) fn finish(output: Option<&mut Output<'_>>, bytes: impl FnOnce() -> String) -> Result<(), Failure> {
    let Some(output) = output else { return Ok(()) };
    output.write(bytes())?;
    output.keep()
}

fn cannot_write(what: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::failed(format!("cannot write the {what} {}: {error}", path.display()))
}

/// Where a command says how it went, which is not between the bytes of its file if that goes to the standard output.
pub(crate) fn beside<'a>(output: Option<&Output<'_>>, out: Out<'a>, errors: Out<'a>) -> Out<'a> {
    if output.is_some_and(|output| output.file.is_standard()) { errors } else { out }
}
