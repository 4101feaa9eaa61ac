//! Bytes that another process may change at any time.
//!
//! Such bytes are never reached by a reference to plain memory: they are copied by volatile accesses, or
//! looked at as atomic words. A copy may mix old and new bytes; whoever needs more takes a sequence number
//! or a word that publishes. Read-only mappings have their own type, because a store there would fault.
//!
//! ```
//! use umbra_core::cell::BytesMut;
//! let mut memory = [0_u64; 4];
//! let shared = BytesMut::from_words(&mut memory);
//! shared.write(3, b"hello")?;
//! let mut copy = [0; 5];
//! shared.read_only().read(3, &mut copy)?;
//! assert_eq!(&copy, b"hello");
//! assert!(shared.write(30, b"hello").is_err());
//! # Ok::<(), umbra_core::cell::CellError>(())
//! ```
//!
//! *Cost*: eight bytes a load; on x86-64 the string instruction from 1 KiB on, which runs at the speed of
//! `memcpy`.
#![allow(unsafe_code)]

use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;

use crate::atomic::AtomicU64;

/// Why shared bytes cannot be reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum CellError {
    /// The range does not lie inside.
    OutOfRange {
        /// Where the range starts, in bytes.
        offset: usize,
        /// Bytes in the range.
        len: usize,
        /// Bytes there are.
        size: usize,
    },
    /// An atomic word lies at a multiple of eight bytes.
    Unaligned,
}

impl fmt::Display for CellError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CellError::OutOfRange { offset, len, size } => {
                write!(f, "{len} bytes at {offset} do not lie inside shared memory of {size} bytes")
            }
            CellError::Unaligned => f.write_str("an atomic word must lie at a multiple of eight bytes"),
        }
    }
}
impl core::error::Error for CellError {}

/// Shared bytes that this process only reads.
#[derive(Clone, Copy, Debug)]
pub struct Bytes<'a> {
    base: NonNull<u8>,
    len: usize,
    of: PhantomData<&'a [AtomicU64]>,
}

// SAFETY: the type allows only volatile and atomic accesses, which any thread may make at any time; that
// the memory lives for 'a was promised to `from_raw`.
unsafe impl Send for Bytes<'_> {}
// SAFETY: as for Send; no method needs exclusive access.
unsafe impl Sync for Bytes<'_> {}

/// Shared bytes that this process reads and writes.
#[derive(Clone, Copy, Debug)]
pub struct BytesMut<'a> {
    bytes: Bytes<'a>,
}

impl<'a> Bytes<'a> {
    /// Looks at `len` bytes at `base`.
    ///
    /// # Safety
    /// The memory is readable for all of `'a`, and no `&mut` or `&` to it as plain bytes is used meanwhile
    /// in this process.
    #[must_use]
    pub const unsafe fn from_raw(base: NonNull<u8>, len: usize) -> Self {
        Bytes { base, len, of: PhantomData }
    }

    /// None.
    #[must_use]
    pub const fn none() -> Self {
        Bytes { base: NonNull::dangling(), len: 0, of: PhantomData }
    }

    /// Bytes there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no byte.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The `len` bytes at `offset`.
    ///
    /// # Errors
    /// [`CellError::OutOfRange`].
    pub fn part(&self, offset: usize, len: usize) -> Result<Bytes<'a>, CellError> {
        let base = self.at(offset, len)?;
        Ok(Bytes { base, len, of: PhantomData })
    }

    /// Copies `into.len()` bytes at `offset` out.
    ///
    /// # Errors
    /// [`CellError::OutOfRange`]; nothing is copied then.
    #[inline]
    pub fn read(&self, offset: usize, into: &mut [u8]) -> Result<(), CellError> {
        let from = self.at(offset, into.len())?;
        // SAFETY: `at` checked the source; `into` is exclusive memory of this process, hence disjoint.
        unsafe { copy(from.as_ptr(), into.as_mut_ptr(), into.len()) };
        Ok(())
    }

    /// Loads the word at `offset`; what its writer wrote before storing it with release is visible after.
    ///
    /// # Errors
    /// [`CellError`] if the word lies outside or is not aligned.
    #[cfg(not(loom))]
    #[inline]
    pub fn word(&self, offset: usize) -> Result<u64, CellError> {
        let at = self.at(offset, size_of::<u64>())?.cast::<AtomicU64>();
        if !at.is_aligned() {
            return Err(CellError::Unaligned);
        }
        // SAFETY: in range (`at`), aligned, readable; a 64-bit atomic load does not write.
        let word = unsafe { at.as_ref() };
        Ok(word.load(crate::atomic::Ordering::Acquire))
    }

    #[inline]
    fn at(&self, offset: usize, len: usize) -> Result<NonNull<u8>, CellError> {
        if offset > self.len || len > self.len - offset {
            return Err(CellError::OutOfRange { offset, len, size: self.len });
        }
        // SAFETY: offset <= self.len, all of one memory by the promise of `from_raw`.
        Ok(unsafe { self.base.add(offset) })
    }
}

