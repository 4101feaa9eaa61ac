//! The program under `mpirun`: advection over MPI, and a group joined by MPI.
#![forbid(unsafe_code)]

mod advect;
mod options;
mod output;
mod told;

use std::error::Error;
use std::process::ExitCode;

use umbra::session::Session;
use umbra::sys::segment::Segment;
use umbra_core::endpoints::Endpoint;
use umbra_core::peer::{PeerKind, Rank, WorldRank};
use umbra_core::ticket::Ticket;
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
        Request::Group { nodes } => group(world, nodes).map(|()| true),
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

/// Joins the job that MPI describes, looks everybody up in two groups, reads from the next rank, and leaves. On each
/// machine, ranks take part in so many nodes in turn.
fn group(world: Communicator, nodes: u16) -> Result<(), Box<dyn Error>> {
    let part = u16::try_from(world.rank() % u32::from(nodes.max(1)))?;
    let job = Bootstrap::split(world, part)?;
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
    // Every other rank: its ranks are not those of the world.
    let members = job.members(&world.split(u16::try_from(seat.rank.0 % 2)?)?)?;
    let half = session.create_group(1 + seat.rank.0 % 2, &members)?;
    for (rank, &WorldRank(member)) in (0..).zip(&members) {
        same(session.endpoints().lookup(half.handle, Rank(rank))?, member)?;
    }
    read_next(world, &mut session)?;
    session.free_group(half)?;
    session.wait_ended(half)?;
    session.leave()?;
    // One line of the first rank says what all have found.
    world.gather(&[0])?;
    if world.rank() == 0 {
        say(&format_args!(
            "{} ranks on {} nodes found each other, and each has read from the next",
            world.size(),
            job.config().lines().count() - 1
        ))?;
    }
    Ok(job.end()?)
}

/// Shows memory to the others and reads that of the next rank, which may be on another node.
fn read_next(world: Communicator, session: &mut Session) -> Result<(), Box<dyn Error>> {
    let memory =
        |rank: u32| u64::from(rank).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes().repeat(512);
    let shown = memory(world.rank());
    let segment = Segment::create("umbra-mpi", shown.len())?;
    segment.write(0, &shown)?;
    let key = session.export_segment(segment)?;
    let ticket = session.ticket(key).ok_or("there is no ticket for what was exported")?.to_bytes();
    let words: Vec<u64> = ticket.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
    let tickets = world.gather(&words)?;
    let next = (world.rank() + 1) % world.size();
    let theirs = tickets.chunks(words.len()).nth(next as usize).unwrap_or(&[]);
    let theirs: Vec<u8> = theirs.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut read = vec![0; shown.len()];
    session.read(&Ticket::parse(&theirs)?, 0, &mut read)?;
    // Nobody takes back what others still read.
    world.gather(&[0])?;
    session.revoke(key)?;
    if read == memory(next) { Ok(()) } else { Err(format!("what was read is not the memory of rank {next}").into()) }
}
