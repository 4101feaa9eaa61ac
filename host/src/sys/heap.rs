//! Memory of a length that somebody else chose: had, or refused.
//!
//! `vec![0; len]` ends the process if there is no memory for it, so nobody does that with a length that came from another
//! process or from a caller. A system may promise more than it has, and end the process when it is written: so what is
//! written at once is refused before if it is more than is free. That is asked about what is long, and else whenever all
//! that was had since the last question adds up to as much: of many short ones, or of one that grows by parts, the sum is
//! what a machine runs out of.
//!
//! ```
//! use umbra::sys::heap::filled;
//! assert_eq!(filled(7_u8, 3)?, [7, 7, 7]);
//! assert!(filled(0_u64, 1 << 57).is_err(), "no machine has as much");
//! # Ok::<(), umbra::sys::heap::NoMemory>(())
//! ```
//!
//! *Cost*: that of `vec!`, and an atomic subtraction; every 64 MiB, and more often where less than 1 GiB is free, also to
//! read `/proc/meminfo`. Zeros that the system gives take no memory before they are used.

use std::hint::black_box;

use umbra_core::atomic::{AtomicU64, Ordering};

use super::large_pages;

/// Bytes after which it is asked at the latest whether there are more.
const LARGE: u64 = 64 << 20;
/// The part of what is free after which it is asked again: other processes have some of it meanwhile.
const PART: u64 = 16;

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
    said("MemAvailable:")
}

/// Bytes of memory that the machine has, free or not; `None` where nobody says.
#[must_use]
pub fn total() -> Option<u64> {
    said("MemTotal:")
}

fn said(what: &str) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(what))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Whether so many bytes are free, as far as anybody says.
#[must_use]
pub fn has(bytes: u64) -> bool {
    free().is_none_or(|free| bytes <= free)
}

/// Whether this process is promised so many bytes beside what it has, in whatever parts, by the limits that are set for it.
#[must_use]
pub fn may_have(bytes: u64) -> bool {
    // A system that promises more than it has refuses what is more in one part.
    const PART: u64 = 1 << 30;
    let (mut parts, mut left): (Vec<Vec<u8>>, _) = (Vec::new(), bytes);
    while left > 0 {
        let part = left.min(PART);
        let Some(part_of_it) = usize::try_from(part).ok().and_then(|part| room(part).ok()) else { return false };
        parts.push(black_box(part_of_it));
        left -= part;
    }
    true
}

/// Bytes that this process may have before it asks again how many are free.
#[derive(Debug)]
struct Unasked(AtomicU64);

impl Unasked {
    /// Whether so many bytes can be written at once, by the number of those that are free if it is time to ask.
    fn can_write(&self, bytes: u64, free: impl FnOnce() -> Option<u64>) -> bool {
        // ORDERING: Relaxed, here and below: a number that orders nothing, of an estimate.
        if self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes)).is_ok() {
            return true;
        }
        let left = free().map_or(Some(LARGE), |free| free.checked_sub(bytes).map(|left| LARGE.min(left / PART)));
        // Who is refused leaves it to the next one to ask again.
        left.is_some_and(|left| {
            self.0.store(left, Ordering::Relaxed);
            true
        })
    }
}

/// Whether so many bytes can be written at once.
fn can_write(bytes: usize) -> bool {
    static UNASKED: Unasked = Unasked(AtomicU64::new(0));
    UNASKED.can_write(bytes as u64, free)
}

/// So many values, each of which is made and written; in [large pages](super::large_pages), if the system gives them.
///
/// # Errors
/// [`NoMemory`], also if there are promises of so much, but no more is free.
pub fn reserved<T>(count: usize, value: impl FnMut() -> T) -> Result<Vec<T>, NoMemory> {
    let bytes = count.saturating_mul(size_of::<T>());
    if !can_write(bytes) {
        return Err(NoMemory { bytes });
    }
    let mut values = room(count)?;
    large_pages::wish(values.spare_capacity_mut());
    values.resize_with(count, value);
    large_pages::gather(&mut values);
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
    use std::cell::Cell;

    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn what_grows_by_parts_is_refused_when_no_more_is_free_and_asked_about_now_and_then() {
        let (unasked, free, asked) = (Unasked(AtomicU64::new(0)), Cell::new(1024 * MIB + MIB / 2), Cell::new(0));
        let ask = || {
            asked.set(asked.get() + 1);
            Some(free.get())
        };
        let had = (0..4096).take_while(|_| unasked.can_write(MIB, ask)).inspect(|_| free.set(free.get() - MIB)).count();
        assert_eq!(had, 1024, "all that there was");
        assert!(asked.get() < 200, "{} times", asked.get());
        // Somebody gave back.
        free.set(3 * MIB);
        assert!(!unasked.can_write(4 * MIB, ask) && unasked.can_write(2 * MIB, ask));
    }

    #[test]
    fn what_is_given_back_each_time_costs_a_question_every_64_mebibytes() {
        let (unasked, asked) = (Unasked(AtomicU64::new(0)), Cell::new(0));
        for free in [Some(4096 * MIB), None] {
            let ask = || {
                asked.set(asked.get() + 1);
                free
            };
            assert!((0..1300).all(|_| unasked.can_write(MIB, ask)));
        }
        assert_eq!(asked.get(), 2600 / 65);
    }

    #[test]
    fn what_is_not_free_is_not_written_though_the_system_would_promise_it() {
        // The system and this process are more than a mebibyte of it, so that much is never free, but promised.
        let bytes = total().unwrap() as usize - (1 << 20);
        assert_eq!(reserved(bytes, || -> u8 { unreachable!("nothing is written") }), Err(NoMemory { bytes }));
        let mut list: Vec<u8> = Vec::new();
        assert_eq!((more(&mut list, bytes), list.capacity()), (Err(NoMemory { bytes }), 0));
    }
}
