//! The box: where a block's cells lie in it, and what a blob is made of.

use crate::boundary::{Grid, Mesh};

/// One field's blob and its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Blob {
    pub(super) center: [i64; 3],
    /// Cells a time step of problem A; signs of the velocity of problem B.
    pub(super) signs: [i64; 3],
    seed: u64,
    radius: i64,
    dimensions: usize,
}

/// splitmix64 of a number.
pub(super) const fn mix(seed: u64) -> u64 {
    let mut x = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

impl Blob {
    pub(super) fn new(seed: u64, field: u16, extent: i64, radius: u32, dimensions: u32) -> Blob {
        let seed = mix(seed ^ u64::from(field).wrapping_mul(0x51_7cc1_b727_2209));
        let on = |at: usize, n: i64| if at < dimensions as usize { n } else { 0 };
        Blob {
            center: std::array::from_fn(|at| on(at, (mix(seed ^ at as u64) % extent as u64) as i64)),
            signs: std::array::from_fn(|at| on(at, if seed >> at & 1 == 0 { 1 } else { -1 })),
            seed,
            radius: i64::from(radius),
            dimensions: dimensions as usize,
        }
    }

    /// The cells of the blob, relative to its middle.
    pub(super) fn cells(&self) -> impl Iterator<Item = [i64; 3]> + use<> {
        let (radius, dimensions) = (self.radius, self.dimensions);
        let side = 2 * radius + 1;
        (0..side.pow(dimensions as u32)).filter_map(move |at| {
            let from = [at % side - radius, at / side % side - radius, at / side / side - radius];
            let from = std::array::from_fn(|d| if d < dimensions { from[d] } else { 0 });
            let square: i64 = from.iter().map(|x: &i64| x * x).sum();
            (square <= radius * radius).then_some(from)
        })
    }

    /// What a cell of problem A's blob holds: a multiple of 2^-20 in (0, 1], so that all differences are exact.
    pub(super) fn exact(&self, from: [i64; 3]) -> f64 {
        let name = from.iter().fold(self.seed, |name, &x| mix(name ^ x as u64));
        ((name % (1 << 20)) + 1) as f64 / f64::from(1 << 20)
    }

    /// What a cell of problem B's blob holds: a cosine bump.
    pub(super) fn smooth(&self, from: [i64; 3]) -> f64 {
        let square: i64 = from.iter().map(|x| x * x).sum();
        let way = (square as f64).sqrt() / (self.radius as f64 + 1.0);
        0.5 * (1.0 + (std::f64::consts::PI * way).cos())
    }
}

/// Where the cells of a block lie.
#[derive(Clone, Copy, Debug)]
pub(super) struct Domain {
    /// Cells of the box along each direction.
    pub(super) extent: [i64; 3],
    cells: [i64; 3],
    counts: [i64; 3],
    ghosts: [i64; 3],
    whole: [i64; 3],
}

impl Domain {
    pub(super) fn new(grid: &Grid) -> Domain {
        let shape = grid.shape();
        let (cells, counts) = (shape.cells().map(i64::from), grid.counts().map(i64::from));
        let extent = std::array::from_fn(|d| cells[d] * counts[d]);
        Domain { extent, cells, counts, ghosts: shape.ghosts().map(i64::from), whole: shape.extents().map(i64::from) }
    }

    /// The block that a cell of the box lies in, and its place in the block's array.
    pub(super) fn find(&self, cell: [i64; 3]) -> (u32, usize) {
        let at: [i64; 3] = std::array::from_fn(|d| cell[d].rem_euclid(self.extent[d]));
        let block: [i64; 3] = std::array::from_fn(|d| at[d] / self.cells[d]);
        let within: [i64; 3] = std::array::from_fn(|d| at[d] % self.cells[d] + self.ghosts[d]);
        let number = (block[2] * self.counts[1] + block[1]) * self.counts[0] + block[0];
        (number as u32, ((within[2] * self.whole[1] + within[1]) * self.whole[0] + within[0]) as usize)
    }

    /// Calls `each` with the number in the box and the place in the array of every interior cell of a block.
    pub(super) fn interior(&self, position: [u32; 3], mut each: impl FnMut(u64, usize)) {
        let first: [i64; 3] = std::array::from_fn(|d| i64::from(position[d]) * self.cells[d]);
        for z in 0..self.cells[2] {
            for y in 0..self.cells[1] {
                let row = ((z + self.ghosts[2]) * self.whole[1] + y + self.ghosts[1]) * self.whole[0] + self.ghosts[0];
                let number = ((first[2] + z) * self.extent[1] + first[1] + y) * self.extent[0] + first[0];
                for x in 0..self.cells[0] {
                    each((number + x) as u64, (row + x) as usize);
                }
            }
        }
    }
}
