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

/// So many copies of a value.
///
/// # Errors
/// [`NoMemory`].
pub fn filled<T: Clone>(value: T, count: usize) -> Result<Vec<T>, NoMemory> {
    let mut asked = Vec::<T>::new();
    let bytes = count.saturating_mul(size_of::<T>());
    asked.try_reserve_exact(count).map_err(|_| NoMemory { bytes })?;
    // Compilers leave out a question of whose answer nothing is used.
    drop(black_box(asked));
    Ok(vec![value; count])
}
