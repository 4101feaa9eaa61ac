//! Ghost cells of a program's own arrays, exchanged between processes.
//!
//! usage: boundary RANKS [PROGRAM]     runs rank 0 and starts the others, by this program or another one
//!        boundary RANK RANKS          runs one rank, whose standard input is the memory of the fabric
//!
//! Six blocks form a ring in x; each is its own neighbour in y. One field is on all blocks. The other, a dye of two
//! components, is only where some of it is: on block 0, and after an exchange on those that it reached. In the end
//! blocks move to the next rank. The same in C: ffi/examples/boundary.c; ranks of both go together.

use std::collections::BTreeMap;
use std::error::Error;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use umbra::boundary::{
    Boundary, BoundaryError, Extent, Fabric, Field, Fields, Mesh, NoMemory, Scope, Settings, largest_message,
};
use umbra::sys::segment::{Mapping, Segment};
use umbra_core::boundary::{Element, Shape, Sparse, VoteError};

const BLOCKS: u32 = 6;
const CELLS: [i32; 2] = [8, 6];
const GHOSTS: i32 = 2;
const WIDTH: i32 = CELLS[0] + 2 * GHOSTS;
const LEN: usize = (WIDTH * (CELLS[1] + 2 * GHOSTS)) as usize;
const ROUNDS: i32 = 50;
const HEAT: u16 = 0;
const DYE: u16 = 1;
const DEFAULT: f64 = 0.5;

/// The mesh: who owns a block moves on by `shift`.
struct Ring {
    shape: Shape,
    ranks: u32,
    shift: u32,
}

impl Mesh for Ring {
    fn shape(&self) -> Shape {
        self.shape
    }

    fn blocks(&self) -> u32 {
        BLOCKS
    }

    fn owner(&self, block: u32) -> u32 {
        (block + self.shift) % self.ranks
    }

    fn neighbour(&self, block: u32, element: Element) -> Option<u32> {
        Some(block.wrapping_add(BLOCKS).wrapping_add_signed(element.offsets()[0].into()) % BLOCKS)
    }
}

impl Ring {
    fn owned_by(&self, rank: u32) -> impl Iterator<Item = u32> {
        (0..BLOCKS).filter(move |&block| self.owner(block) == rank)
    }
}

/// The arrays of this rank, by block and field.
struct Arrays {
    fields: [Field; 2],
    values: BTreeMap<(u32, u16), Vec<f64>>,
}

impl Fields for Arrays {
    fn values(&self, block: u32, field: u16) -> Option<&[f64]> {
        self.values.get(&(block, field)).map(Vec::as_slice)
    }

    fn values_mut(&mut self, block: u32, field: u16) -> Option<&mut [f64]> {
        self.values.get_mut(&(block, field)).map(Vec::as_mut_slice)
    }

    fn allocate(&mut self, block: u32, field: u16) -> Result<(), NoMemory> {
        let kind = self.fields.get(usize::from(field)).ok_or(NoMemory { block, field })?;
        let fresh = vec![kind.default_value(); LEN * kind.components as usize];
        self.values.insert((block, field), fresh);
        Ok(())
    }
}

/// Where a cell lies in a component; ghosts have negative numbers, or such beyond the last cell.
fn at([x, y]: [i32; 2]) -> usize {
    ((y + GHOSTS) * WIDTH + x + GHOSTS) as usize
}

fn cells() -> impl Iterator<Item = [i32; 2]> {
    (-GHOSTS..CELLS[1] + GHOSTS).flat_map(|y| (-GHOSTS..CELLS[0] + GHOSTS).map(move |x| [x, y]))
}

/// What is in a cell in this round, wherever it is seen.
fn heat(round: i32, block: u32, [x, y]: [i32; 2]) -> f64 {
    let column = (block as i32 * CELLS[0] + x).rem_euclid(BLOCKS as i32 * CELLS[0]);
    1000.0 * f64::from(round) + f64::from(column) + 0.125 * f64::from(y.rem_euclid(CELLS[1]))
}

/// Where the dye is on block 0: in the second component, in the last cell of the fourth row.
const DROP: [i32; 2] = [CELLS[0] - 1, 3];

impl Arrays {
    /// Fills what is inside; nothing of the last round is left in the ghosts.
    fn fill(&mut self, ring: &Ring, rank: u32, round: i32) -> Result<(), NoMemory> {
        for block in ring.owned_by(rank) {
            self.allocate(block, HEAT)?;
            let values = self.values_mut(block, HEAT).ok_or(NoMemory { block, field: HEAT })?;
            for cell in cells() {
                let inside = (0..2).all(|d| (0..CELLS[d]).contains(&cell[d]));
                values[at(cell)] = if inside { heat(round, block, cell) } else { -1.0 };
            }
        }
        if ring.owner(0) == rank {
            if !self.values.contains_key(&(0, DYE)) {
                self.allocate(0, DYE)?;
            }
            self.values_mut(0, DYE).ok_or(NoMemory { block: 0, field: DYE })?[LEN + at(DROP)] = 7.0 + f64::from(round);
        }
        Ok(())
    }

