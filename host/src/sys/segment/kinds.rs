//! Memory that is no plain memfd: of huge pages, of this process alone, lent.

use std::ptr::NonNull;

use rustix::fs::MemfdFlags;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

use super::{Backing, Mapping, Segment, SegmentError};

impl Segment {
    /// As [`create`](Self::create), of pages of 2 MiB, all of which the system sets aside now; `len` is a multiple of that.
    ///
    /// # Errors
    /// [`SegmentError::Create`] if the system knows no such pages; [`SegmentError::Map`] if too few of them are free;
    /// [`SegmentError::FileLimit`].
    pub fn create_huge(name: &str, len: usize) -> Result<Segment, SegmentError> {
        Self::sealed(name, len, MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB)
    }

    /// Zero bytes of this process alone: a child that is forked off gets a copy.
    ///
    /// # Errors
    /// [`SegmentError::Empty`], [`SegmentError::Map`].
    pub fn private(len: usize) -> Result<Segment, SegmentError> {
        if len == 0 {
            return Err(SegmentError::Empty);
        }
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: no address is asked for, so no existing mapping is replaced.
        let base = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), len, protection, MapFlags::PRIVATE) }
            .map_err(|errno| SegmentError::Map { len, errno })?;
        let base = NonNull::new(base.cast::<u8>()).ok_or(SegmentError::Map { len, errno: Errno::INVAL })?;
        Ok(Segment { backing: Backing::Own, base, len, mapping: Mapping::ReadWrite })
    }

    /// Memory that the caller lends for ever.
    ///
    /// # Errors
    /// [`SegmentError::Empty`].
    pub fn lent(memory: &'static mut [u64]) -> Result<Segment, SegmentError> {
        let len = size_of_val(memory);
        let base = NonNull::from(memory).cast::<u8>();
        if len == 0 {
            return Err(SegmentError::Empty);
        }
        Ok(Segment { backing: Backing::Lent, base, len, mapping: Mapping::ReadWrite })
    }
}
