//! A field in a file.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::element::{Value, for_element};
use super::npy::{self, HEADER_MAX};
use super::{Brick, Bricks, Element};
use crate::input;
use crate::output::Place;
use crate::quantity::Bytes;
use crate::stencil::{LoadError, Source, Stop};

/// The kinds of file systems that are memory, by their numbers in `statfs(2)`: tmpfs and ramfs.
const IN_MEMORY: [u32; 2] = [0x0102_1994, 0x8584_58f6];
/// Numbers that are made or written at a time.
const AT_ONCE: usize = 64 << 10;

/// Why bytes are no array that a stencil works on.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// The first bytes are others.
    #[error("it is no array file of NumPy (.npy): write it with numpy.save")]
    Foreign,
    /// The file ends before the header does.
    #[error("it ends after {have} bytes, within its header: write or copy it again")]
    Truncated {
        /// Bytes that are there.
        have: u64,
    },
    /// A version that nobody has described to us.
    #[error("its format version is {major}.{minor}, and 1.0, 2.0 and 3.0 are known: write it with numpy.save")]
    Version {
        /// Major version.
        major: u8,
        /// Minor version.
        minor: u8,
    },
    /// The header has more bytes than one of numbers needs.
    #[error(
        "its header is said to have {length} bytes, and {HEADER_MAX} are enough for numbers: write it with numpy.save"
    )]
    HeaderTooLong {
        /// Bytes that it is said to have.
        length: u64,
    },
    /// The dictionary is not one that NumPy writes.
    #[error("its header is not understood at byte {at} of the file: {why}; write it with numpy.save")]
    Header {
        /// What should stand there.
        why: &'static str,
        /// Where in the file.
        at: usize,
    },
    /// Elements of another kind, or big-endian ones.
    #[error("its elements are `{0}`: convert them to little-endian integers, f4 or f8")]
    Element(String),
    /// The first coordinate is the fastest.
    #[error("it is in Fortran order: store it in C order")]
    Order,
    /// Not one to three coordinates.
    #[error("it has {0} coordinates, and one to three are possible: reshape it")]
    Dimensions(usize),
    /// An extent is zero, or beyond 32 bits.
    #[error("its extent {0} is not between 1 and 2^32 - 1: cut or reshape it")]
    Extent(u64),
    /// More bytes than a file can have.
    #[error("its extents make more bytes than a file can have: use smaller ones")]
    TooLarge,
    /// Too few or too many bytes for the shape.
    #[error("it has {have} bytes, and its shape needs {need}: write or copy it again")]
    Size {
        /// Bytes that the shape needs, with the header.
        need: u64,
        /// Bytes of the file.
        have: u64,
    },
}

/// Why there is no such field.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FieldError {
    /// The system refused.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The file would not fit.
    #[error("{}: {} are needed, {} more than are free there: free some, or name another place", path.display(), Bytes(*need),
        Bytes(need.saturating_sub(*free)))]
    NoSpace {
        /// The file.
        path: PathBuf,
        /// Bytes that it would have.
        need: u64,
        /// Bytes that are free where it should lie.
        free: u64,
    },
    /// A file that gets no name cannot be made.
    #[error("field in a file without a name: {0}")]
    Unnamed(FormatError),
    /// It was told to stop.
    #[error("{}: interrupted while its numbers were made", path.display())]
    Stopped {
        /// The file.
        path: PathBuf,
    },
    /// It is not what is needed.
    #[error("{}: {error}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// Why.
        error: FormatError,
    },
}

/// Numbers in a file, in C order.
#[derive(Debug)]
pub struct Field {
    path: PathBuf,
    file: File,
    /// Of a file that was made, and may get a name.
    place: Option<Place>,
    shape: Vec<u64>,
    element: Element,
    start: u64,
}

