//! The tasks of a boundary exchange, with ranks as threads over one shared segment.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::cell::Cell;
use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use umbra::boundary::{
    Boundary, BoundaryError, Edge, Extent, Fabric, Field, Fields, Grid, Held, Late, Mesh, NoMemory, Scope, Settings,
    Stage, Store, Transport, Tree, fill_edges, largest_message,
};
use umbra_core::boundary::{BuildError, Element, Message, Shape, VoteError};
use umbra_tests::boundary_job::{
    SETTINGS, along, job, job_with, long_extent, same, send_to_one_that_does_not_receive, shape, sparse,
};
use umbra_tests::late::in_time;
use umbra_tests::meeting::Meeting;

/// A number that is different for every cell of the whole mesh, field and component; `cell` may lie around the edge.
fn value(mesh: &Grid, block: u32, field: u16, component: usize, cell: [i64; 3]) -> f64 {
    let (counts, cells, at) = (mesh.counts(), mesh.shape().cells(), mesh.position(block));
    let mut index = 0;
    for d in (0..3).rev() {
        let extent = i64::from(counts[d]) * i64::from(cells[d]);
        index = index * extent + (i64::from(at[d]) * i64::from(cells[d]) + cell[d]).rem_euclid(extent);
    }
    (index * 100 + i64::from(field) * 10 + component as i64 + 1) as f64
}

/// All cells of a block's array, with their place relative to the interior.
fn cells(shape: Shape) -> impl Iterator<Item = (usize, [i64; 3])> {
    let [nx, ny, _] = shape.extents().map(|n| n as usize);
    (0..shape.len()).map(move |at| {
        let place = [at % nx, at / nx % ny, at / nx / ny];
        (at, std::array::from_fn(|d| place[d] as i64 - i64::from(shape.ghosts()[d])))
    })
}

fn is_interior(shape: Shape, cell: [i64; 3]) -> bool {
    (0..3).all(|d| (0..i64::from(shape.cells()[d])).contains(&cell[d]))
}

/// Fills interiors with `value`, ghosts with NaN.
fn fill(mesh: &Grid, store: &mut Store, block: u32, field: u16, components: usize) {
    store.allocate(block, field).unwrap();
    let shape = mesh.shape();
    let mut view = store.stage(0);
    let values = view.values_mut(block, field).unwrap();
    for component in 0..components {
        for (at, cell) in cells(shape) {
            let inside = is_interior(shape, cell);
            values[component * shape.len() + at] =
                if inside { value(mesh, block, field, component, cell) } else { f64::NAN };
        }
    }
}

fn bits(store: &Store, blocks: impl Iterator<Item = u32>, fields: u16) -> Vec<Option<Vec<u64>>> {
    let each = |block, field| store.values(block, field, 0).map(|v| v.iter().map(|v| v.to_bits()).collect());
    blocks.flat_map(|block| (0..fields).map(move |field| (block, field))).map(|(b, f)| each(b, f)).collect()
}

#[test]
fn s18_and_s19_every_ghost_gets_its_cell_and_interiors_stay() {
    let vector = Field { components: 3, vector: true, sparse: None };
    let fields = [Field::DENSE, vector, sparse(0.5, 0.5, 0.0)];
    // As small as can be, and one with rows both long and short, of more values than are gathered at once.
    let small = (1..=3).flat_map(|dimensions| (1..=4).map(move |ghosts| (dimensions, ghosts, ghosts)));
    for (dimensions, cells_of_block, ghosts) in small.chain([(2, 100, 3)]) {
        // A block that is its own neighbour, two that touch several times, and a usual mesh.
        for count in [1, 2, 3] {
            let shape = shape(dimensions, cells_of_block, ghosts);
            for ranks in [1, 2, 3] {
                let mesh = Grid::new(shape, along(dimensions, count, 1), [true; 3], ranks);
                job(&same(&mesh, ranks), &fields, 2, |rank, boundary, mut store| {
                    let mut boundary = boundary.unwrap();
                    if count == 1 {
                        // All directions lead from the block to itself.
                        let to_itself: Vec<_> = boundary
                            .machine()
                            .entries()
                            .iter()
                            .map(|entry| (entry.key.field, entry.key.element))
                            .collect();
                        let around = 3_usize.pow(dimensions as u32) - 1;
                        assert_eq!(to_itself.len(), if rank == 0 { 3 * around } else { 0 }, "{dimensions} dimensions");
                        assert_eq!(to_itself.iter().collect::<HashSet<_>>().len(), to_itself.len(), "each once");
                    }
                    for block in mesh.owned_by(rank) {
                        for field in 0..3 {
                            fill(&mesh, &mut store, block, field, fields[usize::from(field)].components as usize);
                        }
                    }
                    boundary.exchange(&mut store.stage(0)).unwrap();
                    for block in mesh.owned_by(rank) {
                        for field in 0..3 {
                            let values = store.values(block, field, 0).unwrap();
                            for component in 0..fields[usize::from(field)].components as usize {
                                for (at, cell) in cells(shape) {
                                    let expected = value(&mesh, block, field, component, cell);
                                    assert_eq!(
                                        values[component * shape.len() + at],
                                        expected,
                                        "block {block} {cell:?}"
                                    );
                                }
                            }
                        }
                    }
                });
            }
        }
    }
}

/// Sparse content that some blocks have, some have below the threshold, and most have not.
fn scattered(mesh: &Grid, store: &mut Store, rank: u32, default: f64) {
    for block in mesh.owned_by(rank) {
        if block % 17 == 0 {
            store.allocate(block, 0).unwrap();
            let mut view = store.stage(0);
            let values = view.values_mut(block, 0).unwrap();
            for (at, cell) in cells(mesh.shape()) {
                if is_interior(mesh.shape(), cell) && (at + block as usize).is_multiple_of(7) {
                    values[at] = default + (1 + at) as f64;
                }
            }
        } else if block % 5 == 3 {
            store.allocate(block, 0).unwrap();
            store.stage(0).values_mut(block, 0).unwrap().iter_mut().for_each(|v| *v += 1e-9);
        }
    }
}

