//! Large pages for tables that are touched at random.
//!
//! A processor has at hand where some thousand pages lie. Of a table of many megabytes nearly every touch is in another
//! page, and it first looks that up: in page tables of memory, in a virtual machine in those of two systems. Pages of
//! 2 MiB need a five-hundredth of the places. The system is asked, and may refuse: nothing but the time changes.
//!
//! Only memory of which all is used is worth it: of a large page that is touched once the system sets aside all.
//!
//! Source: `madvise(2)`, `MADV_HUGEPAGE` and, since Linux 6.1, `MADV_COLLAPSE`.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

use super::segment::Segment;

/// Bytes of a large page, where others have 4 KiB.
pub const LARGE_PAGE: usize = 2 << 20;

/// The large pages that lie in a range of memory as a whole: where the first begins, and the bytes of all.
fn whole(begin: *mut u8, len: usize) -> Option<(NonNull<c_void>, usize)> {
    let ahead = begin.align_offset(LARGE_PAGE);
    let len = len.checked_sub(ahead)? / LARGE_PAGE * LARGE_PAGE;
    let first = NonNull::new(begin.wrapping_add(ahead).cast::<c_void>())?;
    (len > 0).then_some((first, len))
}

/// Asks for large pages for memory in which nothing was written yet, all of which will be; nothing, if it is short.
pub fn wish<T>(room: &mut [MaybeUninit<T>]) {
    let len = size_of_val(room);
    if let Some((first, len)) = whole(room.as_mut_ptr().cast::<u8>(), len) {
        // SAFETY: lies in memory that the caller has, and changes nothing of what is read there.
        let _ = unsafe { rustix::mm::madvise(first.as_ptr(), len, rustix::mm::Advice::LinuxHugepage) };
    }
}

/// Has values that were just written put into large pages, as far as they lie in small ones: an allocator lends memory again
/// that others had before, and of that nothing [was wished for](wish) in time. Takes as long as a copy of it, once.
pub fn gather<T>(values: &mut [T]) {
    let len = size_of_val(values);
    if let Some((first, len)) = whole(values.as_mut_ptr().cast::<u8>(), len) {
        // SAFETY: lies in memory that the caller has, and what is read there stays as it is.
        let _ = unsafe { libc::madvise(first.as_ptr(), len, libc::MADV_COLLAPSE) };
    }
}

impl Segment {
    /// Has a segment put into large pages, as far as it has some as a whole; whether it is. All of it takes memory then.
    ///
    /// For whoever makes the segment: those who map it later have its large pages by themselves. Also where the system's
    /// settings say that shared memory gets none unless it is asked for.
    pub fn use_large_pages(&self) -> bool {
        let Some((first, len)) = whole(self.base().as_ptr(), self.len()) else { return false };
        let ahead = first.addr().get() - self.base().addr().get();
        for page in (ahead..ahead + len).step_by(LARGE_PAGE) {
            // What nothing of is mapped yet is refused.
            if self.read(page, &mut [0]).is_err() {
                return false;
            }
        }
        // SAFETY: the mapping is ours, and what is read there stays as it is.
        unsafe { libc::madvise(first.as_ptr(), len, libc::MADV_COLLAPSE) == 0 }
    }
}

#[cfg(test)]
mod tests {
    use rustix::mm::{Advice, MapFlags, ProtFlags, mmap_anonymous, munmap};

    use super::super::segment::Mapping;
    use super::*;

    /// Kibibytes that the system says of the mapping that this address lies in.
    fn said_of(address: usize, what: &str) -> u64 {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let is_in = |line: &str| {
            let (begin, end) = line.split_once(' ')?.0.split_once('-')?;
            let at = |hex| usize::from_str_radix(hex, 16).ok();
            Some((at(begin)?..at(end)?).contains(&address))
        };
        let mut lines = maps.lines().skip_while(|line| is_in(line) != Some(true));
        let line = lines.find_map(|line| line.strip_prefix(what)).expect("it is mapped");
        line.trim().strip_suffix("kB").unwrap().trim().parse().unwrap()
    }

    #[test]
    fn what_is_whole_within_a_range_is_found() {
        let at = |address: usize| std::ptr::without_provenance_mut::<u8>(address);
        let found = |begin, len| whole(at(begin), len).map(|(first, len)| (first.as_ptr().addr(), len));
        assert_eq!(found(LARGE_PAGE, LARGE_PAGE), Some((LARGE_PAGE, LARGE_PAGE)));
        assert_eq!(found(LARGE_PAGE + 8, 3 * LARGE_PAGE), Some((2 * LARGE_PAGE, 2 * LARGE_PAGE)));
        for (begin, len) in [(LARGE_PAGE, LARGE_PAGE - 1), (LARGE_PAGE + 1, LARGE_PAGE), (8, 100), (LARGE_PAGE, 0)] {
            assert_eq!(found(begin, len), None);
        }
    }

    #[test]
    fn what_was_written_in_small_pages_is_put_into_large_ones_and_stays_as_it_is() {
        let advise = |at: *mut c_void, len, advice| {
            // SAFETY: lies in the mapping below, and what is read there stays as it is.
            unsafe { rustix::mm::madvise(at, len, advice) }.unwrap();
        };
        let (len, access) = (4 * LARGE_PAGE, ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: memory of its own, where the system likes.
        let mapped = unsafe { mmap_anonymous(std::ptr::null_mut(), len, access, MapFlags::PRIVATE) }.unwrap();
        // Large pages are forbidden around what is looked at, so that it is a mapping by itself.
        advise(mapped, len, Advice::LinuxNoHugepage);
        let (first, len) = whole(mapped.cast::<u8>().wrapping_add(1), 3 * LARGE_PAGE).unwrap();
        // SAFETY: lies in the mapping, in which there are zeros, and nobody else has it.
        let bytes = unsafe { std::slice::from_raw_parts_mut(first.as_ptr().cast::<u8>(), len) };
        bytes.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at / 7) as u8);
        advise(first.as_ptr(), len, Advice::LinuxHugepage);
        // The system may have begun by itself, and may refuse what it is just busy with.
        let large = (0..10).map(|_| {
            gather(bytes);
            said_of(first.addr().get(), "AnonHugePages:")
        });
        let most = large.max().unwrap();
        assert!(bytes.iter().enumerate().all(|(at, &byte)| byte == (at / 7) as u8));
        match most {
            0 => eprintln!("skipped: this system gives no large pages"),
            kibibytes => assert_eq!(kibibytes, len as u64 / 1024),
        }
        // SAFETY: the mapping, of which nothing is used any more.
        unsafe { munmap(mapped, 4 * LARGE_PAGE) }.unwrap();
    }

    #[test]
    fn a_segment_is_in_large_pages_for_all_who_map_it_and_holds_what_it_held() {
        let len = 2 * LARGE_PAGE + 12_288;
        let ours = Segment::create("large", len).unwrap();
        let bytes: Vec<u8> = (0..len).map(|at| (at / 7) as u8).collect();
        ours.write(0, &bytes).unwrap();
        if !ours.use_large_pages() {
            eprintln!("skipped: this system gives no large pages for shared memory");
            return;
        }
        let theirs = Segment::attach(ours.share().unwrap(), Mapping::ReadOnly, len).unwrap();
        for segment in [&ours, &theirs] {
            let mut read = vec![0; len];
            segment.read(0, &mut read).unwrap();
            assert_eq!(read, bytes);
            assert_eq!(said_of(segment.base().as_ptr().addr(), "ShmemPmdMapped:"), 4096);
        }
        assert!(!Segment::create("short", 4096).unwrap().use_large_pages());
    }
}
