//! In which order the points of a grid are visited.
//!
//! The order decides how many loads are possible at all: row by row, a box of radius R needs all of 2R rows in the
//! slots, a strip needs only its width of them. An order gives the numbers of the points, row by row as in
//! [`Grid`](super::Grid); any other order is an iterator of numbers too.
//!
//! ```
//! use umbra_core::stencil::Order;
//! let points = |order: Order| order.points([1, 2, 5]).map(|points| points.collect::<Vec<u64>>());
//! assert_eq!(points(Order::Rows), Some(vec![0, 1, 2, 3, 4, 5, 6, 7, 8, 9]));
//! assert_eq!(points(Order::Strips { width: 2 }), Some(vec![0, 1, 5, 6, 2, 3, 7, 8, 4, 9]));
//! ```
//!
//! *Cost*: O(1) a point, along a Hilbert curve O(log points). Nothing allocates.

use super::hilbert;

/// An order of points.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// Row by row, the last coordinate fastest.
    Rows,
    /// The last coordinate is cut into strips of this width; each is swept row by row.
    Strips {
        /// Points of a row of a strip; a width of 0 is taken as 1.
        width: u32,
    },
    /// All coordinates are cut into tiles; tiles follow each other row by row, and so do the points in each.
    Tiles {
        /// Points along each coordinate of a tile; an edge of 0 is taken as 1.
        edges: [u32; 3],
    },
    /// Along a curve whose every stretch stays within a compact region, whatever its length.
    Hilbert,
}

impl Order {
    /// The numbers of all points of a grid of these extents, outermost first, each once. `None` if there are 2^64
    /// points or more.
    #[must_use]
    pub fn points(self, extents: [u32; 3]) -> Option<Points> {
        let [x, y, z] = extents.map(u64::from);
        let left = (x * y).checked_mul(z)?;
        let edges = match self {
            Order::Rows | Order::Hilbert => extents,
            Order::Strips { width } => [extents[0], extents[1], width],
            Order::Tiles { edges } => edges,
        };
        let path = match self {
            Order::Hilbert => Path::Hilbert,
            _ => Path::Tiles { edges: edges.map(|edge| edge.max(1)), corner: [0; 3], at: [0; 3] },
        };
        Some(Points { extents, path, done: 0, left })
    }
}

/// The points of a grid in some order.
#[derive(Clone, Debug)]
pub struct Points {
    extents: [u32; 3],
    path: Path,
    done: u64,
    left: u64,
}

#[derive(Clone, Debug)]
enum Path {
    Tiles {
        edges: [u32; 3],
        /// The lowest point of the tile.
        corner: [u32; 3],
        /// The next point.
        at: [u32; 3],
    },
    Hilbert,
}

impl Iterator for Points {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        self.left = self.left.checked_sub(1)?;
        let extents = self.extents;
        let point = match &mut self.path {
            Path::Hilbert => hilbert::point(extents, self.done),
            Path::Tiles { edges, corner, at } => {
                let point = *at;
                step(extents, *edges, corner, at);
                point
            }
        };
        self.done += 1;
        let [x, y, z] = point.map(u64::from);
        Some((x * u64::from(extents[1]) + y) * u64::from(extents[2]) + z)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::try_from(self.left).unwrap_or(usize::MAX), usize::try_from(self.left).ok())
    }
}

/// Moves on to the next point of the tile, or to the first one of the next tile.
#[inline]
fn step(extents: [u32; 3], edges: [u32; 3], corner: &mut [u32; 3], at: &mut [u32; 3]) {
    for axis in (0..3).rev() {
        let end = corner[axis].saturating_add(edges[axis]).min(extents[axis]);
        if at[axis] + 1 < end {
            at[axis] += 1;
            return;
        }
        at[axis] = corner[axis];
    }
    for axis in (0..3).rev() {
        match corner[axis].checked_add(edges[axis]).filter(|&next| next < extents[axis]) {
            Some(next) => {
                corner[axis] = next;
                break;
            }
            None => corner[axis] = 0,
        }
    }
    *at = *corner;
}
