//! Messages with a damaged head, or one of an old epoch, by `mpirun`.
//!
//! They are refused and counted. `MpiStrips` is not here, where a forged head would have to come with strips that agree with it:
//! its units have heads that are damaged, end early, or announce other strips.
//!
//! ```text
//! mpirun -n 2 forged_heads
//! ```
#![forbid(unsafe_code)]

mod together;

#[allow(unreachable_pub, reason = "the tests of the workspace use it from a library")]
#[path = "../../../tests/src/forged.rs"]
mod forged;

use std::error::Error;
use std::io::{self, Write as _};
use std::time::Duration;

use umbra_mpi::{Communicator, MpiRma, MpiSlot, Window};

use forged::{Fault, refuse};

const PATIENCE: Duration = Duration::from_secs(60);

fn run(world: Communicator) -> Result<(), Box<dyn Error>> {
    let window = Window::allocate(&world, MpiRma::words(world.size(), forged::extent()?.message))?;
    for fault in [Fault::Damaged, Fault::Old] {
        let told = |name, error| format!("{name}, {fault:?}: {error}");
        let kept = refuse(MpiSlot::new(world, Some(PATIENCE))?, fault, PATIENCE).map_err(|e| told("mpi-slot", e))?;
        // Both ends are there until both ranks have ended.
        world.gather(&[0])?;
        drop(kept);
        let end = MpiRma::new(world, &window, Some(PATIENCE))?;
        let kept = refuse(end, fault, PATIENCE).map_err(|e| told("mpi-rma", e))?;
        world.gather(&[0])?;
        drop(kept);
        if world.rank() == 0 {
            writeln!(io::stdout(), "{fault:?} heads are refused and counted")?;
        }
    }
    Ok(window.free()?)
}

fn main() -> Result<(), Box<dyn Error>> {
    together::main(run)
}
