//! Memory by the page: a sealed memfd, mapped, or memory of this process alone.
//!
//! A segment is created by one process and handed to others as a file descriptor. Its size is sealed
//! before the descriptor leaves, so a mapping of it can never fault because somebody shrank the file; a
//! process that is handed a descriptor checks exactly that before it maps. Nothing is named in a file
//! system, so nothing is left behind when the last holder ends, however it ends.
//!
//! Bytes in a segment may change under the reader at any time. Therefore a segment gives no `&[u8]`: it
//! copies in and out, or lends a raw pointer.
//!
//! ```
//! use umbra::sys::segment::{Mapping, Segment};
//! let ours = Segment::create("example", 4096)?;
//! ours.write(100, b"hello")?;
//! let theirs = Segment::attach(ours.share()?, Mapping::ReadOnly, 4096)?;
//! let mut bytes = [0; 5];
//! theirs.read(100, &mut bytes)?;
//! assert_eq!(&bytes, b"hello");
//! # Ok::<(), umbra::sys::segment::SegmentError>(())
//! ```
//!
//! Source: `memfd_create(2)`, `fcntl(2)` on file seals.

mod error;
mod files;
mod kinds;
mod limit;
mod pages;
mod past;
mod placed;

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::ProtFlags;
use umbra_core::atomic::{AtomicU32, AtomicU64};
use umbra_core::cell::{Bytes, BytesMut};

pub use error::SegmentError;
pub(crate) use files::lies_at;
pub(crate) use limit::check_file_limit;

/// How a segment is mapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mapping {
    /// Loads only; a store through this mapping would fault, so it is refused before.
    ReadOnly,
    /// Loads and stores.
    ReadWrite,
}

/// Whose the memory is.
#[derive(Debug)]
enum Backing {
    /// That of a file, from this byte on.
    File(OwnedFd, u64),
    /// That of this process alone.
    Own,
    /// That of somebody who lent it for ever.
    Lent,
}

/// Memory that this process has mapped, mostly shared.
#[derive(Debug)]
pub struct Segment {
    backing: Backing,
    base: NonNull<u8>,
    len: usize,
    mapping: Mapping,
}

// SAFETY: the mapping belongs to the process, not to a thread, and lives until drop.
unsafe impl Send for Segment {}
// SAFETY: all access goes through raw copies and atomics; other processes race with us in any case, and no
// method creates a reference to plain bytes.
unsafe impl Sync for Segment {}

impl Segment {
    /// Makes a segment of `len` zero bytes whose size can never change, mapped for reading and writing.
    /// `name` is only shown in `/proc/PID/maps`.
    ///
    /// # Errors
    /// [`SegmentError::Empty`], [`SegmentError::FileLimit`], [`SegmentError::Create`], [`SegmentError::Map`].
    pub fn create(name: &str, len: usize) -> Result<Segment, SegmentError> {
        if len == 0 {
            return Err(SegmentError::Empty);
        }
        Self::sealed(name, len, MemfdFlags::empty())
    }

