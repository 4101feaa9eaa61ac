//! A mesh of blocks of several levels in a box.
//!
//! It is a grid of which some blocks are refined, once and for all.

use std::collections::HashMap;

use umbra_core::boundary::{Element, Octant, Shape};

use super::balance::MeshError;
use super::mesh::{Mesh, morton, shares};

/// Most levels beyond the first: of fewer than 2^11 blocks along a direction there are at most 2^21, as many as the curve tells apart.
const DEEPEST: u32 = 10;

#[derive(Clone, Copy, Debug)]
struct Leaf {
    level: u32,
    at: [u32; 3],
    owner: u32,
}

/// Blocks of one [`Shape`] in a box, periodic or not in each direction. A refined block gives way to its children, which are half
/// as large in each direction that has ghosts.
///
/// Blocks are numbered as those of a [`Grid`](super::Grid), x first; children stand for their parent. Whether blocks that touch
/// differ by more than one level is looked at when an exchange is built.
///
/// ```
/// use umbra::boundary::{Mesh, Tree};
/// use umbra_core::boundary::{Element, Shape};
/// let shape = Shape::new([8, 8, 1], [2, 2, 0])?;
/// // Four blocks in a row, of which the second is refined.
/// let mesh = Tree::new(shape, [4, 1, 1], [false; 3], 1, 2, |level, at| level == 0 && at == [1, 0, 0]);
/// let right = Element::new(1, 0, 0).ok_or("no such element")?;
/// assert_eq!((mesh.blocks(), mesh.level(0), mesh.level(1), mesh.position(4)), (7, 0, 1, [3, 1, 0]));
/// assert_eq!(mesh.neighbour(0, right), None);
/// let beside: Vec<_> = shape.octants(right).filter_map(|octant| mesh.finer(0, right, octant)).collect();
/// assert_eq!(beside, [1, 3]);
/// assert_eq!(mesh.neighbour(2, right), Some(5), "the third block of the row");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Tree {
    shape: Shape,
    counts: [u32; 3],
    periodic: [bool; 3],
    deepest: u32,
    leaves: Vec<Leaf>,
    /// Owners that were named.
    given: usize,
    numbers: HashMap<(u32, [u32; 3]), u32>,
}

impl Tree {
    /// Bytes that each block takes at least.
    pub(crate) const BLOCK_BYTES: u64 = (size_of::<Leaf>() + size_of::<((u32, [u32; 3]), u32)>()) as u64;

    /// So many blocks in each direction, of which `refine` says which are refined, told their level and where they lie among
    /// the blocks of that; it is asked about children, too, at most `levels` times one in the other, and at most ten times. Ranks get shares along a
    /// Morton curve: each has a compact part, and all have the same number of blocks or one more.
    #[must_use]
    pub fn new(
        shape: Shape,
        counts: [u32; 3],
        periodic: [bool; 3],
        ranks: u32,
        levels: u32,
        mut refine: impl FnMut(u32, [u32; 3]) -> bool,
    ) -> Tree {
        let (leaves, numbers) = (Vec::new(), HashMap::new());
        let mut tree = Tree { shape, counts, periodic, deepest: 0, leaves, given: 0, numbers };
        let [nx, ny, nz] = counts;
        // What is still to be looked at, the next one last.
        let mut rest: Vec<(u32, [u32; 3])> = Vec::new();
        for base in (0..nz).flat_map(|z| (0..ny).flat_map(move |y| (0..nx).map(move |x| [x, y, z]))) {
            rest.push((0, base));
            while let Some((level, at)) = rest.pop() {
                if level < levels.min(DEEPEST) && refine(level, at) {
                    let children: Vec<_> = tree.children().map(|octant| (level + 1, tree.child(at, octant))).collect();
                    rest.extend(children.into_iter().rev());
                    continue;
                }
                tree.deepest = tree.deepest.max(level);
                tree.numbers.insert((level, at), tree.leaves.len() as u32);
                tree.leaves.push(Leaf { level, at, owner: 0 });
            }
        }
        let mut curve: Vec<u32> = (0..tree.blocks()).collect();
        let finest = |leaf: &Leaf, d| tree.scaled(leaf.at[d], d, tree.deepest - leaf.level);
        let place = |leaf: &Leaf| morton(std::array::from_fn(|d| finest(leaf, d)));
        curve.sort_by_key(|&block| place(&tree.leaves[block as usize]));
        for (block, owner) in shares(curve, ranks) {
            tree.leaves[block as usize].owner = owner;
        }
        tree.given = tree.leaves.len();
        tree
    }

    /// The same blocks with other owners, one a block; with more or fewer no exchange is built: [`MeshError::Owners`].
    #[must_use]
    pub fn with_owners(mut self, owners: &[u32]) -> Tree {
        self.given = owners.len();
        self.leaves.iter_mut().zip(owners).for_each(|(leaf, &owner)| leaf.owner = owner);
        self
    }

    /// Blocks of level 0 in each direction.
    #[must_use]
    pub const fn counts(&self) -> [u32; 3] {
        self.counts
    }

    /// The level of the finest blocks.
    #[must_use]
    pub const fn deepest(&self) -> u32 {
        self.deepest
    }

    /// Blocks in each direction if all were of this level; meant for levels up to the [deepest](Self::deepest).
    #[must_use]
    pub fn counts_at(&self, level: u32) -> [u32; 3] {
        std::array::from_fn(|d| self.scaled(self.counts[d], d, level))
    }

    /// So many blocks, or a place among blocks, in blocks that are so many levels finer; 0 if that is too many.
    fn scaled(&self, blocks: u32, direction: usize, levels: u32) -> u32 {
        if self.shape.is_refined(direction) { blocks.checked_shl(levels).unwrap_or(0) } else { blocks }
    }

