//! Numbers that look random, the same in every run.
//!
//! It is splitmix64, as in `umbra::sim::Random`, which these tests do not reach.
//!
//! Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
#![allow(dead_code, reason = "each test program uses a part of it")]

/// The seeds of so many runs, or the one that `UMBRA_SEED` names, to repeat a run that failed.
pub(crate) fn seeds(runs: u64) -> std::ops::Range<u64> {
    let Ok(one) = std::env::var("UMBRA_SEED") else { return 0..runs };
    let seed = one.parse::<u64>().unwrap_or_else(|_| panic!("UMBRA_SEED={one} is no number"));
    seed..seed + 1
}

pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(end)) >> 64) as u64
    }

    /// The same as an index.
    pub(crate) fn index(&mut self, end: usize) -> usize {
        self.below(end as u64) as usize
    }

    /// Whether something happens that happens so often in a hundred times.
    pub(crate) fn happens(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}
