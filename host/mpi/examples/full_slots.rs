//! Slots that are full, or too small for what comes, by `mpirun`.
//!
//! A rank sends 128 KiB to one that does not receive, and no call of it waits. All fields become live at once: what does not
//! fit comes nevertheless, the slots grow, and later shrink. Messages of a hundred slots go both ways over slots that cannot
//! grow: nobody waits in a circle, and the memory of slots stays as it was.
//!
//! ```text
//! mpirun -n 2 full_slots
//! ```
#![forbid(unsafe_code)]

mod together;

use std::error::Error;
use std::io::{self, Write as _};
use std::time::Duration;

use umbra::boundary::{
    Boundary, Field, Fields as _, Grid, Mesh as _, Scope, Settings, Store, Transport, largest_message,
};
use umbra_core::boundary::{Shape, Sparse};
use umbra_mpi::{Communicator, MpiNodes, MpiRma, MpiSlot, MpiStrips, Window};

type Checked<T = ()> = Result<T, Box<dyn Error>>;

const RANKS: u32 = 2;
const DEADLINE: Option<Duration> = Some(Duration::from_secs(60));
/// Cells of a strip of 128 KiB.
const LONG: u32 = 128 * 1024 / 8;
/// Times that a rank asks to send what was sent, or cannot be sent yet.
const ASKED: usize = 100;
/// Cells of a block and of a strip where there are many fields.
const CELLS: u32 = 128;
const FIELDS: u16 = 202;
/// Bytes of a slot that cannot grow; a message has more than a hundred times as many.
const FIXED: u32 = 4096;
/// Exchanges after which a slot has shrunk.
const QUIET: u32 = 200;

/// A ring of two blocks, one a rank, with strips of so many values on each side.
fn mesh(values: u32) -> Checked<Grid> {
    Ok(Grid::new(Shape::new([values, 1, 1], [values, 0, 0])?, [RANKS, 1, 1], [true, false, false], RANKS))
}

/// One rank, its fields, and the communicator on which it meets the other.
struct Full<T> {
    world: Communicator,
    boundary: Boundary<T>,
    store: Store,
    fields: u16,
    cells: usize,
}

impl<T: Transport> Full<T> {
    fn new(world: Communicator, end: T, cells: u32, fields: &[Field], settings: Settings) -> Checked<Full<T>> {
        let mesh = mesh(cells)?;
        let boundary = Boundary::build(&mesh, fields, end, Settings { deadline: DEADLINE, ..settings })?;
        let mut store = Store::new(mesh.blocks(), mesh.shape().len(), fields, 1);
        let count = fields.len() as u16;
        (0..count).try_for_each(|field| store.allocate(world.rank(), field))?;
        Ok(Full { world, boundary, store, fields: count, cells: cells as usize })
    }

    /// Both ranks are here.
    fn meet(&self) -> Checked {
        self.world.gather(&[0])?;
        Ok(())
    }

    /// What a rank has in a cell of a field in an exchange; nothing in exchange 0.
    fn value(rank: u32, exchange: u32, field: u16, cell: usize) -> f64 {
        let place = f64::from(rank * 4096 + u32::from(field)) + cell as f64 / f64::from(LONG);
        if exchange == 0 { 0.0 } else { f64::from(exchange) * 1e5 + place }
    }

    fn fill(&mut self, exchange: u32) -> Checked {
        let (rank, cells) = (self.world.rank(), self.cells);
        for field in 0..self.fields {
            let mut stage = self.store.stage(0);
            let own = stage.values_mut(rank, field).and_then(|all| all.get_mut(cells..2 * cells)).ok_or("no field")?;
            own.iter_mut().enumerate().for_each(|(cell, to)| *to = Self::value(rank, exchange, field, cell));
        }
        Ok(())
    }

    /// Bytes that the transport holds to receive into.
    fn held(&self) -> u64 {
        self.boundary.held().map_or(u64::MAX, |held| held.receive)
    }

    fn is_sent(&mut self) -> Checked<bool> {
        Ok(self.boundary.send(&self.store.stage(0), Scope::Any)?.is_ready())
    }

    fn send(&mut self, exchange: u32) -> Checked {
        self.fill(exchange)?;
        if self.is_sent()? { Ok(()) } else { Err(format!("no slot for message {exchange}").into()) }
    }

    /// Receives, and looks at all that came, which is that of the exchange on both sides of the block.
    fn finish(&mut self, exchange: u32) -> Checked {
        self.boundary.wait(&mut self.store.stage(0), Scope::Any)?;
        self.boundary.set(&mut self.store.stage(0), Scope::Any)?;
        let (rank, cells) = (self.world.rank(), self.cells);
        for field in 0..self.fields {
            let values = self.store.values(rank, field, 0).ok_or("no field")?;
            let ghosts = values[..cells].iter().zip(&values[2 * cells..]).enumerate();
            for (cell, (low, high)) in ghosts {
                let right = Self::value(1 - rank, exchange, field, cell);
                if (*low, *high) != (right, right) {
                    return Err(format!("field {field}, cell {cell}: {low} and {high}, not {right}").into());
                }
            }
        }
        Ok(())
    }

    fn exchange(&mut self, exchange: u32) -> Checked {
        self.send(exchange)?;
        self.finish(exchange)
    }
}