    /// Where a block lies, in blocks of its level.
    #[must_use]
    pub fn position(&self, block: u32) -> [u32; 3] {
        self.leaves.get(block as usize).map_or([0; 3], |leaf| leaf.at)
    }

    /// The block of this level that lies there.
    #[must_use]
    pub fn find(&self, level: u32, position: [u32; 3]) -> Option<u32> {
        self.numbers.get(&(level, position)).copied()
    }

    /// The blocks of a rank, in the order of their numbers.
    pub fn owned_by(&self, rank: u32) -> impl Iterator<Item = u32> + '_ {
        (0..).zip(&self.leaves).filter(move |(_, leaf)| leaf.owner == rank).map(|(block, _)| block)
    }

    fn children(&self) -> impl Iterator<Item = Octant> + use<> {
        let ratio = self.shape.ratio();
        (0..8).filter_map(Octant::new).filter(move |octant| (0..3).all(|d| octant.upper(d) < ratio[d]))
    }

    fn child(&self, at: [u32; 3], octant: Octant) -> [u32; 3] {
        let ratio = self.shape.ratio();
        std::array::from_fn(|d| at[d] * ratio[d] + octant.upper(d))
    }

    /// What lies in this direction of a block, at its level; `None` beyond the edge of the domain.
    fn beside(&self, leaf: &Leaf, element: Element) -> Option<[u32; 3]> {
        let (counts, offsets) = (self.counts_at(leaf.level), element.offsets());
        let mut to = [0; 3];
        for d in 0..3 {
            let (count, there) = (i64::from(counts[d]), i64::from(leaf.at[d]) + i64::from(offsets[d]));
            if !(0..count).contains(&there) && !self.periodic[d] {
                return None;
            }
            to[d] = there.rem_euclid(count) as u32;
        }
        Some(to)
    }
}

impl Mesh for Tree {
    fn check(&self) -> Result<(), MeshError> {
        let (given, blocks) = (self.given, self.blocks());
        if given == self.leaves.len() { Ok(()) } else { Err(MeshError::Owners { given, blocks }) }
    }

    fn shape(&self) -> Shape {
        self.shape
    }

    fn blocks(&self) -> u32 {
        self.leaves.len() as u32
    }

    fn owner(&self, block: u32) -> u32 {
        self.leaves.get(block as usize).map_or(0, |leaf| leaf.owner)
    }

    fn neighbour(&self, block: u32, element: Element) -> Option<u32> {
        let leaf = self.leaves.get(block as usize)?;
        let (mut at, ratio) = (self.beside(leaf, element)?, self.shape.ratio());
        for level in (0..=leaf.level).rev() {
            if let Some(other) = self.find(level, at) {
                return Some(other);
            }
            at = std::array::from_fn(|d| at[d] / ratio[d]);
        }
        None
    }

    fn level(&self, block: u32) -> u32 {
        self.leaves.get(block as usize).map_or(0, |leaf| leaf.level)
    }

    fn octant(&self, block: u32) -> Octant {
        let Some(leaf) = self.leaves.get(block as usize).filter(|leaf| leaf.level > 0) else {
            return Octant::default();
        };
        let upper = |d: usize| if self.shape.is_refined(d) { (leaf.at[d] & 1) << d } else { 0 };
        Octant::new((0..3).map(upper).sum::<u32>() as u8).unwrap_or_default()
    }

    fn finer(&self, block: u32, element: Element, octant: Octant) -> Option<u32> {
        let leaf = self.leaves.get(block as usize)?;
        let mut at = self.beside(leaf, element)?;
        // One that is finer still is named too, so that whoever looks finds that they are too far apart.
        (leaf.level + 1..=self.deepest).find_map(|level| {
            at = self.child(at, octant);
            self.find(level, at)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boundary::Grid;

    #[test]
    fn without_refinement_it_is_a_grid() {
        let shape = Shape::new([4, 4, 1], [2, 2, 0]).unwrap();
        for (periodic, ranks) in [([true; 3], 4), ([false; 3], 3), ([true, false, false], 1)] {
            let grid = Grid::new(shape, [5, 3, 1], periodic, ranks);
            let tree = Tree::new(shape, [5, 3, 1], periodic, ranks, 3, |_, _| false);
            assert_eq!((tree.blocks(), tree.deepest()), (15, 0));
            for block in 0..15 {
                assert_eq!((tree.position(block), tree.owner(block)), (grid.position(block), grid.owner(block)));
                for element in shape.elements() {
                    assert_eq!(tree.neighbour(block, element), grid.neighbour(block, element));
                    assert!(shape.octants(element).all(|octant| tree.finer(block, element, octant).is_none()));
                }
            }
        }
    }

    #[test]
    fn children_cover_their_parents_and_ranks_have_equal_shares() {
        let shape = Shape::new([4, 4, 4], [2, 2, 2]).unwrap();
        let tree = Tree::new(shape, [2, 1, 1], [true; 3], 3, 2, |level, at| level == 0 || at == [0; 3]);
        assert_eq!((tree.blocks(), tree.deepest()), (2 * 8 + 7, 2));
        let volume = |block| 1.0 / f64::from(8u32.pow(tree.level(block)));
        assert_eq!((0..tree.blocks()).map(volume).sum::<f64>().to_bits(), 2f64.to_bits());
        let counts: Vec<_> = (0..3).map(|rank| tree.owned_by(rank).count()).collect();
        assert_eq!(counts.iter().sum::<usize>(), 23);
        assert!(counts.iter().all(|count| (7..=8).contains(count)), "{counts:?}");
    }
}
