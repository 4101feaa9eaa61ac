//! Asking for lines before they are written.
//!
//! A sender writes into lines that the receiver's core has read last. Each has to be fetched from there, and the processor
//! begins with that when the store is done: too late for a sender that writes a line in less time than a transfer takes.
//! Whoever sends one item after the other, or short batches, knows where the next ones go, and asks for those lines some
//! stores earlier.

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

/// Items after which the next line begins, for items that divide a line; a power of two, at least one.
pub(super) const fn items_in_a_line<T>() -> usize {
    match LINE_BYTES.checked_div(size_of::<T>()) {
        None | Some(0) => 1,
        Some(items) => 1 << items.ilog2(),
    }
}

/// Whether an item with this index begins a line, so that one request a line is made; some lines are asked for twice if
/// items do not divide them.
#[inline(always)]
pub(super) const fn begins_a_line<T>(index: usize) -> bool {
    index & (items_in_a_line::<T>() - 1) == 0
}
