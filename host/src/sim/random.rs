//! A small seeded generator, so that a run can be repeated from its seed alone.
//!
//! Not for secrets. Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.

/// The generator splitmix64.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Starts at a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next 64 bits.
    pub const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    }

    /// A number below `n`; zero if `n` is zero.
    pub const fn below(&mut self, n: u64) -> u64 {
        if n == 0 { 0 } else { ((self.bits() as u128 * n as u128) >> 64) as u64 }
    }

    /// Whether something with this probability, in parts of a million, happens.
    pub const fn happens(&mut self, per_million: u32) -> bool {
        per_million > 0 && self.below(1_000_000) < per_million as u64
    }

    /// Puts the items in random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u64 + 1) as usize);
        }
    }
}
