//! What becomes of values between two levels: restriction and prolongation.
//!
//! [`StripOp`] does both; its methods have the usual ones as defaults, the mean of the fine cells in a coarse one, and
//! its value in each of them. A mesh code brings others by implementing it.
//!
//! ```
//! use umbra_core::boundary::{Element, Key, Kind, Octant, Patch, Shape, Step, StripOp, Usual};
//! let shape = Shape::new([4, 4, 1], [1, 1, 0])?;
//! let (right, child) = (Element::new(1, 0, 0).ok_or("no element")?, Octant::new(0).ok_or("no octant")?);
//! let key = Key { sender: 0, receiver: 1, field: 0, element: right, kind: Kind::GHOST };
//! let patch = Patch::new(&shape, key, Step::Coarser(child), 0);
//! let fine: Vec<f64> = (0..36).map(f64::from).collect();
//! let mut coarse = [0.0; 2];
//! Usual.restrict(&patch, &fine, &mut coarse);
//! assert_eq!(coarse, [(9 + 10 + 15 + 16) as f64 / 4.0, (21 + 22 + 27 + 28) as f64 / 4.0]);
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! *Cost*: the usual ones are O(fine cells), without a branch for each.

use core::fmt::Debug;

use super::levels::Step;
use super::plan::Key;
use super::strip::{Region, Shape};

/// The cells of one component that a strip between two levels is about, on both of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Patch {
    /// The channel.
    pub key: Key,
    /// Which component of its field.
    pub component: u32,
    /// The cells of the finer block's array: of its interior if the strip goes to a coarser block, its ghosts else.
    pub fine: Region,
    /// Cells of that array in each direction.
    pub extents: [u32; 3],
    /// Coarse cells in each direction; the strip holds their values, x first, then y, then z.
    pub coarse: [u32; 3],
    /// Fine cells of a coarse one in each direction, 1 or 2.
    pub ratio: [u32; 3],
    /// In each direction, how many fine cells of the first coarse one lie below `fine`: 1 if the ghosts are of an odd number
    /// and lie below the block, else 0. Above, some may lie beyond it likewise.
    pub below: [u32; 3],
}

impl Patch {
    /// What passes over a channel of this key and step. Within a level all is as for a coarser receiver, with a ratio of 1.
    #[must_use]
    pub fn new(shape: &Shape, key: Key, step: Step, component: u32) -> Patch {
        let passage = shape.passage(key.element, step);
        let (ratio, offsets) = (if step == Step::Same { [1; 3] } else { shape.ratio() }, key.element.offsets());
        let fine = if matches!(step, Step::Finer(_)) { passage.target } else { passage.source };
        // Ghosts below the block are those of a sender that sees it above.
        let below = core::array::from_fn(|d| if offsets[d] > 0 { ratio[d] * passage.len[d] - fine.len[d] } else { 0 });
        Patch { key, component, fine, extents: shape.extents(), coarse: passage.len, ratio, below }
    }

    /// Where the coarse cells lie, x first: for each row of them its place in the strip.
    fn coarse_rows(&self) -> impl Iterator<Item = (usize, u32, u32)> + use<> {
        let [nx, ny, nz] = self.coarse;
        (0..nz).flat_map(move |z| (0..ny).map(move |y| ((z as usize * ny as usize + y as usize) * nx as usize, y, z)))
    }
}

/// Restriction and prolongation of one component of a field. Which is told by the [`Patch`]: what it names of the arrays is
/// there, and is all that may be changed.
///
/// The outcome must depend on nothing else than what is given, in one order of all operations: then no bit depends on the
/// number of ranks. What is sent to a coarser block is restricted first, and then compared with the thresholds of its field.
pub trait StripOp: Debug + Send + Sync {
    /// The values of coarse cells from those of a finer block: `fine` is its array, `coarse` the strip, which holds anything
    /// before and is written whole. The sender does it, for a strip within a rank twice.
    fn restrict(&self, patch: &Patch, fine: &[f64], coarse: &mut [f64]) {
        mean(patch, fine, coarse);
    }

    /// The ghosts of a finer block from coarse cells: `coarse` is the strip, `fine` its array. The receiver does it.
    fn prolongate(&self, patch: &Patch, coarse: &[f64], fine: &mut [f64]) {
        inject(patch, coarse, fine);
    }
}

/// The usual operation: mean, and injection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usual;

impl StripOp for Usual {}

/// The mean of the fine cells of each coarse one. Pairs along x are added first, then along y, then along z; where the sum is
/// beyond the largest number, so is the mean.
///
/// # Panics
/// If `fine` is shorter than the patch says.
pub fn mean(patch: &Patch, fine: &[f64], coarse: &mut [f64]) {
    let [nx, ny, _] = patch.extents.map(|n| n as usize);
    let [rx, ry, rz] = patch.ratio.map(|n| n as usize);
    let [lx, ly, lz] = patch.fine.low.map(|n| n as usize);
    let part = 1.0 / (rx * ry * rz) as f64;
    let len = patch.coarse[0] as usize;
    for (at, y, z) in patch.coarse_rows() {
        let first = ((lz + rz * z as usize) * ny + ly + ry * y as usize) * nx + lx;
        let Some(row) = coarse.get_mut(at..at + len) else { return };
        for (x, value) in row.iter_mut().enumerate() {
            let pair = |at: usize| if rx == 2 { fine[at] + fine[at + 1] } else { fine[at] };
            let four = |at: usize| if ry == 2 { pair(at) + pair(at + nx) } else { pair(at) };
            let at = first + rx * x;
            let sum = if rz == 2 { four(at) + four(at + nx * ny) } else { four(at) };
            *value = sum * part;
        }
    }
}

/// The value of each coarse cell in all fine ones that lie in it; nothing changes behind the end of an array that is too short.
pub fn inject(patch: &Patch, coarse: &[f64], fine: &mut [f64]) {
    let len = patch.fine.len[0] as usize;
    let (rows, [width, height, _]) = (patch.fine.rows(patch.extents), patch.coarse.map(|n| n as usize));
    for (nth, first) in (0u32..).zip(rows) {
        let inside = |d: usize, nth: u32| ((nth + patch.below[d]) / patch.ratio[d]) as usize;
        let (y, z) = (inside(1, nth % patch.fine.len[1]), inside(2, nth / patch.fine.len[1]));
        let Some(from) = coarse.get((z * height + y) * width..).and_then(|rest| rest.get(..width)) else { return };
        let Some(row) = fine.get_mut(first..first + len) else { return };
        for (x, value) in (0..).zip(row) {
            let Some(&of) = from.get(inside(0, x)) else { return };
            *value = of;
        }
    }
}

#[cfg(test)]
mod tests;
