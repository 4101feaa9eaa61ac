//! Ghosts at the edge of the domain: continued, or mirrored.

use umbra_core::boundary::Element;

use super::error::BoundaryError;
use super::fields::{Field, Fields};
use super::mesh::{Mesh, is_edge};

/// What lies beyond an edge of the domain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Edge {
    /// The last cell, continued.
    Outflow,
    /// The interior, mirrored; the component of a vector across the edge changes its sign.
    Reflecting,
}

/// Fills the ghosts of a block where nothing lies, after an exchange was set: in direction x first, then y, then z, so
/// that corners get what both edges make of them. `edges` are those at the low and the high end of each direction.
///
/// # Errors
/// [`BoundaryError::Length`]: put the array right and call again.
pub fn fill_edges(
    mesh: &impl Mesh,
    view: &mut impl Fields,
    block: u32,
    fields: &[Field],
    edges: [[Edge; 2]; 3],
) -> Result<(), BoundaryError> {
    let shape = mesh.shape();
    for direction in 0..3 {
        let ghosts = shape.ghosts()[direction] as usize;
        for high in [false, true].into_iter().filter(|_| ghosts > 0) {
            let mut offsets = [0; 3];
            offsets[direction] = if high { 1 } else { -1 };
            let [x, y, z] = offsets;
            if Element::new(x, y, z).is_none_or(|element| !is_edge(mesh, block, element)) {
                continue;
            }
            let edge = edges[direction][usize::from(high)];
            let cells = shape.cells()[direction] as usize;
            // The ghost `nth` layers beyond the edge, and the layer of the interior that it is filled from.
            let layers = move |nth: usize| match (high, edge) {
                (false, Edge::Outflow) => (ghosts - 1 - nth, ghosts),
                (false, Edge::Reflecting) => (ghosts - 1 - nth, ghosts + nth),
                (true, Edge::Outflow) => (ghosts + cells + nth, ghosts + cells - 1),
                (true, Edge::Reflecting) => (ghosts + cells + nth, ghosts + cells - 1 - nth),
            };
            for (number, field) in (0..).zip(fields) {
                let Some(values) = view.values_mut(block, number) else { continue };
                let (len, expected) = (values.len(), shape.len().saturating_mul(field.components as usize));
                if len != expected {
                    return Err(BoundaryError::Length { block, field: number, len, expected });
                }
                for (component, values) in values.chunks_mut(shape.len()).enumerate() {
                    let turned = edge == Edge::Reflecting && field.vector && component == direction;
                    for nth in 0..ghosts {
                        let (to, from) = layers(nth);
                        copy_layer(values, shape.extents(), direction, from, to, turned);
                    }
                }
            }
        }
    }
    Ok(())
}

/// Copies all cells of one layer across a direction to another layer.
fn copy_layer(values: &mut [f64], extents: [u32; 3], direction: usize, from: usize, to: usize, turned: bool) {
    let [nx, ny, nz] = extents.map(|n| n as usize);
    let (strides, counts) = ([1, nx, nx * ny], [nx, ny, nz]);
    let others: Vec<usize> = (0..3).filter(|&other| other != direction).collect();
    for a in 0..counts[others[0]] {
        for b in 0..counts[others[1]] {
            let base = a * strides[others[0]] + b * strides[others[1]];
            let value = values[base + from * strides[direction]];
            values[base + to * strides[direction]] = if turned { -value } else { value };
        }
    }
}
