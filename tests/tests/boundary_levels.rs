//! Ghosts between blocks of several levels, with ranks as threads.
//!
//! The ranks share one segment.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::HashMap;
use std::sync::Arc;

use umbra::boundary::{
    Boundary, BoundaryError, Edge, Extent, Fabric, Field, Fields as _, Mesh, MeshError, Scope, Store, Tree, fill_edges,
    largest_message,
};
use umbra_core::boundary::{Element, Octant, Patch, RefineError, Shape, StripOp, VoteError};
use umbra_tests::boundary_job::{SETTINGS, along, job, same, shape, sparse};

const VECTOR: Field = Field { components: 3, vector: true, sparse: None };

/// All cells of a block's array: the place in the array, whether it is of the interior, and its number along each direction
/// among the cells of the block's level, around the edges.
fn cells(mesh: &Tree, block: u32) -> impl Iterator<Item = (usize, bool, [i64; 3])> + use<> {
    let shape = mesh.shape();
    let (position, counts) = (mesh.position(block), mesh.counts_at(mesh.level(block)));
    let [nx, ny, _] = shape.extents().map(|n| n as usize);
    (0..shape.len()).map(move |at| {
        let place = [at % nx, at / nx % ny, at / nx / ny];
        let within: [i64; 3] = std::array::from_fn(|d| place[d] as i64 - i64::from(shape.ghosts()[d]));
        let inside = (0..3).all(|d| (0..i64::from(shape.cells()[d])).contains(&within[d]));
        let number = std::array::from_fn(|d| {
            let n = i64::from(shape.cells()[d]);
            (i64::from(position[d]) * n + within[d]).rem_euclid(i64::from(counts[d]) * n)
        });
        (at, inside, number)
    })
}

/// What a cell of a level holds, from all cells that there are: its own value, that of the coarser one that it lies in, or the
/// mean of the finer ones in it.
fn reference(mesh: &Tree, level: u32, cell: [i64; 3], of: &dyn Fn(u32, u32, [i64; 3]) -> f64) -> f64 {
    let (n, ratio) = (mesh.shape().cells(), mesh.shape().ratio());
    let block = |cell: [i64; 3]| std::array::from_fn(|d| (cell[d] / i64::from(n[d])) as u32);
    if let Some(block) = mesh.find(level, block(cell)) {
        return of(block, level, cell);
    }
    let coarse = std::array::from_fn(|d| cell[d] / i64::from(ratio[d]));
    if let Some(block) = level.checked_sub(1).and_then(|coarser| mesh.find(coarser, block(coarse))) {
        return of(block, level - 1, coarse);
    }
    let mut sum = 0.0;
    for z in 0..i64::from(ratio[2]) {
        let mut plane = 0.0;
        for y in 0..i64::from(ratio[1]) {
            let mut row = 0.0;
            for x in 0..i64::from(ratio[0]) {
                let more = [x, y, z];
                let fine = std::array::from_fn(|d| cell[d] * i64::from(ratio[d]) + more[d]);
                row += of(mesh.find(level + 1, block(fine)).unwrap(), level + 1, fine);
            }
            plane += row;
        }
        sum += plane;
    }
    sum / f64::from(ratio.iter().product::<u32>())
}

/// The middle of a cell, as a number that grows evenly along each direction, and differs between fields and components.
fn position(mesh: &Tree, level: u32, cell: [i64; 3], field: u16, component: usize) -> f64 {
    let width = |d: usize| if mesh.shape().is_refined(d) { (1 << (mesh.deepest() + 1 - level)) as f64 } else { 2.0 };
    let middle = |d: usize| (cell[d] as f64 + 0.5) * width(d);
    middle(0) + 1e3 * middle(1) + 1e6 * middle(2) + 1e9 * (1.0 + f64::from(field) + 10.0 * component as f64)
}

/// Fills interiors with values, ghosts with NaN.
fn fill(mesh: &Tree, store: &mut Store, block: u32, field: u16, value: impl Fn(usize, [i64; 3]) -> f64) {
    store.allocate(block, field).unwrap();
    let mut view = store.stage(0);
    let values = view.values_mut(block, field).unwrap();
    for (component, values) in values.chunks_mut(mesh.shape().len()).enumerate() {
        for (at, inside, cell) in cells(mesh, block) {
            values[at] = if inside { value(component, cell) } else { f64::NAN };
        }
    }
}

