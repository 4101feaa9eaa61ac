//! Boxes and stars on a regular grid, swept row by row.
//!
//! Here are their groups, and a future in closed form. In strips and tiles it is [`Swept`](super::Swept) that knows it.

use super::future::{Future, Runs, Use};
use super::reciprocal::Reciprocal;

/// Which neighbours a point has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// All that differ by at most the radius in each coordinate.
    Box,
    /// All that differ in one coordinate, by at most the radius.
    Star,
}

/// A grid of up to three dimensions, each of whose points is computed from its neighbours within the grid. Points
/// and inputs are numbered row by row, the last coordinate fastest, and so are the groups.
#[derive(Clone, Copy, Debug)]
pub struct Grid {
    pub(super) extents: [u32; 3],
    pub(super) radius: u32,
    pub(super) shape: Shape,
    /// Divides by the last extent, and by the last two.
    by_row: Reciprocal,
    by_plane: Reciprocal,
}

pub(super) type Point = [u32; 3];

impl Grid {
    /// A grid of these extents, outermost first; a plane has an outermost extent of 1. `None` if an extent is 0, or
    /// if there are 2^32 points or more.
    #[must_use]
    pub fn new(extents: [u32; 3], radius: u32, shape: Shape) -> Option<Self> {
        let [x, y, z] = extents;
        let plane = y.checked_mul(z)?;
        x.checked_mul(plane)?;
        Some(Grid { extents, radius, shape, by_row: Reciprocal::new(z)?, by_plane: Reciprocal::new(plane)? })
            .filter(|_| x > 0)
    }

    /// Points, and inputs.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.extents.iter().product()
    }

    /// Whether there is no point; there always is one.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Inputs of a point at most.
    #[must_use]
    pub fn largest_group(&self) -> usize {
        let widths = self.extents.map(|extent| u64::from(extent).min(2 * u64::from(self.radius) + 1) as usize);
        match self.shape {
            Shape::Box => widths.iter().product(),
            Shape::Star => widths.iter().map(|width| width - 1).sum::<usize>() + 1,
        }
    }

    /// The inputs of a point in ascending order; none of a point outside of the grid.
    pub fn group(&self, point: u64) -> impl Iterator<Item = u64> {
        let inside = point < u64::from(self.len());
        let at = self.point(point as u32);
        let [xs, ys, zs] = self.around(at).map(|(low, high)| low..=if inside { high } else { low });
        let near = move |p: Point| {
            let apart = (0..3).filter(|&axis| p[axis] != at[axis]).count();
            inside && (self.shape == Shape::Box || apart <= 1)
        };
        let rows = xs.flat_map(move |x| ys.clone().map(move |y| (x, y)));
        let points = rows.flat_map(move |(x, y)| zs.clone().map(move |z| [x, y, z]));
        points.filter(move |&p| near(p)).map(|p| self.number(p))
    }

    fn number(&self, [x, y, z]: Point) -> u64 {
        (u64::from(x) * u64::from(self.extents[1]) + u64::from(y)) * u64::from(self.extents[2]) + u64::from(z)
    }

    #[inline]
    pub(super) fn point(&self, number: u32) -> Point {
        let (x, in_plane) = self.by_plane.divide(number);
        let (y, z) = self.by_row.divide(in_plane);
        [x, y, z]
    }

    /// The lowest and the highest neighbour in each coordinate.
    #[inline]
    fn around(&self, at: Point) -> [(u32, u32); 3] {
        let bound = |axis: usize| {
            let last = self.extents[axis] - 1;
            (at[axis].saturating_sub(self.radius), at[axis].saturating_add(self.radius).min(last))
        };
        [bound(0), bound(1), bound(2)]
    }

    /// The first point that is not before `from`, and no farther from the other one than these radii.
    #[inline]
    fn first_from(&self, from: Point, at: Point, radii: Point) -> Option<u64> {
        let ([fx, fy, fz], [x, y, z], [rx, ry, rz]) = (from.map(u64::from), at.map(u64::from), radii.map(u64::from));
        let [width_x, width_y, width_z] = self.extents.map(u64::from);
        let low_z = z.saturating_sub(rz);
        // How far in the order one has to go until all coordinates are near: to a place in this row, to a later row of this
        // plane, or to a later plane.
        let (to_x, to_y, to_z) = if fx + rx < x {
            (x - rx, y.saturating_sub(ry), low_z)
        } else if fx > x + rx {
            return None;
        } else if fy + ry < y {
            (fx, y - ry, low_z)
        } else if fy <= y + ry && fz <= z + rz {
            (fx, fy, fz.max(low_z))
        } else if fy < y + ry && fy + 1 < width_y {
            (fx, fy + 1, low_z)
        } else if fx < x + rx && fx + 1 < width_x {
            (fx + 1, y.saturating_sub(ry), low_z)
        } else {
            return None;
        };
        Some((to_x * width_y + to_y) * width_z + to_z)
    }
}

/// The point after the present one, if there is one, and where the box around it lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Coming {
    /// The present group.
    after: u64,
    at: Option<Point>,
    /// For how many more points of its row the box moves on by one each, as it is.
    amid: u32,
    /// The number of the first neighbour, and how many numbers there are up to the last one; none of a star.
    first: u64,
    reach: u64,
    /// How many more neighbours there are in the first one's row, how many more rows in its plane, and how many more planes.
    further: u32,
    rows_further: u32,
    planes_further: u32,
}

