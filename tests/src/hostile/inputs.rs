//! Endless hostile inputs: noise, and valid bytes with something wrong.
//!
//! Noise rarely gets past a magic number. So most inputs start from a seed and are bent: bits flipped, integers
//! replaced by extremes, cut, extended, or spliced with another seed.

/// Longest input that is made.
const LONGEST: usize = 4096;

/// Words that arithmetic on lengths and offsets trips over.
const EXTREMES: [u64; 12] = [
    0,
    1,
    2,
    0x7f,
    0xff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x0080_0000,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    u64::MAX,
];

/// A reproducible stream of inputs.
#[derive(Debug, Clone)]
pub struct Inputs {
    state: u64,
    seeds: Vec<Vec<u8>>,
    bytes: Vec<u8>,
}

impl Inputs {
    /// A stream that depends on nothing but the seed number and the seed inputs.
    #[must_use]
    pub fn new(seed: u64, seeds: Vec<Vec<u8>>) -> Self {
        Self { state: seed, seeds, bytes: Vec::new() }
    }

    /// The next input.
    pub fn advance(&mut self) -> &[u8] {
        self.bytes.clear();
        if self.seeds.is_empty() || self.below(16) == 0 {
            self.noise();
        } else {
            let chosen = self.below(self.seeds.len());
            self.bytes.extend_from_slice(&self.seeds[chosen]);
            // A seed as it is comes up as well: every stream contains valid inputs.
            for _ in 0..self.below(4) {
                self.bend();
            }
        }
        self.bytes.truncate(LONGEST);
        &self.bytes
    }

    fn noise(&mut self) {
        let length = if self.below(4) == 0 { self.below(1024) } else { self.below(96) };
        for _ in 0..length {
            let byte = self.word() as u8;
            self.bytes.push(byte);
        }
    }

    fn bend(&mut self) {
        let length = self.bytes.len();
        let at = self.below(length.max(1));
        match self.below(7) {
            0 if length > 0 => self.bytes[at] ^= 1 << self.below(8),
            1 if length > 0 => self.bytes[at] = self.word() as u8,
            2 => self.bytes.truncate(at),
            3 => {
                for _ in 0..self.below(32) {
                    let byte = self.word() as u8;
                    self.bytes.push(byte);
                }
            }
            4 => {
                let word = EXTREMES[self.below(EXTREMES.len())].to_le_bytes();
                let width = [1, 2, 4, 8][self.below(4)];
                for (old, new) in self.bytes.iter_mut().skip(at).zip(&word[..width]) {
                    *old = *new;
                }
            }
            5 => {
                let other = self.below(self.seeds.len());
                let from = self.below(self.seeds[other].len().max(1));
                self.bytes.truncate(at);
                self.bytes.extend_from_slice(self.seeds[other].get(from..).unwrap_or_default());
            }
            _ if length > 0 => {
                let count = self.below(length - at + 1);
                self.bytes.drain(at..at + count);
            }
            _ => {}
        }
    }

    /// A number below a bound; the slight unevenness is of no interest here.
    fn below(&mut self, bound: usize) -> usize {
        (self.word() % bound.max(1) as u64) as usize
    }

    /// SplitMix64.
    fn word(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_inputs() {
        let seeds = vec![vec![1, 2, 3, 4, 5, 6, 7, 8]; 2];
        let (mut a, mut b) = (Inputs::new(7, seeds.clone()), Inputs::new(7, seeds));
        for _ in 0..1000 {
            assert_eq!(a.advance(), b.advance());
        }
    }

    #[test]
    fn valid_and_bent_inputs_both_come_up() {
        let seed = vec![9; 64];
        let mut inputs = Inputs::new(1, vec![seed.clone()]);
        let made: Vec<Vec<u8>> = (0..1000).map(|_| inputs.advance().to_vec()).collect();
        let valid = made.iter().filter(|bytes| **bytes == seed).count();
        assert!((100..900).contains(&valid), "{valid}");
        assert!(made.iter().any(|bytes| bytes.len() < 64) && made.iter().any(|bytes| bytes.len() > 64));
    }
}
