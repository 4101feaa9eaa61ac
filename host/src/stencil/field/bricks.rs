//! A field cut into bricks: each is one input of a group, and one output point.

use super::Pattern;
use crate::stencil::Stop;

/// Neighbours that are looked at between two looks whether to stop.
const LOOK: usize = 1 << 12;

/// How a field is cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bricks {
    extents: [u32; 3],
    edges: [u32; 3],
    counts: [u32; 3],
}

/// A part of a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Brick {
    /// Its lowest point.
    pub corner: [u32; 3],
    /// Points along each coordinate; bricks at the end of the field are smaller.
    pub lengths: [u32; 3],
}

impl Brick {
    /// Points in it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lengths.iter().map(|&length| length as usize).product()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Bricks {
    /// Bricks with these edges. `None` if an edge or an extent is 0, or with 2^32 bricks or more.
    #[must_use]
    pub fn new(extents: [u32; 3], edges: [u32; 3]) -> Option<Bricks> {
        if extents.contains(&0) || edges.contains(&0) {
            return None;
        }
        let edges = [0, 1, 2].map(|axis| edges[axis].min(extents[axis]));
        let counts = [0, 1, 2].map(|axis| extents[axis].div_ceil(edges[axis]));
        counts[0].checked_mul(counts[1])?.checked_mul(counts[2])?;
        Some(Bricks { extents, edges, counts })
    }

    /// Points along each coordinate of a brick; those at the end of the field may be smaller.
    #[must_use]
    pub fn edges(&self) -> [u32; 3] {
        self.edges
    }

    /// Points along each coordinate of the field.
    #[must_use]
    pub fn extents(&self) -> [u32; 3] {
        self.extents
    }

    /// Bricks along each coordinate: the extents of the grid of bricks.
    #[must_use]
    pub fn counts(&self) -> [u32; 3] {
        self.counts
    }

