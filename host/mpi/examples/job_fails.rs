//! A job that one process has no means for, under `mpirun`.
//!
//! All learn of it, and nobody waits.
//!
//! ```text
//! mpirun -n RANKS job_fails
//! ```
#![forbid(unsafe_code)]

mod together;

use std::error::Error;
use std::fs::File;
use std::io::{self, Write as _};
use std::process::Command;

use umbra_mpi::{Bootstrap, BootstrapError, Communicator};

/// Files that a process may have open then: more than the MPI library has.
const FILES: u32 = 512;

/// Opens files until no more can be.
fn exhaust() -> Result<Vec<File>, Box<dyn Error>> {
    let pid = std::process::id().to_string();
    let limited = Command::new("prlimit").args(["--pid", &pid, &format!("--nofile={FILES}:")]).status()?;
    if !limited.success() {
        return Err("prlimit has failed".into());
    }
    Ok(std::iter::from_fn(|| File::open("/dev/null").ok()).collect())
}

fn run(world: Communicator) -> Result<(), Box<dyn Error>> {
    // The first process cannot bind a port.
    let files = if world.rank() == 0 { exhaust()? } else { Vec::new() };
    let failed = Bootstrap::new(world).err();
    drop(files);
    match failed {
        Some(BootstrapError::System("bind a port", _)) if world.rank() == 0 => {}
        Some(BootstrapError::Elsewhere) if world.rank() != 0 => {}
        Some(other) => return Err(other.into()),
        None => return Err("there is a job".into()),
    }
    world.gather(&[0])?;
    if world.rank() == 0 {
        writeln!(io::stdout(), "{} ranks know that there is no job", world.size())?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    together::main(run)
}