impl Field {
    /// Opens an array file.
    ///
    /// # Errors
    /// [`FieldError`], naming the file.
    pub fn open(path: &Path) -> Result<Field, FieldError> {
        let io = |error| FieldError::Io { path: path.to_owned(), error };
        let format = |error| FieldError::Format { path: path.to_owned(), error };
        // A named pipe would wait for a writer, only to be refused.
        let file = input::open(path).map_err(io)?;
        let metadata = file.metadata().map_err(io)?;
        if !metadata.is_file() {
            return Err(io(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")));
        }
        let have = metadata.len();
        let mut bytes = vec![0; have.min(12 + HEADER_MAX as u64) as usize];
        file.read_exact_at(&mut bytes, 0).map_err(io)?;
        let header = npy::parse(&bytes).map_err(format)?;
        let need = size(&header.shape, header.element, header.start).map_err(format)?;
        if need != have {
            return Err(format(FormatError::Size { need, have }));
        }
        let npy::Header { shape, element, start } = header;
        Ok(Field { path: path.to_owned(), file, place: None, shape, element, start })
    }

    /// Makes an array file, whose numbers are all zero. It gets its name by [`Field::keep`]: whatever bears the name
    /// stays until then, and a field that is dropped before is removed. Without a path nobody else ever sees the file, and
    /// it goes with the value, whatever becomes of this process.
    ///
    /// # Errors
    /// [`FieldError`], naming the file.
    pub fn create(path: Option<&Path>, shape: &[u64], element: Element) -> Result<Field, FieldError> {
        let header = npy::header(element, shape);
        let start = header.len() as u64;
        let need = size(shape, element, start).map_err(|error| match path {
            Some(path) => FieldError::Format { path: path.to_owned(), error },
            None => FieldError::Unnamed(error),
        });
        let (path, place) = match path {
            Some(path) => {
                let place = Place::look(path).map_err(|error| FieldError::Io { path: path.to_owned(), error })?;
                (path.to_owned(), place)
            }
            None => Place::unnamed(),
        };
        let io = |error| FieldError::Io { path: path.clone(), error };
        let need = need?;
        // A file with holes would be made, and fill up everything later.
        let system = rustix::fs::statvfs(place.directory()).map_err(|errno| io(errno.into()))?;
        let free = system.f_bavail.saturating_mul(system.f_frsize);
        if need > free {
            return Err(FieldError::NoSpace { path, need, free });
        }
        let file = place.make().map_err(io)?;
        file.write_all_at(&header, 0).map_err(io)?;
        file.set_len(need).map_err(io)?;
        Ok(Field { path, file, place: Some(place), shape: shape.to_vec(), element, start })
    }

    /// Gives a file that was made its name, once all of it is on the disk; to one without a name, or that was opened, nothing
    /// happens.
    ///
    /// # Errors
    /// [`FieldError::Io`]; then the name is as it was, and the file is removed with the value.
    pub fn keep(&mut self) -> Result<(), FieldError> {
        let named = self.place.as_mut().map_or(Ok(()), |place| place.keep(&self.file));
        named.map_err(|error| FieldError::Io { path: self.path.clone(), error })
    }

    /// Fills it with numbers that follow from the seed.
    ///
    /// # Errors
    /// [`FieldError`], naming the file; [`FieldError::Stopped`] soon after `stop` is set.
    pub fn fill(&self, seed: u64, stop: &Stop) -> Result<(), FieldError> {
        let bytes = self.element.bytes();
        let mut numbers = vec![0; AT_ONCE * bytes];
        let mut at = 0;
        while at < self.points() {
            if stop.is_set() {
                return Err(FieldError::Stopped { path: self.path.clone() });
            }
            let count = (self.points() - at).min(AT_ONCE as u64);
            let numbers = &mut numbers[..count as usize * bytes];
            for (index, number) in (at..).zip(numbers.chunks_exact_mut(bytes)) {
                for_element!(self.element, V => V::write_random(scatter(seed, index), number));
            }
            self.write(at, numbers)?;
            at += count;
        }
        Ok(())
    }

    /// What its numbers are.
    #[must_use]
    pub fn element(&self) -> Element {
        self.element
    }

    /// Its extents, outermost first.
    #[must_use]
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// The same with ones in front, so that there are three.
    #[must_use]
    pub fn extents(&self) -> [u32; 3] {
        let mut extents = [1; 3];
        for (extent, &given) in extents.iter_mut().rev().zip(self.shape.iter().rev()) {
            // Checked when it was opened or made.
            *extent = given as u32;
        }
        extents
    }

    /// How many numbers it has.
    #[must_use]
    pub fn points(&self) -> u64 {
        self.shape.iter().product()
    }

    /// Bytes of all numbers.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.points() * self.element.bytes() as u64
    }

    /// Where it lies.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where other processes of this user open the file as long as this value lives, whether it has a name or not.
    #[must_use]
    pub fn open_path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd()))
    }

    /// Whether its bytes take memory: the file system in which it lies has no other place for them.
    #[must_use]
    pub fn in_memory(&self) -> bool {
        rustix::fs::fstatfs(&self.file).is_ok_and(|system| IN_MEMORY.contains(&(system.f_type as u32)))
    }

    fn offset(&self, point: u64) -> u64 {
        self.start + point * self.element.bytes() as u64
    }

    /// Reads numbers from this point on.
    ///
    /// # Errors
    /// [`LoadError::File`] with the offset.
    pub fn read(&self, point: u64, into: &mut [u8]) -> Result<(), LoadError> {
        let offset = self.offset(point);
        let read = self.file.read_exact_at(into, offset);
        read.map_err(|error| LoadError::File { path: self.path.clone(), offset, error })
    }

    /// Writes numbers from this point on.
    ///
    /// # Errors
    /// [`FieldError::Io`].
    pub fn write(&self, point: u64, from: &[u8]) -> Result<(), FieldError> {
        let written = self.file.write_all_at(from, self.offset(point));
        written.map_err(|error| FieldError::Io { path: self.path.clone(), error })
    }

    /// Writes a brick.
    ///
    /// # Errors
    /// [`FieldError::Io`].
    pub fn write_brick(&self, bricks: &Bricks, brick: Brick, from: &[u8]) -> Result<(), FieldError> {
        let bytes = self.element.bytes();
        for (point, at, length) in bricks.runs(brick) {
            self.write(point, from.get(at * bytes..(at + length) * bytes).unwrap_or_default())?;
        }
        Ok(())
    }
}

