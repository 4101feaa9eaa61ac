//! A rank that is killed in the middle of a run, under `mpirun`.
//!
//! The launcher ends the others, and their agents end with them: nothing of the run stays, and this never succeeds.
//!
//! ```text
//! mpirun -n RANKS killed RANK
//! ```
#![forbid(unsafe_code)]

mod together;

use std::error::Error;
use std::io::{self, Write as _};
use std::process::Command;

use umbra::boundary::{Boundary, Field, Grid, Mesh as _, Settings, Store};
use umbra_core::boundary::Shape;
use umbra_mpi::{Bootstrap, Communicator, MpiSlot};

fn run(world: Communicator) -> Result<(), Box<dyn Error>> {
    let victim: u32 = std::env::args().nth(1).ok_or("usage: mpirun -n RANKS killed RANK")?.parse()?;
    let (rank, settings) = (world.rank(), Settings::default());
    let grid = Grid::new(Shape::new([4, 1, 1], [2, 0, 0])?, [world.size(), 1, 1], [true, false, false], world.size());
    // Each rank has an agent.
    let job = Bootstrap::split(world, u16::try_from(rank)?)?;
    let session = job.join()?;
    let fields = [Field::DENSE];
    let mut boundary = Boundary::build(&grid, &fields, MpiSlot::new(world, settings.deadline)?, settings)?;
    let mut store = Store::new(grid.blocks(), grid.shape().len(), &fields, 1);
    store.allocate(rank, 0)?;
    boundary.exchange(&mut store.stage(0))?;
    if rank == victim {
        writeln!(io::stdout(), "rank {rank} is killed")?;
        Command::new("kill").args(["-KILL", &std::process::id().to_string()]).status()?;
    }
    // It waits for the victim, longer than any launcher does.
    boundary.exchange(&mut store.stage(0))?;
    drop(session);
    Err("a rank that was killed has taken part".into())
}

fn main() -> Result<(), Box<dyn Error>> {
    together::main(run)
}
