//! A job of MPI whose agents a tool finds by itself, under `mpirun`.
//!
//! ```text
//! mpirun -n RANKS asked UMBRA
//! ```
#![forbid(unsafe_code)]

mod together;

use std::error::Error;
use std::io::{self, Write as _};
use std::process::Command;

use umbra_mpi::{Bootstrap, Communicator};

fn run(world: Communicator) -> Result<(), Box<dyn Error>> {
    let umbra = std::env::args_os().nth(1).ok_or("usage: mpirun -n RANKS asked UMBRA")?;
    let job = Bootstrap::new(world)?;
    let session = job.join()?;
    world.gather(&[0])?;
    let asked = || Command::new(umbra).args(["doctor", "--json"]).status();
    let answer = if world.rank() == 0 { Some(asked()) } else { None };
    // Nobody leaves before.
    world.gather(&[0])?;
    session.leave()?;
    job.end()?;
    match answer.transpose()? {
        Some(status) if !status.success() => Err(format!("umbra doctor: {status}").into()),
        Some(_) => Ok(writeln!(io::stdout(), "umbra doctor has found the job")?),
        None => Ok(()),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    together::main(run)
}