    /// How many bricks there are: less than 2^32.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().map(|&count| u64::from(count)).product()
    }

    /// Points of the largest brick.
    #[must_use]
    pub fn points_of_one(&self) -> u64 {
        self.edges.iter().map(|&edge| u64::from(edge)).product()
    }

    /// The brick with this number, row by row.
    #[must_use]
    pub fn brick(&self, number: u64) -> Option<Brick> {
        let [_, y, z] = self.counts.map(u64::from);
        let at = [number / z / y, number / z % y, number % z].map(|at| at as u32);
        (number < self.count()).then(|| {
            let corner = [0, 1, 2].map(|axis| at[axis] * self.edges[axis]);
            Brick { corner, lengths: [0, 1, 2].map(|axis| self.edges[axis].min(self.extents[axis] - corner[axis])) }
        })
    }

    /// The brick that holds a point of the field.
    #[inline]
    pub(super) fn holding(&self, point: [u32; 3]) -> u64 {
        let [x, y, z] = [0, 1, 2].map(|axis| u64::from(point[axis] / self.edges[axis]));
        (x * u64::from(self.counts[1]) + y) * u64::from(self.counts[2]) + z
    }

    /// The bricks that one is computed from, in ascending order.
    #[must_use]
    pub fn group(&self, number: u64, pattern: &Pattern) -> Vec<u64> {
        self.group_unless(number, pattern, &Stop::default()).unwrap_or_default()
    }

    /// As [`group`](Self::group); `None` soon after `stop` is set.
    #[must_use]
    pub fn group_unless(&self, number: u64, pattern: &Pattern, stop: &Stop) -> Option<Vec<u64>> {
        let mut group = Vec::new();
        let mut most = 1 << 16;
        let Some(Brick { corner, lengths }) = self.brick(number) else { return Some(group) };
        for (at, neighbour) in pattern.neighbours().iter().enumerate() {
            if at % LOOK == 0 && stop.is_set() {
                return None;
            }
            let reached = |axis: usize| {
                let (low, by) = (i64::from(corner[axis]), i64::from(neighbour.by[axis]));
                let first = (low + by).max(0);
                let last = (low + i64::from(lengths[axis]) - 1 + by).min(i64::from(self.extents[axis]) - 1);
                let edge = i64::from(self.edges[axis]);
                // Nothing, if all of it is outside.
                if first > last { 1..1 } else { first / edge..last / edge + 1 }
            };
            let [_, y_count, z_count] = self.counts.map(u64::from);
            for (x, y) in reached(0).flat_map(|x| reached(1).map(move |y| (x as u64, y as u64))) {
                group.extend(reached(2).map(|z| (x * y_count + y) * z_count + z as u64));
            }
            // As few as possible to keep; sorted again only when there are twice as many as different ones.
            if group.len() > most {
                group.sort_unstable();
                group.dedup();
                most = most.max(2 * group.len());
            }
        }
        group.sort_unstable();
        group.dedup();
        Some(group)
    }

    /// The parts of a brick that lie one behind the other in the field: first point in the field, first point in the
    /// brick, and points.
    pub(super) fn runs(&self, brick: Brick) -> impl Iterator<Item = (u64, usize, usize)> {
        let [_, middle, inner] = self.extents.map(u64::from);
        let [x, y, z] = brick.lengths;
        // Whole rows follow each other without a gap, and so do whole planes.
        let (rows, planes) = (z == self.extents[2], z == self.extents[2] && y == self.extents[1]);
        let [corner_x, corner_y, corner_z] = brick.corner.map(u64::from);
        let row = z as usize;
        let length = row * if rows { y as usize } else { 1 } * if planes { x as usize } else { 1 };
        let xs = if planes { 1 } else { x };
        let ys = if rows { 1 } else { y };
        (0..xs).flat_map(move |at_x| {
            (0..ys).map(move |at_y| {
                let field = ((corner_x + u64::from(at_x)) * middle + corner_y + u64::from(at_y)) * inner + corner_z;
                (field, (at_x as usize * y as usize + at_y as usize) * row, length)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use umbra_core::stencil::{Grid, Shape};

    use super::*;

    #[test]
    fn bricks_of_one_point_are_the_grid() {
        for (extents, radius, shape) in
            [([1, 7, 9], 2, Shape::Box), ([4, 5, 6], 1, Shape::Star), ([1, 1, 8], 3, Shape::Box)]
        {
            let dimensions = extents.iter().filter(|&&extent| extent > 1).count();
            let pattern = Pattern::within(shape, radius, dimensions).unwrap();
            let bricks = Bricks::new(extents, [1; 3]).unwrap();
            let grid = Grid::new(extents, radius, shape).unwrap();
            for point in 0..u64::from(grid.len()) {
                assert_eq!(bricks.group(point, &pattern), grid.group(point).collect::<Vec<u64>>());
            }
        }
    }

    #[test]
    fn nobody_waits_for_a_group_after_a_stop() {
        let (bricks, stop) = (Bricks::new([9; 3], [3; 3]).unwrap(), Stop::default());
        let pattern = Pattern::within(Shape::Box, 3, 3).unwrap();
        assert_eq!(bricks.group_unless(13, &pattern, &stop), Some((0..27).collect()));
        stop.set();
        assert_eq!(bricks.group_unless(13, &pattern, &stop), None);
    }

    #[test]
    fn a_group_of_many_bricks_is_not_sorted_again_for_each_neighbour() {
        let pattern = Pattern::within(Shape::Box, 500_000, 1).unwrap();
        let group = Bricks::new([1, 1, 70_000], [1; 3]).unwrap().group(0, &pattern);
        assert!(group.into_iter().eq(0..70_000));
    }

    #[test]
    fn runs_cover_each_point_of_the_field_once() {
        for (extents, edges) in
            [([1, 7, 9], [1, 3, 4]), ([5, 6, 7], [2, 6, 7]), ([5, 6, 7], [2, 4, 7]), ([3, 4, 5], [9, 9, 9])]
        {
            let bricks = Bricks::new(extents, edges).unwrap();
            let mut seen = vec![0; extents.iter().product::<u32>() as usize];
            for number in 0.. {
                let Some(brick) = bricks.brick(number) else { break };
                let mut inside = 0;
                for (field, at, length) in bricks.runs(brick) {
                    assert_eq!(at, inside);
                    inside += length;
                    seen[field as usize..][..length].iter_mut().for_each(|times| *times += 1);
                }
                assert_eq!(inside, brick.len());
            }
            assert!(seen.iter().all(|&times| times == 1), "{extents:?} {edges:?}");
        }
    }
}
