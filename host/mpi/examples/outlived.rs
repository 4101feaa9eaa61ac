//! A rank that is killed while `mpirun` lets the others live, who name it.
//!
//! Most launchers end a job one of whose ranks has died. Where one was asked not to, those that wait for that rank are told
//! rank, block and field at the deadline, and those that share a node with it long before, by `MpiNodes`. Nobody can finalize
//! then, so each ends by itself.
//!
//! ```text
//! mpirun --enable-recovery -n RANKS outlived slot|rma|early|probe|nodes|apart|vote      Open MPI
//! mpirun -disable-auto-cleanup -n RANKS outlived slot|rma|early|probe|nodes|apart|vote  MPICH, with the signal USR1 ignored
//! ```
//!
//! With `nodes` all share one, with `apart` the killed rank has one of its own, and with `vote` all share one and the others wait
//! for its vote.
#![forbid(unsafe_code)]

mod together;

use std::error::Error;
use std::io::{self, Write as _};
use std::process::{self, Command};
use std::time::{Duration, Instant};

use umbra::boundary::{
    Boundary, BoundaryError, Field, Grid, Mesh as _, Settings, Store, Transport, TransportError, largest_message,
};
use umbra_core::boundary::{Missing, Shape};
use umbra_mpi::{Communicator, MpiNodes, MpiRma, MpiSlot, MpiStrips, Window};

type Checked<T = ()> = Result<T, Box<dyn Error>>;

/// The rank that is killed; the ranks beside it wait.
const KILLED: u32 = 1;
const DEADLINE: Duration = Duration::from_secs(2);
/// How much later than the deadline an error may come.
const GRACE: Duration = Duration::from_secs(1);

fn mesh(ranks: u32) -> Checked<Grid> {
    Ok(Grid::new(Shape::new([4, 1, 1], [2, 0, 0])?, [ranks, 1, 1], [true, false, false], ranks))
}

/// When the others know.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    /// At the deadline of an exchange.
    Late,
    /// Long before it.
    Soon,
    /// Long before the deadline of a vote.
    InVote,
}

fn outlive<T: Transport>(world: Communicator, end: T, known: Known) -> Checked {
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
    let votes = known == Known::InVote;
    let done = if votes { boundary.remesh(&grid) } else { boundary.exchange(&mut store.stage(0)) };
    let took = begun.elapsed();
    if known != Known::Late && took >= DEADLINE {
        return Err(format!("only after {took:?}: {done:?}").into());
    }
    let late = match &done {
        Err(BoundaryError::Late(late)) if known == Known::Late => late,
        Err(BoundaryError::Lost(late)) if known == Known::Soon => late,
        Err(error @ BoundaryError::Transport(TransportError::Ended { rank: KILLED, .. })) if votes => {
            writeln!(io::stdout(), "rank {rank} outlives in a vote: {error}")?;
            process::exit(0)
        }
        other => return Err(format!("another end: {other:?}").into()),
    };
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
        "slot" => outlive(world, MpiSlot::new(world, Some(DEADLINE))?, Known::Late),
        "rma" => outlive(world, MpiRma::new(world, &window, Some(DEADLINE))?, Known::Late),
        "early" => outlive(world, MpiStrips::early(world, Some(DEADLINE))?, Known::Late),
        "probe" => outlive(world, MpiStrips::probing(world, Some(DEADLINE))?, Known::Late),
        "nodes" => outlive(world, MpiNodes::new(world)?.end(message, Some(DEADLINE))?, Known::Soon),
        "vote" => outlive(world, MpiNodes::new(world)?.end(message, Some(DEADLINE))?, Known::InVote),
        "apart" => {
            let nodes = MpiNodes::split(world, u16::from(world.rank() == KILLED))?;
            outlive(world, nodes.end(message, Some(DEADLINE))?, Known::Late)
        }
        _ => Err(format!("there is no transport {name}").into()),
    }
}

fn main() -> Checked {
    together::main(run)
}
