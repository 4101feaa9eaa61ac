//! Which cells pass between two blocks: elements, boxes, exact counts.
//!
//! A block has interior cells `[s, e]` in each direction with ghost cells around them. What it shares with a neighbour
//! in direction `(x, y, z)` is an *element*: one of 26, numbered `(x+1) + 3 (y+1) + 9 (z+1)`. The neighbour's number
//! of the same element is 26 minus that.
//!
//! ```
//! use umbra_core::boundary::{Element, Shape};
//! let block = Shape::new([8, 8, 1], [2, 2, 0])?;
//! let right = Element::new(1, 0, 0).ok_or("no such element")?;
//! let (send, receive) = (block.send_box(right), block.receive_box(right.opposite()));
//! assert_eq!((send.low, send.len), ([8, 2, 0], [2, 8, 1]));
//! assert_eq!((receive.low, receive.len), ([0, 2, 0], [2, 8, 1]));
//! assert_eq!(block.elements().map(|e| block.send_box(e).cells()).sum::<u64>() * 8, 640);
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```

use core::fmt;

/// One of the directions in which a block has neighbours.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Element(u8);

impl Element {
    /// The element in this direction; `None` unless each is -1, 0 or 1 and one is not 0.
    #[must_use]
    pub const fn new(x: i8, y: i8, z: i8) -> Option<Element> {
        let (-1..=1, -1..=1, -1..=1) = (x, y, z) else { return None };
        Element::from_number((x + 1 + 3 * (y + 1) + 9 * (z + 1)) as u8)
    }

    /// The element of this number; `None` for 13, the block itself, and from 27 on.
    #[must_use]
    pub const fn from_number(number: u8) -> Option<Element> {
        if number < 27 && number != 13 { Some(Element(number)) } else { None }
    }

    /// Its number.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }

    /// The same element, as the neighbour numbers it.
    #[must_use]
    pub const fn opposite(self) -> Element {
        Element(26 - self.0)
    }

    /// The direction.
    #[must_use]
    pub const fn offsets(self) -> [i8; 3] {
        let at = self.0 as i8;
        [at % 3 - 1, at / 3 % 3 - 1, at / 9 - 1]
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.offsets();
        write!(f, "({x},{y},{z})")
    }
}

/// Cells of a block's array: `len` cells from `low` on in each direction, ghosts counted, x first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Region {
    /// The first cell.
    pub low: [u32; 3],
    /// Cells in each direction.
    pub len: [u32; 3],
}

impl Region {
    /// Cells in it.
    #[must_use]
    pub fn cells(&self) -> u64 {
        self.len.iter().map(|&n| u64::from(n)).product()
    }

    /// The rows along x, in the order of the wire (y before z): where each begins, in cells of an array with these
    /// extents.
    pub fn rows(&self, extents: [u32; 3]) -> impl Iterator<Item = usize> + use<> {
        let Region { low, len } = *self;
        let [nx, ny, _] = extents.map(|n| n as usize);
        (low[2]..low[2] + len[2]).flat_map(move |z| {
            (low[1]..low[1] + len[1]).map(move |y| (z as usize * ny + y as usize) * nx + low[0] as usize)
        })
    }
}

/// Why blocks cannot have this shape.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum ShapeError {
    /// A direction without cells; one cell and no ghosts turn it off.
    NoCells {
        /// The direction, 0 to 2.
        direction: usize,
    },
    /// A strip would reach beyond the neighbour.
    TooManyGhosts {
        /// The direction, 0 to 2.
        direction: usize,
        /// Layers of ghosts.
        ghosts: u32,
        /// Cells.
        cells: u32,
    },
    /// More cells than can be counted.
    TooLarge,
}

impl fmt::Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ShapeError::NoCells { direction } => write!(f, "block without cells in direction {direction}: give it one"),
            ShapeError::TooManyGhosts { direction, ghosts, cells } => write!(
                f,
                "{ghosts} layers of ghosts reach beyond a neighbour of {cells} cells in direction {direction}: make \
                 blocks larger"
            ),
            ShapeError::TooLarge => f.write_str("a block has more cells than 2^31: make blocks smaller"),
        }
    }
}
impl core::error::Error for ShapeError {}

/// Cells and ghosts of every block of a mesh.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Shape {
    cells: [u32; 3],
    ghosts: [u32; 3],
}

impl Shape {
    /// Blocks of so many cells with so many layers of ghosts. A direction without ghosts has no neighbours.
    ///
    /// # Errors
    /// [`ShapeError`].
    pub fn new(cells: [u32; 3], ghosts: [u32; 3]) -> Result<Shape, ShapeError> {
        for (direction, (&cells, &ghosts)) in cells.iter().zip(&ghosts).enumerate() {
            if cells == 0 {
                return Err(ShapeError::NoCells { direction });
            }
            if ghosts > cells {
                return Err(ShapeError::TooManyGhosts { direction, ghosts, cells });
            }
        }
        let extents = core::array::from_fn::<_, 3, _>(|at| u64::from(cells[at]) + 2 * u64::from(ghosts[at]));
        let all = extents.iter().try_fold(1u64, |all, &n| all.checked_mul(n));
        all.filter(|&all| all <= 1 << 31).ok_or(ShapeError::TooLarge)?;
        Ok(Shape { cells, ghosts })
    }

    /// Interior cells in each direction.
    #[must_use]
    pub const fn cells(&self) -> [u32; 3] {
        self.cells
    }

    /// Layers of ghosts in each direction.
    #[must_use]
    pub const fn ghosts(&self) -> [u32; 3] {
        self.ghosts
    }

    /// Cells in each direction, ghosts included.
    #[must_use]
    pub fn extents(&self) -> [u32; 3] {
        core::array::from_fn(|at| self.cells[at] + 2 * self.ghosts[at])
    }

    /// Cells of a block's array, ghosts included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.extents().iter().map(|&n| n as usize).product()
    }

    /// A block has at least one cell.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// The interior.
    #[must_use]
    pub const fn interior(&self) -> Region {
        Region { low: self.ghosts, len: self.cells }
    }

    /// The elements in which a block has neighbours: 2, 8 or 26.
    pub fn elements(&self) -> impl Iterator<Item = Element> + use<> {
        let ghosts = self.ghosts;
        (0..27).filter_map(Element::from_number).filter(move |element| {
            element.offsets().iter().zip(&ghosts).all(|(&offset, &ghosts)| offset == 0 || ghosts > 0)
        })
    }

    /// The cells that the neighbour in this direction wants.
    #[must_use]
    pub fn send_box(&self, element: Element) -> Region {
        self.region(element, |cells, ghosts, above| if above { cells } else { ghosts })
    }

    /// The ghosts that the neighbour in this direction fills.
    #[must_use]
    pub fn receive_box(&self, element: Element) -> Region {
        self.region(element, |cells, ghosts, above| if above { cells + ghosts } else { 0 })
    }

    fn region(&self, element: Element, low: impl Fn(u32, u32, bool) -> u32) -> Region {
        let offsets = element.offsets();
        let each = |at: usize| {
            let (cells, ghosts) = (self.cells[at], self.ghosts[at]);
            match offsets[at] {
                0 => (ghosts, cells),
                offset => (low(cells, ghosts, offset > 0), ghosts),
            }
        };
        let all: [(u32, u32); 3] = core::array::from_fn(each);
        Region { low: all.map(|(low, _)| low), len: all.map(|(_, len)| len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_offsets_agree_and_opposites_add_up() {
        for number in 0..27 {
            let Some(element) = Element::from_number(number) else {
                assert_eq!(number, 13);
                continue;
            };
            let [x, y, z] = element.offsets();
            assert_eq!(Element::new(x, y, z), Some(element));
            assert_eq!(element.opposite().offsets(), [-x, -y, -z]);
        }
        assert_eq!(Element::from_number(27), None);
        assert_eq!(Element::new(2, 0, 0), None);
    }

    /// The table of exact bytes a field component that all neighbours together get.
    #[test]
    fn strips_have_exact_sizes() {
        for (cells, ghosts, dimensions, bytes) in [
            (8, 2, 2, 640),
            (16, 2, 2, 1152),
            (32, 2, 2, 2176),
            (16, 2, 3, 31232),
            (16, 4, 3, 77824),
            (32, 2, 3, 111_104),
            (32, 4, 3, 249_856),
            (64, 4, 3, 888_832),
        ] {
            let on = |n: u32, off| core::array::from_fn(|at| if at < dimensions { n } else { off });
            let shape = Shape::new(on(cells, 1), on(ghosts, 0)).unwrap();
            let sum: u64 = shape.elements().map(|e| shape.send_box(e).cells() * 8).sum();
            assert_eq!(sum, bytes, "{cells}^{dimensions} with {ghosts}");
        }
    }

    #[test]
    fn receive_boxes_cover_every_ghost_once_and_no_interior_cell() {
        for dimensions in 1..=3 {
            for ghosts in 1..=4 {
                let on = |n: u32, off| core::array::from_fn(|at| if at < dimensions { n } else { off });
                let shape = Shape::new(on(ghosts, 1), on(ghosts, 0)).unwrap();
                let mut touched = std::vec![0; shape.len()];
                let regions = shape.elements().map(|e| shape.receive_box(e)).chain([shape.interior()]);
                for region in regions {
                    for row in region.rows(shape.extents()) {
                        touched[row..row + region.len[0] as usize].iter_mut().for_each(|n| *n += 1);
                    }
                }
                assert!(touched.iter().all(|&n| n == 1), "{dimensions} dimensions, {ghosts} ghosts");
                for element in shape.elements() {
                    let (send, receive) = (shape.send_box(element), shape.receive_box(element.opposite()));
                    assert_eq!(send.len, receive.len);
                }
            }
        }
    }

    #[test]
    fn shapes_that_cannot_work_are_refused() {
        assert_eq!(Shape::new([8, 0, 1], [2, 2, 0]), Err(ShapeError::NoCells { direction: 1 }));
        let error = ShapeError::TooManyGhosts { direction: 0, ghosts: 5, cells: 4 };
        assert_eq!(Shape::new([4, 1, 1], [5, 0, 0]), Err(error));
        assert_eq!(Shape::new([u32::MAX; 3], [0; 3]), Err(ShapeError::TooLarge));
    }
}
