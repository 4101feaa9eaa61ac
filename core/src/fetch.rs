//! Lines of memory that are brought near before they are needed.
//!
//! Who knows where he will look, or write, soon says so and works on meanwhile. All are hints: nothing is read, written or
//! refused whatever the address is, and on a processor whose instruction for it is not written here nothing happens.
//!
//! Source: `PREFETCHT0`, `PREFETCHT1` and `PREFETCHW` in the Intel 64 and AMD64 manuals, `PRFM` in the Arm Architecture
//! Reference Manual.
#![allow(unsafe_code)]

/// Has the processor bring the line at this address near, in order to read it.
#[inline(always)]
pub fn fetch_to_read<T>(at: *const T) {
    #[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
    // SAFETY: a prefetch accesses nothing that the program sees, and faults at no address.
    unsafe {
        core::arch::asm!("prefetcht0 [{}]", in(reg) at.addr(), options(nomem, nostack, preserves_flags));
    }
    #[cfg(all(target_arch = "aarch64", not(any(loom, miri))))]
    // SAFETY: as above.
    unsafe {
        core::arch::asm!("prfm pldl1keep, [{}]", in(reg) at.addr(), options(nomem, nostack, preserves_flags));
    }
    #[cfg(any(loom, miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = at;
}

/// Has the processor bring the line at this address half of the way, in order to read it after many others: into the second
/// cache, which waits for more lines at a time than the first.
#[inline(always)]
pub fn fetch_to_read_later<T>(at: *const T) {
    #[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
    // SAFETY: a prefetch accesses nothing that the program sees, and faults at no address.
    unsafe {
        core::arch::asm!("prefetcht1 [{}]", in(reg) at.addr(), options(nomem, nostack, preserves_flags));
    }
    #[cfg(all(target_arch = "aarch64", not(any(loom, miri))))]
    // SAFETY: as above.
    unsafe {
        core::arch::asm!("prfm pldl2keep, [{}]", in(reg) at.addr(), options(nomem, nostack, preserves_flags));
    }
    #[cfg(any(loom, miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = at;
}

/// Has the processor bring the line at this address near, in order to write to it: no other processor keeps it.
#[inline(always)]
pub fn fetch_to_write<T>(at: *const T) {
    #[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
    // SAFETY: as above.
    unsafe {
        core::arch::asm!("prefetchw [{}]", in(reg) at.addr(), options(nomem, nostack, preserves_flags));
    }
    #[cfg(all(target_arch = "aarch64", not(any(loom, miri))))]
    // SAFETY: as above.
    unsafe {
        core::arch::asm!("prfm pstl1keep, [{}]", in(reg) at.addr(), options(nomem, nostack, preserves_flags));
    }
    #[cfg(any(loom, miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = at;
}
