//! The usual operations against plain loops.

use std::vec;
use std::vec::Vec;

use super::super::levels::Octant;
use super::super::plan::Kind;
use super::*;

fn cells(region: Region) -> Vec<[u32; 3]> {
    let Region { low: [x, y, z], len: [nx, ny, nz] } = region;
    let planes = (z..z + nz).flat_map(|z| (y..y + ny).map(move |y| (y, z)));
    planes.flat_map(|(y, z)| (x..x + nx).map(move |x| [x, y, z])).collect()
}

/// Each patch of a shape that goes to a coarser block.
fn restricted(shape: Shape) -> impl Iterator<Item = Patch> {
    let octants = (0..8).filter_map(Octant::new).filter(move |&octant| is_child(shape, octant));
    octants.flat_map(move |octant| shape.elements().map(move |element| (element, octant))).map(
        move |(element, octant)| {
            let key = Key { sender: 0, receiver: 1, field: 0, element, kind: Kind::GHOST };
            Patch::new(&shape, key, Step::Coarser(octant), 0)
        },
    )
}

/// Of all dimensions, with ghosts of even and odd numbers.
fn shapes() -> impl Iterator<Item = Shape> {
    let all = [
        ([8, 6, 4], [3, 1, 2]),
        ([6, 1, 1], [3, 0, 0]),
        ([2, 1, 1], [1, 0, 0]),
        ([6, 10, 1], [1, 3, 0]),
        ([4, 3, 6], [2, 0, 3]),
    ];
    all.into_iter().map(|(cells, ghosts)| Shape::new(cells, ghosts).unwrap())
}

fn at(shape: Shape, [x, y, z]: [u32; 3]) -> usize {
    let [nx, ny, _] = shape.extents();
    ((z * ny + y) * nx + x) as usize
}

/// A child is an upper one only in directions that are refined.
fn is_child(shape: Shape, octant: Octant) -> bool {
    (0..3).all(|d| octant.upper(d) < shape.ratio()[d])
}

#[test]
fn the_mean_is_that_of_a_plain_loop_bit_for_bit() {
    for shape in shapes() {
        let array: Vec<f64> = (0..shape.len()).map(|n| (n * n) as f64 + 0.1).collect();
        let ratio = shape.ratio();
        for patch in restricted(shape) {
            let all = cells(Region { low: [0; 3], len: patch.coarse });
            let mut strip = vec![0.0; all.len()];
            Usual.restrict(&patch, &array, &mut strip);
            for (cell, value) in all.into_iter().zip(strip) {
                // Pairs along x, then pairs of these along y, then along z.
                let mut sum = 0.0;
                for z in 0..ratio[2] {
                    let mut plane = 0.0;
                    for y in 0..ratio[1] {
                        let mut row = 0.0;
                        for x in 0..ratio[0] {
                            let more = [x, y, z];
                            let fine = core::array::from_fn(|d| patch.fine.low[d] + ratio[d] * cell[d] + more[d]);
                            row += array[at(shape, fine)];
                        }
                        plane += row;
                    }
                    sum += plane;
                }
                let expected = sum / f64::from(ratio.iter().product::<u32>());
                assert_eq!(value.to_bits(), expected.to_bits(), "{cell:?} of {patch:?}");
            }
        }
    }
}

#[test]
fn the_value_of_a_coarse_cell_is_in_the_ghosts_in_it_and_nothing_else_changes() {
    for shape in shapes() {
        for octant in (0..8).filter_map(Octant::new).filter(|&octant| is_child(shape, octant)) {
            for element in shape.elements() {
                let key = Key { sender: 0, receiver: 1, field: 0, element, kind: Kind::GHOST };
                let patch = Patch::new(&shape, key, Step::Finer(octant), 0);
                let [nx, ny, nz] = patch.coarse;
                let strip: Vec<f64> = (0..nx * ny * nz).map(f64::from).collect();
                let mut array = vec![-1.0; shape.len()];
                Usual.prolongate(&patch, &strip, &mut array);
                let mut expected = vec![-1.0; shape.len()];
                for cell in cells(patch.fine) {
                    // Fine and coarse cells begin together where ghosts meet the block.
                    let [x, y, z] = core::array::from_fn(|d| {
                        let behind = cell[d] - patch.fine.low[d];
                        let ahead = patch.fine.len[d] - 1 - behind;
                        let ratio = shape.ratio()[d];
                        if element.offsets()[d] > 0 { patch.coarse[d] - 1 - ahead / ratio } else { behind / ratio }
                    });
                    expected[at(shape, cell)] = f64::from((z * ny + y) * nx + x);
                }
                assert_eq!(array, expected, "{patch:?}");
            }
        }
    }
}

#[test]
fn a_sum_that_is_no_number_stays_none() {
    let shape = Shape::new([4, 4, 1], [1, 1, 0]).unwrap();
    for patch in restricted(shape) {
        let mut array = vec![1.0; shape.len()];
        array[at(shape, patch.fine.low)] = f64::NAN;
        let mut strip = vec![0.0; patch.coarse.iter().product::<u32>() as usize];
        Usual.restrict(&patch, &array, &mut strip);
        assert!(strip[0].is_nan() && strip[1..].iter().all(|value| *value == 1.0));
    }
}