#[test]
fn s17_s27_any_is_local_and_nonlocal_in_either_order_and_the_same_on_all_rank_counts() {
    for default in [0.0, 1.5] {
        let fields = [sparse(1e-6, 1e-8, default)];
        let shape = shape(2, 4, 2);
        let mut outcomes = Vec::new();
        for (ranks, way) in [(1, 0), (1, 1), (2, 0), (2, 1), (2, 2), (3, 0), (3, 1), (3, 2), (4, 3), (8, 0), (8, 2)] {
            let mesh = Grid::new(shape, [6, 6, 1], [true; 3], ranks);
            let parts = job(&same(&mesh, ranks), &fields, 2, |rank, boundary, mut store| {
                let mut boundary = boundary.unwrap();
                scattered(&mesh, &mut store, rank, default);
                for _ in 0..3 {
                    let order = match way {
                        0 => &[Scope::Any][..],
                        1 => &[Scope::Local, Scope::Nonlocal],
                        _ => &[Scope::Nonlocal, Scope::Local],
                    };
                    if way == 3 {
                        boundary.start_receive(Scope::Any).unwrap();
                        boundary.start_receive(Scope::Nonlocal).unwrap();
                    }
                    for &scope in order {
                        while boundary.send(&store.stage(0), scope).unwrap().is_pending() {
                            std::thread::yield_now();
                        }
                        boundary.wait(&mut store.stage(0), scope).unwrap();
                        boundary.set(&mut store.stage(0), scope).unwrap();
                    }
                }
                let blocks: Vec<u32> = mesh.owned_by(rank).collect();
                blocks.iter().copied().zip(bits(&store, blocks.iter().copied(), 1)).collect::<Vec<_>>()
            });
            let mut all: Vec<_> = parts.into_iter().flatten().collect();
            all.sort();
            outcomes.push((ranks, way, all));
        }
        for (ranks, way, outcome) in &outcomes {
            assert!(*outcome == outcomes[0].2, "default {default}, {ranks} ranks, way {way}");
        }
        assert!(outcomes[0].2.iter().any(|(_, values)| values.is_none()), "some block has nothing");
    }
}

/// One rank or two, a block each with one field; the first block's array is prepared, and what the second one has comes back.
fn pair(field: Field, ranks: u32, dense_target: bool, prepare: impl Fn(&mut [f64]) + Sync) -> Option<Vec<f64>> {
    let mesh = Grid::new(shape(2, 4, 2), [2, 1, 1], [false; 3], ranks);
    let outcomes = job(&same(&mesh, ranks), &[field], 2, |rank, boundary, mut store| {
        let mut boundary = boundary.unwrap();
        if mesh.owner(0) == rank {
            store.allocate(0, 0).unwrap();
            prepare(store.stage(0).values_mut(0, 0).unwrap());
        }
        if mesh.owner(1) == rank && dense_target {
            store.allocate(1, 0).unwrap();
            store.stage(0).values_mut(1, 0).unwrap().fill(9.0);
        }
        boundary.exchange(&mut store.stage(0)).unwrap();
        (mesh.owner(1) == rank).then(|| store.values(1, 0, 0).map(<[f64]>::to_vec))
    });
    outcomes.into_iter().flatten().next().unwrap()
}

/// An interior cell that the right neighbour wants.
const SHARED: usize = 3 * 8 + 5;
/// Where the right neighbour has it.
const GHOST: usize = 3 * 8 + 1;

#[test]
fn s7_a_long_send_to_a_rank_that_never_receives_returns() {
    // What stays with its sender, and what fits into the slot.
    for smallest_slot in [256, 1 << 18] {
        let extent = long_extent();
        let segment = Arc::new(Fabric::segment(extent).unwrap());
        let ends = [0, 1].map(|rank| Fabric::attach(segment.clone(), extent, rank).unwrap());
        assert!(send_to_one_that_does_not_receive(ends, smallest_slot), "there is a second slot");
    }
}

#[test]
fn s20_to_s24_thresholds_nan_defaults_and_nulls() {
    for ranks in [1, 2] {
        let field = sparse(1e-3, 1e-4, 0.0);
        assert!(pair(field, ranks, false, |v| v[SHARED] = 1e-3).is_some(), "exactly at the threshold is live");
        assert!(pair(field, ranks, false, |v| v.fill(1e-3_f64.next_down())).is_none(), "below is null");
        let nan = f64::from_bits(0x7ff8_0000_dead_beef);
        let came = pair(field, ranks, false, |v| v[SHARED] = nan).unwrap();
        assert_eq!(came[GHOST].to_bits(), nan.to_bits(), "NaN travels, with its payload");
        let came = pair(Field::DENSE, ranks, true, |v| v.fill(nan)).unwrap();
        assert_eq!(came[GHOST].to_bits(), nan.to_bits(), "of dense fields too");
        let one = sparse(1e-3, 1e-4, 1.0);
        let came = pair(one, ranks, false, |v| v[SHARED] = 1e-13).unwrap();
        assert_eq!((came[GHOST], came[GHOST + 8]), (1e-13, 1.0), "near zero is something where the default is one");
        assert_eq!(came[0], 1.0, "the whole array begins with the default");
        let came = pair(one, ranks, true, |_| ()).unwrap();
        assert_eq!((came[GHOST], came[SHARED]), (1.0, 9.0), "a null overwrites ghosts with the default, only ghosts");
    }
}

#[test]
fn s20_one_live_corner_cell_makes_only_its_own_channels_live() {
    let mesh = Grid::new(shape(2, 4, 1), [3, 3, 1], [true; 3], 1);
    job(&same(&mesh, 1), &[sparse(1e-3, 1e-4, 0.0)], 2, |_, boundary, mut store| {
        let mut boundary = boundary.unwrap();
        store.allocate(4, 0).unwrap();
        store.stage(0).values_mut(4, 0).unwrap()[6 + 1] = 1.0;
        boundary.exchange(&mut store.stage(0)).unwrap();
        let present: Vec<_> = (0..9).filter(|&block| store.values(block, 0, 0).is_some()).collect();
        assert_eq!(present, [0, 1, 3, 4], "the corner, the two faces that it is part of, and itself");
    });
}

#[test]
fn s20_one_live_cell_in_space_makes_only_the_channels_of_its_faces_edges_and_corner_live() {
    let shape = shape(3, 4, 1);
    // Each block has 26 other neighbours.
    let mesh = Grid::new(shape, [3, 3, 3], [true; 3], 1);
    let cases = [
        ("the corner, three edges and three faces", [0, 0, 0], &[0, 1, 3, 4, 9, 10, 12, 13][..]),
        ("the corner at the other end", [3, 3, 3], &[13, 14, 16, 17, 22, 23, 25, 26]),
        ("the edge and its two faces", [1, 0, 0], &[1, 4, 10, 13]),
        ("an edge along another direction", [3, 0, 2], &[10, 11, 13, 14]),
        ("the face", [1, 2, 0], &[4, 13]),
        ("nobody else", [1, 2, 1], &[13]),
    ];
    for (what, cell, expected) in cases {
        job(&same(&mesh, 1), &[sparse(1e-3, 1e-4, 0.0)], 2, |_, boundary, mut store| {
            let mut boundary = boundary.unwrap();
            store.allocate(13, 0).unwrap();
            let (at, _) = cells(shape).find(|(_, here)| *here == cell).unwrap();
            store.stage(0).values_mut(13, 0).unwrap()[at] = 1.0;
            boundary.exchange(&mut store.stage(0)).unwrap();
            let present: Vec<_> = (0..27).filter(|&block| store.values(block, 0, 0).is_some()).collect();
            assert_eq!(present, expected, "{what}");
        });
    }
}

