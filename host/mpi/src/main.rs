//! The program under `mpirun`: advection over MPI, and a group joined by MPI.
#![forbid(unsafe_code)]

mod advect;
mod options;
mod output;
mod told;

use std::error::Error;
use std::process::ExitCode;

use umbra_core::endpoints::Endpoint;
use umbra_core::peer::{PeerKind, Rank, WorldRank};
use umbra_mpi::{Bootstrap, Communicator};

use options::Request;
use output::{complain, say};

fn main() -> ExitCode {
    let request = match options::parse(lexopt::Parser::from_env()) {
        Ok(request) => request,
        Err(error) => {
            complain(format_args!("error: {error}\n\n{}", options::HELP));
            return ExitCode::from(2);
        }
    };
    if request == Request::Help {
        return if say(&options::HELP.trim_end()).is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let Some(universe) = mpi::initialize() else {
        complain("error: MPI was initialized before");
        return ExitCode::FAILURE;
    };
    let world = match Communicator::world(&universe) {
        Ok(world) => world,
        Err(error) => {
            complain(format_args!("error: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let done = match request {
        Request::Advect(wanted) => advect::run(world, &wanted),
        Request::Group => group(world).map(|()| true),
        Request::Help => Ok(true),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            complain(format_args!("rank {}: {error}", world.rank()));
            // Others may wait for this rank, which will not come.
            world.abort(1)
        }
    }
}

/// Joins the job that MPI describes, looks everybody up in two groups, and leaves.
fn group(world: Communicator) -> Result<(), Box<dyn Error>> {
    let job = Bootstrap::new(world)?;
    let seat = job.seat();
    let mut session = job.join()?;
    let all = session.world().ok_or("the world group is full after joining")?;
    let same = |found: Endpoint, expected: u32| match found.peer.kind() {
        PeerKind::Rank(WorldRank(rank)) if rank == expected => Ok(()),
        _ => Err(format!("rank {expected} is found as {}", found.peer)),
    };
    for rank in 0..all.size {
        same(session.endpoints().lookup(all.handle, Rank(rank))?, rank)?;
    }
    // Every other rank, in reverse: its ranks are not those of the world.
    let members: Vec<u32> = (0..world.size()).rev().filter(|rank| rank % 2 == seat.rank.0 % 2).collect();
    let half =
        session.create_group(1 + seat.rank.0 % 2, &members.iter().copied().map(WorldRank).collect::<Vec<_>>())?;
    for (rank, &member) in (0..).zip(&members) {
        same(session.endpoints().lookup(half.handle, Rank(rank))?, member)?;
    }
    session.free_group(half)?;
    session.wait_ended(half)?;
    session.leave()?;
    // One line of the first rank says what all have found.
    world.gather(&[0])?;
    if world.rank() == 0 {
        say(&format_args!("{} ranks on {} nodes found each other", world.size(), job.config().lines().count() - 1))?;
    }
    Ok(job.end()?)
}
