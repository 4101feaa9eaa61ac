//! What the exchange must know of a mesh: shape, owners and neighbours of blocks.
//!
//! A mesh code implements [`Mesh`] for its own mesh; [`Grid`] is one of equal blocks in a box, and
//! [`Tree`](super::Tree) one in which some of them are refined.

use umbra_core::boundary::{Element, Octant, Shape};

use super::balance::MeshError;

/// A mesh of blocks of one shape, with numbers from 0 on that all ranks agree on.
pub trait Mesh {
    /// Whether there is such a mesh at all: asked before anything else when an exchange is built.
    ///
    /// # Errors
    /// [`MeshError`].
    fn check(&self) -> Result<(), MeshError> {
        Ok(())
    }
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
    blocks: u32,
    owners: Vec<u32>,
}

/// How many blocks these are, if so many have numbers.
fn blocks(counts: [u32; 3]) -> Option<u32> {
    u32::try_from(counts.into_iter().map(u128::from).product::<u128>()).ok()
}

impl Grid {
    /// Blocks of this shape, so many in each direction, spread over ranks along a Morton curve: each rank has a
    /// compact part, and all have the same number of blocks or one more. Where there are more blocks than have numbers, 2^32 - 1,
    /// the grid has none, and no exchange is built on it: [`MeshError::TooMany`].
    #[must_use]
    pub fn new(shape: Shape, counts: [u32; 3], periodic: [bool; 3], ranks: u32) -> Grid {
        let blocks = blocks(counts).unwrap_or(0);
        let mut grid = Grid { shape, counts, periodic, blocks, owners: vec![0; blocks as usize] };
        let mut curve: Vec<u32> = (0..blocks).collect();
        curve.sort_by_key(|&block| morton(grid.position(block)));
        for (block, owner) in shares(curve, ranks) {
            grid.owners[block as usize] = owner;
        }
        grid
    }

    /// The same blocks with other owners, one a block; with more or fewer no exchange is built: [`MeshError::Owners`].
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
    fn check(&self) -> Result<(), MeshError> {
        match (blocks(self.counts), self.owners.len()) {
            (None, _) => Err(MeshError::TooMany { counts: self.counts }),
            (Some(blocks), given) if given != blocks as usize => Err(MeshError::Owners { given, blocks }),
            _ => Ok(()),
        }
    }

    fn shape(&self) -> Shape {
        self.shape
    }

    fn blocks(&self) -> u32 {
        self.blocks
    }

    fn owner(&self, block: u32) -> u32 {
        self.owners.get(block as usize).copied().unwrap_or(0)
    }

    fn neighbour(&self, block: u32, element: Element) -> Option<u32> {
        if block >= self.blocks {
            return None;
        }
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
    use super::super::{MeshError, Tree, is_refined};
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
    fn more_blocks_than_have_numbers_are_none_and_refused() {
        let shape = Shape::new([4, 4, 1], [2, 2, 0]).unwrap();
        for counts in [[1 << 16, 1 << 16, 1], [u32::MAX, 2, 1], [u32::MAX; 3]] {
            let grid = Grid::new(shape, counts, [true; 3], 2);
            assert_eq!((grid.blocks(), grid.counts()), (0, counts));
            assert_eq!(is_refined(&grid), Err(MeshError::TooMany { counts }), "{counts:?}");
            let right = Element::new(1, 0, 0).unwrap();
            assert_eq!(grid.neighbour(u32::MAX, right), None, "of a block that there is not");
        }
        let none = Grid::new(shape, [4, 0, 1], [true; 3], 2);
        assert_eq!((none.blocks(), is_refined(&none)), (0, Ok(false)));
        assert_eq!(none.neighbour(0, Element::new(1, 0, 0).unwrap()), None);
    }

    #[test]
    fn other_owners_than_one_a_block_are_refused() {
        let shape = Shape::new([4, 4, 1], [2, 2, 0]).unwrap();
        let grid = Grid::new(shape, [2, 2, 1], [true; 3], 2);
        let tree = Tree::new(shape, [2, 2, 1], [true; 3], 2, 0, |_, _| false);
        for owners in [vec![], vec![0; 3], vec![1; 5]] {
            let (given, blocks) = (owners.len(), 4);
            let refused = Err(MeshError::Owners { given, blocks });
            let dealt = tree.clone().with_owners(&owners);
            assert_eq!((dealt.blocks(), is_refined(&dealt)), (4, refused));
            assert_eq!(is_refined(&dealt.with_owners(&[0; 4])), Ok(false));
            let dealt = grid.clone().with_owners(owners);
            assert_eq!((dealt.blocks(), is_refined(&dealt)), (4, refused));
            assert_eq!(is_refined(&dealt.with_owners(vec![0; 4])), Ok(false));
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