#[test]
fn s23_and_s29_what_comes_makes_a_field_present_in_all_stages_when_everything_is_there() {
    let mesh = Grid::new(shape(2, 4, 2), [3, 1, 1], [false; 3], 3);
    let (sent, looked) = (Meeting::of(0..3), Meeting::of(0..3));
    job(&same(&mesh, 3), &[sparse(1e-3, 1e-4, 0.5)], 2, |rank, boundary, mut store| {
        let mut boundary = boundary.unwrap();
        if rank != 1 {
            store.allocate(rank, 0).unwrap();
            store.stage(0).values_mut(rank, 0).unwrap().fill(2.0);
        }
        // The last rank sends only after the middle one has looked.
        if rank < 2 {
            assert!(boundary.send(&store.stage(0), Scope::Any).unwrap().is_ready());
        }
        sent.wait(rank);
        if rank == 1 {
            for _ in 0..10 {
                assert!(boundary.receive(&mut store.stage(0), Scope::Any).unwrap().is_pending());
            }
            assert_eq!(store.usage().allocations, 0, "one channel short changes states only");
            let error = boundary.set(&mut store.stage(0), Scope::Any).unwrap_err();
            let BoundaryError::NotReceived { first: Some(first), count: 1 } = error else { panic!("{error:?}") };
            assert_eq!((first.sender, first.receiver, first.field), (2, 1, 0));
            let named = "1 channels are not received, the first is block 2 to block 1, field 0, element";
            assert!(error.to_string().starts_with(named), "{error}");
        }
        looked.wait(rank);
        assert!(boundary.send(&store.stage(0), Scope::Any).unwrap().is_ready());
        boundary.wait(&mut store.stage(0), Scope::Any).unwrap();
        if rank == 1 {
            assert_eq!(store.usage().allocations, 1, "once, for both neighbours");
            assert_eq!(store.values(1, 0, 0).unwrap(), [0.5; 64], "the default everywhere until it is set");
            assert_eq!(store.values(1, 0, 1).unwrap(), [0.5; 64], "in all stages");
        }
        boundary.set(&mut store.stage(0), Scope::Any).unwrap();
    });
}

#[test]
fn s25_a_block_that_moves_keeps_for_how_long_it_was_idle() {
    let (shape, field) = (shape(2, 4, 2), sparse(1e-3, 1e-4, 0.0));
    let stores = || [0, 1].map(|_| Store::new(1, shape.len(), &[field], 1));
    for moves_after in 0..3 {
        let [mut there, mut here] = stores();
        there.allocate(0, 0).unwrap();
        for _ in 0..moves_after {
            assert_eq!(there.free_idle(0..1, 3), 0);
        }
        here.allocate(0, 0).unwrap();
        here.set_idle(0, 0, there.idle(0, 0));
        let freed: Vec<_> = (moves_after..3).map(|_| here.free_idle(0..1, 3)).collect();
        assert_eq!((freed.iter().sum::<usize>(), freed.last()), (1, Some(&1)), "moved after {moves_after} looks");
    }
}

#[test]
fn s26_an_array_that_was_replaced_between_two_exchanges_is_the_one_that_is_used() {
    let mesh = Grid::new(shape(2, 4, 2), [2, 1, 1], [false; 3], 1);
    job(&same(&mesh, 1), &[sparse(1e-3, 1e-4, 0.0)], 2, |_, boundary, mut store| {
        let mut boundary = boundary.unwrap();
        store.allocate(0, 0).unwrap();
        store.stage(0).values_mut(0, 0).unwrap()[SHARED] = 1.0;
        boundary.exchange(&mut store.stage(0)).unwrap();
        store.free(0, 0);
        store.trim();
        store.allocate(0, 0).unwrap();
        store.stage(0).values_mut(0, 0).unwrap()[SHARED] = 2.0;
        boundary.exchange(&mut store.stage(0)).unwrap();
        assert_eq!(store.values(1, 0, 0).unwrap()[GHOST], 2.0);
    });
}

/// Arrays of which none is there any more after so many were asked for.
struct Lacking<'s> {
    stage: Stage<'s>,
    left: Cell<usize>,
}

impl Lacking<'_> {
    fn is_there(&self) -> bool {
        let left = self.left.get();
        self.left.set(left.saturating_sub(1));
        left > 0
    }
}

impl Fields for Lacking<'_> {
    fn values(&self, block: u32, field: u16) -> Option<&[f64]> {
        self.is_there().then(|| self.stage.values(block, field)).flatten()
    }

    fn values_mut(&mut self, block: u32, field: u16) -> Option<&mut [f64]> {
        self.is_there().then(|| self.stage.values_mut(block, field)).flatten()
    }

    fn allocate(&mut self, block: u32, field: u16) -> Result<(), NoMemory> {
        Err(NoMemory { block, field })
    }
}

/// Calls again and again, each time with one more array that is there, until nothing is lacking; how often.
fn repaired<R>(store: &mut Store, mut call: impl FnMut(&mut Lacking<'_>) -> Result<R, BoundaryError>) -> usize {
    let mut arrays = 0;
    loop {
        match call(&mut Lacking { stage: store.stage(0), left: Cell::new(arrays) }) {
            Ok(_) => return arrays,
            Err(BoundaryError::Absent { .. } | BoundaryError::NoMemory { .. }) => arrays += 1,
            Err(error) => panic!("after {arrays} repairs: {error}"),
        }
    }
}

#[test]
fn what_lacks_an_array_is_repaired_and_called_again() {
    let shape = shape(2, 4, 2);
    for (ranks, orders) in [(1, [&[Scope::Any][..], &[]]), (2, [&[Scope::Any], &[Scope::Nonlocal, Scope::Local]])] {
        let mesh = Grid::new(shape, [4, 4, 1], [true; 3], ranks);
        job(&same(&mesh, ranks), &[Field::DENSE], 2, |rank, boundary, mut store| {
            let mut boundary = boundary.unwrap();
            for order in orders {
                mesh.owned_by(rank).for_each(|block| fill(&mesh, &mut store, block, 0, 1));
                if order.is_empty() {
                    assert!(repaired(&mut store, |view| boundary.exchange(view)) > 2);
                } else {
                    for &scope in order {
                        assert!(repaired(&mut store, |view| boundary.send(view, scope)) > 2);
                    }
                    boundary.wait(&mut store.stage(0), Scope::Any).unwrap();
                    for &scope in order {
                        assert!(repaired(&mut store, |view| boundary.set(view, scope)) > 2);
                    }
                }
                for block in mesh.owned_by(rank) {
                    for (&found, (_, cell)) in store.values(block, 0, 0).unwrap().iter().zip(cells(shape)) {
                        assert_eq!(found, value(&mesh, block, 0, 0, cell), "block {block} {cell:?}");
                    }
                }
            }
        });
    }
}

/// Arrays that lack a cell where they are read, or where they are changed.
struct Short<'s> {
    stage: Stage<'s>,
    read: bool,
}

