//! Exchanges of mostly empty strips between two ranks, under `mpirun`.
//!
//! They are those of the bench `boundary`, which runs this program, with what it measures of them: each rank has a block,
//! and of the strips that it sends nine in ten hold nothing. Both ranks check in every exchange that the right strips came
//! with the right values.
//!
//! ```text
//! mpirun -n 2 mostly_empty STRIPS BYTES BATCHES EXCHANGES [slot|nodes]
//! ```
//!
//! exchanges over `MpiSlot`, or over `MpiNodes` and so over memory on one node. It prints the tenth percentile and the median of
//! the batches in microseconds of an exchange, and the bytes to receive into as they were at the end of half of the batches: those
//! that were announced, and those that the transport held.
#![forbid(unsafe_code)]

mod together;

#[allow(clippy::expect_used, reason = "a bench that cannot be set up ends")]
#[path = "../../../tests/benches/boundary/strips.rs"]
mod strips;

use std::error::Error;
use std::io::{self, Write as _};
use std::time::{Duration, Instant};

use umbra::boundary::{Boundary, Field, Settings, Transport, largest_message};
use umbra_core::boundary::Sparse;
use umbra_mpi::{Communicator, MpiNodes, MpiSlot};

use strips::{Pair, Strips};

const USAGE: &str =
    "usage: mpirun -n 2 mostly_empty STRIPS BYTES BATCHES EXCHANGES [slot|nodes], none of them 0, BYTES 8 at least";
const PATIENCE: Option<Duration> = Some(Duration::from_secs(60));

fn run(world: Communicator) -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let numbers: Result<Vec<u32>, _> = words.iter().take(4).map(|number| number.parse()).collect();
    let [count, bytes, batches, exchanges] = numbers?[..] else { return Err(USAGE.into()) };
    if world.size() != 2 || bytes < 8 || [count, batches, exchanges].contains(&0) {
        return Err(USAGE.into());
    }
    let fields = vec![Field::sparse(Sparse::new(1e-12, 1e-14, 0.0)?); count as usize];
    let wanted = Wanted { mesh: Pair::new(bytes, 1), fields, count, bytes, batches, exchanges };
    match words.get(4).map(String::as_str) {
        None | Some("slot") => measure(world, &wanted, MpiSlot::new(world, PATIENCE)?),
        Some("nodes") => {
            let message = largest_message(&wanted.mesh, &wanted.fields, world.size());
            measure(world, &wanted, MpiNodes::new(world)?.end(message, PATIENCE)?)
        }
        Some(_) => Err(USAGE.into()),
    }
}

/// What is exchanged, and how often.
struct Wanted {
    mesh: Pair,
    fields: Vec<Field>,
    count: u32,
    bytes: u32,
    batches: u32,
    exchanges: u32,
}

fn measure<T: Transport>(world: Communicator, wanted: &Wanted, end: T) -> Result<(), Box<dyn Error>> {
    let &Wanted { ref mesh, ref fields, count, bytes, batches, exchanges } = wanted;
    let mut boundary = Boundary::build(mesh, fields, end, Settings::default())?;
    let mut strips = Strips::new(world.rank(), count, bytes, 1);
    let (mut times, mut announced, mut held) = (Vec::new(), Vec::new(), Vec::new());
    // The first batch warms up.
    for batch in 0..=batches {
        world.gather(&[0])?;
        let begun = Instant::now();
        for _ in 0..exchanges {
            strips.touch();
            boundary.exchange(&mut strips)?;
            strips.check();
        }
        world.gather(&[0])?;
        if batch > 0 {
            times.push(begun.elapsed().as_secs_f64() * 1e6 / f64::from(exchanges));
            announced.push(boundary.receive_bytes().0);
            held.push(boundary.held().unwrap_or_default().receive);
        }
    }
    boundary.close()?;
    if world.rank() == 0 {
        times.sort_by(f64::total_cmp);
        let half = |of: &mut Vec<u64>| *of.select_nth_unstable(batches as usize / 2).1;
        let (tenth, median) = (times[times.len() / 10], times[times.len() / 2]);
        writeln!(io::stdout(), "{tenth:.3} {median:.3} {} {}", half(&mut announced), half(&mut held))?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    together::main(run)
}
