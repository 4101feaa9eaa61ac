//! Problem B: unsplit donor cell with Runge-Kutta, at a Courant number of 0.4.
//!
//! The Runge-Kutta scheme is strong-stability-preserving and of second order. What is smaller than [`FLOOR`] is set to
//! zero after each stage, in every mode. So nothing and zeros are the same, and a sparse run has the same bits as a
//! dense one. No fused operations, and one order of all sums.
//!
//! Where levels meet, each side computes with the ghosts that it has; fluxes are not matched, so mass is conserved only
//! within a level.

use umbra_core::boundary::{Patch, Shape, StripOp, mean};

/// Values below are nothing.
pub(super) const FLOOR: f64 = 1e-10;
const COURANT: f64 = 0.4;

/// Courant numbers of a field along the directions: the blob's signs at its own speed, together [`COURANT`] on the finest level,
/// half of that on the one before, and so on.
pub(super) fn courants(signs: [i64; 3], field: u16, dimensions: u32, coarser: u32) -> [f64; 3] {
    let speed = COURANT / f64::from(dimensions) * (1.0 - 0.05 * f64::from(field % 8)) / f64::from(1 << coarser);
    signs.map(|sign| sign as f64 * speed)
}

const fn floored(value: f64) -> f64 {
    if value.abs() < FLOOR { 0.0 } else { value }
}

/// One Euler step from `from`, for all interior cells: the new value is given to `to` together with the old of `to`.
pub(super) fn stage(from: &[f64], to: &mut [f64], shape: Shape, courants: [f64; 3], combine: impl Fn(f64, f64) -> f64) {
    let [nx, ny, _] = shape.extents().map(|n| n as usize);
    let strides = [1, nx, nx * ny];
    let (low, cells) = (shape.ghosts().map(|n| n as usize), shape.cells().map(|n| n as usize));
    for z in low[2]..low[2] + cells[2] {
        for y in low[1]..low[1] + cells[1] {
            for x in low[0]..low[0] + cells[0] {
                let at = (z * ny + y) * nx + x;
                let mut new = from[at];
                for d in 0..3 {
                    let courant = courants[d];
                    // The flux through the lower and the upper face, from the side that the flow comes from.
                    if courant > 0.0 {
                        new -= courant * from[at] - courant * from[at - strides[d]];
                    } else if courant < 0.0 {
                        new -= courant * from[at + strides[d]] - courant * from[at];
                    }
                }
                to[at] = floored(combine(to[at], new));
            }
        }
    }
}

/// Strips between levels: as usual, with means that are nothing set to zero like all else.
#[derive(Debug)]
pub(super) struct Floored;

impl StripOp for Floored {
    fn restrict(&self, patch: &Patch, fine: &[f64], coarse: &mut [f64]) {
        mean(patch, fine, coarse);
        coarse.iter_mut().for_each(|value| *value = floored(*value));
    }
}

/// The end of a time step: half of the beginning, and half of two Euler steps.
pub(super) const fn halves(begin: f64, twice: f64) -> f64 {
    0.5 * begin + 0.5 * twice
}
