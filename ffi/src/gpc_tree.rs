//! `umbra_gpc_parents`: a stated tree from its edges.

use std::ffi::c_int;

use umbra_core::tree::explicit::from_edges;

use crate::call::{enter, numbers, store_list, takes_list, zeros};
use crate::status::{Code, Failure};

/// `struct umbra_gpc_edge`.
#[repr(C)]
pub struct Edge {
    parent: u32,
    child: u32,
}

/// Fills the parents of so many positions.
///
/// # Safety
/// `edges` points to `count` edges that do not change during the call, or is null with `count` 0; `parents` points to
/// `positions` numbers that nobody else uses, or is null with `positions` 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_gpc_parents(
    edges: *const Edge,
    count: usize,
    parents: *mut u32,
    positions: usize,
) -> c_int {
    enter(|| {
        takes_list(parents, positions)?;
        // SAFETY: the caller's promise; any bits are an edge.
        let edges = unsafe { numbers(edges, count) }?;
        let mut found = zeros(positions)?;
        from_edges(edges.iter().map(|edge| (edge.parent, edge.child)), &mut found)
            .map_err(|bad| Failure::new(Code::Invalid, bad))?;
        let mut all = 0;
        // SAFETY: the caller's promise about `parents`; `all` is ours.
        unsafe { store_list(&found, parents, positions, &raw mut all) }
    })
}
