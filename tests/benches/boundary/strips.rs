//! Two blocks, each the neighbour of the other on both sides, and fields of which most strips are empty.

use umbra::boundary::{Fields, Mesh, NoMemory};
use umbra_core::boundary::{Element, Shape};

/// Two blocks in a periodic row, one on each of two ranks.
pub(crate) struct Pair {
    shape: Shape,
}

impl Pair {
    /// Strips have so many bytes.
    pub(crate) fn new(bytes: u32) -> Pair {
        let values = bytes / 8;
        Pair { shape: Shape::new([2 * values, 1, 1], [values, 0, 0]).expect("a row of cells") }
    }
}

impl Mesh for Pair {
    fn shape(&self) -> Shape {
        self.shape
    }

    fn blocks(&self) -> u32 {
        2
    }

    fn owner(&self, block: u32) -> u32 {
        block
    }

    fn neighbour(&self, block: u32, _: Element) -> Option<u32> {
        Some(1 - block)
    }
}

/// The fields of one rank's block: each has a strip at either end. Which strips hold something in which exchange is known to
/// both ranks; a field of which neither strip does is absent until something comes.
pub(crate) struct Strips {
    rank: u32,
    turn: u64,
    /// Values of a strip.
    len: usize,
    arrays: Vec<Vec<f64>>,
    present: Vec<bool>,
}

/// One strip in ten holds something.
fn live(turn: u64, sender: u32, strip: usize) -> bool {
    let mut x = turn.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(sender) << 40 ^ (strip as u64) << 20;
    x = (x ^ x >> 31).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (x ^ x >> 31) % 100 >= 90
}

/// The first and the last value of a strip.
fn mark(turn: u64, sender: u32, strip: usize) -> f64 {
    turn as f64 * 1e6 + f64::from(sender) * 4096.0 + strip as f64 + 1.0
}

impl Strips {
    /// So many strips each way, of so many bytes.
    pub(crate) fn new(rank: u32, channels: u32, bytes: u32) -> Strips {
        let (fields, len) = (channels as usize / 2, bytes as usize / 8);
        Strips { rank, turn: 0, len, arrays: vec![vec![0.0; 4 * len]; fields], present: vec![false; fields] }
    }

    /// New values for the next exchange.
    pub(crate) fn touch(&mut self) {
        self.turn += 1;
        for (field, (array, present)) in self.arrays.iter_mut().zip(&mut self.present).enumerate() {
            let sides = [0, 1].map(|side| live(self.turn, self.rank, 2 * field + side));
            *present = sides != [false; 2];
            if !*present {
                continue;
            }
            for (side, is) in sides.into_iter().enumerate() {
                let value = if is { mark(self.turn, self.rank, 2 * field + side) } else { 0.0 };
                let first = self.len * (1 + side);
                (array[first], array[first + self.len - 1]) = (value, value);
            }
        }
    }

    /// What came is what the other rank had, and where it had nothing there is nothing.
    pub(crate) fn check(&self) {
        let sender = 1 - self.rank;
        for (field, (array, &present)) in self.arrays.iter().zip(&self.present).enumerate() {
            for side in 0..2 {
                // What lies at one end of a block there is wanted beyond the other end here.
                let (strip, first) = (2 * field + side, (1 - side) * 3 * self.len);
                let is = live(self.turn, sender, strip);
                let value = if is { mark(self.turn, sender, strip) } else { 0.0 };
                let ends = (array[first], array[first + self.len - 1]);
                assert!(if present { ends == (value, value) } else { !is }, "strip {strip} of exchange {}", self.turn);
            }
        }
    }
}

impl Fields for Strips {
    fn values(&self, _: u32, field: u16) -> Option<&[f64]> {
        let field = usize::from(field);
        if self.present[field] { Some(&self.arrays[field]) } else { None }
    }

    fn values_mut(&mut self, _: u32, field: u16) -> Option<&mut [f64]> {
        let field = usize::from(field);
        if self.present[field] { Some(&mut self.arrays[field]) } else { None }
    }

    fn allocate(&mut self, _: u32, field: u16) -> Result<(), NoMemory> {
        // The memory is there already; strips that nobody sets are never looked at.
        let (field, len) = (usize::from(field), self.len);
        self.present[field] = true;
        for first in [0, 3 * len] {
            (self.arrays[field][first], self.arrays[field][first + len - 1]) = (0.0, 0.0);
        }
        Ok(())
    }
}
