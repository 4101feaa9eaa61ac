//! Memory of a length that somebody else chose: had, or refused.
//!
//! `vec![0; len]` ends the process if there is no memory for it, so nobody does that with a length that came from another
//! process or from a caller.
//!
//! ```
//! use umbra::sys::heap::filled;
//! assert_eq!(filled(7_u8, 3)?, [7, 7, 7]);
//! assert!(filled(0_u64, 1 << 57).is_err(), "no machine has as much");
//! # Ok::<(), umbra::sys::heap::NoMemory>(())
//! ```
//!
//! *Cost*: that of `vec!`, and to ask first. Zeros that the system gives take no memory before they are used.

use std::hint::black_box;

/// There is no memory for something of this length.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no memory for {bytes} bytes: ask for fewer at once")]
pub struct NoMemory {
    /// The length.
    pub bytes: usize,
}

/// An empty list with room for so many.
///
/// # Errors
/// [`NoMemory`].
pub fn room<T>(count: usize) -> Result<Vec<T>, NoMemory> {
    let mut list = Vec::new();
    let bytes = count.saturating_mul(size_of::<T>());
    list.try_reserve_exact(count).map_err(|_| NoMemory { bytes })?;
    Ok(list)
}

/// Room for so many more in a list.
///
/// # Errors
/// [`NoMemory`]; the list is as it was.
pub fn more<T>(list: &mut Vec<T>, count: usize) -> Result<(), NoMemory> {
    let bytes = list.len().saturating_add(count).saturating_mul(size_of::<T>());
    list.try_reserve(count).map_err(|_| NoMemory { bytes })
}

/// So many values, each of which is made and written.
///
/// # Errors
/// [`NoMemory`].
pub fn reserved<T>(count: usize, value: impl FnMut() -> T) -> Result<Vec<T>, NoMemory> {
    let mut values = room(count)?;
    values.resize_with(count, value);
    Ok(values)
}

/// So many copies of a value.
///
/// # Errors
/// [`NoMemory`].
pub fn filled<T: Clone>(value: T, count: usize) -> Result<Vec<T>, NoMemory> {
    // Compilers leave out a question of whose answer nothing is used.
    drop(black_box(room::<T>(count)?));
    Ok(vec![value; count])
}