/// Meshes of two and three levels, of all dimensions, ghosts of all numbers that fit, periodic and as small as can be.
fn refined_meshes() -> Vec<Tree> {
    let mut meshes = Vec::new();
    for dimensions in 1..=3 {
        for ghosts in 1..=4 {
            for cells in [2 * ghosts, 2 * ghosts + 2] {
                let shape = shape(dimensions, cells, ghosts);
                let first = |level, at: [u32; 3]| level == 0 && at == [0; 3];
                let middle = move |level, at: [u32; 3]| level == 0 && at == along(dimensions, 1, 0);
                meshes.push(Tree::new(shape, [2, 1, 1], [true; 3], 1, 1, first));
                meshes.push(Tree::new(shape, along(dimensions, 3, 1), [true; 3], 1, 1, middle));
            }
        }
        // The second level lies within the first, a block of it away from what is coarser.
        let deep = |level, at: [u32; 3]| match level {
            0 => true,
            1 => (0..dimensions).all(|d| (2..4).contains(&at[d])),
            _ => (0..dimensions).all(|d| (5..6).contains(&at[d])),
        };
        if dimensions < 3 {
            meshes.push(Tree::new(shape(dimensions, 6, 3), along(dimensions, 3, 1), [true; 3], 1, 3, deep));
        }
    }
    meshes
}

#[test]
fn s18_every_ghost_of_every_level_is_filled_exactly_once_with_its_position() {
    let fields = [Field::DENSE, VECTOR, sparse(0.5, 0.5, 0.0)];
    let mut deepest = 0;
    for mesh in refined_meshes() {
        deepest = deepest.max(mesh.deepest());
        for ranks in [1, 3] {
            let blocks = mesh.blocks();
            let mesh = mesh.clone().with_owners(&(0..blocks).map(|block| block * 7 % ranks).collect::<Vec<_>>());
            job(&same(&mesh, ranks), &fields, 1, |rank, boundary, mut store| {
                let mut boundary = boundary.unwrap();
                for block in mesh.owned_by(rank) {
                    for field in 0..3 {
                        let level = mesh.level(block);
                        fill(&mesh, &mut store, block, field, |component, cell| {
                            position(&mesh, level, cell, field, component)
                        });
                    }
                }
                boundary.exchange(&mut store.stage(0)).unwrap();
                for (block, field) in mesh.owned_by(rank).flat_map(|block| [0, 1, 2].map(|field| (block, field))) {
                    let values = store.values(block, field, 0).unwrap();
                    for (component, values) in values.chunks(mesh.shape().len()).enumerate() {
                        for (at, _, cell) in cells(&mesh, block) {
                            let of = |_, level, cell| position(&mesh, level, cell, field, component);
                            let expected = reference(&mesh, mesh.level(block), cell, &of);
                            assert_eq!(values[at], expected, "block {block} {cell:?} of {mesh:?}");
                        }
                    }
                }
                if ranks == 1 {
                    once(&mesh, boundary.machine().entries());
                }
            });
        }
    }
    assert_eq!(deepest, 3, "several levels within each other");
}

/// The channels of a whole mesh fill each ghost once, and no cell of an interior.
fn once(mesh: &Tree, entries: &[umbra_core::boundary::Entry]) {
    let shape = mesh.shape();
    let mut filled = vec![0; mesh.blocks() as usize * shape.len()];
    for entry in entries.iter().filter(|entry| entry.key.field == 0) {
        let target = shape.passage(entry.key.element, entry.step).target;
        for row in target.rows(shape.extents()) {
            let first = entry.key.receiver as usize * shape.len() + row;
            filled[first..first + target.len[0] as usize].iter_mut().for_each(|n| *n += 1);
        }
    }
    for block in 0..mesh.blocks() {
        for (at, inside, _) in cells(mesh, block) {
            assert_eq!(filled[block as usize * shape.len() + at], u32::from(!inside), "block {block} of {mesh:?}");
        }
    }
}