impl Coming {
    /// After the last group.
    #[inline]
    pub(super) fn nothing(group: u64) -> Self {
        Coming { after: group, at: None, amid: 0, first: 0, reach: 0, further: 0, rows_further: 0, planes_further: 0 }
    }

    /// The point after the present one.
    #[inline]
    pub(super) fn at(&self) -> Option<Point> {
        self.at
    }

    /// Moves the box on by one, as it is, if that makes it the one after this group.
    #[inline]
    pub(super) fn moves_on(&mut self, group: u64) -> bool {
        match &mut self.at {
            Some(at) if self.amid > 0 && self.after + 1 == group => {
                at[2] += 1;
                self.first += 1;
                (self.after, self.amid) = (group, self.amid - 1);
                true
            }
            _ => false,
        }
    }
}

impl Grid {
    /// The point that follows this group, in a row that is swept up to this coordinate.
    #[inline]
    pub(super) fn coming(&self, group: u64, at: Point, row_end: u32) -> Coming {
        let [x, y, z] = self.around(at);
        let (first, last) = (self.number([x.0, y.0, z.0]), self.number([x.1, y.1, z.1]));
        let reach = if self.shape == Shape::Box { last - first + 1 } else { 0 };
        let amid = if at[2] - z.0 == self.radius { (self.extents[2] - 1 - z.1).min(row_end - at[2]) } else { 0 };
        let [planes_further, rows_further, further] = [x, y, z].map(|(low, high)| high - low);
        Coming { after: group, at: Some(at), amid, first, reach, further, rows_further, planes_further }
    }

    /// Where an input lies. An id beyond the last one, of scratch, say, lies nowhere: no group of the grid names it.
    #[inline(always)]
    pub(super) fn input(&self, data: u64) -> Option<Point> {
        let at = self.point(u32::try_from(data).ok()?);
        (at[0] < self.extents[0]).then_some(at)
    }

    /// When the input that lies there is used next from a point on.
    #[inline(always)]
    fn next_from(&self, from: Point, at: Point) -> Use {
        let within = |radii| self.first_from(from, at, radii);
        let radius = self.radius;
        let next = match self.shape {
            Shape::Box => within([radius; 3]),
            Shape::Star => {
                let lines = [[radius, 0, 0], [0, radius, 0], [0, 0, radius]];
                lines.into_iter().filter_map(within).min()
            }
        };
        next.map_or(Use::Never, Use::At)
    }
}

impl Future for Grid {
    type Present = Coming;

    #[inline]
    fn present(&self, group: u64) -> Coming {
        let number = u32::try_from(group).ok().and_then(|group| group.checked_add(1));
        match number.filter(|&number| number < self.len()) {
            Some(number) => self.coming(group, self.point(number), self.extents[2] - 1),
            None => Coming::nothing(group),
        }
    }

    #[inline]
    fn advance(&self, present: &mut Coming, group: u64) {
        if !present.moves_on(group) {
            *present = self.present(group);
        }
    }

    #[inline]
    fn is_next(&self, data: u64, present: Coming) -> bool {
        let after = data.wrapping_sub(present.first);
        if after >= present.reach {
            return false;
        }
        // Rows are counted from where the box begins: what lies before it in a row is at the end of the one above.
        let (mut row, place) = self.by_row.divide(after as u32);
        if place > present.further {
            return false;
        }
        // One plane of the box after the other.
        while row > present.rows_further {
            let Some(in_next) = row.checked_sub(self.extents[1]) else { return false };
            row = in_next;
        }
        true
    }

    #[inline]
    fn next_runs(&self, present: Coming) -> Runs {
        if present.reach == 0 {
            return Runs::NONE;
        }
        let Coming { first, further, rows_further, planes_further, .. } = present;
        let strides = [self.by_row.divisor, self.by_plane.divisor].map(u64::from);
        Runs::new(first, u64::from(further) + 1, [rows_further, planes_further], strides)
    }

    // Inlined, as the present would be copied to a call.
    #[inline(always)]
    fn next_use(&self, data: u64, present: Coming) -> Use {
        let (Some(coming), Some(input)) = (present.at, self.input(data)) else { return Use::Never };
        self.next_from(coming, input)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_present_advances_to_what_it_is_computed_as() {
        for extents in [[1, 1, 1], [1, 1, 7], [1, 4, 6], [3, 2, 5], [2, 3, 1]] {
            for (radius, shape) in
                [(0, Shape::Box), (1, Shape::Box), (2, Shape::Star), (3, Shape::Box), (u32::MAX, Shape::Box)]
            {
                let grid = Grid::new(extents, radius, shape).unwrap();
                let mut present = grid.present(0);
                for group in (1..u64::from(grid.len()) + 2).chain([0, 2, 2, 3, u64::MAX, 1, 2]) {
                    grid.advance(&mut present, group);
                    assert_eq!(present, grid.present(group), "{extents:?}, radius {radius}");
                }
            }
        }
    }
}
