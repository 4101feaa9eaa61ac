//! Ranks of a boundary exchange as threads over one shared segment.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use umbra::boundary::{Boundary, BoundaryError, Extent, Fabric, Field, Mesh, Settings, Store, largest_message};
use umbra_core::boundary::{Shape, Sparse};

/// What ranks of tests wait for each other, and small slots, so that much overflows.
pub const SETTINGS: Settings = Settings {
    deadline: Some(Duration::from_secs(60)),
    smallest_slot: 256,
    largest_slot: u32::MAX,
    reversed: false,
    timed: false,
};

/// A sparse field with these thresholds and this default.
///
/// # Panics
/// If there is no such field.
#[must_use]
pub fn sparse(allocate: f64, deallocate: f64, default: f64) -> Field {
    Field::sparse(Sparse::new(allocate, deallocate, default).expect("thresholds in their order"))
}

/// One thing along so many dimensions, and another along the others.
pub fn along<T: Copy>(dimensions: usize, on: T, off: T) -> [T; 3] {
    std::array::from_fn(|d| if d < dimensions { on } else { off })
}

/// Blocks with as many cells and ghosts along each dimension.
///
/// # Panics
/// If there are no such blocks.
#[must_use]
pub fn shape(dimensions: usize, cells: u32, ghosts: u32) -> Shape {
    Shape::new(along(dimensions, cells, 1), along(dimensions, ghosts, 0)).expect("cells for the ghosts")
}

/// The same mesh for each of so many ranks.
pub fn same<M: Clone>(mesh: &M, ranks: u32) -> Vec<M> {
    (0..ranks).map(|_| mesh.clone()).collect()
}

/// Runs `body` on every rank, each with its mesh and a store of so many stages in a thread of its own, and returns what they
/// return.
///
/// # Panics
/// If there is no memory for it, or `body` panics.
pub fn job<M: Mesh + Sync, R: Send>(
    meshes: &[M],
    fields: &[Field],
    stages: usize,
    body: impl Fn(u32, Result<Boundary<Fabric>, BoundaryError>, Store) -> R + Sync,
) -> Vec<R> {
    job_with(SETTINGS, meshes, fields, stages, body)
}

/// The same with other settings.
///
/// # Panics
/// As [`job`].
pub fn job_with<M: Mesh + Sync, R: Send>(
    settings: Settings,
    meshes: &[M],
    fields: &[Field],
    stages: usize,
    body: impl Fn(u32, Result<Boundary<Fabric>, BoundaryError>, Store) -> R + Sync,
) -> Vec<R> {
    let ranks = meshes.len() as u32;
    let message = meshes.iter().map(|mesh| largest_message(mesh, fields, ranks)).max().expect("a rank");
    let extent = Extent { ranks, slots: 2, message };
    let segment = Arc::new(Fabric::segment(extent).expect("memory"));
    thread::scope(|scope| {
        let threads: Vec<_> = (0..ranks)
            .zip(meshes)
            .map(|(rank, mesh)| {
                let (segment, body) = (Arc::clone(&segment), &body);
                scope.spawn(move || {
                    let fabric = Fabric::attach(segment, extent, rank).expect("a segment of this extent");
                    let store = Store::new(mesh.blocks(), mesh.shape().len(), fields, stages);
                    body(rank, Boundary::build(mesh, fields, fabric, settings), store)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a rank that ends well")).collect()
    })
}