impl Fields for Short<'_> {
    fn values(&self, block: u32, field: u16) -> Option<&[f64]> {
        let values = self.stage.values(block, field)?;
        values.get(..values.len() - usize::from(self.read))
    }

    fn values_mut(&mut self, block: u32, field: u16) -> Option<&mut [f64]> {
        let values = self.stage.values_mut(block, field)?;
        let len = values.len() - usize::from(!self.read);
        values.get_mut(..len)
    }

    fn allocate(&mut self, block: u32, field: u16) -> Result<(), NoMemory> {
        self.stage.allocate(block, field)
    }
}

#[test]
fn an_array_that_has_another_length_than_when_it_was_sent_is_named() {
    let (shape, blocks) = (shape(2, 4, 2), [2, 2, 1]);
    for refined in [false, true] {
        let mesh = Tree::new(shape, blocks, [true; 3], 1, 1, |_, at| refined && at == [0, 0, 0]);
        job(&same(&mesh, 1), &[Field::DENSE], 1, |_, boundary, mut store| {
            let mut boundary = boundary.unwrap();
            (0..mesh.blocks()).for_each(|block| store.allocate(block, 0).unwrap());
            assert!(boundary.send(&store.stage(0), Scope::Any).unwrap().is_ready());
            boundary.wait(&mut store.stage(0), Scope::Any).unwrap();
            let error = boundary.set(&mut Short { stage: store.stage(0), read: true }, Scope::Any).unwrap_err();
            assert!(matches!(error, BoundaryError::Length { len: 63, expected: 64, .. }), "{error}");
            boundary.set(&mut store.stage(0), Scope::Any).unwrap();
        });
    }
}

#[test]
fn an_array_of_another_length_whose_edges_are_filled_is_named() {
    for (dimensions, edge) in [(1, Edge::Outflow), (2, Edge::Reflecting), (3, Edge::Outflow)] {
        let mesh = Grid::new(shape(dimensions, 4, 2), [1; 3], [false; 3], 1);
        let (fields, edges) = ([Field { components: 2, ..Field::DENSE }; 2], [[edge; 2]; 3]);
        let mut store = Store::new(1, mesh.shape().len(), &fields, 1);
        store.allocate(0, 1).unwrap();
        let expected = 2 * mesh.shape().len();
        store.stage(0).values_mut(0, 1).unwrap().iter_mut().zip(1..).for_each(|(value, nth)| *value = f64::from(nth));
        let mut short = Short { stage: store.stage(0), read: false };
        let error = BoundaryError::Length { block: 0, field: 1, len: expected - 1, expected };
        assert_eq!(fill_edges(&mesh, &mut short, 0, &fields, edges), Err(error));
        // Of one component only, where the fields have two.
        let mut one = Store::new(1, mesh.shape().len(), &[Field::DENSE; 2], 1);
        one.allocate(0, 1).unwrap();
        let error = BoundaryError::Length { block: 0, field: 1, len: expected / 2, expected };
        assert_eq!(fill_edges(&mesh, &mut one.stage(0), 0, &fields, edges), Err(error));
        assert_eq!(fill_edges(&mesh, &mut store.stage(0), 0, &fields, edges), Ok(()));
        let values = store.values(0, 1, 0).unwrap();
        assert!(values[0] > 1.0 && values[expected - 1] < expected as f64, "what is outermost was filled");
    }
}

/// Arrays of a rank for which there is no memory until some is freed.
struct Full<'s> {
    stage: Stage<'s>,
    is_full: bool,
}

impl Fields for Full<'_> {
    fn values(&self, block: u32, field: u16) -> Option<&[f64]> {
        self.stage.values(block, field)
    }

    fn values_mut(&mut self, block: u32, field: u16) -> Option<&mut [f64]> {
        self.stage.values_mut(block, field)
    }

    fn allocate(&mut self, block: u32, field: u16) -> Result<(), NoMemory> {
        if self.is_full { Err(NoMemory { block, field }) } else { self.stage.allocate(block, field) }
    }
}

#[test]
fn a_rank_without_memory_for_what_came_is_named_with_its_block_and_field_and_goes_on_when_it_has_some() {
    let mesh = Grid::new(shape(1, 4, 2), [3, 1, 1], [false; 3], 3);
    let fields = [Field::DENSE, sparse(0.5, 0.5, 0.0)];
    job(&same(&mesh, 3), &fields, 1, |rank, boundary, mut store| {
        let mut boundary = boundary.unwrap();
        fill(&mesh, &mut store, rank, 0, 1);
        if rank == 1 {
            fill(&mesh, &mut store, rank, 1, 1);
        }
        let done = boundary.exchange(&mut Full { stage: store.stage(0), is_full: true });
        if rank != 1 {
            let what = NoMemory { block: rank, field: 1 };
            let error = done.unwrap_err();
            assert_eq!(error, BoundaryError::NoMemory { rank, what });
            let said = format!("rank {rank} has no memory for field 1 on block {rank}: free some, or use more ranks");
            assert_eq!(error.to_string(), said);
            boundary.exchange(&mut Full { stage: store.stage(0), is_full: false }).unwrap();
        }
        // The ghost that is nearest to the block in the middle, and the cell of that which it shows.
        for (_, ghost, cell) in [(0, 6, 0), (2, 1, 3)].into_iter().filter(|&(of, ..)| of == rank) {
            assert_eq!(store.values(rank, 1, 0).unwrap()[ghost], value(&mesh, 1, 1, 0, [cell, 0, 0]));
        }
    });
}

