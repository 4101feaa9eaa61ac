//! Which cells pass between blocks of two levels.
//!
//! The finer block has cells of half the width. All blocks of a mesh have one [`Shape`]; a block that is refined gives
//! way to its children, each of which covers one half of it in every direction that has ghosts. Blocks that touch
//! differ by one level at most. What passes is counted in coarse cells in both directions: a finer block sends what the
//! coarse ghosts hold, a coarser one the cells that the fine ghosts lie in.
//!
//! A channel is named by the ghosts that it fills. Those of a fine block in one direction lie in one coarser block;
//! those of a coarse block in up to four finer ones, each of which fills the part beside it. So no two channels from
//! one block to another have the same element, also around the edge of a periodic mesh, and a key needs to tell no
//! more.
//!
//! ```
//! use umbra_core::boundary::{Element, Octant, Shape, Step};
//! let block = Shape::new([8, 8, 1], [3, 3, 0])?;
//! let (right, corner) = (Element::new(1, 0, 0).ok_or("no such element")?, Octant::new(0b10).ok_or("no such octant")?);
//! // From a fine block, the upper left one of four, to the coarse one on its right: six layers become three.
//! let up = block.passage(right, Step::Coarser(corner));
//! assert_eq!((up.source.len, up.len), ([6, 8, 1], [3, 4, 1]));
//! assert_eq!((up.target.low, up.target.len), ([0, 7, 0], [3, 4, 1]));
//! // From a coarse block to the fine one on its right: the two layers that three fine ones lie in, half as high.
//! let down = block.passage(right, Step::Finer(corner));
//! assert_eq!((down.source.low, down.source.len), ([9, 7, 0], [2, 4, 1]));
//! assert_eq!((down.target.low, down.target.len), ([0, 3, 0], [3, 8, 1]));
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```

use super::strip::{Element, Region, Shape};

/// Which child of its parent a block is: bit 0 is set if it is the upper one along x, bit 1 along y, bit 2 along z.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Octant(u8);

impl Octant {
    /// The child of this number; `None` from 8 on.
    #[must_use]
    pub const fn new(number: u8) -> Option<Octant> {
        if number < 8 { Some(Octant(number)) } else { None }
    }

    /// Its number.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }

    /// 1 if it is the upper one along a direction, else 0.
    #[must_use]
    pub const fn upper(self, direction: usize) -> u32 {
        (self.0 >> direction & 1) as u32
    }
}

/// From the level of the block that sends to that of the block that receives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Step {
    /// Both are of one level.
    #[default]
    Same,
    /// To a coarser block; the sender is this child of its parent.
    Coarser(Octant),
    /// To a finer block, which is this child of its parent.
    Finer(Octant),
}

impl Step {
    /// Whether the two are of different levels.
    #[must_use]
    #[inline]
    pub const fn crosses(self) -> bool {
        !matches!(self, Step::Same)
    }

    /// A number for it, 0 within a level.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Step::Same => 0,
            Step::Coarser(octant) => 8 + octant.0,
            Step::Finer(octant) => 16 + octant.0,
        }
    }

    /// The step of this number; `None` if it is no step's.
    #[must_use]
    pub const fn from_number(number: u8) -> Option<Step> {
        match number {
            0 => Some(Step::Same),
            8..16 => Some(Step::Coarser(Octant(number - 8))),
            16..24 => Some(Step::Finer(Octant(number - 16))),
            _ => None,
        }
    }
}

/// What passes over a channel, of one component.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Passage {
    /// The sender's cells that it is made of.
    pub source: Region,
    /// The receiver's ghosts that it fills.
    pub target: Region,
    /// Cells that travel, in each direction.
    pub len: [u32; 3],
}

impl Passage {
    /// Cells that travel.
    #[must_use]
    pub fn cells(&self) -> u64 {
        self.len.iter().map(|&n| u64::from(n)).product()
    }
}

impl Element {
    /// Of a direction as this child of a block sees it, what leads out of its parent; `None` if that is nothing.
    #[must_use]
    pub fn outward(self, child: Octant) -> Option<Element> {
        let offsets = self.offsets();
        let [x, y, z] = core::array::from_fn(|d| match (offsets[d], child.upper(d)) {
            (-1, 0) | (1, 1) => offsets[d],
            _ => 0,
        });
        Element::new(x, y, z)
    }
}

/// Why blocks of this shape cannot touch blocks of another level.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum RefineError {
    /// Cells that cannot be halved.
    Odd {
        /// The direction, 0 to 2.
        direction: usize,
        /// Cells.
        cells: u32,
    },
    /// The coarse ghosts reach beyond the fine block.
    TooManyGhosts {
        /// The direction, 0 to 2.
        direction: usize,
        /// Layers of ghosts.
        ghosts: u32,
        /// Cells.
        cells: u32,
    },
}

impl core::fmt::Display for RefineError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            RefineError::Odd { direction, cells } => {
                write!(f, "{cells} cells in direction {direction} cannot be halved: make them even")
            }
            RefineError::TooManyGhosts { direction, ghosts, cells } => write!(
                f,
                "{ghosts} layers of coarse ghosts reach beyond a finer block of {cells} cells in direction {direction}: make \
                 blocks larger"
            ),
        }
    }
}
impl core::error::Error for RefineError {}

impl Shape {
    /// Checks that blocks of this shape can touch blocks of another level.
    ///
    /// # Errors
    /// [`RefineError`].
    pub fn may_be_refined(&self) -> Result<(), RefineError> {
        for direction in (0..3).filter(|&direction| self.is_refined(direction)) {
            let (cells, ghosts) = (self.cells()[direction], self.ghosts()[direction]);
            if !cells.is_multiple_of(2) {
                return Err(RefineError::Odd { direction, cells });
            }
            if ghosts > cells / 2 {
                return Err(RefineError::TooManyGhosts { direction, ghosts, cells });
            }
        }
        Ok(())
    }

    /// Whether children are halves of their parent in this direction: it has ghosts.
    #[must_use]
    pub const fn is_refined(&self, direction: usize) -> bool {
        self.ghosts()[direction] > 0
    }

    /// Fine cells of a coarse one in each direction: 2, or 1 where blocks are not refined.
    #[must_use]
    pub fn ratio(&self) -> [u32; 3] {
        core::array::from_fn(|direction| 1 + u32::from(self.is_refined(direction)))
    }

    /// The children that a block touches of one which it sees in this direction: 1, 2 or 4 of them.
    pub fn octants(&self, element: Element) -> impl Iterator<Item = Octant> + use<> {
        let (offsets, ratio) = (element.offsets(), self.ratio());
        (0..8).map(Octant).filter(move |octant| {
            (0..3).all(|d| match offsets[d] {
                0 => octant.upper(d) < ratio[d],
                offset => octant.upper(d) == u32::from(offset < 0),
            })
        })
    }

    /// What passes over a channel of this element and step. Both must be possible: blocks
    /// [may be refined](Self::may_be_refined), and the element leads out of the parent of the finer one.
    #[must_use]
    pub fn passage(&self, element: Element, step: Step) -> Passage {
        let mut passage = Passage {
            source: self.send_box(element),
            target: self.receive_box(element.opposite()),
            len: self.send_box(element).len,
        };
        for d in (0..3).filter(|&d| self.is_refined(d)) {
            let (cells, ghosts, offset) = (self.cells()[d], self.ghosts()[d], element.offsets()[d]);
            let half = cells / 2;
            let Passage { source, target, len } = &mut passage;
            match (step, offset) {
                (Step::Same, _) => {}
                (Step::Coarser(octant), 0) => {
                    (target.low[d], target.len[d]) = (ghosts + octant.upper(d) * half, half);
                    len[d] = half;
                }
                (Step::Coarser(_), _) => {
                    source.len[d] = 2 * ghosts;
                    source.low[d] = if offset > 0 { cells - ghosts } else { ghosts };
                }
                (Step::Finer(octant), 0) => {
                    (source.low[d], source.len[d]) = (ghosts + octant.upper(d) * half, half);
                    len[d] = half;
                }
                (Step::Finer(octant), _) => {
                    // The ghosts lie one child further: in the upper half of a coarse block if this child is a lower one.
                    let layers = ghosts.div_ceil(2);
                    let beside = ghosts + (1 - octant.upper(d)) * half;
                    source.low[d] = if offset < 0 { beside } else { beside + half - layers };
                    (source.len[d], len[d]) = (layers, layers);
                }
            }
        }
        passage
    }
}

#[cfg(test)]
mod tests;
