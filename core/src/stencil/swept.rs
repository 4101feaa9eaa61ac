//! A grid swept in strips or tiles: what is used next, in closed form.
//!
//! A tile is swept row by row, and one tile follows the other row by row as well, so the first use from a point on is found
//! twice in the same way: among the points of the tile that is swept, and else among the later tiles that the input's
//! neighbours lie in. Nothing is listed: the answers are those of a list of all groups in this order, of
//! which the largest is [`Grid::largest_group`].
//!
//! ```
//! use umbra_core::stencil::{Future, Grid, Order, Shape, Swept, Use};
//! let grid = Grid::new([1, 2, 5], 1, Shape::Box).ok_or("too large")?;
//! // Points 0, 1, 5, 6, 2, 3, 7, 8, 4 and 9: input 1 is used by the first six, and by no other.
//! let swept = Swept::new(grid, Order::Strips { width: 2 }).ok_or("no tiles")?;
//! assert_eq!(swept.next_use(1, swept.present(3)), Use::At(4));
//! assert_eq!(swept.next_use(1, swept.present(6)), Use::Never);
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! *Cost*: a next use is O(1), with a few divisions by multiplication. Whether an input is of the very next group takes a step
//! for each plane of its box at most. The present moves on by additions, but where a row of a tile begins, and within the radius
//! of an end of the grid's rows, it is found anew, with five divisions of 64 bits. No memory.

use super::future::{Future, Runs, Use};
use super::grid::{Coming, Grid, Point, Shape};
use super::order::Order;
use super::reciprocal::Reciprocal;

/// The future of a grid whose groups are submitted in the order of tiles or strips.
#[derive(Clone, Copy, Debug)]
pub struct Swept {
    grid: Grid,
    edges: Point,
    by_edge: [Reciprocal; 3],
}

impl Swept {
    /// The grid in this order. `None` for [`Order::Hilbert`], which has no closed form here.
    #[must_use]
    pub fn new(grid: Grid, order: Order) -> Option<Self> {
        let extents = grid.extents;
        let edges = match order {
            Order::Rows => extents,
            Order::Strips { width } => [extents[0], extents[1], width],
            Order::Tiles { edges } => edges,
            Order::Hilbert => return None,
        };
        let edge = |axis: usize| edges[axis].clamp(1, extents[axis]);
        let edges = [edge(0), edge(1), edge(2)];
        let [x, y, z] = edges.map(Reciprocal::new);
        Some(Swept { grid, edges, by_edge: [x?, y?, z?] })
    }

    /// The tile that a point is in.
    #[inline]
    fn tile(&self, point: Point) -> Point {
        let at = |axis: usize| self.by_edge[axis].divide(point[axis]).0;
        [at(0), at(1), at(2)]
    }

    /// The first point of a tile, and its extents.
    #[inline]
    fn span(&self, tile: Point) -> (Point, Point) {
        let corner = |axis: usize| tile[axis] * self.edges[axis];
        let corner = [corner(0), corner(1), corner(2)];
        let extent = |axis: usize| self.edges[axis].min(self.grid.extents[axis] - corner[axis]);
        (corner, [extent(0), extent(1), extent(2)])
    }

    /// How many points come before one of this tile.
    #[inline]
    fn position(&self, tile: Point, point: Point) -> u64 {
        let (corner, extent) = self.span(tile);
        let ([cx, cy, cz], [wx, wy, wz], [x, y, z]) =
            (corner.map(u64::from), extent.map(u64::from), point.map(u64::from));
        let [_, rows, row] = self.grid.extents.map(u64::from);
        let tiles = cx * rows * row + wx * (cy * row + wy * cz);
        tiles + ((x - cx) * wy + (y - cy)) * wz + (z - cz)
    }

    /// The point of a group that there is, and its tile.
    fn point(&self, group: u32) -> (Point, Point) {
        let [_, rows, row] = self.grid.extents.map(u64::from);
        let [ex, ey, ez] = self.edges.map(u64::from);
        let (slab, rest) = split(u64::from(group), ex * rows * row);
        let wx = u64::from(self.span([slab, 0, 0]).1[0]);
        let (strip, rest) = split(rest, wx * ey * row);
        let wy = u64::from(self.span([slab, strip, 0]).1[1]);
        let (along, rest) = split(rest, wx * wy * ez);
        let tile = [slab, strip, along];
        let ([cx, cy, cz], [_, _, wz]) = self.span(tile);
        let (x, rest) = split(rest, wy * u64::from(wz));
        let (y, z) = split(rest, u64::from(wz));
        ([cx + x, cy + y, cz + z as u32], tile)
    }

