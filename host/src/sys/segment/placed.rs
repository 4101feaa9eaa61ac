//! Where a mapping is put.

use std::os::fd::BorrowedFd;
use std::ptr::{NonNull, null_mut};

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

use crate::sys::large_pages::LARGE_PAGE;

/// Maps part of a file. What is long enough lies so that the file's large pages are this process's as well.
pub(super) fn map(file: BorrowedFd<'_>, offset: u64, len: usize, protection: ProtFlags) -> Result<NonNull<u8>, Errno> {
    if let Some(base) =
        Some(len).filter(|&len| len >= LARGE_PAGE).and_then(|len| in_step(file, offset, len, protection))
    {
        return Ok(base);
    }
    // SAFETY: no address is asked for, so no existing mapping is replaced.
    let base = unsafe { rustix::mm::mmap(null_mut(), len, protection, MapFlags::SHARED, file, offset) }?;
    NonNull::new(base.cast::<u8>()).ok_or(Errno::INVAL)
}

/// The same at an address that is as far behind a large page's begin as the offset is; `None` if there is none to be had.
fn in_step(file: BorrowedFd<'_>, offset: u64, len: usize, protection: ProtFlags) -> Option<NonNull<u8>> {
    let behind = usize::try_from(offset % LARGE_PAGE as u64).ok()?;
    let room = len.checked_add(2 * LARGE_PAGE)?;
    // SAFETY: no address is asked for, so no existing mapping is replaced.
    let begin = unsafe { rustix::mm::mmap_anonymous(null_mut(), room, ProtFlags::empty(), MapFlags::PRIVATE) }.ok()?;
    // SAFETY: what was just mapped, which nobody else knows.
    unsafe { rustix::mm::munmap(begin, room) }.ok()?;
    // The addresses were free a moment ago. If somebody else has them by now, no mapping is made.
    let at = begin.wrapping_byte_add(begin.cast::<u8>().align_offset(LARGE_PAGE)).wrapping_byte_add(behind);
    let flags = MapFlags::SHARED | MapFlags::FIXED_NOREPLACE;
    // SAFETY: no existing mapping is replaced; a system that does not know the flag takes the address for a wish.
    let base = unsafe { rustix::mm::mmap(at, len, protection, flags, file, offset) }.ok()?;
    NonNull::new(base.cast::<u8>())
}

#[cfg(test)]
mod tests {
    use super::super::{Mapping, Segment, SegmentError};
    use super::*;

    #[test]
    fn a_long_mapping_lies_as_far_behind_a_large_page_as_in_its_file() {
        let whole = Segment::create("in step", 3 * LARGE_PAGE + 5000).unwrap();
        assert_eq!(whole.base().as_ptr().addr() % LARGE_PAGE, 0);
        whole.write(3 * LARGE_PAGE + 4999, &[9]).unwrap();
        whole.write(8192, &[7]).unwrap();
        let len = 3 * LARGE_PAGE + 5000 - 8192;
        let part = Segment::attach_at(whole.share().unwrap(), Mapping::ReadOnly, 8192, len).unwrap();
        assert_eq!(part.base().as_ptr().addr() % LARGE_PAGE, 8192);
        let (mut first, mut last) = ([0], [0]);
        part.read(0, &mut first).unwrap();
        part.read(len - 1, &mut last).unwrap();
        assert_eq!((first, last), ([7], [9]));
    }

    #[test]
    fn a_segment_has_its_own_addresses_and_gives_them_back() {
        let mapped = || std::fs::read_to_string("/proc/self/maps").unwrap();
        let segment = Segment::create("alone", LARGE_PAGE).unwrap();
        let (begin, end) = (segment.base().as_ptr().addr(), segment.base().as_ptr().addr() + LARGE_PAGE);
        let ours = format!("{begin:x}-{end:x} rw-s");
        assert!(mapped().lines().any(|line| line.starts_with(&ours)), "{ours}");
        drop(segment);
        assert!(!mapped().lines().any(|line| line.starts_with(&ours)));
    }

    #[test]
    fn what_may_not_be_written_is_refused_and_takes_no_addresses() {
        let ours = Segment::create("refused", 2 * LARGE_PAGE).unwrap();
        ours.forbid_new_writers().unwrap();
        let error = Segment::attach(ours.share().unwrap(), Mapping::ReadWrite, 2 * LARGE_PAGE).unwrap_err();
        assert_eq!(error, SegmentError::Map { len: 2 * LARGE_PAGE, errno: Errno::PERM });
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        assert_eq!(maps.lines().filter(|line| line.contains("memfd:refused")).count(), 1, "{maps}");
    }
}