/// splitmix64 of numbers.
fn mix(numbers: &[u64]) -> u64 {
    numbers.iter().fold(0, |mixed, number| {
        let mut x = (mixed ^ number).wrapping_add(0x9e37_79b9_7f4a_7c15);
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    })
}

/// A mesh in which blocks are refined at random, and those that would be too coarse beside others as well.
fn random_mesh(seed: u64, dimensions: usize, ghosts: u32, periodic: bool, ranks: u32) -> Tree {
    let shape = shape(dimensions, 2 * ghosts + 2 * (seed % 2) as u32, ghosts);
    let count = [5, 4, 3][dimensions - 1];
    let percent = [30, 25, 15][dimensions - 1];
    let chosen =
        |level: u32, at: [u32; 3]| mix(&[seed, level.into(), at[0].into(), at[1].into(), at[2].into()]) % 100 < percent;
    let mut refined: HashMap<(u32, [u32; 3]), ()> = HashMap::new();
    loop {
        let wanted =
            |level, at| refined.contains_key(&(level, at)) || (dimensions < 3 || level == 0) && chosen(level, at);
        let mesh = Tree::new(shape, along(dimensions, count, 1), [periodic; 3], ranks, 2, wanted);
        let before = refined.len();
        for block in 0..mesh.blocks() {
            let others = shape.elements().filter_map(|element| mesh.neighbour(block, element));
            for other in others.filter(|&other| mesh.level(other) + 1 < mesh.level(block)) {
                refined.insert((mesh.level(other), mesh.position(other)), ());
            }
        }
        if refined.len() == before {
            return mesh;
        }
    }
}

/// Random values on some blocks of random meshes, against all cells of the mesh at once: on any number of ranks, in halves or
/// not, what comes is what lies there, and a field becomes present only where something came.
#[test]
fn random_meshes_exchange_what_a_dense_reference_says() {
    for seed in 0..60 {
        let random = |n: u64, what: u64| mix(&[seed, what, 5]) % n;
        let (dimensions, ghosts, ranks) = (1 + random(3, 0) as usize, 1 + random(3, 1) as u32, 1 + random(5, 2) as u32);
        let (periodic, halves) = (random(2, 3) == 0, random(2, 4) == 0);
        let mesh = &random_mesh(seed, dimensions, ghosts, periodic, ranks);
        let defaults = [0.0, 1.5, 0.0];
        let fields = [sparse(1e-3, 1e-3, 0.0), sparse(1e-3, 1e-3, 1.5), Field::DENSE];
        let has = |block: u32, field: u16| field == 2 || mix(&[seed, block.into(), field.into()]).is_multiple_of(3);
        let held = |block: u32, field: u16, cell: [i64; 3]| {
            let name = mix(&[seed, block.into(), field.into(), cell[0] as u64, cell[1] as u64, cell[2] as u64]);
            // Some cells hold the default, so that strips of present fields are null, too.
            if !has(block, field) || name.is_multiple_of(2) && field != 2 {
                defaults[usize::from(field)]
            } else {
                8.0 + (name >> 12) as f64
            }
        };
        job(&same(mesh, ranks), &fields, 1, |rank, boundary, mut store| {
            let mut boundary = boundary.unwrap();
            for block in mesh.owned_by(rank) {
                for field in (0..3).filter(|&field| has(block, field)) {
                    fill(mesh, &mut store, block, field, |_, cell| held(block, field, cell));
                }
            }
            for _ in 0..2 {
                let scopes = if halves { &[Scope::Nonlocal, Scope::Local][..] } else { &[Scope::Any] };
                for &scope in scopes {
                    while boundary.send(&store.stage(0), scope).unwrap().is_pending() {
                        let _ = boundary.receive(&mut store.stage(0), scope).unwrap();
                        std::thread::yield_now();
                    }
                    boundary.wait(&mut store.stage(0), scope).unwrap();
                    boundary.set(&mut store.stage(0), scope).unwrap();
                }
            }
            for (block, field) in mesh.owned_by(rank).flat_map(|block| [0, 1, 2].map(|field| (block, field))) {
                let values = store.values(block, field, 0);
                let mut came = has(block, field);
                for (at, inside, cell) in cells(mesh, block) {
                    let of = |block, _, cell| held(block, field, cell);
                    let beyond = !inside && is_beyond(mesh, block, at);
                    let expected = if beyond { f64::NAN } else { reference(mesh, mesh.level(block), cell, &of) };
                    let default = defaults[usize::from(field)];
                    came |= !beyond && expected.to_bits() != default.to_bits();
                    let value = values.map_or(default, |values| values[at]);
                    // Beyond the edge nothing is set: it holds what it did, NaN, or the default of a new array.
                    let had = has(block, field);
                    let kept = beyond && if had { value.is_nan() } else { value.to_bits() == default.to_bits() };
                    assert!(
                        kept || value.to_bits() == expected.to_bits(),
                        "seed {seed}, field {field}, block {block}, {cell:?}: {value}"
                    );
                }
                assert_eq!(values.is_some(), came, "seed {seed}, field {field} on block {block}");
            }
        });
    }
}

