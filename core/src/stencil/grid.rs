//! Boxes and stars on a regular grid, swept row by row: groups, and a future in closed form.

use super::future::{Future, Use};

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
    extents: [u32; 3],
    radius: u32,
    shape: Shape,
    /// Divides by the last extent, and by the last two.
    by_row: Reciprocal,
    by_plane: Reciprocal,
}

type Point = [u32; 3];

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
    fn point(&self, number: u32) -> Point {
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

    /// The first point of a box that is not before `from`.
    #[inline]
    fn first_from(&self, from: Point, [x, y, z]: [(u32, u32); 3]) -> Option<u64> {
        let row = |px, py| Some(self.number([px, py, z.0]));
        let [fx, fy, fz] = from;
        if fx < x.0 {
            return row(x.0, y.0);
        }
        if fx <= x.1 {
            if fy < y.0 {
                return row(fx, y.0);
            }
            if fy <= y.1 {
                if fz <= z.1 {
                    return Some(self.number([fx, fy, fz.max(z.0)]));
                }
                if fy < y.1 {
                    return row(fx, fy + 1);
                }
            }
            if fx < x.1 {
                return row(fx + 1, y.0);
            }
        }
        None
    }
}

/// The number of the point after the present one, and what is near it: the lowest neighbour in each coordinate, and how
/// many more there are.
#[derive(Clone, Copy, Debug)]
pub struct Coming {
    number: u32,
    lowest: Point,
    further: Point,
}

impl Grid {
    /// When an input is used next from a point on, in general. Not inlined, as most are used by the next point, and asked
    /// by numbers, so that nothing has to lie in memory for it.
    #[inline(never)]
    fn next_from(&self, from: u32, input: u32) -> Use {
        let (from, at) = (self.point(from), self.point(input));
        let around = self.around(at);
        let next = match self.shape {
            Shape::Box => self.first_from(from, around),
            Shape::Star => {
                let here = at.map(|coordinate| (coordinate, coordinate));
                let line = |axis: usize| {
                    let mut line = here;
                    line[axis] = around[axis];
                    self.first_from(from, line)
                };
                [line(0), line(1), line(2)].into_iter().flatten().min()
            }
        };
        next.map_or(Use::Never, Use::At)
    }
}

impl Future for Grid {
    /// None behind the last point.
    type Present = Option<Coming>;

    #[inline]
    fn present(&self, group: u64) -> Option<Coming> {
        let next = u32::try_from(group).ok()?.checked_add(1)?;
        (next < self.len()).then(|| {
            let around = self.around(self.point(next));
            let (lowest, further) = (around.map(|(low, _)| low), around.map(|(low, high)| high - low));
            Coming { number: next, lowest, further }
        })
    }

    #[inline]
    fn next_use(&self, data: u64, present: Option<Coming>) -> Use {
        let (Some(from), Ok(number)) = (present, u32::try_from(data)) else { return Use::Never };
        let at = self.point(number);
        // Most inputs of a box are used by the next point, too.
        let near = |axis: usize| at[axis].wrapping_sub(from.lowest[axis]) <= from.further[axis];
        if self.shape == Shape::Box && near(2) && near(1) && near(0) {
            return Use::At(u64::from(from.number));
        }
        self.next_from(from.number, number)
    }
}

/// Division by a constant that is known at run time, by one multiplication.
///
/// With `factor` = (2^64 - 1) / divisor, rounded down, the product with the next number falls short of that number's true
/// quotient by less than 1 / divisor, and by something: so rounded down it is the quotient of a number below 2^32.
#[derive(Clone, Copy, Debug)]
struct Reciprocal {
    divisor: u32,
    factor: u64,
}

impl Reciprocal {
    fn new(divisor: u32) -> Option<Self> {
        Some(Reciprocal { divisor, factor: u64::MAX.checked_div(u64::from(divisor))? })
    }

    /// Quotient and remainder.
    #[inline]
    fn divide(self, number: u32) -> (u32, u32) {
        let product = u128::from(u64::from(number) + 1) * u128::from(self.factor);
        let quotient = (product >> 64) as u32;
        (quotient, number - quotient * self.divisor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reciprocal_divides() {
        for divisor in [1, 2, 3, 7, 640, 409_600, u32::MAX - 1, u32::MAX] {
            let by = Reciprocal::new(divisor).unwrap();
            for number in [0, 1, 2, divisor - 1, divisor, divisor.wrapping_mul(3), u32::MAX - 1, u32::MAX] {
                assert_eq!(by.divide(number), (number / divisor, number % divisor));
            }
        }
        assert!(Reciprocal::new(0).is_none());
    }
}
