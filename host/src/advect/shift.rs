//! Problem A: donor cell at a Courant number of one, one direction after the other.
//!
//! Each sweep moves a blob by one cell, and because its values are multiples of 2^-20 every difference is exact: what comes
//! out is the initial blob elsewhere, bit for bit.

use umbra_core::boundary::Shape;

/// `u[i] -= u[i] - u[i - sign]` along a direction, for all interior cells.
pub(super) fn sweep(values: &mut [f64], shape: Shape, direction: usize, sign: i64) {
    let [nx, ny, _] = shape.extents().map(|n| n as usize);
    let stride = [1, nx, nx * ny][direction] as isize * sign as isize;
    let (low, cells) = (shape.ghosts().map(|n| n as usize), shape.cells().map(|n| n as usize));
    // Against the flow, so that what a cell takes from was not moved yet.
    let order = |d: usize, nth: usize| if d == direction && sign > 0 { cells[d] - 1 - nth } else { nth };
    for z in 0..cells[2] {
        for y in 0..cells[1] {
            let row = ((low[2] + order(2, z)) * ny + low[1] + order(1, y)) * nx + low[0];
            for x in 0..cells[0] {
                let at = row + order(0, x);
                let (here, from) = (values[at], values[(at as isize - stride) as usize]);
                values[at] = here - (here - from);
            }
        }
    }
}