/// Whether a cell of a block's array lies beyond the edge of the domain.
fn is_beyond(mesh: &Tree, block: u32, at: usize) -> bool {
    let shape = mesh.shape();
    shape.elements().any(|element| {
        let region = shape.receive_box(element);
        let inside = region.rows(shape.extents()).any(|row| (row..row + region.len[0] as usize).contains(&at));
        let nothing = || {
            mesh.neighbour(block, element).is_none()
                && shape.octants(element).all(|octant| mesh.finer(block, element, octant).is_none())
        };
        inside && nothing()
    })
}

/// A coarse block, then one that is refined, in a row: what block `from` is given comes to the other one of these two, which
/// has the field only if `present`.
fn pair(field: Field, ranks: u32, from: u32, present: bool, prepare: impl Fn(&mut [f64]) + Sync) -> Option<Vec<f64>> {
    let mesh = Tree::new(shape(1, 8, 3), [2, 1, 1], [false; 3], 1, 1, |_, at| at[0] == 1);
    let mesh = mesh.with_owners(&[0, ranks - 1, 0]);
    let to = 1 - from;
    let outcomes = job(&same(&mesh, ranks), &[field], 1, |rank, boundary, mut store| {
        let mut boundary = boundary.unwrap();
        for block in
            mesh.owned_by(rank).filter(|&block| block == from || field.sparse.is_none() || present && block == to)
        {
            store.allocate(block, 0).unwrap();
            store.stage(0).values_mut(block, 0).unwrap().fill(9.0);
        }
        if mesh.owner(from) == rank {
            prepare(store.stage(0).values_mut(from, 0).unwrap());
        }
        boundary.exchange(&mut store.stage(0)).unwrap();
        (mesh.owner(to) == rank).then(|| store.values(to, 0, 0).map(<[f64]>::to_vec))
    });
    outcomes.into_iter().flatten().next().unwrap()
}

/// Sets the first six interior cells of an array, which three coarse ghosts hold, and the default elsewhere.
fn six(values: &mut [f64], default: f64, six: [f64; 6]) {
    values.fill(default);
    values[3..9].copy_from_slice(&six);
}

