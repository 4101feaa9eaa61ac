//! Where a mapping is put.

use std::ffi::c_void;
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

/// The same at an address that is as far behind a large page's begin as the offset is; `None` without addresses for it.
fn in_step(file: BorrowedFd<'_>, offset: u64, len: usize, protection: ProtFlags) -> Option<NonNull<u8>> {
    let len = len.checked_next_multiple_of(rustix::param::page_size())?;
    let behind = usize::try_from(offset % LARGE_PAGE as u64).ok()?;
    let room = len.checked_add(2 * LARGE_PAGE)?;
    // SAFETY: no address is asked for, so no existing mapping is replaced.
    let begin = unsafe { rustix::mm::mmap_anonymous(null_mut(), room, ProtFlags::empty(), MapFlags::PRIVATE) }.ok()?;
    let ahead = begin.cast::<u8>().align_offset(LARGE_PAGE).checked_add(behind).filter(|ahead| ahead + len <= room);
    let base = ahead.and_then(|ahead| {
        let at = begin.wrapping_byte_add(ahead);
        // SAFETY: takes the place of a part of what was mapped above, which nobody else knows.
        unsafe { rustix::mm::mmap(at, len, protection, MapFlags::SHARED | MapFlags::FIXED, file, offset) }.ok()
    });
    let (kept, end) = match base {
        Some(base) => (base, base.wrapping_byte_add(len)),
        None => (begin, begin),
    };
    give_back(begin, kept);
    give_back(end, begin.wrapping_byte_add(room));
    NonNull::new(base?.cast::<u8>())
}

/// Gives back the addresses between the two.
fn give_back(begin: *mut c_void, end: *mut c_void) {
    let len = end.addr() - begin.addr();
    if len > 0 {
        // SAFETY: whole pages of what `in_step` mapped and nobody else knows.
        let unmapped = unsafe { rustix::mm::munmap(begin, len) };
        debug_assert_eq!(unmapped, Ok(()), "what was just mapped can be removed");
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Mapping, Segment};
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
    fn nothing_else_stays_mapped_of_what_was_looked_through_for_a_place() {
        let mapped = || std::fs::read_to_string("/proc/self/maps").unwrap();
        let segment = Segment::create("alone", LARGE_PAGE).unwrap();
        let (begin, end) = (segment.base().as_ptr().addr(), segment.base().as_ptr().addr() + LARGE_PAGE);
        let ours = format!("{begin:x}-{end:x} rw-s");
        assert!(mapped().lines().any(|line| line.starts_with(&ours)), "{ours}");
        drop(segment);
        assert!(!mapped().lines().any(|line| line.starts_with(&ours)));
    }
}
