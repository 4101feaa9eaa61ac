//! Ranks of a boundary exchange as threads over one shared segment.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use umbra::boundary::{
    Boundary, BoundaryError, Extent, Fabric, Field, Fields as _, Grid, Mesh, Scope, Settings, Store, Transport,
    largest_message,
};
use umbra_core::boundary::{Kind, Shape, Sparse};

/// What ranks of tests wait for each other, and small slots, so that much overflows.
pub const SETTINGS: Settings = Settings {
    deadline: Some(Duration::from_secs(60)),
    smallest_slot: 256,
    largest_slot: u32::MAX,
    reversed: false,
    timed: false,
    kind: Kind::GHOST,
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

/// Cells of a strip of 128 KiB.
const LONG: u32 = 128 * 1024 / 8;
/// Times that a rank asks to send what was sent, or cannot be sent yet.
const ASKED: usize = 100;

/// Two blocks in a row, one on each of two ranks; each wants all of the cells of the other, which are 128 KiB.
///
/// # Panics
/// If there is no such mesh.
#[must_use]
pub fn long_row() -> Grid {
    Grid::new(Shape::new([LONG, 1, 1], [LONG, 0, 0]).expect("a row of cells"), [2, 1, 1], [false; 3], 2)
}

/// What the two ranks of [`long_row`] need to exchange its only field.
///
/// # Panics
/// If that is too much.
#[must_use]
pub fn long_extent() -> Extent {
    Extent { ranks: 2, slots: 2, message: largest_message(&long_row(), &[Field::DENSE], 2) }
}

/// Has the first rank send 128 KiB to one that does not receive, in two exchanges: no call waits for it, and when it receives at
/// last, what was sent is there. Whether the second message went before.
///
/// # Panics
/// If a call waits or fails, or a value is another.
pub fn send_to_one_that_does_not_receive<T: Transport + Send>(ends: [T; 2], smallest_slot: u32) -> bool {
    let (mesh, fields) = (&long_row(), &[Field::DENSE]);
    let settings = Settings { smallest_slot, ..SETTINGS };
    let (tell, hear) = mpsc::channel();
    let [first, second] = ends;
    thread::scope(|scope| {
        let sender = scope.spawn(move || {
            let mut rank = Long::new(mesh, fields, 0, first, settings);
            assert!(rank.send(1), "nothing is in its way");
            rank.finish(1);
            let went = rank.send(2);
            assert_eq!(rank.boundary.counts().messages, 1 + u64::from(went));
            tell.send(()).expect("the other one listens");
            rank.send_patiently();
            rank.finish(2);
            went
        });
        let mut rank = Long::new(mesh, fields, 1, second, settings);
        assert!(rank.send(1), "nothing is in its way");
        let heard = hear.recv_timeout(Duration::from_secs(60));
        rank.finish(1);
        rank.send(2);
        rank.send_patiently();
        rank.finish(2);
        assert_eq!(heard, Ok(()), "a send has waited for a rank that did not receive");
        sender.join().expect("a rank that ends well")
    })
}

/// A rank of [`long_row`].
struct Long<T> {
    boundary: Boundary<T>,
    store: Store,
    rank: u32,
}

impl<T: Transport> Long<T> {
    fn new(mesh: &Grid, fields: &[Field], rank: u32, end: T, settings: Settings) -> Long<T> {
        let mut store = Store::new(2, mesh.shape().len(), fields, 1);
        store.allocate(rank, 0).expect("memory");
        Long { boundary: Boundary::build(mesh, fields, end, settings).expect("the same mesh"), store, rank }
    }

    /// The value of a cell that a rank sends in an exchange.
    fn value(rank: u32, exchange: u32, cell: usize) -> f64 {
        f64::from(rank * 10 + exchange) + cell as f64 / f64::from(LONG)
    }

    /// Sends, and asks often whether it can be sent; whether it was.
    fn send(&mut self, exchange: u32) -> bool {
        let mut stage = self.store.stage(0);
        let values = stage.values_mut(self.rank, 0).expect("it is there");
        let (_, cells) = values.split_at_mut(LONG as usize);
        let own = cells.iter_mut().take(LONG as usize).enumerate();
        own.for_each(|(at, cell)| *cell = Self::value(self.rank, exchange, at));
        let mut sent = false;
        for _ in 0..ASKED {
            let asked = self.boundary.send(&self.store.stage(0), Scope::Any).expect("nothing is wrong");
            assert!(asked.is_ready() || !sent, "what was sent stays sent");
            sent = asked.is_ready();
        }
        sent
    }

    fn send_patiently(&mut self) {
        while self.boundary.send(&self.store.stage(0), Scope::Any).expect("in time").is_pending() {
            thread::yield_now();
        }
    }

    /// Receives, and looks at all that came.
    fn finish(&mut self, exchange: u32) {
        self.boundary.wait(&mut self.store.stage(0), Scope::Any).expect("in time");
        self.boundary.set(&mut self.store.stage(0), Scope::Any).expect("all is received");
        let values = self.store.values(self.rank, 0, 0).expect("it is there");
        let came = if self.rank == 0 { &values[2 * LONG as usize..] } else { &values[..LONG as usize] };
        let wrong = came.iter().enumerate().find(|&(at, came)| *came != Self::value(1 - self.rank, exchange, at));
        assert_eq!(wrong, None, "exchange {exchange}");
    }
}