#[test]
fn what_travels_to_a_coarser_block_decides_whether_it_is_live() {
    let nan = f64::from_bits(0x7ff8_0000_dead_beef);
    for ranks in [1, 2] {
        let field = sparse(1e-3, 1e-4, 0.0);
        let came = |values, present| pair(field, ranks, 1, present, |array| six(array, 0.0, values));
        assert_eq!(came([1.0, -1.0, 2.0, -2.0, 0.5, -0.5], false), None, "large values of which the means are nothing");
        assert_eq!(came([1.5e-3, 0.0, 0.0, 0.0, 0.0, 0.0], false), None, "the mean is below the threshold");
        let ghosts = came([2e-3, 0.0, 0.0, 0.0, 3.0, 4.0], false).unwrap();
        assert_eq!(ghosts[11..], [1e-3, 0.0, 3.5], "exactly at the threshold it is live, and all of it travels");
        assert_eq!(ghosts[..11], [0.0; 11], "the rest begins with the default");
        let ghosts = came([0.0; 6], true).unwrap();
        assert_eq!(
            (&ghosts[3..11], &ghosts[11..]),
            (&[9.0; 8][..], &[0.0; 3][..]),
            "a null sets the ghosts to the default"
        );
        let ghosts = came([0.0, 0.0, 0.0, nan, 0.0, 0.0], false).unwrap();
        assert!(ghosts[12].is_nan() && ghosts[11] == 0.0 && ghosts[13] == 0.0, "NaN is live");
        let one = sparse(1e-3, 1e-4, 1.0);
        let came = |values| pair(one, ranks, 1, false, |array| six(array, 1.0, values));
        assert_eq!(came([0.5, 1.5, 1.0, 1.0, 1.0, 1.0]), None, "thresholds are distances from the default");
        assert_eq!(came([0.0, 0.0, 1.0, 1.0, 1.0, 1.0]).unwrap()[9..], [1.0, 1.0, 0.0, 1.0, 1.0]);
    }
}

#[test]
fn what_comes_from_a_coarser_block_is_exactly_what_the_ghosts_lie_in() {
    let nan = f64::from_bits(0x7ff8_0000_dead_beef);
    for ranks in [1, 2] {
        let field = sparse(1e-3, 1e-4, 0.0);
        // Three ghosts lie in the last two of the coarse cells, of the first one only in its upper half.
        let came = |cell: usize, value: f64, present| {
            pair(field, ranks, 0, present, |array| {
                array.fill(0.0);
                array[3 + cell] = value;
            })
        };
        assert_eq!(came(5, 7.0, false), None, "the third cell from the end is not wanted");
        assert_eq!(came(6, 7.0, false).unwrap()[..4], [7.0, 0.0, 0.0, 0.0]);
        assert_eq!(came(7, 7.0, false).unwrap()[..4], [0.0, 7.0, 7.0, 0.0]);
        let ghosts = came(7, 1e-4, true).unwrap();
        assert_eq!((&ghosts[..3], ghosts[3]), (&[0.0; 3][..], 9.0), "a null sets the ghosts to the default");
        assert_eq!(came(7, nan, false).unwrap()[2].to_bits(), nan.to_bits(), "NaN travels, with its payload");
        let dense = pair(Field::DENSE, ranks, 0, true, |array| array.fill(nan)).unwrap();
        assert!(dense[..3].iter().all(|value| value.to_bits() == nan.to_bits()));
    }
}

/// The largest of the fine cells, and a straight line through two coarse ones. Both know the component.
#[derive(Debug)]
struct Other;

impl StripOp for Other {
    fn restrict(&self, patch: &Patch, fine: &[f64], coarse: &mut [f64]) {
        let first = patch.fine.low[0] as usize;
        for (nth, value) in coarse.iter_mut().enumerate() {
            *value = fine[first + 2 * nth].max(fine[first + 2 * nth + 1]) + 100.0 * f64::from(patch.component);
        }
    }

    fn prolongate(&self, patch: &Patch, coarse: &[f64], fine: &mut [f64]) {
        let slope = (coarse[1] - coarse[0]) / 2.0;
        for nth in 0..patch.fine.len[0] {
            let behind = f64::from(nth + patch.below[0]) - 0.5;
            fine[(patch.fine.low[0] + nth) as usize] = coarse[0] + slope * behind + 100.0 * f64::from(patch.component);
        }
    }
}

