//! Where strips within a level lie in the arrays of blocks.
//!
//! All blocks have one shape, so there is one answer for each element.

use std::ops::Range;

use umbra_core::boundary::{Element, Region, Shape};

/// The rows of a strip in one component of an array. What lies side by side is one row.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Rows {
    first: usize,
    len: usize,
    /// How many of them, the nearer ones first, and how far apart.
    counts: [usize; 2],
    strides: [usize; 2],
}

impl Rows {
    pub(super) fn new(region: Region, extents: [u32; 3]) -> Rows {
        let [x, y, z] = region.len.map(|n| n as usize);
        let [all_x, all_y, _] = extents.map(|n| n as usize);
        let low = region.low.map(|n| n as usize);
        let rows = Rows {
            first: (low[2] * all_y + low[1]) * all_x + low[0],
            len: x,
            counts: [y, z],
            strides: [all_x, all_x * all_y],
        };
        rows.joined().joined()
    }

    /// With neighbouring rows taken together.
    const fn joined(self) -> Rows {
        let Rows { first, len, counts: [near, far], strides: [step, leap] } = self;
        if near == 1 {
            Rows { first, len, counts: [far, 1], strides: [leap, leap] }
        } else if step == len {
            Rows { first, len: len * near, counts: [far, 1], strides: [leap, leap] }
        } else {
            self
        }
    }

    /// Values in a row.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Values in all rows of one component.
    pub(super) const fn cells(&self) -> usize {
        self.len * self.counts[0] * self.counts[1]
    }

    /// The row as a range of an array of so many components, if there is only one.
    #[inline]
    pub(super) fn only(&self, components: usize) -> Option<Range<usize>> {
        (components == 1 && self.counts == [1, 1]).then_some(self.first..self.first + self.len)
    }

    /// Each row as a range of an array of so many components of so many cells, in the order of the wire, until one fails.
    #[inline]
    pub(super) fn each<E>(
        &self,
        components: usize,
        cells: usize,
        mut row: impl FnMut(Range<usize>) -> Result<(), E>,
    ) -> Result<(), E> {
        if let Some(only) = self.only(components) {
            return row(only);
        }
        for component in 0..components {
            for far in 0..self.counts[1] {
                let mut at = component * cells + self.first + far * self.strides[1];
                for _ in 0..self.counts[0] {
                    row(at..at + self.len)?;
                    at += self.strides[0];
                }
            }
        }
        Ok(())
    }
}

/// The strips of all elements of a block, by the number of the element as the sender sees it.
#[derive(Clone, Debug)]
pub(super) struct Strips {
    send: [Rows; 27],
    receive: [Rows; 27],
    /// Cells of a component.
    pub(super) cells: usize,
}

impl Strips {
    /// Those of a shape.
    pub(super) fn new(shape: &Shape) -> Strips {
        let (extents, none) = (shape.extents(), [Rows::default(); 27]);
        let mut strips = Strips { send: none, receive: none, cells: shape.len() };
        for element in shape.elements() {
            let at = usize::from(element.number());
            strips.send[at] = Rows::new(shape.send_box(element), extents);
            strips.receive[at] = Rows::new(shape.receive_box(element.opposite()), extents);
        }
        strips
    }

    /// What the sender packs.
    #[inline]
    pub(super) fn send(&self, element: Element) -> &Rows {
        &self.send[usize::from(element.number())]
    }

    /// What the receiver fills.
    #[inline]
    pub(super) fn receive(&self, element: Element) -> &Rows {
        &self.receive[usize::from(element.number())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cell by cell what the boxes say, in the same order, for all elements of shapes with any of the directions turned off.
    #[test]
    fn rows_are_those_of_the_boxes() {
        for off in 0..7 {
            let on = |n: [u32; 3], other| std::array::from_fn(|at| if off >> at & 1 == 0 { n[at] } else { other });
            let shape = Shape::new(on([5, 4, 3], 1), on([2, 3, 1], 0)).unwrap();
            let (strips, cells) = (Strips::new(&shape), shape.len());
            for element in shape.elements() {
                let boxes = [shape.send_box(element), shape.receive_box(element.opposite())];
                for (rows, region) in [strips.send(element), strips.receive(element)].into_iter().zip(boxes) {
                    let mut ours = Vec::new();
                    rows.each(2, cells, |row| {
                        ours.extend(row);
                        Ok::<_, ()>(())
                    })
                    .unwrap();
                    let len = region.len[0] as usize;
                    let one: Vec<_> = region.rows(shape.extents()).flat_map(|row| row..row + len).collect();
                    assert_eq!(rows.cells(), one.len());
                    let all: Vec<_> = [0, cells].iter().flat_map(|more| one.iter().map(move |at| at + more)).collect();
                    assert_eq!(ours, all, "{element} of {shape:?}");
                }
            }
        }
    }

    #[test]
    fn rows_side_by_side_are_one() {
        let row = Strips::new(&Shape::new([8, 1, 1], [3, 0, 0]).unwrap());
        let right = Element::new(1, 0, 0).unwrap();
        assert_eq!((row.send(right).len(), row.send(right).counts), (3, [1, 1]));
        let plane = Strips::new(&Shape::new([8, 8, 4], [0, 0, 2]).unwrap());
        let up = Element::new(0, 0, 1).unwrap();
        assert_eq!((plane.send(up).len(), plane.send(up).counts), (128, [1, 1]), "whole layers");
    }
}