    /// Every cell of the dense field is what its owner says; the dye has come to block 1 and nowhere else.
    fn verify(&self, ring: &Ring, rank: u32, round: i32) -> Result<(), String> {
        for block in ring.owned_by(rank) {
            let values = self.values(block, HEAT).ok_or("the dense field is gone")?;
            if let Some(cell) = cells().find(|&cell| values[at(cell)] != heat(round, block, cell)) {
                return Err(format!("block {block} has {} in {cell:?} in round {round}", values[at(cell)]));
            }
            let dye = self.values(block, DYE);
            if dye.is_some() != (block <= 1) {
                return Err(format!("the dye is on block {block}: {}", dye.is_some()));
            }
            if let Some(dye) = dye.filter(|_| block == 1) {
                let seen = [-2, -1, 0].map(|x| dye[LEN + at([x, DROP[1]])]);
                if seen != [DEFAULT, 7.0 + f64::from(round), DEFAULT] {
                    return Err(format!("the dye is {seen:?} in round {round}"));
                }
            }
        }
        Ok(())
    }
}

/// The same exchange as [`Boundary::exchange`], in steps and halves: a program computes in between.
fn in_steps(boundary: &mut Boundary<Fabric>, arrays: &mut Arrays) -> Result<(), Box<dyn Error>> {
    boundary.start_receive(Scope::Nonlocal)?;
    while boundary.send(arrays, Scope::Nonlocal)?.is_pending() {
        // Receiving is what lets others go on.
        let _ = boundary.receive(arrays, Scope::Nonlocal)?;
    }
    if boundary.send(arrays, Scope::Local)? != Poll::Ready(()) {
        return Err("nothing within a rank is waited for".into());
    }
    boundary.wait(arrays, Scope::Local)?;
    boundary.set(arrays, Scope::Local)?;
    boundary.wait(arrays, Scope::Nonlocal)?;
    Ok(boundary.set(arrays, Scope::Nonlocal)?)
}

/// A mesh that one rank cannot use is used by none, and the old one stays.
fn refused(boundary: &mut Boundary<Fabric>, ring: &Ring, rank: u32) -> Result<(), Box<dyn Error>> {
    for turn in 0..ring.ranks {
        if rank == turn {
            boundary.refuse_remesh();
            continue;
        }
        match boundary.remesh(ring) {
            Err(BoundaryError::Vote(VoteError::Refuses { rank })) if rank == turn => {}
            other => return Err(format!("rank {turn} has refused the mesh, and it was {other:?}").into()),
        }
    }
    Ok(())
}

fn run(fabric: Fabric, fields: [Field; 2], mut ring: Ring, rank: u32) -> Result<(), Box<dyn Error>> {
    let settings = Settings { deadline: Some(Duration::from_secs(60)), ..Settings::default() };
    let mut boundary = Boundary::build(&ring, &fields, fabric, settings)?;
    let mut arrays = Arrays { fields, values: BTreeMap::new() };
    for round in 0..ROUNDS {
        if round == ROUNDS / 2 {
            refused(&mut boundary, &ring, rank)?;
            // Each block goes to the next rank; its arrays are made anew there.
            arrays.values.clear();
            ring.shift = 1;
            boundary.remesh(&ring)?;
        }
        arrays.fill(&ring, rank, round)?;
        if round % 2 == 0 {
            boundary.exchange(&mut arrays)?;
        } else {
            in_steps(&mut boundary, &mut arrays)?;
        }
        arrays.verify(&ring, rank, round)?;
    }
    println!("rank {rank}: all is right");
    Ok(())
}

/// Starts the program of another rank with the fabric as its standard input.
fn start(program: &str, segment: &Segment, rank: u32, ranks: u32) -> Result<Child, Box<dyn Error>> {
    let words = [rank, ranks].map(|number| number.to_string());
    Ok(Command::new(program).args(words).stdin(Stdio::from(segment.share()?)).spawn()?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let (this, first, second) = match arguments.as_slice() {
        [this, first] => (this, first.parse::<u32>()?, None),
        [this, first, second] => (this, first.parse()?, Some(second)),
        _ => return Err("usage: boundary RANKS [PROGRAM]".into()),
    };
    let of_ranks = second.and_then(|word| word.parse::<u32>().ok());
    let ranks = of_ranks.unwrap_or(first);
    let shape = Shape::new([CELLS[0] as u32, CELLS[1] as u32, 1], [GHOSTS as u32, GHOSTS as u32, 0])?;
    let dye = Field { components: 2, ..Field::sparse(Sparse::new(1e-6, 1e-8, DEFAULT)?) };
    let fields = [Field::DENSE, dye];
    // Room for all blocks on one rank, wherever they will move.
    let all_on_one = Ring { shape, ranks: 1, shift: 0 };
    let extent = Extent { ranks, slots: 2, message: largest_message(&all_on_one, &fields, ranks) };
    let ring = Ring { shape, ranks, shift: 0 };
    if of_ranks.is_some() {
        let memory: OwnedFd = io::stdin().as_fd().try_clone_to_owned()?;
        let segment = Segment::attach(memory, Mapping::ReadWrite, extent.bytes())?;
        return run(Fabric::attach(Arc::new(segment), extent, first)?, fields, ring, first);
    }
    let segment = Arc::new(Fabric::segment(extent)?);
    let program = second.unwrap_or(this);
    let others: Result<Vec<Child>, _> = (1..ranks).map(|rank| start(program, &segment, rank, ranks)).collect();
    let ran = run(Fabric::attach(segment, extent, 0)?, fields, ring, 0);
    let ends: Result<Vec<_>, io::Error> = others?.iter_mut().map(Child::wait).collect();
    ran?;
    if ends?.iter().all(std::process::ExitStatus::success) { Ok(()) } else { Err("another rank failed".into()) }
}
