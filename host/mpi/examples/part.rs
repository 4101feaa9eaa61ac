//! A job, groups and an exchange of some processes only, by `mpirun`.
//!
//! The last process is not in it. The others are numbered from behind by a communicator of the program; those with even and those
//! with odd numbers there make a group each, from a communicator too.
//!
//! ```text
//! mpirun -n PROCESSES part
//! ```
#![forbid(unsafe_code)]

use std::error::Error;
use std::io::{self, Write as _};

use mpi::topology::{Color, SimpleCommunicator};
use mpi::traits::Communicator as _;
use umbra::boundary::{Boundary, Field, Fields as _, Grid, Mesh as _, Settings, Store};
use umbra_core::boundary::Shape;
use umbra_core::endpoints::Endpoint;
use umbra_core::peer::{PeerKind, Rank, WorldRank};
use umbra_mpi::{Bootstrap, Communicator, MpiSlot};

type Checked = Result<(), Box<dyn Error>>;

/// Ghost cells on each side of a block.
const GHOSTS: usize = 2;

/// Whether an entry of the endpoint cache is that of a rank of the job.
fn is(found: Endpoint, expected: WorldRank) -> Checked {
    match found.peer.kind() {
        PeerKind::Rank(rank) if rank == expected => Ok(()),
        _ => Err(format!("{expected} is found as {}", found.peer).into()),
    }
}

/// Joins, with everybody and with every other one.
fn job(these: Communicator, halves: &SimpleCommunicator) -> Checked {
    let job = Bootstrap::new(these)?;
    let mut session = job.join()?;
    let all = session.world().ok_or("no group of all")?;
    if (session.seat().rank.0, all.size) != (these.rank(), these.size()) {
        return Err(format!("rank {} of {} in a job of other numbers", these.rank(), these.size()).into());
    }
    for rank in 0..all.size {
        is(session.endpoints().lookup(all.handle, Rank(rank))?, WorldRank(rank))?;
    }
    let half = Communicator::of(halves)?;
    let members = job.members(&half)?;
    let group = session.create_group(1 + these.rank() % 2, &members)?;
    for (rank, &member) in (0..).zip(&members) {
        is(session.endpoints().lookup(group.handle, Rank(rank))?, member)?;
        // From behind in this one as well.
        if member.0 != these.rank() % 2 + 2 * rank {
            return Err(format!("member {rank} of a half is {member}").into());
        }
    }
    session.free_group(group)?;
    session.wait_ended(group)?;
    session.leave()?;
    Ok(job.end()?)
}

/// A ring of blocks in the order of the communicator: each sees its neighbours there.
fn exchange(these: Communicator) -> Checked {
    let (rank, ranks, settings) = (these.rank(), these.size(), Settings::default());
    let ghosts = GHOSTS as u32;
    let grid = Grid::new(Shape::new([ghosts, 1, 1], [ghosts, 0, 0])?, [ranks, 1, 1], [true, false, false], ranks);
    let fields = [Field::DENSE];
    let mut boundary = Boundary::build(&grid, &fields, MpiSlot::new(these, settings.deadline)?, settings)?;
    let mut store = Store::new(grid.blocks(), grid.shape().len(), &fields, 1);
    store.allocate(rank, 0)?;
    store.stage(0).values_mut(rank, 0).ok_or("no field")?.fill(f64::from(rank));
    boundary.exchange(&mut store.stage(0))?;
    let values = store.values(rank, 0, 0).ok_or("no field")?;
    let beside = [(rank + ranks - 1) % ranks, (rank + 1) % ranks].map(f64::from);
    if (values[0], values[2 * GHOSTS]) != (beside[0], beside[1]) {
        return Err(format!("rank {rank} of {ranks} has {values:?}").into());
    }
    Ok(boundary.close()?)
}

fn run(world: &SimpleCommunicator) -> Checked {
    let (number, size) = (world.rank(), world.size());
    let is_in = number < size - 1;
    let these = world.split_by_color_with_key(if is_in { Color::with_value(1) } else { Color::undefined() }, -number);
    let Some(these) = these else { return Ok(()) };
    let halves = these.split_by_color(Color::with_value(these.rank() % 2)).ok_or("no half")?;
    let ours = Communicator::of(&these)?;
    job(ours, &halves)?;
    exchange(ours)?;
    if ours.rank() == 0 {
        writeln!(io::stdout(), "{} of {size} processes had a job and a ring of their own", ours.size())?;
    }
    Ok(())
}

fn main() -> Checked {
    let universe = mpi::initialize().ok_or("MPI was initialized before")?;
    let world = universe.world();
    if let Err(error) = run(&world) {
        let _ = writeln!(io::stderr(), "process {}: {error}", world.rank());
        // Others may wait for this one, which will not come.
        world.abort(1);
    }
    Ok(())
}
