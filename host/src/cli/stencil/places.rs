//! Which files a run reads and writes, so that none is taken for two things.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use umbra::report::Report;
use umbra::stencil::field::{Place, directory};

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

/// A drawing that gets its name when all other files of the run do.
pub(super) struct Drawing<'a> {
    path: &'a Path,
    place: Place,
    file: File,
}

impl Drawing<'_> {
    /// Makes the file, still empty: a place where none can be made is known before anything is computed.
    pub(super) fn create(path: &Path) -> Result<Drawing<'_>, Failure> {
        let make = || {
            let place = Place::look(path)?;
            let file = place.make()?;
            Ok(Drawing { path, place, file })
        };
        make().map_err(|error| cannot_draw(path, &error))
    }

    /// Draws what the slots held.
    pub(super) fn draw(&mut self, report: &Report) -> Result<(), Failure> {
        let text = match self.path.extension() {
            Some(kind) if kind.eq_ignore_ascii_case("svg") => report.slots.to_svg(),
            _ => Some(report.to_html()),
        };
        let text = text.ok_or_else(|| io::Error::other("the run was too short for a clock"));
        let written = text.and_then(|text| self.file.write_all(text.as_bytes()));
        written.map_err(|error| cannot_draw(self.path, &error))
    }

    /// Gives it its name.
    pub(super) fn keep(&mut self) -> Result<(), Failure> {
        self.place.keep(&self.file).map_err(|error| cannot_draw(self.path, &error))
    }
}

fn cannot_draw(path: &Path, error: &io::Error) -> Failure {
    Failure::failed(format!("cannot write the drawing {}: {error}", path.display()))
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
