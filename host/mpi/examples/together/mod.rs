//! What all examples begin and end with.

use std::error::Error;
use std::io::{self, Write as _};

use umbra_mpi::Communicator;

/// Runs this on all ranks. One that fails says why, and ends the others.
pub(crate) fn main(run: fn(Communicator) -> Result<(), Box<dyn Error>>) -> Result<(), Box<dyn Error>> {
    let universe = mpi::initialize().ok_or("MPI was initialized before")?;
    let world = Communicator::world(&universe)?;
    if let Err(error) = run(world) {
        let _ = writeln!(io::stderr(), "rank {}: {error}", world.rank());
        // Others may wait for this rank, which will not come.
        world.abort(1);
    }
    Ok(())
}
