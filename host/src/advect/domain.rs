//! The box: where a block's cells lie in it, and what a blob is made of.

use crate::boundary::{Mesh as _, Tree};

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

    /// Where the cells of a level lie that belong to the blob.
    pub(super) fn cells(&self, level: u32) -> impl Iterator<Item = [i64; 3]> + use<> {
        let blob = *self;
        let reach = self.radius << level;
        let side = 2 * reach + (1 << level);
        (0..side.pow(blob.dimensions as u32)).filter_map(move |at| {
            let behind = [at % side, at / side % side, at / side / side];
            let cell = std::array::from_fn(|d| {
                if d < blob.dimensions { (blob.center[d] << level) + behind[d] - reach } else { 0 }
            });
            let reach = blob.radius << (level + 1);
            (blob.square(level, cell) <= reach * reach).then_some(cell)
        })
    }

    /// How far the middle of a cell of a level is from the middle of the blob, squared, in halves of such a cell.
    fn square(&self, level: u32, cell: [i64; 3]) -> i64 {
        let way = |d: usize| 2 * (cell[d] - (self.center[d] << level)) + 1 - (1 << level);
        (0..self.dimensions).map(|d| way(d) * way(d)).sum()
    }

    /// What a cell of problem A's blob holds: a multiple of 2^-20 in (0, 1], so that all differences are exact.
    pub(super) fn exact(&self, cell: [i64; 3]) -> f64 {
        let name = (0..3).fold(self.seed, |name, d| mix(name ^ (cell[d] - self.center[d]) as u64));
        ((name % (1 << 20)) + 1) as f64 / f64::from(1 << 20)
    }

    /// What a cell of problem B's blob holds: a cosine bump.
    pub(super) fn smooth(&self, level: u32, cell: [i64; 3]) -> f64 {
        let way = (self.square(level, cell) as f64).sqrt() / f64::from(2 << level) / (self.radius as f64 + 1.0);
        0.5 * (1.0 + (std::f64::consts::PI * way).cos())
    }
}

/// Where the cells of blocks lie.
#[derive(Clone, Debug)]
pub(super) struct Domain {
    pub(super) mesh: Tree,
    cells: [i64; 3],
    ghosts: [i64; 3],
    whole: [i64; 3],
}

impl Domain {
    pub(super) fn new(mesh: Tree) -> Domain {
        let shape = mesh.shape();
        let (cells, ghosts, whole) = (shape.cells(), shape.ghosts(), shape.extents());
        Domain { mesh, cells: cells.map(i64::from), ghosts: ghosts.map(i64::from), whole: whole.map(i64::from) }
    }

    /// Cells of the box along each direction if all were of this level.
    pub(super) fn extent(&self, level: u32) -> [i64; 3] {
        let counts = self.mesh.counts_at(level);
        std::array::from_fn(|d| self.cells[d] * i64::from(counts[d]))
    }

    /// The block of a level that a cell of that level lies in, and its place in the block's array; `None` if the box has no
    /// such block there.
    pub(super) fn find(&self, level: u32, cell: [i64; 3]) -> Option<(u32, usize)> {
        let extent = self.extent(level);
        let at: [i64; 3] = std::array::from_fn(|d| cell[d].rem_euclid(extent[d]));
        let block = self.mesh.find(level, std::array::from_fn(|d| (at[d] / self.cells[d]) as u32))?;
        let within: [i64; 3] = std::array::from_fn(|d| at[d] % self.cells[d] + self.ghosts[d]);
        Some((block, ((within[2] * self.whole[1] + within[1]) * self.whole[0] + within[0]) as usize))
    }

    /// Calls `each` with a name, and the place in the array, of every interior cell of a block: its number in the box, and its level
    /// above that.
    pub(super) fn interior(&self, block: u32, mut each: impl FnMut(u64, usize)) {
        let (position, level) = (self.mesh.position(block), self.mesh.level(block));
        let extent = self.extent(level);
        let first: [i64; 3] = std::array::from_fn(|d| i64::from(position[d]) * self.cells[d]);
        for z in 0..self.cells[2] {
            for y in 0..self.cells[1] {
                let row = ((z + self.ghosts[2]) * self.whole[1] + y + self.ghosts[1]) * self.whole[0] + self.ghosts[0];
                let number = ((first[2] + z) * extent[1] + first[1] + y) * extent[0] + first[0];
                for x in 0..self.cells[0] {
                    each((number + x) as u64 ^ u64::from(level) << 58, (row + x) as usize);
                }
            }
        }
    }
}