#[test]
fn what_came_for_a_field_that_was_not_made_present_is_named_and_not_lost() {
    let mesh = Grid::new(shape(1, 4, 2), [2, 1, 1], [false; 3], 2);
    let fields = [sparse(0.5, 0.5, 0.0)];
    job(&same(&mesh, 2), &fields, 1, |rank, boundary, mut store| {
        let mut boundary = boundary.unwrap();
        if rank == 0 {
            fill(&mesh, &mut store, 0, 0, 1);
            return boundary.exchange(&mut store.stage(0)).unwrap();
        }
        // It has a place for the other rank's block only.
        let mut small = Store::new(1, mesh.shape().len(), &fields, 1);
        let error = BoundaryError::NotMade { block: 1, field: 0 };
        assert_eq!(boundary.exchange(&mut small.stage(0)), Err(error));
        boundary.exchange(&mut store.stage(0)).unwrap();
        assert_eq!(store.values(1, 0, 0).unwrap()[1], value(&mesh, 0, 0, 0, [3, 0, 0]));
    });
}

#[test]
fn s28_a_fast_sender_neither_overtakes_nor_loses() {
    let mesh = Grid::new(shape(1, 4, 2), [2, 1, 1], [true; 3], 2);
    job(&same(&mesh, 2), &[Field::DENSE], 2, |rank, boundary, mut store| {
        let mut boundary = boundary.unwrap();
        store.allocate(rank, 0).unwrap();
        for turn in 0..300u32 {
            boundary.set_stage((turn % 3) as u8);
            let mine = f64::from(turn * 2 + rank);
            store.stage(0).values_mut(rank, 0).unwrap().fill(mine);
            if (turn + rank * 7) % 31 == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
            boundary.exchange(&mut store.stage(0)).unwrap();
            let theirs = f64::from(turn * 2 + 1 - rank);
            let values = store.values(rank, 0, 0).unwrap();
            assert_eq!(values, [theirs, theirs, mine, mine, mine, mine, theirs, theirs]);
        }
    });
}

#[test]
fn s33_another_order_of_fields_is_an_error_that_names_the_first_channel() {
    let shape = shape(2, 4, 2);
    let mesh = Grid::new(shape, [2, 2, 1], [true; 3], 2);
    let extent = Extent { ranks: 2, slots: 2, message: 1 << 16 };
    let segment = Arc::new(Fabric::segment(extent).unwrap());
    let errors: Vec<_> = std::thread::scope(|scope| {
        let build = |rank: u32| {
            let (segment, mesh) = (segment.clone(), &mesh);
            scope.spawn(move || {
                let vector = Field { components: 2, vector: true, sparse: None };
                let fields = if rank == 0 { [Field::DENSE, vector] } else { [vector, Field::DENSE] };
                let fabric = Fabric::attach(segment, extent, rank).unwrap();
                Boundary::build(mesh, &fields, fabric, SETTINGS).map(|_| ()).unwrap_err()
            })
        };
        [build(0), build(1)].map(|thread| thread.join().unwrap()).into()
    });
    for (rank, error) in errors.iter().enumerate() {
        let BoundaryError::Differs(differs) = error else { panic!("{error:?}") };
        assert_eq!((differs.rank, differs.at), (1 - rank as u32, 0));
        assert!(error.to_string().contains("field 0"), "{error}");
    }
}

#[test]
fn s41_a_rank_that_stops_is_named_by_all_within_a_second_after_the_deadline() {
    // A ring of four ranks, the last of which stops after the first exchange.
    const STOPS: u32 = 3;
    let mesh = Grid::new(shape(2, 4, 2), [4, 1, 1], [true, false, false], 4);
    let deadline = Duration::from_secs(2);
    let (exchanged, at_the_end) = (Meeting::of(0..4), Meeting::of(0..3));
    job(&same(&mesh, 4), &[Field::DENSE], 1, |rank, boundary, mut store| {
        let mut boundary = boundary.unwrap();
        store.allocate(rank, 0).unwrap();
        boundary.exchange(&mut store.stage(0)).unwrap();
        exchanged.wait(rank);
        if rank == STOPS {
            return;
        }
        let is_missing = |late: &Late| {
            let named = late.missing.iter().all(|missing| {
                (missing.rank, missing.key.sender, missing.key.receiver, missing.key.field) == (STOPS, STOPS, rank, 0)
            });
            late.missing.len() == 1 && named
        };
        if rank == 1 {
            // Its neighbours are alive, and send however late they are.
            boundary.exchange(&mut store.stage(0)).unwrap();
            boundary.set_deadline(Some(deadline));
        } else {
            boundary.set_deadline(Some(deadline));
            let begun = Instant::now();
            let error = in_time(deadline, || boundary.exchange(&mut store.stage(0))).unwrap_err();
            let BoundaryError::Late(late) = &error else { panic!("rank {rank}: {error:?}") };
            assert!(begun.elapsed() >= deadline && is_missing(late) && late.count == 1, "rank {rank}: {late:?}");
            let named = format!("rank {STOPS}: block {STOPS} to block {rank}, field 0, element (");
            assert!(late.to_string().contains(&named), "{late}");
        }
        at_the_end.wait(rank);
        // The same rank is at fault for all, also for who has exchanged nothing with it.
        match in_time(deadline, || boundary.remesh(&mesh)).unwrap_err() {
            BoundaryError::Vote(VoteError::Missing { rank: missing }) => assert_eq!((rank, missing), (1, STOPS)),
            BoundaryError::StillOpen(late) => assert!(rank != 1 && is_missing(&late), "rank {rank}: {late:?}"),
            error => panic!("rank {rank}: {error:?}"),
        }
    });
}