#[test]
fn a_mesh_code_brings_other_operations() {
    let mesh = Tree::new(shape(1, 8, 3), [2, 1, 1], [false; 3], 1, 1, |_, at| at[0] == 1);
    let field = Field { components: 2, ..Field::DENSE };
    for ranks in [1, 3] {
        let mesh = mesh.clone().with_owners(&[0, ranks - 1, ranks / 2]);
        job(&same(&mesh, ranks), &[field], 1, |rank, boundary, mut store| {
            let mut boundary = boundary.unwrap();
            boundary.set_operation(Other);
            for block in mesh.owned_by(rank) {
                fill(&mesh, &mut store, block, 0, |component, cell| (10 * component) as f64 + cell[0] as f64);
            }
            boundary.exchange(&mut store.stage(0)).unwrap();
            if mesh.owner(0) == rank {
                let values = store.values(0, 0, 0).unwrap();
                assert_eq!((&values[11..14], &values[25..28]), (&[17.0, 19.0, 21.0][..], &[127.0, 129.0, 131.0][..]));
            }
            if mesh.owner(1) == rank {
                let values = store.values(1, 0, 0).unwrap();
                assert_eq!((&values[..3], &values[14..17]), (&[6.25, 6.75, 7.25][..], &[116.25, 116.75, 117.25][..]));
            }
        });
    }
}

#[test]
fn meshes_that_do_not_fit_together_are_refused_on_all_ranks_with_the_names_of_two_blocks() {
    let refused = |mesh: &Tree| {
        let errors = job(&same(mesh, 2), &[Field::DENSE], 1, |_, boundary, _| boundary.unwrap_err());
        assert_eq!(errors[0], errors[1]);
        let BoundaryError::Mesh(error) = errors[0].clone() else { panic!("{}", errors[0]) };
        (error, errors[0].to_string())
    };
    // Two levels apart in a corner only.
    let corner = |level, at: [u32; 3]| (level == 0) != (at == [1, 1, 0]);
    let (error, text) = refused(&Tree::new(shape(2, 4, 2), [2, 2, 1], [false; 3], 2, 2, corner));
    assert_eq!(error, MeshError::Unbalanced { block: 6, level: 2, other: 15, other_level: 0 });
    assert!(text.contains("block 6 of level 2 touches block 15 of level 0"), "{text}");
    let first = |_, at: [u32; 3]| at == [0; 3];
    let (error, text) = refused(&Tree::new(shape(2, 5, 2), [2, 1, 1], [false; 3], 2, 1, first));
    assert_eq!(error, MeshError::Shape { block: 1, other: 4, error: RefineError::Odd { direction: 0, cells: 5 } });
    assert!(text.contains("block 1 touches block 4") && text.contains("5 cells"), "{text}");
    let (error, text) = refused(&Tree::new(shape(2, 4, 3), [2, 1, 1], [false; 3], 2, 1, first));
    let error_of_shape = RefineError::TooManyGhosts { direction: 0, ghosts: 3, cells: 4 };
    assert_eq!(error, MeshError::Shape { block: 1, other: 4, error: error_of_shape });
    assert!(text.contains("3 layers"), "{text}");
    // With all blocks refined there is one level, and nothing to be halved.
    let one_level = Tree::new(shape(2, 5, 4), [1, 1, 1], [true; 3], 2, 1, |_, _| true);
    job(&same(&one_level, 2), &[Field::DENSE], 1, |_, boundary, _| assert!(boundary.is_ok()));
}

/// A mesh that says something wrong of one block.
struct Wrong<'m> {
    mesh: &'m Tree,
    level: u32,
    octant: Option<Octant>,
    hidden: bool,
    /// What a block says of its neighbour in a direction.
    neighbour: Option<(u32, Element, Option<u32>)>,
    /// What each block says of finer ones, where it has no neighbour.
    finer: Option<u32>,
}

impl Mesh for Wrong<'_> {
    fn shape(&self) -> Shape {
        self.mesh.shape()
    }

    fn blocks(&self) -> u32 {
        self.mesh.blocks()
    }

    fn owner(&self, _: u32) -> u32 {
        0
    }

    fn neighbour(&self, block: u32, element: Element) -> Option<u32> {
        match self.neighbour {
            Some((whose, direction, other)) if (whose, direction) == (block, element) => other,
            _ => self.mesh.neighbour(block, element),
        }
    }

    fn level(&self, block: u32) -> u32 {
        if block == 0 { self.level } else { self.mesh.level(block) }
    }

    fn octant(&self, block: u32) -> Octant {
        self.octant.filter(|_| block == 1).unwrap_or(self.mesh.octant(block))
    }

    fn finer(&self, block: u32, element: Element, octant: Octant) -> Option<u32> {
        let finer = self.mesh.finer(block, element, octant).filter(|&other| !self.hidden || other != 3);
        self.finer.or(finer)
    }
}

