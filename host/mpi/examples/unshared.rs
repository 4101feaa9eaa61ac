//! Memory of a node that one process cannot have, by `mpirun`.
//!
//! All are told which and why, whether it is the one that makes the memory or one that opens it, and nobody waits or goes on alone.
//! Then they exchange over messages, and over memory when all can have it.
//!
//! ```text
//! mpirun -n RANKS unshared
//! ```
#![forbid(unsafe_code)]

mod together;

use std::error::Error;
use std::io::{self, Write as _};
use std::process::Command;
use std::time::{Duration, Instant};

use umbra::boundary::{NodesError, Transport, TransportError, Unshared};
use umbra::sys::process::raise_descriptors;
use umbra_core::boundary::Vote;
use umbra_mpi::{Communicator, MpiNodes, MpiSlot};

type Checked = Result<(), Box<dyn Error>>;

/// Bytes of a message.
const MESSAGE: u32 = 4096;
const DEADLINE: Option<Duration> = Some(Duration::from_secs(30));
/// Of an end that one rank does not make.
const SHORT: Duration = Duration::from_millis(500);
/// Too many open files.
const EMFILE: i32 = 24;

/// One of these ranks may open nothing.
fn without(world: Communicator, nodes: &MpiNodes, rank: u32, why: Unshared) -> Checked {
    if world.rank() == rank {
        let pid = std::process::id().to_string();
        if !Command::new("prlimit").args(["--pid", &pid, "--nofile=3:"]).status()?.success() {
            return Err("prlimit has failed".into());
        }
    }
    let made = nodes.end(MESSAGE, DEADLINE).map(drop);
    if world.rank() == rank {
        raise_descriptors()?;
    }
    if made != Err(TransportError::NotShared { rank, why }) {
        return Err(format!("rank {rank} has no memory, and what is told is {made:?}").into());
    }
    usable(world, MpiSlot::new(world, DEADLINE)?)?;
    usable(world, nodes.end(MESSAGE, DEADLINE)?)
}

/// All hear what all say.
fn usable(world: Communicator, mut end: impl Transport) -> Checked {
    let vote = |rank| Vote { epoch: 1, sequence: rank, open: 0 };
    end.vote(1, vote(world.rank()))?;
    let begun = Instant::now();
    for rank in 0..world.size() {
        let heard = loop {
            match end.vote_of(rank, 1)? {
                Some(heard) => break heard,
                None if Some(begun.elapsed()) > DEADLINE => return Err(format!("rank {rank} says nothing").into()),
                None => std::thread::yield_now(),
            }
        };
        if heard != vote(rank) {
            return Err(format!("rank {rank} says {heard:?}").into());
        }
    }
    Ok(())
}

/// One rank names another size, and one makes an end over messages instead.
fn otherwise(world: Communicator, nodes: &MpiNodes) -> Checked {
    let last = world.size() - 1;
    let message = if world.rank() == last { MESSAGE + 8 } else { MESSAGE };
    let made = nodes.end(message, DEADLINE).map(drop);
    let (bytes, first) = (u64::from(MESSAGE + 8), u64::from(MESSAGE));
    let expected = if last == 0 { Ok(()) } else { Err(NodesError::Message { rank: last, bytes, first }.into()) };
    if made != expected {
        return Err(format!("another size of messages: {made:?}").into());
    }
    if world.rank() == 0 {
        let end = MpiSlot::new(world, DEADLINE)?;
        // The others make theirs meanwhile, and wait for what this rank does not say.
        world.gather(&[0])?;
        drop(end);
        return Ok(());
    }
    let (begun, made) = (Instant::now(), nodes.end(MESSAGE, Some(SHORT)).map(drop));
    world.gather(&[0])?;
    if made != Err(TransportError::Silent { rank: 0 }) || begun.elapsed() > 10 * SHORT {
        return Err(format!("after {:?}: {made:?}", begun.elapsed()).into());
    }
    Ok(())
}

fn run(world: Communicator) -> Checked {
    let last = world.size() - 1;
    let nodes = MpiNodes::new(world)?;
    if last > 0 {
        without(world, &nodes, last, Unshared::Open(EMFILE))?;
    }
    without(world, &nodes, 0, Unshared::Make(EMFILE))?;
    // All have a node of their own, and all are told all the same.
    let nodes = MpiNodes::split(world, u16::try_from(world.rank())?)?;
    without(world, &nodes, last, Unshared::Make(EMFILE))?;
    otherwise(world, &nodes)?;
    if world.rank() == 0 {
        writeln!(io::stdout(), "{} ranks know who has no memory of its node", world.size())?;
    }
    Ok(())
}

fn main() -> Checked {
    together::main(run)
}