#[test]
fn s30_s32_blocks_move_to_other_ranks_between_exchanges() {
    let (shape, fields) = (shape(2, 4, 2), [sparse(1e-6, 1e-8, 0.0)]);
    let first = Grid::new(shape, [4, 1, 1], [true; 3], 2);
    // The first rank loses all its blocks, and the third, which had none, gets them.
    let owners = [[0, 0, 1, 1], [2, 2, 1, 1], [1, 0, 2, 1]];
    let meshes = owners.map(|owners| first.clone().with_owners(owners.to_vec()));
    let whole: Vec<_> = {
        let mut outcome =
            job(&same(&first.clone().with_owners(vec![0; 4]), 1), &fields, 2, |_, boundary, mut store| {
                let mut boundary = boundary.unwrap();
                scattered(&first.clone().with_owners(vec![0; 4]), &mut store, 0, 0.0);
                boundary.exchange(&mut store.stage(0)).unwrap();
                bits(&store, 0..4, 1)
            });
        outcome.remove(0)
    };
    let fields = &fields;
    job(&same(&meshes[0], 3), fields, 2, |rank, boundary, _| {
        let mut boundary = boundary.unwrap();
        for (turn, mesh) in meshes.iter().cycle().take(7).enumerate() {
            if turn > 0 {
                boundary.remesh(mesh).unwrap();
            }
            let mut store = Store::new(4, shape.len(), fields, 2);
            scattered(mesh, &mut store, rank, 0.0);
            assert_eq!(boundary.machine().config().epoch as usize, turn + 1);
            if turn == 3 {
                // An exchange that is open on this rank keeps all from changing the mesh, and is named.
                let alone = rank == 1;
                if alone {
                    let _ = boundary.send(&store.stage(0), Scope::Any).unwrap();
                }
                // What comes to this rank, and what of that the first one owes it, which sends after the vote only.
                let entries = boundary.machine().entries().iter().map(|entry| entry.key);
                let into: Vec<_> = entries.filter(|key| mesh.owner(key.receiver) == rank).collect();
                let owed: Vec<_> = into.iter().filter(|key| mesh.owner(key.sender) == 0).copied().collect();
                match boundary.remesh(mesh).unwrap_err() {
                    error @ BoundaryError::StillOpen(_) if alone => {
                        assert!(error.to_string().contains(&format!("rank 0: {}", owed[0])), "{error}");
                        let BoundaryError::StillOpen(late) = error else { unreachable!("just matched") };
                        let named: Vec<_> = late.missing.iter().map(|missing| (missing.rank, missing.key)).collect();
                        let first: Vec<_> = owed.iter().take(4).map(|key| (0, *key)).collect();
                        assert_eq!((late.count, named), (into.len(), first));
                    }
                    error if alone => panic!("{error}"),
                    error => assert!(error.to_string().contains("rank 1"), "{error}"),
                }
            }
            boundary.exchange(&mut store.stage(0)).unwrap();
            for block in mesh.owned_by(rank) {
                assert_eq!(bits(&store, block..block + 1, 1)[0], whole[block as usize], "turn {turn}, block {block}");
            }
        }
        let counts = boundary.counts();
        assert_eq!((counts.refused, counts.duplicates, counts.old), (0, 0, 0));
    });
}

#[test]
fn an_exchange_of_which_a_half_is_left_keeps_the_mesh_from_changing() {
    let mesh = Grid::new(shape(2, 4, 2), [4, 1, 1], [true; 3], 2);
    job(&same(&mesh, 2), &[Field::DENSE], 1, |rank, boundary, mut store| {
        let mut boundary = boundary.unwrap();
        mesh.owned_by(rank).for_each(|block| fill(&mesh, &mut store, block, 0, 1));
        for (scope, is_over) in [(Scope::Nonlocal, false), (Scope::Local, true)] {
            while boundary.send(&store.stage(0), scope).unwrap().is_pending() {}
            boundary.wait(&mut store.stage(0), scope).unwrap();
            boundary.set(&mut store.stage(0), scope).unwrap();
            match boundary.remesh(&mesh) {
                Ok(()) => assert!(is_over),
                Err(BoundaryError::StillOpen(_)) => assert!(!is_over),
                Err(error) => panic!("{error}"),
            }
        }
        boundary.exchange(&mut store.stage(0)).unwrap();
        boundary.close().unwrap();
    });
}

#[test]
fn an_end_whose_change_of_the_mesh_failed_on_the_way_is_spent() {
    let mesh = Grid::new(shape(2, 4, 2), [4, 1, 1], [true; 3], 2);
    let others = [[0, 0, 1, 1], [1, 0, 0, 1]].map(|owners| mesh.clone().with_owners(owners.to_vec()));
    job(&same(&mesh, 2), &[Field::DENSE], 1, |rank, boundary, mut store| {
        let mut boundary = boundary.unwrap();
        mesh.owned_by(rank).for_each(|block| fill(&mesh, &mut store, block, 0, 1));
        boundary.exchange(&mut store.stage(0)).unwrap();
        assert!(!boundary.is_spent());
        let error = boundary.remesh(&others[rank as usize]).unwrap_err();
        assert!(matches!(error, BoundaryError::Differs(_) | BoundaryError::RefusedElsewhere(_)), "{error}");
        assert!(boundary.is_spent());
        let mut view = store.stage(0);
        assert_eq!(boundary.exchange(&mut view), Err(BoundaryError::Spent));
        assert_eq!(boundary.start_receive(Scope::Local), Err(BoundaryError::Spent));
        assert_eq!(boundary.send(&view, Scope::Any), Err(BoundaryError::Spent));
        assert_eq!(boundary.receive(&mut view, Scope::Any), Err(BoundaryError::Spent));
        assert_eq!(boundary.set(&mut view, Scope::Any), Err(BoundaryError::Spent));
        // At once, though the other rank does not come.
        assert_eq!(boundary.remesh(&mesh), Err(BoundaryError::Spent));
        assert_eq!(boundary.close(), Err(BoundaryError::Spent));
    });
}

#[test]
fn s37_payload_is_exactly_what_the_live_strips_hold() {
    let shape = shape(2, 4, 2);
    let mesh = Grid::new(shape, [2, 1, 1], [false; 3], 2);
    let counts = job(&same(&mesh, 2), &[sparse(1e-3, 1e-4, 0.0), Field::DENSE], 2, |rank, boundary, mut store| {
        let mut boundary = boundary.unwrap();
        store.allocate(rank, 1).unwrap();
        if rank == 0 {
            store.allocate(0, 0).unwrap();
            store.stage(0).values_mut(0, 0).unwrap()[SHARED] = 1.0;
        }
        boundary.exchange(&mut store.stage(0)).unwrap();
        *boundary.counts()
    });
    let strip = shape.send_box(Element::new(1, 0, 0).unwrap()).cells() * 8;
    assert_eq!((counts[0].payload_bytes, counts[0].live, counts[0].null, counts[0].head_bytes), (2 * strip, 2, 0, 64));
    assert_eq!((counts[1].payload_bytes, counts[1].live, counts[1].null, counts[1].head_bytes), (strip, 1, 1, 72));
}

