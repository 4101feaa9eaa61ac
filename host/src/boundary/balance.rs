//! Whether blocks of several levels fit together.
//!
//! Those that touch differ by one level at most, and know each other, in every direction that a channel is made for.

use umbra_core::boundary::{Element, Octant, RefineError, Shape};

use super::mesh::Mesh;

/// Why no exchange can be built on a mesh. Every rank that has the same mesh finds the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MeshError {
    /// Blocks have numbers of 32 bits.
    #[error("a grid of {} x {} x {} blocks, and no mesh has more than {}: make blocks larger", .counts[0], .counts[1], .counts[2], u32::MAX)]
    TooMany {
        /// Blocks in each direction.
        counts: [u32; 3],
    },
    /// There are more owners than blocks, or blocks without one.
    #[error("{given} owners were named for {blocks} blocks: name one a block")]
    Owners {
        /// Owners that were named.
        given: usize,
        /// Blocks of the mesh.
        blocks: u32,
    },
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
    /// A finer block is named as a neighbour, or one that is not finer as a finer one.
    #[error(
        "block {block} of level {level} names block {other} of level {other_level} in direction {element} by the wrong call: \
         finer blocks are named by `finer`, all others by `neighbour`"
    )]
    Misnamed {
        /// The block that names the other one.
        block: u32,
        /// Its level.
        level: u32,
        /// The direction.
        element: Element,
        /// The other one.
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

/// Whether a mesh has several levels, or names finer blocks; then all of it is checked, as it is when an exchange is built. Any
/// mesh is asked whether it [is one](Mesh::check).
///
/// *Cost*: O(blocks); each is asked about all directions.
///
/// # Errors
/// [`MeshError`].
pub fn is_refined(mesh: &impl Mesh) -> Result<bool, MeshError> {
    mesh.check()?;
    let shape = mesh.shape();
    let names_finer = |block| {
        let mut without = shape.elements().filter(|&element| mesh.neighbour(block, element).is_none());
        without.any(|element| shape.octants(element).any(|octant| mesh.finer(block, element, octant).is_some()))
    };
    let refined = (0..mesh.blocks()).any(|block| mesh.level(block) != mesh.level(0) || names_finer(block));
    if refined {
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
    let misnamed = |other| MeshError::Misnamed { block, level, element, other, other_level: mesh.level(other) };
    let mutual = |known: bool, other| if known { Ok(()) } else { Err(MeshError::OneSided { block, element, other }) };
    if let Some(other) = mesh.neighbour(block, element) {
        let there = mesh.level(other);
        if there == level {
            return mutual(mesh.neighbour(other, element.opposite()) == Some(block), other);
        }
        if there.checked_add(1) != Some(level) {
            return Err(if level.checked_add(1) == Some(there) { misnamed(other) } else { unbalanced(other) });
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
            return Err(if mesh.level(other) <= level { misnamed(other) } else { unbalanced(other) });
        }
        halved(other)?;
        mutual(mesh.octant(other) == octant, other)?;
        // All of its ghosts that are filled from here.
        let theirs = shape.elements().filter(|ghosts| ghosts.outward(octant) == Some(element.opposite()));
        for ghosts in theirs {
            if mesh.neighbour(other, ghosts) != Some(block) {
                return Err(MeshError::OneSided { block: other, element: ghosts, other: block });
            }
        }
        found = Some(other);
    }
    match (found, missing) {
        (Some(other), Some(octant)) => Err(MeshError::Hole { block, element, other, octant }),
        _ => Ok(()),
    }
}
