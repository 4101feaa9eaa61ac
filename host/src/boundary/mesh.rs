//! What the exchange must know of a mesh: shape, owners and neighbours of blocks.
//!
//! A mesh code implements [`Mesh`] for its own mesh; [`Grid`] is one of equal blocks in a box, and
//! [`Tree`](super::Tree) one in which some of them are refined.

use umbra_core::boundary::{Element, Octant, Shape};

/// A mesh of blocks of one shape, with numbers from 0 on that all ranks agree on.
pub trait Mesh {
    /// Cells and ghosts of every block.
    fn shape(&self) -> Shape;
    /// Blocks of the whole mesh.
    fn blocks(&self) -> u32;
    /// The rank that owns a block.
    fn owner(&self, block: u32) -> u32;
    /// The block in this direction; `None` at the edge of the domain. Within a level it must be mutual: the block's neighbour
    /// in the opposite direction is this one. A block may be its own neighbour.
    ///
    /// In a mesh of several levels it is the coarser block that lies there if none of the same level does, and `None` if those
    /// that lie there are finer.
    fn neighbour(&self, block: u32, element: Element) -> Option<u32>;
    /// How often a block was refined: its cells are half as wide as those of the level before, in each direction that has ghosts.
    /// Blocks that touch, be it in a corner, differ by one level at most.
    fn level(&self, _block: u32) -> u32 {
        0
    }
    /// Which child of its parent a block is, if it touches coarser ones.
    fn octant(&self, _block: u32) -> Octant {
        Octant::default()
    }
    /// Where finer blocks lie in a direction, the one of them that is this child of its parent; `None` if there is none. It is
    /// asked about [those](Shape::octants) that touch the block.
    fn finer(&self, _block: u32, _element: Element, _octant: Octant) -> Option<u32> {
        None
    }
}

/// Whether nothing lies in a direction of a block: the edge of the domain.
pub(super) fn is_edge(mesh: &impl Mesh, block: u32, element: Element) -> bool {
    let mut octants = mesh.shape().octants(element);
    mesh.neighbour(block, element).is_none() && octants.all(|octant| mesh.finer(block, element, octant).is_none())
}

/// Equal blocks in a box, periodic or not in each direction.
#[derive(Clone, Debug)]
pub struct Grid {
    shape: Shape,
    counts: [u32; 3],
    periodic: [bool; 3],
    owners: Vec<u32>,
}

impl Grid {
    /// Blocks of this shape, so many in each direction, spread over ranks along a Morton curve: each rank has a
    /// compact part, and all have the same number of blocks or one more.
    #[must_use]
    pub fn new(shape: Shape, counts: [u32; 3], periodic: [bool; 3], ranks: u32) -> Grid {
        let blocks = counts.iter().product::<u32>();
        let mut grid = Grid { shape, counts, periodic, owners: vec![0; blocks as usize] };
        let mut curve: Vec<u32> = (0..blocks).collect();
        curve.sort_by_key(|&block| morton(grid.position(block)));
        for (block, owner) in shares(curve, ranks) {
            grid.owners[block as usize] = owner;
        }
        grid
    }

    /// The same blocks with other owners, one a block.
    #[must_use]
    pub fn with_owners(self, owners: Vec<u32>) -> Grid {
        Grid { owners, ..self }
    }

    /// Blocks in each direction.
    #[must_use]
    pub const fn counts(&self) -> [u32; 3] {
        self.counts
    }

    /// Where a block lies, in blocks.
    #[must_use]
    pub const fn position(&self, block: u32) -> [u32; 3] {
        let [x, y, _] = self.counts;
        [block % x, block / x % y, block / x / y]
    }

    /// The blocks of a rank, in the order of their numbers.
    pub fn owned_by(&self, rank: u32) -> impl Iterator<Item = u32> + '_ {
        (0..).zip(&self.owners).filter(move |(_, owner)| **owner == rank).map(|(block, _)| block)
    }
}

impl Mesh for Grid {
    fn shape(&self) -> Shape {
        self.shape
    }

    fn blocks(&self) -> u32 {
        self.owners.len() as u32
    }

    fn owner(&self, block: u32) -> u32 {
        self.owners.get(block as usize).copied().unwrap_or(0)
    }

    fn neighbour(&self, block: u32, element: Element) -> Option<u32> {
        let (at, offsets) = (self.position(block), element.offsets());
        let mut to = [0; 3];
        for direction in 0..3 {
            let count = i64::from(self.counts[direction]);
            let there = i64::from(at[direction]) + i64::from(offsets[direction]);
            if !(0..count).contains(&there) && !self.periodic[direction] {
                return None;
            }
            to[direction] = there.rem_euclid(count) as u32;
        }
        let [x, y, _] = self.counts;
        Some((to[2] * y + to[1]) * x + to[0])
    }
}

/// Each block of a curve with its owner, of so many ranks: all have the same number or one more.
pub(super) fn shares(curve: Vec<u32>, ranks: u32) -> impl Iterator<Item = (u32, u32)> {
    let all = curve.len().max(1) as u64;
    (0u64..).zip(curve).map(move |(nth, block)| (block, (nth * u64::from(ranks) / all) as u32))
}

/// The bits of the three coordinates in turn.
pub(super) fn morton(at: [u32; 3]) -> u64 {
    (0..21).map(|bit| (0..3).map(|d| u64::from(at[d] >> bit & 1) << (3 * bit + d)).sum::<u64>()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_mutual_also_around_the_edge() {
        let shape = Shape::new([4, 4, 4], [2, 2, 2]).unwrap();
        for periodic in [[true; 3], [true, false, true], [false; 3]] {
            let grid = Grid::new(shape, [3, 2, 1], periodic, 4);
            for block in 0..grid.blocks() {
                for element in shape.elements() {
                    if let Some(other) = grid.neighbour(block, element) {
                        assert_eq!(grid.neighbour(other, element.opposite()), Some(block));
                    }
                }
            }
        }
    }

    #[test]
    fn every_rank_has_as_many_blocks_as_the_others_or_one_more() {
        let shape = Shape::new([4, 4, 1], [2, 2, 0]).unwrap();
        for ranks in [1, 2, 3, 4, 8, 20] {
            let grid = Grid::new(shape, [4, 4, 1], [true; 3], ranks);
            let counts: Vec<_> = (0..ranks).map(|rank| grid.owned_by(rank).count()).collect();
            assert_eq!(counts.iter().sum::<usize>(), 16);
            assert!(counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1, "{counts:?}");
        }
    }
}
