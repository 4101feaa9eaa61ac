//! Random exchanges over each transport, under `mpirun`.
//!
//! What arrives is what was sent.
//!
//! ```text
//! mpirun -n RANKS random_exchanges COUNT
//! ```
#![forbid(unsafe_code)]

mod together;

#[allow(unreachable_pub, reason = "the tests of the workspace use it from a library")]
#[path = "../../../tests/src/random_exchanges.rs"]
mod random_exchanges;

use std::error::Error;
use std::io::{self, Write as _};

use std::time::Duration;

use umbra_mpi::{Communicator, MpiNodes, MpiRma, MpiSlot, MpiStrips, Window};

use random_exchanges::Exchanges;

fn run(world: Communicator) -> Result<(), Box<dyn Error>> {
    let count = std::env::args().nth(1).ok_or("usage: mpirun -n RANKS random_exchanges COUNT")?.parse()?;
    let exchanges = Exchanges { ranks: world.size(), seed: u64::from(world.size()), count };
    let message = exchanges.extent()?.message;
    // All on one node, and every other one on another.
    let (one, two) = (MpiNodes::new(world)?, MpiNodes::split(world, u16::try_from(world.rank() % 2)?)?);
    let window = Window::allocate(&world, MpiRma::words(world.size(), message))?;
    let deadline = Some(Duration::from_secs(60));
    for name in ["mpi-slot", "mpi-rma", "mpi-nodes", "mpi-nodes, two", "mpi-early", "mpi-probe"] {
        let counts = match name {
            "mpi-slot" => exchanges.run(MpiSlot::new(world, deadline)?)?,
            "mpi-rma" => exchanges.run(MpiRma::new(world, &window, deadline)?)?,
            "mpi-nodes" => exchanges.run(one.end(message, deadline)?)?,
            "mpi-nodes, two" => exchanges.run(two.end(message, deadline)?)?,
            "mpi-early" => exchanges.run(MpiStrips::early(world, deadline)?)?,
            _ => exchanges.run(MpiStrips::probing(world, deadline)?)?,
        };
        let live = world.gather(&[counts.live])?;
        if world.rank() == 0 {
            writeln!(io::stdout(), "{count} exchanges over {name}, {} live strips", live.iter().sum::<u64>())?;
        }
    }
    Ok(window.free()?)
}

fn main() -> Result<(), Box<dyn Error>> {
    together::main(run)
}
