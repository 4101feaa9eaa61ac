//! Which of four ids is the one that is looked for, all at once.
//!
//! The halves of the ids lie apart, so that two vector instructions compare them on x86-64: a processor that waits for the
//! memory of one search can begin the next ones only as long as it has room to hold their instructions, and of plain ones it
//! would have to hold four times as many.
//!
//! Source: `PCMPEQD` and `MOVMSKPS` in the Intel 64 and AMD64 manuals.
#![allow(unsafe_code)]

/// Four ids.
pub(super) const FOUR: usize = 4;

/// A bit for each of the four ids that is this one, the lowest for the first.
#[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
#[inline]
pub(super) fn equal(low: &[u32; FOUR], high: &[u32; FOUR], data: u64) -> u32 {
    // SAFETY: whatever runs this has SSE2, or it was not compiled for it.
    unsafe { vector::equal(low, high, data) }
}

#[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
mod vector {
    use core::arch::x86_64::{
        _mm_and_si128, _mm_castsi128_ps, _mm_cmpeq_epi32, _mm_movemask_ps, _mm_set_epi32, _mm_set1_epi32,
    };

    #[target_feature(enable = "sse2")]
    #[inline]
    pub(super) fn equal(low: &[u32; super::FOUR], high: &[u32; super::FOUR], data: u64) -> u32 {
        let ([a, b, c, d], [e, f, g, h]) = (low.map(u32::cast_signed), high.map(u32::cast_signed));
        let low = _mm_cmpeq_epi32(_mm_set_epi32(d, c, b, a), _mm_set1_epi32(data as i32));
        let high = _mm_cmpeq_epi32(_mm_set_epi32(h, g, f, e), _mm_set1_epi32((data >> 32) as i32));
        _mm_movemask_ps(_mm_castsi128_ps(_mm_and_si128(low, high))).cast_unsigned()
    }
}

#[cfg(not(all(target_arch = "x86_64", target_feature = "sse2", not(miri))))]
pub(super) use equal_one_by_one as equal;

/// The same without vectors.
#[cfg(any(test, not(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))))]
#[inline]
pub(super) fn equal_one_by_one(low: &[u32; FOUR], high: &[u32; FOUR], data: u64) -> u32 {
    let is = |at: usize| u32::from((low[at] == data as u32) & (high[at] == (data >> 32) as u32)) << at;
    is(0) | is(1) | is(2) | is(3)
}
