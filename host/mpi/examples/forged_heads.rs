//! Heads that are damaged, of an old epoch, or of another plan, by `mpirun`.
//!
//! They are refused and counted. `MpiStrips` sends the strips that its own head announces, so none of its heads is damaged
//! here: its units have such, and heads that end early or announce other strips.
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

use umbra::boundary::Transport;
use umbra_mpi::{Communicator, MpiNodes, MpiRma, MpiSlot, MpiStrips, Window};

use forged::{Fault, refuse};

const PATIENCE: Duration = Duration::from_secs(60);

/// Both ranks over one transport.
fn told<T: Transport>(world: Communicator, name: &str, end: T, fault: Fault) -> Result<(), Box<dyn Error>> {
    let kept = refuse(end, fault, PATIENCE).map_err(|error| format!("{name}, {fault:?}: {error}"))?;
    // Both ends are there until both ranks have ended.
    world.gather(&[0])?;
    drop(kept);
    Ok(())
}

fn run(world: Communicator) -> Result<(), Box<dyn Error>> {
    let message = forged::extent()?.message;
    let (one, two) = (MpiNodes::new(world)?, MpiNodes::split(world, u16::try_from(world.rank())?)?);
    let window = Window::allocate(&world, MpiRma::words(world.size(), message))?;
    for fault in Fault::ALL {
        told(world, "mpi-slot", MpiSlot::new(world, Some(PATIENCE))?, fault)?;
        told(world, "mpi-rma", MpiRma::new(world, &window, Some(PATIENCE))?, fault)?;
        told(world, "mpi-nodes, one", one.end(message, Some(PATIENCE))?, fault)?;
        told(world, "mpi-nodes, two", two.end(message, Some(PATIENCE))?, fault)?;
        if fault != Fault::Damaged {
            told(world, "mpi-early", MpiStrips::early(world, Some(PATIENCE))?, fault)?;
            told(world, "mpi-probe", MpiStrips::probing(world, Some(PATIENCE))?, fault)?;
        }
        if world.rank() == 0 {
            writeln!(io::stdout(), "{fault:?} heads are refused and counted")?;
        }
    }
    Ok(window.free()?)
}

fn main() -> Result<(), Box<dyn Error>> {
    together::main(run)
}
