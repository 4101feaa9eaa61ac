//! `umbra_boundary_fill_edges`, `umbra_boundary_is_idle`: between two exchanges.
//!
//! They are what a program does with its arrays then.

use std::ffi::c_int;

use umbra::boundary::{Edge, Fields as _, Mesh as _, fill_edges};

use crate::call::{enter, numbers, store, takes};
use crate::mesh::{Arrays, ArraysView};
use crate::object::with_boundary;
use crate::status::{Code, Failure};

/// Edges of a domain: the low and the high one of each direction.
const EDGES: usize = 6;

fn edge(edge: u32) -> Result<Edge, Failure> {
    match edge {
        0 => Ok(Edge::Outflow),
        1 => Ok(Edge::Reflecting),
        other => Err(Failure::new(Code::Invalid, format!("no edge is called {other}"))),
    }
}

/// Fills the ghosts beyond the edges of the domain, of all blocks of this rank.
///
/// # Safety
/// `arrays` points to a structure that begins with its size; its functions may be called, and name whole arrays; `edges`
/// points to six numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_boundary_fill_edges(
    boundary: u64,
    arrays: *const ArraysView,
    edges: *const u32,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise about the edges; any bits are a number.
        let given = unsafe { numbers(edges, EDGES) }?;
        let mut edges = [[Edge::Outflow; 2]; 3];
        for (edges, given) in edges.iter_mut().zip(given.as_chunks::<2>().0) {
            *edges = [edge(given[0])?, edge(given[1])?];
        }
        with_boundary(boundary, |bounded| {
            bounded.with(|inner| {
                // SAFETY: the caller's promise about the arrays.
                let mut view = unsafe { Arrays::new(arrays, inner.lengths) }?;
                let rank = inner.boundary.rank();
                let mesh = &*inner.mesh;
                let mut mine = (0..mesh.blocks()).filter(|&block| mesh.owner(block) == rank);
                let done = mine.try_for_each(|block| fill_edges(mesh, &mut view, block, inner.fields, edges));
                view.end(done)
            })
        })
    })
}

/// Whether a sparse field holds nothing on a block, ghosts included.
///
/// # Safety
/// As for [`umbra_boundary_fill_edges`], and `idle` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_boundary_is_idle(
    boundary: u64,
    arrays: *const ArraysView,
    block: u32,
    field: u32,
    idle: *mut c_int,
) -> c_int {
    enter(|| {
        takes(idle)?;
        let is = with_boundary(boundary, |bounded| {
            bounded.with(|inner| {
                let number = u16::try_from(field).ok();
                let known = number.and_then(|number| Some((number, inner.fields.get(usize::from(number))?)));
                let (number, kind) = known.ok_or_else(|| {
                    Failure::new(Code::Invalid, format!("there is no field {field} among {}", inner.fields.len()))
                })?;
                let rank = inner.boundary.rank();
                if block >= inner.mesh.blocks() || inner.mesh.owner(block) != rank {
                    return Err(Failure::new(Code::Invalid, format!("block {block} is none of rank {rank}")));
                }
                // SAFETY: the caller's promise about the arrays.
                let view = unsafe { Arrays::new(arrays, inner.lengths) }?;
                let is = kind
                    .sparse
                    .is_some_and(|sparse| view.values(block, number).is_some_and(|values| sparse.is_idle(values)));
                view.end(Ok(is))
            })
        })?;
        // SAFETY: the caller's promise about the output.
        unsafe { store(idle, c_int::from(is)) }
    })
}