    /// The first use from a point of this tile on, among points no farther from an input than these radii.
    #[inline]
    fn first_use(&self, from: Point, tile: Point, input: Point, radii: Point) -> Option<u64> {
        let low = |axis: usize| input[axis].saturating_sub(radii[axis]);
        let high = |axis: usize| input[axis].saturating_add(radii[axis]).min(self.grid.extents[axis] - 1);
        let (low, high) = ([low(0), low(1), low(2)], [high(0), high(1), high(2)]);
        let (corner, extent) = self.span(tile);
        let last = |axis: usize| high[axis].min(corner[axis] + (extent[axis] - 1));
        let here = first_in(from, later(low, corner), [last(0), last(1), last(2)]);
        if let Some(point) = here {
            return Some(self.position(tile, point));
        }
        // No later tile can be numbered as none is.
        let after = [tile[0], tile[1], tile[2] + 1];
        let tile = first_in(after, self.tile(low), self.tile(high))?;
        Some(self.position(tile, later(low, self.span(tile).0)))
    }
}

/// Quotient, which has 32 bits, and remainder.
fn split(number: u64, divisor: u64) -> (u32, u64) {
    ((number / divisor) as u32, number % divisor)
}

/// The larger of each coordinate.
#[inline]
fn later(one: Point, other: Point) -> Point {
    [one[0].max(other[0]), one[1].max(other[1]), one[2].max(other[2])]
}

/// The first point within bounds that is not before `from`, row by row.
#[inline]
fn first_in([x, y, z]: Point, low: Point, high: Point) -> Option<Point> {
    if x > high[0] || low[0] > high[0] || low[1] > high[1] || low[2] > high[2] {
        return None;
    }
    if x < low[0] {
        Some(low)
    } else if y < low[1] {
        Some([x, low[1], low[2]])
    } else if y <= high[1] && z <= high[2] {
        Some([x, y, z.max(low[2])])
    } else if y < high[1] {
        Some([x, y + 1, low[2]])
    } else if x < high[0] {
        Some([x + 1, low[1], low[2]])
    } else {
        None
    }
}

/// The point after the present one, and the tile that it is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InTile {
    coming: Coming,
    tile: Point,
}

impl Future for Swept {
    type Present = InTile;

    fn present(&self, group: u64) -> InTile {
        let number = u32::try_from(group).ok().and_then(|group| group.checked_add(1));
        let Some(number) = number.filter(|&number| number < self.grid.len()) else {
            return InTile { coming: Coming::nothing(group), tile: [0; 3] };
        };
        let (at, tile) = self.point(number);
        let (corner, extent) = self.span(tile);
        InTile { coming: self.grid.coming(group, at, corner[2] + (extent[2] - 1)), tile }
    }

    #[inline]
    fn advance(&self, present: &mut InTile, group: u64) {
        if !present.coming.moves_on(group) {
            *present = self.present(group);
        }
    }

    #[inline]
    fn is_next(&self, data: u64, present: InTile) -> bool {
        self.grid.is_next(data, present.coming)
    }

    #[inline]
    fn next_runs(&self, present: InTile) -> Runs {
        self.grid.next_runs(present.coming)
    }

    // Inlined, as the present would be copied to a call.
    #[inline(always)]
    fn next_use(&self, data: u64, present: InTile) -> Use {
        let (Some(from), Some(input)) = (present.coming.at(), self.grid.input(data)) else { return Use::Never };
        let within = |radii| self.first_use(from, present.tile, input, radii);
        let radius = self.grid.radius;
        let next = match self.grid.shape {
            Shape::Box => within([radius; 3]),
            Shape::Star => {
                let lines = [[radius, 0, 0], [0, radius, 0], [0, 0, radius]];
                lines.into_iter().filter_map(within).min()
            }
        };
        next.map_or(Use::Never, Use::At)
    }
}
