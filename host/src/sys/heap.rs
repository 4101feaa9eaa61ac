//! Memory of a length that somebody else chose: had, or refused.
//!
//! `vec![0; len]` ends the process if there is no memory for it, so nobody does that with a length that came from another
//! process or from a caller. A system may promise more than it has, and end the process when it is written: so what is
//! written at once is refused before if it is more than is free.
//!
//! ```
//! use umbra::sys::heap::filled;
//! assert_eq!(filled(7_u8, 3)?, [7, 7, 7]);
//! assert!(filled(0_u64, 1 << 57).is_err(), "no machine has as much");
//! # Ok::<(), umbra::sys::heap::NoMemory>(())
//! ```
//!
//! *Cost*: that of `vec!`, and to ask first; from 64 MiB on that is to read `/proc/meminfo`. Zeros that the system gives take
//! no memory before they are used.

use std::hint::black_box;

/// Bytes from which on it is asked whether they are free.
const LARGE: usize = 64 << 20;

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

/// Room for so many more in a list, which are written at once.
///
/// # Errors
/// [`NoMemory`], also if there are promises of so much, but no more is free; the list is as it was.
pub fn more<T>(list: &mut Vec<T>, count: usize) -> Result<(), NoMemory> {
    let none = NoMemory { bytes: list.len().saturating_add(count).saturating_mul(size_of::<T>()) };
    if !can_write(count.saturating_mul(size_of::<T>())) {
        return Err(none);
    }
    // A list that grows doubles, for which there may be no room where there is for this.
    list.try_reserve(count).or_else(|_| list.try_reserve_exact(count)).map_err(|_| none)
}

/// Bytes of memory that can be had without swapping; `None` where nobody says.
#[must_use]
pub fn free() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Whether so many bytes are free, as far as anybody says.
#[must_use]
pub fn has(bytes: u64) -> bool {
    free().is_none_or(|free| bytes <= free)
}

/// Whether so many bytes can be written at once.
fn can_write(bytes: usize) -> bool {
    bytes < LARGE || has(bytes as u64)
}

/// So many values, each of which is made and written.
///
/// # Errors
/// [`NoMemory`], also if there are promises of so much, but no more is free.
pub fn reserved<T>(count: usize, value: impl FnMut() -> T) -> Result<Vec<T>, NoMemory> {
    let bytes = count.saturating_mul(size_of::<T>());
    if !can_write(bytes) {
        return Err(NoMemory { bytes });
    }
    let mut values = room(count)?;
    values.resize_with(count, value);
    Ok(values)
}

/// So many copies of a number, which take no memory before they are used if it is zero.
///
/// # Errors
/// [`NoMemory`].
pub fn filled<T: Clone>(value: T, count: usize) -> Result<Vec<T>, NoMemory> {
    // Compilers leave out a question of whose answer nothing is used.
    drop(black_box(room::<T>(count)?));
    Ok(vec![value; count])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_free_is_not_written_though_the_system_would_promise_it() {
        let text = std::fs::read_to_string("/proc/meminfo").unwrap();
        let all = text.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix("kB"));
        // The system and this process are more than a mebibyte of it, so that much is never free, but promised.
        let bytes = (all.unwrap().trim().parse::<usize>().unwrap() - 1024) * 1024;
        assert_eq!(reserved(bytes, || -> u8 { unreachable!("nothing is written") }), Err(NoMemory { bytes }));
        let mut list: Vec<u8> = Vec::new();
        assert_eq!((more(&mut list, bytes), list.capacity()), (Err(NoMemory { bytes }), 0));
    }
}