#[test]
fn s38_all_fields_at_once_overflow_and_arrive() {
    let mesh = Grid::new(shape(2, 8, 2), [2, 2, 1], [true; 3], 2);
    let fields = [sparse(1e-3, 1e-4, 0.0); 20];
    job(&same(&mesh, 2), &fields, 2, |rank, boundary, mut store| {
        let mut boundary = boundary.unwrap();
        boundary.exchange(&mut store.stage(0)).unwrap();
        let (before, dense) = boundary.receive_bytes();
        for block in mesh.owned_by(rank) {
            (0..20).for_each(|field| fill(&mesh, &mut store, block, field, 1));
        }
        boundary.exchange(&mut store.stage(0)).unwrap();
        assert_eq!(boundary.counts().overflows, 1, "the slot was for nothing");
        for block in mesh.owned_by(rank) {
            for (at, cell) in cells(mesh.shape()) {
                assert_eq!(store.values(block, 19, 0).unwrap()[at], value(&mesh, block, 19, 0, cell));
            }
        }
        for _ in 0..4 {
            boundary.exchange(&mut store.stage(0)).unwrap();
        }
        assert!(boundary.counts().overflows <= 2, "and then the slots are large enough");
        let (after, _) = boundary.receive_bytes();
        assert!(before < after && after <= dense, "{before} {after} {dense}");
    });
}

#[test]
fn edges_of_the_domain_continue_or_mirror() {
    let vector = Field { components: 3, vector: true, sparse: None };
    for dimensions in 1..=3 {
        let shape = shape(dimensions, 4, 2);
        for (edge, ranks) in [(Edge::Outflow, 1), (Edge::Reflecting, 2)] {
            let mesh = Grid::new(shape, along(dimensions, 2, 1), [false; 3], ranks);
            job(&same(&mesh, ranks), &[vector], 2, |rank, boundary, mut store| {
                let mut boundary = boundary.unwrap();
                mesh.owned_by(rank).for_each(|block| fill(&mesh, &mut store, block, 0, 3));
                boundary.exchange(&mut store.stage(0)).unwrap();
                for block in mesh.owned_by(rank) {
                    fill_edges(&mesh, &mut store.stage(0), block, &[vector], [[edge; 2]; 3]).unwrap();
                    let values = store.values(block, 0, 0).unwrap();
                    for component in 0..3 {
                        for (at, cell) in cells(shape) {
                            // The cell within the domain that this one stands for, and whether the sign is turned.
                            let (mut from, mut sign) = (cell, 1.0);
                            for d in 0..dimensions {
                                let (low, high) = (
                                    -4 * i64::from(mesh.position(block)[d]),
                                    8 - 4 * i64::from(mesh.position(block)[d]),
                                );
                                if (low..high).contains(&cell[d]) {
                                    continue;
                                }
                                from[d] = match edge {
                                    Edge::Outflow => cell[d].clamp(low, high - 1),
                                    Edge::Reflecting if cell[d] < low => 2 * low - 1 - cell[d],
                                    Edge::Reflecting => 2 * high - 1 - cell[d],
                                };
                                if edge == Edge::Reflecting && component == d {
                                    sign = -sign;
                                }
                            }
                            let expected = sign * value(&mesh, block, 0, component, from);
                            assert_eq!(values[component * shape.len() + at], expected, "{cell:?} of block {block}");
                        }
                    }
                }
            });
        }
    }
}

#[test]
fn s45_bytes_of_a_peer_that_are_no_message_are_counted_and_the_true_one_still_comes() {
    let mesh = Grid::new(shape(2, 4, 2), [2, 1, 1], [false; 3], 2);
    let extent = Extent { ranks: 2, slots: 2, message: largest_message(&mesh, &[Field::DENSE], 2) };
    let segment = Arc::new(Fabric::segment(extent).unwrap());
    let (written, looked) = (Meeting::of(0..2), Meeting::of(0..2));
    std::thread::scope(|scope| {
        for rank in 0..2 {
            let (segment, mesh, written, looked) = (segment.clone(), &mesh, &written, &looked);
            scope.spawn(move || {
                let fabric = Fabric::attach(segment.clone(), extent, rank).unwrap();
                let mut boundary = Boundary::build(mesh, &[Field::DENSE], fabric, SETTINGS).unwrap();
                let mut store = Store::new(2, mesh.shape().len(), &[Field::DENSE], 1);
                store.allocate(rank, 0).unwrap();
                store.stage(0).values_mut(rank, 0).unwrap().fill(f64::from(rank + 1));
                if rank == 1 {
                    let mut hostile = Fabric::attach(segment, extent, 1).unwrap();
                    let message = Message { rank: 0, sequence: 9, slot: 1, head: 64, in_slot: 0, overflow: 0 };
                    hostile.publish(&message, 7, &[0xa5; 64]).unwrap();
                }
                written.wait(rank);
                if rank == 0 {
                    boundary.start_receive(Scope::Any).unwrap();
                    for _ in 0..3 {
                        assert!(boundary.receive(&mut store.stage(0), Scope::Nonlocal).unwrap().is_pending());
                    }
                    let _ = boundary.send(&store.stage(0), Scope::Any).unwrap();
                    assert!(boundary.receive(&mut store.stage(0), Scope::Any).unwrap().is_pending());
                }
                looked.wait(rank);
                boundary.exchange(&mut store.stage(0)).unwrap();
                assert_eq!(boundary.counts().refused, u64::from(rank == 0), "once, however often it was looked at");
                let ghost = if rank == 0 { 3 * 8 + 7 } else { 3 * 8 };
                assert_eq!(store.values(rank, 0, 0).unwrap()[ghost], f64::from(2 - rank));
            });
        }
    });
}

/// Bytes of a slot that cannot grow: a page, so that what is held is known as exactly as what is announced.
const FIXED: u32 = 4096;