#[test]
fn meshes_that_contradict_themselves_are_refused() {
    let mesh = &Tree::new(shape(2, 4, 2), [2, 1, 1], [false; 3], 1, 1, |_, at| at[0] == 1);
    let refused = |wrong: Wrong<'_>| {
        let mut errors = job(&[wrong], &[Field::DENSE], 1, |_, boundary, _| boundary.unwrap_err());
        let BoundaryError::Mesh(error) = errors.remove(0) else { panic!("another error") };
        error
    };
    let [right, across] = [(1, 0), (-1, 1)].map(|(x, y)| Element::new(x, y, 0).unwrap());
    let told = || Wrong { mesh, level: 0, octant: None, hidden: false, neighbour: None, finer: None };
    let octant = Octant::new(2).unwrap();
    let hidden = Wrong { hidden: true, ..told() };
    assert_eq!(refused(hidden), MeshError::Hole { block: 0, element: right, other: 1, octant });
    let other_child = Wrong { octant: Octant::new(3), ..told() };
    assert_eq!(refused(other_child), MeshError::OneSided { block: 0, element: right, other: 1 });
    let apart = &Tree::new(shape(2, 4, 2), [2, 1, 1], [false; 3], 1, 2, |level, at| level == 1 || at[0] == 1);
    let too_deep = Wrong { mesh: apart, ..told() };
    assert_eq!(refused(too_deep), MeshError::Unbalanced { block: 0, level: 0, other: 1, other_level: 2 });
    let finer = Wrong { neighbour: Some((0, right, Some(1))), ..told() };
    let misnamed =
        |level, element, other_level| MeshError::Misnamed { block: 0, level, element, other: 1, other_level };
    assert_eq!(refused(finer), misnamed(0, right, 1));
    // A corner of a finer block lies beside the coarser one, too.
    let no_corner = Wrong { neighbour: Some((1, across, None)), ..told() };
    assert_eq!(refused(no_corner), MeshError::OneSided { block: 1, element: across, other: 0 });
    // Finer blocks of a mesh that says that all are of one level.
    let mesh = &Tree::new(shape(2, 3, 1), [2, 1, 1], [true, false, false], 1, 0, |_, _| false);
    let flat = Wrong { mesh, finer: Some(1), ..told() };
    let MeshError::Misnamed { block: 0, level: 0, element, other: 1, other_level: 0 } = refused(flat) else {
        panic!("another error")
    };
    assert_ne!(element.offsets()[1], 0, "where there is no neighbour");
}

#[test]
fn a_mesh_that_one_rank_refuses_is_refused_on_all() {
    let tree = |depth| Tree::new(shape(2, 4, 2), [2, 1, 1], [false; 3], 1, depth, |level, at| level == 1 || at[0] == 1);
    for wrong in 0..3 {
        let meshes: Vec<_> = (0..3).map(|rank| tree(if rank == wrong { 2 } else { 1 })).collect();
        let errors = job(&meshes, &[Field::DENSE], 1, |_, boundary, _| boundary.unwrap_err());
        for (rank, error) in (0..).zip(errors) {
            match error {
                BoundaryError::Mesh(MeshError::Unbalanced { .. }) => assert_eq!(rank, wrong),
                BoundaryError::RefusedElsewhere(other) => assert!(rank != wrong && other == wrong, "{rank}: {other}"),
                _ => panic!("rank {rank}: {error}"),
            }
        }
    }
}

#[test]
fn ranks_with_other_refinement_are_told_the_first_channel_that_differs() {
    let refined = |which: u32| Tree::new(shape(1, 4, 2), [4, 1, 1], [true; 3], 2, 1, move |_, at| at[0] == which);
    let meshes = [refined(0), refined(1)].map(|mesh| mesh.with_owners(&[0, 0, 1, 1, 1]));
    let errors = job(&meshes, &[Field::DENSE], 1, |_, boundary, _| boundary.unwrap_err());
    for error in &errors {
        assert!(matches!(error, BoundaryError::Differs(_) | BoundaryError::RefusedElsewhere(_)), "{error}");
    }
    let differs = errors.iter().any(|error| error.to_string().contains("er block"));
    assert!(differs, "{}", errors[0]);
}

