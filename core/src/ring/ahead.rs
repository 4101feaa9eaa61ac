//! Asking for lines before they are written.
//!
//! A sender writes into lines that the receiver's core has read last. Each has to be fetched from there, and the processor
//! begins with that when the store is done: too late for a sender that writes a line in less time than a transfer takes.
//! Whoever sends one item after the other knows where the next ones go, and asks for those lines some stores earlier.
//!
//! Source: `PREFETCHW` in the Intel 64 and AMD64 manuals, `PRFM` in the Arm Architecture Reference Manual.
#![allow(unsafe_code)]

/// How far ahead lines are asked for: about what is written during one transfer.
const AHEAD_BYTES: usize = 256;
/// Bytes of a line of any processor that this is worth while on.
const LINE_BYTES: usize = 64;

/// [`AHEAD_BYTES`] in items, at least one.
pub(super) const fn items_ahead<T>() -> usize {
    match AHEAD_BYTES.checked_div(size_of::<T>()) {
        None | Some(0) => 1,
        Some(items) => items,
    }
}

/// Whether an item with this index begins a line, so that one request a line is made; some lines are asked for twice if
/// items do not divide them.
#[inline(always)]
pub(super) const fn begins_a_line<T>(index: usize) -> bool {
    let per_line = match LINE_BYTES.checked_div(size_of::<T>()) {
        None | Some(0) => 1,
        Some(items) => 1 << items.ilog2(),
    };
    index & (per_line - 1) == 0
}

/// Asks for the line at this address in order to write to it. A hint: whatever the address is, nothing is read, written
/// or refused. On processors without such a hint it does nothing.
#[inline(always)]
pub(super) fn fetch_to_write<T>(at: *const T) {
    #[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
    // SAFETY: a prefetch accesses nothing that the program sees, and faults at no address.
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
