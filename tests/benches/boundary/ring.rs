//! Blocks and fields of ranks in a ring, each of which has two neighbours.

use umbra::boundary::{Fields, Mesh, NoMemory};
use umbra_core::boundary::{Element, Shape};

use crate::strips::{live, mark};
use crate::threads::Checked;

/// Two blocks a rank: the first lies above the second one of the rank before, and has no other neighbour. So each field of a block
/// has one strip, and a rank half of them to each side.
pub(crate) struct Ring {
    shape: Shape,
    ranks: u32,
}

impl Ring {
    /// Strips have so many bytes.
    pub(crate) fn new(ranks: u32, bytes: u32) -> Ring {
        let values = bytes / 8;
        Ring { shape: Shape::new([2 * values, 1, 1], [values, 0, 0]).expect("a row of cells"), ranks }
    }
}

impl Mesh for Ring {
    fn shape(&self) -> Shape {
        self.shape
    }

    fn blocks(&self) -> u32 {
        2 * self.ranks
    }

    fn owner(&self, block: u32) -> u32 {
        block / 2
    }

    fn neighbour(&self, block: u32, element: Element) -> Option<u32> {
        let (blocks, up) = (self.blocks(), element.offsets()[0] > 0);
        match (block % 2, up) {
            (1, true) => Some((block + 1) % blocks),
            (0, false) => Some((block + blocks - 1) % blocks),
            _ => None,
        }
    }
}

/// The fields of one rank. Strips are numbered as the peer does: those to the next rank are even, those to the one before odd.
pub(crate) struct Sides {
    rank: u32,
    ranks: u32,
    turn: u64,
    /// Values of a strip.
    len: usize,
    /// Of the lower block and the upper one.
    arrays: [Vec<Vec<f64>>; 2],
    present: [Vec<bool>; 2],
}

impl Sides {
    /// So many strips, of so many bytes, half of them to each neighbour.
    pub(crate) fn new(rank: u32, ranks: u32, channels: u32, bytes: u32) -> Sides {
        let (fields, len) = (channels as usize / 2, bytes as usize / 8);
        let arrays = [(); 2].map(|()| vec![vec![0.0; 4 * len]; fields]);
        Sides { rank, ranks, turn: 0, len, arrays, present: [(); 2].map(|()| vec![false; fields]) }
    }

    /// The rank beside the lower or the upper block.
    fn beside(&self, upper: bool) -> u32 {
        (self.rank + if upper { 1 } else { self.ranks - 1 }) % self.ranks
    }
}

/// The number of a strip among those of its sender.
fn strip(field: usize, from_upper: bool) -> usize {
    2 * field + usize::from(!from_upper)
}

impl Checked for Sides {
    fn touch(&mut self) {
        self.turn += 1;
        for upper in [false, true] {
            let block = usize::from(upper);
            for (field, (array, present)) in self.arrays[block].iter_mut().zip(&mut self.present[block]).enumerate() {
                *present = live(self.turn, self.rank, strip(field, upper));
                if *present {
                    let first = self.len * (1 + block);
                    let value = mark(self.turn, self.rank, strip(field, upper));
                    (array[first], array[first + self.len - 1]) = (value, value);
                }
            }
        }
    }

    fn check(&self) {
        for upper in [false, true] {
            let (block, sender) = (usize::from(upper), self.beside(upper));
            for (field, (array, &present)) in self.arrays[block].iter().zip(&self.present[block]).enumerate() {
                let strip = strip(field, !upper);
                let is = live(self.turn, sender, strip);
                let right = if present {
                    let first = 3 * self.len * block;
                    let value = if is { mark(self.turn, sender, strip) } else { 0.0 };
                    [array[first], array[first + self.len - 1]] == [value; 2]
                } else {
                    !is
                };
                assert!(right, "strip {strip} of rank {sender} in exchange {}", self.turn);
            }
        }
    }
}

impl Fields for Sides {
    fn values(&self, block: u32, field: u16) -> Option<&[f64]> {
        let (block, field) = (block as usize % 2, usize::from(field));
        let array = &*self.arrays[block][field];
        self.present[block][field].then_some(array)
    }

    fn is_present(&self, block: u32, field: u16) -> bool {
        self.present[block as usize % 2][usize::from(field)]
    }

    fn values_mut(&mut self, block: u32, field: u16) -> Option<&mut [f64]> {
        let (block, field) = (block as usize % 2, usize::from(field));
        let array = &mut *self.arrays[block][field];
        self.present[block][field].then_some(array)
    }

    fn allocate(&mut self, block: u32, field: u16) -> Result<(), NoMemory> {
        // As for the strips of two ranks.
        self.present[block as usize % 2][usize::from(field)] = true;
        Ok(())
    }
}
