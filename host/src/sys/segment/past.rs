//! Copies past the caches, for what another processor reads next.
//!
//! A store into a line that another processor has read takes the line from it first: 7 ns a line where the two share a cache,
//! 30 ns where they share none, as measured on an EPYC. A store past the caches takes 3 ns in either case. What was stored so is
//! read from memory, so it pays for what is long and read in order, and ahead of its use.

use std::ptr::NonNull;

/// Numbers in a line.
#[cfg(target_arch = "x86_64")]
const LINE: usize = 8;

/// Copies numbers, past the caches where the processor can. They may become visible in any order, also after what is stored later,
/// until [`settle`].
///
/// # Safety
/// The processor has SSE2, as all of this architecture have. `to` is valid for writes of as many numbers as `from` has, which lie elsewhere.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse2")]
pub(super) unsafe fn copy(from: &[f64], to: NonNull<f64>) {
    let ahead = to.as_ptr().align_offset(LINE * size_of::<f64>()).min(from.len());
    let (first, rest) = from.split_at(ahead);
    let (lines, last) = rest.as_chunks::<LINE>();
    // What is less than a line as well goes past the caches, so that a line is whole when the next copy goes on in it.
    // SAFETY: the caller vouches for the target, of which this is the first part.
    let mut at = unsafe { copy_each(first, to.as_ptr()) };
    // Half as many stores wait for a line that is still on its way from the source.
    at = if std::arch::is_x86_feature_detected!("avx") {
        // SAFETY: the processor has AVX; the middle of the target, at the begin of a line.
        unsafe { copy_halves(lines, at) }
    } else {
        // SAFETY: the middle of the target, at the begin of a line.
        unsafe { copy_quarters(lines, at) }
    };
    // SAFETY: what is left of the target.
    unsafe { copy_each(last, at) };
}

/// Copies lines past the caches, half of one at a time, and returns what follows the target.
///
/// # Safety
/// The processor has AVX. `to` is the begin of a line, and valid for writes of as many lines as `from` has, which lie elsewhere.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx")]
unsafe fn copy_halves(from: &[[f64; LINE]], mut to: *mut f64) -> *mut f64 {
    use std::arch::x86_64::{_mm256_set_pd, _mm256_stream_pd};
    for &[a, b, c, d] in from.as_flattened().as_chunks().0 {
        let half = _mm256_set_pd(d, c, b, a);
        // SAFETY: within the target, as the four are within the source, and aligned because the target is.
        unsafe { _mm256_stream_pd(to, half) };
        to = to.wrapping_add(4);
    }
    to
}

/// The same, a quarter of a line at a time.
///
/// # Safety
/// As above, but for AVX.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse2")]
unsafe fn copy_quarters(from: &[[f64; LINE]], mut to: *mut f64) -> *mut f64 {
    use std::arch::x86_64::{_mm_set_pd, _mm_stream_pd};
    for &[low, high] in from.as_flattened().as_chunks().0 {
        let quarter = _mm_set_pd(high, low);
        // SAFETY: within the target, as the two are within the source, and aligned because the target is.
        unsafe { _mm_stream_pd(to, quarter) };
        to = to.wrapping_add(2);
    }
    to
}

/// Copies numbers past the caches one by one, and returns what follows the target.
///
/// # Safety
/// As above.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse2")]
#[inline]
unsafe fn copy_each(from: &[f64], mut to: *mut f64) -> *mut f64 {
    for value in from {
        // SAFETY: the caller vouches for the target.
        unsafe { std::arch::x86_64::_mm_stream_si64(to.cast(), value.to_bits().cast_signed()) };
        to = to.wrapping_add(1);
    }
    to
}

/// What was copied before is visible before whatever this thread stores later.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(super) fn settle() {
    // ORDERING: stores past the caches are in no order with others until this fence.
    // SAFETY: all processors of this architecture have SSE.
    unsafe { std::arch::x86_64::_mm_sfence() };
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

/// The same there: copies are ordinary stores.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub(super) const fn settle() {}

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

    /// Tests run where there is AVX, and nothing else would take this way.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn quarters_of_lines_arrive_as_halves_do() {
        #[repr(align(64))]
        struct Aligned([f64; 40]);
        let from: Vec<f64> = (0..24).map(|nth| f64::from(nth) + 0.5).collect();
        let mut to = Aligned([-1.0; 40]);
        // SAFETY: three of five lines.
        let end = unsafe { copy_quarters(from.as_chunks().0, to.0.as_mut_ptr()) };
        settle();
        assert_eq!(end, to.0[24..].as_mut_ptr());
        assert_eq!(to.0[..24], from);
        assert!(to.0[24..].iter().all(|&value| value == -1.0));
    }
}
