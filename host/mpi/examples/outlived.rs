//! A rank that is killed while `mpirun` lets the others live, who name it.
//!
//! Most launchers end a job one of whose ranks has died. Where one was asked not to, those that wait for that rank are told
//! rank, block and field at the deadline. Nobody can finalize then, so each ends by itself.
//!
//! ```text
//! mpirun --enable-recovery -n RANKS outlived slot|rma|early|probe      Open MPI
//! mpirun -disable-auto-cleanup -n RANKS outlived slot|early|probe      MPICH, with the signal USR1 ignored
//! ```
#![forbid(unsafe_code)]

mod together;

use std::error::Error;
use std::io::{self, Write as _};
use std::process::{self, Command};
use std::time::{Duration, Instant};

use umbra::boundary::{Boundary, BoundaryError, Field, Grid, Mesh as _, Settings, Store, Transport, largest_message};
use umbra_core::boundary::{Missing, Shape};
use umbra_mpi::{Communicator, MpiRma, MpiSlot, MpiStrips, Window};

type Checked<T = ()> = Result<T, Box<dyn Error>>;

/// The rank that is killed; the ranks beside it wait.
const KILLED: u32 = 1;
const DEADLINE: Duration = Duration::from_secs(2);
/// How much later than the deadline an error may come.
const GRACE: Duration = Duration::from_secs(1);

fn mesh(ranks: u32) -> Checked<Grid> {
    Ok(Grid::new(Shape::new([4, 1, 1], [2, 0, 0])?, [ranks, 1, 1], [true, false, false], ranks))
}

fn outlive<T: Transport>(world: Communicator, end: T) -> Checked {
    let (rank, ranks) = (world.rank(), world.size());
    let (grid, fields) = (mesh(ranks)?, [Field::DENSE]);
    let settings = Settings { deadline: Some(DEADLINE), ..Settings::default() };
    let mut boundary = Boundary::build(&grid, &fields, end, settings)?;
    let mut store = Store::new(grid.blocks(), grid.shape().len(), &fields, 1);
    store.allocate(rank, 0)?;
    boundary.exchange(&mut store.stage(0))?;
    world.gather(&[0])?;
    if rank == KILLED {
        Command::new("kill").args(["-KILL", &process::id().to_string()]).status()?;
    }
    let begun = Instant::now();
    let done = boundary.exchange(&mut store.stage(0));
    let took = begun.elapsed();
    let Err(BoundaryError::Late(late)) = &done else { return Err(format!("not late: {done:?}").into()) };
    let beside = (rank + 1) % ranks == KILLED || (KILLED + 1) % ranks == rank;
    let named = |missing: &Missing| {
        (missing.rank, missing.key.sender, missing.key.receiver, missing.key.field) == (KILLED, KILLED, rank, 0)
    };
    if !beside || late.missing.is_empty() || !late.missing.iter().all(named) || took > DEADLINE + GRACE {
        return Err(format!("after {took:?}: {late}").into());
    }
    writeln!(io::stdout(), "rank {rank} outlives: {late}")?;
    process::exit(0)
}

fn run(world: Communicator) -> Checked {
    let name = std::env::args().nth(1).unwrap_or_default();
    let message = largest_message(&mesh(world.size())?, &[Field::DENSE], world.size());
    let window = Window::allocate(&world, MpiRma::words(world.size(), message))?;
    match name.as_str() {
        "slot" => outlive(world, MpiSlot::new(world, Some(DEADLINE))?),
        "rma" => outlive(world, MpiRma::new(world, &window, Some(DEADLINE))?),
        "early" => outlive(world, MpiStrips::early(world, Some(DEADLINE))?),
        "probe" => outlive(world, MpiStrips::probing(world, Some(DEADLINE))?),
        _ => Err(format!("there is no transport {name}").into()),
    }
}

fn main() -> Checked {
    together::main(run)
}
