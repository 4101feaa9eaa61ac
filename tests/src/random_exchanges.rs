//! Random boundary exchanges over any transport; every ghost is looked at.
//!
//! What a block holds in which exchange follows from a seed that all ranks know, so each knows what must come: values,
//! or the default. How much is live changes in bursts, so slots overflow, grow and shrink. The programs over MPI run
//! the same, from this file.

use std::fmt::Display;
use std::thread;
use std::time::Duration;

use umbra::boundary::{Boundary, Extent, Field, Fields as _, Grid, Mesh as _, Scope, Settings, Store, Transport};
use umbra_core::boundary::{Counts, Element, Shape, Sparse};

/// Exchanges in a row with as much in them.
const BURST: u32 = 24;
/// What stands for nothing in the fields.
const DEFAULTS: [f64; 3] = [0.0, 1.5, -2.0];

/// What is exchanged.
#[derive(Clone, Copy, Debug)]
pub struct Exchanges {
    /// Ranks, at most eight.
    pub ranks: u32,
    /// Where all that is random comes from.
    pub seed: u64,
    /// How many.
    pub count: u32,
}

/// What a field is on a block.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holds {
    Nothing,
    Default,
    Values,
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

fn text(error: impl Display) -> String {
    error.to_string()
}

impl Exchanges {
    fn mesh(&self) -> Result<Grid, String> {
        let shape = Shape::new([4, 4, 1], [2, 2, 0]).map_err(text)?;
        Ok(Grid::new(shape, [4, 2, 1], [true; 3], self.ranks))
    }

    /// Three sparse fields, and a dense one.
    fn fields() -> Result<Vec<Field>, String> {
        let sparse = |default| Sparse::new(1e-3, 1e-3, default).map(Field::sparse).map_err(text);
        let fields = DEFAULTS.iter().map(|&default| sparse(default)).chain([Ok(Field::DENSE)]);
        fields.collect()
    }

    /// The fabric that the ranks could share.
    ///
    /// # Errors
    /// A sentence.
    pub fn extent(&self) -> Result<Extent, String> {
        let message = umbra::boundary::largest_message(&self.mesh()?, &Self::fields()?, self.ranks);
        Ok(Extent { ranks: self.ranks, slots: 2, message })
    }

    fn holds(&self, turn: u32, block: u32, field: u16) -> Holds {
        let percent = [0, 8, 40, 100][mix(&[self.seed, u64::from(turn / BURST)]) as usize % 4];
        let random = mix(&[self.seed, u64::from(turn), u64::from(block), u64::from(field)]);
        match random % 100 {
            _ if usize::from(field) == DEFAULTS.len() => Holds::Values,
            n if n < percent => Holds::Values,
            n if n % 2 == 0 => Holds::Default,
            _ => Holds::Nothing,
        }
    }

    /// A value that no other cell, field or exchange has, far from every default.
    fn value(&self, turn: u32, block: u32, field: u16, cell: usize) -> f64 {
        let place = u64::from(block) << 32 | u64::from(field) << 16 | cell as u64;
        8.0 + (mix(&[self.seed, u64::from(turn), place]) >> 12) as f64
    }

    /// Who owns the blocks in an epoch; it may be that a rank owns none.
    fn owners(&self, epoch: u32, blocks: u32) -> Vec<u32> {
        let owner = |block| mix(&[self.seed, u64::from(epoch), block, 78]) % u64::from(self.ranks.max(1));
        (0..u64::from(blocks)).map(|block| owner(block) as u32).collect()
    }

    /// Runs one rank over its end of a transport; what was counted.
    ///
    /// # Errors
    /// What was wrong, in a sentence.
    pub fn run<T: Transport>(&self, transport: T) -> Result<Counts, String> {
        self.run_dealt(transport, u32::MAX, |_| ())
    }

    /// The same with blocks that are dealt anew after each `every` exchanges, over a transport with [room](Self::extent) for all
    /// that one rank could have. `look` is shown the boundary after each exchange.
    ///
    /// # Errors
    /// What was wrong, in a sentence.
    pub fn run_dealt<T: Transport>(
        &self,
        transport: T,
        every: u32,
        mut look: impl FnMut(&Boundary<T>),
    ) -> Result<Counts, String> {
        let (mut mesh, fields, rank) = (self.mesh()?, Self::fields()?, transport.rank());
        let settings = Settings { deadline: Some(Duration::from_secs(120)), smallest_slot: 128, ..Settings::default() };
        let mut boundary = Boundary::build(&mesh, &fields, transport, settings).map_err(text)?;
        let mut store = Store::new(mesh.blocks(), mesh.shape().len(), &fields, 1);
        let mut blocks: Vec<u32> = mesh.owned_by(rank).collect();
        let mut messages = 0;
        for turn in 1..=self.count {
            if turn > every && (turn - 1).is_multiple_of(every) {
                let owners = self.owners(turn, mesh.blocks());
                mesh = mesh.with_owners(owners);
                boundary.remesh(&mesh).map_err(|error| format!("rank {rank}, before exchange {turn}: {error}"))?;
                blocks = mesh.owned_by(rank).collect();
            }
            for (&block, field) in blocks.iter().flat_map(|block| (0..fields.len() as u16).map(move |f| (block, f))) {
                self.fill(&mut store, &mesh, turn, block, field)?;
            }
            self.exchange(&mut boundary, &mut store, turn, rank)
                .map_err(|error| format!("rank {rank}, exchange {turn}: {error}"))?;
            for (&block, field) in blocks.iter().flat_map(|block| (0..fields.len() as u16).map(move |f| (block, f))) {
                self.check(&store, &mesh, turn, block, field)
                    .map_err(|wrong| format!("rank {rank}, exchange {turn}, field {field} on {block}: {wrong}"))?;
            }
            messages += boundary.machine().peers().len() as u64;
            look(&boundary);
        }
        boundary.close().map_err(text)?;
        let counts = *boundary.counts();
        let expected = (messages, 0, 0, 0);
        let counted = (counts.messages, counts.duplicates, counts.refused, counts.old);
        if counted == expected { Ok(counts) } else { Err(format!("rank {rank} counted {counts:?}")) }
    }

