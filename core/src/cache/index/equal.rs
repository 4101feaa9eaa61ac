//! Which of five ids is the one that is looked for, all at once.
//!
//! On x86-64 vector instructions compare them. A processor that waits for the memory of one search can begin the next ones
//! only as long as it has room for the instructions that wait: of vector instructions it keeps them in a place of their own,
//! and plain ones would be three times as many.
//!
//! Source: `PCMPEQD`, `PACKSSDW`, `PACKSSWB` and `PMOVMSKB` in the Intel 64 and AMD64 manuals.
#![allow(unsafe_code)]

/// Five ids.
pub(super) const FIVE: usize = 5;

/// A bit for each of the five ids that is this one, the lowest for the first. The next three may be anything, the others are 0.
#[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
#[inline]
pub(super) fn equal(ids: &[u64; FIVE], data: u64) -> u32 {
    // SAFETY: whatever runs this has SSE2, or it was not compiled for it.
    unsafe { vector::equal(ids, data) }
}

#[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
mod vector {
    use core::arch::x86_64::{
        _mm_cmpeq_epi16, _mm_cmpeq_epi32, _mm_movemask_epi8, _mm_packs_epi16, _mm_packs_epi32, _mm_set_epi64x,
        _mm_set1_epi16, _mm_set1_epi64x, _mm_setzero_si128,
    };

    #[target_feature(enable = "sse2")]
    #[inline]
    pub(super) fn equal(ids: &[u64; super::FIVE], data: u64) -> u32 {
        let ([a, b, c, d, e], data) = (ids.map(u64::cast_signed), _mm_set1_epi64x(data.cast_signed()));
        // There is no comparison of 64 bits yet: of each id both halves are compared, and have to be equal.
        let first = _mm_cmpeq_epi32(_mm_set_epi64x(b, a), data);
        let second = _mm_cmpeq_epi32(_mm_set_epi64x(d, c), data);
        let last = _mm_cmpeq_epi32(_mm_set_epi64x(0, e), data);
        // Two bytes for each id.
        let halves = _mm_packs_epi16(_mm_packs_epi32(first, second), _mm_packs_epi32(last, last));
        let both = _mm_cmpeq_epi16(halves, _mm_set1_epi16(-1));
        _mm_movemask_epi8(_mm_packs_epi16(both, _mm_setzero_si128())).cast_unsigned()
    }
}

#[cfg(not(all(target_arch = "x86_64", target_feature = "sse2", not(miri))))]
pub(super) use equal_one_by_one as equal;

/// The same without vectors.
#[cfg(any(test, not(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))))]
#[inline]
pub(super) fn equal_one_by_one(ids: &[u64; FIVE], data: u64) -> u32 {
    let is = |at: usize| u32::from(ids[at] == data) << at;
    is(0) | is(1) | is(2) | is(3) | is(4)
}