/// Sends to a rank that does not receive: nothing of that waits for it (s7).
fn unreceived<T: Transport>(world: Communicator, end: T, smallest_slot: u32) -> Checked {
    let settings = Settings { smallest_slot, ..Settings::default() };
    let mut rank = Full::new(world, end, LONG, &[Field::DENSE], settings)?;
    rank.send(1)?;
    if world.rank() == 0 {
        rank.finish(1)?;
        rank.send(2)?;
        for _ in 0..ASKED {
            if !rank.is_sent()? {
                return Err("what was sent does not stay sent".into());
            }
        }
        if rank.boundary.counts().messages != 2 {
            return Err(format!("sent again: {:?}", rank.boundary.counts()).into());
        }
    }
    rank.meet()?;
    if world.rank() == 1 {
        rank.finish(1)?;
        rank.send(2)?;
    }
    rank.finish(2)
}

/// All fields have something at once, and later nothing again (s38).
fn burst<T: Transport>(world: Communicator, end: T, bounded: bool) -> Checked {
    let fields = [Field::sparse(Sparse::new(0.5, 0.5, 0.0)?); FIELDS as usize];
    let settings = Settings { smallest_slot: FIXED, ..Settings::default() };
    let mut rank = Full::new(world, end, CELLS, &fields, settings)?;
    (0..3).try_for_each(|_| rank.exchange(0))?;
    let (before, dense) = rank.boundary.receive_bytes();
    (1..6).try_for_each(|exchange| rank.exchange(exchange))?;
    let ((after, _), overflows) = (rank.boundary.receive_bytes(), rank.boundary.counts().overflows);
    if !(1..=2).contains(&overflows) || after <= 10 * before || after > dense {
        return Err(format!("{before} bytes of slots became {after} of {dense} after {overflows} overflows").into());
    }
    (0..QUIET).try_for_each(|_| rank.exchange(0))?;
    let (last, _) = rank.boundary.receive_bytes();
    let held = if bounded { rank.held() } else { 0 };
    // Up to twice as much stays as is announced.
    if last > 2 * before || held > 2 * last {
        return Err(format!("{last} bytes of slots in {held} after a burst, {before} before it").into());
    }
    Ok(())
}

/// Messages of a hundred slots each way, with all slots full (s39).
fn beyond<T: Transport>(world: Communicator, end: T, bounded: bool) -> Checked {
    let fields = [Field::sparse(Sparse::new(0.5, 0.5, 0.0)?); FIELDS as usize];
    let settings = Settings { smallest_slot: FIXED, largest_slot: FIXED, ..Settings::default() };
    let mut rank = Full::new(world, end, CELLS, &fields, settings)?;
    let slots = 2 * u64::from(FIXED);
    for round in 0..4 {
        let (leads, turn) = (round % 2 == world.rank(), 1 + 2 * round);
        // Both have sent before either receives.
        rank.send(turn)?;
        rank.meet()?;
        if leads {
            // Who has received may send the next, into the last slot. Then it has no credit left.
            rank.finish(turn)?;
            rank.send(turn + 1)?;
            for _ in 0..10 {
                if rank.boundary.receive(&mut rank.store.stage(0), Scope::Any)?.is_ready() {
                    return Err("received what nobody has sent".into());
                }
            }
        }
        rank.meet()?;
        if !leads {
            rank.finish(turn)?;
            rank.send(turn + 1)?;
        }
        rank.finish(turn + 1)?;
        let announced = rank.boundary.receive_bytes().0;
        let held = if bounded { rank.held() } else { slots };
        if (announced, held) != (slots, slots) {
            return Err(format!("{announced} bytes of slots in {held}, and not {slots}").into());
        }
        rank.meet()?;
    }
    let counts = rank.boundary.counts();
    let right = (counts.messages, counts.overflows) == (8, 8) && counts.payload_bytes >= 8 * 100 * u64::from(FIXED);
    if right { Ok(()) } else { Err(format!("{counts:?}").into()) }
}

/// All of it over one transport, whose ends this makes; `bounded` if it holds no more than is announced.
fn over<T: Transport>(world: Communicator, name: &str, bounded: bool, end: impl Fn() -> Checked<T>) -> Checked {
    for smallest_slot in [256, 1 << 19] {
        unreceived(world, end()?, smallest_slot).map_err(|e| format!("{name}, slots of {smallest_slot}: {e}"))?;
    }
    burst(world, end()?, bounded).map_err(|error| format!("{name}, a burst: {error}"))?;
    beyond(world, end()?, bounded).map_err(|error| format!("{name}, a hundred slots: {error}"))?;
    if world.rank() == 0 {
        writeln!(io::stdout(), "full slots over {name} keep nobody waiting, and all values came")?;
    }
    Ok(())
}

fn run(world: Communicator) -> Checked {
    let dense = vec![Field::DENSE; FIELDS.into()];
    let largest =
        largest_message(&mesh(LONG)?, &[Field::DENSE], RANKS).max(largest_message(&mesh(CELLS)?, &dense, RANKS));
    let window = Window::allocate(&world, MpiRma::words(RANKS, largest))?;
    over(world, "mpi-slot", true, || Ok(MpiSlot::new(world, DEADLINE)?))?;
    over(world, "mpi-rma", false, || Ok(MpiRma::new(world, &window, DEADLINE)?))?;
    let nodes = MpiNodes::new(world)?;
    over(world, "mpi-nodes", true, || Ok(nodes.end(largest, DEADLINE)?))?;
    over(world, "mpi-early", false, || Ok(MpiStrips::early(world, DEADLINE)?))?;
    over(world, "mpi-probe", false, || Ok(MpiStrips::probing(world, DEADLINE)?))?;
    Ok(window.free()?)
}

fn main() -> Checked {
    together::main(run)
}
