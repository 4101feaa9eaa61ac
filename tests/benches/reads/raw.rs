//! What the peers of our reads do: the bare copy, and the bare system call.

use std::ptr::NonNull;

use umbra::sys::segment::Segment;

/// A bare copy from a mapped segment: no key, no bounds.
pub(crate) struct Mapped {
    from: NonNull<u8>,
    len: usize,
}

impl Mapped {
    pub(crate) fn new(segment: &Segment, len: usize) -> Mapped {
        let from = segment.at(0, len).unwrap_or_else(|error| panic!("{error}"));
        Mapped { from, len }
    }

    #[inline(always)]
    pub(crate) fn copy(&self, into: &mut [u8]) {
        let len = self.len.min(into.len());
        // SAFETY: `new` checked that len bytes are mapped there, the segment outlives every run, and `into` is
        // private memory of at least that many bytes.
        unsafe { std::ptr::copy_nonoverlapping(self.from.as_ptr(), into.as_mut_ptr(), len) };
    }
}

/// The bare system call.
#[inline(always)]
pub(crate) fn process_vm_readv(pid: u32, address: u64, into: &mut [u8]) {
    let ours = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let theirs = libc::iovec { iov_base: std::ptr::with_exposed_provenance_mut(address as usize), iov_len: into.len() };
    // SAFETY: one local range, which is an exclusive slice; the kernel checks the remote one.
    let moved = unsafe { libc::process_vm_readv(pid.cast_signed(), &raw const ours, 1, &raw const theirs, 1, 0) };
    assert_eq!(moved.cast_unsigned(), into.len(), "the owner's heap is there");
}
