//! Two blocks, neighbours on one side or both, and fields of mostly empty strips.

use umbra::boundary::{Fields, Mesh, NoMemory};
use umbra_core::boundary::{Element, Shape};

/// Two blocks in a row, one on each of two ranks.
pub(crate) struct Pair {
    shape: Shape,
    sides: u32,
}

impl Pair {
    /// Strips have so many bytes. With one side the second block lies above the first; with two the row is periodic.
    pub(crate) fn new(bytes: u32, sides: u32) -> Pair {
        let values = bytes / 8;
        Pair { shape: Shape::new([2 * values, 1, 1], [values, 0, 0]).expect("a row of cells"), sides }
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

    fn neighbour(&self, block: u32, element: Element) -> Option<u32> {
        let inner = element.offsets()[0] > 0;
        if self.sides == 2 || inner == (block == 0) { Some(1 - block) } else { None }
    }
}

/// The fields of one rank's block: each has a strip on each side that has a neighbour. Which strips hold something in which
/// exchange is known to both ranks; a field of which none does is absent until something comes.
pub(crate) struct Strips {
    rank: u32,
    sides: usize,
    turn: u64,
    /// Values of a strip.
    len: usize,
    arrays: Vec<Vec<f64>>,
    present: Vec<bool>,
}

/// One strip in ten holds something.
pub(crate) fn live(turn: u64, sender: u32, strip: usize) -> bool {
    let mut x = turn.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(sender) << 40 ^ (strip as u64) << 20;
    x = (x ^ x >> 31).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (x ^ x >> 31) % 100 >= 90
}

/// The first and the last value of a strip.
pub(crate) fn mark(turn: u64, sender: u32, strip: usize) -> f64 {
    turn as f64 * 1e6 + f64::from(sender) * 4096.0 + strip as f64 + 1.0
}

impl Strips {
    /// So many strips each way, of so many bytes; of a field as many as there are sides.
    pub(crate) fn new(rank: u32, channels: u32, bytes: u32, sides: u32) -> Strips {
        let (fields, len) = ((channels / sides) as usize, bytes as usize / 8);
        let (arrays, present) = (vec![vec![0.0; 4 * len]; fields], vec![false; fields]);
        Strips { rank, sides: sides as usize, turn: 0, len, arrays, present }
    }

    /// New values for the next exchange.
    pub(crate) fn touch(&mut self) {
        self.turn += 1;
        // What is in the measured time has to be no slower than in the peer, so the loops over sides have no count to look at.
        if self.sides == 1 { self.touch_sides::<1>() } else { self.touch_sides::<2>() }
    }

    fn touch_sides<const SIDES: usize>(&mut self) {
        for (field, (array, present)) in self.arrays.iter_mut().zip(&mut self.present).enumerate() {
            let mut any = false;
            for side in 0..SIDES {
                let strip = SIDES * field + side;
                let is = live(self.turn, self.rank, strip);
                // Also of strips that hold nothing, as the one beside may.
                if is || SIDES > 1 {
                    let first = self.len * (1 + usize::from(is_upper::<SIDES>(self.rank, side)));
                    let value = if is { mark(self.turn, self.rank, strip) } else { 0.0 };
                    (array[first], array[first + self.len - 1]) = (value, value);
                }
                any |= is;
            }
            *present = any;
        }
    }

    /// What came is what the other rank had, and where it had nothing there is nothing.
    pub(crate) fn check(&self) {
        if self.sides == 1 { self.check_sides::<1>() } else { self.check_sides::<2>() }
    }

    fn check_sides<const SIDES: usize>(&self) {
        let sender = 1 - self.rank;
        for (field, (array, &present)) in self.arrays.iter().zip(&self.present).enumerate() {
            for side in 0..SIDES {
                let strip = SIDES * field + side;
                let is = live(self.turn, sender, strip);
                let right = if present {
                    // What lies at one end of a block there is wanted beyond the other end here.
                    let first = usize::from(!is_upper::<SIDES>(sender, side)) * 3 * self.len;
                    let value = if is { mark(self.turn, sender, strip) } else { 0.0 };
                    [array[first], array[first + self.len - 1]] == [value; 2]
                } else {
                    !is
                };
                assert!(right, "strip {strip} of exchange {}", self.turn);
            }
        }
    }
}

/// Whether a side is the upper end of a block: of one the inner one, of two first the lower one.
const fn is_upper<const SIDES: usize>(rank: u32, side: usize) -> bool {
    if SIDES == 1 { rank == 0 } else { side == 1 }
}

impl Fields for Strips {
    fn values(&self, _: u32, field: u16) -> Option<&[f64]> {
        let array = &*self.arrays[usize::from(field)];
        self.present[usize::from(field)].then_some(array)
    }

    fn is_present(&self, _: u32, field: u16) -> bool {
        self.present[usize::from(field)]
    }

    fn values_mut(&mut self, _: u32, field: u16) -> Option<&mut [f64]> {
        let array = &mut *self.arrays[usize::from(field)];
        self.present[usize::from(field)].then_some(array)
    }

    fn allocate(&mut self, _: u32, field: u16) -> Result<(), NoMemory> {
        // The memory is there already; what lies in ghosts is set, and nothing else is looked at.
        self.present[usize::from(field)] = true;
        Ok(())
    }
}
