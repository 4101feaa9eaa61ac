//! Which of sixteen bytes are the one that is looked for, all at once.
//!
//! On x86-64 vector instructions compare them, elsewhere whole words. A processor that waits for the memory of one search
//! can begin the next ones only as long as it has room for the instructions that wait, so they are few.
//!
//! Source: `PCMPEQB` and `PMOVMSKB` in the Intel 64 and AMD64 manuals; Warren, "Hacker's Delight", 2nd edition, 6-1, for
//! bytes of a word that are 0.
#![allow(unsafe_code)]

/// Bytes that are compared.
pub(super) const BYTES: usize = 16;

/// A bit for each byte that is this one, the lowest for the first.
#[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
#[inline]
pub(super) fn equal(bytes: &[u8; BYTES], byte: u8) -> u32 {
    // SAFETY: whatever runs this has SSE2, or it was not compiled for it.
    unsafe { vector::equal(bytes, byte) }
}

#[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
mod vector {
    use core::arch::x86_64::{_mm_cmpeq_epi8, _mm_movemask_epi8, _mm_set_epi64x, _mm_set1_epi8};

    #[target_feature(enable = "sse2")]
    #[inline]
    pub(super) fn equal(bytes: &[u8; super::BYTES], byte: u8) -> u32 {
        let [low, high] = super::words(bytes);
        let bytes = _mm_set_epi64x(high.cast_signed(), low.cast_signed());
        _mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(byte.cast_signed()))).cast_unsigned()
    }
}

#[cfg(not(all(target_arch = "x86_64", target_feature = "sse2", not(miri))))]
pub(super) use equal_by_words as equal;

/// The same without vectors.
#[cfg(any(test, not(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))))]
#[inline]
pub(super) fn equal_by_words(bytes: &[u8; BYTES], byte: u8) -> u32 {
    /// All bits of a byte but the highest, in each byte of a word.
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    /// Gathers the lowest bits of all bytes in the highest byte, the first byte's lowest.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let [low, high] = words(bytes).map(|word| {
        let other = word ^ (u64::from(byte) * 0x0101_0101_0101_0101);
        // The highest bit of each byte that is 0.
        let zero = !(((other & LOW) + LOW) | other | LOW);
        ((zero >> 7).wrapping_mul(GATHER) >> 56) as u32
    });
    low | high << 8
}

/// The bytes as two words, the first byte lowest.
#[inline]
fn words(bytes: &[u8; BYTES]) -> [u64; 2] {
    let all = u128::from_le_bytes(*bytes);
    [all as u64, (all >> 64) as u64]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_is_found_where_it_stands_and_nowhere_else() {
        let near = [0_u8, 1, 2, 0x7f, 0x80, 0x81, 0xfe, 0xff];
        for byte in near {
            for start in 0..near.len() {
                let bytes: [u8; BYTES] = core::array::from_fn(|at| near[(start + at * at) % near.len()]);
                let expected = (0..BYTES).filter(|&at| bytes[at] == byte).fold(0, |found, at| found | 1 << at);
                assert_eq!(
                    (equal(&bytes, byte), equal_by_words(&bytes, byte)),
                    (expected, expected),
                    "{byte} in {bytes:?}"
                );
            }
        }
    }
}
