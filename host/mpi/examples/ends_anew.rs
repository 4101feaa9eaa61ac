//! Ends made anew over one communicator, under `mpirun`.
//!
//! What was left for the end before does not reach the next one, over any transport.
//!
//! ```text
//! mpirun -n RANKS ends_anew
//! ```
#![forbid(unsafe_code)]

mod together;

use std::error::Error;
use std::io::{self, Write as _};
use std::time::{Duration, Instant};

use umbra::boundary::{
    Boundary, BoundaryError, Field, Fields as _, Grid, Mesh as _, NoMemory, Scope, Settings, Store, Transport,
    TransportError, largest_message,
};
use umbra_core::boundary::{Channel, Config, Exchange, HEAD, Kind, Message, Peer, Shape, Storage, Vote, bitmap_bytes};
use umbra_mpi::{Communicator, MpiError, MpiNodes, MpiRma, MpiSlot, MpiStrips, Window};

type Checked = Result<(), Box<dyn Error>>;

/// Cells of a block, and ghosts on each side of it.
const CELLS: usize = 4;
const GHOSTS: usize = 2;
const SETTINGS: Settings = Settings {
    deadline: Some(Duration::from_secs(60)),
    smallest_slot: 128,
    largest_slot: u32::MAX,
    reversed: false,
    timed: false,
    kind: Kind::GHOST,
};
/// The tag of the message by which a rank begins an end.
const BEGIN: u32 = 6;
/// How often a rank looks for what must not come.
const LOOKS: u32 = 1000;

/// A ring of blocks, one a rank.
fn mesh(ranks: u32) -> Result<Grid, Box<dyn Error>> {
    let shape = Shape::new([CELLS as u32, 1, 1], [GHOSTS as u32, 0, 0])?;
    Ok(Grid::new(shape, [ranks, 1, 1], [true, false, false], ranks))
}

fn fields(count: usize) -> Vec<Field> {
    vec![Field::DENSE; count]
}

/// Waits until all ranks are here.
fn meet(world: Communicator) -> Result<(), MpiError> {
    world.gather(&[0]).map(|_| ())
}

/// A block of this rank, full of one value.
fn filled(grid: &Grid, rank: u32, value: f64) -> Result<Store, NoMemory> {
    let mut store = Store::new(grid.blocks(), grid.shape().len(), &fields(1), 1);
    store.allocate(rank, 0)?;
    if let Some(values) = store.stage(0).values_mut(rank, 0) {
        values.fill(value);
    }
    Ok(store)
}

/// The plans of a build that one rank has refused are not taken for those of the next one.
fn plans<T: Transport>(world: Communicator, make: impl Fn() -> Result<T, TransportError>) -> Checked {
    let grid = mesh(world.size())?;
    if world.rank() == 0 {
        Boundary::refuse(make()?, SETTINGS);
    } else {
        match Boundary::build(&grid, &fields(1), make()?, SETTINGS) {
            Err(BoundaryError::RefusedElsewhere(0)) => {}
            Err(other) => return Err(other.into()),
            Ok(_) => return Err("built what another rank has refused".into()),
        }
    }
    Ok(Boundary::build(&grid, &fields(2), make()?, SETTINGS)?.close()?)
}

/// A message that was sent to an end that is gone is not taken for the same one to the next end.
fn messages<T: Transport>(world: Communicator, make: impl Fn() -> Result<T, TransportError>) -> Checked {
    let (grid, rank, ranks) = (mesh(world.size())?, world.rank(), world.size());
    let mut first = Some(Boundary::build(&grid, &fields(1), make()?, SETTINGS)?);
    if rank == 0 {
        first = None;
    }
    meet(world)?;
    if let Some(mut boundary) = first {
        while boundary.send(&filled(&grid, rank, -1.0)?.stage(0), Scope::Any)?.is_pending() {}
    }
    let value = |rank: u32| f64::from(rank);
    let mut second = Boundary::build(&grid, &fields(1), make()?, SETTINGS)?;
    let mut store = filled(&grid, rank, value(rank))?;
    if rank == 0 {
        while second.send(&store.stage(0), Scope::Any)?.is_pending() {}
        for _ in 0..LOOKS {
            if second.receive(&mut store.stage(0), Scope::Any)?.is_ready() {
                return Err("a message came that nobody has sent to this end".into());
            }
        }
    }
    meet(world)?;
    while second.send(&store.stage(0), Scope::Any)?.is_pending() {}
    second.wait(&mut store.stage(0), Scope::Any)?;
    second.set(&mut store.stage(0), Scope::Any)?;
    let (left, right) = (value((rank + ranks - 1) % ranks), value((rank + 1) % ranks));
    let values = store.values(rank, 0, 0).unwrap_or(&[]);
    let expected = [[left; GHOSTS].as_slice(), &[value(rank); CELLS], &[right; GHOSTS]].concat();
    if values != expected {
        return Err(format!("the block holds {values:?}, not {expected:?}").into());
    }
    Ok(second.close()?)
}