impl<'a> BytesMut<'a> {
    /// Looks at `len` bytes at `base`.
    ///
    /// # Safety
    /// The memory is readable and writable for all of `'a`, and no `&mut` or `&` to it as plain bytes is
    /// used meanwhile in this process.
    #[must_use]
    pub const unsafe fn from_raw(base: NonNull<u8>, len: usize) -> Self {
        BytesMut { bytes: Bytes { base, len, of: PhantomData } }
    }

    /// Shares memory that is this caller's alone.
    #[must_use]
    pub fn from_words(words: &'a mut [u64]) -> Self {
        let len = size_of_val(words);
        let base = NonNull::from(words).cast::<u8>();
        // SAFETY: exclusively borrowed for 'a, so nobody else has a reference to it.
        unsafe { BytesMut::from_raw(base, len) }
    }

    /// The same bytes, for reading only.
    #[must_use]
    pub const fn read_only(&self) -> Bytes<'a> {
        self.bytes
    }

    /// Bytes there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.bytes.len
    }

    /// Whether there is no byte.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.bytes.len == 0
    }

    /// The `len` bytes at `offset`.
    ///
    /// # Errors
    /// [`CellError::OutOfRange`].
    pub fn part(&self, offset: usize, len: usize) -> Result<BytesMut<'a>, CellError> {
        Ok(BytesMut { bytes: self.bytes.part(offset, len)? })
    }

    /// Copies bytes in at `offset`.
    ///
    /// # Errors
    /// [`CellError::OutOfRange`]; nothing is copied then.
    #[inline]
    pub fn write(&self, offset: usize, from: &[u8]) -> Result<(), CellError> {
        let to = self.bytes.at(offset, from.len())?;
        // SAFETY: `at` checked the target, writable by `from_raw`; `from` is a plain slice, hence disjoint.
        unsafe { copy(from.as_ptr(), to.as_ptr(), from.len()) };
        Ok(())
    }

    /// Copies `len` bytes at `from` of other shared bytes in at `offset`; the ranges must not overlap, else what arrives
    /// is a mixture of old and new bytes.
    ///
    /// # Errors
    /// [`CellError::OutOfRange`]; nothing is copied then.
    pub fn copy(&self, offset: usize, source: Bytes<'_>, from: usize, len: usize) -> Result<(), CellError> {
        let (to, from) = (self.bytes.at(offset, len)?, source.at(from, len)?);
        // SAFETY: `at` checked both ranges, the target is writable by `from_raw`; each access is a volatile one of its
        // own, so that ranges which overlap after all give wrong bytes and nothing worse.
        unsafe { copy(from.as_ptr(), to.as_ptr(), len) };
        Ok(())
    }

    /// The `count` words at byte `offset`, as atomics.
    ///
    /// # Errors
    /// [`CellError`] if they lie outside or are not aligned.
    #[cfg(not(loom))]
    pub fn words(&self, offset: usize, count: usize) -> Result<&'a [AtomicU64], CellError> {
        let len = count.saturating_mul(size_of::<u64>());
        let at = self.bytes.at(offset, len)?.cast::<AtomicU64>();
        if !at.is_aligned() {
            return Err(CellError::Unaligned);
        }
        // SAFETY: in range (`at`) and aligned; atomics may be shared with everyone, and by the promise of
        // `from_raw` nobody in this process looks at the bytes as plain memory during 'a.
        Ok(unsafe { core::slice::from_raw_parts(at.as_ptr(), count) })
    }
}

/// Copies bytes of which others may change one side meanwhile.
///
/// # Safety
/// `from` is readable and `to` writable for `len` bytes. Where they overlap the target holds a mixture afterwards.
#[inline]
unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
    if len >= 1024 {
        // SAFETY: the caller promises both ranges; the direction flag is clear by the calling convention.
        unsafe {
            core::arch::asm!(
                "rep movsb",
                inout("rcx") len => _,
                inout("rsi") from => _,
                inout("rdi") to => _,
                options(nostack, preserves_flags)
            );
        }
        return;
    }
    let word = |at: usize| {
        let (from, to) = (from.wrapping_add(at).cast::<Word>(), to.wrapping_add(at).cast::<Word>());
        // SAFETY: at + 8 <= len wherever this is called, and a `Word` has no alignment.
        let word = unsafe { from.read_volatile() };
        // SAFETY: as for the load.
        unsafe { to.write_volatile(word) };
    };
    let mut done = 0;
    // To count for every word would take longer than to copy it.
    while done + 32 <= len {
        [0, 8, 16, 24].into_iter().for_each(|at| word(done + at));
        done += 32;
    }
    while done + 8 <= len {
        word(done);
        done += 8;
    }
    while done < len {
        let (from, to) = (from.wrapping_add(done), to.wrapping_add(done));
        // SAFETY: done < len.
        let byte = unsafe { from.read_volatile() };
        // SAFETY: done < len.
        unsafe { to.write_volatile(byte) };
        done += 1;
    }
}

/// Eight bytes at any address.
#[derive(Clone, Copy)]
#[repr(C, packed)]
struct Word(u64);