/// Bytes of the whole file.
fn size(shape: &[u64], element: Element, start: u64) -> Result<u64, FormatError> {
    if shape.is_empty() || shape.len() > 3 {
        return Err(FormatError::Dimensions(shape.len()));
    }
    if let Some(&extent) = shape.iter().find(|&&extent| extent == 0 || extent > u64::from(u32::MAX)) {
        return Err(FormatError::Extent(extent));
    }
    let bytes = shape.iter().try_fold(element.bytes() as u64, |bytes, &extent| bytes.checked_mul(extent));
    let bytes = bytes.and_then(|bytes| bytes.checked_add(start)).filter(|&bytes| bytes <= i64::MAX as u64);
    bytes.ok_or(FormatError::TooLarge)
}

/// Random bits of a number and a seed.
///
/// Source: G. Steele, D. Lea, C. Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
fn scatter(seed: u64, index: u64) -> u64 {
    let mut bits = seed ^ index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// Bricks of a field as inputs.
#[derive(Clone, Copy, Debug)]
pub struct BrickFile<'f> {
    /// The field.
    pub field: &'f Field,
    /// How it is cut.
    pub bricks: Bricks,
}

impl Source for BrickFile<'_> {
    fn load(&self, data: u64, into: &mut [u8], _: Instant) -> Result<(), LoadError> {
        let bytes = self.field.element.bytes();
        let brick = self.bricks.brick(data).ok_or(LoadError::Size { need: 0, have: into.len() })?;
        let (need, have) = (brick.len() * bytes, into.len());
        let into = into.get_mut(..need).ok_or(LoadError::Size { need, have })?;
        for (point, at, length) in self.bricks.runs(brick) {
            self.field.read(point, &mut into[at * bytes..(at + length) * bytes])?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

    use super::*;

    #[test]
    fn how_much_a_file_lacks_is_told_however_little_it_is() {
        let (path, free) = (PathBuf::from("a.npy"), 2 << 20);
        let error = FieldError::NoSpace { path, need: free + 128, free }.to_string();
        assert!(error.starts_with("a.npy: 2.00 MiB are needed, 128 B more than are free there: "), "{error}");
    }

    #[test]
    fn a_field_is_in_memory_where_the_system_says_that_files_are() {
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        let mounted = |line: &str| line.split(' ').nth(1) == Some("/dev/shm") && line.contains(" tmpfs ");
        let path = PathBuf::from(format!("/dev/shm/umbra-field-{}.npy", std::process::id()));
        // Some systems have no such directory.
        if let Ok(field) = Field::create(Some(&path), &[4], Element::U8) {
            assert_eq!(field.in_memory(), mounts.lines().any(mounted));
        }
    }
}