#[test]
fn edges_of_the_domain_continue_on_all_levels() {
    for dimensions in 1..=3 {
        let refine = |level, at: [u32; 3]| level == 0 && at == along(dimensions, 1, 0);
        let mesh = Tree::new(shape(dimensions, 4, 2), along(dimensions, 2, 1), [false; 3], 1, 1, refine);
        job(&same(&mesh, 1), &[Field::DENSE], 1, |_, boundary, mut store| {
            let mut boundary = boundary.unwrap();
            for block in 0..mesh.blocks() {
                fill(&mesh, &mut store, block, 0, |_, _| 3.0);
            }
            boundary.exchange(&mut store.stage(0)).unwrap();
            for block in 0..mesh.blocks() {
                for (at, ..) in cells(&mesh, block) {
                    let value = store.values(block, 0, 0).unwrap()[at];
                    assert_eq!(value.is_nan(), is_beyond(&mesh, block, at), "what lies within was filled before");
                }
                fill_edges(&mesh, &mut store.stage(0), block, &[Field::DENSE], [[Edge::Outflow; 2]; 3]).unwrap();
                assert!(store.values(block, 0, 0).unwrap().iter().all(|&value| value == 3.0));
            }
        });
    }
}

#[test]
fn a_mesh_may_be_refined_between_two_exchanges_and_is_left_as_it_is_if_it_does_not_fit() {
    let shape = shape(2, 4, 2);
    let mesh = |levels, at: u32| {
        Tree::new(shape, [4, 2, 1], [true; 3], 2, levels, move |level, place| place[0] >> level == at)
    };
    let (plain, refined, moved) = (mesh(0, 0), mesh(1, 1), mesh(1, 2));
    let broken = Tree::new(shape, [4, 2, 1], [true; 3], 2, 2, |_, at| at == [0; 3]);
    let largest = [&plain, &refined, &moved].map(|mesh| largest_message(mesh, &[Field::DENSE], 2)).into_iter().max();
    let extent = Extent { ranks: 2, slots: 2, message: largest.unwrap() };
    let segment = Arc::new(Fabric::segment(extent).unwrap());
    std::thread::scope(|scope| {
        for rank in 0..2 {
            let (segment, meshes, broken) = (segment.clone(), [&plain, &refined, &moved, &plain], &broken);
            scope.spawn(move || {
                let fabric = Fabric::attach(segment, extent, rank).unwrap();
                let mut boundary = Boundary::build(meshes[0], &[Field::DENSE], fabric, SETTINGS).unwrap();
                for (turn, mesh) in meshes.into_iter().enumerate() {
                    if turn > 0 {
                        // Both have a mesh that does not fit, or one of them.
                        let fits = [false, rank == 0, rank == 1][turn - 1];
                        let refused = boundary.remesh(if fits { mesh } else { broken }).unwrap_err();
                        match refused {
                            BoundaryError::Mesh(_) => assert!(!fits, "{refused}"),
                            BoundaryError::Vote(VoteError::Refuses { rank: other }) => {
                                assert!(fits && other == 1 - rank)
                            }
                            _ => panic!("{refused}"),
                        }
                        boundary.remesh(mesh).unwrap();
                    }
                    let mut store = Store::new(mesh.blocks(), shape.len(), &[Field::DENSE], 1);
                    for block in mesh.owned_by(rank) {
                        let level = mesh.level(block);
                        fill(mesh, &mut store, block, 0, |_, cell| position(mesh, level, cell, 0, 0));
                    }
                    boundary.exchange(&mut store.stage(0)).unwrap();
                    for block in mesh.owned_by(rank) {
                        let values = store.values(block, 0, 0).unwrap();
                        for (at, _, cell) in cells(mesh, block) {
                            let of = |_, level, cell| position(mesh, level, cell, 0, 0);
                            assert_eq!(values[at], reference(mesh, mesh.level(block), cell, &of), "turn {turn}");
                        }
                    }
                }
            });
        }
    });
}
