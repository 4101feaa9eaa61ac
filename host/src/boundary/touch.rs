//! Which channels two blocks have that touch, be they of one level or of two.

use umbra_core::boundary::{Element, Shape, Step};

use super::mesh::Mesh;

/// One channel of a block with another one, or with itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Touch {
    pub(crate) other: u32,
    /// The block sends; else it receives.
    pub(crate) out: bool,
    /// As the sender sees it.
    pub(crate) element: Element,
    pub(crate) step: Step,
}

/// Calls `each` with the channels that a block has with what lies in a direction. Over all directions of all blocks, each channel
/// comes once as one that goes out, and once as one that comes in.
pub(crate) fn touches(mesh: &impl Mesh, shape: &Shape, block: u32, element: Element, mut each: impl FnMut(Touch)) {
    let back = element.opposite();
    if let Some(other) = mesh.neighbour(block, element) {
        let (step, out) = if mesh.level(other) == mesh.level(block) {
            (Step::Same, Some(Step::Same))
        } else {
            let octant = mesh.octant(block);
            // Several directions may lead to one coarser block, whose ghosts are filled from one of them.
            let direct = element.outward(octant) == Some(element);
            (Step::Finer(octant), direct.then_some(Step::Coarser(octant)))
        };
        if let Some(step) = out {
            each(Touch { other, out: true, element, step });
        }
        each(Touch { other, out: false, element: back, step });
        return;
    }
    for octant in shape.octants(element) {
        let Some(other) = mesh.finer(block, element, octant) else { continue };
        each(Touch { other, out: false, element: back, step: Step::Coarser(octant) });
        let theirs = shape.elements().filter(|ghosts| ghosts.outward(octant) == Some(back));
        theirs.for_each(|ghosts| {
            each(Touch { other, out: true, element: ghosts.opposite(), step: Step::Finer(octant) });
        });
    }
}
