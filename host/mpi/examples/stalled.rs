//! A rank that stalls in the middle of a run, under `mpirun`.
//!
//! The ranks that wait for it are told rank, blocks and field after the deadline, nobody closes, and all finalize: at
//! once, with what was left on its way, or after an exchange over ends made anew.
//!
//! ```text
//! mpirun -n RANKS stalled slot|rma|early|probe VALUES [again]
//! ```
#![forbid(unsafe_code)]

mod together;

use std::error::Error;
use std::io::{self, Write as _};
use std::thread;
use std::time::Duration;

use umbra::boundary::{
    Boundary, BoundaryError, Field, Grid, Late, Mesh as _, Scope, Settings, Store, Transport, largest_message,
};
use umbra_core::boundary::{Shape, VoteError};
use umbra_mpi::{Communicator, MpiRma, MpiSlot, MpiStrips, Window};

type Checked = Result<(), Box<dyn Error>>;

/// The rank that stalls; the ranks beside it wait.
const STALLED: u32 = 1;
const DEADLINE: Duration = Duration::from_secs(2);
const PATIENT: Option<Duration> = Some(Duration::from_secs(60));

/// A ring of blocks, one a rank, with strips of so many values.
fn mesh(ranks: u32, values: u32) -> Result<Grid, Box<dyn Error>> {
    Ok(Grid::new(Shape::new([values, 1, 1], [values, 0, 0])?, [ranks, 1, 1], [true, false, false], ranks))
}

/// One exchange that all take part in, and one that one rank does not.
fn stall<T: Transport>(world: Communicator, transport: T, values: u32) -> Checked {
    let (rank, ranks) = (world.rank(), world.size());
    let (grid, fields) = (mesh(ranks, values)?, [Field::DENSE]);
    let settings = Settings { deadline: Some(DEADLINE), ..Settings::default() };
    let mut boundary = Boundary::build(&grid, &fields, transport, settings)?;
    let mut store = Store::new(grid.blocks(), grid.shape().len(), &fields, 1);
    store.allocate(rank, 0)?;
    boundary.exchange(&mut store.stage(0))?;
    let waits = rank != STALLED && ((rank + 1) % ranks == STALLED || (STALLED + 1) % ranks == rank);
    if rank == STALLED {
        // Nothing of MPI goes on here meanwhile.
        thread::sleep(DEADLINE + DEADLINE / 2);
    } else {
        let done = boundary.exchange(&mut store.stage(0));
        if waits {
            let told = late(rank, &done)?;
            if rank == 0 {
                writeln!(io::stdout(), "{told}")?;
            }
            late(rank, &boundary.receive(&mut store.stage(0), Scope::Any))?;
        } else {
            done?;
        }
    }
    world.gather(&[0])?;
    // Only between exchanges, and this one is not over.
    match boundary.close() {
        Err(BoundaryError::StillOpen(_)) if waits => Ok(()),
        Err(BoundaryError::Vote(VoteError::Open { .. })) if !waits => Ok(()),
        other => Err(format!("closed in the middle of an exchange: {other:?}").into()),
    }
}

/// The error of a rank that has waited: it names the rank, the blocks and the field that are missing.
fn late<V: std::fmt::Debug>(rank: u32, done: &Result<V, BoundaryError>) -> Result<String, Box<dyn Error>> {
    let Err(BoundaryError::Late(late @ Late { missing, .. })) = done else {
        return Err(format!("not late: {done:?}").into());
    };
    let right = missing.iter().all(|missing| {
        missing.rank == STALLED && (missing.key.sender, missing.key.receiver, missing.key.field) == (STALLED, rank, 0)
    });
    let text = late.to_string();
    let named = text.contains(&format!("rank {STALLED}: block {STALLED} to block {rank}, field 0"));
    if right && named { Ok(text) } else { Err(format!("names something else: {late:?}").into()) }
}

/// What all ranks do after that, over new ends.
fn again<T: Transport>(world: Communicator, transport: T, values: u32) -> Checked {
    let (grid, fields) = (mesh(world.size(), values)?, [Field::DENSE]);
    let settings = Settings { deadline: PATIENT, ..Settings::default() };
    let mut boundary = Boundary::build(&grid, &fields, transport, settings)?;
    let mut store = Store::new(grid.blocks(), grid.shape().len(), &fields, 1);
    store.allocate(world.rank(), 0)?;
    boundary.exchange(&mut store.stage(0))?;
    Ok(boundary.close()?)
}

fn run(world: Communicator) -> Checked {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [name, values, more @ ..] = &words[..] else {
        return Err("usage: mpirun -n RANKS stalled slot|rma|early|probe VALUES [again]".into());
    };
    let values = values.parse()?;
    let message = largest_message(&mesh(world.size(), values)?, &[Field::DENSE], world.size());
    let words = if name == "rma" { MpiRma::words(world.size(), message) } else { 1 };
    let window = Window::allocate(&world, words)?;
    let both = |nth: u32| match (name.as_str(), nth) {
        ("slot", 0) => stall(world, MpiSlot::new(world, PATIENT)?, values),
        ("rma", 0) => stall(world, MpiRma::new(world, &window, PATIENT)?, values),
        ("early", 0) => stall(world, MpiStrips::early(world, PATIENT)?, values),
        ("probe", 0) => stall(world, MpiStrips::probing(world, PATIENT)?, values),
        ("slot", _) => again(world, MpiSlot::new(world, PATIENT)?, values),
        ("rma", _) => again(world, MpiRma::new(world, &window, PATIENT)?, values),
        ("early", _) => again(world, MpiStrips::early(world, PATIENT)?, values),
        ("probe", _) => again(world, MpiStrips::probing(world, PATIENT)?, values),
        _ => Err(format!("there is no transport {name}").into()),
    };
    both(0)?;
    if !more.is_empty() {
        both(1)?;
    }
    Ok(window.free()?)
}

fn main() -> Checked {
    together::main(run)
}
