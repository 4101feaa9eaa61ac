//! Files that programs write, which take their names only when they are whole.
//!
//! What bore the name before stays until then, and half a file never bears it:
//!
//! ```
//! use std::io::Write as _;
//! use umbra::output::Output;
//!
//! let path = std::env::temp_dir().join(format!("umbra-example-{}", std::process::id()));
//! std::fs::write(&path, "old")?;
//! let mut output = Output::create(&path)?;
//! output.write_all(b"new")?;
//! assert_eq!(std::fs::read(&path)?, b"old");
//! output.keep()?;
//! assert_eq!(std::fs::read(&path)?, b"new");
//! # std::fs::remove_file(&path)?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! What is no regular file, such as a pipe or a terminal, takes what is written as it comes. So does a file that the path
//! leads to through a descriptor, such as `/dev/fd/3`: whoever opened it keeps what it had.

mod links;
mod place;

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, IsTerminal as _, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

pub use links::followed;
use links::is_descriptor;
pub use place::{PartialFilesRemoved, Place, directory, remove_partial_files};

/// What is written from its beginning to its end.
#[derive(Debug)]
pub struct Output {
    file: File,
    way: Way,
}

/// Where it goes.
#[derive(Debug)]
enum Way {
    /// To a file that gets its name in the end.
    Named(Place),
    /// Where others read, or nobody does.
    Through,
    /// To this process' standard output.
    Standard,
}

impl Output {
    /// Makes the file, still empty and without its name; or opens what is no regular file, which waits for a reader if it is
    /// a named pipe. The standard output and error output of this process are themselves under all of their names.
    ///
    /// # Errors
    /// What the system says.
    pub fn create(path: &Path) -> io::Result<Output> {
        let found = fs::metadata(path).ok();
        if let Some(file) = found.as_ref().and_then(|found| stream(io::stdout(), found)) {
            return Ok(Output { file, way: Way::Standard });
        }
        if let Some(file) = found.as_ref().and_then(|found| stream(io::stderr(), found)) {
            return Ok(Output { file, way: Way::Through });
        }
        if found.is_some_and(|metadata| !metadata.is_file()) || is_descriptor(path) {
            return Ok(Output { file: OpenOptions::new().append(true).open(path)?, way: Way::Through });
        }
        let place = Place::look(path)?;
        Ok(Output { file: place.make()?, way: Way::Named(place) })
    }

    /// Whether it goes to the standard output of this process, among what else is said there.
    #[must_use]
    pub fn is_standard(&self) -> bool {
        matches!(self.way, Way::Standard)
    }

    /// Gives a file its name, once all of it is on the disk; the first time. One that is dropped before is removed.
    ///
    /// # Errors
    /// What the system says; then the name is as it was.
    pub fn keep(&mut self) -> io::Result<()> {
        match &mut self.way {
            Way::Named(place) => place.keep(&self.file),
            Way::Through | Way::Standard => Ok(()),
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// A stream of this process, if this is it: a file that somebody else named for it is neither replaced nor begun anew.
fn stream(own: impl AsFd, found: &Metadata) -> Option<File> {
    let own = File::from(own.as_fd().try_clone_to_owned().ok()?);
    let is = own.metadata().ok()?;
    // What goes to /dev/null is not among anything that is said there.
    let is_read = !found.file_type().is_char_device() || own.is_terminal();
    ((is.dev(), is.ino()) == (found.dev(), found.ino()) && is_read).then_some(own)
}
