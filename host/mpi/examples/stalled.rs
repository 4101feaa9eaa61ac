//! A rank that stalls in the middle of a run, under `mpirun`.
//!
//! The ranks that wait for it are told rank, blocks and field after the deadline, nobody closes, and all finalize: at
//! once, with what was left on its way, or after an exchange over ends made anew.
//!
//! With `begun` the rank stops after it has begun to send, in the middle of a message if that is long. Its receivers
//! are told the same, drop their ends long before it goes on, and make new ones with it. With `plan` that message is
//! one between exchanges.
//!
//! ```text
//! mpirun -n RANKS stalled slot|rma|early|probe VALUES [again]
//! mpirun -n RANKS stalled slot|rma|early|probe VALUES begun
//! mpirun -n RANKS stalled slot VALUES plan
//! ```
#![forbid(unsafe_code)]

mod together;

use std::error::Error;
use std::io::{self, Write as _};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use umbra::boundary::{
    Boundary, BoundaryError, Field, Grid, Late, Mesh as _, Scope, Settings, Store, Transport, largest_message,
};
use umbra_core::boundary::{Shape, VoteError};
use umbra_mpi::{Communicator, MpiRma, MpiSlot, MpiStrips, Window};

type Checked = Result<(), Box<dyn Error>>;

/// The rank that stalls; the ranks beside it wait.
const STALLED: u32 = 1;
const DEADLINE: Duration = Duration::from_secs(2);
/// How long the rank is stopped that has begun to send.
const STOPPED: Duration = Duration::from_secs(8);
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
    // Some libraries let others read the memory of a rank only while it calls MPI: all have read what it had for them.
    world.gather(&[0])?;
    let beside = (rank + 1) % ranks == STALLED || (STALLED + 1) % ranks == rank;
    let mut open = false;
    if rank == STALLED {
        // Nothing of MPI goes on here meanwhile.
        thread::sleep(DEADLINE + DEADLINE / 2);
    } else {
        let done = boundary.exchange(&mut store.stage(0));
        open = beside;
        if open {
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
        Err(BoundaryError::StillOpen(_)) if open => Ok(()),
        Err(BoundaryError::Vote(VoteError::Open { .. })) if !open => Ok(()),
        other => Err(format!("closed in the middle of an exchange: {other:?}").into()),
    }
}

/// The error of a rank that has waited for the one that stalls: it names that rank, the blocks and the field that are missing.
fn late<V: std::fmt::Debug>(rank: u32, done: &Result<V, BoundaryError>) -> Result<String, Box<dyn Error>> {
    let Err(BoundaryError::Late(late @ Late { missing, .. })) = done else {
        return Err(format!("not late: {done:?}").into());
    };
    let named = format!("rank {STALLED}: block {STALLED} to block {rank}, field 0");
    let text = late.to_string();
    let right = missing.iter().all(|missing| {
        let key = missing.key;
        (key.sender, key.receiver, key.field) == (missing.rank, rank, 0) && missing.rank == STALLED
    });
    if right && text.contains(&named) { Ok(text) } else { Err(format!("names something else: {late:?}").into()) }
}

/// Stops this process from outside, for so long.
fn stop(span: Duration) -> Checked {
    let pid = std::process::id();
    let line = format!("kill -STOP {pid} && sleep {} && kill -CONT {pid}", span.as_secs());
    let status = Command::new("sh").args(["-c", &line]).status()?;
    if status.success() { Ok(()) } else { Err(format!("not stopped: {status}").into()) }
}

/// One exchange that all take part in, and one in which a rank stops after it has sent.
fn stop_in_the_middle<T: Transport>(world: Communicator, transport: T, values: u32) -> Checked {
    let (rank, ranks) = (world.rank(), world.size());
    let (grid, fields) = (mesh(ranks, values)?, [Field::DENSE]);
    let settings = Settings { deadline: PATIENT, ..Settings::default() };
    let mut boundary = Boundary::build(&grid, &fields, transport, settings)?;
    let mut store = Store::new(grid.blocks(), grid.shape().len(), &fields, 1);
    store.allocate(rank, 0)?;
    boundary.exchange(&mut store.stage(0))?;
    boundary.set_deadline(Some(DEADLINE));
    world.gather(&[0])?;
    if rank == STALLED {
        if boundary.send(&store.stage(0), Scope::Any)?.is_pending() {
            return Err("there is no slot to send into".into());
        }
        // After that its receivers still wait, and drop what they wait for.
        stop(STOPPED)?;
        return Ok(());
    }
    let begun = Instant::now();
    let done = boundary.exchange(&mut store.stage(0));
    // What is short is there at once, and some libraries read what is long out of a process that is stopped.
    if done.is_err() {
        writeln!(io::stdout(), "{}", late(rank, &done)?)?;
    }
    ended(world, boundary, begun)
}

/// Drops what waits for a rank that is stopped.
fn ended(world: Communicator, waits: impl Sized, begun: Instant) -> Checked {
    drop(waits);
    let took = begun.elapsed();
    // A second is what is waited for a receive that has begun, and the rest is grace; the rank is stopped for longer.
    if took > DEADLINE + Duration::from_secs(3) {
        return Err(format!("error and end took {took:?}").into());
    }
    writeln!(io::stdout(), "{} bytes are left to the library", world.abandoned())?;
    Ok(())
}

/// A rank stops after it has sent the others a plan of so many bytes: no call of theirs waits for the rest of it.
fn stop_in_a_plan<T: Transport>(world: Communicator, mut transport: T, bytes: u32) -> Checked {
    let plan = vec![7; bytes as usize];
    world.gather(&[0])?;
    if world.rank() == STALLED {
        let mut others = (0..world.size()).filter(|&to| to != STALLED);
        others.try_for_each(|to| transport.write_plan(to, &plan))?;
        return stop(STOPPED);
    }
    let begun = Instant::now();
    let mut came = None;
    while came.is_none() && begun.elapsed() < DEADLINE {
        thread::sleep(Duration::from_millis(1));
        came = transport.read_plan(STALLED)?;
    }
    if came.is_some_and(|came| came != plan) {
        return Err("another plan came".into());
    }
    ended(world, transport, begun)
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
        return Err("usage: mpirun -n RANKS stalled slot|rma|early|probe VALUES [again|begun|plan]".into());
    };
    let values = values.parse()?;
    let message = largest_message(&mesh(world.size(), values)?, &[Field::DENSE], world.size());
    let words = if name == "rma" { MpiRma::words(world.size(), message) } else { 1 };
    let window = Window::allocate(&world, words)?;
    let [begun, plan] = ["begun", "plan"].map(|word| more.first().is_some_and(|more| more == word));
    let both = |nth: u32| match (name.as_str(), nth) {
        ("slot", 0) if begun => stop_in_the_middle(world, MpiSlot::new(world, PATIENT)?, values),
        ("slot", 0) if plan => stop_in_a_plan(world, MpiSlot::new(world, PATIENT)?, values * 8),
        ("rma", 0) if begun => stop_in_the_middle(world, MpiRma::new(world, &window, PATIENT)?, values),
        ("early", 0) if begun => stop_in_the_middle(world, MpiStrips::early(world, PATIENT)?, values),
        ("probe", 0) if begun => stop_in_the_middle(world, MpiStrips::probing(world, PATIENT)?, values),
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