#[test]
fn s39_messages_of_a_hundred_slots_each_way_fill_all_slots_and_memory_stays_as_it_was() {
    const FIELDS: u16 = 360;
    let mesh = Grid::new(shape(2, 32, 2), [2, 1, 1], [true; 3], 2);
    let fields = [sparse(1e-3, 1e-4, 0.0); FIELDS as usize];
    let settings = Settings { smallest_slot: FIXED, largest_slot: FIXED, ..SETTINGS };
    let together = Meeting::of(0..2);
    let ahead = |turn: u32| f64::from(turn) * 1e8;
    let refill = |store: &mut Store, rank, turn| {
        for field in 0..FIELDS {
            fill(&mesh, store, rank, field, 1);
            store.stage(0).values_mut(rank, field).unwrap().iter_mut().for_each(|value| *value += ahead(turn));
        }
    };
    job_with(settings, &same(&mesh, 2), &fields, 1, |rank, boundary, mut store| {
        let mut boundary = boundary.unwrap();
        let slots = 2 * u64::from(FIXED);
        let send = |boundary: &mut Boundary<Fabric>, store: &mut Store, turn| {
            refill(store, rank, turn);
            assert!(boundary.send(&store.stage(0), Scope::Any).unwrap().is_ready());
        };
        let finish = |boundary: &mut Boundary<Fabric>, store: &mut Store, turn| {
            boundary.wait(&mut store.stage(0), Scope::Any).unwrap();
            boundary.set(&mut store.stage(0), Scope::Any).unwrap();
            for field in 0..FIELDS {
                let values = store.values(rank, field, 0).unwrap();
                for (at, cell) in cells(mesh.shape()) {
                    assert_eq!(values[at], value(&mesh, rank, field, 0, cell) + ahead(turn), "field {field}, {cell:?}");
                }
            }
        };
        for round in 0..4 {
            let (leads, turn) = (round % 2 == rank, 2 * round);
            // Both have sent before either receives; nothing of that waits for the other.
            together.wait(rank);
            send(&mut boundary, &mut store, turn);
            together.wait(rank);
            if leads {
                // Who has received may send the next, into the last slot. Then it has no credit left, and must wait.
                finish(&mut boundary, &mut store, turn);
                send(&mut boundary, &mut store, turn + 1);
                for _ in 0..10 {
                    assert!(boundary.receive(&mut store.stage(0), Scope::Any).unwrap().is_pending());
                }
            }
            together.wait(rank);
            // Here of the one all slots are full, and of the other none is any more.
            assert_eq!(boundary.receive_bytes().0, slots);
            assert!(boundary.held().unwrap().receive <= slots);
            together.wait(rank);
            if !leads {
                finish(&mut boundary, &mut store, turn);
                send(&mut boundary, &mut store, turn + 1);
            }
            finish(&mut boundary, &mut store, turn + 1);
            assert_eq!((boundary.receive_bytes().0, boundary.held().unwrap().receive), (slots, slots));
        }
        let counts = boundary.counts();
        assert_eq!((counts.messages, counts.overflows), (8, 8), "{counts:?}");
        assert!(counts.payload_bytes >= 8 * 100 * u64::from(FIXED), "{counts:?}");
        assert!(boundary.held().unwrap().send >= 100 * u64::from(FIXED), "the rest stays with its sender");
    });
}

#[test]
fn s38_what_a_burst_took_is_given_back() {
    const FIELDS: u16 = 100;
    let mesh = Grid::new(shape(2, 32, 2), [2, 1, 1], [true; 3], 2);
    let fields = [sparse(1e-3, 1e-4, 0.0); FIELDS as usize];
    job(&same(&mesh, 2), &fields, 1, |rank, boundary, mut store| {
        let mut boundary = boundary.unwrap();
        let burst = |boundary: &mut Boundary<Fabric>, store: &mut Store| {
            for _ in 0..5 {
                (0..FIELDS).for_each(|field| fill(&mesh, store, rank, field, 1));
                boundary.exchange(&mut store.stage(0)).unwrap();
                for (at, cell) in cells(mesh.shape()) {
                    assert_eq!(store.values(rank, 99, 0).unwrap()[at], value(&mesh, rank, 99, 0, cell));
                }
            }
            let held = boundary.held().unwrap();
            assert!(held.receive > 150_000 && held.send > 100_000, "{held:?}");
            let announced = boundary.receive_bytes().0;
            assert!(held.receive < announced + 2 * 4096, "{held:?} of {announced}");
        };
        let clear = |store: &mut Store| {
            (0..FIELDS).for_each(|field| store.stage(0).values_mut(rank, field).unwrap().fill(0.0));
        };
        // Each slot is used once.
        (0..2).for_each(|_| boundary.exchange(&mut store.stage(0)).unwrap());
        let before = boundary.held().unwrap().receive;
        assert_eq!(before, 2 * 4096);
        burst(&mut boundary, &mut store);
        clear(&mut store);
        let mut announced = boundary.receive_bytes().0;
        for _ in 0..400 {
            boundary.exchange(&mut store.stage(0)).unwrap();
            // A slot shrinks when it was used once more; up to as much again, and four pages, may stay.
            let held = boundary.held().unwrap();
            assert!(held.receive <= 2 * announced + 2 * 6 * 4096, "{held:?} of {announced}");
            announced = boundary.receive_bytes().0;
        }
        let held = boundary.held().unwrap();
        assert!(held.receive <= 2 * before + 2 * 6 * 4096 && held.send < 2 * 4 * 4096, "{held:?}");
        // A change of the mesh begins with small slots.
        burst(&mut boundary, &mut store);
        clear(&mut store);
        boundary.remesh(&mesh).unwrap();
        let Held { receive, send } = boundary.held().unwrap();
        assert!(receive == before && send <= 4 * 4096, "the new plan alone: {send}");
        burst(&mut boundary, &mut store);
    });
}

#[test]
fn slots_that_no_message_could_keep_are_refused() {
    let mesh = Grid::new(shape(2, 4, 2), [2, 1, 1], [true; 3], 2);
    for (smallest_slot, largest_slot) in [(129, 128), (0, 64)] {
        let settings = Settings { smallest_slot, largest_slot, ..SETTINGS };
        job_with(settings, &same(&mesh, 2), &[sparse(0.5, 0.5, 0.0)], 1, |rank, boundary, _| {
            let error = boundary.map(drop).unwrap_err();
            let BoundaryError::Build(why) = error else { panic!("{error:?}") };
            let (peer, head) = (1 - rank, 72);
            let expected = match smallest_slot {
                0 => BuildError::Head { rank: peer, head, largest: 64 },
                smallest => BuildError::Bounds { smallest, largest: 128 },
            };
            assert_eq!(why, expected);
        });
    }
}

/// Processor time of this thread.
fn processor_time() -> Duration {
    let line = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(line.split(' ').next().unwrap().parse().unwrap())
}

#[test]
fn s42_ranks_that_wait_leave_the_processors_to_those_that_compute() {
    let mesh = Grid::new(shape(2, 4, 2), [4, 2, 1], [true; 3], 8);
    let (slow, all) = (Duration::from_secs(2), Mutex::new(Duration::ZERO));
    job(&same(&mesh, 8), &[Field::DENSE], 2, |rank, boundary, mut store| {
        let mut boundary = boundary.unwrap();
        mesh.owned_by(rank).for_each(|block| fill(&mesh, &mut store, block, 0, 1));
        boundary.exchange(&mut store.stage(0)).unwrap();
        let before = processor_time();
        if rank == 0 {
            std::thread::sleep(slow);
        }
        boundary.exchange(&mut store.stage(0)).unwrap();
        *all.lock().unwrap() += processor_time() - before;
    });
    // Of all eight together: if they did not give way they would use all processors for as long as they wait, be it one.
    let all = all.into_inner().unwrap();
    assert!(all < slow * 3 / 4, "ranks have used {all:?} while they waited for {slow:?}");
}