    /// As the field shall be before an exchange; what is not to be sent must not be seen either.
    fn fill(&self, store: &mut Store, mesh: &Grid, turn: u32, block: u32, field: u16) -> Result<(), String> {
        let holds = self.holds(turn, block, field);
        if holds == Holds::Nothing {
            store.free(block, field);
            return Ok(());
        }
        store.allocate(block, field).map_err(text)?;
        let default = DEFAULTS.get(usize::from(field)).copied().unwrap_or(0.0);
        let mut stage = store.stage(0);
        let Some(values) = stage.values_mut(block, field) else { return Ok(()) };
        for (at, value) in values.iter_mut().enumerate() {
            *value = match source(mesh, at) {
                Some((other, _)) if other != [0; 3] => f64::NAN,
                _ if holds == Holds::Values => self.value(turn, block, field, at),
                _ => default,
            };
        }
        Ok(())
    }

    fn exchange<T: Transport>(
        &self,
        boundary: &mut Boundary<T>,
        store: &mut Store,
        turn: u32,
        rank: u32,
    ) -> Result<(), String> {
        boundary.set_stage((turn % 3) as u8);
        let random = mix(&[self.seed, u64::from(turn), u64::from(rank), 77]);
        (0..random >> 8 & 3).for_each(|_| thread::yield_now());
        let mut stage = store.stage(0);
        let order = match random % 3 {
            0 => return boundary.exchange(&mut stage).map_err(text),
            1 => [Scope::Local, Scope::Nonlocal],
            _ => [Scope::Nonlocal, Scope::Local],
        };
        for scope in order {
            while boundary.send(&stage, scope).map_err(text)?.is_pending() {
                let _ = boundary.receive(&mut stage, scope).map_err(text)?;
                thread::yield_now();
            }
            boundary.wait(&mut stage, scope).map_err(text)?;
            boundary.set(&mut stage, scope).map_err(text)?;
        }
        Ok(())
    }

    /// Every cell is what it was, or what came.
    fn check(&self, store: &Store, mesh: &Grid, turn: u32, block: u32, field: u16) -> Result<(), String> {
        let default = DEFAULTS.get(usize::from(field)).copied().unwrap_or(0.0);
        let values = store.values(block, field, 0);
        for at in 0..mesh.shape().len() {
            let Some((offsets, cell)) = source(mesh, at) else { return Err("no such cell".to_owned()) };
            let [x, y, z] = offsets;
            let from = Element::new(x, y, z).and_then(|element| mesh.neighbour(block, element)).unwrap_or(block);
            let live = self.holds(turn, from, field) == Holds::Values;
            let expected = if live { self.value(turn, from, field, cell) } else { default };
            match values.and_then(|values| values.get(at)) {
                Some(value) if value.to_bits() == expected.to_bits() => {}
                None if !live => {}
                other => return Err(format!("cell {at} is {other:?}, not {expected}, from block {from}")),
            }
        }
        // It became present only if something came.
        let came = || mesh.shape().elements().filter_map(|element| mesh.neighbour(block, element));
        let due = self.holds(turn, block, field) != Holds::Nothing
            || came().any(|other| self.holds(turn, other, field) == Holds::Values);
        if values.is_some() == due { Ok(()) } else { Err(format!("it is there: {}", values.is_some())) }
    }
}

/// In which direction the owner of a cell of a block's array lies, and where the cell is in the owner's array.
fn source(mesh: &Grid, at: usize) -> Option<([i8; 3], usize)> {
    let shape = mesh.shape();
    let (cells, ghosts, extents) = (shape.cells(), shape.ghosts(), shape.extents());
    let [nx, ny, _] = extents.map(|n| n as usize);
    let place = [at % nx, at / nx % ny, at / nx / ny];
    let (mut offsets, mut there) = ([0i8; 3], [0; 3]);
    for d in 0..3 {
        let from = place[d] as i64 - i64::from(ghosts[d]);
        offsets[d] = i8::try_from(from.div_euclid(i64::from(cells[d]))).ok()?;
        there[d] = (from.rem_euclid(i64::from(cells[d])) + i64::from(ghosts[d])) as usize;
    }
    Some((offsets, (there[2] * ny + there[1]) * nx + there[0]))
}