    fn sealed(name: &str, len: usize, pages: MemfdFlags) -> Result<Segment, SegmentError> {
        check_file_limit(len)?;
        let failed = |errno| SegmentError::Create { len, errno };
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | pages;
        let fd = rustix::fs::memfd_create(name, flags).map_err(failed)?;
        rustix::fs::ftruncate(&fd, len as u64).map_err(failed)?;
        rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW).map_err(failed)?;
        Self::map(fd, 0, len, Mapping::ReadWrite)
    }

    /// Maps the first `len` bytes of a segment that another process made.
    ///
    /// # Errors
    /// [`SegmentError::NotSealed`] and [`SegmentError::TooSmall`] if the descriptor is not what was
    /// announced; [`SegmentError::Map`] also when a writable mapping of a segment that forbids it is asked.
    pub fn attach(fd: OwnedFd, mapping: Mapping, len: usize) -> Result<Segment, SegmentError> {
        Self::attach_at(fd, mapping, 0, len)
    }

    /// As [`attach`](Self::attach), but the `len` bytes that begin at `offset`, a multiple of the page size.
    ///
    /// # Errors
    /// As [`attach`](Self::attach).
    pub fn attach_at(fd: OwnedFd, mapping: Mapping, offset: usize, len: usize) -> Result<Segment, SegmentError> {
        if len == 0 {
            return Err(SegmentError::Empty);
        }
        // A descriptor that cannot carry seals (a plain file, a pipe) is as unsafe as an unsealed one.
        let seals = rustix::fs::fcntl_get_seals(&fd).map_err(|_| SegmentError::NotSealed)?;
        if !seals.contains(SealFlags::SHRINK) {
            return Err(SegmentError::NotSealed);
        }
        let stat = rustix::fs::fstat(&fd).map_err(SegmentError::Descriptor)?;
        let actual = u64::try_from(stat.st_size).unwrap_or(0);
        let expected = offset.saturating_add(len);
        if actual < expected as u64 {
            return Err(SegmentError::TooSmall { expected, actual });
        }
        Self::map(fd, offset, len, mapping)
    }

    fn map(fd: OwnedFd, offset: usize, len: usize, mapping: Mapping) -> Result<Segment, SegmentError> {
        let protection = match mapping {
            Mapping::ReadOnly => ProtFlags::READ,
            Mapping::ReadWrite => ProtFlags::READ | ProtFlags::WRITE,
        };
        let base = placed::map(fd.as_fd(), offset as u64, len, protection)
            .map_err(|errno| SegmentError::Map { len, errno })?;
        Ok(Segment { backing: Backing::File(fd, offset as u64), base, len, mapping })
    }

    /// From now on nobody can map the segment for writing or write to its file, except through mappings
    /// that already exist: what an owner does before it exports memory for reading only.
    ///
    /// # Errors
    /// [`SegmentError::Descriptor`] if the kernel lacks the seal (before Linux 5.1).
    pub fn forbid_new_writers(&self) -> Result<(), SegmentError> {
        rustix::fs::fcntl_add_seals(self.file()?, SealFlags::FUTURE_WRITE).map_err(SegmentError::Descriptor)
    }

    /// Another descriptor of the same segment, to hand to a peer.
    ///
    /// # Errors
    /// [`SegmentError::Descriptor`] if no descriptor is free; [`SegmentError::Private`].
    pub fn share(&self) -> Result<OwnedFd, SegmentError> {
        self.file()?
            .try_clone_to_owned()
            .map_err(|e| SegmentError::Descriptor(Errno::from_io_error(&e).unwrap_or(Errno::MFILE)))
    }

    fn file(&self) -> Result<BorrowedFd<'_>, SegmentError> {
        match &self.backing {
            Backing::File(fd, _) => Ok(fd.as_fd()),
            Backing::Own | Backing::Lent => Err(SegmentError::Private),
        }
    }

    /// The number of the descriptor in this process, by which others of the same user find it in `/proc`.
    ///
    /// # Errors
    /// [`SegmentError::Private`].
    pub fn number(&self) -> Result<u32, SegmentError> {
        u32::try_from(self.file()?.as_raw_fd()).map_err(|_| SegmentError::Private)
    }

    /// Bytes in the segment, as mapped here.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// A segment always has bytes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// How it is mapped here.
    #[must_use]
    pub const fn mapping(&self) -> Mapping {
        self.mapping
    }

    /// Where it is mapped in this process. Other processes may change the bytes at any time: never make a
    /// reference to them.
    #[must_use]
    pub const fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// The address of byte `offset`, after checking that `len` bytes follow it.
    ///
    /// # Errors
    /// [`SegmentError::OutOfBounds`].
    #[inline]
    pub fn at(&self, offset: usize, len: usize) -> Result<NonNull<u8>, SegmentError> {
        if offset > self.len || len > self.len - offset {
            return Err(SegmentError::OutOfBounds { offset, len, size: self.len });
        }
        // SAFETY: offset <= self.len, the length of the mapping at self.base, was just checked.
        Ok(unsafe { self.base.add(offset) })
    }

    /// Like [`at`](Self::at), for storing.
    ///
    /// # Errors
    /// [`SegmentError::OutOfBounds`] or [`SegmentError::ReadOnly`].
    #[inline]
    pub fn at_writable(&self, offset: usize, len: usize) -> Result<NonNull<u8>, SegmentError> {
        match self.mapping {
            Mapping::ReadOnly => Err(SegmentError::ReadOnly),
            Mapping::ReadWrite => self.at(offset, len),
        }
    }

    /// The whole segment as shared bytes, for reading only.
    #[must_use]
    pub const fn bytes(&self) -> Bytes<'_> {
        // SAFETY: mapped and readable as long as `self` lives; nobody makes plain references to it.
        unsafe { Bytes::from_raw(self.base, self.len) }
    }

    /// The whole segment as shared bytes and atomic words.
    ///
    /// # Errors
    /// [`SegmentError::ReadOnly`].
    pub fn bytes_mut(&self) -> Result<BytesMut<'_>, SegmentError> {
        if self.mapping == Mapping::ReadOnly {
            return Err(SegmentError::ReadOnly);
        }
        // SAFETY: mapped, readable and writable as long as `self` lives; nobody makes plain references to it.
        Ok(unsafe { BytesMut::from_raw(self.base, self.len) })
    }

    /// Copies bytes out of the segment.
    ///
    /// # Errors
    /// [`SegmentError::OutOfBounds`]; nothing is copied then.
    #[inline]
    pub fn read(&self, offset: usize, into: &mut [u8]) -> Result<(), SegmentError> {
        let from = self.at(offset, into.len())?;
        // SAFETY: `at` checked the source; `into` is an exclusive slice of this process, so the two cannot
        // overlap unless the caller made a slice of the mapping, which no safe method allows.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), into.as_mut_ptr(), into.len()) };
        Ok(())
    }

    /// Copies bytes into the segment.
    ///
    /// # Errors
    /// [`SegmentError::OutOfBounds`] or [`SegmentError::ReadOnly`]; nothing is copied then.
    #[inline]
    pub fn write(&self, offset: usize, from: &[u8]) -> Result<(), SegmentError> {
        let to = self.at_writable(offset, from.len())?;
        // SAFETY: `at_writable` checked the target, the mapping is writable, and no safe method makes a slice of it.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to.as_ptr(), from.len()) };
        Ok(())
    }

    /// Copies numbers out of the segment, as they lie in memory.
    ///
    /// # Errors
    /// [`SegmentError::OutOfBounds`]; nothing is copied then.
    #[inline]
    pub fn read_values(&self, offset: usize, into: &mut [f64]) -> Result<(), SegmentError> {
        let from = self.at(offset, size_of_val(into))?;
        // SAFETY: as in `read`; any bits are a number.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), into.as_mut_ptr().cast(), size_of_val(into)) };
        Ok(())
    }

    /// Whether processors of this architecture can [write past the caches](Self::write_values).
    pub const WRITES_PAST: bool = cfg!(target_arch = "x86_64");

    /// Copies numbers into the segment, as they lie in memory, for another processor to read: `past` the caches, if so and the
    /// processor can. Then they are in no order with later stores until [`settle_values`](Self::settle_values).
    ///
    /// # Errors
    /// [`SegmentError::OutOfBounds`] or [`SegmentError::ReadOnly`]; nothing is copied then.
    #[inline]
    pub fn write_values(&self, offset: usize, from: &[f64], past: bool) -> Result<(), SegmentError> {
        let to = self.at_writable(offset, size_of_val(from))?;
        if past && to.cast::<f64>().is_aligned() {
            // SAFETY: as in `write`; all of x86-64 has SSE2.
            unsafe { past::copy(from, to.cast()) };
        } else {
            // SAFETY: as in `write`; numbers have no padding.
            unsafe { std::ptr::copy_nonoverlapping(from.as_ptr().cast(), to.as_ptr(), size_of_val(from)) };
        }
        Ok(())
    }

    /// What this thread has [written past the caches](Self::write_values) is visible before whatever it stores from now on.
    #[inline]
    pub fn settle_values(&self) {
        past::settle();
    }

    /// Copies bytes from one segment into another, or within one: the single copy of a served read.
    ///
    /// # Errors
    /// [`SegmentError::OutOfBounds`] or [`SegmentError::ReadOnly`]; nothing is copied then.
    #[inline]
    pub fn copy(&self, from: usize, to: &Segment, at: usize, len: usize) -> Result<(), SegmentError> {
        let (source, target) = (self.at(from, len)?, to.at_writable(at, len)?);
        // SAFETY: both ranges were just checked, the target is writable; `copy` allows that they overlap,
        // which two mappings of one file may do without our seeing it.
        unsafe { std::ptr::copy(source.as_ptr(), target.as_ptr(), len) };
        Ok(())
    }

    /// The 64-bit word at `offset`.
    ///
    /// # Errors
    /// [`SegmentError::OutOfBounds`], [`SegmentError::Unaligned`], or [`SegmentError::ReadOnly`].
    pub fn word(&self, offset: usize) -> Result<&AtomicU64, SegmentError> {
        let at = self.atomic_at(offset, 8)?;
        // SAFETY: in bounds, aligned, writable (checked by `atomic_at`), mapped as long as `self` lives, and
        // atomics may be shared with other processes.
        Ok(unsafe { at.cast::<AtomicU64>().as_ref() })
    }

    /// `count` words from `offset` on.
    ///
    /// # Errors
    /// [`SegmentError::OutOfBounds`], [`SegmentError::Unaligned`], or [`SegmentError::ReadOnly`].
    pub fn words(&self, offset: usize, count: usize) -> Result<&[AtomicU64], SegmentError> {
        let len = count.checked_mul(8).ok_or(SegmentError::OutOfBounds { offset, len: usize::MAX, size: self.len })?;
        self.atomic_at(offset, 8)?;
        let at = self.at(offset, len)?;
        // SAFETY: in bounds (checked by `at`), aligned and writable (by `atomic_at`), mapped as long as `self`
        // lives, and atomics may be shared with other processes.
        Ok(unsafe { std::slice::from_raw_parts(at.as_ptr().cast::<AtomicU64>(), count) })
    }

    /// All whole 64-bit words. Of a read-only mapping they may only be loaded, and only with relaxed order:
    /// anything else faults.
    #[must_use]
    pub fn all_words(&self) -> &[AtomicU64] {
        // SAFETY: a mapping begins at a page and lent memory at a word, so it is aligned; len / 8 words lie in it; it is mapped as long as
        // `self` lives; atomics may be shared with other processes, and every bit pattern is one.
        unsafe { std::slice::from_raw_parts(self.base.cast::<AtomicU64>().as_ptr(), self.len / 8) }
    }

    /// The 32-bit word at `offset`.
    ///
    /// # Errors
    /// [`SegmentError::OutOfBounds`], [`SegmentError::Unaligned`], or [`SegmentError::ReadOnly`].
    pub fn half_word(&self, offset: usize) -> Result<&AtomicU32, SegmentError> {
        let at = self.atomic_at(offset, 4)?;
        // SAFETY: as in `word`.
        Ok(unsafe { at.cast::<AtomicU32>().as_ref() })
    }

    fn atomic_at(&self, offset: usize, size: usize) -> Result<NonNull<u8>, SegmentError> {
        if self.mapping == Mapping::ReadOnly {
            return Err(SegmentError::ReadOnly);
        }
        // The mapping itself is page-aligned, and lent memory begins at a word.
        if !offset.is_multiple_of(size) {
            return Err(SegmentError::Unaligned(offset));
        }
        self.at(offset, size)
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        if matches!(self.backing, Backing::Lent) {
            return;
        }
        // SAFETY: base and len are those of the mapping made in `map` or `private`; nobody borrows it any more.
        let unmapped = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len) };
        debug_assert_eq!(unmapped, Ok(()), "a mapping that we made can be removed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_that_could_shrink_under_us_is_refused() {
        let unsealed = rustix::fs::memfd_create("unsealed", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::ftruncate(&unsealed, 4096).unwrap();
        assert_eq!(Segment::attach(unsealed, Mapping::ReadOnly, 4096).unwrap_err(), SegmentError::NotSealed);
        let (no_memory, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert_eq!(Segment::attach(no_memory.into(), Mapping::ReadOnly, 1).unwrap_err(), SegmentError::NotSealed);
    }

    #[test]
    fn an_announced_size_is_checked_against_the_file() {
        let segment = Segment::create("small", 100).unwrap();
        let error = Segment::attach(segment.share().unwrap(), Mapping::ReadOnly, 101).unwrap_err();
        assert_eq!(error, SegmentError::TooSmall { expected: 101, actual: 100 });
        let error = Segment::attach(segment.share().unwrap(), Mapping::ReadOnly, usize::MAX).unwrap_err();
        assert_eq!(error, SegmentError::TooSmall { expected: usize::MAX, actual: 100 });
    }

    #[test]
    fn ranges_are_checked_without_overflow() {
        let segment = Segment::create("bounds", 64).unwrap();
        for (offset, len) in [(64, 1), (usize::MAX, 2), (2, usize::MAX), (0, 65)] {
            assert_eq!(segment.at(offset, len).unwrap_err(), SegmentError::OutOfBounds { offset, len, size: 64 });
        }
        assert!(segment.at(64, 0).is_ok());
        assert_eq!(segment.word(4).unwrap_err(), SegmentError::Unaligned(4));
    }

    #[test]
    fn a_segment_exported_for_reading_cannot_be_mapped_for_writing() {
        let ours = Segment::create("read only", 64).unwrap();
        ours.forbid_new_writers().unwrap();
        let error = Segment::attach(ours.share().unwrap(), Mapping::ReadWrite, 64).unwrap_err();
        assert_eq!(error, SegmentError::Map { len: 64, errno: Errno::PERM });
        let theirs = Segment::attach(ours.share().unwrap(), Mapping::ReadOnly, 64).unwrap();
        assert_eq!(theirs.write(0, b"x").unwrap_err(), SegmentError::ReadOnly);
        ours.write(0, b"y").unwrap();
        let mut byte = [0];
        theirs.read(0, &mut byte).unwrap();
        assert_eq!(&byte, b"y");
    }
}
