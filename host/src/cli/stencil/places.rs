//! Which files a run reads and writes, so that none is taken for two things.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use umbra::stencil::field::directory;

use super::Stencil;
use crate::cli::Failure;

/// What a path leads to, however it is spelled.
#[derive(PartialEq, Eq, Debug)]
enum Target {
    /// A file that is there: its device and its number on it.
    Is(u64, u64),
    /// One that may be made: its directory and its name in it.
    WillBe(PathBuf, OsString),
}

impl Target {
    fn of(path: &Path) -> io::Result<Target> {
        if let Ok(metadata) = path.metadata() {
            return Ok(Target::Is(metadata.dev(), metadata.ino()));
        }
        let name = path.file_name().ok_or(io::ErrorKind::IsADirectory)?;
        Ok(Target::WillBe(directory(path).canonicalize()?, name.to_owned()))
    }
}

impl Stencil {
    /// Refuses to write over what is read or written, and places where nothing can be written.
    pub(super) fn places(&self) -> Result<(), Failure> {
        let read = [&self.input, &self.offsets, &self.order_file];
        let written = [&self.keep_input, &self.output, &self.plot];
        let mut seen = Vec::new();
        let all = read.map(|path| (path, false)).into_iter().chain(written.map(|path| (path, true)));
        for (path, is_written) in all {
            let Some(path) = path else { continue };
            let target = Target::of(path).map_err(|error| Failure::failed(format!("{}: {error}", path.display())))?;
            if is_written && seen.contains(&target) {
                return Err(Failure::usage(format!("{} is named for two things: use two files", path.display())));
            }
            seen.push(target);
        }
        let drawn = self.plot.as_deref().and_then(Path::extension).map(|extension| extension.to_ascii_lowercase());
        if self.plot.is_some() && drawn.as_ref().is_none_or(|kind| kind != "svg" && kind != "html") {
            return Err(Failure::usage("--plot: the file must end with .svg or .html"));
        }
        Ok(())
    }
}
