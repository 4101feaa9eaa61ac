//! A checksum that no change of one word escapes.
//!
//! Each step is a bijection of the state for a given word and of the word for a given state, so two tables that
//! differ in a single word always differ in the sum; other differences go unnoticed with probability 2^-64. It
//! detects damage, not forgery: what comes from another process is validated as well, and links are authenticated.

const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;

/// The checksum of these words, in order.
pub(super) fn checksum(words: impl Iterator<Item = u64>) -> u64 {
    let mut count = 0;
    let state = words.fold(MULTIPLIER, |state: u64, word| {
        count += 1;
        (state.rotate_left(23) ^ word).wrapping_mul(MULTIPLIER)
    });
    let mixed = (state ^ count).wrapping_mul(MULTIPLIER);
    mixed ^ mixed >> 32
}
