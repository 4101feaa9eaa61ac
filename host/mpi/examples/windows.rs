//! Windows that are refused, and one that takes no memory, by `mpirun`.
//!
//! A window takes no memory before it is written.
//! Processes that ask for different numbers of words would look for a message where it is not; all of them are told who
//! does. Two ends over one window would pack their messages over each other; the second one is refused. So is an end of other
//! processes than those of the window.
//!
//! ```text
//! mpirun -n RANKS windows
//! ```
#![forbid(unsafe_code)]

mod together;

use std::error::Error;
use std::io::{self, Write as _};
use std::time::Duration;

use umbra::boundary::TransportError;
use umbra_mpi::{Communicator, MpiRma, Window, WindowError};

type Checked<T = ()> = Result<T, Box<dyn Error>>;

const DEADLINE: Option<Duration> = Some(Duration::from_secs(60));
/// Words of a window, which are 128 MiB.
const WORDS: usize = 1 << 24;

/// Bytes of memory that this process has.
fn resident() -> Checked<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no size of this process")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? * 1024)
}

/// All processes hear of the first that asks for another number of words.
fn different(world: Communicator) -> Checked {
    let odd = world.size() - 1;
    let asked = |rank| if rank == odd { 512 } else { 4096 };
    match Window::allocate(&world, asked(world.rank()) as usize).map(|_| ()) {
        Err(WindowError::Differs { rank, words, first }) if (rank, words, first) == (odd, asked(odd), asked(0)) => {
            Ok(())
        }
        other => Err(format!("a window of different sizes: {other:?}").into()),
    }
}

/// A window carries the messages of one end at a time, also if another one would be on another communicator.
fn shared(world: Communicator) -> Checked {
    let other = world.duplicate()?;
    let window = Window::allocate(&world, MpiRma::words(world.size(), 4096))?;
    let end = MpiRma::new(world, &window, DEADLINE)?;
    match MpiRma::new(other, &window, DEADLINE).map(|_| ()) {
        Err(TransportError::HasEnd) => {}
        made => return Err(format!("a second end over a window: {made:?}").into()),
    }
    drop(end);
    drop(MpiRma::new(other, &window, DEADLINE)?);
    Ok(window.free()?)
}

/// A window of some of the processes is none for an end of all of them.
fn of_others(world: Communicator) -> Checked {
    let part = world.split(u16::from(world.rank() == 0))?;
    let window = Window::allocate(&part, MpiRma::words(world.size(), 4096))?;
    match MpiRma::new(world, &window, DEADLINE).map(|_| ()) {
        Err(TransportError::OtherProcesses) => Ok(window.free()?),
        made => Err(format!("an end over a window of others: {made:?}").into()),
    }
}

/// What is never written takes no memory. Open MPI writes the windows of processes that share memory itself.
fn empty(world: Communicator) -> Checked {
    if mpi::environment::library_version()?.contains("Open MPI") {
        return Ok(());
    }
    let before = resident()?;
    let window = Window::allocate(&world, WORDS)?;
    let (has, more) = (window.len() as u64 * 8, resident()?.saturating_sub(before));
    if more > has / 8 {
        return Err(format!("a window of {has} bytes that nobody wrote takes {more}").into());
    }
    Ok(window.free()?)
}

fn run(world: Communicator) -> Checked {
    different(world)?;
    shared(world)?;
    of_others(world)?;
    empty(world)?;
    if world.rank() == 0 {
        writeln!(io::stdout(), "{} ranks have windows of one size, for one end each", world.size())?;
    }
    Ok(())
}

fn main() -> Checked {
    together::main(run)
}
