//! Copies past the caches, for what another processor reads next.
//!
//! A store into a line that another processor has used fetches the line first, and where the two share no cache that costs
//! more than the copy. A store past the caches does not. It pays for long copies only: what was stored so is read from memory.

use std::ptr::NonNull;

/// Bytes from which on a copy goes past the caches.
pub(super) const LONG: usize = 4096;

/// Copies numbers, past the caches where the processor can. All of it is visible before any later store is.
///
/// # Safety
/// The processor has SSE2, as all of this architecture have. `to` is valid for writes of as many numbers as `from` has, which lie elsewhere.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse2")]
pub(super) unsafe fn copy(from: &[f64], to: NonNull<f64>) {
    use std::arch::x86_64::{_mm_set_pd, _mm_sfence, _mm_stream_pd};
    /// Values of a line of the cache: whole lines are stored without fetching them.
    const LINE: usize = 8;
    let ahead = to.as_ptr().align_offset(64).min(from.len());
    let (first, rest) = from.split_at(ahead);
    // SAFETY: the caller vouches for the target, which begins with as many numbers.
    unsafe { std::ptr::copy_nonoverlapping(first.as_ptr(), to.as_ptr(), first.len()) };
    let (lines, last) = rest.as_chunks::<LINE>();
    let mut at = to.as_ptr().wrapping_add(ahead);
    for line in lines {
        for (nth, &[low, high]) in line.as_chunks::<2>().0.iter().enumerate() {
            let two = _mm_set_pd(high, low);
            // SAFETY: within the target, as `line` is within the source, and aligned by the split above.
            unsafe { _mm_stream_pd(at.wrapping_add(2 * nth), two) };
        }
        at = at.wrapping_add(LINE);
    }
    // SAFETY: what is left of the target.
    unsafe { std::ptr::copy_nonoverlapping(last.as_ptr(), at, last.len()) };
    // ORDERING: stores past the caches are in no order with others until this fence.
    _mm_sfence();
}

/// The same on processors for which nothing is known to be better.
///
/// # Safety
/// As above.
#[cfg(not(target_arch = "x86_64"))]
pub(super) unsafe fn copy(from: &[f64], to: NonNull<f64>) {
    // SAFETY: the caller vouches for the target.
    unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to.as_ptr(), from.len()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_arrives_and_no_other_changes_whatever_the_alignment() {
        for (begin, len) in (0..9).flat_map(|begin| [0, 1, 7, 8, 9, 63, 64, 65, 200].map(|len| (begin, len))) {
            let from: Vec<f64> = (0..len).map(|nth| f64::from(nth) + 0.5).collect();
            let mut to = vec![-1.0; 220];
            let at = NonNull::from(&mut to[begin]);
            // SAFETY: fewer than the numbers behind it.
            unsafe { copy(&from, at) };
            let (before, rest) = to.split_at(begin);
            let (came, behind) = rest.split_at(from.len());
            assert_eq!(came, from, "{len} values at {begin}");
            assert!(before.iter().chain(behind).all(|&value| value == -1.0), "{len} values at {begin}");
        }
    }
}
