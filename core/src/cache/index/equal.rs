//! Which of four ids is the one that is looked for, all at once.
//!
//! On x86-64 two vector instructions compare them: a processor that waits for the memory of one search can begin the next
//! ones only as long as it has room to hold their instructions, and of plain ones it would have to hold four times as many.
//!
//! Source: `PCMPEQD`, `SHUFPS` and `MOVMSKPS` in the Intel 64 and AMD64 manuals.
#![allow(unsafe_code)]

/// Four ids.
pub(super) const FOUR: usize = 4;

/// A bit for each of the four ids that is this one, the lowest for the first.
#[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
#[inline]
pub(super) fn equal(ids: &[u64; FOUR], data: u64) -> u32 {
    // SAFETY: whatever runs this has SSE2, or it was not compiled for it.
    unsafe { vector::equal(ids, data) }
}

#[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
mod vector {
    use core::arch::x86_64::{
        _mm_and_ps, _mm_castsi128_ps, _mm_cmpeq_epi32, _mm_movemask_ps, _mm_set_epi64x, _mm_set1_epi64x, _mm_shuffle_ps,
    };

    #[target_feature(enable = "sse2")]
    #[inline]
    pub(super) fn equal(ids: &[u64; super::FOUR], data: u64) -> u32 {
        let ([a, b, c, d], data) = (ids.map(u64::cast_signed), _mm_set1_epi64x(data.cast_signed()));
        // There is no comparison of 64 bits yet: of each id both halves are compared, and have to be equal.
        let first = _mm_castsi128_ps(_mm_cmpeq_epi32(_mm_set_epi64x(b, a), data));
        let second = _mm_castsi128_ps(_mm_cmpeq_epi32(_mm_set_epi64x(d, c), data));
        let low = _mm_shuffle_ps::<0b10_00_10_00>(first, second);
        let high = _mm_shuffle_ps::<0b11_01_11_01>(first, second);
        _mm_movemask_ps(_mm_and_ps(low, high)).cast_unsigned()
    }
}

#[cfg(not(all(target_arch = "x86_64", target_feature = "sse2", not(miri))))]
pub(super) use equal_one_by_one as equal;

/// The same without vectors.
#[cfg(any(test, not(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))))]
#[inline]
pub(super) fn equal_one_by_one(ids: &[u64; FOUR], data: u64) -> u32 {
    let is = |at: usize| u32::from(ids[at] == data) << at;
    is(0) | is(1) | is(2) | is(3)
}