/// A message that is sent while the one before is refused is shown.
fn sent_meanwhile(world: Communicator, window: &Window) -> Checked {
    let (mut end, slot) = (MpiRma::new(world, window, SETTINGS.deadline)?, 1);
    let head = HEAD + bitmap_bytes(0);
    let config = Config { epoch: 1, kind: Kind::GHOST, slots: 2, smallest: 0, largest: u32::MAX, deadline: None };
    let (peers, channels): (_, [Channel<()>; 0]) = ([Peer::new(u32::from(world.rank() == 0), 0..0, 0..0)], []);
    let planned = Exchange::new(Storage { peers, entries: [], channels, live: [0; 0], local: 0..0 }, config)?;
    end.plans(1, planned.peers(), &[])?;
    let publish = |end: &mut MpiRma<&Window>, sequence: u32| match world.rank() {
        1 => end.publish(
            &Message { rank: 0, sequence, slot, head, in_slot: 0, overflow: 0 },
            1,
            &vec![sequence as u8; head],
        ),
        _ => Ok(()),
    };
    let shown = |end: &mut MpiRma<&Window>, sequence: u32| {
        let (mut seen, until) = (vec![0; head], Instant::now() + Duration::from_secs(60));
        while !end.look(1, slot, &mut seen)? && Instant::now() < until {}
        Ok::<_, Box<dyn Error>>(seen == vec![sequence as u8; head])
    };
    publish(&mut end, 1)?;
    meet(world)?;
    if world.rank() == 0 && !shown(&mut end, 1)? {
        return Err("the first message is not shown".into());
    }
    meet(world)?;
    publish(&mut end, 3)?;
    meet(world)?;
    if world.rank() == 0 {
        end.taken(1, slot, head as u32)?;
        if !shown(&mut end, 3)? {
            return Err("a message that was sent since the one before was looked at is lost".into());
        }
        end.taken(1, slot, head as u32)?;
        for _ in 0..LOOKS {
            if end.look(1, slot, &mut vec![0; head])? {
                return Err("a message that was taken is shown".into());
            }
        }
    }
    Ok(meet(world)?)
}

/// Whoever is late himself makes his end if all others have come: what is there is heard before anybody is taken for absent.
fn late(world: Communicator) -> Checked {
    let (apart, late) = (world.duplicate()?, 0);
    let mut end = MpiSlot::new(apart, SETTINGS.deadline)?;
    if apart.rank() != late {
        // Messages to the end before, in front of that by which the next one begins.
        (1..4).try_for_each(|round| end.vote(round, Vote { epoch: 1, sequence: 1, open: 0 }))?;
    }
    meet(world)?;
    drop(end);
    let mut deadline = SETTINGS.deadline;
    if apart.rank() == late {
        for rank in 1..apart.size() {
            while apart.probe(rank, BEGIN)?.is_none() {}
        }
        deadline = Some(Duration::ZERO);
    }
    MpiSlot::new(apart, deadline).map_err(|error| format!("all others have come: {error}"))?;
    Ok(meet(world)?)
}

/// A second end at a time is refused, and a rank that does not come is named; then no end is made there any more.
fn refused(world: Communicator) -> Checked {
    let apart = world.of_this_node()?;
    let make = |patience| MpiSlot::new(apart, patience).map(|_| ());
    let end = MpiSlot::new(apart, SETTINGS.deadline)?;
    let second = make(SETTINGS.deadline);
    drop(end);
    if second != Err(TransportError::HasEnd) {
        return Err(format!("a second end at a time: {second:?}").into());
    }
    // The first rank that others wait for.
    let absent = 0;
    if apart.rank() != absent {
        for (patience, what) in [(Some(Duration::from_millis(100)), "does not come"), (None, "did not come")] {
            let made = make(patience);
            if made != Err(TransportError::Silent { rank: absent }) {
                return Err(format!("an end without a rank that {what}: {made:?}").into());
            }
        }
    }
    Ok(meet(world)?)
}

fn run(world: Communicator) -> Checked {
    let message = largest_message(&mesh(world.size())?, &fields(2), world.size());
    let window = Window::allocate(&world, MpiRma::words(world.size(), message))?;
    let nodes = MpiNodes::split(world, u16::try_from(world.rank() % 2)?)?;
    for name in ["mpi-slot", "mpi-rma", "mpi-nodes", "mpi-early", "mpi-probe"] {
        let both = match name {
            "mpi-slot" => both(world, || MpiSlot::new(world, SETTINGS.deadline)),
            "mpi-rma" => both(world, || MpiRma::new(world, &window, SETTINGS.deadline)),
            "mpi-nodes" => both(world, || nodes.end(message, SETTINGS.deadline)),
            "mpi-early" => both(world, || MpiStrips::early(world, SETTINGS.deadline)),
            _ => both(world, || MpiStrips::probing(world, SETTINGS.deadline)),
        };
        both.map_err(|error| format!("{name}: {error}"))?;
    }
    sent_meanwhile(world, &window)?;
    late(world)?;
    refused(world)?;
    window.free()?;
    if world.rank() == 0 {
        writeln!(io::stdout(), "{} ranks took nothing that was sent to an end before", world.size())?;
    }
    Ok(())
}

fn both<T: Transport>(world: Communicator, make: impl Fn() -> Result<T, TransportError>) -> Checked {
    plans(world, &make).map_err(|error| format!("plans: {error}"))?;
    messages(world, &make).map_err(|error| format!("messages: {error}").into())
}

fn main() -> Result<(), Box<dyn Error>> {
    together::main(run)
}
