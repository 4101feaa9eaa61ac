//! Whether blocks of several levels fit together: those that touch differ by one level at most, and know each other.

use umbra_core::boundary::{Element, Octant, RefineError, Shape};

use super::mesh::Mesh;

/// Why no exchange can be built on a mesh of several levels. Every rank finds the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MeshError {
    /// Two blocks are too far apart.
    #[error(
        "block {block} of level {level} touches block {other} of level {other_level}: refine the coarser one, so that they \
         differ by one level"
    )]
    Unbalanced {
        /// A block.
        block: u32,
        /// Its level.
        level: u32,
        /// The one that it touches.
        other: u32,
        /// Its level.
        other_level: u32,
    },
    /// Blocks of this shape cannot touch blocks of another level.
    #[error("block {block} touches block {other} of another level: {error}")]
    Shape {
        /// A block.
        block: u32,
        /// The one that it touches.
        other: u32,
        /// Why.
        error: RefineError,
    },
    /// Only one of two blocks knows that they touch.
    #[error("the neighbour of block {block} in direction {element} is block {other}, which does not say so of it")]
    OneSided {
        /// A block.
        block: u32,
        /// A direction.
        element: Element,
        /// Who lies there.
        other: u32,
    },
    /// A block has finer ones beside it, which do not cover all of its side.
    #[error("block {block} touches finer block {other} in direction {element}, and child {} is missing there", .octant.number())]
    Hole {
        /// The block.
        block: u32,
        /// The direction.
        element: Element,
        /// A block that is there.
        other: u32,
        /// The child that is not.
        octant: Octant,
    },
}

/// Whether a mesh has several levels; then all of it is checked, as it is when an exchange is built.
///
/// *Cost*: O(blocks); with several levels each block is asked about all directions.
///
/// # Errors
/// [`MeshError`].
pub fn is_refined(mesh: &impl Mesh) -> Result<bool, MeshError> {
    let refined = (1..mesh.blocks()).any(|block| mesh.level(block) != mesh.level(0));
    if refined {
        let shape = mesh.shape();
        for block in 0..mesh.blocks() {
            shape.elements().try_for_each(|element| check(mesh, &shape, block, element))?;
        }
    }
    Ok(refined)
}

fn check(mesh: &impl Mesh, shape: &Shape, block: u32, element: Element) -> Result<(), MeshError> {
    let level = mesh.level(block);
    let halved = |other| {
        shape.may_be_refined().map_err(|error| MeshError::Shape {
            block: block.min(other),
            other: block.max(other),
            error,
        })
    };
    let unbalanced = |other| MeshError::Unbalanced { block, level, other, other_level: mesh.level(other) };
    let mutual = |known: bool, other| if known { Ok(()) } else { Err(MeshError::OneSided { block, element, other }) };
    if let Some(other) = mesh.neighbour(block, element) {
        let there = mesh.level(other);
        if there == level {
            return mutual(mesh.neighbour(other, element.opposite()) == Some(block), other);
        }
        if there.checked_add(1) != Some(level) {
            return Err(unbalanced(other));
        }
        halved(other)?;
        let octant = mesh.octant(block);
        let known = element.outward(octant).is_some_and(|outward| {
            let back = outward.opposite();
            mesh.neighbour(other, back).is_none() && mesh.finer(other, back, octant) == Some(block)
        });
        return mutual(known, other);
    }
    let mut missing = None;
    let mut found = None;
    for octant in shape.octants(element) {
        let Some(other) = mesh.finer(block, element, octant) else {
            missing = Some(octant);
            continue;
        };
        if level.checked_add(1) != Some(mesh.level(other)) {
            return Err(unbalanced(other));
        }
        halved(other)?;
        let known = mesh.octant(other) == octant && mesh.neighbour(other, element.opposite()) == Some(block);
        mutual(known, other)?;
        found = Some(other);
    }
    match (found, missing) {
        (Some(other), Some(octant)) => Err(MeshError::Hole { block, element, other, octant }),
        _ => Ok(()),
    }
}
